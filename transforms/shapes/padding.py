"""Proof that inputs padded with zeros along a dimension leave the rest of the outputs unchanged:
then a gear takes smaller sizes too, and outputs are cut.

For one dimension at a time, each value has the axes that are padded, and what the padded elements
hold (a known constant, or what else is known). The valid elements of a result must not depend on
padded ones:
- the first elements of a result along an axis need the first ones of operands alone, as the op says
  of itself (`support/boxes.py`);
- a sum along a padded axis is of zeros there (a matmul, where one operand is zero and the other
  finite), a softmax of scores so low that weights are exactly zero (the padded keys of attention,
  behind a mask that is false or very low there);
- a size of the result is that of the padded axis itself, or does not follow from it;
- indices count along the axis, or are constants from the front.

In a `Folded` value a padded axis and axes before it are one, as in [batch * length, 16]: each row
stays apart from the others, and a view has the axis again. `Mixes` says why a dimension cannot be
padded.

All else mixes, and so does what computes with the size itself (a mean). Of an op that says nothing
of the elements that it needs, nothing is known.

Taken for granted: elements of weights are finite, and what ops make of finite elements
(`FINITE`) stays finite; scores that a mask is added to are under 4e29 (2e4 in f16); each
valid query has a key that its mask leaves. Inputs are finite: those that are padded are looked at.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf, isfinite
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import Float16Type, i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from ge.dialects import graph as g
from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.elementwise import Elementwise
from ge.dialects.graph.indexing import from_front
from ge.dialects.graph.shape import is_shape_arithmetic
from ge.dialects.support.boxes import (
    MOVING,
    Access,
    BoxInterface,
    each_axes,
    prefix_axes,
    says_boxes,
)
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.dims import symbols
from ge.dialects.support.element_types import is_float, is_integer
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import cloned, operands_of, ops_of, put_last, yielded
from ge.dialects.support.tensor_op import SplitInterface, TensorOp
from ge.dialects.support.types import constant_value, element_type, rank_of
from ge.runtime import numbers
from ge.runtime.data.arrays import array_of, dtype_of
from ge.transforms.analysis.dimensions import STEP, Dimensions, Size, stand_in, volume
from ge.transforms.shapes.gears import Gears


class FillKind(Enum):
    """Facts of padded elements that are no known constant."""

    LOW = "so low that its weight in a softmax is exactly zero, or minus infinity"
    INDEX = "the index along the axis"
    COUNT = "how many elements hold something, as in an input of that size: an index, if that is"
    COPY = "what all elements along the axis hold"
    SHARED = "what a program of the larger size has there, of no input"
    FINITE = "some finite value"
    MASK = "some finite value, or minus infinity"
    ANY = "any value, infinite or nan too"


Fill: TypeAlias = float | FillKind

# A mask of this value, or less, swallows scores of up to ORDINARY of its size: exp of what is left
# is 0
LOWEST = -1e30

LOWEST_OF_F16 = -6e4

ORDINARY = 0.4

# Whose results are finite where the operands are
FINITE = (
    g.AddOp, g.SubOp, g.MulOp, g.NegOp, g.AbsOp, g.SignOp, g.FloorOp, g.CeilOp, g.RoundOp, g.TanhOp,
    g.ErfOp, g.MaximumOp, g.MinimumOp, g.SelectOp, g.CastOp, g.ClampOp, g.SinOp, g.CosOp, g.ReluOp,
    g.SigmoidOp, g.SiluOp, g.GeluOp, g.LeakyReluOp, g.HardSigmoidOp, g.HardSwishOp,
    g.PReluOp,
)  # fmt: skip


def is_low(fill: Fill, value: SSAValue) -> bool:
    """Return whether a fill of scores, or of what is added to them, leaves no weight."""
    return fill is FillKind.LOW or (isinstance(fill, float) and fill <= lowest(value))


def lowest(value: SSAValue) -> float:
    return LOWEST_OF_F16 if isinstance(element_type(value), Float16Type) else LOWEST


def is_ordinary(fill: Fill, value: SSAValue) -> bool:
    """Return whether low scores stay low where this is added or subtracted."""
    if isinstance(fill, float):
        return abs(fill) <= ORDINARY * -lowest(value)
    return is_finite(fill)


def is_index(fill: Fill) -> bool:
    """Return whether padded elements are indices of elements, as those that count along an axis
    are."""
    return fill in (FillKind.INDEX, FillKind.COPY, FillKind.SHARED) or is_count(fill)


def is_finite(fill: Fill) -> bool:
    infinite = (FillKind.ANY, FillKind.LOW, FillKind.MASK)
    return isfinite(fill) if isinstance(fill, float) else fill not in infinite


def is_mask(fill: Fill) -> bool:
    """Return whether a softmax is defined where it is added to finite scores, except where all are
    masked."""
    return is_finite(fill) or fill in (FillKind.LOW, FillKind.MASK, -inf)


def is_count(fill: Fill) -> bool:
    return fill is FillKind.COUNT or (isinstance(fill, float) and fill >= 0)


def everywhere(value: SSAValue) -> Fill:
    """Return the fill of a value that is not padded. Weights and inputs are taken to be finite."""
    while isinstance(op := value.owner, g.View | g.BroadcastToOp):
        value = op.input
    if (dense := constant_value(value)) is None:
        return FillKind.COPY
    array = array_of(dense)
    if array.size and (array == array.reshape(-1)[0]).all():
        return float(array.reshape(-1)[0])
    return FillKind.COPY if np.isfinite(array.astype(np.float64)).all() else FillKind.ANY


def joined(fills: Sequence[Fill]) -> Fill:
    """Return the fill of elements that each have one of these fills."""
    if all(f == fills[0] for f in fills):
        return fills[0]
    if all(map(is_finite, fills)):
        return FillKind.FINITE
    return FillKind.MASK if all(map(is_mask, fills)) else FillKind.ANY


def computed(op: TensorOp, fills: Sequence[Fill]) -> Fill:
    """Return the fill that an elementwise op makes of these."""
    if all(isinstance(f, float) for f in fills):
        return evaluated(op, [f for f in fills if isinstance(f, float)])
    match op:
        case g.AndOp() if 0.0 in fills:
            return 0.0
        case g.OrOp() if 1.0 in fills:
            return 1.0
        case g.MulOp() if 0.0 in fills and all(map(is_finite, fills)):
            return 0.0
        case g.SelectOp():
            return selected(fills)
        case g.ExpOp() if fills[0] is FillKind.LOW:
            return 0.0
        case g.CastOp() if fills[0] in (
            FillKind.INDEX,
            FillKind.COUNT,
            FillKind.LOW,
            FillKind.COPY,
        ):
            return fills[0]
        case g.AddOp() | g.MulOp() if all(map(is_count, fills)):
            return FillKind.COUNT
        case g.AddOp() if any(map(is_low, fills, op.operands)):
            kept = (is_low(f, v) or is_ordinary(f, v) or f is FillKind.MASK
                    for f, v in zip(fills, op.operands, strict=True))  # fmt: skip
            return FillKind.LOW if all(kept) else FillKind.ANY
        case g.SubOp() if is_low(fills[0], op.operands[0]):
            return FillKind.LOW if is_ordinary(fills[1], op.operands[1]) else FillKind.ANY
        case _:
            pass
    if all(f is FillKind.COPY or isinstance(f, float) for f in fills):
        return FillKind.COPY
    if not is_float(element_type(op.results[0])):
        return FillKind.FINITE
    known = isinstance(op, FINITE) or _divides_by_number(op, fills)
    return FillKind.FINITE if known and all(map(is_finite, fills)) else FillKind.ANY


def selected(fills: Sequence[Fill]) -> Fill:
    condition, a, b = fills
    taken = joined((a, b)) if not isinstance(condition, float) else a if condition else b
    return taken if isinstance(taken, float) or not is_finite(taken) else FillKind.FINITE


def _divides_by_number(op: TensorOp, fills: Sequence[Fill]) -> bool:
    if isinstance(op, g.DivOp):
        return isinstance(fills[1], float) and abs(fills[1]) > 0
    return isinstance(op, g.PowOp) and fills[1] in (1.0, 2.0, 3.0)


def evaluated(op: TensorOp, values: Sequence[float]) -> Fill:
    """The op's own kernel on single elements."""
    assert isinstance(op, Elementwise | g.ClampOp)
    arrays = [
        np.array(v).astype(dtype_of(element_type(operand)))
        for v, operand in zip(values, op.operands, strict=True)
    ]
    try:
        with np.errstate(all="ignore"):
            return float(np.asarray(numbers.prepare(op)(*arrays)).reshape(-1)[0])
    except (GeError, ArithmeticError, ValueError, TypeError):
        return FillKind.ANY


