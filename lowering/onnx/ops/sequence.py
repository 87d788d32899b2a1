"""ONNX's sequences. Those whose length is known at import become Python tuples of values, and
their ops disappear: only tensors reach the graph level. The parts of a tensor along an axis whose
size is known at run time only stay that tensor (`registry.Parts`): a member is a slice of it."""

from dataclasses import replace

from xdsl.dialects.builtin import StringAttr, i64
from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph.control import AssertOp
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.shape import ReshapeOp, ShapeOfOp, SqueezeOp, TransposeOp, UnsqueezeOp
from ge.dialects.graph.slicing import ConcatOp, SliceOp, SplitOp
from ge.dialects.graph.support.parameters import element_axis
from ge.dialects.support.types import DYNAMIC, element_type, rank_of
from ge.lowering.onnx.model import node_name
from ge.lowering.onnx.registry import Node, Unsupported, onnx_op
from ge.lowering.onnx.values import Growing, SequenceParts

Sequence = tuple[SSAValue, ...]
One = tuple[
    Sequence | SequenceParts | Growing
]  # what a handler returns whose only output is a sequence


MOST_PARTS = 1 << 16


@onnx_op("SequenceConstruct")
def construct(n: Node) -> One:
    return (tuple(n.tensors()),)


@onnx_op("SequenceEmpty")
def empty(n: Node) -> One:
    return ((),)


@onnx_op("SequenceLength")
def length(n: Node) -> SSAValue:
    if isinstance(parts := n.inputs[0], SequenceParts):
        return count_of(n, parts)
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
    if isinstance(parts := n.inputs[0], SequenceParts):
        return part_at(n, parts)
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
    if n.get(2) is None and isinstance(grown := n.inputs[0], Growing):
        return (replace(grown, added=(*grown.added, n[1])),)
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
    if isinstance(parts := n.inputs[0], SequenceParts):
        return joined(n, parts)
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
        size = sizes[0] if sizes else 1
        if size < 1:
            raise Unsupported(f"parts of size {size}")
        if dim == DYNAMIC:
            keeps_axis = n.get(1) is not None or bool(n.int("keepdims", 1))
            return (SequenceParts(n[0], axis, size, keeps_axis),)
        if dim // size > MOST_PARTS:
            raise Unsupported(f"{dim // size} parts are too many")
        sizes = tuple(min(size, dim - start) for start in range(0, dim, size))
    if not sizes:
        return ((),)
    op = n.build(SplitOp, n[0], None, axis=axis, sizes=sizes, results=len(sizes))
    if n.get(1) is None and not n.int("keepdims", 1):
        return (tuple(n.emit(SqueezeOp, part, axes=(axis,)) for part in op.parts),)
    return (tuple(op.parts),)


# ---- parts whose number is known at run time ---------------------------------------------------


def count_of(n: Node, parts: SequenceParts) -> SSAValue:
    """Return how many parts there are, a scalar."""
    dim = n.emit(ShapeOfOp, parts.whole, start=parts.axis, end=parts.axis + 1)
    if parts.size > 1:
        dim = n.emit(e.AddOp, dim, n.const([parts.size - 1]))
        dim = n.emit(e.DivOp, dim, n.const([parts.size]))
    return n.emit(SqueezeOp, dim, axes=(0,))


def part_at(n: Node, parts: SequenceParts) -> SSAValue:
    """Return the part at input 1, which counts from the end if it is negative."""
    place = n[1] if element_type(n[1]) == i64 else n.emit(e.CastOp, n[1], to=i64)
    if not parts.keeps_axis:
        place = n.emit(ReshapeOp, place, shape=())
        return n.emit(GatherOp, parts.whole, place, axis=parts.axis)
    place = n.emit(ReshapeOp, place, shape=(1,))
    if parts.size == 1:
        return n.emit(GatherOp, parts.whole, place, axis=parts.axis)
    count = n.emit(UnsqueezeOp, count_of(n, parts), axes=(0,))
    is_back = n.emit(e.CompareOp, place, n.const([0]), predicate="lt")
    place = n.emit(e.SelectOp, is_back, n.emit(e.AddOp, place, count), place)
    is_there = n.emit(
        e.AndOp,
        n.emit(e.CompareOp, place, n.const([0]), predicate="ge"),
        n.emit(e.CompareOp, place, count, predicate="lt"),
    )
    is_there = n.emit(ReshapeOp, is_there, shape=())
    message = StringAttr(f"the position of '{node_name(n.proto)}' is outside of the sequence")
    place = n.emit(AssertOp, place, is_there, message=message)
    start = n.emit(e.MulOp, place, n.const([parts.size]))
    end = n.emit(e.AddOp, start, n.const([parts.size]))
    return n.emit(SliceOp, parts.whole, start, end, axes=(parts.axis,))


def joined(n: Node, parts: SequenceParts) -> SSAValue:
    """The parts one after the other along the axis of the node. Those along another axis than their
    own have one size: a reshape that does not divide them fails."""
    rank = rank_of(parts.whole) - (not parts.keeps_axis)
    fresh = bool(n.int("new_axis"))
    axis = element_axis(n.int("axis"), rank + fresh)
    if not fresh and parts.keeps_axis and axis == parts.axis:
        return parts.whole
    stacked = stack_of(n, parts)  # the parts, and behind it their dimensions
    order = [*range(1, rank + 1)]
    order.insert(axis, 0)
    turned = n.emit(TransposeOp, stacked, permutation=order)
    if fresh:
        return turned
    before = n.emit(ShapeOfOp, turned, end=axis)
    after = n.emit(ShapeOfOp, turned, start=axis + 2)
    shape = n.emit(ConcatOp, [before, n.const([-1]), after], axis=0)
    return n.emit(ReshapeOp, turned, shape)


def stack_of(n: Node, parts: SequenceParts) -> SSAValue:
    """The parts along a new first dimension."""
    rank, axis = rank_of(parts.whole), parts.axis
    others = [i for i in range(rank) if i != axis]
    first = n.emit(TransposeOp, parts.whole, permutation=[axis, *others])
    if not parts.keeps_axis:
        return first
    rest = n.emit(ShapeOfOp, first, start=1)
    shape = n.emit(ConcatOp, [n.const([-1, parts.size]), rest], axis=0)
    split = n.emit(ReshapeOp, first, shape)
    order = [*range(2, rank + 1)]
    order.insert(axis, 1)
    return n.emit(TransposeOp, split, permutation=[0, *order])
