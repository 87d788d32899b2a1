"""The driver from a model or a module to the program, behind `ge-compile`, `ge-run` and the Python
face. An option that was asked for and changes nothing says so."""

import dataclasses
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import MemRefType, ModuleOp, TensorType
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from ge.dialects.graph.sharding import mesh_of
from ge.dialects.support import environment
from ge.dialects.support.context import at_hand, having
from ge.dialects.support.diagnostics import Severity, emit, warning, warning_handler
from ge.dialects.support.effort import Progress, effort
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import all_ops
from ge.dialects.support.types import byte_size, is_dynamic
from ge.dialects.targets.target import Target
from ge.dialects.text.errors import REPRODUCER, is_internal
from ge.dialects.text.reading import parse_module, read_source
from ge.dialects.text.values import Shapes, Sizes, parse_dims, parse_shapes, relations
from ge.lowering.driver.binding import Binder, add_largest, is_open, write_open_programs
from ge.lowering.driver.context import context
from ge.lowering.driver.memory_search import lower_within_limit
from ge.lowering.driver.pipeline import lower_stages
from ge.lowering.driver.program import (
    Compilation,
    GearReport,
    Program,
    count_launches,
    judged,
    memory_figures,
    unknown_sizes,
)
from ge.lowering.driver.stepper import Stepper
from ge.lowering.driver.tiles import Coverage
from ge.lowering.levels.dominance import verify
from ge.lowering.levels.level import Level, level_of
from ge.lowering.pipeline.instrumentation import PassRecord, dumps_for
from ge.lowering.pipeline.options import Options, facts_of, flags_of
from ge.lowering.pipeline.pass_manager import Instrumentation, paused_collector
from ge.lowering.pipeline.reproducer import reproduce
from ge.lowering.pipeline.stages import answers, check_switches, decides, stages
from ge.lowering.plugins.extensions import universe
from ge.runtime.clock.clock import UnknownShapes, simulate
from ge.runtime.clock.timeline import Timeline
from ge.runtime.data.weights import Payload, open_payload, payload_path, weights_at_hand
from ge.runtime.library.asking import answers_in
from ge.runtime.library.costs.collectives import cluster_of
from ge.transforms.precision import modes
from ge.transforms.quantization.accuracy import Asked
from ge.transforms.quantization.schemes import FLOAT
from ge.transforms.rewriting.counts import disabling
from ge.transforms.shapes.gears import Request, gears_of
from ge.transforms.shapes.relate_dims import relate
from ge.transforms.sharding.checks import check_shardings
from ge.transforms.sharding.plans import ToldPlan
from ge.transforms.sharding.rules import ShardRules, mesh_line, read_mesh, read_pipeline

# Passes that an option asks for alone: the option, and why one has changed nothing
ASKED = {
    "merge-copies": (
        "merge_io",
        "no two inputs or outputs are small enough for one copy",
    ),
    "split-launches": ("pieces", "the clock finds no cut of launches that is faster"),
    "prune-outputs": ("drop_unused_inputs", "an output depends on each input"),
}

MOST_REASONS = 3  # that are reported


def without_effect(options: Options) -> Iterator[str]:
    """Yield a text for each option that is part of others (see `OptionFacts.of`), all of which are
    off. Variables of the environment do not count: they are for all commands, also for those that
    have no use for them."""
    set_for_all = environment.variables()
    fields = {f.name: f for f in dataclasses.fields(options)}
    for name, field in fields.items():
        owners = facts_of(field).of
        if not owners or getattr(options, name) == field.default:
            continue
        if set_for_all.get(facts_of(field).variable):
            continue
        off = {owner: d if (d := fields[owner].default) is not True else False for owner in owners}
        if all(getattr(options, owner) == off[owner] for owner in owners):
            flags = " or ".join(flags_of(fields[owner])[0] for owner in owners)
            yield f"{flags_of(field)[0]} has nothing to do without {flags}"


def none_quantized(options: Options, quantization: Mapping[str, Any]) -> str:
    """Return why not one layer is computed as `--quantize` says; empty if some are."""
    entries: Sequence[Mapping[str, Any]] = quantization["layers"]
    done = [e for e in entries if e["scheme"] != FLOAT]
    is_off = options.fusion in ("off", "conservative")
    if done and not is_off:
        return ""
    reasons = Counter(e.get("reason", "no reason is known") for e in entries if e not in done)
    if done:
        reasons[f"--fusion {options.fusion} computes what is quantized in floats"] += len(done)
    if not (total := sum(reasons.values())):
        return "0 of 0 layers are quantized: the model has no matmul, convolution or attention"
    told = [f"{why} ({count})" for why, count in reasons.most_common(MOST_REASONS)]
    more = f"; and {len(reasons) - len(told)} more reasons" if len(reasons) > len(told) else ""
    return f"0 of {total} layers are quantized: {'; '.join(told)}{more}"


