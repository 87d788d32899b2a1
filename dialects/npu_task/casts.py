"""Buffers, and views of them as `memref.reinterpret_cast` writes them, with attributes that equal
ones share: xDSL's constructors check each of their numbers again."""

from functools import lru_cache

from xdsl.dialects.builtin import MemRefType, NoneAttr, StridedLayoutAttr, StringAttr, UnitAttr
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Attribute, SSAValue

from ge.dialects.npu_task.attributes import HBM, IO
from ge.dialects.npu_task.memory import row_major
from ge.dialects.support.operation import created, segments
from ge.dialects.support.types import Shape, element_type, int_array, numel, tensor

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


def part(buffer: SSAValue, offset: int, sizes: Shape, strides: Shape) -> ReinterpretCastOp:
    """A view of a part of a buffer in device memory, whose rows may be apart."""
    t = strided(element_type(buffer), sizes, strides, offset)
    return cast(buffer, offset, sizes, strides, t)


def view(
    buffer: SSAValue, offset: int, sizes: Shape, strides: Shape | None = None
) -> ReinterpretCastOp:
    """A view of a buffer in device memory from an element on, without gaps if no strides are
    given."""
    plain = row_major(sizes)
    if offset or strides not in (None, plain) or not numel(sizes):
        # LLVM gives empty buffers no static strides
        return part(buffer, offset, sizes, plain if strides is None else strides)
    return cast(buffer, 0, sizes, plain, dense(element_type(buffer), sizes))


def alloc(t: Attribute, io: bool = False) -> AllocOp:
    """A buffer of a static memref type, of an input or output of the program if `io`."""
    op = created(AllocOp, (), (t,), {"operandSegmentSizes": segments(0, 0)})
    if io:
        op.attributes[IO] = UnitAttr()
    return op
