"""Other ways to compile a model: which there are, and what each of them makes of time and memory.

A variant is a change of options, as `ge-compile` has them; nothing is estimated: each is compiled
from the model, and timed as the program itself was.
"""

import dataclasses
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.quantization import QuantizeOp
from ge.dialects.graph.state import likely_states
from ge.dialects.support.diagnostics import Diagnostic, Severity, warning_handler
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.targets.target import Target
from ge.dialects.text.values import fixed_sizes, parse_dims
from ge.lowering.driver.changes import BATCH, FIXED, FLOATS, INTEGERS, SAME, STATE
from ge.lowering.driver.compiler import decisions, lower_program
from ge.lowering.driver.program import Program, accuracy_text
from ge.lowering.pipeline.options import Options, flags_of
from ge.runtime.device.ports import input_ports, output_ports, typed
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
        """What `ge-compile` is told."""
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
    """A variant that there is not, and why."""

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
        """For as many samples as the model has as it is."""
        return self.timed.us / self.variant.samples


# ---- which there are -------------------------------------------------------------------------


def variants_of(
    names: Sequence[str], model: Program, options: Options
) -> Iterator[Variant | Refused]:
    """Of the variants named those that change something for a model at the graph level. `options`
    are those that it is compiled with."""
    for name in names:
        if name in FIXED:
            change, numbers = FIXED[name]
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
    """Why a change would change nothing, or may not be made; empty where neither is known."""
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
    """Whether products are in f32 or, where there are none, anything is."""
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
    """More samples at a time, where the first dimension of inputs and outputs has a name."""
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


def batch_of(module: ModuleOp) -> str:
    """The symbolic dimension that counts samples: the first one of all inputs whose dimensions have
    names, and no other one; empty where there is none."""
    main = main_function(module)
    if main is None:
        return ""
    inputs, outputs = input_ports(main), output_ports(main)
    first = {p.dims[0] for p in inputs if any(p.dims)}
    name = first.pop() if len(first) == 1 else ""
    return "" if any(name in p.dims[1:] for p in (*inputs, *outputs)) else name


def combined(tried: Sequence[TriedVariant], us: float) -> Variant | None:
    """All changes together that make a run of `us` microseconds faster, the better one where two
    are of one option; None where there are fewer than two."""
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
    """Compile and time a variant of a model, which `read` reads anew, or say what is against it."""
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