@dataclasses.dataclass
class Effects(Instrumentation):
    """Watches passes that were asked for: `changed` says of those that ran whether one of their
    runs has changed the ops or the inputs of the module."""

    changed: dict[str, bool] = dataclasses.field(default_factory=dict[str, bool])
    _before: tuple[Any, ...] = ()

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        if p.name in ASKED:
            self._before = figure(module)

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        if p.name in ASKED:
            is_other = figure(module) != self._before
            self.changed[p.name] = is_other or self.changed.get(p.name, False)

    def nothing_done(self, options: Options) -> Iterator[str]:
        fields = {f.name: f for f in dataclasses.fields(options)}
        for name, (option, why) in ASKED.items():
            if getattr(options, option) and not self.changed.get(name, True):
                yield f"{flags_of(fields[option])[0]} changes nothing: {why}"


def figure(module: ModuleOp) -> tuple[Any, ...]:
    """Return how many ops there are of each kind, and how many inputs."""
    main = main_function(module)
    return Counter(op.name for op in module.walk()), main and len(main.body.block.args)


def nothing_done(compilation: Compilation) -> Iterator[str]:
    """Yield a text for each option of a compilation through the graph level that changed
    nothing."""
    options, precision = compilation.options, compilation.precision
    if options.quantize and (why := none_quantized(options, compilation.quantization)):
        yield f"--quantize {options.quantize}: {why}"
    if precision and not precision["narrow"]:
        kept = len(precision["kept"])
        why = f"{kept} ops stay in f32" if kept else "the model computes nothing in f32"
        yield f"--precision {precision['mode']} changes nothing: {why}"


def is_shaped(t: Attribute) -> bool:
    return isinstance(t, TensorType | MemRefType)


def may_exceed(module: ModuleOp, target: Target) -> bool:
    """Return whether the memory plan might be more than the target has: all values and weights
    together are more than half of it."""
    main = main_function(module)
    values = () if main is None else (r for op in all_ops(main.body.blocks) for r in op.results)
    types = (v.type for v in values if is_shaped(v.type))
    return 2 * sum(byte_size(t) for t in types if not is_dynamic(t)) > target.hbm_bytes


def lower(
    module: ModuleOp,
    options: Options,
    progress: Progress | None = None,
    until: str = Level.PROGRAM,
    instrumentations: Sequence[Instrumentation] = (),
    payload: Payload | None = None,
) -> Compilation:
    """Lower a module in place from the level it is at to `until`; of its weights, those in
    `payload` are compared. Raises GeError and VerifyException for errors of the module."""
    verify(module)
    with decisions(Program(module, {} if payload is None else payload, ""), options):
        return lower_all(module, options, progress, until, instrumentations, payload)


def decisions(program: Program, options: Options) -> AbstractContextManager[object]:
    """Let passes see what data decides for a model, if that is asked for."""
    mesh, given = mesh_of(program.module), options.in_stages
    given = replace(given, mesh=mesh_line(mesh)) if mesh and not given.mesh else given
    for line in without_effect(given):
        warning(program.module, line)
    if not decides(options):
        return nullcontext()
    from ge.lowering.driver.calibration import Calibration, calibrating, estimate, table_for

    asked, ctx = at_hand(Asked), context(options.plugins)
    calibration = Calibration() if asked is None else asked.calibration
    with effort(options.time_limit):
        calibration.table = table_for(program, options, ctx, calibration)
        estimate(program, options, ctx, calibration)
    return calibrating(calibration)


def layer_facts() -> dict[str, Any]:
    """Return what is known of the layers that were to be quantized, and the dB of outputs, and
    the share of decisions, that are left on the samples, if there were some."""
    from ge.transforms.quantization.data import calibration_at_hand

    known = calibration_at_hand()
    left = {name: db for name, db in known.left.items() if math.isfinite(db)}
    entries = [facts.entry() for facts in known.layers.values()]
    figures = {"left_db": left, "unchanged": known.unchanged, "mended": known.mended}
    return {"layers": entries, **{key: found for key, found in figures.items() if found}}


