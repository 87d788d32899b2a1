"""Views of buffers as `memref.reinterpret_cast` writes them, with attributes that equal ones share:
xDSL's constructors check each of their numbers again."""

from functools import lru_cache

from xdsl.dialects.builtin import MemRefType, NoneAttr, StridedLayoutAttr, StringAttr
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import Attribute, SSAValue

from ge.dialects.npu_task.attributes import HBM
from ge.dialects.support.operation import created, segments
from ge.dialects.support.types import Shape, int_array, tensor

PARAMETERS = "shape", "element_type", "layout", "memory_space"


@lru_cache(maxsize=4096)
def strided(element: Attribute, shape: Shape, strides: Shape, offset: int) -> MemRefType[Attribute]:
    """The type of a view, in device memory, of a buffer from an element on."""
    return memref(element, shape, StridedLayoutAttr(strides, offset), HBM)


@lru_cache(maxsize=4096)
def dense(element: Attribute, shape: Shape, space: StringAttr = HBM) -> MemRefType[Attribute]:
    """The type of a buffer, or of a view without gaps from its first element on."""
    return memref(element, shape, NoneAttr(), space)


def memref(
    element: Attribute, shape: Shape, layout: StridedLayoutAttr | NoneAttr, space: StringAttr
) -> MemRefType[Attribute]:
    new = MemRefType[Attribute].__new__(MemRefType)
    parameters = tensor(shape, element).shape, element, layout, space
    for name, value in zip(PARAMETERS, parameters, strict=True):
        object.__setattr__(new, name, value)
    return new


def cast(
    buffer: SSAValue, offset: int, sizes: Shape, strides: Shape, t: Attribute
) -> ReinterpretCastOp:
    """A view of a buffer (not inserted yet): `offset` and `strides` count elements of its owner."""
    properties: dict[str, Attribute] = {
        "static_offsets": int_array((offset,)),
        "static_sizes": int_array(sizes),
        "static_strides": int_array(strides),
        "operandSegmentSizes": segments(1, 0, 0, 0),
    }
    return created(ReinterpretCastOp, (buffer,), (t,), properties)
