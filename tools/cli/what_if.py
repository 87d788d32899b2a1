"""`ge-run --what-if`: targets that differ, for the program as it is, and compiled anew."""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ge.dialects.support.streams import print_result
from ge.tools.cli.command_line import ArgumentParser

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ge.dialects.targets.target import Target
    from ge.lowering.driver.program import Program
    from ge.lowering.pipeline.options import Options
    from ge.runtime.clock.timeline import Timeline

Measure = Callable[["Program", "Options"], "tuple[ModuleOp, Timeline]"]


def add_what_if_arguments(parser: ArgumentParser) -> None:
    """Add `--what-if`, and what belongs to it."""
    add = parser.section("time, at the program level")
    add("--what-if", action="append", default=[], metavar="NAME=2x,...",
        help="also the time on a target that differs: hbm_bandwidth, l2_bandwidth, cube, vector, "
        "host_link, launch, or a field of the target (a rate, a time); several at once with commas "
        "between them. The program is kept: its tilings and its schedule")  # fmt: skip
    add("--what-if-recompile", action="store_true", help="compile the model anew for such a "
        "target as well, which may then differ in sizes and numbers of cores too")  # fmt: skip


def check_changes(args: argparse.Namespace, target: "Target", module: "ModuleOp") -> None:
    """Raise GeError for a change of the target that cannot be made, before work is done for it."""
    from ge.dialects.support.errors import GeError
    from ge.lowering.levels.level import Level, level_of

    if args.what_if_recompile and not args.what_if:
        raise GeError("--what-if-recompile needs --what-if", hint="add --what-if cube=2x")
    if args.what_if_recompile and not args.model and level_of(module) is not Level.GRAPH:
        hint = "give --model MODEL, or the model in place of the program"
        raise GeError("--what-if-recompile compiles a model, and this is none", args.input, hint)
    if args.what_if:
        from ge.runtime.profile.what_if import changed

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
    from ge.dialects.targets.target import toml_text
    from ge.lowering.driver.changes import SAME
    from ge.lowering.driver.variants import Refused, Timed, Variant, attempt
    from ge.runtime.profile.what_if import changed
    from ge.tools.cli.explain import read_again

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
