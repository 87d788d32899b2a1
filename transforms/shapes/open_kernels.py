"""Kernels of a program of unknown shapes at a few sizes, and with extents in the place of sizes:
what tile programs of open sizes are written for (`lowering/steps/open_programs.py`)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from math import prod
from typing import cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.ports import dim_ranges
from ge.dialects.graph.support.folding import splat_bytes
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.dims import Extent, Polynomial, Range, symbols, value_of
from ge.dialects.support.operation import all_ops, cloned
from ge.dialects.support.types import Dense, number_of, set_type, tensor
from ge.runtime.library.launch import NotLowered
from ge.transforms.shapes.sizes import named_dims

FAR = (100003, 700001)  # the first dimension at which programs are written: primes, as all are
MIDDLE = 64  # of a dimension that has no largest size
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


def samples_of(main: FuncOp) -> Samples:
    """Sizes that a program may be bound to."""
    names = dict.fromkeys(s for n in named_dims(main) for s in symbols(n))
    ranges = dim_ranges(main)
    columns = {n: three(ranges.get(n, Range()), i) for i, n in enumerate(names)}
    sizes = [{n: column[i] for n, column in columns.items()} for i in range(3)]
    return Samples(sizes, list(dict.fromkeys((*names, *named_dims(main)))))


def three(allowed: Range, number: int) -> Sequence[int]:
    """Sizes of dimension `number`: the largest, and others of no special kind."""
    if allowed.most is None:
        first = max(MIDDLE, allowed.least)
        return first, prime_from(first + 3 + 5 * number), prime_from(first + 31 + 7 * number)
    most, least = allowed.most, max(allowed.least, min(1, allowed.most))
    return most, max(most - 1 - 2 * number, least), max(most - 3 - 3 * number, least)


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
