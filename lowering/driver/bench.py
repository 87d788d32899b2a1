"""What fusion and memory levels make of a model: each way is compiled, and timed."""

from dataclasses import dataclass, field, replace

from xdsl.dialects.func import FuncOp

from ge.dialects.support.element_types import is_integer
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import Target
from ge.dialects.text.values import parse_dims, parse_shapes
from ge.lowering.driver.compiler import decisions, load, lower_program
from ge.lowering.driver.program import Program
from ge.lowering.levels.level import Level, level_of
from ge.lowering.pipeline.options import MEMORY_LEVELS, Options
from ge.runtime.clock.clock import simulate
from ge.runtime.clock.timeline import COMPUTE
from ge.runtime.device.ports import Port, input_ports, output_ports

IMAGE_CHANNELS = (1, 3)

SEGMENTS = ("peak_bytes", "weight_bytes", "io_bytes", "state_bytes", "workspace_bytes")


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one way to compile a model. Sizes are in bytes."""

    launches: int
    latency_us: float
    machine: str  # which, and where the time comes from
    busy: dict[str, float]  # part of the latency, of the engines that compute
    arena: int
    bound: int  # no plan for the order of its tasks takes less
    device: int  # all segments


@dataclass(frozen=True, slots=True)
class Bench:
    """Of a model: without fusion, and by the level of memory. `count` of `unit` (tokens, images,
    samples) are computed by a run."""

    model: str
    target: str
    count: int
    unit: str
    off: Figures
    default: Figures
    levels: dict[int, Figures] = field(default_factory=dict[int, Figures])

    @property
    def rate(self) -> float:
        """A second."""
        return 1e6 * self.count / self.default.latency_us

    @property
    def ratio(self) -> float:
        """Of the time, what fusion leaves."""
        return self.default.latency_us / self.off.latency_us

    @property
    def kept(self) -> float:
        """Of the bytes of activations with a place for each, what reuse leaves."""
        return self.default.arena / (self.levels[0].arena or 1)


def measured(path: str, options: Options) -> Bench:
    """Compile a model in several ways, and simulate each. Raises GeError for what is no model, and
    where sizes are not known."""
    program = read(path, options)
    main = main_function(program.module)
    if main is None:
        raise GeError("the module has no function @main", path)
    count, unit = unit_of(main)
    off = figures(program, replace(options, fusion="off"))
    default = figures(read(path, options), options)
    levels = {options.memory: default}
    for level in MEMORY_LEVELS:
        if level != options.memory:
            levels[level] = figures(read(path, options), replace(options, memory=level))
    ordered = dict(sorted(levels.items()))
    return Bench(program.name, options.target, count, unit, off, default, ordered)


def read(path: str, options: Options) -> Program:
    program = load(path, parse_shapes(options.shape), parse_dims(options.dim), options.plugins)
    if (level := level_of(program.module)) is not Level.GRAPH:
        hint = f"this is at the {level} level: give the model"
        raise GeError("fusion is compared at the graph level", path, hint)
    return program


def figures(program: Program, options: Options) -> Figures:
    with decisions(program, options):
        compilation = lower_program(program, options)
    timeline = simulate(program.module, Target.load(options.target))
    memory, latency = compilation.memory, timeline.latency_us
    return Figures(
        compilation.ops["launches"],
        latency,
        timeline.machine,
        {engine: timeline.busy_us[engine] / latency for engine in COMPUTE},
        memory["peak_bytes"],
        memory["lower_bound_bytes"],
        sum(memory.get(key, 0) for key in SEGMENTS),
    )


def unit_of(main: FuncOp) -> tuple[int, str]:
    """How many of what a run computes: tokens where the first input has integers in rows, images
    where one goes in or comes out, else samples."""
    inputs, outputs = input_ports(main), output_ports(main)
    if inputs and is_integer(inputs[0].element) and len(inputs[0].shape) == 2:
        return max(inputs[0].shape[0] * inputs[0].shape[1], 1), "tokens"
    images = [p for p in (*inputs, *outputs) if is_image(p)]
    first = images[:1] or [p for p in inputs if p.shape][:1]
    return max(first[0].shape[0], 1) if first else 1, "images" if images else "samples"


def is_image(port: Port) -> bool:
    """Whether a port looks like images: channels of colours, or one, before two dimensions."""
    return len(port.shape) == 4 and port.shape[1] in IMAGE_CHANNELS and min(port.shape[2:]) > 1