def lower_verified(
    module: ModuleOp,
    options: Options,
    progress: Progress | None,
    until: str,
    instrumentations: Sequence[Instrumentation],
    payload: Payload | None,
) -> Compilation:
    start = time.perf_counter()
    first, last = level_of(module), Level.named(until)
    options = on_mesh(module, options, first)
    compilation = Compilation(options)
    target = Target.load(options.target)  # an unknown one is no error of the pass that loads it
    if first is not Level.GRAPH and (options.outputs or options.drop_unused_inputs):
        hint = f"the module is at the {first} level"
        raise GeError("outputs and inputs are pruned at the graph level only", hint=hint)
    compilation.gears = check_gears(module, options, first)
    path = levels = first.path_to(last)
    has_program = last is Level.PROGRAM
    by_hand = options.engine and Level.FUSED in levels and has_program
    by_integers = options.quantize and Level.GRAPH in path and has_program
    unmarked, floats = (module.clone() if wanted else None for wanted in (by_hand, by_integers))
    note_fusion(module, options, levels)
    check_switches(options, universe(*options.plugins).all_passes)
    effects = Effects()
    watching = [*instrumentations, effects, *dumps_for(options)]
    stepper = Stepper(options, context(options.plugins), watching, progress)
    with (
        paused_collector(), disabling(options.fusion_disable), weights_at_hand(payload),
        modes.collecting() as precision, having(ToldPlan()) as plan, answers_in(answers(options)),
    ):  # fmt: skip
        tries = options.memory_limit or options.memory > 1 or may_exceed(module, target)
        if Level.PROGRAM in levels and tries:
            end = levels.index(Level.PROGRAM) + 1
            compilation.remedies = lower_within_limit(module, levels[:end], stepper)
            levels = levels[end:]
        if levels:
            stepper.run(module, levels, stages(options))
    compilation.passes, compilation.ops = stepper.records, stepper.ops
    compilation.seconds = time.perf_counter() - start
    compilation.precision, compilation.plan = precision.report(), [*plan]
    if compilation.gears is not None:
        compilation.gears = timed_gears(compilation.gears, stepper) if has_program else None
    if options.quantize or stepper.layers.get("integer"):
        compilation.quantization = {**stepper.layers, **layer_facts()}
    lines = nothing_done(compilation) if Level.GRAPH in path else list[str]()
    for line in (*lines, *effects.nothing_done(options)):
        warning(module, line)
    if last.depth >= Level.PROGRAM.depth:
        compilation.ops["launches"] = count_launches(module)
        compilation.memory, compilation.unknown = memory_figures(module), unknown_sizes(module)
    if options.tiles and has_program:
        compilation.tiles = Coverage.of(module, target)
    for counts in stepper.rules.values():
        compilation.add_counts(counts)
    if floats is not None:
        compilation.quantization |= cost_beside_fp16(module, floats, options)
    if unmarked is not None:
        compilation.engines = cost_of_engines(module, unmarked, options, payload)
    return compilation


def lower_all(
    module: ModuleOp,
    options: Options,
    progress: Progress | None,
    until: str,
    instrumentations: Sequence[Instrumentation],
    payload: Payload | None,
) -> Compilation:
    """Lower a module to one program, or a graph to one for each stage of a pipeline."""

    def lower(module: ModuleOp, options: Options) -> Compilation:
        return lower_verified(module, options, progress, until, instrumentations, payload)

    options = options.in_stages
    if not options.pipeline:
        return lower(module, options)
    options = on_mesh(module, options, level_of(module))
    stepper = Stepper(options, context(options.plugins), instrumentations, progress)
    with weights_at_hand(payload), answers_in(answers(options)):
        compilation = lower_stages(module, stepper, Level.named(until), lower)
    compilation.ops["launches"] = count_launches(module)
    compilation.memory = memory_figures(module)
    if options.tiles:
        compilation.tiles = Coverage.of(module, Target.load(options.target))
    return compilation


def on_mesh(module: ModuleOp, options: Options, level: Level) -> Options:
    """The options with the mesh that a graph, or a file of rules, states; where none does, each
    stage of a pipeline is one device. Raises GeError where values cannot be cut any more, and for
    more devices than the target's cluster has."""
    if level is not Level.GRAPH:
        if options.mesh or options.shard or options.pipeline:
            raise is_cut_already(module, level)
        return options
    rules = options.rules
    stated = (rules.mesh if rules else None) or mesh_of(module)
    if stated is not None and not options.mesh:
        options = replace(options, mesh=mesh_line(stated))
    if options.pipeline and not options.mesh:
        axis, stages = read_pipeline(options.pipeline)
        options = replace(options, mesh=f"{axis or 'pp'}={stages}")
    if options.mesh:
        cluster_of(Target.load(options.target), read_mesh(options.mesh))
    else:
        check_shardings(module)  # without a mesh there is to be none
    return options


