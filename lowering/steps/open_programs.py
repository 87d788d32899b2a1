"""Tile programs whose sizes are arguments: of kernels of a program with dimensions that are not
known yet.

What such a program's launches compute is known when it is bound to sizes. It is bound to a few,
the first of which are those that its cuts are chosen for. A kernel whose body is the same at all
of them, but for numbers that follow from dimensions by products and sums, is written once more
with extents (`dialects/support/dims.py`) in the place of these numbers, at two sizes far above
all bounds of tiles: then every dimension takes the way of many tiles with a part of one at the
end, and what of a program depends on sizes says how. Where the two programs differ, there is
none.

    npu_task.kernel @relu_0 : tensor<4096x64xf32>, at others tensor<3233x64xf32>, ...
    tile.kernel @relu_0_tiles(%in0: memref<?x64xf32>, ...) sizes ["batch * past", ...] cores 40

At further sizes a kernel has the one that was written for its text, and nothing is written:
`computes` on a program says of which kernels it is the program: a text with numbers and
expressions of dimensions (`Holes`). `estimates` are what it takes at the least sizes and at those
that it is cut for: tilings and schedules of bound programs go by what lies between, and times are
those of a simulation."""

import json
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from math import prod
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, MemRefType, StringAttr
from xdsl.ir import Attribute, Operation

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.context import at_hand, having
from ge.dialects.support.dims import Extent, Polynomial, value_of
from ge.dialects.support.element_types import storage_bytes
from ge.dialects.support.operation import all_ops, ops_of
from ge.dialects.support.types import DYNAMIC, align_up, dense_memref, number_of, set_type
from ge.dialects.targets.target import Target
from ge.dialects.text.printing import Outline, op_text
from ge.dialects.tile.kernel import COMPUTES, ESTIMATES, WORKSPACE_ALIGNMENT
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.dialects.tile.text import BoundKernelOp
from ge.lowering.steps.kept_programs import is_foreign
from ge.runtime.library.costs.estimates import Figures, between, figures_of, keep, read_figures
from ge.runtime.library.costs.structure import data_of, has_parameters, is_data, unseen, wiring
from ge.runtime.library.launch import Decisions, NotLowered, deciding
from ge.transforms.shapes.open_kernels import Samples, with_extents
from ge.transforms.tiles.bind_sizes import bound, size_at

MOST_TEXTS = 4096  # of kernels, over all sizes

NUMBER = re.compile(r"(\d+)")


def text_of(kernel: KernelOp, outline: Outline) -> str:
    """Return a text of all that a program follows from."""
    ops = all_ops(kernel.body.blocks)
    if any(map(is_foreign, ops)):
        raise NotLowered("what it computes is written outside of the compiler")
    with unseen(data_of(ops)):
        before, kernel.attributes = kernel.attributes, {}
        try:
            return outline.of(kernel, kernel.properties.keys() - {"engine"})
        finally:
            kernel.attributes = before


@dataclass(frozen=True)
class Holes:
    """Texts that are alike but for numbers that depend on sizes: which words are numbers of that
    kind, and the expressions that they are."""

    words: str  # a hash of all others
    expressions: Mapping[int, str]

    @classmethod
    def of(
        cls, texts: Sequence[str], expression: Callable[[tuple[int, ...]], Polynomial]
    ) -> "Holes":
        """Return the common text, with holes. Raises NotLowered for texts that are not alike, as
        `expression` does for numbers that follow from no dimensions."""
        split = [NUMBER.split(text) for text in texts]
        if len({tuple(words[::2]) for words in split}) > 1:
            raise NotLowered("its body is another one at other sizes")
        found: dict[int, str] = {}
        for at, words in enumerate(zip(*split, strict=True)):
            if len(set(words)) > 1:
                found[at] = str(expression(tuple(map(int, words))))
        return cls(hashed(split[0], found), found)

    @classmethod
    def read(cls, text: str) -> "Holes":
        words, *pairs = text.split("; ")
        found = (pair.partition(": ") for pair in pairs)
        return cls(words, {int(at): expression for at, _, expression in found})

    def __str__(self) -> str:
        return "; ".join((self.words, *(f"{at}: {e}" for at, e in self.expressions.items())))

    def match(self, words: Sequence[str], values: Mapping[str, str]) -> bool:
        """Return whether numbers of a text, as words, are the values of the expressions, by their
        texts."""
        count = len(words)
        pairs = self.expressions.items()
        return all([at < count and values[e] == words[at] for at, e in pairs])

    def is_like(self, words: Sequence[str]) -> bool:
        """Return whether all others of its words are the same."""
        return hashed(words, self.expressions) == self.words


