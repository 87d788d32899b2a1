"""A pass of its own class that takes the module as a graph, and says no name for its rule."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import ge


@dataclass(frozen=True)
class FuseProductsPass(ModulePass):
    """Products followed by exp."""

    name = "fuse-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pattern = ge.Pattern([ge.OpType("MatMul"), ge.OpType("Exp")])
        ge.Graph(op).apply_pattern(pattern, lambda nodes: ge.FusedOp("Product"))
