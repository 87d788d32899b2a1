"""Shapes and element types: the small algebra that type inference is written in.

A shape is a tuple of ints in which `DYNAMIC` marks a dimension that is known only at run time.
Nothing here imports numpy: every tool runs this at start-up.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import count
from typing import Any, TypeAlias, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I64,
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    TensorType,
    UnrankedTensorType,
    f32,
    i64,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.traits import ConstantLike
from xdsl.utils.exceptions import VerifyException

from ge.dialects.support.context import at_hand, having
from ge.dialects.support.element_types import storage_bytes

DYNAMIC = DYNAMIC_INDEX  # the dimension that is known only at run time; `?` in the IR

Shape: TypeAlias = tuple[int, ...]
AnyTensor: TypeAlias = TensorType[Attribute]
Dense: TypeAlias = DenseIntOrFPElementsAttr[Any]

_DYNAMIC = "_ge_dynamic"  # a cache in types, which are immutable

UNKNOWN = UnrankedTensorType(f32)  # of a result whose type has not been inferred yet

# caches in the types, which are immutable
_SHAPE, _BYTES, _TENSORS, _ELEMENT = "_ge_shape", "_ge_bytes", "_ge_tensors", "_ge_element"
_INTS, _NUMBER = "_ge_ints", "_ge_number"  # and in other attributes, which are too

_numbers: dict[Attribute, int] = {}  # of `number_of`
_next_number = count()  # no two threads get the same


class NotStatic(VerifyException, ValueError):
    """The rank or the number of elements of a type is not known."""


def tensor_type(value: SSAValue) -> AnyTensor:
    """The ranked tensor type of a value. Raises VerifyException for any other type."""
    t = value.type
    if not isinstance(t, TensorType):
        raise VerifyException(f"expected a ranked tensor, got {t}")
    return cast(AnyTensor, t)


def is_ranked(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType | MemRefType)


def has_size(value: SSAValue) -> bool:
    """True if rank and all dimensions of the value are known."""
    return is_ranked(value) and is_static(shape_of(value))


def shape_of(value: SSAValue) -> Shape:
    """The shape of a tensor or memref value. Raises NotStatic for an unranked one."""
    t = value._type  # pyright: ignore[reportPrivateUsage]
    shape = t.__dict__.get(_SHAPE)
    if shape is not None:
        return shape
    if isinstance(t, TensorType | MemRefType):
        return type_shape(cast(AnyTensor, t))
    raise NotStatic(f"expected a ranked tensor or memref, got {t}")


def type_shape(t: AnyTensor | MemRefType[Attribute]) -> Shape:
    """The shape of a tensor or memref type, in a fraction of the time of `get_shape`."""
    shape = t.__dict__.get(_SHAPE)
    if shape is None:
        shape = vars(t)[_SHAPE] = tuple([size.data for size in t.shape.data])
    return shape


def element_type(value: SSAValue) -> Attribute:
    """Element type of a tensor or memref value. Raises VerifyException for any other type."""
    t = value._type  # pyright: ignore[reportPrivateUsage]
    element = t.__dict__.get(_ELEMENT)
    if element is not None:
        return element
    if isinstance(t, TensorType | MemRefType | UnrankedTensorType):
        element = vars(t)[_ELEMENT] = cast(AnyTensor, t).element_type
        return element
    raise VerifyException(f"expected a tensor or memref, got {t}")


def rank_of(value: SSAValue) -> int:
    return len(shape_of(value))


def tensor(shape: Iterable[int], element: Attribute) -> AnyTensor:
    """The tensor type; a model has few different ones, so they are cached."""
    known: dict[Shape, AnyTensor] = vars(element).setdefault(_TENSORS, {})
    if (t := known.get(dims := tuple(shape))) is None:
        t = known[dims] = TensorType(element, dims)
    return t


def is_static(shape: Sequence[int]) -> bool:
    return DYNAMIC not in shape


def numel(shape: Sequence[int]) -> int:
    """Number of elements. Raises NotStatic for a dynamic shape."""
    n = 1
    for d in shape:
        if d == DYNAMIC:
            raise NotStatic("the number of elements of a dynamic shape is not known")
        n *= d
    return n


def byte_size(t: Attribute) -> int:
    """Bytes of a static tensor or memref type. Raises NotStatic for a dynamic one."""
    size = t.__dict__.get(_BYTES)
    if size is None:
        assert isinstance(t, TensorType | MemRefType)
        typed = cast(AnyTensor, t)
        size = vars(t)[_BYTES] = storage_bytes(numel(type_shape(typed)), typed.element_type)
    return size


def number_of(attribute: Attribute) -> int:
    """A number that equal attributes have in common: xDSL hashes all of an attribute each time."""
    number: int | None = attribute.__dict__.get(_NUMBER)
    if number is None:
        number = vars(attribute)[_NUMBER] = _numbers.setdefault(attribute, next(_next_number))
    return number


def align_up(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def broadcast_dims(a: int, b: int) -> int:
    """One dimension of numpy broadcasting; `?` against 1 or `?` stays `?`, against n > 1 is n."""
    if a == b or b == 1:
        return a
    if a in (1, DYNAMIC):
        return b
    if b == DYNAMIC:
        return a
    return unlike(a, b, f"dimensions {a} and {b} do not broadcast")


def unlike(a: int, b: int, message: str) -> int:
    """Two dimensions of which none is 1 do not broadcast. Raises VerifyException."""
    if (clashes := at_hand(Clashes)) is not None:
        clashes.broadcast.append((a, b))
        return a
    raise VerifyException(message)


def broadcast(*shapes: Shape) -> Shape:
    """Raises VerifyException where two dimensions clash."""
    if shapes and shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    rank = max((len(s) for s in shapes), default=0)
    result = [1] * rank
    for s in shapes:
        for i, d in enumerate(s, rank - len(s)):
            try:
                result[i] = broadcast_dims(result[i], d)
            except VerifyException:
                texts = " and ".join(shape_text(s) for s in shapes)
                raise VerifyException(f"shapes {texts} do not broadcast") from None
    return tuple(result)


def shape_text(shape: Sequence[int]) -> str:
    return "[" + ", ".join("?" if d == DYNAMIC else str(d) for d in shape) + "]"


def normalize_axis(axis: int, rank: int, name: str = "axis") -> int:
    """A negative axis counts from the end. Raises VerifyException when out of range."""
    if not -rank <= axis < max(rank, 1):
        raise VerifyException(f"{name} {axis} is out of range for rank {rank}")
    return axis + rank if axis < 0 else axis


@dataclass
class Clashes:
    """Pairs of dimensions that inference wants to be equal, and that are not; and pairs that
    broadcast only if they are equal, or one of them is 1."""

    equal: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    broadcast: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


def collecting_clashes() -> AbstractContextManager[Clashes]:
    """Dimensions that clash are collected here, and inference goes on with the first one."""
    return having(Clashes())


def merge_dims(a: int, b: int, message: str = "") -> int:
    """The one dimension that is known to be equal to both. Raises VerifyException on a clash."""
    if a == DYNAMIC:
        return b
    if b in (DYNAMIC, a):
        return a
    if (clashes := at_hand(Clashes)) is not None:
        clashes.equal.append((a, b))
        return a
    raise VerifyException(message or f"dimensions {a} and {b} differ")


def times(dim: int, factor: int) -> int:
    return DYNAMIC if DYNAMIC in (dim, factor) else dim * factor


def agree(a: Shape, b: Shape) -> bool:
    """True if two shapes may be the same at run time."""
    return len(a) == len(b) and all(x == y or DYNAMIC in (x, y) for x, y in zip(a, b, strict=True))


def is_dynamic(t: Attribute) -> bool:
    """True if a tensor or memref type has a dimension that is known only at run time."""
    dynamic: bool | None = t.__dict__.get(_DYNAMIC)
    if dynamic is None:
        is_ranked = isinstance(t, TensorType | MemRefType)
        sizes = type_shape(cast(AnyTensor, t)) if is_ranked else (DYNAMIC,)
        dynamic = vars(t)[_DYNAMIC] = min(sizes, default=0) < 0
    return dynamic


def is_refinement(precise: Attribute, general: Attribute) -> bool:
    """True if each value of type `precise` may stand where `general` is declared, or the other way
    round: same element type and rank, dimensions equal or one of them dynamic."""
    if precise is general or precise == general:
        return True
    if isinstance(precise, UnrankedTensorType) or isinstance(general, UnrankedTensorType):
        p, g = cast(AnyTensor, precise), cast(AnyTensor, general)
        return p.element_type == g.element_type
    if not (isinstance(precise, TensorType) and isinstance(general, TensorType)):
        return False
    p, g = cast(AnyTensor, precise), cast(AnyTensor, general)
    return p.element_type == g.element_type and agree(p.get_shape(), g.get_shape())


def refine(declared: Attribute, inferred: Attribute) -> Attribute:
    """The meet of two types: a dimension of either where the other has `?`."""
    if not is_dynamic(inferred):
        return inferred
    if declared == inferred or isinstance(inferred, UnrankedTensorType):
        return declared
    if not isinstance(declared, TensorType) or not isinstance(inferred, TensorType):
        return inferred
    a, b = cast(AnyTensor, declared), cast(AnyTensor, inferred)
    if DYNAMIC not in b.get_shape() or not is_refinement(a, b):
        return b
    dims = [y if x == DYNAMIC else x for x, y in zip(a.get_shape(), b.get_shape(), strict=True)]
    return tensor(dims, a.element_type)


@lru_cache(maxsize=4096)
def dense_memref(element: Attribute, shape: Shape) -> MemRefType[Attribute]:
    """Without layout and memory space; equal ones are one attribute."""
    return MemRefType(element, shape)


@lru_cache(maxsize=4096)
def int_array(values: tuple[int, ...]) -> DenseArrayBase[I64]:
    """The numbers as an array of i64; equal arrays are one attribute."""
    return DenseArrayBase.from_list(i64, values)


@lru_cache(maxsize=4096)
def int_attribute(value: int) -> IntegerAttr[I64]:
    """The number as i64; equal numbers are one attribute."""
    return IntegerAttr(value, i64)


def array_ints(array: Attribute) -> tuple[int, ...]:
    """The integers of a dense array; they are unpacked once."""
    ints: tuple[int, ...] | None = array.__dict__.get(_INTS)
    if ints is None:
        assert isinstance(array, DenseArrayBase)
        ints = vars(array)[_INTS] = cast(DenseArrayBase[IntegerType], array).get_values()
    return ints


def array_floats(array: Attribute) -> tuple[float, ...]:
    assert isinstance(array, DenseArrayBase)
    return cast(DenseArrayBase[AnyFloat], array).get_values()


def folds(kind: type[Operation]) -> bool:
    """True if ops of the class have `fold`. While a thread defines another op that has it, Python
    answers `issubclass` with an abstract base class for any op, and remembers that."""
    return HasFolderInterface in kind.__mro__


def constant_value(value: SSAValue) -> Dense | None:
    """The elements of a value that a constant in the IR defines, else None."""
    if not isinstance(value, OpResult) or not _holds_value(type(value.op)):
        return None
    values = cast(HasFolderInterface, value.op).fold()
    attr = None if values is None else values[value.index]
    return cast(Dense, attr) if isinstance(attr, DenseIntOrFPElementsAttr) else None


@cache
def _holds_value(kind: type[Operation]) -> bool:
    return kind.has_trait(ConstantLike) and folds(kind)


def constant_ints(value: SSAValue) -> tuple[int, ...] | None:
    """The integers of a constant in the IR, flattened, else None."""
    attr = constant_value(value)
    if attr is None:
        return None
    known: tuple[int, ...] | None = attr.__dict__.get(_INTS)
    if known is not None or not isinstance(attr.get_element_type(), IntegerType):
        return known
    values = attr.get_values()
    shape = cast(AnyTensor, attr.type).get_shape()
    known = values * numel(shape) if len(values) == 1 else values  # a splat is stored once
    if len(known) <= SHAPE_ELEMENTS:
        vars(attr)[_INTS] = known
    return known


def set_type(value: SSAValue, new_type: Attribute) -> None:
    """Refine the type of a value in place (its uses stay)."""
    value._type = new_type  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]


SHAPE_ELEMENTS = 64  # shape arithmetic is on vectors of at most so many integers


def is_shape_like(value: SSAValue) -> bool:
    """True if the value is a scalar or a short vector of integers (i1 included)."""
    shape = shape_of(value)
    return (
        len(shape) <= 1
        and isinstance(element_type(value), IntegerType)
        and is_static(shape)
        and numel(shape) <= SHAPE_ELEMENTS
    )
