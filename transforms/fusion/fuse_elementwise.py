"""A chain of elementwise ops in one launch.

    %0 = graph.mul %x, %y
    %1 = graph.add %0, %z
    %2 = graph.tanh %1
becomes
    %2 = fused_op.region(%x, %y, %z) { graph.mul, graph.add, graph.tanh }

Each op of the chain is the only user of the one before and has its shape, so the data passes the
vector unit once and intermediates stay in the unified buffer. A chain breaks where a value is
used outside, where the shape changes and where a shape is dynamic.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from ge.dialects.fused_op import RegionOp
from ge.dialects.graph.elementwise import ClampOp, Elementwise
from ge.dialects.interfaces import TensorOp
from ge.dialects.types import is_static, shape_of
from ge.transforms.fusion.chains import for_each_block, keeps_shape, only_user, replace_chain
from ge.transforms.statistics import count


def is_elementwise(op: Operation) -> bool:
    return isinstance(op, Elementwise | ClampOp) and is_static(shape_of(op.results[0]))


def chain_from(op: TensorOp) -> list[TensorOp]:
    """`op` and the elementwise ops that follow it one by one."""
    chain = [op]
    while (
        (user := only_user(chain[-1])) is not None
        and is_elementwise(user)
        and keeps_shape(user, chain[-1].results[0])
    ):
        chain.append(user)
    return chain


@dataclass(frozen=True)
class FuseElementwisePass(ModulePass):
    """Fuse chains of two and more elementwise ops into `fused_op.region`."""

    name = "fuse-elementwise"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        def visit(block: Block) -> None:
            done: set[Operation] = set()
            for first in list(block.ops):
                if first in done or not isinstance(first, TensorOp) or not is_elementwise(first):
                    continue
                chain = chain_from(first)
                done.update(chain)
                if len(chain) > 1:
                    replace_chain(chain, RegionOp)
                    count(self.name)

        for_each_block(op, visit)