class BoundValues(dict[str, str]):
    """Values of expressions where dimensions have these sizes."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self.sizes = sizes

    def __missing__(self, text: str) -> str:
        self[text] = found = str(value_of(text, self.sizes))
        return found

    def size(self, text: str) -> int:
        """Return the size of a dimension of a program. Raises GeError if it is not known."""
        return int(found) if (found := self[text]) != "None" else size_at(text, self.sizes)


def hashed(words: Sequence[str], holes: Mapping[int, str]) -> str:
    kept = ["?" if at in holes else word for at, word in enumerate(words)]
    return sha256("|".join(kept).encode()).hexdigest()[:32]


@dataclass
class OpenPrograms:
    """The programs of a module whose sizes are arguments."""

    programs: Sequence[TileKernelOp] = ()
    # What each computes, those for fewer sizes first
    holes: dict[TileKernelOp, Holes] = field(default_factory=dict[TileKernelOp, Holes])
    outline: Outline = field(default_factory=lambda: Outline({}))
    # Of kernels: the words of their texts, and whether these are like those of a program
    texts: dict[Hashable, Sequence[str]] = field(default_factory=dict[Hashable, Sequence[str]])
    like: dict[tuple[Hashable, TileKernelOp], bool] = field(
        default_factory=dict[tuple[Hashable, TileKernelOp], bool]
    )
    # Whether the elements of all constants are in the text of a kernel, by its wiring
    parametric: dict[Hashable, bool] = field(default_factory=dict[Hashable, bool])
    data: dict[int, bool] = field(default_factory=dict[int, bool])  # `is_data`, by type
    memrefs: dict[TileKernelOp, "list[OpenMemref]"] = field(
        default_factory=dict[TileKernelOp, "list[OpenMemref]"]
    )
    known: dict[tuple[TileKernelOp, tuple[int, ...]], Figures] = field(
        default_factory=dict[tuple[TileKernelOp, tuple[int, ...]], Figures]
    )
    # What each takes by estimate at the least sizes, and at those that it is cut for
    ends: dict[TileKernelOp, tuple[Figures, Figures] | None] = field(
        default_factory=dict[TileKernelOp, "tuple[Figures, Figures] | None"]
    )

    @classmethod
    def of(cls, ops: Iterable[Operation]) -> "OpenPrograms":
        programs = [op for op in ops if isinstance(op, TileKernelOp) and COMPUTES in op.attributes]
        known = [(p, holes) for p in programs if (holes := holes_of(p)) is not None]
        return cls(programs, dict(sorted(known, key=lambda k: len(k[1].expressions))))

    def found(self, kernel: KernelOp, at: "AtSizes") -> TileKernelOp | None:
        """Return the program of a kernel where dimensions have these sizes; None if it has none."""
        key = self.key(kernel)
        if key is None or key not in at.found:
            at.found[key] = self.matching(kernel, key, at.values)
        return at.found[key]

    def key(self, kernel: KernelOp) -> Hashable:
        """Return a key, equal for kernels of equal texts; None if kernels cannot be compared."""
        if (wired := wiring(kernel)) is None:
            return None
        if (is_seen := self.parametric.get(wired)) is None:
            is_seen = has_parameters(all_ops(kernel.body.blocks))
            self.parametric[wired] = is_seen
        constants = [
            self.constant(op, is_seen)
            for op in ops_of(kernel.body.block)
            if isinstance(op, ConstantOp)
        ]
        return wired, kernel.engine.data, *constants

    def constant(self, op: ConstantOp, is_seen: bool) -> Hashable:
        kind = number_of(op.result.type)
        if kind not in self.data:
            self.data[kind] = is_data(op)
        return kind, number_of(op.value) if is_seen or not self.data[kind] else None

    def matching(
        self, kernel: KernelOp, key: Hashable, values: Mapping[str, str]
    ) -> TileKernelOp | None:
        with suppress(NotLowered):
            words = self.words(kernel, key)
            for program, holes in self.holes.items():
                if holes.match(words, values):
                    if (like := self.like.get((key, program))) is None or key is None:
                        like = self.like[key, program] = holes.is_like(words)
                    if like:
                        return program
        return None

    def words(self, kernel: KernelOp, key: Hashable) -> Sequence[str]:
        """Return the words of a kernel's text: at further sizes most kernels are those of
        before."""
        if key is None or key not in self.texts:
            if len(self.texts) >= MOST_TEXTS:
                self.texts.clear()
                self.like.clear()
            self.texts[key] = NUMBER.split(text_of(kernel, self.outline))
        return self.texts[key]

    def at(self, program: TileKernelOp, at: "AtSizes") -> BoundKernelOp:
        """A program where dimensions have these sizes. Raises GeError where one has none."""
        if program not in self.memrefs:
            self.memrefs[program] = OpenMemref.all_of(program)
        sizes, count = [m.bytes(at.values) for m in self.memrefs[program]], program.workspace_count
        given, own = (sizes[:-count], sizes[-count:]) if count else (sizes, [])
        make = partial(bound, program, at.sizes)
        workspace = sum(align_up(size, WORKSPACE_ALIGNMENT) for size in own)
        new = BoundKernelOp("program", program.core_count, make, workspace)
        if (figures := self.figures(program, tuple(given))) is not None:
            keep(new, at.target, figures)
        return new

    def figures(self, program: TileKernelOp, sizes: tuple[int, ...]) -> Figures | None:
        """Return the estimate of a program where its arguments have these bytes. It is one object
        for equal sizes: what a clock knows of a launch, it knows by that."""
        if (found := self.known.get((program, sizes))) is None:
            if (ends := self.estimates(program)) is None:
                return None
            if len(self.known) >= MOST_TEXTS:
                self.known.clear()
            found = self.known[program, sizes] = between(*ends, sizes)
        return found

    def estimates(self, program: TileKernelOp) -> tuple[Figures, Figures] | None:
        if program not in self.ends:
            self.ends[program] = None
            if isinstance(text := program.attributes.get(ESTIMATES), StringAttr):
                least, most = map(read_figures, json.loads(text.data))
                if least is not None and most is not None:
                    self.ends[program] = least, most
        return self.ends[program]


@dataclass(frozen=True)
class OpenMemref:
    """The number of bytes of a program's memref, by its sizes."""

    element: Attribute
    count: int  # the product of those that are known
    sizes: Sequence[str]

    @classmethod
    def all_of(cls, program: TileKernelOp) -> list["OpenMemref"]:
        texts = iter(() if program.sizes is None else [text.data for text in program.sizes])
        found: list[OpenMemref] = []
        for arg in program.body.block.args:
            element, shape = data_type(arg.type)
            sizes = [next(texts) for size in shape if size == DYNAMIC]
            found.append(cls(element, prod([n for n in shape if n != DYNAMIC]), sizes))
        return found

    def bytes(self, values: "BoundValues") -> int:
        count = self.count
        for text in self.sizes:
            count *= values.size(text)
        return storage_bytes(count, self.element)


