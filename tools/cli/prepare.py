"""What `ge-run` runs: the model of the command line, lowered as far as needed, at given sizes; the
session that is asked for; its numbers, checked, and beside those of another program (`--compare`).
"""

import argparse
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp, StringAttr

from ge.dialects.graph.stated import growing_symbol
from ge.dialects.support.diagnostics import warning_handler
from ge.dialects.support.dims import symbols
from ge.dialects.support.effort import effort
from ge.dialects.support.errors import GeError
from ge.dialects.support.streams import print_result
from ge.dialects.support.types import Shape
from ge.dialects.targets import DEFAULT_TARGET
from ge.dialects.targets.target import TARGET, Target, target_for
from ge.dialects.text.values import parse_dims, parse_shapes
from ge.lowering.driver.binding import Binder, check_sizes, is_open
from ge.lowering.driver.compiler import decisions, is_cut_already, load, lower_program
from ge.lowering.driver.tiles import Coverage
from ge.lowering.levels.level import Level, level_of
from ge.lowering.pipeline.options import ON_DEVICES
from ge.lowering.pipeline.stages import decides
from ge.runtime.check.schedule import useless_events
from ge.runtime.data.arrays import Array, statistics
from ge.runtime.data.npz import PREFIX, read_npz
from ge.runtime.data.weights import Fallback, Payload, RandomPayload
from ge.runtime.device.ports import Port, caller_ports, check_shape, input_ports, output_ports
from ge.runtime.device.random_inputs import chosen_sizes, random_inputs
from ge.runtime.device.ranks import require_devices
from ge.runtime.device.session import Session, check_inputs, main_of
from ge.tools.cli.flags import fixed_of, flag_value
from ge.tools.cli.remarks import Remarks, printer
from ge.transforms.precision.modes import ORIGIN

if TYPE_CHECKING:
    from ge.lowering.driver.program import Compilation, Program
    from ge.lowering.pipeline.options import Options
    from ge.lowering.pipeline.pass_manager import Instrumentation
    from ge.runtime.device.function import Watch
    from ge.tools.comparing.peers import Peer
    from ge.tools.comparing.versus import Result, Versus


def machine_of(args: argparse.Namespace, module: ModuleOp, options: "Options") -> Target:
    """The target asked for, else that the module was compiled for."""
    if flag_value(args, "target") or compiled_for(module) is None:
        return Target.load(options.target)
    return target_for(main_of(module))


def kernel_target(args: argparse.Namespace, options: "Options") -> str:
    """The target that a kernel is run on, if one is asked for."""
    asked = flag_value(args, "target") or options.target
    return "" if flag_value(args, "target") is None and asked == DEFAULT_TARGET else asked


def load_model(
    args: argparse.Namespace, options: "Options"
) -> tuple["Program", dict[str, Array] | None]:
    """The model and the inputs given. A model with symbolic dimensions is fixed to the shapes of
    its inputs (unless GE_STATIC_SHAPE=0)."""
    shapes, dims = parse_shapes(options.shape), parse_dims(options.dim)
    loaded = load(args.input, shapes, dims, options.plugins, options.rules)
    inputs = None
    if args.inputs:
        ports = caller_ports(main_of(loaded.module))
        inputs = read_inputs(args.inputs, ports)
        check_inputs(ports, inputs)
        open_dims = any(size < 0 for p in ports for size in p.shape)
        fixed = options.static_shape is not False and not any(options.gears)
        if open_dims and fixed and args.input.endswith(".onnx"):
            at = {n: a.shape for n, a in inputs.items()}
            loaded = load(args.input, at, dims, options.plugins, options.rules)
    if args.random_weights:
        loaded.payload = Fallback(loaded.payload, RandomPayload(loaded.module, args.seed))
    return loaded, inputs


def read_inputs(path: str, ports: Sequence[Port]) -> dict[str, Array]:
    """The arrays of a file by the names of inputs or, as samples may have it, `in:` and the name:
    beside those there may be others, such as outputs."""

    def fits(name: str, shape: Shape) -> None:
        check_shape(ports, name.removeprefix(PREFIX), shape)

    found = read_npz(path, [n for p in ports for n in (p.name, PREFIX + p.name)], fits)
    own = {p.name: found[PREFIX + p.name] for p in ports if PREFIX + p.name in found}
    return own or found


def compiled_for(module: ModuleOp) -> str | None:
    """The name of the target that a module was compiled for."""
    name = main_of(module).attributes.get(TARGET)
    return name.data if isinstance(name, StringAttr) else None