def is_cut_already(module: ModuleOp, level: Level) -> GeError:
    """The error for a mesh, or rules, that a program below the graph level is given."""
    mesh = mesh_of(module)
    of = f"for the mesh {mesh_line(mesh.devices)}" if mesh is not None else "for one device"
    hint = f"the module is at the {level} level, {of}: compile the model for another"
    return GeError("values are cut over devices at the graph level only", hint=hint)


def note_fusion(module: ModuleOp, options: Options, levels: Sequence[Level]) -> None:
    """Say what to expect of a mode of fusion."""
    if options.fusion == "aggressive" and Level.FUSED in levels:
        text = "fusion 'aggressive' does not search yet: most networks keep the launches of"
        emit(Severity.NOTE, module, f"{text} 'default'")


def timed_gears(gears: GearReport, stepper: Stepper) -> GearReport:
    """The report with the seconds that the bodies of all gears took to compile."""
    names = [r.name for r in stepper.records]
    bodies = stepper.records[names.index("expand-gears") :]
    gears.seconds = sum(r.seconds for r in bodies)
    return gears


def cost_of_engines(
    module: ModuleOp, unmarked: ModuleOp, options: Options, payload: Payload | None
) -> dict[str, Any]:
    """The time of a program with engines that were chosen by hand, and of the same without, which
    is compiled for that; empty where sizes are open."""
    plain = replace(options, engine=())
    if not (found := latencies(module, unmarked, plain, payload)):
        return {}
    ours, others = found
    times = {"latency_us": ours.latency_us, "without_us": others.latency_us}
    return {"by_hand": list(options.engine), **times, "machine": ours.machine}


def cost_beside_fp16(module: ModuleOp, floats: ModuleOp, options: Options) -> dict[str, float]:
    """The time of a quantized program, and of the same in fp16, which is compiled for that, without
    weights; empty where sizes are open, or it has no such form."""
    from ge.transforms.quantization.data import Calibration, calibrating

    off = {name: "" for name in ("quantize", "calibration", "accuracy", "quantize_cache")}
    plain = replace(options, **off, precision="fp16", quantize_skip=(), export_qdq="")
    with calibrating(Calibration()), suppress(GeError):
        found = latencies(module, floats, plain, None)
        return dict(zip(("us", "fp16_us"), (t.latency_us for t in found), strict=False))
    return {}


def latencies(
    module: ModuleOp, other: ModuleOp, options: Options, payload: Payload | None
) -> tuple[Timeline, ...]:
    """Simulations of a program and of another form of it, which is compiled for that; none where
    sizes are open."""
    options = replace(options, dump_graph=0, print_liveness=False)
    with warning_handler(lambda _: None):
        lower_verified(other, options, None, Level.PROGRAM, (), payload)
    target = Target.load(options.target)
    try:
        return tuple(simulate(m, target) for m in (module, other))
    except UnknownShapes:
        return ()


def load(
    path: str,
    shapes: Shapes | None = None,
    dims: Sizes | None = None,
    plugins: Sequence[str] = (),
    rules: ShardRules | None = None,
) -> Program:
    """Read a model (`.onnx`) or a module of any level (`.mlir`, or "-" for standard input).
    `shapes` and `dims` fix inputs by name and symbolic dimensions of an ONNX model, to a size or a
    range (a program is bound to them: `bind_dims.py`); `plugins` are files with dialects, and with
    ONNX ops; `rules` say how its values are to be cut over devices. Raises GeError, ParseError or
    VerifyException for what cannot be read or is not valid."""
    ctx = context(plugins)
    reload = None
    if path != "-":
        reload = partial(load, path, shapes=shapes, dims=dims, plugins=plugins, rules=rules)
    if path.endswith(".onnx"):
        from ge.lowering.onnx.importer import import_file

        with paused_collector():
            imported = import_file(path, shapes, dims, rules=rules)
        return Program(imported.module, imported.payload, path, reload=reload)
    module = parse_module(ctx, read_source(path))
    related = relations(dims or {})
    if (shapes or len(dims or {}) > len(related)) and level_of(module).depth < Level.BUFFERS.depth:
        what = "--shape and --dim are for .onnx models and for programs"
        raise GeError(what, path, "import the model anew")
    if related:
        relate(module, related)
    verify(module)
    payload = open_payload(module, text_folder(module, Path(path)))
    program = Program(module, payload, path, reload=reload)
    program.bind = Binder(program, Options(custom_pass=os.pathsep.join(plugins))).at
    return program


