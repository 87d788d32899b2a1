"""ge-run; `parsers.py` says what it is for."""

import argparse
import dataclasses
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ge.dialects.npu_task.pipeline import is_pipeline, stages_of
from ge.dialects.support.diagnostics import visible
from ge.dialects.support.environment import is_first_rank, own_rank
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.streams import print_result
from ge.dialects.targets.target import target_for
from ge.dialects.text.reading import SourceText, read_source
from ge.lowering.driver.devices import device_figures
from ge.lowering.driver.program import (
    Compilation,
    Program,
    count_launches,
    memory_figures,
    unknown_sizes,
)
from ge.lowering.driver.tiles import write_tile_programs
from ge.lowering.levels.level import Level, level_of
from ge.lowering.pipeline.options import Options
from ge.runtime.clock.clock import UnknownShapes, simulate
from ge.runtime.clock.pipeline import PipelineTime
from ge.runtime.data.arrays import Array, statistics
from ge.runtime.data.files import Outputs, check_writable
from ge.runtime.data.weights import files_of
from ge.runtime.device.gears import GearTable
from ge.runtime.device.session import Session, main_of
from ge.runtime.host.host import first_run_us
from ge.tools.cli.flags import (
    fixed_of,
    flag_value,
    options_from,
)
from ge.tools.cli.pages import watched, write_run
from ge.tools.cli.parsers import (
    about_time_alone,
    check_flags,
)
from ge.tools.cli.prepare import (
    bind,
    compiled_for,
    compute,
    kernel_target,
    load_model,
    lower_for,
    machine_of,
    naming_sizes,
    rows_of,
    wants_time,
)
from ge.tools.cli.watching import telling

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ge.runtime.clock.timeline import Timeline
    from ge.tools.cli.explain import Measure
    from ge.tools.comparing.versus import Result


RANK = "{rank}"  # in the name of a file of outputs: the number of the device that has its parts

KERNEL = re.compile(r'^\s*"?tile\.kernel\b', re.MULTILINE)
FUNCTION = re.compile(r'^\s*"?func\.func\b', re.MULTILINE)


def run(args: argparse.Namespace) -> int:
    """Load, compile as far as needed, compute, simulate, write and print. Raises GeError."""
    options = options_from(args)
    args.timing_only |= about_time_alone(args)
    check_flags(args)
    sources = files_read(args, options)
    check_writable(files_written(args), sources)
    if (source := kernel_source(args.input)) is not None:
        from ge.tools.cli.run_kernel import run_kernel

        print_outputs(run_kernel(args, source, kernel_target(args, options)))
        return 0
    loaded, inputs = load_model(args, options)
    options = replace(
        options, target=flag_value(args, "target") or compiled_for(loaded.module) or options.target
    )
    if args.what_if or args.what_if_recompile:
        from ge.tools.cli.explain import check_changes

        check_changes(args, machine_of(args, loaded.module, options), loaded.module)
    with watched(args, sources) as watching, telling(args, options, imports=False) as watch_of:
        compilation = lower_for(args, loaded, options, [*watching, *watch_of(loaded)])
    growing = loaded
    loaded, compilation, inputs = bind(args, loaded, compilation, options, inputs)
    write_tiles(args, loaded, growing, options)
    report = describe(loaded, compilation)
    outputs: dict[str, Array] = {}
    session = timeline = result = None
    if not args.timing_only:
        with naming_sizes(args, options, growing.module):
            outputs, session, report["numerics"], result = compute(args, loaded, options, inputs)
        report |= {} if result is None else {"compared": result.report()}
    write_parts(args, session, outputs)
    if not is_first_rank():  # the first rank has all else that is printed and written
        return 0
    if args.dispatch:
        from ge.tools.cli.dispatch import feed

        target = machine_of(args, loaded.module, options)
        fed = growing if args.grow else loaded
        report["dispatch"], timeline = feed(args, fed, options, target, inputs)
    rows = rows_of(options, loaded.module) if session is None else session.rows
    loaded, pipeline = longest_stage(loaded, args)
    timeline = timeline or time_of(args, loaded.module, options, inputs, rows)
    note_first_run(timeline, loaded, growing)
    with Outputs([*sources, *files_of(loaded.payload)]) as out:
        if args.outputs and RANK not in args.outputs:
            out.npz(args.outputs, outputs)
        if args.save_state and session is not None:
            out.npz(args.save_state, {name: session.state[name] for name in session.state.names})
        if timeline is not None:
            report["time"] = write_profile(args, out, loaded, timeline, rows, pipeline)
            again = partial(measured, args, inputs)
            report["time"] |= tried(args, options, growing, loaded.module, timeline, again)
        if args.report:
            out.json(args.report, report)
        for watcher in watching:
            write_run(out, args.html, loaded, timeline, watcher,
                      report=report, target=options.target, rows=rows)  # fmt: skip
    return told(args, session, outputs, result)


