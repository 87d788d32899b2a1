"""Contents of padded elements: a known constant, or what is known of them otherwise.

In a `Folded` value a padded axis and axes before it are one, as in [batch * length, 16]: each row
stays apart from the others, and a view has the axis again. `Mixes` says why a dimension cannot be
padded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import isfinite, isinf
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import Float16Type
from xdsl.ir import SSAValue

from ge.dialects.graph import activation as act
from ge.dialects.graph import elementwise as e
from ge.dialects.graph.elementwise import CosOp, Elementwise, SinOp
from ge.dialects.graph.shape import BroadcastToOp, View
from ge.dialects.support.element_types import is_float
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import constant_value, element_type
from ge.runtime import numbers
from ge.runtime.data.arrays import array_of, dtype_of
from ge.transforms.analysis.dimensions import Size, volume


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
    e.AddOp, e.SubOp, e.MulOp, e.NegOp, e.AbsOp, e.SignOp, e.FloorOp, e.CeilOp, e.RoundOp, e.TanhOp,
    e.ErfOp, e.MaximumOp, e.MinimumOp, e.SelectOp, e.CastOp, e.ClampOp, SinOp, CosOp, act.ReluOp,
    act.SigmoidOp, act.SiluOp, act.GeluOp, act.LeakyReluOp, act.HardSigmoidOp, act.HardSwishOp,
    act.PReluOp,
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
    return is_finite(fill) or fill in (FillKind.LOW, FillKind.MASK) or _low(fill)


def is_count(fill: Fill) -> bool:
    return fill is FillKind.COUNT or (isinstance(fill, float) and fill >= 0)


def everywhere(value: SSAValue) -> Fill:
    """Return the fill of a value that is not padded. Weights and inputs are taken to be finite."""
    while isinstance(op := value.owner, View | BroadcastToOp):
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
        case e.AndOp() if 0.0 in fills:
            return 0.0
        case e.OrOp() if 1.0 in fills:
            return 1.0
        case e.MulOp() if 0.0 in fills and all(map(is_finite, fills)):
            return 0.0
        case e.SelectOp():
            return selected(fills)
        case e.ExpOp() if fills[0] is FillKind.LOW:
            return 0.0
        case e.CastOp() if fills[0] in (
            FillKind.INDEX,
            FillKind.COUNT,
            FillKind.LOW,
            FillKind.COPY,
        ):
            return fills[0]
        case e.AddOp() | e.MulOp() if all(map(is_count, fills)):
            return FillKind.COUNT
        case e.AddOp() if any(map(is_low, fills, op.operands)):
            kept = (is_low(f, v) or is_ordinary(f, v) or f is FillKind.MASK
                    for f, v in zip(fills, op.operands, strict=True))  # fmt: skip
            return FillKind.LOW if all(kept) else FillKind.ANY
        case e.SubOp() if is_low(fills[0], op.operands[0]):
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


def _low(fill: Fill) -> bool:
    return isinstance(fill, float) and isinf(fill) and fill < 0


def _divides_by_number(op: TensorOp, fills: Sequence[Fill]) -> bool:
    if isinstance(op, e.DivOp):
        return isinstance(fills[1], float) and abs(fills[1]) > 0
    return isinstance(op, e.PowOp) and fills[1] in (1.0, 2.0, 3.0)


def evaluated(op: TensorOp, values: Sequence[float]) -> Fill:
    """The op's own kernel on single elements."""
    assert isinstance(op, Elementwise | e.ClampOp)
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