Axes = dict[int, Fill]  # padded axis -> what is there


@dataclass(frozen=True)
class Folded:
    """A value that has a padded axis and axes before it as one, in which padded elements lie
    between valid ones: the rows of all samples, one sample after another. Its sizes and padded axes
    as if it had them apart: those from `at` on, as many as `count`, are its axis `at`; with a count
    of 0 that is not known."""

    sizes: Sequence[Size]
    axes: Axes
    at: int = 0
    count: int = 0

    @property
    def group(self) -> tuple[Sequence[Size], set[int]]:
        """The sizes that are one, and the padded ones of them."""
        inside = {a - self.at for a in self.axes}
        return tuple(self.sizes[self.at : self.at + self.count]), inside

    def moved(self, axis: int, sizes: Sequence[Size], fill: Fill) -> "Folded":
        """A value of these sizes, whose axis has the same ones as one, and holds this."""
        group, inside = self.group
        apart = (*sizes[:axis], *group, *sizes[axis + 1 :])
        return Folded(apart, {axis + i: fill for i in inside}, axis, self.count)


def fold(origin: Folded, sizes: Sequence[Size]) -> Folded:
    """A view of a value that has axes as one."""
    source, count = tuple(origin.sizes), len(origin.sizes) - len(sizes) + 1
    for at, size in enumerate(sizes):
        end = at + count
        inside = all(at <= axis < end for axis in origin.axes)
        if count > 1 and inside and size == volume(source[at:end]):
            if tuple(sizes[:at]) == source[:at] and tuple(sizes[at + 1 :]) == source[end:]:
                return Folded(source, origin.axes, at, count)
    return Folded(source, origin.axes)


