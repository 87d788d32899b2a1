"""What the scalar unit computes indices and conditions with: ops of `arith`, and what they are of
whole numbers of any size. What is unsigned is not negative."""

import operator
from collections.abc import Callable

from xdsl.dialects.arith import (
    AddiOp,
    AndIOp,
    CeilDivSIOp,
    CmpiOp,
    ConstantOp,
    DivSIOp,
    DivUIOp,
    FloorDivSIOp,
    MaxSIOp,
    MaxUIOp,
    MinSIOp,
    MinUIOp,
    MuliOp,
    OrIOp,
    RemSIOp,
    RemUIOp,
    SelectOp,
    SignlessIntegerBinaryOperation,
    SubiOp,
    XOrIOp,
)

Binary = SignlessIntegerBinaryOperation


def quotient(a: int, b: int) -> int:
    """Rounded to zero."""
    return a // b if (a < 0) == (b < 0) else -(-a // b)


def remainder(a: int, b: int) -> int:
    """Of the sign of `a`."""
    return a % b if a >= 0 and b > 0 else a - b * quotient(a, b)


def quotient_up(a: int, b: int) -> int:
    return -(-a // b)


ARITHMETIC: dict[type[Binary], Callable[[int, int], int]] = {
    AddiOp: operator.add,
    SubiOp: operator.sub,
    MuliOp: operator.mul,
    FloorDivSIOp: lambda a, b: a // b,
    CeilDivSIOp: quotient_up,
    DivSIOp: quotient,
    DivUIOp: quotient,
    RemSIOp: remainder,
    RemUIOp: remainder,
    MinSIOp: min,
    MinUIOp: min,
    MaxSIOp: max,
    MaxUIOp: max,
    AndIOp: lambda a, b: a & b,
    OrIOp: lambda a, b: a | b,
    XOrIOp: lambda a, b: a ^ b,
}
PREDICATES: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "slt": operator.lt,
    "sle": operator.le,
    "sgt": operator.gt,
    "sge": operator.ge,
    "ult": operator.lt,
    "ule": operator.le,
    "ugt": operator.gt,
    "uge": operator.ge,
}
"""Of `arith.cmpi`, in the order of its numbers."""

COMPARED = tuple(PREDICATES.values())
BY_NAME = {kind.name.removeprefix("arith."): kind for kind in ARITHMETIC}
INDEX_OPS = frozenset(op.name for op in (*ARITHMETIC, ConstantOp, CmpiOp, SelectOp))
"""What the scalar unit computes with."""