def write_parts(
    args: argparse.Namespace, session: Session | None, outputs: Mapping[str, Array]
) -> None:
    """Write what each device of this process has of outputs in a file of its own, if asked for."""
    if session is not None and RANK in (args.outputs or ""):
        with Outputs([args.inputs] if args.inputs else ()) as out:
            for device, parts in session.parts_of(outputs).items():
                out.npz(args.outputs.replace(RANK, str(device)), parts)


def longest_stage(
    program: Program, args: argparse.Namespace
) -> "tuple[Program, PipelineTime | None]":
    """Return of a pipeline the stage that takes longest, whose time is told in detail, and the time
    of all; any other program as it is."""
    main = main_function(program.module)
    if main is None or not is_pipeline(program.module) or not (wants_time(args) or args.report):
        return program, None
    time = PipelineTime.of(program.module, target_for(main, flag_value(args, "target") or ""))
    stage = stages_of(program.module)[time.longest]
    return replace(program, module=stage), time


def kernel_source(path: str) -> SourceText | None:
    """The text of a file that holds a kernel, and no program that launches it."""

    if not path.endswith(".mlir") or not Path(path).is_file():
        return None
    source = read_source(path)
    is_kernel = KERNEL.search(source.text) and not FUNCTION.search(source.text)
    return source if is_kernel else None


def told(
    args: argparse.Namespace,
    session: Session | None,
    outputs: Mapping[str, Array],
    result: "Result | None",
) -> int:
    """Print what was proved, and the outputs or what came of comparing them; the exit status."""
    if session is not None and session.proved:
        by_flag = flag_value(args, "sanitize")
        (print_result if by_flag else partial(print, file=sys.stderr))(session.proved)
    if result is None:
        print_outputs(outputs)
        return 0
    print_result(result.text())
    return int(not result.agrees)


def tried(
    args: argparse.Namespace,
    options: Options,
    source: Program,
    module: "ModuleOp",
    timeline: "Timeline",
    measure: "Measure",
) -> dict[str, Any]:
    """Compile anew what is asked for and return what is found, as parts of the report."""
    if not (args.explain or args.what_if_recompile):
        return {}
    from ge.lowering.driver.variants import Refused
    from ge.tools.cli.explain import compiled_anew, explain, model_of

    report: dict[str, Any] = {}
    if args.explain:
        report["explained"] = explain(args, options, source, module, timeline, measure).report()
    if args.what_if_recompile:
        model = model_of(args, options, source)
        if isinstance(model, Refused):
            raise GeError(f"--what-if-recompile: {model.why}")
        report["what_if_compiled"] = compiled_anew(args, options, model, timeline, measure)
    return report


def files_read(args: argparse.Namespace, options: Options) -> list[str]:
    state = None if args.load_state == args.save_state else args.load_state  # a loop replaces it
    read = (args.input, args.inputs, state, args.model, args.compare)
    named = [path for path in read if path is not None]
    return [options.target, *options.plugins, *options.calibration_files, *named]


def files_written(args: argparse.Namespace) -> list[str]:
    written = (
        args.outputs, args.save_state, args.trace, args.op_summary, args.op_statistic,
        args.report, args.html,
    )  # fmt: skip
    return [path.replace(RANK, own_rank() or "0") for path in written if path is not None]


def write_tiles(
    args: argparse.Namespace, program: Program, source: Program, options: Options
) -> None:
    """Write tile programs beside kernels that have none, where --tiles asks for them, and where a
    program that the source was bound to is to be timed."""
    bound = program is not source and options.tiles and (wants_time(args) or args.html)
    if args.tiles or bound:
        write_tile_programs(program.module, options, flag_value(args, "target") or "")


def describe(loaded: Program, compilation: Compilation | None) -> dict[str, Any]:
    """The report so far: what the compiler knows, without the parts that are not known."""
    name = Path(loaded.path).stem
    if compilation is not None:
        report = compilation.report(name)
    else:
        memory, unknown = memory_figures(loaded.module), unknown_sizes(loaded.module)
        figures = Compilation(Options(), memory=memory, unknown=unknown).memory_part
        report = {"model": name, "memory": figures}
        if launches := count_launches(loaded.module):
            report["ops"] = {"launches": launches}
    report |= device_figures(loaded.module)
    return {key: part for key, part in report.items() if part != {}}


def note_first_run(timeline: "Timeline | None", program: Program, source: Program) -> None:
    """State what the host does before the first run of a program that was bound to sizes, if the
    source, which leaves them open, is another one."""
    if timeline is not None and program is not source:
        timeline.first_us = sum(first_run_us(program.module, timeline.target).values())


