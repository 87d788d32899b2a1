"""What `ge-run` runs: the model of the command line, lowered as far as needed, at given sizes."""

import argparse
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ge.dialects.text.values import parse_dims, parse_shapes
from ge.lowering.levels.level import Level
from ge.tools.cli.arguments import fixed_of, flag_value

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ge.dialects.targets.target import Target
    from ge.lowering.driver.program import Compilation, Program
    from ge.lowering.pipeline.options import Options
    from ge.lowering.pipeline.pass_manager import Instrumentation
    from ge.runtime.data.arrays import Array
    from ge.runtime.device.session import Session


def machine_of(args: argparse.Namespace, module: "ModuleOp", options: "Options") -> "Target":
    """The target asked for, else that the module was compiled for."""
    from ge.dialects.targets.target import Target, target_for
    from ge.runtime.device.session import main_of

    if flag_value(args, "target") or compiled_for(module) is None:
        return Target.load(options.target)
    return target_for(main_of(module))


def kernel_target(args: argparse.Namespace, options: "Options") -> str:
    """The target that a kernel is run on, if one is asked for."""
    from ge.dialects.targets import DEFAULT_TARGET

    asked = flag_value(args, "target") or options.target
    return "" if flag_value(args, "target") is None and asked == DEFAULT_TARGET else asked


def load_model(
    args: argparse.Namespace, options: "Options"
) -> tuple["Program", "dict[str, Array] | None"]:
    """The model and the inputs given. A model with symbolic dimensions is fixed to the shapes of
    its inputs (unless GE_STATIC_SHAPE=0)."""
    from ge.lowering.driver.compiler import load
    from ge.runtime.data.npz import read_npz
    from ge.runtime.data.weights import Fallback, RandomPayload
    from ge.runtime.device.ports import caller_ports, check_shape
    from ge.runtime.device.session import check_inputs, main_of

    shapes, dims = parse_shapes(options.shape), parse_dims(options.dim)
    loaded = load(args.input, shapes, dims, options.plugins)
    inputs = None
    if args.inputs:
        ports = caller_ports(main_of(loaded.module))
        inputs = read_npz(args.inputs, [p.name for p in ports], partial(check_shape, ports))
        check_inputs(ports, inputs)
        open_dims = any(size < 0 for p in ports for size in p.shape)
        fixed = options.static_shape is not False and not any(options.gears)
        if open_dims and fixed and args.input.endswith(".onnx"):
            at = {n: a.shape for n, a in inputs.items()}
            loaded = load(args.input, at, dims, options.plugins)
    if args.random_weights:
        loaded.payload = Fallback(loaded.payload, RandomPayload(loaded.module, args.seed))
    return loaded, inputs


def compiled_for(module: "ModuleOp") -> str | None:
    """The name of the target that a module was compiled for."""
    from xdsl.dialects.builtin import StringAttr

    from ge.dialects.targets.target import TARGET
    from ge.runtime.device.session import main_of

    name = main_of(module).attributes.get(TARGET)
    return name.data if isinstance(name, StringAttr) else None


def lower_for(
    args: argparse.Namespace,
    loaded: "Program",
    options: "Options",
    watching: "Sequence[Instrumentation]" = (),
) -> "Compilation | None":
    """Lower the module as far as what is asked for needs; None where nothing was to be done."""
    from ge.dialects.support.diagnostics import warning_handler
    from ge.dialects.support.errors import GeError
    from ge.lowering.driver.compiler import decides, decisions, lower_program
    from ge.lowering.levels.level import level_of
    from ge.tools.cli.progress import progress_bar
    from ge.tools.cli.remarks import Remarks, printer
    from ge.transforms.precision.modes import ORIGIN

    level = level_of(loaded.module)
    timed = wants_time(args)
    onnx = args.input.endswith(".onnx")
    default = Level.PROGRAM if timed or args.tiles or onnx else level
    goal = Level(args.level or default)
    if goal.depth < level.depth:
        raise GeError(f"the module is at the {level} level, it cannot go back to {goal}")
    if flag_value(args, "precision") not in (None, ORIGIN) and level is not Level.GRAPH:
        hint = f"this is at {level}: compile the model with --precision"
        raise GeError("the precision of a model is chosen at the graph level", args.input, hint)
    if flag_value(args, "quantize") and level is not Level.GRAPH:
        hint = f"this is at {level}: compile the model with --quantize"
        raise GeError("a model is quantized at the graph level", args.input, hint)
    gears = [
        f for f in ("dynamic_batch", "dynamic_image_size", "dynamic_dims") if flag_value(args, f)
    ]
    if gears and level is not Level.GRAPH:
        flag = f"--{gears[0].replace('_', '-')}"
        hint = f"this is at {level}: compile the model with {flag}"
        raise GeError("gears are made at the graph level", args.input, hint)
    if timed and goal is not Level.PROGRAM:
        raise GeError(f"time is known at the program level only, not at {goal}")
    if goal == level and not onnx and not options.outputs:
        if not decides(options) or level is not Level.GRAPH:
            return None
    telling = warning_handler(printer(Remarks()))
    with progress_bar() as progress, telling, decisions(loaded, options):
        return lower_program(loaded, options, progress, goal, watching)


