"""Tile programs by all that they follow from: the kernel, the target, ge's own files. So a
program is written once for equal kernels of a compilation, and, where a folder keeps them, of all
of them.

Elements of vectors of floats are no part of that: for layers that differ in a bias alone, one
program is written (`library/costs/structure.py`).

In a folder the hash of all that names an entry, a file: a line with the hash of the rest, and as
JSON the text of the program, or why there is none. Entries appear whole (they are written beside
and renamed), so any number of compilers may share a folder. One that others may have written or
that does not hold together is written anew. The folder may be deleted at any time.

Cuts of kernels that were measured to be faster than those that estimates choose are in a file, by
what they are for: the kernel's text, whatever it is called, and the target.

    {"kernels": [{"name": "linear_0", "kernel": "5d41402a...", "target": "910b2",
                  "cut": "MatmulCut(m=128, n=256, k=128, part=64, sums=1)",
                  "us": 41.2, "own_us": 43.0}]}

`ge-tune PROGRAM.mlir -o FILE` writes such a file, `ge-compile --tunings FILE` takes what fits. A
cut that a later version no longer knows is passed over."""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, fields
from functools import cache, cached_property, partial
from hashlib import sha256
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any, TypeAlias, cast

from xdsl.context import Context
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from ge.dialects.fused_op import CustomOp
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.diagnostics import remark, warning
from ge.dialects.support.distribution import version
from ge.dialects.support.environment import WRONG, Unsound, read_entry, write_entry
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import all_ops
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.targets.target import Target
from ge.dialects.text.kept import own_files
from ge.dialects.text.printing import Outline, op_text
from ge.dialects.text.reading import SourceText, parse_module
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.dialects.tile.text import TextKernelOp
from ge.runtime.library.costs.estimates import figures_of, keep, keep_as, read_figures
from ge.runtime.library.costs.structure import data_of, unseen
from ge.runtime.library.launch import (
    Choice,
    NotLowered,
    author_of,
    choosing,
    is_passed_over,
)

NAME = "program"

HEAD = f"{TileKernelOp.name} @{NAME}"

OWN = ("ge", "xdsl")  # packages whose ops are the same as long as these are

MOST_PARSED = 256  # programs whose ops are kept

_parsed: dict[str, TileKernelOp] = {}

Write: TypeAlias = Callable[[], TileKernelOp]

"""Writes the program of a kernel. Raises NotLowered."""


@dataclass
class Shared:
    """The programs of one compilation: kernels that are equal have equal ones."""

    facts: str = ""  # what all of them follow from
    cut: Callable[[KernelOp], str] = lambda kernel: ""  # that a kernel shall have; empty: its own
    texts: dict[Any, str] = field(default_factory=dict[Any, str])  # of attributes
    written: dict[str, TileKernelOp | str] = field(default_factory=dict[str, TileKernelOp | str])
    passed_over: set[str] = field(default_factory=set[str])  # keys with a cut that does not fit

    @cached_property
    def outline(self) -> Outline:
        return Outline(self.texts)

    def program(self, kernel: KernelOp, write: Write) -> TileKernelOp:
        """The program of a kernel: that of an equal one, or what `write` writes; always that if it
        depends on a plugin, or a kernel by hand, whose code may have changed since. Raises
        NotLowered."""
        ops = all_ops(kernel.body.blocks)
        if any(map(is_foreign, ops)):
            return write()
        with unseen(data_of(ops)):
            cut = self.cut(kernel)
            key, choice = f"{self.facts}{self.outline.of(kernel, ('sym_name',))}{cut}", Choice(cut)
            with choosing(choice) if cut else nullcontext():
                program = self.found(kernel, key, write)
        if cut and (choice.is_passed_over if choice.taken else key in self.passed_over):
            self.passed_over.add(key)
            text = f"@{kernel.sym_name.data} has no cut {cut} that fits, as the tunings say"
            warning(kernel, f"{text}: it has its own; ge-tune finds out anew which is the fastest")
        return program

    def found(self, kernel: KernelOp, key: str, write: Write) -> TileKernelOp:
        """The program for a key that says all that it follows from. Raises NotLowered."""
        program = self.written.get(key)
        if isinstance(program, TileKernelOp):
            keep_as(copy := program.clone(), program)
            return copy
        if program is None:
            try:
                program = write()
            except NotLowered as e:
                program = str(e)
            self.written[key] = program
        if isinstance(program, str):
            raise NotLowered(program)
        return program


@dataclass
class Kept(Shared):
    """The programs of a folder, for one target."""

    folder: Path = field(kw_only=True)
    target: Target = field(kw_only=True)
    ctx: Context = field(kw_only=True)
    entries: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    @classmethod
    def at(
        cls, folder: str, target: Target, ctx: Context, cut: Callable[[KernelOp], str]
    ) -> "Kept":
        facts = compiler() + json.dumps(asdict(target), default=str)
        return cls(facts, cut, folder=Path(folder), target=target, ctx=ctx)

    def found(self, kernel: KernelOp, key: str, write: Write) -> TileKernelOp:
        name = name_of(key)
        if (entry := self.entries.get(name)) is None:
            path = self.folder / name
            if (entry := entry_at(path, kernel)) is None:
                entry = new_entry(write, self.texts, self.target)
                entry["passed_over"] = is_passed_over()
                keep_entry(path, entry, kernel)
            self.entries[name] = entry
        if entry.get("passed_over"):
            self.passed_over.add(key)
        if "reason" in entry:
            raise NotLowered(entry["reason"])
        facts = entry["cores"], entry["text"], partial(parsed, self.ctx), entry["workspace"]
        program = TextKernelOp(NAME, *facts)
        keep(program, self.target, read_figures(entry["figures"]))
        return program


