"""Proof that a program keeps to one count of rows for all states that grow (`npu_task.grows`).

The arguments of @main tell how many rows a run appends, and of how many rows each block is that
the table places. Of every state that grows these have to be the sizes; a launch that appends to one
has that many rows, and a launch that appends or attends to one by a length takes the table where
there is one, and none where there is none.

Followed from a state's slot into its launches' kernels and no further: what another launch has
computed from a state (a dequantized cache) is not. That lengths and tables arrive unchanged, and
what kernels do with them, is trusted; `--validate` compares the numbers run by run.
"""

from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.cache import AppendOp
from ge.dialects.graph.state import BLOCK, STEP
from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.dialects.npu_task.program_info import GROWS
from ge.dialects.support.types import numel, shape_of
from ge.runtime.check.problems import Problem
from ge.runtime.check.state import SEGMENT, name_of_state, states_of


def check_growing(func: FuncOp, kernels: Mapping[str, KernelOp]) -> Iterator[Problem]:
    """What is wrong with the states that grow, with their counters and their tables of blocks."""
    axes: dict[SSAValue, int] = {}
    step, blocks = numbers(func, STEP), numbers(func, BLOCK)
    rows = next((n * numel(shape_of(arg)) for arg, n in blocks.items()), None)
    for op in states_of(func):
        if not isinstance(grows := op.attributes.get(GROWS), IntegerAttr):
            continue
        axis, shape = grows.value.data, shape_of(op.result)
        if not 0 <= axis < len(shape) or not step:
            text = f"state '{name_of_state(op)}' grows along axis {axis}, which nobody counts"
            yield Problem(SEGMENT, text, op)
            continue
        axes[op.result] = axis
        if rows not in (None, shape[axis]):
            text = f"a table of {rows} rows, for {shape[axis]} of state '{name_of_state(op)}'"
            yield Problem(SEGMENT, text, op)
    for op in func.walk():
        if not isinstance(op, LaunchOp) or (kernel := kernels.get(op.callee)) is None:
            continue
        for value, arg in zip(op.ins, kernel.body.block.args, strict=False):
            owner = (state := owner_of(value)).owner
            if state in axes and isinstance(owner, Operation):
                for text in wrong(arg, axes[state], {*step.values()}, rows is not None):
                    yield Problem(SEGMENT, f"{text} state '{name_of_state(owner)}'", op)


def numbers(func: FuncOp, name: str) -> dict[SSAValue, int]:
    """The arguments that have a number of this name."""
    tables = zip(func.args, func.arg_attrs or (), strict=False)
    found = ((arg, table.data.get(name)) for arg, table in tables)
    return {arg: n.value.data for arg, n in found if isinstance(n, IntegerAttr)}


def wrong(cache: SSAValue, axis: int, steps: set[int], in_blocks: bool) -> Iterator[str]:
    """What a kernel does wrong with a cache, one of its values."""
    for use in cache.uses:
        op = use.operation
        if isinstance(op, FusedOp):
            yield from wrong(op.block.args[use.index], axis, steps, in_blocks)
        if isinstance(op, AppendOp) and op.cache is cache:
            if (count := shape_of(op.rows)[axis]) not in steps:
                yield f"{count} rows, not {min(steps)}, are appended to"
        elif not isinstance(op, AttentionOp) or op.length is None:
            continue
        if (op.table is not None) != in_blocks:
            yield "no table comes with" if in_blocks else "a table comes with"