def bind(
    args: argparse.Namespace,
    loaded: "Program",
    compilation: "Compilation | None",
    options: "Options",
    inputs: "dict[str, Array] | None",
) -> "tuple[Program, Compilation | None, dict[str, Array] | None]":
    """A program of unknown shapes at those of its inputs, or at the sizes given (unless
    GE_STATIC_SHAPE=0), with the inputs."""
    from ge.dialects.graph.state import growing_symbol
    from ge.dialects.support.dims import symbols
    from ge.dialects.support.errors import GeError
    from ge.lowering.driver.binding import Binder, check_sizes, is_open
    from ge.runtime.device.ports import caller_ports
    from ge.runtime.device.random_inputs import random_inputs
    from ge.runtime.device.session import check_inputs, main_of

    shapes, dims = fixed_of(options)
    main = main_of(loaded.module)
    ports, growing = caller_ports(main), growing_symbol(main)
    if args.input.endswith(".onnx"):  # the import has taken the sizes that are not here any more
        left = {d or f"{p.name}[{i}]" for p in ports for i, d in enumerate(p.dims)}
        left |= {s for d in left for s in symbols(d)}
        dims = {name: size for name, size in dims.items() if name in left}
    open_dims = any(size < 0 for p in ports for size in p.shape)
    if inputs is not None and open_dims and growing is None:
        given = {name: array.shape for name, array in inputs.items()}
        check_sizes(main, dims, shapes, given)
    if not is_open(loaded.module):
        is_fixed = not dims.keys() <= {growing} if growing else not open_dims
        if is_fixed and (shapes or dims) and not args.input.endswith(".onnx"):
            hint = f"but --dim {growing}=N, rows that states have" if growing else ""
            raise GeError("the program's sizes are fixed: it takes no --dim and no --shape",
                          hint=hint)  # fmt: skip
        return loaded, compilation, inputs
    if options.static_shape is False:
        return loaded, compilation, inputs
    if not args.timing_only:
        if inputs is None:
            inputs = random_inputs(loaded.module, args.seed, shapes, dims)
        check_inputs(ports, inputs)
        shapes = {name: array.shape for name, array in inputs.items()}
    bound = Binder(loaded, options).at(dims, shapes)
    return bound, bound.compilation, inputs


def inputs_for(
    args: argparse.Namespace, options: "Options", session: "Session"
) -> "dict[str, Array]":
    """Random inputs of the sizes asked for; what grows with states, for the rows that they hold.
    Raises GeError where --dim says that these are others."""
    from ge.dialects.graph.state import growing_symbol
    from ge.dialects.support.errors import GeError
    from ge.runtime.device.random_inputs import random_inputs
    from ge.runtime.device.session import main_of

    shapes, dims = fixed_of(options)
    if (growing := growing_symbol(main_of(session.module))) is not None:
        rows = session.state.rows()
        if dims.setdefault(growing, rows) != rows:
            what = f"--dim {growing}={dims[growing]}: the states have {rows} rows"
            raise GeError(what, hint="a run begins with the rows of --load-state S.npz")
    return random_inputs(session.module, args.seed, shapes, dims)


@contextmanager
def naming_sizes(
    args: argparse.Namespace, options: "Options", module: "ModuleOp"
) -> "Generator[None]":
    """An error of a run on random inputs names the sizes that they have where nobody gave any."""
    from ge.dialects.support.errors import GeError
    from ge.runtime.device.random_inputs import chosen_sizes

    try:
        yield
    except GeError as e:
        chosen = {} if args.inputs else chosen_sizes(module, *fixed_of(options))
        if not chosen or e.hint:
            raise
        sizes = ", ".join(f"{name}={size}" for name, size in chosen.items())
        way = " ".join(f"--dim {name}=N" for name in chosen)
        hint = f"the inputs are random ones with {sizes}: give --inputs, or other sizes by {way}"
        raise GeError(e.message, e.where, hint) from e


def rows_of(options: "Options", module: "ModuleOp") -> int | None:
    """How many rows states that grow have when a run ends that begins with those of --dim; None
    where that is not given."""
    from ge.dialects.graph.state import growing_symbol
    from ge.runtime.device.ports import input_ports
    from ge.runtime.device.session import main_of

    main = main_of(module)
    _, dims = fixed_of(options)
    if (before := dims.get(growing_symbol(main) or "")) is None:
        return None
    return before + max(p.step for p in input_ports(main))


def wants_time(args: argparse.Namespace) -> bool:
    """Whether something is asked for that needs the time of a program."""
    return bool(
        args.timing_only
        or args.dispatch
        or args.trace
        or args.explain
        or args.op_summary
        or args.op_statistic
        or args.what_if
        or args.runs
    )
