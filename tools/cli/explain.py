"""`ge-run --explain`: what bounds a program, and which change would help: tried and measured.
`ge-run --what-if`: targets that differ, for the program as it is, and compiled anew."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ge.dialects.support.errors import GeError
from ge.dialects.support.streams import print_result
from ge.dialects.targets.target import Target, toml_text
from ge.dialects.text.values import parse_dims, parse_shapes
from ge.lowering.driver.compiler import load
from ge.lowering.driver.variants import (
    WORTH,
    Refused,
    Timed,
    TriedVariant,
    Variant,
    attempt,
    combined,
    variants_of,
)
from ge.lowering.levels.level import Level, level_of
from ge.lowering.pipeline.option_values import (
    DEFAULT_VARIANTS,
    FLOATS,
    INTEGERS,
    SAME,
)
from ge.runtime.check.certificate import OUTSIDE, taken_bytes
from ge.runtime.data.weights import Fallback, RandomPayload
from ge.runtime.device.ports import input_ports, output_ports
from ge.runtime.device.session import main_of
from ge.runtime.profile.limits import (
    COPIES,
    KernelLimits,
    kernel_table,
    kernels_of,
    made_of,
    made_of_line,
    times_by_place,
)
from ge.runtime.profile.what_if import changed

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ge.lowering.driver.program import Program
    from ge.lowering.pipeline.options import Options
    from ge.runtime.clock.timeline import Timeline


TARGET = "target"  # the kind of a variant for another target


FASTER = 0.95  # of the time of a kernel: a change that brings less is not named with it

MIB = 1 << 20


@dataclass
class Explanation:
    """A program, what it was compiled from, and what was found out."""

    kernels: Sequence[KernelLimits]
    timeline: "Timeline"
    base: Timed
    tried: list[TriedVariant] = field(default_factory=list[TriedVariant])
    refused: list[Refused] = field(default_factory=list[Refused])

    def try_all(
        self,
        variants: Sequence[Variant | Refused],
        attempt: Callable[[Variant], TriedVariant | Refused],
    ) -> None:
        """Try variants one by one, and then all that help together."""
        self.refused += [v for v in variants if isinstance(v, Refused)]
        queue = [v for v in variants if not isinstance(v, Refused)]
        for number, variant in enumerate(queue, 1):
            self.add(attempt(variant), f"[{number} of {len(queue)}] {variant.label}: ")
        if (together := combined(self.tried, self.base.us)) is not None:
            self.add(attempt(together), f"[all that help] {together.label}: ")

    def add(self, found: TriedVariant | Refused, head: str) -> None:
        """Keep what came of a variant, and tell of it."""
        if isinstance(found, Refused):
            self.refused.append(found)
            print(f"{head}{found.why}", file=sys.stderr)
            return
        self.tried.append(found)
        share = found.us / (self.base.us or 1.0)
        took = f"{found.us:,.1f} us on {found.timed.machine}"
        text = f"{took}, {share:.3f} of the time ({found.seconds:.1f} s)"
        print(f"{head}{text}", file=sys.stderr)

    @property
    def ranked(self) -> list[TriedVariant]:
        return sorted(self.tried, key=lambda t: (t.us, t.timed.bytes))

    @property
    def alone(self) -> list[TriedVariant]:
        """Those that change one thing."""
        return [t for t in self.ranked if len(t.variant.change) == 1]

    def helps(self) -> dict[str, str]:
        """Kernel -> the change of those tried alone that makes it fastest."""
        found: dict[str, str] = {}
        for kernel in self.kernels:
            times = [
                (us, t.variant.label)
                for t in self.alone
                if t.variant.samples == 1 and (us := us_of(kernel, t.timed)) is not None
            ]
            us, flags = min(times, default=(kernel.total_us, ""))
            if us < FASTER * kernel.total_us:
                share = us / kernel.total_us
                found[kernel.name] = f"fastest with {flags}: {us:,.1f} us, {share:.2f} of it"
        return found

    def text(self) -> str:
        us = self.timeline.latency_us
        lines = [made_of_line(self.timeline), "", kernel_table(self.kernels, us, self.helps()), ""]
        if self.tried:
            lines += [*self.table(), *self.verdict()]
        lines += [f"not tried: {r.name}: {r.why}" for r in self.refused]
        warned = {w: t.variant.name for t in self.tried for w in t.warnings}
        lines += [f"note: {name}: {warning}" for warning, name in warned.items()]
        return "\n".join(lines)

    def table(self) -> Iterator[str]:
        width = max(len(t.variant.label) for t in self.tried)
        width = max(width, len("as it is"))
        yield f"{'tried':{width}} {'us':>12} {'of it':>6} {'MiB':>10} {'of it':>6}  numbers"
        rows = [("as it is", self.base.us, self.base.bytes, f"on {self.base.machine}")]
        for t in self.tried:
            numbers = t.variant.numbers + (f", {t.accuracy}" if t.accuracy else "")
            numbers += f", on {t.timed.machine}" if t.timed.machine != self.base.machine else ""
            if t.variant.samples > 1:
                numbers += f", of {t.variant.samples} x the samples: {t.timed.us:,.1f} us"
            rows.append((t.variant.label, t.us, t.timed.bytes, numbers))
        for flags, us, size, numbers in sorted(rows, key=lambda row: row[1:3]):
            time, memory = us / (self.base.us or 1.0), size / (self.base.bytes or 1)
            figures = f"{us:12,.1f} {time:6.3f} {size / MIB:10,.2f} {memory:6.3f}"
            yield f"{flags:{width}} {figures}  {numbers}".rstrip()

    def verdict(self) -> Iterator[str]:
        """Yield what helps most, by what it does to the numbers; another target comes last."""
        words = {
            SAME: "with the same numbers",
            FLOATS: "with other floats",
            INTEGERS: "with integers",
            TARGET: "on another target",
        }

        def kind_of(tried: TriedVariant) -> str:
            return TARGET if "target" in tried.variant.change else tried.variant.numbers

        better = [t for t in self.alone if t.us < WORTH * self.base.us]
        if not better:
            yield "none of these makes it faster"
            return
        yield f"what helps most (as it is: on {self.base.machine}):"
        for kind in sorted(dict.fromkeys(map(kind_of, better)), key=lambda k: k == TARGET):
            best, told = next(t for t in better if kind_of(t) == kind), ""
            if kind == INTEGERS:
                unknown = "with --calibration X.npz the accuracy that is left is measured"
                told = f" ({best.accuracy or unknown})"
            yield f"  {words[kind]}{told}: {self.gain(best)}"

    def gain(self, tried: TriedVariant) -> str:
        share, times = tried.us / self.base.us, tried.variant.samples
        if times > 1:
            whole = f"a run of {times} x the samples takes {tried.timed.us:,.1f} us"
            return (
                f"{tried.variant.label}: {whole} in place of {self.base.us:,.1f}, {share:.3f} each"
            )
        return f"{tried.variant.label}: {self.base.us:,.1f} to {tried.us:,.1f} us, {share:.3f}"

    def report(self) -> dict[str, Any]:
        return {
            "made_of_us": made_of(self.timeline),
            "kernels": [k.report() for k in self.kernels],
            "bytes": self.base.bytes,
            "tried": [
                {
                    "name": t.variant.name,
                    "flags": t.variant.flags,
                    "latency_us": t.timed.us,
                    "us": t.us,
                    "machine": t.timed.machine,
                    "samples": t.variant.samples,
                    "bytes": t.timed.bytes,
                    "numbers": t.variant.numbers,
                    "seconds": t.seconds,
                    "warnings": list(t.warnings),
                    **({"accuracy": t.accuracy} if t.accuracy else {}),
                }
                for t in self.ranked
            ],
            "not_tried": {r.name: r.why for r in self.refused},
        }


def explain(
    args: argparse.Namespace,
    options: "Options",
    source: "Program",
    module: "ModuleOp",
    timeline: "Timeline",
    measure: "Callable[[Program, Options], tuple[ModuleOp, Timeline]]",
) -> Explanation:
    """Explain a program with that timeline, which `source` was lowered to; the explanation is
    printed. `measure` gives the program and the timeline of another one, at the sizes asked for.
    Raises GeError for the program of another model."""

    def timed(module: "ModuleOp", timeline: "Timeline") -> Timed:
        size, places = device_bytes(module), times_by_place(timeline)
        return Timed(timeline.latency_us, timeline.machine, size, places)

    kernels = slowest(kernels_of(timeline), args.explain)
    found = Explanation(kernels, timeline, timed(module, timeline))
    names = DEFAULT_VARIANTS if args.explain_variants is None else args.explain_variants
    model = model_of(args, options, source) if names else None
    if isinstance(model, Refused):
        found.refused.append(model)
    if model is None or isinstance(model, Refused):
        print_result(found.text())
        return found
    anew = [Variant("compiled anew", {}, SAME)] if args.model else []
    found.try_all(
        [*anew, *variants_of(names, model, options)],
        lambda variant: attempt(
            variant, options, lambda v: read_again(args, model, v),
            lambda program, changed: timed(*measure(program, changed)),
        ),
    )  # fmt: skip
    print_result(found.text())
    return found


def slowest(kernels: Sequence[KernelLimits], count: int) -> list[KernelLimits]:
    """The first kernels, and all copies over the link."""
    launched = [k for k in kernels if k.name not in COPIES.values()][:count]
    return [k for k in kernels if k in launched or k.name in COPIES.values()]


def model_of(
    args: argparse.Namespace, options: "Options", source: "Program"
) -> "Program | Refused":
    """The model at the graph level that variants are compiled from."""
    everything = "all changes"
    if source.reload is None:
        return Refused(everything, "standard input cannot be read twice")
    model = source.reload()
    if level_of(model.module) is Level.GRAPH:
        if args.model:
            raise GeError("--model goes with a program, and this is a model", args.input)
        return model
    if not args.model:
        why = "they are made to the model, which a program does not have: give --model MODEL"
        return Refused(everything, why)
    shapes, dims = parse_shapes(options.shape), parse_dims(options.dim)
    model = load(args.model, shapes, dims, options.plugins, options.rules)
    if level_of(model.module) is not Level.GRAPH:
        raise GeError("this is no model at the graph level", args.model)
    check_model(source.module, model.module, args.model)
    return model


def read_again(args: argparse.Namespace, model: "Program", variant: Variant) -> "Program":
    """The model as it was before it was lowered, with the sizes that a variant has."""
    assert model.reload is not None
    sizes = {"dims": parse_dims(variant.change["dim"])} if "dim" in variant.change else {}
    program = model.reload(**sizes)
    if args.random_weights:
        program.payload = Fallback(program.payload, RandomPayload(program.module, args.seed))
    return program


def device_bytes(module: "ModuleOp") -> int:
    """Add up what a program holds in the memory of the device: all segments, and workspaces."""
    return sum(n for name, n in taken_bytes(module, main_of(module)).items() if name != OUTSIDE)


def us_of(kernel: KernelLimits, timed: Timed) -> float | None:
    """Return the time of a kernel in a variant; None where its launches come from other places."""
    if not kernel.places or any(
        p not in timed.places and p not in COPIES.values() for p in kernel.places
    ):
        return None
    return sum(timed.places.get(p, 0.0) for p in kernel.places)


def check_model(program: "ModuleOp", model: "ModuleOp", path: str) -> None:
    """Raise GeError unless a program has the inputs and outputs of a model, but for state that it
    keeps."""
    for what, ports in (("input", input_ports), ("output", output_ports)):
        known = {p.name: p for p in ports(main_of(model))}
        for port in ports(main_of(program)):
            other = known.get(port.name)
            if other is None:
                if any(port.name.startswith(name) for name in known):
                    continue  # the scales of a quantized cache
                text = f"the program is of another model: it has an {what} '{port.name}'"
                raise GeError(text, path, f"this one has {', '.join(map(repr, known))}")
            pairs = zip(port.shape, other.shape, strict=False)
            if len(port.shape) != len(other.shape) or any(a != b >= 0 <= a for a, b in pairs):
                text = f"the program is of another model, or of other sizes: its {what} is {port}"
                raise GeError(text, path, f"here it is {other}")


Measure = Callable[["Program", "Options"], "tuple[ModuleOp, Timeline]"]


def check_changes(args: argparse.Namespace, target: Target, module: "ModuleOp") -> None:
    """Raise GeError for a change of the target that cannot be made, before work is done for it."""
    if args.what_if_recompile and not args.what_if:
        raise GeError("--what-if-recompile needs --what-if", hint="add --what-if cube=2x")
    if args.what_if_recompile and not args.model and level_of(module) is not Level.GRAPH:
        hint = "give --model MODEL, or the model in place of the program"
        raise GeError("--what-if-recompile compiles a model, and this is none", args.input, hint)
    if args.what_if:
        for change in args.what_if:
            changed(target, change, args.what_if_recompile)


def compiled_anew(
    args: argparse.Namespace,
    options: "Options",
    model: "Program",
    timeline: "Timeline",
    measure: Measure,
) -> list[dict[str, Any]]:
    """Print what a model takes that is compiled for each of the changed targets; what is printed,
    for the report."""

    def timed(other: "Timeline") -> Timed:
        return Timed(other.latency_us, timeline.target.timed(*other.estimated), 0)

    report: list[dict[str, Any]] = []
    for change in args.what_if:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "what_if.toml"
            file.write_text(toml_text(changed(timeline.target, change, anew=True)), "utf-8")
            variant = Variant(change, {"target": str(file)}, SAME)
            found = attempt(
                variant, options, lambda v: read_again(args, model, v),
                lambda program, other: timed(measure(program, other)[1]),
            )  # fmt: skip
        if isinstance(found, Refused):
            print_result(f"compiled for {change}: not possible: {found.why}")
            report.append({"change": change, "why": found.why})
            continue
        ratio = found.us / (timeline.latency_us or 1.0)
        machine = found.timed.machine
        took = f"{found.us:,.1f} us, {ratio:.3f} of the time, on {machine}"
        print_result(f"compiled for {change}: {took}")
        figures = {"latency_us": found.us, "ratio": ratio, "machine": machine}
        report.append({"change": change, **figures})
    return report
