"""Moves in a row as one: what is sent for both is then what the last one needs.

    %0 = graph.pad %x pads [4, 0]      %y = graph.slice %0 starts [3] ends [35]
becomes
    %y = graph.pad %x pads [1, -1]                                         a shift by one

    concat(slice(%x, 29 to 32), slice(%x, 0 to 29)) takes its pieces of %x, without the slices.

A piece that is taken of what a slice is of has elements before or after those of the slice; they
are overwritten by the next piece, or stand before the first element of all.

What is reduced of weights, as the scales of their columns are, is reduced of whole ones:

    %1 = graph.shard %w sharding <@mesh, [{"tp"}, {}]>
    %2 = graph.reduce max %1 axes [0]                 reads %w, as it is loaded: nothing is sent
"""

from collections.abc import Set

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, OpResult, SSAValue

from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.sharding import ShardOp
from ge.dialects.graph.slicing import ConcatOp, PadOp, SliceOp, slice_bounds
from ge.dialects.support.boxes import Box
from ge.dialects.support.editing import set_operands
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import is_static, shape_of
from ge.transforms.graph.control_flow import insert_before, replace_op
from ge.transforms.graph.prepare_weights import constant_expressions


def merge_moves(main: FuncOp) -> None:
    """Make slices of padded values pads that add less, or take away."""
    for op in list(main.body.block.ops):
        if isinstance(op, SliceOp) and (new := _shifted(op)) is not None:
            insert_before(op, new)
            replace_op(op, new.results)


def whole_reductions(main: FuncOp) -> Set[Operation]:
    """Have reductions of constants read them as they are in the file, whole; return them."""
    constant = constant_expressions(main.body.block, 0, stored=False)
    found = {op for op in constant if isinstance(op, ReduceOp)}
    for op in found:
        set_operands(op, [_unsharded(v, op) for v in op.operands])
    return found


def _unsharded(value: SSAValue, before: Operation) -> SSAValue:
    """A constant expression of constants that nobody has cut."""
    op = value.owner
    assert isinstance(op, TensorOp)
    if isinstance(op, ShardOp):
        return _unsharded(op.input, before)
    own = [_unsharded(v, before) for v in op.operands]
    if own == list(op.operands):
        return value
    assert isinstance(value, OpResult)
    return insert_before(before, op.with_operands(own)).results[value.index]


def _shifted(op: SliceOp) -> PadOp | None:
    """A slice of padded elements as a pad that adds fewer, or takes away."""
    pad, bounds = op.input.owner, op.bounds()
    if not isinstance(pad, PadOp) or pad.mode.data != "constant" or bounds is None:
        return None
    pads, shape = pad.ints("pads"), shape_of(pad.input)
    if pads is None or not is_static(shape) or pad.axes_value is not None:
        return None
    axes = pad.ints("axes") or tuple(range(len(shape)))
    before, after = [0] * len(shape), [0] * len(shape)
    for i, axis in enumerate(axes):
        before[axis], after[axis] = pads[i], pads[i + len(axes)]
    whole = shape_of(op.input)
    for axis, start, end, step in bounds:
        if start is None or end is None or step != 1:
            return None
        first, size = slice_bounds(start, end, 1, whole[axis])
        if first >= before[axis] + shape[axis] or first + size <= before[axis]:
            return None  # padding alone
        after[axis] = first + size - before[axis] - shape[axis]
        before[axis] -= first
    return PadOp.of(pad.input, value=pad.value, pads=[*before, *after])


def source(op: ConcatOp, index: int) -> SliceOp | None:
    """The slice that a piece may be taken around: its elements are in a row, and those before them
    belong to no piece."""
    piece = op.inputs[index].owner
    axis = op.axis.value.data
    if not isinstance(piece, SliceOp) or piece.bounds() is None:
        return None
    for own, start, end, step in piece.bounds() or ():
        if start is None or end is None or step != 1 or own != axis:
            return None
        if index and slice_bounds(start, end, 1, shape_of(piece.input)[axis])[0]:
            return None
    return piece


def piece(op: ConcatOp, index: int, box: Box) -> tuple[SSAValue, Box | None]:
    """The value that a piece is a box of, and the box."""
    own = op.operand_box(index, box)
    if own is not None and (around := source(op, index)) is not None:
        return around.input, around.operand_box(0, own)
    return op.inputs[index], own
