"""Kernels that are given the number of keys, in the form in which they are timed with so many.

    npu_task.kernel @attention_0 on cube ... {
    ^bb0(%0: ..., %1: tensor<1x4x64x16xf32>, %2: tensor<i64>):
      graph.attention %0, %1, %1 length %2 ...
with 5 rows is timed as
    ^bb0(%0: ..., %1: tensor<1x4x5x16xf32>, %2: tensor<i64>):
      graph.attention %0, %1, %1 length %2 ...

That they take a part of the time for all keys, as their bytes are, is an assumption, and so is that
rows in blocks are read as fast as rows in order. Other kernels compute all rows of what
grows.
"""

from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.state import growing_symbol
from ge.dialects.npu_task.attributes import GROWS
from ge.dialects.npu_task.ops import KernelOp, SlotOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import split_axes
from ge.dialects.support.types import element_type, set_type, shape_of, tensor


def room_for_rows(main: FuncOp) -> int | None:
    """Number of rows for which a program's growing states have room; None if no state grows."""
    sizes = [
        shape_of(op.result)[axis.value.data]
        for op in main.body.block.ops
        if isinstance(op, SlotOp) and isinstance(axis := op.attributes.get(GROWS), IntegerAttr)
    ]
    return min(sizes, default=None)


def rows_read(main: FuncOp, rows: int | None) -> tuple[int, str] | None:
    """Number of rows of its states that a program reads, and a text that says so; None if no state
    grows. Raises GeError for more rows than there are."""
    symbol, most = growing_symbol(main), room_for_rows(main)
    if symbol is None or most is None:
        return None
    if rows is not None and not 0 < rows <= most:
        raise GeError(f"a run reads from 1 to {most} rows of '{symbol}', not {rows}")
    what = ", as where the states are full" if rows is None else ""
    return rows or most, f"attention reads {rows or most} of {most} rows of '{symbol}'{what}"


def attentions(kernel: KernelOp) -> list[AttentionOp]:
    return [op for op in kernel.walk() if isinstance(op, AttentionOp) and op.length is not None]


def with_rows(kernel: KernelOp, rows: int) -> KernelOp:
    """A clone (not inserted) whose attention has so many keys."""
    clone = kernel.clone()
    for op in attentions(clone):
        for name in op.KEYED:
            narrow(getattr(op, name), op.dimension(name, 2), rows)
        for mask in op.masks:
            narrow(mask, len(shape_of(mask)) - 1, rows)
    return clone


def narrow(value: SSAValue, axis: int, rows: int) -> None:
    """Give a value so many rows, and the values that it is computed from."""
    shape = list(shape_of(value))
    if shape[axis] <= rows:
        return
    owner = value.owner
    axes = split_axes(owner, axis) if isinstance(owner, Operation) else None
    shape[axis] = rows
    set_type(value, tensor(shape, element_type(value)))
    if isinstance(owner, Block):
        fused = owner.parent_op()
        if isinstance(fused, FusedOp):
            narrow(fused.inputs[owner.args.index(value)], axis, rows)
        return
    for operand, its in zip(owner.operands, axes or (), strict=False):
        if its is not None:
            narrow(operand, its, rows)
