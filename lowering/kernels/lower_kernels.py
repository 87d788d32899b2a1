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
the program's choice. A kernel without a program stays as it is, and a remark and its attribute
`no_tiles` say why.
"""

from dataclasses import dataclass
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ge.dialects.graph.cache import AppendOp
from ge.dialects.npu_task.ops import NO_TILES, KernelOp, LaunchOp
from ge.dialects.support.diagnostics import remark
from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import Target, target_for
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.lowering.kernels.kept import Kept, Shared
from ge.lowering.kernels.launch import NotLowered
from ge.lowering.steps.lower_to_tasks import symbols_of


@dataclass(frozen=True)
class LowerKernelsPass(ModulePass):
    """Write the tile programs of kernels."""

    name = "lower-kernels"

    target: str = ""
    """Preset name, or path of a target file; empty: the target of lower-to-tasks."""

    finish: bool = False
    """Cut the loops of programs, put in flags and give buffers their places, too; a program for
    which that fails is dropped."""

    cache: str = ""
    """Folder that keeps finished programs by what they follow from (empty: none). Kernels that are
    found there are their texts, and ops when somebody looks into them."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        around, taken = main_function(op) or op, symbols_of(op)
        target = target_for(around, self.target)
        in_place = appended_in_place(op)
        is_kept = self.cache and self.finish
        programs = Kept.at(self.cache, target, ctx) if is_kept else Shared()
        for kernel in [k for k in op.ops if isinstance(k, KernelOp) and k.tiles is None]:
            name = f"{kernel.sym_name.data}_tiles"
            while name in taken:
                name += "_"
            try:
                check_in_place(kernel, in_place)
                write = partial(self.written, kernel, target, around)
                program = programs.program(kernel, write)
            except NotLowered as e:
                kernel.attributes[NO_TILES] = StringAttr(str(e))
                remark(kernel, f"@{kernel.sym_name.data} has no tile program: {e}")
                continue
            program.sym_name = StringAttr(name)
            taken.add(name)
            kernel.attributes.pop(NO_TILES, None)
            op.body.block.insert_op_after(program, kernel)
            kernel.properties["tiles"] = StringAttr(name)

    def written(self, kernel: KernelOp, target: Target, around: Operation) -> TileKernelOp:
        """The program of a kernel. Raises NotLowered."""
        from ge.lowering.kernels.written import finish_alone, tile_program  # with all who write

        program = tile_program(kernel, "program", target)
        if self.finish:
            finish_alone(program, self.target, around)
        return program


def appended_in_place(module: ModuleOp) -> dict[str, bool]:
    """By the kernel's name: whether each launch has its first result in the place of an operand."""
    found: dict[str, bool] = {}
    for op in module.walk():
        if isinstance(op, LaunchOp):
            name = op.kernel.root_reference.data
            found[name] = found.get(name, True) and bool(op.outs) and op.outs[0] in op.ins
    return found


def check_in_place(kernel: KernelOp, in_place: dict[str, bool]) -> None:
    """Raises NotLowered where a kernel appends, and a launch has its result beside the cache."""
    if any(isinstance(op, AppendOp) for op in kernel.walk()):
        if not in_place.get(kernel.sym_name.data, False):
            raise NotLowered("appended rows are written alone, and the cache is elsewhere")
