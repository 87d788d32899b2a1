"""Einstein sums become matmuls, which the other passes know.

    %y = graph.einsum "abc,cde->abde" %x, %w : (tensor<2x8x16xf32>, tensor<16x4x4xf32>) -> ...
becomes
    %0 = graph.reshape %w shape [16, 16]
    %1 = graph.matmul %x, %0
    %y = graph.reshape %1 shape [2, 8, 4, 4]
"""

from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.graph.linear import EinsumOp
from ge.dialects.support.operation import all_ops
from ge.transforms.graph.canonical import einsum
from ge.transforms.graph.canonical.simplify import simplify
from ge.transforms.rewriting.relations import Relation, Ulps


class ExpandEinsumPass(ModulePass):
    """Write Einstein sums as transposes, matmuls and sums."""

    name = "expand-einsum"
    LOCAL: ClassVar[bool] = True
    RELATION: ClassVar[Relation] = Ulps()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if any(isinstance(o, EinsumOp) for o in all_ops(op.body.blocks)):
            simplify(op, (einsum,))