@dataclass(frozen=True)
class AtSizes:
    """Programs, and the sizes that a module is being bound to."""

    programs: OpenPrograms
    sizes: Mapping[str, int]
    target: Target
    # By the keys of kernels
    found: dict[Hashable, TileKernelOp | None] = field(
        default_factory=dict[Hashable, TileKernelOp | None]
    )

    @cached_property
    def values(self) -> BoundValues:
        return BoundValues(self.sizes)


def open_programs_at_hand(found: AtSizes) -> AbstractContextManager[AtSizes]:
    """Let kernels of a module have programs that were written for all sizes."""
    return having(found)


def has_open_programs() -> bool:
    return at_hand(AtSizes) is not None


def program_at_hand(kernel: KernelOp) -> TileKernelOp | None:
    """The program that was written for a kernel at all sizes, if there is any."""
    if (here := at_hand(AtSizes)) is None or (found := here.programs.found(kernel, here)) is None:
        return None
    return here.programs.at(found, here)


def is_at_hand(kernel: KernelOp) -> bool:
    """Return whether a program was written for a kernel at all sizes."""
    here = at_hand(AtSizes)
    return here is not None and here.programs.found(kernel, here) is not None


def holes_of(program: TileKernelOp) -> Holes | None:
    text = program.attributes.get(COMPUTES)
    return Holes.read(text.data) if isinstance(text, StringAttr) else None


