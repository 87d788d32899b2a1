"""Tensors of unknown size state their bytes, as expressions of the dimensions of the inputs.

    func.func @main(%x: memref<?x64xf32, host> {graph.name = "x", graph.dims = ["batch", ""]}) {
      %0 = npu_task.transfer %x : memref<?x64xf32, host> to memref<?x64xf32, hbm>
      %1 = npu_task.launch @nonzero_0 ins(%0 : ...) -> memref<2x?xi64, hbm>
becomes
      %0 = npu_task.transfer %x {npu_task.bytes = ["256 * batch"]} : ...
      %1 = npu_task.launch @nonzero_0 ins(%0 : ...) {npu_task.bytes = ["at most 1024 * batch"]}

Text "" stands for a tensor of which nothing is known; tasks inside of branches and loops state
nothing.
"""

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.npu_task.memory import Task
from ge.dialects.npu_task.sizes import AT_MOST, state_bytes, unknown_results
from ge.dialects.support.dims import Polynomial
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import ops_of
from ge.transforms.analysis.dimensions import Dimensions
from ge.transforms.shapes.flat import Flat
from ge.transforms.shapes.size_expressions import SizeExpressions
from ge.transforms.shapes.sizes import inputs_of


class ExpressSizesPass(ModulePass):
    """State the bytes of tensors of unknown size as expressions of the dimensions of the inputs."""

    name = "express-sizes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (main := main_function(op)) is None:
            return
        ops = ops_of(main.body.block)
        tasks = [t for t in ops if isinstance(t, Task) and unknown_results(t)]
        if not tasks:
            return
        flat = Flat(op, main)
        names = [names for _, _, names in inputs_of(main)]
        sizes = SizeExpressions(flat.block, Dimensions(flat.func.body), names)
        for task in tasks:
            values = [flat.values.get(r) for r in unknown_results(task)]
            state_bytes(task, [text(None if v is None else sizes.bytes_of(v)) for v in values])


def text(size: Polynomial | None) -> str:
    if size is None:
        return ""
    return f"{AT_MOST}{size}" if size.is_bound else str(size)