def lower_for(
    args: argparse.Namespace,
    loaded: "Program",
    options: "Options",
    watching: "Sequence[Instrumentation]" = (),
) -> "Compilation | None":
    """Lower the module as far as what is asked for needs; None where nothing was to be done."""
    level = level_of(loaded.module)
    timed = wants_time(args)
    onnx = args.input.endswith(".onnx")
    is_cut = any(flag_value(args, name) for name in ON_DEVICES.split())
    if is_cut and level is not Level.GRAPH:
        raise is_cut_already(loaded.module, level)
    default = Level.PROGRAM if timed or args.tiles or onnx or is_cut else level
    goal = Level(args.level or default)
    if goal.depth < level.depth:
        raise GeError(f"the module is at the {level} level, it cannot go back to {goal}")
    of_graphs = {
        "precision": "the precision of a model is chosen",
        "quantize": "a model is quantized",
    }
    gears = "dynamic_batch", "dynamic_image_size", "dynamic_dims"
    for name, what in (of_graphs | dict.fromkeys(gears, "gears are made")).items():
        if flag_value(args, name) not in (None, ORIGIN, "") and level is not Level.GRAPH:
            hint = f"this is at {level}: compile the model with --{name.replace('_', '-')}"
            raise GeError(f"{what} at the graph level", args.input, hint)
    if timed and goal is not Level.PROGRAM:
        raise GeError(f"time is known at the program level only, not at {goal}")
    if goal == level and not onnx and not is_cut and not options.outputs:
        if not decides(options) or level is not Level.GRAPH:
            return None
    telling = warning_handler(printer(Remarks()))
    with effort(options.time_limit) as known, telling, decisions(loaded, options):
        return lower_program(loaded, options, known.report, goal, watching)


def bind(
    args: argparse.Namespace,
    loaded: "Program",
    compilation: "Compilation | None",
    options: "Options",
    inputs: dict[str, Array] | None,
) -> "tuple[Program, Compilation | None, dict[str, Array] | None]":
    """A program of unknown shapes at those of its inputs, or at the sizes given (unless
    GE_STATIC_SHAPE=0), with the inputs."""
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


def inputs_for(args: argparse.Namespace, options: "Options", session: Session) -> dict[str, Array]:
    """Random inputs of the sizes asked for; what grows with states, for the rows that they hold.
    Raises GeError where --dim says that these are others."""
    shapes, dims = fixed_of(options)
    if (growing := growing_symbol(main_of(session.module))) is not None:
        rows = session.state.rows()
        if dims.setdefault(growing, rows) != rows:
            what = f"--dim {growing}={dims[growing]}: the states have {rows} rows"
            raise GeError(what, hint="a run begins with the rows of --load-state S.npz")
    return random_inputs(session.module, args.seed, shapes, dims)


@contextmanager
def naming_sizes(args: argparse.Namespace, options: "Options", module: ModuleOp) -> Generator[None]:
    """An error of a run on random inputs names the sizes that they have where nobody gave any."""
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


def rows_of(options: "Options", module: ModuleOp) -> int | None:
    """Count the rows of states that grow when a run ends that begins with those of --dim; None
    where that is not given."""
    main = main_of(module)
    _, dims = fixed_of(options)
    if (before := dims.get(growing_symbol(main) or "")) is None:
        return None
    return before + max(p.step for p in input_ports(main))


def wants_time(args: argparse.Namespace) -> bool:
    """Tell whether something is asked for that needs the time of a program."""
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


def compared_with(
    args: argparse.Namespace,
    loaded: "Program",
    options: "Options",
    inputs: Mapping[str, Array],
) -> "Versus | None":
    """Make the comparison with the peer that is asked for; None where none is. Raises GeError
    for a peer that is not there."""
    if not args.compare:
        return None
    from ge.tools.comparing.versus import Versus

    peer = peer_of(args, loaded, options, inputs)
    quantized = bool(options.quantize)
    return Versus(loaded.module, peer, args.compare_layers, args.tolerance, quantized)


def peer_of(
    args: argparse.Namespace,
    loaded: "Program",
    options: "Options",
    inputs: Mapping[str, Array],
) -> "Peer":
    from ge.tools.comparing import peers

    name, main = args.compare, main_of(loaded.module)
    model = args.model or args.input
    if name == peers.ONNXRUNTIME:
        if not model.endswith(".onnx"):
            hint = "give the model that it was compiled from: --model M.onnx"
            raise GeError("onnxruntime runs .onnx models alone", model, hint)
        return peers.Onnxruntime(model)
    if name == peers.TORCH:
        if not model.endswith(".pt2"):
            hint = "give a program that torch.export.save wrote: --model M.pt2"
            raise GeError("torch runs programs of torch.export alone", model, hint)
        return peers.Torch(model, caller_ports(main), output_ports(main))
    if name.endswith(".npz"):
        return peers.File(name, output_ports(main))
    if name.endswith((".onnx", ".mlir")):
        return other_program(args, options, inputs)
    raise peers.no_such_peer(name)


