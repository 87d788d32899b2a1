"""Programs of unknown shapes, at known ones: bound, planned, and kept by their sizes; and their
tile programs, whose sizes are arguments.

For these a program is bound to three sizes (`open_programs.py` says why): first to the largest
that its dimensions may have, and where one has no largest to MIDDLE. For these the programs are
cut. Where a dimension may be 1, bodies may be others then (a transposition is a view): these have
programs of their own, and if the dimension is the first of an input all have, which are cut for a
batch of 1.

In the folder of kept programs (`kept_programs.py`) an entry says which programs each kernel has,
or why it has none, of a whole program, since they follow from what all of it is bound to. A
compilation that finds an entry binds nothing, and writes nothing. Elements of weights are no part
of that: whoever writes them has no payload. Small constants are, as they stand in the program."""

import json
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.stated import dim_ranges, state_ranges
from ge.dialects.npu_task.attributes import NO_TILES, OPEN_TILES, figure, unknown_results
from ge.dialects.npu_task.control import leaves_sizes_open
from ge.dialects.npu_task.ops import KernelOp, kernels_of
from ge.dialects.support.diagnostics import remark
from ge.dialects.support.dims import Range, Relation, symbols, with_related
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import all_ops, cloned
from ge.dialects.support.packages import installed
from ge.dialects.support.types import DYNAMIC, Shape
from ge.dialects.targets.target import TARGET, target_for
from ge.dialects.text.printing import Outline, op_text
from ge.dialects.text.values import Shapes, Size, Sizes
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.dialects.tile.text import TextKernelOp
from ge.lowering.driver.context import context
from ge.lowering.driver.program import (
    Compilation,
    Program,
    count_launches,
    memory_figures,
    unknown_sizes,
)
from ge.lowering.driver.stepper import Stepper
from ge.lowering.driver.tiles import Coverage, reason_of
from ge.lowering.levels.level import Level, level_of
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.pass_manager import PassManager, paused_collector
from ge.lowering.pipeline.stages import bound_launches, bound_stages, tile_cache
from ge.lowering.plugins.extensions import registered
from ge.lowering.steps.kept_programs import (
    compiler,
    entry_at,
    is_foreign,
    keep_entry,
    name_of,
    parsed,
)
from ge.lowering.steps.lower_to_tasks import symbols_of
from ge.lowering.steps.open_programs import (
    BY_SIZES,
    COMPUTES,
    AtSizes,
    OpenPrograms,
    holes_at,
    is_at_hand,
    open_program,
    open_programs_at_hand,
)
from ge.runtime.data.weights import Payload, weights_at_hand
from ge.runtime.library.launch import NotLowered
from ge.transforms.memory.plan_ranges import plan_ranges
from ge.transforms.shapes.bind_dims import UnfitBranch
from ge.transforms.shapes.open_kernels import Samples, samples_of
from ge.transforms.shapes.sizes import argument_shapes, inputs_of, named_dims, take_shape
from ge.transforms.shapes.specialize import Bodies, bodies_at_hand

MOST_KEPT = 64  # bound programs


def is_open(module: ModuleOp) -> bool:
    """Return whether a module is a program, or on buffers, with inputs of unknown shapes and no
    gears."""
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
    """The program as it stands, planned for all sizes of ranges, and the claims about it."""
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
        """Have the tile programs that were written for all sizes at hand, if there are any."""
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
    """Return the shapes of inputs, by name, whose parts in the program have the shapes `wanted`."""
    pairs = zip(inputs_of(main), wanted, strict=True)
    return {
        name: tuple(s if w == DYNAMIC else w for w, s in zip(whole, part, strict=True))
        for (name, whole, _), part in pairs
    }


def dims_at(main: FuncOp, shapes: Sequence[Shape]) -> dict[str, int]:
    """The sizes of all dimensions, and of what their names are expressions of, where the parts of
    inputs that the program has are of these shapes."""
    sizes, inputs = dict[str, int](), inputs_of(main)
    for name, shape in shapes_of(main, shapes).items():
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


