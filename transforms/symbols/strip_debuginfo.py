"""Forget where ops come from.

    %0 = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32> loc("layer1/relu")
becomes
    %0 = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32>
"""

from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import UNKNOWN_LOC, ModuleOp
from xdsl.passes import ModulePass


class StripDebuginfoPass(ModulePass):
    """Make the locations of all ops and arguments unknown, as mlir-opt's pass of this name."""

    name = "strip-debuginfo"
    LOCAL: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            inner.location = UNKNOWN_LOC
            for region in inner.regions:
                for block in region.blocks:
                    for arg in block.args:
                        arg.location = UNKNOWN_LOC
