"""Places of the elements of a value in memory of another value that it is a rearrangement of.

    %1 = graph.reshape %0        [B, S, H*D] -> [B, S, H, D]
    %2 = graph.transpose %1      -> [B, H, S, D]

`Trace(%2)` follows operands step by step. The dimensions of %2 are axes b, h, s and d; in %0 they
have the order b, s, h, d. So a kernel that accepts [B, S, H, D] can read %0 and needs no transpose.

A reshape splits axes and a transpose permutes them. Axes that a broadcast, or a gather of each
element n times, adds are `repeated`; an index selects one element of an axis that the value does
not have (`chosen`); a multiplication by a number is recorded as `factor`. Sizes may be symbols, see
`dimensions.py`.
"""

from collections.abc import Iterable, Iterator, Sequence

from xdsl.ir import SSAValue

from ge.dialects import graph as g
from ge.dialects.support.types import (
    array_ints,
    constant_ints,
    numel,
    rank_of,
    shape_of,
)
from ge.transforms.analysis.dimensions import ONE, Dimensions, Size, volume
from ge.transforms.analysis.parts import inverse, part_of
from ge.transforms.analysis.polynomials import number_of

MOST_STEPS = 16


class LayoutAxis:
    """Elements at equal distances, or two axes once it is split."""

    def __init__(self, size: Size, repeated: bool = False, chosen: int | None = None) -> None:
        self.size, self.repeated, self.chosen = size, repeated, chosen
        self.parts: tuple[LayoutAxis, ...] = ()

    def split(self, outer: Size, inner: Size) -> None:
        self.parts = tuple(LayoutAxis(size, self.repeated) for size in (outer, inner))

    def leaves(self) -> "Iterator[LayoutAxis]":
        """The axes that this one is split into, in order."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()


Axes = list[LayoutAxis]
"""The axes of one dimension, the outer ones first; none for a dimension of size 1."""


def leaves(*dims: Axes) -> Axes:
    """All axes in order, fully split."""
    return [leaf for axes in dims for axis in axes for leaf in axis.leaves()]


def new_axes(sizes: Iterable[Size]) -> list[Axes]:
    """An axis for each dimension."""
    return [[] if s == ONE else [LayoutAxis(s)] for s in sizes]


def regroup(dims: Sequence[Axes], sizes: Sequence[Size]) -> list[Axes] | None:
    """The axes in their order as dimensions of these sizes, split where needed; None if that is
    impossible."""
    remaining = leaves(*dims)[::-1]
    result: list[Axes] = []
    for size in sizes:
        group: Axes = []
        while size != ONE:
            if not remaining:
                return None
            axis = remaining.pop()
            if (rest := size.over(axis.size)) is not None:
                size = rest
            elif axis.chosen is None and (rest := axis.size.over(size)) is not None:
                axis.split(size, rest)
                axis, inner = axis.parts
                remaining.append(inner)
                size = ONE
            else:
                return None
            group.append(axis)
        result.append(group)
    return None if remaining else result


def permute(dims: Sequence[Axes], order: Sequence[int]) -> list[Axes]:
    return [dims[i] for i in order]


class Trace:
    """The dimensions of a value as axes (`dims`), and those of the value that the trace has reached
    (`at`, `front`)."""

    def __init__(self, value: SSAValue, dimensions: Dimensions, repeats: bool = True) -> None:
        self.value, self.at, self.dimensions, self.repeats = value, value, dimensions, repeats
        self.dims = new_axes(dimensions.of(value))
        self.front = list(self.dims)
        self.factor = 1.0
        self.gain = 0
        """The transposes, broadcasts and multiplications on the way."""

    def steps(self) -> Iterator[None]:
        """Follow operands as far as possible, one op at a time."""
        for _ in range(MOST_STEPS):
            yield
            if not self.up():
                return

    def order(self) -> Axes:
        """The axes in the order of memory of the value reached."""
        return leaves(*self.front)

    def up(self) -> bool:
        """Step over one op; returns False if it does more than move elements."""
        op = self.at.owner
        match op:
            case g.TransposeOp():
                front = permute(self.front, inverse(array_ints(op.permutation)))
                self.gain += 1
            case g.ReshapeOp() | g.SqueezeOp() | g.UnsqueezeOp():
                front = regroup(self.front, self.dimensions.of(op.input))
            case g.BroadcastToOp() | g.TileOp():
                front = self.over_repetition(op)
            case g.MulOp() | g.DivOp():
                return self.over_factor(op)
            case g.GatherOp() if rank_of(op.indices) == 1:
                front = self.over_runs(op)
            case g.GatherOp() | g.SliceOp() | g.SplitOp():
                front = self.over_choice(op)
            case _:
                return False
        if front is None:
            return False
        self.at, self.front = op.operands[0], front
        return True

    def over_repetition(self, op: g.BroadcastToOp | g.TileOp) -> list[Axes] | None:
        """Return the axes of the input of a repetition; None if they are not allowed or not
        known."""
        sizes = self.dimensions.of(op.input)
        ahead = len(self.front) - len(sizes)
        if not self.repeats or ahead < 0:
            return None
        repeated, front = leaves(*self.front[:ahead]), self.front[ahead:]
        result: list[Axes] = []
        for axes, size in zip(front, sizes, strict=True):
            if size == ONE:
                repeated += leaves(axes)
                axes = []
            elif volume([a.size for a in leaves(axes)]) != size:
                return None
            result.append(axes)
        for axis in repeated:
            axis.repeated = True
        self.gain += 1
        return result

    def over_runs(self, op: g.GatherOp) -> list[Axes] | None:
        """The axes of the input of a gather by 0, 0, 1, 1, ...; None for other indices, and where
        repetition is not allowed."""
        axis = op.axis.value.data
        count, indices = self.dimensions.of(op.operands[0])[axis].number, constant_ints(op.indices)
        if not self.repeats or not count or not indices or len(indices) % count:
            return None
        times = len(indices) // count
        if any(i % count != position // times for position, i in enumerate(indices)):
            return None
        inside = regroup([self.front[axis]], [Size(count), Size(times)])
        if inside is None or max(indices) >= count or min(indices) < -count:
            return None
        for repeated in leaves(inside[1]):
            repeated.repeated = True
        self.gain += 1
        return [*self.front[:axis], inside[0], *self.front[axis + 1 :]]

    def over_factor(self, op: g.MulOp | g.DivOp) -> bool:
        """Step over a multiplication or division by one number; False for other ones."""
        for value, factor in op.sides():
            number = number_of(factor)
            if not number or numel(shape_of(factor)) > 1:
                continue
            if not self.dimensions.same(value, op.result):
                continue
            self.factor *= number if isinstance(op, g.MulOp) else 1 / number
            self.at = value
            self.gain += 1
            return True
        return False

    def over_choice(self, op: g.GatherOp | g.SliceOp | g.SplitOp) -> list[Axes] | None:
        """The axes of the input of an op that selects one element of an axis."""
        sizes = self.dimensions.of(op.operands[0])
        part = part_of(self.at)
        if part is None or part.range.count != 1 or sizes[part.axis].number is None:
            return None
        axis = LayoutAxis(sizes[part.axis], chosen=part.range.start)
        rest = self.front[part.axis + (not part.dropped) :]
        return [*self.front[: part.axis], [axis], *rest]
