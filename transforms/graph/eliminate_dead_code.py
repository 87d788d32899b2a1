"""Remove what nobody uses.

    %1 = graph.exp %x : ...      (no use)
becomes nothing.

All graph and fused ops are pure, so an op whose results have no use goes. One walk from the end:
users are seen before what they use.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.traits import is_side_effect_free


def _is_dead(op: Operation) -> bool:
    return (
        bool(op.results)
        and all(r.first_use is None for r in op.results)
        and is_side_effect_free(op)
    )


def eliminate_dead_code(block: Block) -> int:
    """Erase the dead ops of a block and of the blocks in it; returns how many."""
    erased = 0
    op = block.last_op
    while op is not None:
        before = op.prev_op
        if _is_dead(op):
            op.detach()
            op.erase()
            erased += 1
        else:
            for region in op.regions:
                for inner in region.blocks:
                    erased += eliminate_dead_code(inner)
        op = before
    return erased


@dataclass(frozen=True)
class EliminateDeadCodePass(ModulePass):
    """Remove ops whose results nobody uses."""

    name = "eliminate-dead-code"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.ops:
            if isinstance(func, FuncOp) and func.body.blocks:
                eliminate_dead_code(func.body.block)
