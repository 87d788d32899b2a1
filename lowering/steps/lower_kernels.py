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
the program's choice. A kernel without a program is not changed, and a remark and its attribute
`no_tiles` say why.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

from ge.dialects.fused_op import Body, FusedOp
from ge.dialects.graph.attention import AppendOp, AttentionOp
from ge.dialects.npu_task.attributes import NO_TILES, Engine
from ge.dialects.npu_task.control import leaves_sizes_open
from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.dialects.support.diagnostics import remark, warning
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import all_ops, ops_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.targets.target import STATE_IT, Target, target_for
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.lowering.steps.kept_programs import Kept, KernelTunings, Shared
from ge.lowering.steps.lower_to_tasks import symbols_of
from ge.lowering.steps.open_programs import has_open_programs, program_at_hand
from ge.runtime.library.asking import asked
from ge.runtime.library.costs.estimates import figures_of, keep, kind_of, known_figures
from ge.runtime.library.costs.structure import once
from ge.runtime.library.launch import Launch, NotLowered, passed_over, registered
from ge.transforms.rewriting.passes import TargetPass


@dataclass(frozen=True)
class LowerKernelsPass(TargetPass):
    """Write the tile programs of kernels. Where a program leaves sizes open, those of kernels of
    unknown shapes are the driver's (`binding.py`): they follow from what it is bound to."""

    name = "lower-kernels"

    finish: bool = False
    """Cut the loops of programs, put in flags and give buffers their places, too; a program for
    which that fails is dropped."""

    cache: str = ""
    """Folder that keeps finished programs by what they follow from (empty: none). Programs that it
    has are texts, and become ops when they are looked into."""

    tunings: str = ""
    """File of `ge-tune` with cuts of kernels that are faster than those of estimates."""

    write: bool = True
    """False: kernels have the programs alone that were written for all sizes, where a program is
    bound to some."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        bind_open_programs(op)
        if not self.write:
            return
        main = main_function(op)
        is_open = main is not None and leaves_sizes_open(main)
        kernels = [k for k in without_program(op) if not (is_open and k.has_unknown_shapes)]
        if (has_open_programs() or is_open) and not kernels:
            return
        around, taken = main or op, symbols_of(op)
        target = target_for(around, self.target)
        is_kept = self.cache and self.finish
        cut = self.cuts(target)
        programs = Kept.at(self.cache, target, ctx, cut) if is_kept else Shared(cut=cut)
        refused = refusals(kernels, overwritten(op, kernels))
        tell_passed_over(kernels, target)
        written = dict[KernelOp, TileKernelOp]()
        for kernel in kernels:
            try:
                if kernel in refused:
                    raise refused[kernel]
                program = programs.program(kernel, partial(self.written, kernel, target, around))
            except NotLowered as e:
                kernel.attributes[NO_TILES] = StringAttr(str(e))
                remark(kernel, f"@{kernel.sym_name.data} has no tile program: {e}")
                continue
            give(kernel, program, taken)
            written[kernel] = program
        tell_untimed(written, target)

    def cuts(self, target: Target) -> Callable[[KernelOp], str]:
        """Return a function that says how a kernel is cut: empty if its lowering decides. Raises
        GeError for a file that is no file of tunings."""
        if not self.tunings:
            return lambda kernel: ""

        kept = KernelTunings.read(self.tunings)
        return lambda kernel: kept.cut(kernel, target)

    def written(self, kernel: KernelOp, target: Target, around: Operation) -> TileKernelOp:
        """The program of a kernel. Raises NotLowered."""
        from ge.lowering.steps.written import finish_alone, tile_program  # with all who write

        program = tile_program(kernel, "program", target)
        if self.finish:
            figures = figures_of(program, target)
            finish_alone(program, self.target, around.attributes)
            keep(program, target, figures)
        return program


def tell_passed_over(kernels: Sequence[KernelOp], target: Target) -> None:
    """Warn, once for each op class, of tile programs by hand that fused launches do not use."""
    told = set[str]()
    for kernel in kernels if registered() else ():
        launch = Launch(kernel, target)
        if (op := passed_over(launch)) is None or op.name in told:
            continue
        told.add(op.name)
        others = ", ".join(sorted({o.name for o in launch.body.ops} - {op.name}))
        text = f"the tile program that is registered for {op.name} is not used in"
        text = f"{text} @{kernel.sym_name.data}, where it is fused with {others or 'others'}"
        way = "a ge.FusedOp(kernel=...) is for such groups, and --fusion off keeps ops apart"
        warning(kernel, f"{text}: {way}")


def tell_untimed(written: Mapping[KernelOp, TileKernelOp], target: Target) -> None:
    """Warn, once for each fact that the target lacks, of kernels whose programs need it."""
    if target.states_all:
        return
    untimed = defaultdict[str, list[KernelOp]](list)
    for kernel, program in written.items():
        body = Body.of(kernel.main)
        if body.is_static and (why := asked(body, target).refusal) is not None:
            untimed[f"{why}, which kernels of kind '{kind_of(program)}' need"].append(kernel)
    for why, (first, *others) in untimed.items():
        more = f" and {len(others)} more" if others else ""
        text = f"target '{target.name}': {why}: @{first.sym_name.data}{more}"
        warning(first, f"{text} would be timed as plain loops over elements; {STATE_IT}")


def bind_open_programs(module: ModuleOp) -> None:
    """Give kernels of a module that is bound to sizes the programs that were written for all sizes,
    if these are at hand."""
    if not has_open_programs():
        return
    taken, kernels = symbols_of(module), without_program(module)
    choosy = [kernel for kernel in kernels if is_choosy(kernel.main)]
    refused = refusals(choosy, overwritten(module, choosy)) if choosy else {}
    for kernel in kernels:
        if kernel not in refused and (program := program_at_hand(kernel)) is not None:
            give(kernel, program, taken)


def without_program(module: ModuleOp) -> list[KernelOp]:
    """Return the kernels that have no program and run on cores, or may."""
    kernels = [op for op in ops_of(module.body.block) if isinstance(op, KernelOp)]
    return [k for k in kernels if k.tiles is None and k.engine.data is not Engine.COMM]


def give(kernel: KernelOp, program: TileKernelOp, taken: set[str]) -> None:
    """Put a program beside its kernel, under a name that is not taken."""
    name = f"{kernel.sym_name.data}_tiles"
    while name in taken:
        name += "_"
    taken.add(name)
    program.sym_name = symbol = StringAttr(name)
    kernel.attributes.pop(NO_TILES, None)
    assert kernel.parent is not None
    kernel.parent.insert_op_after(program, kernel)
    kernel.properties["tiles"] = symbol
    kernel.properties.pop("tiling", None)  # which the program says
    if (figures := known_figures(program)) is not None:
        kernel.properties["tiling"] = figures.tiling


def overwritten(
    module: ModuleOp, kernels: Sequence[KernelOp]
) -> dict[str, list[set[tuple[int, int]]]]:
    """Return by the name of each of these kernels, for each launch of it, the pairs of a result and
    the operand in whose place it is."""
    found: dict[str, list[set[tuple[int, int]]]] = {k.sym_name.data: [] for k in kernels}
    functions = [op for op in module.ops if not isinstance(op, KernelOp | TileKernelOp)]
    for op in (
        inner for f in functions for inner in all_ops(b for r in f.regions for b in r.blocks)
    ):
        if isinstance(op, LaunchOp) and (pairs := found.get(op.callee)) is not None:
            ins = list(op.ins)
            pairs.append(
                {
                    (r, i)
                    for r, result in enumerate(op.outs)
                    for i, v in enumerate(ins)
                    if v is result
                }
            )
    return found


def refusals(
    kernels: Sequence[KernelOp], launches: Mapping[str, Sequence[set[tuple[int, int]]]]
) -> dict[KernelOp, NotLowered]:
    """The kernels whose launches have results in the place of operands as no program has them."""
    refused: dict[KernelOp, NotLowered] = {}
    for kernel in kernels:
        try:
            check_in_place(kernel, launches.get(kernel.sym_name.data, ()))
        except NotLowered as e:
            refused[kernel] = e
    return refused


@once
def is_choosy(body: TensorOp | Body) -> bool:
    """Return whether it may matter to a program where launches have their results."""
    body = Body.of(body)
    return len(body.outputs) > 1 or any(isinstance(op, AppendOp) for op in body.ops)


def check_in_place(kernel: KernelOp, launches: Sequence[set[tuple[int, int]]]) -> None:
    """Raises NotLowered where a kernel appends, and a launch has its result beside the cache; and
    where one result takes the place of an operand that another one is computed of, when results are
    not computed of the same boxes: each is cut in its own way (`moves.py`), or what attention is
    computed of is stored beside it. Then it would be overwritten before it is read."""
    if any(isinstance(op, AppendOp) for op in all_ops(kernel.body.blocks)):
        if not launches or not all(any(r == 0 for r, _ in pairs) for pairs in launches):
            raise NotLowered("appended rows are written alone, and the cache is elsewhere")
    main = kernel.main
    attends = isinstance(main, FusedOp) and any(isinstance(o, AttentionOp) for o in main.members)
    if isinstance(main, FusedOp) and (attends or main.is_cut_apart):
        inputs = list(kernel.body.block.args)
        for i in {i for pairs in launches for _, i in pairs}:
            operands = [k for k, value in enumerate(main.operands) if value is inputs[i]]
            found = {v for k in operands for v in main.following(main.block.args[k]) or ()}
            if sum(value in found for value in main.yielded) > 1:
                raise NotLowered("results are cut apart, and one is over an operand of another one")
