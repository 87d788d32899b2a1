"""Other ways to compile a model, and what each of them makes of time and memory: nothing is
estimated.

A variant (`ge-run --explain`) is a change of options, as `ge-compile` has them: each is compiled
from the model, and timed as the program itself was. So are fusion and memory levels for
`ge-bench`.

The cuts of kernels are tried on the emulated cores: those that estimates call the fastest are
written as programs, and the one whose simulation takes the least time is kept
(`lowering/steps/kept_programs.py`). Numbers are neither computed nor proved here."""

import dataclasses
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.quantization import QuantizeOp
from ge.dialects.graph.stated import likely_states
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.diagnostics import Diagnostic, Severity, warning_handler
from ge.dialects.support.element_types import is_integer
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import all_ops
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.targets.target import Target, target_for
from ge.dialects.text.values import fixed_sizes, parse_dims, parse_shapes
from ge.lowering.driver.compiler import decisions, load, lower_program
from ge.lowering.driver.program import Program, accuracy_text
from ge.lowering.levels.level import Level, level_of
from ge.lowering.pipeline.option_values import BATCH, FIXED_VARIANTS, FLOATS, INTEGERS, SAME, STATE
from ge.lowering.pipeline.options import MEMORY_LEVELS, Options, flags_of
from ge.lowering.steps.kept_programs import TunedKernel, kernel_hash
from ge.lowering.steps.written import finish_alone, tile_program
from ge.runtime.clock.clock import simulate
from ge.runtime.clock.timeline import COMPUTE
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.device.ports import Port, batch_of, input_ports, output_ports, typed
from ge.runtime.library.costs.structure import data_of, unseen
from ge.runtime.library.launch import Choice, NotLowered, choosing
from ge.transforms.precision.modes import ORIGIN

BATCHES = (2, 4, 8)  # times the batch

WORTH = 0.99  # of the time: changes that bring less are not combined


