"""What can be watched while passes run: time, records, the IR before and after, a reproducer."""

import os
import shlex
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.support.diagnostics import diagnostic_handler
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import regions_of
from ge.dialects.support.packages import installed
from ge.lowering.levels.level import Level, level_of
from ge.lowering.pipeline.nesting import innermost
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.pass_manager import Instrumentation
from ge.lowering.pipeline.pass_options import pipeline_text
from ge.lowering.text.files import Outputs, write_text
from ge.lowering.text.printing import dump_text, op_text

ONNX = "onnx"  # form of dumps


def count_ops(module: ModuleOp) -> int:
    """The ops of a module, itself and those in regions included."""
    count, blocks = 1, list(module.body.blocks)
    while blocks:
        op = blocks.pop().first_op
        while op is not None:
            count += 1
            for region in regions_of(op):
                blocks.extend(region.blocks)
            op = op.next_op
    return count


# ---- records ---------------------------------------------------------------------------------


@dataclass
class PassRecord:
    """What one pass did: wall time, and the number of ops after it."""

    name: str
    seconds: float
    ops: int


# Called before each pass with its name, its number and the number of passes
Progress = Callable[[str, int, int], None]


@dataclass
class Records(Instrumentation):
    """Adds a record of each pass, and tells how far things are."""

    records: list[PassRecord]
    total: int
    progress: Progress | None = None
    _done: int = 0
    _start: float = 0.0

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        if self.progress is not None:
            self.progress(p.name, self._done, self.total)
        self._start = time.perf_counter()

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        seconds = time.perf_counter() - self._start
        self.records.append(PassRecord(p.name, seconds, count_ops(module)))
        self._done += 1


# ---- time ------------------------------------------------------------------------------------


@dataclass
class Timing(Instrumentation):
    """Seconds and number of ops for each pass; `phase` adds what is not a pass."""

    records: list[tuple[str, float, int | None]] = field(
        default_factory=list[tuple[str, float, int | None]]
    )
    _start: float = field(default_factory=time.perf_counter)

    def phase(self, name: str, ops: int | None = None) -> None:
        """What happened since the last record was `name`."""
        now = time.perf_counter()
        self.records.append((name, now - self._start, ops))
        self._start = time.perf_counter()

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        self.phase("(verify)")

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        seconds = time.perf_counter() - self._start
        self.records.append((f"'{p.name}' Pass", seconds, count_ops(module)))
        self._start = time.perf_counter()

    def report(self) -> str:
        """A table as of `mlir-opt --mlir-timing`, with the number of ops after each pass."""
        total = sum(seconds for _, seconds, _ in self.records)
        bar = f"===-{'-' * 73}-==="
        lines = [bar, f"{'... Execution time report ...':^81}".rstrip(), bar]
        lines += [f"  Total Execution Time: {total:.4f} seconds", ""]
        lines += ["  ----Wall Time----  ---Ops---  ----Name----"]
        for name, seconds, ops in [*self.records, ("Total", total, None)]:
            share = 100 * seconds / total if total else 0.0
            count = "" if ops is None else str(ops)
            lines.append(f"  {seconds:8.4f} ({share:5.1f}%)  {count:>9}  {name}")
        return "\n".join(lines)


# ---- IR dumps --------------------------------------------------------------------------------


@dataclass
class IRPrinting(Instrumentation):
    """Prints the module before and after the chosen passes; `*` chooses all."""

    stream: TextIO
    before_passes: frozenset[str] = frozenset()
    after_passes: frozenset[str] = frozenset()
    only_changes: bool = False
    after_failure: bool = False
    elide: int | None = None
    generic: bool = False
    debuginfo: bool = False
    _last: str = ""

    def text(self, module: ModuleOp) -> str:
        return op_text(module, elide=self.elide, generic=self.generic, debuginfo=self.debuginfo)

    def dump(self, when: str, p: ModulePass, text: str) -> None:
        name = type(innermost(p)).__name__.removesuffix("Pass")
        print(f"// -----// IR Dump {when} {name} ({p.name}) //----- //", file=self.stream)
        print(f"{text}\n", file=self.stream)

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        wanted = bool(self.before_passes & {p.name, "*"})
        if wanted or self.only_changes:
            self._last = self.text(module)
        if wanted:
            self.dump("Before", p, self._last)

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        if self.after_passes & {p.name, "*"}:
            text = self.text(module)
            if not self.only_changes or text != self._last:
                self.dump("After", p, text)

    def failed(self, p: ModulePass, module: ModuleOp, why: str) -> None:
        if self.after_failure:
            self.dump("After Failure of", p, self.text(module))


