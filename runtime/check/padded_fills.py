"""What elements hold that are padded, in the proof of gears (`padding.py`): a known number, or what
is known of them otherwise."""

from collections.abc import Sequence
from enum import Enum
from math import isfinite
from typing import TypeAlias

from xdsl.dialects.builtin import (
    Float16Type,
    i1,
)
from xdsl.ir import Operation, SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.support.element_types import is_float
from ge.dialects.support.types import (
    element_type,
)


class Held(Enum):
    """What padded elements hold that is no known number."""

    LOW = "what leaves no weight in a softmax"
    FINITE = "some finite value"
    MASK = "some finite value, or minus infinity"
    ANY = "any value, infinite or nan too"


Fill: TypeAlias = float | Held

LOWEST, LOWEST_OF_F16, ORDINARY = -1e30, -6e4, 0.4  # see `is_low`


def is_finite(fill: Fill) -> bool:
    return isfinite(fill) if isinstance(fill, float) else fill is Held.FINITE


def is_low(fill: Fill, value: SSAValue) -> bool:
    """Whether scores of this fill have no weight, beside others of up to `ORDINARY` of its size."""
    return fill is Held.LOW or (isinstance(fill, float) and fill <= lowest(value))


def lowest(value: SSAValue) -> float:
    return LOWEST_OF_F16 if isinstance(element_type(value), Float16Type) else LOWEST


def is_ordinary(fill: Fill, value: SSAValue) -> bool:
    return abs(fill) <= -ORDINARY * lowest(value) if isinstance(fill, float) else is_finite(fill)


def joined(fills: Sequence[Fill]) -> Fill:
    """What elements hold of which some hold each of these."""
    if all(fill == fills[0] for fill in fills):
        return fills[0]
    if all(map(is_finite, fills)):
        return Held.FINITE
    return Held.ANY if Held.ANY in fills else Held.MASK


def computed(op: Operation, fills: Sequence[Fill]) -> Fill:
    """What an elementwise op makes of these."""
    numbers = [f for f in fills if isinstance(f, float)]
    if len(numbers) == len(fills) and (result := evaluated(op, numbers)) is not None:
        return result
    low = [is_low(f, v) for f, v in zip(fills, op.operands, strict=False)]
    match op:
        case e.AndOp() | e.MulOp() if 0.0 in fills and all(map(is_finite, fills)):
            return 0.0
        case e.OrOp() if 1.0 in fills:
            return 1.0
        case e.SelectOp():
            return (
                joined(fills[1:])
                if not isinstance(fills[0], float)
                else fills[1 if fills[0] else 2]
            )
        case e.ExpOp() if low[0]:
            return 0.0
        case e.CastOp() if low[0]:
            return Held.LOW
        case e.AddOp() | e.SubOp() if any(low):
            first = fills[:1] if isinstance(op, e.SubOp) else fills
            kept = (
                is_ordinary(f, v) or f is Held.MASK or (lo and f in first)
                for f, v, lo in zip(fills, op.operands, low, strict=True)
            )
            return Held.LOW if all(kept) and (low[0] or isinstance(op, e.AddOp)) else Held.ANY
        case e.AddOp() if Held.ANY not in fills:
            return joined([Held.FINITE, *fills])
        case _:
            return Held.FINITE if all(map(is_finite, fills)) else Held.ANY


def evaluated(op: Operation, n: Sequence[float]) -> float | None:
    """A few ops on numbers, as masks are made by them."""
    match op:
        case e.AddOp():
            return n[0] + n[1]
        case e.SubOp():
            return n[0] - n[1]
        case e.MulOp():
            return n[0] * n[1]
        case e.DivOp() if n[1]:
            return n[0] / n[1] if is_float(element_type(op.results[0])) else None
        case e.NegOp():
            return -n[0]
        case e.NotOp():
            return float(not n[0])
        case e.CastOp():
            return float(n[0] != 0) if op.to == i1 else n[0] if n[0] == int(n[0]) else None
        case e.CompareOp():
            return float(COMPARE[op.predicate.data](n[0], n[1]))
        case e.SelectOp():
            return n[1] if n[0] else n[2]
        case e.AndOp():
            return float(bool(n[0]) and bool(n[1]))
        case e.OrOp():
            return float(bool(n[0]) or bool(n[1]))
        case _:
            return None


COMPARE = {
    "eq": float.__eq__, "ne": float.__ne__, "lt": float.__lt__, "le": float.__le__,
    "gt": float.__gt__, "ge": float.__ge__,
}  # fmt: skip