def place_of(module: ModuleOp, options: Options) -> Path | None:
    """The file that keeps what the kernels of a program have; None if no folder keeps any, or if
    passes or ops of others, whose code may have changed since, are used."""
    folder = tile_cache(options)
    is_extended = options.plugins or installed() or registered().all_passes
    if not folder or is_extended or any(map(is_foreign, all_ops(module.body.blocks))):
        return None
    target = json.dumps(asdict(target_for(main_function(module) or module)), default=str)
    chosen = json.dumps(options.of_program(), default=str)
    return Path(folder) / name_of(f"{compiler()}{target}{chosen}{Outline({}).of(module)}")


def entry_of(module: ModuleOp) -> dict[str, Any]:
    """Return the cache entry of a program whose kernels have their tile programs."""
    kernels: dict[str, list[str] | str] = {}
    programs: list[dict[str, Any]] = []
    texts: dict[Any, str] = {}  # of attributes
    last = ""
    for op in module.ops:
        if isinstance(op, KernelOp):
            last = op.sym_name.data
            kernels[last] = held(op)
        elif isinstance(op, TileKernelOp) and COMPUTES in op.attributes:
            programs.append({"after": last, **kept_program(op, texts)})
    return {"kernels": kernels, "programs": programs}


def held(kernel: KernelOp) -> list[str] | str:
    """The names of a kernel's programs, or why it has none."""
    reason = kernel.attributes.get(NO_TILES)
    if isinstance(reason, StringAttr):
        return reason.data
    names = cast("ArrayAttr[StringAttr]", kernel.attributes[OPEN_TILES])
    return [name.data for name in names]


def kept_program(op: TileKernelOp, texts: dict[Any, str]) -> dict[str, Any]:
    name = op.sym_name.data
    return {
        "name": name,
        "cores": op.core_count,
        "sizes": None if op.sizes is None else [size.data for size in op.sizes],
        "attributes": {n: cast(StringAttr, text).data for n, text in op.attributes.items()},
        "text": op_text(op, attributes=texts).removeprefix(f"{op.name} @{name}"),
    }


def give(module: ModuleOp, entry: Mapping[str, Any], ctx: Context) -> None:
    """Give the kernels of a program what an entry has for them. Programs are their texts, and ops
    when somebody looks into them."""
    kernels = kernels_of(module)
    for name, has in entry["kernels"].items():
        state(kernels[name], has)
    for kept in reversed(entry["programs"]):
        program = TextKernelOp(kept["name"], kept["cores"], kept["text"], partial(parsed, ctx))
        if kept["sizes"] is not None:
            program.sizes = strings(kept["sizes"])
        program.attributes.update({n: StringAttr(text) for n, text in kept["attributes"].items()})
        module.body.block.insert_op_after(program, kernels[kept["after"]])


def state(kernel: KernelOp, has: Sequence[str] | str) -> None:
    """Note the names of a kernel's programs, or why it has none."""
    if isinstance(has, str):
        kernel.attributes[NO_TILES] = StringAttr(has)
    else:
        kernel.attributes.pop(NO_TILES, None)
        kernel.attributes[OPEN_TILES] = strings([*dict.fromkeys(has)])