@dataclass
class Between(Instrumentation):
    """What xdsl-opt prints between passes: seconds, and the IR."""

    times: bool
    ir: bool
    _previous: str = ""
    _start: float = 0.0

    def start(self, module: ModuleOp) -> None:
        self._previous = ""

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        if self.ir and self._previous:
            print(f"IR after {self._previous}:\n{op_text(module)}\n\n\n")
        self._start = time.perf_counter()

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        self._previous = p.name
        if self.times:
            print(f"Pass {p.name} took {time.perf_counter() - self._start} seconds")


@dataclass
class Dumps(Instrumentation):
    """Writes the module after each pass to a file of its own, `NUMBER-PASS.mlir`, or, at the graph
    and the fused level where `form` is onnx, `NUMBER-PASS.onnx`. Raises GeError where that cannot
    be done."""

    folder: Path
    detail: int  # see `Options.dump_graph`
    form: str = "mlir"
    number: int = 0

    def __post_init__(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            what = f"cannot write to '{self.folder}': {e.strerror}"
            raise GeError(what, hint="see GE_DUMP_PATH") from e

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        stem = f"{self.number:02d}-{p.name}"
        self.number += 1
        if self.form == ONNX and level_of(module) in (Level.GRAPH, Level.FUSED):
            self._write_onnx(stem, module)
        else:
            write_text(self.folder / f"{stem}.mlir", dump_text(module, self.detail))

    def _write_onnx(self, stem: str, module: ModuleOp) -> None:
        from ge.lowering.onnx.export.dump import dump_model
        from ge.lowering.onnx.export.exporter import write_model
        from ge.runtime.data.weights import payload_at_hand

        payload = payload_at_hand() if self.detail == 1 else None
        model, weights = dump_model(module, payload, "main")
        with Outputs(()) as out:
            write_model(out, str(self.folder / f"{stem}.onnx"), model, weights)


def dumps_for(options: Options) -> list[Dumps]:
    """What writes the dumps that options ask for."""
    if not options.dump_graph:
        return []
    return [Dumps(Path(options.dump_path), options.dump_graph, options.dump_graph_format)]


# ---- reproducer ------------------------------------------------------------------------------

CONFIGURATION = "// configuration:"
PACKAGES = "// packages:"  # what is installed beside ge: `acme-npu 1.0, ...`


@dataclass
class Reproducer(Instrumentation):
    """On failure, writes the module as it was with the passes still to run: a file that
    `ge-opt FILE` runs again. `local` keeps the failing pass only."""

    path: Path
    passes: Sequence[ModulePass]
    verify_each: bool = True
    local: bool = False
    _text: str | None = None

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        if self.local or self._text is None:
            self._text = op_text(module, generic=True, debuginfo=True)

    def start(self, module: ModuleOp) -> None:
        self._text = None

    def failed(self, p: ModulePass, module: ModuleOp, why: str) -> None:
        passes = [p] if self.local else self.passes
        options = [f"--pass-pipeline={pipeline_text(passes)}"]
        if not self.verify_each:
            options.append("--verify-each=false")
        header = [
            f"{CONFIGURATION} {shlex.join(options)}",
            f"// error: {' '.join(why.split())}",
            "// rerun: ge-opt FILE",
            *([f"{PACKAGES} {', '.join(packages)}"] if (packages := package_texts()) else []),
        ]
        write_text(self.path, "\n".join([*header, self._text or "", ""]))


def reproduce(run: Callable[[Reproducer], object]) -> str:
    """A file with the module right before the pass that fails when `run` does it all again; no name
    when nothing fails now."""
    handle, name = tempfile.mkstemp(".mlir", "ge-crash-")
    os.close(handle)
    with suppress(Exception), diagnostic_handler(lambda _: None):
        run(Reproducer(Path(name), (), local=True))
    if Path(name).stat().st_size:
        return name
    Path(name).unlink()
    return ""


def package_texts() -> list[str]:
    return [f"{p.name} {p.version}" for p in installed()]


def missing_packages(text: str) -> list[str]:
    """The packages that took part where a reproducer was written, and do not here."""
    lines = (line for line in text.split("\n", 4)[:4] if line.startswith(PACKAGES))
    named = next(lines, PACKAGES).removeprefix(PACKAGES).split(",")
    return [p for part in named if (p := part.strip()) and p not in package_texts()]


def recorded_configuration(text: str) -> list[str] | None:
    """The command line options in the first line of a reproducer, None for any other file.
    Only the pipeline and `--verify-each` are taken: a file never chooses code to load."""
    first = text.partition("\n")[0]
    if not first.startswith(CONFIGURATION):
        return None
    try:
        options = shlex.split(first.removeprefix(CONFIGURATION))
    except ValueError:
        return None
    allowed = ("--pass-pipeline=", "--verify-each=")
    return options if all(o.startswith(allowed) for o in options) else None
