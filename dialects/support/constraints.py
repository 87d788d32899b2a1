"""Constraints of the types of operands and results, shared by definitions of ops.

    input = operand_def(FLOATS)
    lengths = opt_operand_def(INTEGERS.of_rank(1))

Each is of ranked tensors without an encoding, of elements that kernels take.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    TensorType,
    UnrankedTensorType,
    f8E4M3FN,
    f8E5M2,
    f64,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, AttributeCovT
from xdsl.irdl import (
    AnyAttr,
    AnyOf,
    AtLeast,
    AttrConstraint,
    MessageConstraint,
    ParamAttrConstraint,
    RangeOf,
    VerificationContext,
)
from xdsl.utils.exceptions import VerifyException

from ge.dialects.support.element_types import ELEMENT_TYPES, row_of, ui8

_FITTING = "_ge_fitting"  # in attributes, which are immutable: constraints that they fit, by ids

RANKS = {0: "a scalar", 1: "a vector", 2: "a matrix"}


@dataclass(frozen=True, init=False)
class Named(MessageConstraint[AttributeCovT]):
    """A constraint whose message says what is expected."""

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        known: dict[int, object] = vars(attr).setdefault(_FITTING, {})
        if id(self) in known:
            return
        try:
            self.constr.verify(attr, constraint_context)
            known[id(self)] = self
        except VerifyException:
            text = f"expected {self.message}, not {attr}{self.way_out(attr)}"
            raise VerifyException(text) from None

    def way_out(self, attr: Attribute) -> str:
        """Advice for a user whose attribute is refused; "" if there is none."""
        return ""


@dataclass(frozen=True, init=False)
class TensorOf(Named[Attribute]):
    """Tensors of some element types, which `words` name, of one rank or of any."""

    elements: tuple[Attribute, ...]
    words: str

    def __init__(
        self,
        elements: Iterable[Attribute],
        words: str,
        rank: int | None = None,
        unranked: bool = False,
    ):
        elements = tuple(elements)
        element = AnyOf.get(*elements)
        shape = AnyAttr() if rank is None else ArrayAttr.constr(RangeOf(AnyAttr()).of_length(rank))
        constr = ParamAttrConstraint.get(TensorType, shape, element, NoneAttr())
        kind = "a ranked tensor" if rank is None else RANKS.get(rank, f"a tensor of rank {rank}")
        if unranked:
            constr = AnyOf.get(constr, ParamAttrConstraint.get(UnrankedTensorType, element))
            kind = "a tensor"
        super().__init__(constr, f"{kind} of {words}")
        object.__setattr__(self, "elements", elements)
        object.__setattr__(self, "words", words)

    def of_rank(self, rank: int) -> "TensorOf":
        return TensorOf(self.elements, self.words, rank)

    def or_unranked(self) -> "TensorOf":
        """The same of tensors whose rank may be known only at run time, too."""
        return TensorOf(self.elements, self.words, unranked=True)

    def way_out(self, attr: Attribute) -> str:
        element = getattr(attr, "element_type", None)
        row = None if element is None else row_of(element)
        if row is None or not row.storage_only or element in self.elements:
            return ""
        return f"; {element} is only stored: cast it to compute with it"


@dataclass(frozen=True)
class FloatRange(AttrConstraint[FloatAttr[Float64Type]]):
    """Finite f64 that are not below the least one."""

    least: float

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not isinstance(attr, FloatAttr):
            raise VerifyException(f"{attr} is no float")
        typed = cast("FloatAttr[AnyFloat]", attr)
        if typed.type != f64 or not self.least <= typed.value.data < math.inf:
            raise VerifyException(f"{attr} is not in range")

    def get_bases(self) -> set[type[Attribute]]:
        return {FloatAttr}

    def mapping_type_vars(self, type_var_mapping: object) -> "FloatRange":
        return self


_COMPUTED = [row for row in ELEMENT_TYPES if not row.storage_only]
_INTEGERS = [row.type for row in _COMPUTED if not row.is_float and row.type != i1]
_FLOATS = [row.type for row in _COMPUTED if row.is_float]
_TYPES = [row.type for row in ELEMENT_TYPES]

ELEMENT = Named(AnyOf.get(*_TYPES), "an element type of ge")
FLOAT = Named(AnyOf.get(*(row.type for row in ELEMENT_TYPES if row.is_float)), "a float type")

ANY = TensorOf(_TYPES, "elements that ge has")  # of ops that move elements, or read none
VALUES = ANY.or_unranked()  # of ops that hand on what they are given
COMPUTED = TensorOf([*_FLOATS, *_INTEGERS, i1], "numbers or truth values")
NUMBERS = TensorOf([*_FLOATS, *_INTEGERS], "numbers")
FLOATS = TensorOf(_FLOATS, "floats")
INTEGERS = TensorOf(_INTEGERS, "integers")
BITS = TensorOf([*_INTEGERS, i1], "integers or truth values")
TRUTHS = TensorOf([i1], "truth values (i1)")
INDICES = TensorOf([i64], "i64")  # that ops compute

BUFFERS = Named(
    ParamAttrConstraint.get(
        MemRefType,
        AnyAttr(),
        AnyOf.get(*_TYPES),
        AnyOf.get(NoneAttr, StridedLayoutAttr),
        AnyAttr(),  # the space: npu_task verifies it
    ),
    "a memref of elements that ge has",
)
SHAPED = Named(AnyOf.get(ANY, BUFFERS), "a ranked tensor or memref of elements that ge has")

# Properties. Numbers that are no elements have one width. Assembly formats know these of xDSL's.
INT = IntegerAttr.constr(i64)
INTS = DenseArrayBase.constr(i64)
COUNT = IntegerAttr.constr(i64, value=AtLeast(1))
F64 = FloatAttr.constr(f64)
F64S = DenseArrayBase.constr(f64)
NOT_NEGATIVE = Named(FloatRange(0.0), "a finite f64 that is not negative")
POSITIVE = Named(FloatRange(math.ulp(0.0)), "a finite f64 above 0")
INTEGER = Named(
    ParamAttrConstraint.get(IntegerAttr, None, AnyOf.get(*_INTEGERS)),
    "an integer of a type of elements",
)
SCALAR = Named(
    AnyOf.get(
        ParamAttrConstraint.get(FloatAttr, None, AnyOf.get(*_FLOATS)),
        ParamAttrConstraint.get(IntegerAttr, None, AnyOf.get(*_INTEGERS, i1)),
    ),
    "a number or truth value of a type of elements",
)

FACTORS = TensorOf([*_FLOATS, f8E4M3FN, f8E5M2, *_INTEGERS], "numbers that are multiplied")
QUANTIZED = TensorOf(
    [
        *(row.type for row in ELEMENT_TYPES if not row.is_float and 1 < row.bits <= 16),
        i32,
        *(row.type for row in ELEMENT_TYPES if row.is_float and row.storage_only and row.is_signed),
    ],
    "quantized elements",
)
BYTES = TensorOf([i8, ui8], "integers of 8 bits")