@dataclass(frozen=True, slots=True)
class Variant:
    """Options that differ. `samples`: how many times as many samples a run computes."""

    name: str
    change: Mapping[str, Any]
    numbers: str
    samples: int = 1

    @property
    def label(self) -> str:
        return self.flags or self.name

    @property
    def flags(self) -> str:
        """Return the flags of `ge-compile` for this variant."""
        fields = {f.name: f for f in dataclasses.fields(Options)}
        words: list[str] = []
        for name, value in self.change.items():
            flag = flags_of(fields[name])[0]
            if value is True:
                words.append(flag)
            elif isinstance(value, tuple):
                texts = cast("tuple[str, ...]", value)
                words += [f"{flag} {shlex.quote(text)}" for text in texts]
            else:
                words.append(f"{flag} {shlex.quote(str(value))}")
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Refused:
    """A variant that is not made, and the reason."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Timed:
    """Latency in microseconds, bytes that the device holds, and microseconds by place of the
    model."""

    us: float
    machine: str  # which, and where the time comes from
    bytes: int
    places: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class TriedVariant:
    """A variant that was compiled and timed, in so many seconds, with what it was warned about."""

    variant: Variant
    timed: Timed
    seconds: float
    warnings: tuple[str, ...] = ()
    accuracy: str = ""  # what quantizing leaves on the samples, where there are some

    @property
    def us(self) -> float:
        """Return the time for as many samples as the model itself has."""
        return self.timed.us / self.variant.samples


# ---- which there are -------------------------------------------------------------------------


def variants_of(
    names: Sequence[str], model: Program, options: Options
) -> Iterator[Variant | Refused]:
    """Yield of the variants named those that change something for a model at the graph level.
    `options` are those that it is compiled with."""
    for name in names:
        if name in FIXED_VARIANTS:
            change, numbers = FIXED_VARIANTS[name]
            why = reason_against(change, model.module, options)
            yield Refused(name, why) if why else Variant(name, change, numbers)
        elif name == STATE:
            yield state_variant(model.module, options)
        elif name == BATCH:
            yield from batch_variants(model, options)
        else:
            others = (t for t in Target.presets() if t != options.target)
            yield from (Variant(f"target {t}", {"target": t}, SAME) for t in others)


def reason_against(change: Mapping[str, Any], module: ModuleOp, options: Options) -> str:
    """Return why a change would change nothing, or may not be made; empty if neither is known."""
    for name, value in change.items():
        own = getattr(options, name)
        if own == value:
            return "it is so already"
        if name == "precision" and own != ORIGIN:
            return f"the precision is {own} already"
        if name == "precision" and not is_in_f32(module):
            return "the model is not in f32"
        if name == "quantize" and own:
            return f"it is quantized already ({own})"
        if name == "quantize" and any(isinstance(op, QuantizeOp) for op in module.walk()):
            return "the model is quantized already"
    return ""


def is_in_f32(module: ModuleOp) -> bool:
    """Return whether products are in f32 or, if there are none, anything is."""
    main = main_function(module)
    ops = [] if main is None else [op for op in main.walk() if isinstance(op, TensorOp)]
    products = [op for op in ops if op.ALWAYS_MACS]
    values = (v for op in products or ops for v in (*op.operands, *op.results))
    return any(getattr(v.type, "element_type", None) == f32 for v in values)


def state_variant(module: ModuleOp, options: Options) -> Variant | Refused:
    main = main_function(module)
    if options.state:
        return Refused(STATE, "it keeps state already")
    found = (
        {} if main is None else likely_states(typed(input_ports(main)), typed(output_ports(main)))
    )
    if not found:
        return Refused(STATE, "no input looks like what a run hands to the next")
    return Variant(STATE, {"state": tuple(found)}, SAME)


def batch_variants(model: Program, options: Options) -> Iterator[Variant | Refused]:
    """Yield variants with more samples at a time, if the first dimension of inputs and outputs has
    a name."""
    given = parse_dims(options.dim)
    fixed = fixed_sizes({n: size for n, size in given.items() if isinstance(size, int)})
    name = None if not fixed or model.reload is None else batch_of(model.reload(dims={}).module)
    if name not in fixed:
        yield Refused(BATCH, "the model has no symbolic first dimension that --dim gives a size")
        return
    others = tuple(f"{n}={size}" for n, size in given.items() if n != name)
    for times in BATCHES:
        dims = (*others, f"{name}={times * fixed[name]}")
        yield Variant(f"batch {times * fixed[name]}", {"dim": dims}, SAME, times)


def combined(tried: Sequence[TriedVariant], us: float) -> Variant | None:
    """Return a variant of all changes together that make a run of `us` microseconds faster, the
    better one of two of one option; None if there are fewer than two."""
    better = [t for t in tried if t.us < WORTH * us and t.variant.samples == 1]
    better = [t for t in better if "target" not in t.variant.change]
    change: dict[str, Any] = {}
    parts: list[Variant] = []
    for t in sorted(better, key=lambda t: t.us):
        if not t.variant.change.keys() & change.keys():
            change |= t.variant.change
            parts.append(t.variant)
    if len(parts) < 2:
        return None
    kinds = {v.numbers for v in parts}
    numbers = next(kind for kind in (INTEGERS, FLOATS, SAME) if kind in kinds)
    return Variant("all that help", change, numbers)


# ---- trying them -----------------------------------------------------------------------------


def attempt(
    variant: Variant,
    options: Options,
    read: Callable[[Variant], Program],
    timed: Callable[[Program, Options], Timed],
) -> TriedVariant | Refused:
    """Compile and time a variant of a model, which `read` reads anew, or say why it is not made."""
    start, warnings = time.perf_counter(), dict[str, None]()

    def listen(diagnostic: Diagnostic) -> None:
        if diagnostic.severity is Severity.WARNING:
            warnings[diagnostic.message] = None

    changed = replace(options, **variant.change)
    try:
        with warning_handler(listen):
            program = read(variant)
            with decisions(program, changed):
                lower_program(program, changed)
            found = timed(program, changed)
    except (GeError, VerifyException) as error:
        text = str(error) if not isinstance(error, GeError) else error.message
        hint = f"; {error.hint}" if isinstance(error, GeError) and error.hint else ""
        return Refused(variant.name, f"{text}{hint}".replace("\n", " "))
    left = accuracy_text(program.compilation.quantization)
    return TriedVariant(variant, found, time.perf_counter() - start, tuple(warnings), left)


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
        return 1e6 * self.count / self.default.latency_us

    @property
    def ratio(self) -> float:
        """Return the share of the time that fusion leaves."""
        return self.default.latency_us / self.off.latency_us

    @property
    def kept(self) -> float:
        """Return the share that reuse leaves of the bytes of activations with a place for each."""
        return self.default.arena / (self.levels[0].arena or 1)


def measured(path: str, options: Options) -> Bench:
    """Compile a model in several ways, and simulate each. Raises GeError for a file that is no
    model, and if sizes are not known."""
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
    """Return how many units a run computes, and of what: tokens where the first input has integers
    in rows, images where one goes in or comes out, else samples."""
    inputs, outputs = input_ports(main), output_ports(main)
    if inputs and is_integer(inputs[0].element) and len(inputs[0].shape) == 2:
        return max(inputs[0].shape[0] * inputs[0].shape[1], 1), "tokens"
    images = [p for p in (*inputs, *outputs) if is_image(p)]
    first = images[:1] or [p for p in inputs if p.shape][:1]
    return max(first[0].shape[0], 1) if first else 1, "images" if images else "samples"


def is_image(port: Port) -> bool:
    """Return whether a port looks like images: channels of colours, or one, before two
    dimensions."""
    return len(port.shape) == 4 and port.shape[1] in IMAGE_CHANNELS and min(port.shape[2:]) > 1


LIMIT = 16  # cuts of a kernel that are tried


@dataclass(frozen=True)
class KernelTuning:
    """Result of tuning a kernel: how many cuts were tried, and the fastest."""

    tried: int
    best: TunedKernel

    @property
    def is_faster(self) -> bool:
        """Than the one that is chosen by estimate."""
        return self.best.us < self.best.own_us

    @property
    def summary(self) -> str:
        e = self.best
        text = f"@{e.name}: {e.own_us:,.2f} us"
        text += f", {e.us:,.2f} us with {e.cut}" if self.is_faster else ", nothing is faster"
        return f"{text} ({self.tried:,} cuts tried)"


@dataclass(frozen=True)
class Timer:
    """Times of a kernel's programs."""

    kernel: KernelOp
    target: Target
    around: Operation  # what says for which target the program is

    def us(self, choice: Choice) -> float:
        """Return the time of one launch, with its operands in HBM. Raises NotLowered if there is no
        program."""
        with choosing(choice):
            program = tile_program(self.kernel, "program", self.target)
        finish_alone(program, "", self.around.attributes)
        return TileKernel(program, self.target).time().total_us


def tune_program(module: ModuleOp, limit: int = LIMIT) -> Iterator[KernelTuning]:
    """Try up to `limit` cuts of each kernel that has a tile program, equal kernels once. The target
    is that of the program. Raises GeError where it cannot be read."""
    around = main_function(module) or module
    target, known = target_for(around), set[str]()
    for kernel in [op for op in module.ops if isinstance(op, KernelOp)]:
        with unseen(data_of(all_ops(kernel.body.blocks))):
            key = kernel_hash(kernel, target)
            if key not in known:
                known.add(key)
                try:
                    yield tuned(Timer(kernel, target, around), key, limit)
                except NotLowered:
                    continue


def tuned(timer: Timer, key: str, limit: int) -> KernelTuning:
    """Return the tuning of a kernel. Raises NotLowered if it has no program."""
    own = Choice(most=limit)
    own_us = timer.us(own)
    best, cut = own_us, ""
    for text in own.seen:
        try:
            us = timer.us(Choice(text))
        except NotLowered:  # it does not fit
            continue
        if us < best:
            best, cut = us, text
    name = timer.kernel.sym_name.data
    entry = TunedKernel(name, key, timer.target.name, cut, best, own_us)
    return KernelTuning(len(own.seen), entry)
