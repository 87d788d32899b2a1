"""ONNX's sequences. Those whose length is known at import become Python tuples of values, and
their ops disappear: only tensors reach the graph level."""

from xdsl.ir import SSAValue

from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.shape import SqueezeOp, UnsqueezeOp
from ge.dialects.graph.slicing import ConcatOp, SplitOp
from ge.dialects.graph.support.parameters import element_axis
from ge.dialects.support.types import DYNAMIC
from ge.lowering.onnx.registry import Node, Unsupported, onnx_op

Sequence = tuple[SSAValue, ...]
One = tuple[Sequence]  # what a handler returns whose only output is a sequence


MOST_PARTS = 1 << 16


@onnx_op("SequenceConstruct")
def construct(n: Node) -> One:
    return (tuple(n.tensors()),)


@onnx_op("SequenceEmpty")
def empty(n: Node) -> One:
    return ((),)


@onnx_op("SequenceLength")
def length(n: Node) -> SSAValue:
    return n.const(len(n.sequence(0)))


def position(n: Node, index: int, size: int) -> int | None:
    """Input `index`, a place in a sequence of `size`; None when it is known only at run time."""
    known = n.constant_ints(index)
    if known is None:
        return None
    if not -size <= known[0] < size:
        raise Unsupported(f"position {known[0]} is outside a sequence of {size}")
    return known[0] % size


@onnx_op("SequenceAt")
def at(n: Node) -> SSAValue:
    values = n.sequence(0)
    place = position(n, 1, len(values))
    if place is not None:
        return values[place]
    if not values or any(v.type != values[0].type for v in values):
        raise Unsupported("the position is known only at run time, and the tensors differ in type")
    stacked = n.emit(ConcatOp, [n.emit(UnsqueezeOp, v, axes=(0,)) for v in values], axis=0)
    return n.emit(GatherOp, stacked, n[1])


@onnx_op("SequenceInsert")
def insert(n: Node) -> One:
    values = n.sequence(0)
    if n.get(2) is None:
        return ((*values, n[1]),)
    known = n.constant_ints(2)
    if known is None:
        raise Unsupported("the position is known only at run time")
    if not -len(values) <= known[0] <= len(values):
        raise Unsupported(f"position {known[0]} is outside a sequence of {len(values)}")
    place = known[0] + len(values) if known[0] < 0 else known[0]
    return ((*values[:place], n[1], *values[place:]),)


@onnx_op("SequenceErase")
def erase(n: Node) -> One:
    values = n.sequence(0)
    if n.get(1) is None:
        place: int | None = len(values) - 1
    else:
        place = position(n, 1, len(values))
    if place is None:
        raise Unsupported("the position is known only at run time")
    if place < 0:
        raise Unsupported("the sequence is empty")
    return ((*values[:place], *values[place + 1 :]),)


@onnx_op("ConcatFromSequence")
def concat(n: Node) -> SSAValue:
    values, axis = list(n.sequence(0)), n.int("axis")
    if not values:
        raise Unsupported("the sequence is empty")
    if n.int("new_axis"):
        values = [n.emit(UnsqueezeOp, v, axes=(axis,)) for v in values]
    return n.emit(ConcatOp, values, axis=axis)


def run_time_parts(n: Node, axis: int) -> Sequence:
    """Parts whose sizes are known only at run time, but whose number is known."""
    if n.rank(1) != 1 or (count := n.shape(1)[0]) == DYNAMIC:
        raise Unsupported("the number of parts is known only at run time")
    return tuple(n.build(SplitOp, n[0], n[1], axis=axis, results=count).parts)


@onnx_op("SplitToSequence")
def split(n: Node) -> One:
    axis = element_axis(n.int("axis"), n.rank(0))
    dim, sizes = n.shape(0)[axis], None
    if n.get(1) is not None:
        sizes = n.constant_ints(1)
        if sizes is None:
            return (run_time_parts(n, axis),)
    if sizes is None or n.rank(1) == 0:
        if dim == DYNAMIC:
            raise Unsupported(f"the size of dimension {axis} is known only at run time")
        size = sizes[0] if sizes else 1
        if size < 1:
            raise Unsupported(f"parts of size {size}")
        if dim // size > MOST_PARTS:
            raise Unsupported(f"{dim // size} parts are too many")
        sizes = tuple(min(size, dim - start) for start in range(0, dim, size))
    if not sizes:
        return ((),)
    op = n.build(SplitOp, n[0], None, axis=axis, sizes=sizes, results=len(sizes))
    if n.get(1) is None and not n.int("keepdims", 1):
        return (tuple(n.emit(SqueezeOp, part, axes=(axis,)) for part in op.parts),)
    return (tuple(op.parts),)