BY_SIZES = "sizes alone decide what it computes: no launch of it is left"


# ---- writing ----------------------------------------------------------------------------------


def holes_at(kernels: Sequence[KernelOp], samples: Samples) -> Holes:
    """Return the common text of a kernel, which is given at each of the sizes. Raises NotLowered if
    the texts differ in more than numbers."""
    outline = Outline({})
    return Holes.of([text_of(k, outline) for k in kernels], samples.expression)


def open_program(
    kernels: Sequence[KernelOp],
    samples: Samples,
    target: Target,
    named: Mapping[str, Attribute],
) -> TileKernelOp:
    """The program of a kernel, which is given as it is at each of the sizes; finished for the
    target that the attributes `named` name. Raises NotLowered if there is none for all sizes."""
    from ge.lowering.steps.written import finish_alone, lowered, tile_program

    holes, decisions = holes_at(kernels, samples), Decisions()
    with deciding(decisions):
        lowered(kernels[0], target)
    programs: list[TileKernelOp] = []
    for sizes in samples.far():
        kernel = with_extents(kernels, samples, sizes)
        with unseen(data_of(all_ops(kernel.body.blocks))):
            with deciding(Decisions([*decisions.made], again=True)):
                programs.append(opened(tile_program(kernel, "program", target)))
    check_same(*programs)
    program = programs[0]
    finish_alone(program, "", named)
    program.attributes[COMPUTES] = StringAttr(str(holes))
    if figures := ends_of(program, samples.sizes[0], target):
        program.attributes[ESTIMATES] = StringAttr(json.dumps(figures))
    return program


def check_same(program: TileKernelOp, other: TileKernelOp) -> None:
    """Raises NotLowered where programs differ, or have sizes in the place of numbers."""
    text, other_text = map(Outline({}).of, (program, other))
    if text != other_text:
        lines = difference(*map(op_text, (program, other)))
        raise NotLowered(f"it has other programs at other sizes: {lines}")
    if "⟨" in text:
        line = next(line for line in op_text(program).splitlines() if "⟨" in line)
        raise NotLowered(f"a size stands where a number is wanted: {line.strip()}")


def ends_of(
    program: TileKernelOp, largest: Mapping[str, int], target: Target
) -> list[Figures] | None:
    """Return the estimates of a program at the least sizes and at those that it is cut for; None if
    the target lacks facts for them."""
    ends = [figures_of(bound(program, s), target) for s in (dict.fromkeys(largest, 1), largest)]
    known = [figures for figures in ends if figures is not None]
    return known if len(known) == len(ends) else None


def difference(a: str, b: str) -> str:
    """The first lines that differ."""
    pairs = zip(a.splitlines(), b.splitlines(), strict=False)
    return next((f"'{x.strip()}', '{y.strip()}'" for x, y in pairs if x != y), "one is longer")


def opened(program: TileKernelOp) -> TileKernelOp:
    """The program with `?` in the place of extents, which `sizes` has."""
    texts: list[str] = []
    for arg in program.body.block.args:
        memref = cast("MemRefType[Attribute]", arg.type)
        extents = [d for d in memref.get_shape() if type(d) is Extent]
        texts += [str(d.size) for d in extents]
        shape = tuple(DYNAMIC if type(d) is Extent else d for d in memref.get_shape())
        set_type(arg, dense_memref(memref.element_type, shape))
    program.sizes = ArrayAttr(map(StringAttr, texts)) if texts else None
    return program