FOLLOWS = "{} has valid elements that follow from padded ones"

UNKNOWN = "nothing is known of how {} uses its elements"


class Mixes(Exception):
    """An op whose valid results depend on padded elements, or on the size; and in words why, with
    "{}" where its name goes."""

    def __init__(self, owner: object, why: str = FOLLOWS):
        super().__init__(owner, why)


Needed = tuple[frozenset[int], ...]  # for each operand the axes that go with one of a result

Asked = Callable[[BoxInterface, int, int], Needed | None]

Parts = dict[tuple[Operation, int, int, Asked], Needed]

FAR = 1 << 31  # an end of a slice beyond any axis


@dataclass
class Padding:
    """Facts of the values of a body, for one dimension."""

    dims: Dimensions
    size: Size
    axes: dict[SSAValue, Axes] = field(default_factory=dict[SSAValue, Axes])
    sizes: set[SSAValue] = field(default_factory=set[SSAValue])  # values that follow from the size
    # Values that have no axis for a padded one: a view of them may have it again
    folded: dict[SSAValue, Folded] = field(default_factory=dict[SSAValue, Folded])
    # Values that follow from sizes and constants, and from no input
    free: set[SSAValue] = field(default_factory=set[SSAValue])
    # Axes of results -> those of operands that go with them
    parts: Parts = field(default_factory=Parts)
    static: dict[Operation, TensorOp | None] = field(
        default_factory=dict[Operation, TensorOp | None]
    )
    # What values hold that are not padded, which is so for all dimensions too
    others: dict[SSAValue, Fill] = field(default_factory=dict[SSAValue, Fill])

    def depends(self, size: Size) -> bool:
        return bool(set(size.symbols) & set(self.size.symbols))

    def along(self, value: SSAValue) -> Axes:
        return self.axes.get(value, {})

    def fill(self, value: SSAValue, axis: int | None) -> Fill:
        """Return the fill of a value where the index along its axis is padded."""
        axes, folded = self.along(value), self.folded.get(value)
        if axis is not None and axis in axes:
            return axes[axis]
        if folded is not None and axis is not None:
            return joined([*folded.axes.values()])
        if value not in self.others:
            self.others[value] = everywhere(value)
        return self.others[value]

    # ---- the walk

    def block(self, block: Block) -> None:
        for op in ops_of(block):
            operands = operands_of(op)
            touched = any([self.is_known(v) for v in operands])
            if not isinstance(op, TensorOp) or not (touched or op.regions):
                continue
            if self.folded and not isinstance(op, g.View | g.ShapeOfOp):
                if not self.folded.keys().isdisjoint(operands):
                    self.rows(op)
                    continue
            if op.regions:
                if touched or any(self.is_known(v) for inner in op.walk() for v in inner.operands):
                    raise Mixes(op)
                continue
            if all(map(self.is_free, operands)):
                self.free.update(op.results)
            for number, result in enumerate(op.results):
                if result.first_use is None:
                    continue
                axes = self.result(op, number)
                if not self.sizes.isdisjoint(operands) and result not in self.sizes:
                    self.check_sizes(result, axes)
                if axes:
                    self.axes[result] = dict(axes)

    def check_sizes(self, result: SSAValue, axes: Axes) -> None:
        """Raises Mixes where the size of an axis may follow from the padded one in another way."""
        for axis, size in enumerate(self.dims.of(result)):
            places = [self.dims.values[number] for number, _ in size.symbols]
            derived = any(not isinstance(v, BlockArgument) for v in places)
            if axis not in axes and (derived or self.depends(size)):
                raise Mixes(result.owner)

    def is_known(self, value: SSAValue) -> bool:
        return value in self.axes or value in self.sizes or value in self.folded

    def is_free(self, value: SSAValue) -> bool:
        return value in self.free or value in self.sizes or isinstance(value.owner, g.ConstantOp)

    def result(self, op: TensorOp, number: int) -> Axes:
        """The padded axes of a result. Raises Mixes."""
        if isinstance(op, g.ShapeOfOp):
            if any(map(self.depends, self.dims.of(op.input)[op.bounds()])):
                self.sizes.add(op.result)
            return {}
        follow = [v for v in operands_of(op) if v in self.sizes]
        if follow and is_shape_arithmetic(op):
            self.sizes.update(op.results)
            return {}
        match op:
            case g.RangeOp():
                return self.counted(op)
            case g.FillOp():
                return self.new_axes(op.results[0], {}, FillKind.FINITE)
            case g.BroadcastToOp():
                return self.broadcast(op)
            case g.View():
                return self.viewed(op)
            case g.SliceOp():
                return self.sliced(op)
            case _ if follow:
                raise Mixes(op)
            case g.MatmulOp():
                return self.multiplied(op)
            case g.ReduceOp():
                return self.reduced(op)
            case g.SoftmaxOp():
                return self.normalized(op)
            case g.AttentionOp():
                return self.attended(op)
            case g.SplitOp():
                return self.cut_apart(op)
            case g.CumulativeOp():
                return self.accumulated(op)
            case g.Picking():
                return self.gathered(op)
            case _:
                return self.split(op, number)

    # ---- axes that stay apart

    def split(self, op: TensorOp, number: int = 0, done: Sequence[tuple[int, int]] = ()) -> Axes:
        """Return the padded axes of a result, by the axes of which the first elements need the
        first ones of operands alone; padded axes in `done`, of operands, do not count."""
        if not says_boxes(op):
            raise Mixes(op, UNKNOWN)
        self.check_indices(op)
        left = {(i, a) for i, v in enumerate(operands_of(op)) for a in self.along(v)} - set(done)
        result: Axes = {}
        for asked in (each_axes, prefix_axes):
            for axis in range(rank_of(op.results[number])):
                if not left:
                    return result
                needed = self.needed(op, axis, number, asked)
                if covered := {p for p in left if p[1] in needed[p[0]]}:
                    left -= covered
                    result[axis] = self.made(op, needed, number)
        if left:
            index, axis = min(left)
            raise Mixes(op, f"{{}} needs all elements along axis {axis} of operand {index}")
        return result

    def check_indices(self, op: TensorOp) -> None:
        """Raises Mixes where what is padded is an index of no element: the kernel refuses it."""
        for value in op.index_operands():
            if not all(map(is_index, self.along(value).values())):
                raise Mixes(op, "{} has indices that are padded with what is no index")

    def needed(self, op: TensorOp, axis: int, number: int, asked: Asked) -> Needed:
        """For each operand the axes that go with one of a result."""
        key = op, axis, number, asked
        if key not in self.parts:
            if op.ACCESS is not Access.POINTWISE and op not in self.static:
                self.static[op] = self.with_numbers(op)
            static = self.static.get(op, op)
            needed = None if static is None else asked(static, axis, number)
            self.parts[key] = needed or (frozenset(),) * len(operands_of(op))
        return self.parts[key]

    def with_numbers(self, op: TensorOp) -> TensorOp | None:
        """Return the op with one number for each size; if it does not take these, with one for
        all."""
        numbers = {self.size: STEP}

        def apart(value: SSAValue, axis: int) -> int:
            return numbers.setdefault(self.dims.of(value)[axis], (len(numbers) + 1) * STEP)

        def alike(value: SSAValue, axis: int) -> int:
            return STEP

        return stand_in(op, apart) or stand_in(op, alike)

    def made(self, op: TensorOp, needed: Needed, number: int) -> Fill:
        """Return the fill of the padded part of a result."""
        fills = [
            self.fill(v, next(iter(axes), None))
            for v, axes in zip(op.operands, needed, strict=True)
        ]
        if isinstance(op, Elementwise | g.ClampOp):
            made = computed(op, fills)
            is_shared = made in (FillKind.FINITE, FillKind.COPY) and op.result in self.free
            return FillKind.SHARED if is_shared and is_integer(element_type(op.result)) else made
        padded = [f for f, axes in zip(fills, needed, strict=True) if axes]
        if op.ACCESS is Access.LOOKUP:
            data = op.operands[0]
            every = joined([fills[0], self.fill(data, None), *self.along(data).values()])
            return (
                fills[0]
                if not any(needed[1:])
                else FillKind.FINITE
                if every is FillKind.COPY
                else every
            )
        if op.ACCESS in MOVING:  # some put in elements of their own, such as zeros
            return joined(padded if isinstance(op, SplitInterface) else [*padded, FillKind.FINITE])
        if isinstance(op, g.MatmulOp) and 0.0 in padded and all(map(is_finite, fills)):
            return 0.0
        return FillKind.FINITE if all(map(is_finite, fills)) else FillKind.ANY

    # ---- new axes, and axes at other places

    def new_axes(self, result: SSAValue, old: Axes, fill: Fill) -> Axes:
        """The padded axes of a result whose other axes of this size are new."""
        axes = dict(old)
        for i, size in enumerate(self.dims.of(result)):
            if i not in axes and size == self.size:
                axes[i] = fill
            elif i not in axes and self.depends(size):
                raise Mixes(result.owner)
        return axes

    def counted(self, op: g.RangeOp) -> Axes:
        if op.start in self.sizes or op.delta in self.sizes:
            raise Mixes(op)
        return self.new_axes(op.results[0], {}, FillKind.INDEX)

    def broadcast(self, op: g.BroadcastToOp) -> Axes:
        offset = rank_of(op.result) - rank_of(op.input)
        old = {a + offset: f for a, f in self.along(op.input).items()}
        body = everywhere(op.input)
        return self.new_axes(op.result, old, body)

    def viewed(self, op: g.View) -> Axes:
        """An axis stays one where as many elements are after it, or as many places before it: then
        the first elements stay the first."""
        plain = Folded(self.dims.of(op.input), self.along(op.input))
        origin = self.folded.get(op.input, plain)
        source, result = origin.sizes, self.dims.of(op.results[0])
        axes: Axes = {}
        for axis, fill in origin.axes.items():
            inner = volume(source[axis + 1 :])
            same = [
                j for j, s in enumerate(result)
                if s == source[axis] and volume(result[j + 1 :]) == inner
            ]  # fmt: skip
            before = volume(source[:axis])
            first = next((j for j, s in enumerate(result)
                          if s.number != 1 and volume(result[:j]) == before), None)  # fmt: skip
            if same:
                axes[same[0]] = fill
            elif (
                first is not None
                and not self.depends(before)
                and not any(map(self.depends, (*source[axis + 1 :], *result[first + 1 :])))
            ):
                axes[first] = FillKind.FINITE if fill in (FillKind.INDEX, FillKind.COPY) else fill
            else:
                self.folded[op.results[0]] = fold(origin, result)
                return {}
        return axes

    def rows(self, op: TensorOp) -> None:
        """An op on folded values: each row of its results needs that row alone. Raises Mixes."""
        operands = operands_of(op)
        folds = {i: f for i, v in enumerate(operands) if (f := self.folded.get(v)) is not None}
        view = operands[next(iter(folds))].owner
        others = [v for i, v in enumerate(operands) if i not in folds]
        first, *more = folds.values()
        alike = first.count and all(f.group == first.group for f in more)
        if op.regions or not alike or any(map(self.is_known, others)) or not says_boxes(op):
            raise Mixes(view)
        for value in op.index_operands():
            if value in self.folded and not all(map(is_index, self.folded[value].axes.values())):
                raise Mixes(op, "{} has indices that are padded with what is no index")
        rows = {i: frozenset({f.at}) for i, f in folds.items()}
        wanted = tuple(rows.get(i, frozenset[int]()) for i, _ in enumerate(operands))
        for number, result in enumerate(op.results):
            own = self.dims.of(result)
            parts = (self.needed(op, axis, number, each_axes) for axis, _ in enumerate(own))
            if (axis := next((a for a, p in enumerate(parts) if p == wanted), None)) is None:
                raise Mixes(view)
            self.folded[result] = first.moved(axis, own, self.made(op, wanted, number))

    def sliced(self, op: g.SliceOp) -> Axes:
        bounds = op.bounds()
        if bounds is None:
            raise Mixes(op)
        axes = dict(self.along(op.input))
        for axis, start, end, step in bounds:
            size = self.dims.of(op.result)[axis]
            if axis not in axes and not self.depends(size) and self.dims.cut.get(size) is None:
                continue
            prefix = start == 0 and step == 1
            cut = self.dims.cut.get(size, size)
            if prefix and axis in axes and end is not None and end >= FAR:
                continue
            if prefix and axis in axes and end is not None and end > 0 and size.number is not None:
                del axes[axis]
            elif prefix and axis not in axes and cut == self.size:
                axes[axis] = FillKind.SHARED
            elif axis in axes or self.depends(cut):
                raise Mixes(op)
        return axes

    def cut_apart(self, op: g.SplitOp) -> Axes:
        axes = self.along(op.input)
        if op.axis.value.data in axes:
            raise Mixes(op)
        return axes

    # ---- sums, softmax, attention

    def multiplied(self, op: g.MatmulOp) -> Axes:
        k = op.summed
        a, b = self.along(op.lhs).get(k[0]), self.along(op.rhs).get(k[1])
        if a is None and b is None:
            return self.split(op)
        if a is None or b is None or 0.0 not in (a, b) or not (is_finite(a) and is_finite(b)):
            raise Mixes(op)
        return self.split(op, done=[(0, k[0]), (1, k[1])])

    def reduced(self, op: g.ReduceOp) -> Axes:
        axes, own = op.reduced_axes(), self.along(op.input)
        if axes is None:
            raise Mixes(op)
        neutral = {"sum": 0.0, "l1": 0.0, "l2": 0.0, "sum_square": 0.0, "prod": 1.0}
        for axis, fill in own.items():
            if axis not in axes:
                continue
            kind = op.kind.data
            fits = fill == neutral.get(kind) if kind in neutral else kind == "max" and (
                fill == -inf or is_low(fill, op.input)
            )  # fmt: skip
            if not fits:
                raise Mixes(op)
        kept = bool(op.keep_dims.value.data)
        rest = [i for i in range(rank_of(op.input)) if i not in axes]
        finite = op.kind.data in ("sum", "mean", "max", "min", "l1", "sum_square")
        return {
            (axis if kept else rest.index(axis)): FillKind.FINITE
            if finite and is_finite(fill)
            else FillKind.ANY
            for axis, fill in own.items()
            if axis not in axes
        }

    def accumulated(self, op: g.CumulativeOp) -> Axes:
        """From the end, zeros add nothing to a running sum, and ones nothing to a product. A sum of
        zeros and ones counts."""
        neutral = {"sum": 0.0, "prod": 1.0}[op.kind.data]
        rows = op.row_axes() if op.reverse.value.data else None
        own = {a: f for a, f in self.along(op.input).items() if a in (rows or ()) and f == neutral}
        axes = {**self.split(op, done=[(0, a) for a in own]), **own}
        cast = op.input.owner
        ones = isinstance(cast, g.CastOp) and element_type(cast.input) == i1
        return dict.fromkeys(axes, FillKind.COUNT) if ones and op.kind.data == "sum" else axes

    def normalized(self, op: g.SoftmaxOp) -> Axes:
        last = op.axis.value.data
        fill = self.along(op.input).get(last)
        if fill is None or op.flatten.value.data:
            return self.split(op)
        if not is_low(fill, op.input):
            raise Mixes(op)
        return {**self.split(op, done=[(0, last)]), last: 0.0}

    def attended(self, op: g.AttentionOp) -> Axes:
        """Keys that are padded have no weight; batch, heads and queries stay apart."""
        result: Axes = {}
        key, value = (self.along(v).get(op.dimension(name, 2))
                      for name, v in (("key", op.key), ("value", op.value)))  # fmt: skip
        defined = is_finite if op.undefined.data == "nan" else is_mask
        finite = all(
            (defined if v in op.masks else is_finite)(f)
            for v in op.operands
            for f in self.along(v).values()
        )
        if key is not None or value is not None:
            if not (key is not None and value is not None and is_finite(key) and is_finite(value)):
                raise Mixes(op)
            if not self.leaves_out(op):
                raise Mixes(op)
        positional = op.key_lengths is not None or op.offset_value is not None
        for axis, name in ((0, "query"), (1, "query"), (2, "query")):
            if op.dimension(name, axis) in self.along(op.query):
                if axis == 2 and positional:
                    raise Mixes(op)
                result[op.dimension("result", axis)] = FillKind.FINITE if finite else FillKind.ANY
        if op.dimension("query", 3) in self.along(op.query):
            raise Mixes(op)
        if op.dimension("value", 3) in self.along(op.value):
            raise Mixes(op)
        return result

    def leaves_out(self, op: g.AttentionOp) -> bool:
        """Return whether valid queries see no padded key."""
        for mask in op.masks:
            fill = self.along(mask).get(rank_of(mask) - 1)
            if fill is not None and (is_low(fill, mask) or self.is_false(op, mask, fill)):
                return True
        plain = op.key_lengths is None and op.offset_value is None and op.ints("offset") in (
            None, (0,)
        )  # fmt: skip
        queries = op.dimension("query", 2) in self.along(op.query)
        return bool(op.causal.value.data) and plain and queries

    def is_false(self, op: g.AttentionOp, mask: SSAValue, fill: Fill) -> bool:
        is_bool = getattr(mask.type, "element_type", None) == i1
        return is_bool and fill == 0.0 and is_low(float(op.fill.value.data), op.query)

    # ---- indices

    def gathered(self, op: g.Picking) -> Axes:
        """Constant indices from the front name valid elements."""
        indexed = op.indexed_axes()
        if from_front(op.indices):
            return self.split(op, done=[(0, a) for a in indexed])
        if isinstance(op, g.GatherNdOp) and not self.along(op.input).keys().isdisjoint(indexed):
            return self.gathered_vectors(op)
        return self.split(op)

    def gathered_vectors(self, op: g.GatherNdOp) -> Axes:
        """Indices that count along the axes of the data, in vectors that a concatenation makes."""
        data, indices = op.operands
        own = self.along(data)
        vectors = indices.owner
        if op.batch_dims.value.data or not isinstance(vectors, g.ConcatOp):
            raise Mixes(op)
        result: Axes = {}
        last = rank_of(indices) - 1
        parts = list(vectors.inputs)
        if vectors.axis.value.data != last or any(self.dims.of(p)[last].number != 1 for p in parts):
            raise Mixes(op)
        for i, part in enumerate(parts):
            counting = [a for a, f in self.along(part).items() if f is FillKind.INDEX]
            others = [
                f for f in self.along(part).values() if f not in (FillKind.INDEX, FillKind.COPY)
            ]
            if others or (i in own and len(counting) != 1):
                raise Mixes(op)
            for axis in self.along(part):
                result.setdefault(axis, FillKind.FINITE)
            if i in own:
                result[counting[0]] = own[i]
        if any(i >= len(parts) for i in own):
            raise Mixes(op)
        return result