def parsed(ctx: Context, text: str) -> TileKernelOp:
    """The program of a text, which must not be changed: all compilations have the same one."""
    if (known := _parsed.get(text)) is None:
        (op,) = parse_module(ctx, SourceText("a tile program", text)).ops
        op.detach()
        assert isinstance(op, TileKernelOp)
        if len(_parsed) >= MOST_PARSED:
            _parsed.clear()
        known = _parsed[text] = op
    return known


def entry_at(path: Path, place: Operation) -> dict[str, Any] | None:
    """Return what a file keeps for the kernel, or module, at a place; None if there is no file, or
    it is damaged."""
    try:
        return read_entry(path)
    except FileNotFoundError:
        return None
    except (Unsound, *WRONG):
        remark(place, f"{path} is damaged, or others may write to it: it is written anew")
        return None


def keep_entry(path: Path, entry: Mapping[str, Any], place: Operation) -> None:
    try:
        write_entry(path, entry)
    except OSError as e:
        remark(place, f"{path.parent}: no tile program is kept: {e}")


def new_entry(write: Write, texts: dict[Any, str], target: Target) -> dict[str, Any]:
    """Return the entry that a folder keeps for a kernel. `texts`: those of attributes, for all
    kernels."""
    try:
        program = write()
    except NotLowered as e:
        return {"reason": str(e)}
    program.sym_name = StringAttr(NAME)
    return {
        "cores": program.core_count,
        "workspace": program.workspace_bytes,
        "figures": figures_of(program, target),
        "text": op_text(program, attributes=texts).removeprefix(HEAD),
    }


def name_of(key: str) -> str:
    """Return the file name of an entry, or of the answers of a compiler."""
    return sha256(key.encode()).hexdigest()


def is_foreign(op: Operation) -> bool:
    """Return whether an op is none of `OWN`, or has a kernel by hand."""
    foreign = isinstance(op, CustomOp) or is_foreign_class(type(op))
    return foreign or (isinstance(op, TensorOp) and author_of(op) is not None)


@cache
def is_foreign_class(kind: type[Operation]) -> bool:
    return kind.__module__.partition(".")[0] not in OWN


@cache
def compiler() -> str:
    """Return a text that identifies this compiler."""
    return json.dumps([version(), version_of("xdsl"), *own_files()])


def nameless(kernel: KernelOp) -> str:
    """The text of a kernel, whatever its name is."""
    name, kernel.sym_name = kernel.sym_name, StringAttr(NAME)
    try:
        return op_text(kernel)
    finally:
        kernel.sym_name = name


PART = "kernels"  # of the file; others are for kernels in Python

LATER = ("tiles", "tiling")  # what a kernel gets when its program is written


@dataclass(frozen=True)
class TunedKernel:
    """The fastest cut of a kernel, and microseconds: of it, and of the one that its lowering takes.
    `name`: what the kernel was called, for people."""

    name: str
    kernel: str
    target: str
    cut: str
    us: float
    own_us: float


KEYS = {f.name: str if f.type is str else (int, float) for f in fields(TunedKernel)}


@dataclass(frozen=True)
class KernelTunings:
    """Those of a file, by kernel and target."""

    entries: Mapping[tuple[str, str], TunedKernel] = field(
        default_factory=dict[tuple[str, str], TunedKernel]
    )

    @classmethod
    def read(cls, path: str) -> "KernelTunings":
        """Read a file of tunings. Raises GeError for a file that is none."""
        hint = "ge-tune PROGRAM.mlir -o FILE writes such files"
        try:
            parts: Any = json.loads(Path(path).read_text())
            rows = rows_of(parts)
        except OSError as e:
            raise GeError(f"cannot read the tunings: {e.strerror}", path, hint) from None
        except ValueError as e:
            raise GeError(f"it is no file of tunings: {e}", path, hint) from None
        entries = [TunedKernel(**row) for row in rows]
        return cls({(e.kernel, e.target): e for e in entries})

    def cut(self, kernel: KernelOp, target: Target) -> str:
        """Return the cut that is kept for a kernel; empty: none."""
        if not self.entries:
            return ""
        entry = self.entries.get((kernel_hash(kernel, target), target.name))
        return "" if entry is None else entry.cut

    def merged(self, others: Iterable[TunedKernel]) -> "KernelTunings":
        """Return the tunings with others in the place of those for the same kernels."""
        return KernelTunings({**self.entries, **{(e.kernel, e.target): e for e in others}})

    def rows(self) -> list[dict[str, Any]]:
        return [asdict(e) for e in self.entries.values()]


def rows_of(parts: Any) -> list[dict[str, Any]]:
    """The entries for kernels of a file. Raises ValueError for a text that has none."""
    found: Any = cast("dict[str, Any]", parts).get(PART, []) if isinstance(parts, dict) else None
    if not isinstance(found, list):
        raise ValueError(f"it has no list '{PART}'")
    rows = cast("list[dict[str, Any]]", found)
    for i, row in enumerate(rows):
        if not isinstance(row, dict) or set(row) != set(KEYS):  # pyright: ignore
            raise ValueError(f"entry {i} of '{PART}' has not the keys {', '.join(KEYS)}")
        for key, kind in KEYS.items():
            if not isinstance(row[key], kind):
                what = "text" if kind is str else "number"
                raise ValueError(f"'{key}' of entry {i} of '{PART}' is no {what}: {row[key]!r}")
    return rows


def kernel_hash(kernel: KernelOp, target: Target) -> str:
    """Return a hash of all that a kernel's program follows from, but ge itself. What `unseen` hides
    is hidden."""
    alone = kernel.clone()
    for name in LATER:
        alone.properties.pop(name, None)
    text = json.dumps(asdict(target), default=str) + nameless(alone)
    return sha256(text.encode()).hexdigest()
