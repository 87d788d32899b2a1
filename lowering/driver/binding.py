"""Programs of unknown shapes, at known ones: bound, planned, and kept by their sizes."""

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block

from ge.dialects.graph.ports import dim_ranges, state_ranges
from ge.dialects.npu_task.control import leaves_sizes_open
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.npu_task.program_info import figure
from ge.dialects.npu_task.sizes import unknown_results
from ge.dialects.support.dims import Range, Relation, symbols, with_related
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import cloned
from ge.dialects.support.types import DYNAMIC, Shape
from ge.dialects.targets.target import TARGET, target_for
from ge.dialects.text.values import Shapes, Size, Sizes
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.lowering.driver.context import context
from ge.lowering.driver.program import (
    Compilation,
    Program,
    count_launches,
    memory_figures,
    unknown_sizes,
)
from ge.lowering.driver.stepper import Stepper
from ge.lowering.levels.level import Level, level_of
from ge.lowering.pipeline.collector import paused_collector
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.pass_manager import PassManager
from ge.lowering.pipeline.stages import bound_launches, bound_stages
from ge.lowering.steps.bound_programs import (
    AtSizes,
    OpenPrograms,
    is_at_hand,
    open_programs_at_hand,
)
from ge.runtime.data.weights import Payload, weights_at_hand
from ge.transforms.memory.plan_ranges import plan_ranges
from ge.transforms.shapes.binding import UnfitBranch
from ge.transforms.shapes.sizes import argument_shapes, inputs_of, named_dims, take_shape
from ge.transforms.shapes.specialize import Bodies, bodies_at_hand, kernels_of

MOST_KEPT = 64  # bound programs


def is_open(module: ModuleOp) -> bool:
    """Whether a module is a program, or on buffers, with inputs of unknown shapes and no gears."""
    main = main_function(module)
    return (
        main is not None
        and leaves_sizes_open(main)
        and level_of(module).depth >= Level.BUFFERS.depth
    )


def options_of(module: ModuleOp, options: Options) -> Options:
    """The options, with the target that a program was compiled for."""
    main = main_function(module)
    name = None if main is None else main.attributes.get(TARGET)
    return replace(options, target=name.data) if isinstance(name, StringAttr) else options


def ranges_in(main: FuncOp, dims: Sizes, shapes: Shapes) -> dict[str, range]:
    """The sizes of each symbol that are asked for, within what the program says. Raises GeError
    for a symbol without a largest size."""
    asked: dict[str, Size] = {n: d for n, d in dims.items() if not isinstance(d, Relation)}
    for name, shape, names in inputs_of(main):
        for axis, size in enumerate(shapes.get(name, ())):
            if axis < len(shape) and shape[axis] == DYNAMIC:
                asked.setdefault(names[axis], size)
    known = {s for n in named_dims(main) for s in (n, *symbols(n))}
    for name in asked.keys() - known:
        argument_shapes(main, {name: 0})  # which refuses it
    stated, result = dim_ranges(main), dict[str, range]()
    for name in dict.fromkeys(s for n in named_dims(main) for s in (n, *symbols(n))):
        if name in asked or all(s == name for s in symbols(name)):
            size = asked.get(name, stated.get(name, Range()))
            least, most = (size, size) if isinstance(size, int) else (size.least, size.most)
            if most is None:
                hint = f"give a size, or a range: --dim '{name}=1..8'"
                raise GeError(f"the sizes of '{name}' have no end", hint=hint)
            result[name] = range(least, most + 1)
    return result


def check_sizes(
    main: FuncOp,
    dims: Mapping[str, int],
    shapes: Mapping[str, Sequence[int]],
    given: Mapping[str, Sequence[int]],
) -> None:
    """Raises GeError where inputs of the shapes `given` are not of these `dims` and `shapes`."""
    inputs, sizes = inputs_of(main), dict(dims)
    for name, shape in (*shapes.items(), *given.items()):
        take_shape(name, shape, inputs, sizes)
    argument_shapes(main, sizes)


def planned_for(module: ModuleOp, ranges: Mapping[str, range]) -> tuple[ModuleOp, str]:
    """The program as it stands, planned for all sizes of ranges, and what is claimed of it."""
    planned = module.clone()
    main = main_function(planned)
    assert main is not None
    state_ranges(main, {n: Range(r[0], r[-1]) for n, r in ranges.items()})
    placed = plan_ranges(main)
    left = sum(len(unknown_results(op)) for op in main.walk()) - placed
    size = figure(main, "dynamic_bytes") if placed else 0
    text = f"proved unbound (--no-static-shape): {placed} tensors lie in {size} bytes"
    return planned, text + (f", and nothing of {left} others," if left else "")


def add_largest(program: Program) -> None:
    """State the memory of a program of unknown shapes at the largest sizes that they may have, if
    all have a largest one."""
    main = main_function(program.module)
    if main is None or program.bind is None or not is_open(program.module):
        return
    ranges = dim_ranges(main)
    names = dict.fromkeys(s for n in named_dims(main) for s in symbols(n))
    if any((r := ranges.get(n)) is None or r.most is None for n in names):
        return
    sizes = {n: ranges[n].most or 0 for n in names}
    if (bound := program.bind(sizes)) is program:
        return
    figures = bound.compilation.memory
    keys = ("peak_bytes", "lower_bound_bytes")
    program.compilation.unknown["at_most"] = {"dims": sizes, **{k: figures[k] for k in keys}}