def unfused(func: FuncOp) -> FuncOp:
    """A copy in which the members of fused ops stand by themselves."""
    body = func.body.block
    copy, block = func.clone_without_regions(), Block(arg_types=body.arg_types)
    values: dict[SSAValue, SSAValue] = dict(zip(body.args, block.args, strict=True))
    for op in body.ops:
        inside = op.members if isinstance(op, FusedOp) else [op]
        if isinstance(op, FusedOp):
            values |= {a: values[v] for a, v in zip(op.block.args, op.inputs, strict=True)}
        for member in inside:
            put_last(block, cloned(member, values))
        if isinstance(op, FusedOp):
            values |= {r: values[v] for r, v in zip(op.results, op.yielded, strict=True)}
    copy.body.add_block(block)
    return copy


def paddings(func: FuncOp, gears: Gears) -> Mapping[str, "str | list[tuple[int, int]]"]:
    """For each dimension of the gears the axes of outputs that are to be cut (number of the output,
    and axis), or why it cannot be padded."""
    copy = unfused(func)
    body = copy.body.block
    dims = Dimensions(copy.body)
    parts: Parts = {}
    others: dict[SSAValue, Fill] = {}
    result: dict[str, str | list[tuple[int, int]]] = {}
    for name, places in gears.places.items():
        if (reason := follows_from(name, gears)) is not None:
            result[name] = reason
            continue
        size = dims.of(body.args[places[0][0]])[places[0][1]]
        padding = Padding(dims, size, parts=parts, others=others)
        for i, axis in places:
            padding.axes.setdefault(body.args[i], {})[axis] = 0.0
        try:
            padding.block(body)
            result[name] = cut_axes(body, padding)
        except Mixes as mixes:
            owner, why = mixes.args
            result[name] = why.format(named(owner))
    return result