def other_program(
    args: argparse.Namespace, options: "Options", inputs: Mapping[str, Array]
) -> "Peer":
    """Another program, at the sizes of the inputs, with the weights that it has."""
    from ge.lowering.onnx.model import read_model
    from ge.tools.comparing.peers import OtherProgram

    path, shapes = args.compare, {name: a.shape for name, a in inputs.items()}
    if path.endswith(".onnx"):
        known = {i.name for i in read_model(path).graph.input}
        fixed = {name: s for name, s in shapes.items() if name in known}
        program = load(path, fixed, parse_dims(options.dim), options.plugins)
    else:
        program = load(path, plugins=options.plugins)
        if is_open(program.module) and program.bind is not None:
            program = program.bind({}, shapes)
    if args.random_weights:
        program.payload = Fallback(program.payload, RandomPayload(program.module, args.seed))

    def session_of(payload: Payload) -> Session:
        session = Session(program.module, payload, seed=args.seed)
        if args.load_state and session.state.names:
            session.state.load(args.load_state)
        return session

    title = f"{path} ({'ge, ' if path.endswith('.onnx') else ''}{level_of(program.module)} level)"
    return OtherProgram(program, title, session_of)


def compute(
    args: argparse.Namespace,
    loaded: "Program",
    options: "Options",
    inputs: Mapping[str, Array] | None,
) -> tuple[dict[str, Array], Session, dict[str, Any], "Result | None"]:
    """Run the module on the inputs, or on random ones: the outputs, the session with the state that
    the run leaves, the `numerics` part of the report, and what came of comparing."""
    session = session_of(args, loaded, options)
    if inputs is None:
        inputs = inputs_for(args, options, session)
    names = session.state.names if args.compare else ()
    states = {name: session.state[name].copy() for name in names}
    versus = compared_with(args, loaded, options, {**states, **inputs})
    if args.fuzz_schedule:  # from the state that the run begins with
        session.fuzz_schedule(inputs, args.fuzz_schedule, args.seed)
    first: tuple[Mapping[str, Array], Watch | None] = ({}, None)
    runs = iter(()) if versus is None else versus.runs({**states, **inputs})
    want, watch = next(runs, first)
    start = time.perf_counter()
    outputs = session.run(inputs, watch=watch)
    seconds = time.perf_counter() - start
    for _, again in runs:  # other nodes than before
        session_of(args, loaded, options).run(inputs, watch=again)
    figures = {name: statistics(array) for name, array in outputs.items()}
    numerics = {"seconds": seconds, "outputs": figures}
    numerics |= checked(args, session)
    return outputs, session, numerics, versus and versus.result(want, outputs)


def session_of(args: argparse.Namespace, loaded: "Program", options: "Options") -> Session:
    """A session as it is asked for, with the state that a run begins with."""
    sanitize = flag_value(args, "sanitize")  # None: as the environment says
    session = Session(
        loaded.module, loaded.payload, machine_of(args, loaded.module, options), args.poison,
        sanitize, tiles=args.tiles or "", seed=args.seed,
    )  # fmt: skip
    require_devices(session.mesh, options.peer_timeout)
    for flag, path in (("--load-state", args.load_state), ("--save-state", args.save_state)):
        if path and not session.state.names:
            raise GeError(f"{flag}: the program keeps no state", hint="compile it with --state")
    if args.load_state:
        session.state.load(args.load_state)
    return session


def checked(args: argparse.Namespace, session: Session) -> dict[str, Any]:
    """Tell of the checks that a run has passed; what the `numerics` part of the report has of
    them."""
    numerics: dict[str, Any] = {}
    if args.tiles:
        coverage = Coverage.of(session.module, session.target)
        numerics["tiles"] = {"run": args.tiles, **coverage.report()}
        print_result(coverage)
    if args.fuzz_schedule:
        numerics["random_timings"] = args.fuzz_schedule
        print_result(f"{args.fuzz_schedule} random timings: the same bits")
    if session.proved:
        for note in useless_events(session.module):
            print(f"note: {note}", file=sys.stderr)
    return numerics