def text_folder(module: ModuleOp, path: Path) -> Path:
    file = payload_path(module, path.parent)
    is_here = file is None or file.exists() or not path.is_symlink()
    return path.parent if is_here else path.resolve().parent


Watch = Callable[[Program], Sequence[Instrumentation]]  # makes what watches the passes


def compile_file(
    path: str,
    options: Options | None = None,
    shapes: Shapes | None = None,
    dims: Sizes | None = None,
    progress: Progress | None = None,
    until: str = Level.PROGRAM,
    watch: Watch | None = None,
) -> Program:
    """Read a model or module and lower it; `shapes` and `dims` beside those of the options.
    Raises GeError, ParseError, VerifyException."""
    options = options or Options.from_environment()
    start = time.perf_counter()
    shapes = parse_shapes(options.shape) | dict(shapes or {})
    dims = parse_dims(options.dim) | dict(dims or {})
    program = load(path, shapes, dims, options.plugins, options.rules)
    return compile_loaded(program, options, start, progress, until, watch)


def compile_loaded(
    program: Program,
    options: Options,
    start: float,
    progress: Progress | None = None,
    until: str = Level.PROGRAM,
    watch: Watch | None = None,
) -> Program:
    """Lower what was read, or built, since `start` (of `time.perf_counter`), in place. Raises as
    `lower_program` does."""
    if options.static_shape:
        require_static(program.module, program.path)
    records = [PassRecord("import", time.perf_counter() - start)]
    watching = () if watch is None else watch(program)
    with decisions(program, options):
        if decides(options):
            seconds = time.perf_counter() - start - records[0].seconds
            records.append(PassRecord("calibration", seconds))
        if options.export_qdq:
            from ge.lowering.driver.calibration import export_of

            program.export = export_of(program, options, context(options.plugins))
        compilation = lower_program(program, options, progress, until, watching)
    compilation.passes[:0] = records
    compilation.seconds += sum(r.seconds for r in records)
    return program


def lower_program(
    program: Program,
    options: Options,
    progress: Progress | None = None,
    until: str = Level.PROGRAM,
    instrumentations: Sequence[Instrumentation] = (),
) -> Compilation:
    """Lower what `load` read, in place. The error of a crash of ours names a file that repeats it.
    Raises GeError and VerifyException for what is wrong with the module."""

    def run(module: ModuleOp, watching: Sequence[Instrumentation]) -> Compilation:
        return lower_all(module, options, progress, until, watching, program.payload)

    program.bind = Binder(program, options).at
    try:
        program.compilation = run(program.module, instrumentations)
    except Exception as error:
        if (reload := program.reload) is not None and is_internal(error):
            error.add_note(REPRODUCER + reproduce(lambda saving: run(reload().module, [saving])))
        raise
    if options.tiles and is_open(program.module):
        write_open_programs(program)
    add_largest(program)
    return program.compilation


def check_gears(module: ModuleOp, options: Options, level: Level) -> GearReport | None:
    """The gears that are asked for, before any work is done for them. Raises GeError for those that
    do not fit the inputs, and for options of gears if there are none."""
    if not any(options.gears):
        if options.dynamic_fallback or options.gear_histogram:
            flag = "--dynamic-fallback" if options.dynamic_fallback else "--gear-histogram"
            raise GeError(f"{flag} is beside gears", hint="give --dynamic-dims too")
        return None
    if level is not Level.GRAPH:
        raise GeError(
            "gears are made of a graph", hint=f"the module is at the {level} level: compile anew"
        )
    if (main := main_function(module)) is None:
        return None
    gears = gears_of(main, Request(*options.gears))
    histogram = judged(options.gear_histogram, gears) if options.gear_histogram else {}
    return GearReport(gears, histogram)


def require_static(module: ModuleOp, path: str) -> None:
    main = main_function(module)
    types = () if main is None else main.function_type.inputs.data
    if any(is_dynamic(t) for t in types if is_shaped(t)):
        hint = "fix them with --dim or --shape"
        raise GeError("GE_STATIC_SHAPE wants the sizes of all inputs to be known", path, hint)