def strings(texts: Sequence[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr(map(StringAttr, texts))


def write_open_programs(program: Program) -> None:
    """Write open programs beside the kernels of a program that leaves sizes open. Kernels of whose
    launches some have no program keep a reason, as all others do."""
    module = program.module
    main = main_function(module)
    assert main is not None
    options, kernels = program.compilation.options, kernels_of(module)
    place = place_of(module, options)
    if place is not None and (entry := entry_at(place, module)) is not None:
        give(module, entry, context(options.plugins))
    else:
        write_all(program, main)
        if place is not None:
            keep_entry(place, entry_of(module), module)
    for name, kernel in kernels.items():
        if (reason := reason_of(kernel)) not in ("", BY_SIZES):
            remark(kernel, f"@{name} has no tile program: {reason}")
    program.compilation.tiles = Coverage.of(module, target_for(main))


def write_all(program: Program, main: FuncOp) -> None:
    """The programs, or why there are none."""
    without_payload = Program(program.module, {}, program.path)  # what they do not follow from
    binder = Binder(without_payload, replace(program.compilation.options, tiles=False))
    old, writer = kernels_of(program.module), OpenProgramWriter(program.module)
    try:
        writer.write(old, samples := samples_of(main), binder)
    except (GeError, VerifyException) as e:
        for kernel in old.values():
            state(kernel, f"the program is not bound to sizes: {e}")
        return
    for name, size in samples.sizes[0].items():
        if size != 1 and 1 in dim_ranges(main).get(name, Range()):
            with suppress(GeError, VerifyException):  # it may have no such sizes
                is_first = any(axis == 0 for _, axis in named_dims(main).get(name, ()))
                writer.add_others(old, samples.where(name, 1), binder, only_new=not is_first)


class OpenProgramWriter:
    """Writes the programs of a module."""

    def __init__(self, module: ModuleOp) -> None:
        self.module, self.taken = module, symbols_of(module)
        self.known: dict[str, str] = {}  # names of programs by what they compute
        main = main_function(module)
        assert main is not None
        self.target, self.named = target_for(main), main.attributes

    def write(self, kernels: Mapping[str, KernelOp], samples: Samples, binder: Binder) -> None:
        """Write the programs of all kernels, or why there is none."""
        bound = [binder.kernels(sizes) for sizes in samples.sizes]
        made: dict[str, list[KernelOp]] = {name: [] for name in kernels}
        for name, kernel in bound[0].items():
            made[origin(name, kernels)].append(kernel)
        for name, kernel in kernels.items():
            try:
                if not made[name]:
                    raise NotLowered(BY_SIZES)
                names = [self.program(k, kernel, bound, samples) for k in made[name]]
            except NotLowered as e:
                state(kernel, str(e))
                continue
            state(kernel, names)

    def add_others(
        self, kernels: Mapping[str, KernelOp], samples: Samples, binder: Binder, only_new: bool
    ) -> None:
        """Add the programs for these sizes alone: of all kernels, or of bodies that are others
        then."""
        first, *others = samples.sizes
        known, at = OpenPrograms.of(self.module.ops), AtSizes(OpenPrograms(), first, self.target)
        found = {
            name: kernel
            for name, kernel in binder.kernels(first).items()
            if OPEN_TILES in kernels[origin(name, kernels)].attributes
            and not (only_new and known.found(kernel, at) is not None)
        }
        bound = [found, *(binder.kernels(sizes) for sizes in others if found)]
        for name, kernel in found.items():
            of = kernels[origin(name, kernels)]
            with suppress(NotLowered):
                state(of, [*held(of), self.program(kernel, of, bound, samples)])

    def program(
        self,
        kernel: KernelOp,
        of: KernelOp,
        bound: Sequence[Mapping[str, KernelOp]],
        samples: Samples,
    ) -> str:
        """The name of the program of a kernel that another one becomes. Raises NotLowered."""
        name = kernel.sym_name.data
        if any(name not in kernels for kernels in bound):
            raise NotLowered("other kernels are made of it at other sizes")
        kernels = [kernels[name] for kernels in bound]
        holes = str(holes_at(kernels, samples))
        if holes not in self.known:
            made = open_program(kernels, samples, self.target, self.named)
            self.known[holes] = self.add(made, f"{name}_tiles", of)
        return self.known[holes]

    def add(self, program: TileKernelOp, name: str, after: KernelOp) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        program.sym_name = StringAttr(name)
        self.module.body.block.insert_op_after(program, after)
        return name


def origin(name: str, kernels: Mapping[str, KernelOp]) -> str:
    """Return the kernel that one of this name is made of: names of further ones end in a number."""
    while name not in kernels:
        name = name.rpartition("_")[0]
        assert name
    return name