def time_of(
    args: argparse.Namespace,
    module: "ModuleOp",
    options: Options,
    inputs: Mapping[str, Array] | None,
    rows: int | None,
) -> "Timeline | None":
    """The time of a program, where that is asked for; of one with gears at the sizes given, of one
    whose states grow where they have so many `rows`."""
    required = wants_time(args)
    if not required and (not (args.report or args.html) or level_of(module) is not Level.PROGRAM):
        return None
    try:
        gears, taken = GearTable.of(main_of(module)), None
        if gears is not None:
            shapes, dims = fixed_of(options)
            taken = gears.chosen({n: a.shape for n, a in (inputs or {}).items()} or shapes, dims)
        return simulate(module, machine_of(args, module, options), taken, rows=rows)
    except UnknownShapes:
        if required:
            raise
        return None


def measured(
    args: argparse.Namespace,
    inputs: Mapping[str, Array] | None,
    program: Program,
    options: Options,
) -> "tuple[ModuleOp, Timeline]":
    """Another program at the sizes asked for, on its own target, and its time. Raises GeError where
    that is not known."""
    args = argparse.Namespace(**vars(args) | {"option target": None, "timing_only": True})
    bound, _, _ = bind(args, program, program.compilation, options, None)
    if args.tiles or (bound is not program and options.tiles):
        write_tile_programs(bound.module, options)
    rows = rows_of(options, bound.module)
    timeline = time_of(args, bound.module, options, inputs, rows)
    assert timeline is not None
    return bound.module, timeline


def write_profile(
    args: argparse.Namespace,
    out: Outputs,
    program: Program,
    timeline: "Timeline",
    read: int | None,
    pipeline: PipelineTime | None = None,
) -> dict[str, Any]:
    """Write what is asked for; print the figures for people. The `time` part of the report.
    `read`: the rows of states that grow, as in `time_of`. `pipeline`: that of which the program is
    a stage."""
    from ge.runtime.clock.runs import simulate_runs
    from ge.runtime.device.state import propose_state
    from ge.runtime.profile import tables as profiler
    from ge.runtime.profile.opened import explained, opened, pipe_events
    from ge.runtime.profile.trace import chrome_trace
    from ge.runtime.profile.what_if import KEPT, needs_compiling, what_if

    module, model, several = program.module, program.name, None
    if args.runs:
        several = simulate_runs(module, timeline.target, args.runs, args.prefetch or 2, timeline)
    kernels = opened(timeline, module)
    if args.trace:
        trace = chrome_trace(timeline if several is None else several.timeline)
        if several is None and kernels:
            trace["traceEvents"] += pipe_events(kernels, timeline)
        out.json(args.trace, trace)
    if args.op_summary:
        rows = profiler.op_summary(timeline, model)
        out.text(args.op_summary, profiler.csv_text(profiler.OP_SUMMARY, rows))
    if args.op_statistic:
        rows = profiler.op_statistic([timeline], model)
        out.text(args.op_statistic, profiler.csv_text(profiler.OP_STATISTIC, rows))
    report = profiler.time_report(timeline)
    print_result(profiler.summary_table(timeline, report))
    if args.explain:
        text, report["kernels"] = explained(kernels[: args.explain], timeline)
        print_result(text)
    if (proposal := propose_state(main_of(module), timeline)) is not None:
        report["state"] = dataclasses.asdict(proposal)
        print(proposal, file=sys.stderr)
    if several is not None:
        report["runs"] = several.report()
        print_result(several)
    kept = [text for text in args.what_if if not needs_compiling(text)]
    if changes := what_if(module, timeline.target, timeline.latency_us, kept, read):
        report["what_if"] = [dataclasses.asdict(w) for w in changes]
        print_result(*changes)
        if not args.what_if_recompile:
            print(f"note: {KEPT}", file=sys.stderr)
    if pipeline is not None:
        print_result(f"that is one microbatch of stage {pipeline.longest}", pipeline)
        report["pipeline"] = pipeline.report()
    return report


SHOWN_ELEMENTS = 12  # arrays up to this size are shown whole


def print_outputs(outputs: Mapping[str, Array]) -> None:
    if lines := list(output_lines(outputs)):
        print_result(*lines)


def output_lines(outputs: Mapping[str, Array]) -> Iterable[str]:
    """A line for each output: its elements if they are few, else figures."""
    for name, array in outputs.items():
        head = f"{visible(name)}: {array.dtype}[{', '.join(map(str, array.shape))}]"
        if array.size <= SHOWN_ELEMENTS:
            elements = " ".join(_text(v) for v in array.reshape(-1).tolist())
            yield f"{head} = {elements}"
            continue
        figures = statistics(array)
        del figures["dtype"], figures["shape"]
        yield f"{head} " + ", ".join(f"{k} {_text(v)}" for k, v in figures.items())


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