@dataclass
class Binder:
    """Makes programs of known shapes from one of unknown ones."""

    program: Program
    options: Options
    bound: "OrderedDict[tuple[Shape, ...], Program]" = field(
        default_factory=OrderedDict[tuple[Shape, ...], Program]
    )
    bodies: Bodies = field(default_factory=Bodies)  # of launches, over all sizes
    tiles: OpenPrograms = field(default_factory=OpenPrograms)

    @cached_property
    def ctx(self) -> Context:
        return context(self.options.plugins)

    def at(
        self, dims: Mapping[str, int], shapes: Mapping[str, Sequence[int]] | None = None
    ) -> Program:
        """The program where dimensions have these sizes and inputs these shapes, or as it is where
        a branch does not fit them: only a run tells whether it is taken. Raises GeError for sizes
        that are missing or do not fit."""
        main = main_function(self.program.module)
        assert main is not None
        wanted = tuple(argument_shapes(main, dims, shapes))
        program = self.bound.pop(wanted, None)
        if program is None:
            program = self.made(wanted)
        self.bound[wanted] = program
        while len(self.bound) > MOST_KEPT:
            self.bound.popitem(last=False)
        return program

    def kernels(self, dims: Mapping[str, int]) -> dict[str, KernelOp]:
        """The kernels of the program where dimensions have these sizes; nothing of it is planned or
        kept. Raises as `at` does."""
        main = main_function(self.program.module)
        assert main is not None
        options, module = options_of(self.program.module, self.options), self.copied()
        passes = bound_launches(options, shapes_of(main, argument_shapes(main, dims)))
        with paused_collector(), bodies_at_hand(self.bodies):
            try:
                PassManager(passes).run(self.ctx, module)
            except UnfitBranch:
                module = self.program.module
        return kernels_of(module)

    def copied(self) -> ModuleOp:
        """The program without its kernels and the ops of @main: those that they are bound to take
        their place."""
        module, main = self.program.module, main_function(self.program.module)
        assert main is not None
        kernels, block = kernels_of(module), main.body.block
        if kernels != self.bodies.kernels or block is not self.bodies.block:
            self.bodies = Bodies(kernels, block, is_at_hand)
            self.tiles = OpenPrograms.of(module.ops)
        left_out = (KernelOp, TileKernelOp)
        rest = [
            with_body(main, Block(arg_types=block.arg_types)) if op is main else cloned(op, {})
            for op in module.ops
            if not isinstance(op, left_out)
        ]
        copy = ModuleOp(rest, dict(module.attributes), module.sym_name)
        copy.location = module.location
        return copy

    def made(self, wanted: Sequence[Shape]) -> Program:
        start = time.perf_counter()
        program = self.program
        main = main_function(program.module)
        assert main is not None
        module, shapes = self.copied(), shapes_of(main, wanted)
        try:
            with self.programs_at(main, wanted):
                payload = program.payload
                facts = shapes, self.options, self.ctx, payload, self.bodies
                compilation = lower_bound(module, *facts)
        except UnfitBranch:
            return program
        compilation.seconds = time.perf_counter() - start
        return Program(module, program.payload, program.path, compilation)

    def programs_at(self, main: FuncOp, shapes: Sequence[Shape]) -> AbstractContextManager[object]:
        """With the tile programs that were written for all sizes, if there are any."""
        if not self.tiles.programs:
            return nullcontext()
        found = AtSizes(self.tiles, dims_at(main, shapes), target_for(main))
        return open_programs_at_hand(found)


def with_body(main: FuncOp, block: Block) -> FuncOp:
    """A copy of a function, with another body."""
    copy = main.clone_without_regions()
    copy.body.add_block(block)
    return copy


def shapes_of(main: FuncOp, wanted: Sequence[Shape]) -> dict[str, Shape]:
    """Those of inputs, by name."""
    return {n: shape for (n, _, _), shape in zip(inputs_of(main), wanted, strict=True)}


def dims_at(main: FuncOp, shapes: Sequence[Shape]) -> dict[str, int]:
    """The sizes of all dimensions, and of what their names are expressions of, where the inputs
    have these shapes."""
    sizes, inputs = dict[str, int](), inputs_of(main)
    for (name, _, _), shape in zip(inputs, shapes, strict=True):
        take_shape(name, shape, inputs, sizes)
    return with_related(sizes, {n: n for n in sizes if symbols(n) != (n,)})


def lower_bound(
    module: ModuleOp,
    shapes: Mapping[str, Shape],
    options: Options,
    ctx: Context,
    payload: Payload,
    bodies: Bodies,
) -> Compilation:
    """Bind the inputs of a program to shapes, in place, and plan it. `bodies`: of launches that
    the program was bound to before. Kernels have the tile programs that were written for all sizes;
    others are written when its time is asked for (`write_tile_programs`): numbers need none."""
    options = options_of(module, options)
    compilation = Compilation(options)
    stepper = Stepper(options, ctx, [])
    with paused_collector(), weights_at_hand(payload), bodies_at_hand(bodies):
        passes = bound_stages(replace(options, tiles=False), shapes)
        stepper.run(module, (Level.PROGRAM,), passes)
    compilation.passes = stepper.records
    compilation.ops = {"launches": count_launches(module)}
    compilation.memory, compilation.unknown = memory_figures(module), unknown_sizes(module)
    return compilation
