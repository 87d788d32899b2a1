"""The common part of the dialect's ops: parameters, checks, and the elements of shape computations.

A parameter (see `TensorOp.PARAMETERS`) stands in the IR by its name: `shape [2, -1]` and
`k 3` when it is constant, `shape %s` when it is known only at run time.

Constants with one value, and identities, for the `fold` methods of ops. Identities hold bit for
bit, -0 and nan included: `x + (-0.0)` is x, `x + 0.0` is not (it turns -0.0 into 0.0), `x * 0.0` is
not 0."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from struct import pack
from typing import Any, ClassVar, TypeAlias, cast

from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    TensorType,
    i1,
    i64,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import AttrSizedOperandSegments, result_def, traits_def
from xdsl.traits import NoMemoryEffect
from xdsl.utils.exceptions import VerifyException

from ge.dialects.support.boxes import Access, Work
from ge.dialects.support.constraints import ANY, INT, INTS, Parameter
from ge.dialects.support.element_types import is_float, is_integer, is_unsigned, row_of
from ge.dialects.support.operation import operands_of
from ge.dialects.support.tensor_op import Canonicalized, SpeculatableUnlessItFails, TensorOp
from ge.dialects.support.types import (
    DYNAMIC,
    AnyTensor,
    Dense,
    Shape,
    agree,
    array_ints,
    byte_size,
    constant_ints,
    constant_value,
    element_type,
    int_array,
    int_attribute,
    is_ranked,
    is_static,
    merge_dims,
    normalize_axis,
    numel,
    rank_of,
    shape_of,
    shape_text,
    unlike,
)

# the end of assembly formats
TYPES = "attr-dict `:` functional-type(operands, results)"

# the `irdl_options` of an op that has several optional operands
SEGMENTED = (AttrSizedOperandSegments(as_property=True),)


def parameter(*names: str) -> str:
    """The part of an assembly format for parameters; the operand of each is called `name`_value."""
    return " ".join(f"(`{name}` custom<Parameter>(${name}_value, ${name})^)?" for name in names)


def optional(*names: str) -> str:
    """The part of an assembly format for optional operands, each behind its name."""
    return " ".join(f"(`{name}` ${name}^)?" for name in names)


# ---- checks: they raise VerifyException ------------------------------------------------------


def check_blocks(table: SSAValue, rows: int) -> None:
    """Check that rows divide into as many blocks as a table has. Raises VerifyException."""
    shape = shape_of(table)
    if shape[0] < 1 or (rows != DYNAMIC and rows % shape[0]):
        raise VerifyException(f"{rows} rows do not divide into the blocks of {table.type}")


def check_same_element(a: SSAValue, *others: SSAValue | None) -> None:
    """Values that are present have elements of one type."""
    s = element_type(a)
    for value in others:
        if value is not None and (t := element_type(value)) != s:
            raise VerifyException(f"element types differ: {s} and {t}")


def check_shape(
    value: SSAValue | None, name: str, expected: Shape, element: Attribute | None = None
) -> Shape:
    """Return what is known of the shape of an operand that may be absent: it may be the expected
    one, and is of this element type. Raises VerifyException."""
    if value is None:
        return expected
    text = ""
    if not agree(shape := shape_of(value), expected):
        text = f"{name} has shape {shape_text(shape)}, expected {shape_text(expected)}"
    if len(shape) != len(expected):
        raise VerifyException(text)
    found = tuple([merge_dims(b, a, text) for a, b in zip(shape, expected, strict=True)])
    if element is not None and (t := element_type(value)) != element:
        raise VerifyException(f"{name} has element type {t}, expected {element}")
    return found


def check_broadcast_to(small: Shape, large: Shape, name: str) -> None:
    """`small` broadcasts to exactly `large`."""

    def text() -> str:
        return f"{name} of shape {shape_text(small)} does not broadcast to {shape_text(large)}"

    if (first := len(large) - len(small)) < 0:
        raise VerifyException(text())
    for a, b in zip(small, large[first:], strict=True):
        if a not in (1, b) and DYNAMIC not in (a, b):
            unlike(a, b, text())


def check_scalar(value: SSAValue, name: str) -> None:
    if any(d not in (1, DYNAMIC) for d in shape_of(value)):
        raise VerifyException(f"{name} is a scalar, not {value.type}")


def check_length(name: str, count: int, expected: int) -> None:
    if count != expected:
        text = f"{name} has {count} elements where {expected} are expected"
        merge_dims(count, expected, text)


def check_parameter(op: TensorOp, name: str, missing: str = "") -> SSAValue | None:
    """The operand of a parameter, None where it is a property; raises with `missing` where it is
    neither."""
    value = cast(SSAValue | None, getattr(op, f"{name}_value"))
    if missing and value is None and name not in op.properties:
        raise VerifyException(missing)
    return value


def vector_parameter(op: TensorOp, name: str, missing: str = "") -> int | None:
    """The length of the operand, a vector of integers; None where it is a property."""
    value = check_parameter(op, name, missing)
    return None if value is None else shape_of(value)[0]


def scalar_parameter(op: TensorOp, name: str, missing: str = "") -> int | None:
    """The integer of a parameter, DYNAMIC if known at run time only, None if absent."""
    if (value := check_parameter(op, name, missing)) is not None:
        check_scalar(value, name)
    ints = op.ints(name)
    return ints[0] if ints is not None else None if value is None else DYNAMIC


def distinct_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """The axes counted from the front: none is out of range or named twice."""
    result = tuple(element_axis(a, rank) for a in axes)
    if len(set(result)) != len(result):
        raise VerifyException(f"axes {list(axes)} name an axis twice")
    return result


def element_axis(axis: int, rank: int, name: str = "axis") -> int:
    """The axis counted from the front, of a tensor that is no scalar."""
    if rank == 0:
        raise VerifyException(f"a scalar has no {name} {axis}")
    return normalize_axis(axis, rank, name)


class HasAxes(TensorOp, ABC):
    """Ops with axes among their properties. They count from the front: an axis that is negative
    when an op is made is stored as the one that it stands for."""

    AXES: ClassVar[tuple[str, ...]] = ("axis",)

    def axes_rank(self) -> int:
        """Rank of the value that they are axes of."""
        return rank_of(operands_of(self)[0])

    def __post_init__(self) -> None:
        super().__post_init__()
        values = operands_of(self)
        if values and is_ranked(values[0]):
            for name in self.AXES:
                if (stored := self.properties.get(name)) is not None:
                    self.properties[name] = from_front(stored, self.axes_rank())

    def verify_(self) -> None:
        super().verify_()
        for name in self.AXES:
            if name in self.properties and min(axes := self.ints(name) or (0,)) < 0:
                raise VerifyException(f"'{name}' counts from the front, but there is {min(axes)}")


def from_front(stored: Attribute, rank: int) -> Attribute:
    """Axes of so many dimensions, counted from the front; those out of range are unchanged."""
    if INT.verifies(stored):
        axis = stored.value.data
        return int_attribute(axis + rank) if -rank <= axis < 0 else stored
    if INTS.verifies(stored):
        axes = array_ints(stored)
        return int_array(tuple(a + rank if -rank <= a < 0 else a for a in axes))
    return stored


class GraphOp(TensorOp, ABC):
    """Ops that have no effects and no regions."""

    traits = traits_def(NoMemoryEffect(), SpeculatableUnlessItFails(), Canonicalized())
    custom_directives = (Parameter,)


class OneResultOp(GraphOp, ABC):
    """Ops with one result."""

    result = result_def(ANY)


class Movement(GraphOp, ABC):
    """Ops that only move data: one element-operation for each result element, which is read once
    (an index is read too, the elements that it skips are not)."""

    ACCESS: ClassVar = Access.MOVEMENT

    def bytes_read(self, index: int) -> int:
        written = sum(byte_size(r.type) for r in self.results)
        return min(super().bytes_read(index), written) if index == 0 else super().bytes_read(index)

    def static_work(self) -> Work:
        written = sum(byte_size(r.type) for r in self.results)
        indices = sum(byte_size(o.type) for o in self.operands[1:])
        elements = sum(numel(shape_of(r)) for r in self.results)
        return Work(0, elements, written + indices, written)


# ---- shape computations ----------------------------------------------------------------------

MOST_ELEMENTS = 64  # longer vectors are not followed element by element
MOST_STEPS = 16  # how far up a chain of shape computations is followed

Elements: TypeAlias = tuple[int | None, ...]
"""Elements in order, None where unknown."""


class IntegerElements(TensorOp, ABC):
    """Ops of which integer elements may be known before a run."""

    @abstractmethod
    def elements(self, steps: int) -> Elements | None:
        """The integer elements of the result as far as they follow from types and constants, None
        when nothing is known. Operands are followed `steps` ops up (see `elements_of`)."""


class ShapeComputation(IntegerElements, HasFolderInterface, ABC):
    """Ops of shape computations: an op folds when all of its `elements` are known."""

    def unchanged(self) -> SSAValue | None:
        """The operand that the result surely equals."""
        return None

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        if (same := self.unchanged()) is not None:
            return (same,)
        known = elements_of(self.results[0])
        if known is None or None in known:
            return None
        return (int_elements(self.results[0].type, cast(tuple[int, ...], known)),)


def is_countable(t: Attribute) -> bool:
    return t == i1 or is_integer(t)


def int_elements(t: Attribute, values: Sequence[int]) -> Attribute:
    """The integers as a dense attribute of a tensor type; equal ones are one attribute."""
    return _int_elements(t, tuple(values))


@lru_cache(maxsize=4096)
def _int_elements(t: Attribute, values: tuple[int, ...]) -> Attribute:
    typed = cast(TensorType[IntegerType], t)
    low, high = min(values, default=0), max(values, default=0)
    if typed.element_type is not i64 or not -(1 << 63) <= low <= high < 1 << 63:
        return DenseIntOrFPElementsAttr.from_list(typed, values)
    return DenseIntOrFPElementsAttr(typed, BytesAttr(pack(f"<{len(values)}q", *values)))


def elements_of(value: SSAValue, steps: int = MOST_STEPS) -> Elements | None:
    """The elements of a short vector or scalar of integers as far as they are known; None when
    even their number is unknown."""
    if not isinstance(value.type, TensorType) or not is_countable(element_type(value)):
        return None
    shape = shape_of(value)
    if DYNAMIC in shape or numel(shape) > MOST_ELEMENTS:
        return None
    if (constant := constant_ints(value)) is not None:
        return constant
    unknown = (None,) * numel(shape)
    if steps <= 0 or not isinstance(value.owner, IntegerElements):
        return unknown
    known = value.owner.elements(steps - 1)
    return known if known is not None and len(known) == len(unknown) else unknown


def partial_ints(op: TensorOp, name: str) -> Elements | None:
    """Like `op.ints(name)`, but with None for the elements of an operand that are not known;
    None when absent or when even their number is unknown."""
    operand = next((o for o, prop in op.PARAMETERS.items() if prop == name), None)
    value = None if operand is None else cast(SSAValue | None, getattr(op, operand))
    return op.ints(name) if value is None else elements_of(value)


def dims(elements: Elements) -> Shape:
    """The elements as a shape: `?` where unknown."""
    return tuple(DYNAMIC if e is None else e for e in elements)


def stated_shape(op: TensorOp) -> Shape | None:
    """The parameter `shape` of an op; None when the rank is unknown. Raises VerifyException."""
    vector_parameter(op, "shape", "the shape is missing")
    shape = partial_ints(op, "shape")
    if shape is None:
        return None
    if any(d is not None and d < 0 for d in shape):
        raise VerifyException(f"shape {list(shape)} has a negative dimension")
    return dims(shape)


def same_static_type(a: SSAValue, b: SSAValue) -> bool:
    return a.type == b.type and isinstance(a.type, TensorType) and DYNAMIC not in shape_of(a)


Number: TypeAlias = int | float

Folded: TypeAlias = Sequence[SSAValue | Attribute] | None  # what `fold` returns


def splat_bytes(attr: Dense) -> bytes | None:
    """The bytes of the one element that all elements of a constant are, else None."""
    if not (count := len(attr)):
        return None
    data = attr.data.data
    size = len(data) // count
    if count > 1 and (data[:size] != data[-size:] or data != data[:size] * count):
        return None
    return data[:size]


def splat(value: SSAValue) -> Number | None:
    """The number that all elements of a constant in the IR are (0 or 1 for i1), else None."""
    attr = constant_value(value)
    if attr is None or splat_bytes(attr) is None:
        return None
    number = cast(Number, next(iter(attr.get_element_type().iter_unpack(attr.data.data))))
    return int(bool(number)) if attr.get_element_type() == i1 else number


def same_number(a: Number, b: Number) -> bool:
    """True if the numbers are equal, also in the sign of zero."""
    return a == b and (bool(a) or math.copysign(1, a) == math.copysign(1, b))


def broadcasts_into(small: Shape, large: Shape) -> bool:
    """True if broadcasting `small` to `large` surely does not change the shape of `large`."""
    first = len(large) - len(small)
    if first < 0:
        return False
    return all(a == 1 or (a == b and is_static((a,))) for a, b in zip(small, large[first:]))


def constants(number: Number | None, t: Attribute) -> Folded:
    """The one constant whose elements are all `number`, None for a dynamic type."""
    kind = cast(Any, t)
    if number is None or not is_static(cast(AnyTensor, t).get_shape()):
        return None
    return (DenseIntOrFPElementsAttr.from_list(kind, (cast(Any, number),)),)


def is_splat(value: SSAValue, number: Number | None) -> bool:
    known = splat(value)
    return known is not None and number is not None and same_number(known, number)


def lowest(t: Attribute, highest: bool = False) -> Number:
    """The lowest (or highest) value of an element type; infinity for floats."""
    if is_float(t):
        return math.inf if highest else -math.inf
    if (row := row_of(t)) is None:
        raise VerifyException(f"element type {t} is not supported")
    width = row.bits
    if is_unsigned(t):
        return 2**width - 1 if highest else 0
    return 2 ** (width - 1) - 1 if highest else -(2 ** (width - 1))


def highest(t: Attribute) -> Number:
    return lowest(t, highest=True)


def all_ones(t: Attribute) -> Number:
    """The integer with all bits set; true for i1."""
    if t == i1:
        return 1
    return highest(t) if is_unsigned(t) else -1


def negative_zero(t: Attribute) -> Number:
    """x + -0.0 is x for every float."""
    return -0.0 if is_float(t) else 0


def zero(t: Attribute) -> Number:
    return 0.0 if is_float(t) else 0


def one(t: Attribute) -> Number:
    return 1.0 if is_float(t) else 1


def integer_zero(t: Attribute) -> Number | None:
    """x * 0 is 0 for integers only."""
    return None if is_float(t) else 0


def holds(wide: Attribute, narrow: Attribute) -> bool:
    """True if element type `wide` represents every value of `narrow`."""
    if wide == narrow:
        return True
    w, n = row_of(wide), row_of(narrow)
    if w is None or n is None or (w.is_float and w.storage_only):
        return False  # the floats of 8 bits differ in range, infinities, zeros and signs
    if narrow == i1:
        return True
    if n.is_float:
        return w.precision >= n.precision and w.exponent >= n.exponent
    low, high = lowest(narrow), highest(narrow)
    if w.is_float:
        return max(-low, high + 1) <= 2**w.precision
    return wide != i1 and lowest(wide) <= low and highest(wide) >= high


def kept_by(value: SSAValue, other: SSAValue, neutral: Number, result: SSAValue) -> bool:
    """True if `result` of `value` and `other` is `value`: `other` is the neutral number and changes
    no shape."""
    if value.type != result.type:
        return False
    number = splat(other)
    return (
        number is not None
        and same_number(number, neutral)
        and broadcasts_into(shape_of(other), shape_of(value))
    )
