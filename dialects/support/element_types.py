"""The element types of ge. A new type is a row of `ELEMENT_TYPES`: it can then be read, written,
stored, moved and cast at every level. Nothing here imports numpy, onnx or safetensors."""

from dataclasses import dataclass
from functools import cached_property
from typing import cast

from xdsl.dialects.builtin import (
    FixedBitwidthType,
    IntegerType,
    Signedness,
    bf16,
    f4E2M1FN,
    f8E4M3FN,
    f8E4M3FNUZ,
    f8E5M2,
    f8E5M2FNUZ,
    f8E8M0FNU,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from ge.dialects.support.errors import GeError

i2, i4 = IntegerType(2), IntegerType(4)
ui2, ui4, ui8, ui16, ui32, ui64 = (
    IntegerType(w, Signedness.UNSIGNED) for w in (2, 4, 8, 16, 32, 64)
)


@dataclass(frozen=True)
class ElementType:
    """Names of an element type in other formats, and the representation of its values."""

    type: Attribute
    numpy: str  # name of the dtype, of numpy or of ml_dtypes
    onnx: str  # name in TensorProto.DataType
    safetensors: str  # "U8", for their bytes, where it has no name for them
    precision: int = 0  # significant bits of a float, the implicit one included
    storage_only: bool = False  # values are only stored, moved, cast and quantized

    @cached_property
    def name(self) -> str:
        return str(self.type)

    @cached_property
    def rate_key(self) -> str:
        """The name that a target's `macs_per_cycle` has for the type: signed and unsigned integers
        have one rate."""
        return self.name.removeprefix("u")

    @cached_property
    def bits(self) -> int:
        return cast(FixedBitwidthType, self.type).bitwidth

    @cached_property
    def storage(self) -> int:
        """Bits in memory. Those of less than a byte are packed, the first in the low bits; truth
        values take a byte."""
        return 8 if self.bits == 1 else self.bits

    @property
    def is_packed(self) -> bool:
        return self.storage < 8

    @property
    def is_float(self) -> bool:
        return self.precision > 0

    @property
    def exponent(self) -> int:
        """Bits of the exponent of a float: those beside sign and mantissa. E8M0 has no sign."""
        return self.bits - self.precision + (not self.is_signed)

    @property
    def is_signed(self) -> bool:
        return self.type != f8E8M0FNU and not self.name.startswith("u")


ELEMENT_TYPES = (
    ElementType(f64, "float64", "DOUBLE", "F64", precision=53),
    ElementType(f32, "float32", "FLOAT", "F32", precision=24),
    ElementType(f16, "float16", "FLOAT16", "F16", precision=11),
    ElementType(bf16, "bfloat16", "BFLOAT16", "BF16", precision=8),
    ElementType(f8E4M3FN, "float8_e4m3fn", "FLOAT8E4M3FN", "F8_E4M3", 4, storage_only=True),
    ElementType(f8E5M2, "float8_e5m2", "FLOAT8E5M2", "F8_E5M2", 3, storage_only=True),
    ElementType(f8E4M3FNUZ, "float8_e4m3fnuz", "FLOAT8E4M3FNUZ", "U8", 4, storage_only=True),
    ElementType(f8E5M2FNUZ, "float8_e5m2fnuz", "FLOAT8E5M2FNUZ", "U8", 3, storage_only=True),
    ElementType(f8E8M0FNU, "float8_e8m0fnu", "FLOAT8E8M0", "U8", 1, storage_only=True),
    ElementType(f4E2M1FN, "float4_e2m1fn", "FLOAT4E2M1", "U8", 2, storage_only=True),
    ElementType(i1, "bool", "BOOL", "BOOL"),
    ElementType(i2, "int2", "INT2", "U8", storage_only=True),
    ElementType(i4, "int4", "INT4", "U8", storage_only=True),
    ElementType(i8, "int8", "INT8", "I8"),
    ElementType(i16, "int16", "INT16", "I16"),
    ElementType(i32, "int32", "INT32", "I32"),
    ElementType(i64, "int64", "INT64", "I64"),
    ElementType(ui2, "uint2", "UINT2", "U8", storage_only=True),
    ElementType(ui4, "uint4", "UINT4", "U8", storage_only=True),
    ElementType(ui8, "uint8", "UINT8", "U8"),
    ElementType(ui16, "uint16", "UINT16", "U16"),
    ElementType(ui32, "uint32", "UINT32", "U32"),
    ElementType(ui64, "uint64", "UINT64", "U64"),
)

_ROWS = {row.type: row for row in ELEMENT_TYPES}
_ROW = "_ge_row"  # types are immutable: their row is kept with them


def row_of(t: Attribute) -> ElementType | None:
    """The row of an element type; None for a type that ge does not have."""
    facts = vars(t)
    if _ROW not in facts:
        facts[_ROW] = _ROWS.get(t)
    return facts[_ROW]


def bitwidth(t: Attribute) -> int:
    """Bits that an element takes in memory; i1 is stored as a byte. Raises VerifyException for a
    type that ge cannot store."""
    if (row := row_of(t)) is None:
        raise VerifyException(f"element type {t} has no storage size")
    return row.storage


def elements_per_byte(t: Attribute) -> int:
    """Number of packed elements that share a byte; 1 for types that are not packed."""
    return max(8 // bitwidth(t), 1)


def storage_bytes(count: int, t: Attribute) -> int:
    return -(-count * bitwidth(t) // 8)


def is_float(t: Attribute) -> bool:
    return (row := row_of(t)) is not None and row.is_float


def is_integer(t: Attribute) -> bool:
    """True if t is an integer type other than i1 (which stands for truth values)."""
    return (row := row_of(t)) is not None and not row.is_float and row.bits > 1


def is_unsigned(t: Attribute) -> bool:
    return (row := row_of(t)) is not None and not row.is_signed


def is_narrow(t: Attribute) -> bool:
    """True if t is a float of 16 bits: it is computed in f32 and rounded once."""
    return (row := row_of(t)) is not None and row.is_float and row.bits == 16


def check_computed(t: Attribute) -> None:
    """Raises VerifyException for an element type that values are only stored in."""
    if (row := row_of(t)) is not None and row.storage_only:
        raise VerifyException(f"{row.name} is only stored: cast it to compute with it")


def type_name(t: Attribute) -> str:
    """The name of an element type in messages, as numpy has it."""
    return row.numpy if (row := row_of(t)) is not None else str(t)


def element_named(what: object) -> Attribute:
    """The element type that an attribute, a name ("f16", "float16") or a dtype of numpy stands for.
    Raises GeError for anything else."""
    if isinstance(what, Attribute):
        return what
    rows = [r for r in ELEMENT_TYPES if str(what) in (r.name, r.numpy)]
    if not rows:
        known = ", ".join(r.name for r in ELEMENT_TYPES)
        raise GeError(f"no element type '{what}'", hint=f"types are {known}")
    return rows[0].type
