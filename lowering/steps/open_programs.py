"""Tile programs whose sizes are arguments: of kernels of a program with dimensions that are not
known yet.

What such a program's launches compute is known when it is bound to sizes. It is bound to a few, the
first of which are those that its cuts are chosen for. A kernel whose body is the same at all of
them, but for numbers that follow from dimensions by products and sums, is written once more with
extents (`dialects/support/extents.py`) in the place of these numbers, at two sizes far above all
bounds of tiles: then every dimension takes the way of many tiles with a part of one at the end, and
what of a program depends on sizes says how. Where the two programs differ, there is none.

    npu_task.kernel @relu_0 : tensor<4096x64xf32>, at others tensor<3233x64xf32>, ...
    tile.kernel @relu_0_tiles(%in0: memref<?x64xf32>, ...) sizes ["batch * past", ...] cores 40

At further sizes a kernel has the one that was written for its text (`bound_programs.py`), and
nothing is written.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from math import prod
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DenseIntOrFPElementsAttr, MemRefType, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.support.folding import splat_bytes
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.dims import value_of
from ge.dialects.support.extents import Extent
from ge.dialects.support.operation import all_ops, cloned
from ge.dialects.support.polynomial import Polynomial
from ge.dialects.support.types import (
    DYNAMIC,
    Dense,
    dense_memref,
    number_of,
    set_type,
    tensor,
)
from ge.dialects.targets.target import Target
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.lowering.steps.bound_programs import COMPUTES, ESTIMATES, Holes, text_of
from ge.lowering.steps.kept_programs import data_of, unseen
from ge.lowering.text.outline import Outline
from ge.lowering.text.printing import op_text
from ge.runtime.library.choices import Decisions, deciding
from ge.runtime.library.costs.estimates import Figures, figures_of
from ge.runtime.library.launch import NotLowered
from ge.transforms.tiles.bind_sizes import bound

BY_SIZES = "sizes alone decide what it computes: no launch of it is left"
FAR = (100003, 700001)  # the first dimension at which programs are written: primes, as all are
MOST_FACTORS = 3  # dimensions in one product
OF_TYPES = frozenset(("shape",))  # properties that the types of results say as well


@dataclass(frozen=True)
class Samples:
    """Sizes of dimensions: those that a program was bound to, and expressions of them that stand
    for sizes in it."""

    sizes: Sequence[Mapping[str, int]]
    texts: Sequence[str]

    def where(self, name: str, size: int) -> "Samples":
        """The same sizes but for one dimension, which is as large in all of them."""
        return Samples([{**sizes, name: size} for sizes in self.sizes], self.texts)

    @cached_property
    def products(self) -> list[tuple[Polynomial, tuple[int, ...]]]:
        """Of some of the expressions, with what they are at each of the sizes."""
        named = [p for p in map(Polynomial.named, self.texts) if p is not None]
        found: list[tuple[Polynomial, tuple[int, ...]]] = []
        for count in range(1, MOST_FACTORS + 1):
            for some in combinations_with_replacement(named, count):
                p = prod(some, start=Polynomial.of(1))
                found.append((p, tuple(value(p, sizes) for sizes in self.sizes)))
        return found

    def expression(self, numbers: tuple[int, ...]) -> Polynomial:
        """What is a number at each of the sizes: a constant, or a product times a number plus a
        number. Raises NotLowered for anything else."""
        if len(set(numbers)) == 1:
            return Polynomial.of(numbers[0])
        first, *others = numbers
        for p, (start, *more) in self.products:
            if start == more[0]:
                continue
            factor, rest = divmod(others[0] - first, more[0] - start)
            term = first - factor * start
            if not rest and all(factor * m + term == n for m, n in zip(more, others, strict=True)):
                return p * factor + term
        raise NotLowered(f"a size, {first} at the first sizes, is no product of dimensions")

    def far(self) -> list[dict[str, int]]:
        """Two choices of sizes at which no dimension is small that has several."""
        first, other, *_ = self.sizes
        names = list(enumerate(first))
        return [
            {n: 1 if first[n] == other[n] == 1 else prime_from(at + 977 * i) for i, n in names}
            for at in FAR
        ]


def value(p: Polynomial, sizes: Mapping[str, int]) -> int:
    found = value_of(str(p), sizes)
    assert found is not None
    return found


def prime_from(number: int) -> int:
    while any(number % n == 0 for n in range(2, int(number**0.5) + 1)):
        number += 1
    return number


# ---- writing ----------------------------------------------------------------------------------


def holes_at(kernels: Sequence[KernelOp], samples: Samples) -> Holes:
    """What is the same of a kernel, which is given as it is at each of the sizes. Raises
    NotLowered where that is not all but numbers."""
    outline = Outline({})
    return Holes.of([text_of(k, outline) for k in kernels], samples.expression)


def open_program(
    kernels: Sequence[KernelOp],
    samples: Samples,
    target: Target,
    named: Mapping[str, Attribute],
) -> TileKernelOp:
    """The program of a kernel, which is given as it is at each of the sizes; finished for the
    target that the attributes `named` name. Raises NotLowered where there is none for all sizes."""
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
    """What a program takes by estimate, at the least sizes and at those that it is cut for; None
    where the target lacks what that follows from."""
    ends = [figures_of(bound(program, s), target) for s in (dict.fromkeys(largest, 1), largest)]
    known = [figures for figures in ends if figures is not None]
    return known if len(known) == len(ends) else None


def difference(a: str, b: str) -> str:
    """The first lines that differ."""
    pairs = zip(a.splitlines(), b.splitlines(), strict=False)
    return next((f"'{x.strip()}', '{y.strip()}'" for x, y in pairs if x != y), "one is longer")


def with_extents(
    kernels: Sequence[KernelOp], samples: Samples, sizes: Mapping[str, int]
) -> KernelOp:
    """A copy of the first kernel, with extents in the place of its sizes. Raises NotLowered where
    bodies differ in more than that."""
    new = cloned(kernels[0], {})
    for ops in zip(all_ops([new.body.block]), *map(ops_in, kernels), strict=True):
        op, *others = ops
        if any(type(o) is not type(op) for o in others):
            raise NotLowered("its body is another one at other sizes")
        check_properties(others)
        for result, *those in zip(op.results, *(o.results for o in others), strict=True):
            set_extents(result, those, samples, sizes)
    for blocks in zip(blocks_in(new), *map(blocks_in, kernels), strict=True):
        for arg, *those in zip(*(b.args for b in blocks), strict=True):
            set_extents(arg, those, samples, sizes)
    return new


def ops_in(kernel: KernelOp) -> Iterable[Operation]:
    return all_ops([kernel.body.block])


def blocks_in(kernel: KernelOp) -> list[Block]:
    inner = [b for op in ops_in(kernel) for region in op.regions for b in region.blocks]
    return [kernel.body.block, *inner]


def check_properties(ops: Sequence[Operation]) -> None:
    """Raises NotLowered where what an op does depends on sizes by more than its types."""
    for name in ops[0].properties:
        values = {number_of(op.properties[name]) for op in ops}
        if len(values) > 1 and name not in OF_TYPES and not is_one_number(ops):
            raise NotLowered(f"'{name}' of {ops[0].name} depends on sizes")


def is_one_number(ops: Sequence[Operation]) -> bool:
    """Whether these are constants all of whose elements are one number."""
    values = [op.value for op in ops if isinstance(op, ConstantOp)]
    dense = [cast(Dense, v) for v in values if isinstance(v, DenseIntOrFPElementsAttr)]
    found = {splat_bytes(v) for v in dense}
    return len(dense) == len(ops) and len(found) == 1 and None not in found


def set_extents(
    value: SSAValue, those: Sequence[SSAValue], samples: Samples, sizes: Mapping[str, int]
) -> None:
    shapes = [data_type(v.type)[1] for v in those]
    shape: list[int] = []
    for numbers in zip(*shapes, strict=True):
        p = samples.expression(numbers)
        size = value_of(str(p), sizes)
        assert size is not None
        shape.append(size if p.number is not None else Extent(size, p))
    set_type(value, tensor(shape, data_type(value.type)[0]))


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
