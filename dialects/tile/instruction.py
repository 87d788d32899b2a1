"""The facts that each instruction of a core states: its pipe, its operands read and written.

This is the one place that the passes, the emulated core, its costs and the checker take it from.

With it the numbers that instructions have in the text, `-inf` and `nan` among them, and the ops of
`arith` with which the scalar unit computes indices and conditions, on whole numbers of any size.
Unsigned operands are not negative."""

import operator
from abc import ABC
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import inf, isinf, isnan, nan
from typing import ClassVar, TypeAlias, cast

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
from xdsl.dialects.builtin import AnyFloat, Float64Type, FloatAttr, IntegerAttr, f64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from ge.dialects.npu_task.attributes import number
from ge.dialects.support.element_types import is_float, row_of
from ge.dialects.support.operation import GeOp
from ge.dialects.tile.types import Memory, Pipe


class Instruction(GeOp, ABC):
    """An op that the scalar unit issues to a pipe. All other ops it runs itself, when it comes to
    them. Operands are tiles, boxes of memrefs and fifos."""

    PIPE: ClassVar[Pipe]
    READS: ClassVar[Sequence[str]] = ("source",)
    WRITES: ClassVar[Sequence[str]] = ("target",)

    def pipe(self) -> Pipe:
        return self.PIPE

    def reads(self) -> Sequence[SSAValue]:
        """The operands whose elements it reads."""
        return [getattr(self, name) for name in self.READS]

    def writes(self) -> Sequence[SSAValue]:
        """The operands whose elements it writes."""
        return [getattr(self, name) for name in self.WRITES]

    def not_read_if(self) -> tuple[SSAValue, SSAValue] | None:
        """One of `reads()` and an i1: where that is true it is not read."""
        return None

    def reads_number(self, value: SSAValue) -> bool:
        """True if it takes a tile as one number, which the scalar unit reads, wherever it lies."""
        return False


class CoreProgram(GeOp, ABC):
    """The program of each core of one kind."""

    MEMORIES: ClassVar[frozenset[Memory]]
    PIPES: ClassVar[frozenset[Pipe]]

    @property
    def parts(self) -> int:
        """Number of cores that run it beside each core of the other kind, with a part of the rows
        of each tile in a fifo."""
        return 1


def program_of(op: Operation) -> CoreProgram | None:
    """The program that an op is part of."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, CoreProgram):
        parent = parent.parent_op()
    return parent


def parse_value(parser: Parser) -> SSAValue:
    """An operand that stands without its type: it is defined before."""
    place = parser.pos
    name = parser.parse_unresolved_operand()
    values = parser.ssa_values.get(name.operand_name)
    if values is None or name.index >= len(values):
        parser.raise_error(f"%{name.operand_name} is not defined before", place)
    return values[name.index]


def parse_end(parser: Parser, op: GeOp) -> None:
    """The attributes of an op, where any are."""
    op.attributes.update(parser.parse_optional_attr_dict())


Number: TypeAlias = int | float


def number_attr(value: Number, element: Attribute) -> Attribute:
    """The attribute of a number that elements of this type become."""
    if is_float(element) or isinstance(value, float):
        return _float_attr(float(value).hex())
    return number(value)


@lru_cache(maxsize=4096)
def _float_attr(text: str) -> FloatAttr[Float64Type]:
    """The attribute of a number by its bits: 0.0 and -0.0 are two; equal ones are one attribute."""
    return FloatAttr(float.fromhex(text), f64)


def number_of(attr: Attribute) -> Number:
    if isinstance(attr, FloatAttr):
        return cast("FloatAttr[AnyFloat]", attr).value.data
    return cast(IntegerAttr, attr).value.data


def zero_of(element: Attribute) -> Number:
    """The 0 that elements of a type can be."""
    row = row_of(element)
    return 0.0 if row is None or row.is_float else 0


def is_number(attr: Attribute) -> bool:
    return isinstance(attr, FloatAttr | IntegerAttr)


def check_number(attr: Attribute, element: Attribute) -> None:
    """Raises VerifyException for a number that no element of this type is."""
    if not is_number(attr):
        raise VerifyException(f"expected a number, got {attr}")
    row = row_of(element)
    if row is None or row.is_float:
        return
    value = number_of(attr)
    low = -(2 ** (row.bits - 1)) if row.is_signed and row.bits > 1 else 0
    if not isinstance(value, int) or not low <= value < low + 2**row.bits:
        raise VerifyException(f"{scalar_text(attr)} is no {element}")


def parse_scalar(parser: Parser) -> Number:
    """An integer, a float, `inf` or `nan`, with a sign or without."""
    sign = -1 if parser.parse_optional_punctuation("-") else 1
    if parser.parse_optional_keyword("inf"):
        return sign * inf
    if parser.parse_optional_keyword("nan"):
        return nan
    return sign * parser.parse_number()


def scalar_text(attr: Attribute) -> str:
    """The text that `parse_scalar` reads as the same number."""
    value = number_of(attr)
    if isinstance(value, float) and (isinf(value) or isnan(value)):
        return str(value)
    text = repr(value)
    return text if "." in text else text.replace("e", ".0e")  # MLIR's floats have a point


Binary = SignlessIntegerBinaryOperation


def quotient(a: int, b: int) -> int:
    """Rounded to zero."""
    return a // b if (a < 0) == (b < 0) else -(-a // b)


def remainder(a: int, b: int) -> int:
    """Remainder with the sign of `a`."""
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