def follows_from(name: str, gears: Gears) -> str | None:
    """Return why a dimension that others follow from is not padded: an append to a cache would lie
    behind the padding."""
    for other in gears.names:
        if other != name and name in symbols(other):
            return f"'{other}' follows from it, whose padding would lie inside"
        if other != name and other in symbols(name):
            return f"it follows from '{other}'"
    return None


def named(owner: object) -> str:
    """An op by its name, and where the model has it."""
    if not isinstance(owner, Operation):
        return "an input"
    location = location_of(owner)
    where = location.name or str(location)
    return f"{owner.name} ({where})" if where else owner.name


def is_torn(size: Size, padding: Padding) -> bool:
    """Return whether a view has made a size that is no multiple of the padded one: rows of 16 out
    of those of 8, which only an even number of these fills."""
    made = (padding.dims.values[number].owner for number, _ in size.symbols)
    return size.over(padding.size) is None and any(isinstance(op, g.View) for op in made)


def cut_axes(body: Block, padding: Padding) -> list[tuple[int, int]]:
    for value in yielded(body):
        if value in padding.sizes or value in padding.folded:
            raise Mixes(value.owner)
        for axis in padding.along(value):
            if is_torn(padding.dims.of(value)[axis], padding):
                text = f"{{}} has no whole number of elements along axis {axis} for each that is"
                raise Mixes(value.owner, f"{text} padded")
    return [(i, axis) for i, v in enumerate(yielded(body)) for axis in padding.along(v)]
