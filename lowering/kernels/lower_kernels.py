"""Tile programs for the kernels of launches.

    npu_task.kernel @relu_0 on vector {
    ^bb0(%0: tensor<8x64xf32>):
      %1 = graph.relu %0 : tensor<8x64xf32>
      npu_task.return %1 : tensor<8x64xf32>
    }
becomes
    npu_task.kernel @relu_0 on vector tiles @relu_0_tiles { ... }     // as before
    tile.kernel @relu_0_tiles(%x: memref<512xf32>, %y: memref<512xf32>) cores 2 {
      tile.vector {
        ... tile.load, tile.map { graph.relu }, tile.store ...

The kernel's body stays: it says what the program computes, and computes it where a run is not on
tiles. The program's arguments are the kernel's arguments, its constants of more than one element,
and its results, in this order; each has the elements of the tensor in the same order, in a shape of
the program's choice. A kernel without a program stays as it is, and a remark says why.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from ge.dialects.npu_task.attributes import is_dynamic
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.diagnostics import remark
from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import Target, target_for
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.lowering.kernels.launch import Launch, NotLowered
from ge.lowering.kernels.programs import program_of
from ge.lowering.kernels.table import lowering_of
from ge.lowering.steps.lower_to_tasks import symbols_of


@dataclass(frozen=True)
class LowerKernelsPass(ModulePass):
    """Write the tile programs of kernels."""

    name = "lower-kernels"

    target: str = ""
    """Preset name, or path of a target file; empty: the target of lower-to-tasks."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target, taken = target_for(main_function(op) or op, self.target), symbols_of(op)
        for kernel in [k for k in op.ops if isinstance(k, KernelOp)]:
            name = f"{kernel.sym_name.data}_tiles"
            while name in taken:
                name += "_"
            try:
                program = tile_program(kernel, name, target)
            except NotLowered as e:
                remark(kernel, f"@{kernel.sym_name.data} has no tile program: {e}")
                continue
            taken.add(name)
            op.body.block.insert_op_after(program, kernel)
            kernel.properties["tiles"] = StringAttr(name)


def tile_program(kernel: KernelOp, name: str, target: Target) -> TileKernelOp:
    """The tile program of a kernel. Raises NotLowered where there is none."""
    types = (*kernel.input_types, *kernel.output_types)
    if any(is_dynamic(t) for t in types):
        raise NotLowered("its shapes are not known")
    launch = Launch(kernel, target)
    return program_of(launch, name, lowering_of(launch)(launch))
