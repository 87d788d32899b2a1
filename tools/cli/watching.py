"""What the flags of mlir-opt in `flags.py` ask for, as what watches passes; and what ge-compile and
ge-run tell of theirs so."""

import argparse
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.passes import ModulePass

from ge.dialects.support.operation import count_ops
from ge.lowering.levels.level import Level, level_of
from ge.lowering.pipeline.instrumentation import ALL, IRPrinting, Statistics, Timing
from ge.lowering.pipeline.pass_manager import Instrumentation
from ge.lowering.pipeline.pass_options import PassTable, pipeline_text, require_pass, top_level
from ge.lowering.pipeline.reproducer import Reproducer, Saving
from ge.lowering.plugins.extensions import universe
from ge.tools.cli.flags import asks, look_of

if TYPE_CHECKING:
    from ge.lowering.driver.compiler import Watch
    from ge.lowering.driver.program import Program
    from ge.lowering.pipeline.options import Options


@dataclass
class Watching:
    """What is told of passes that run, as flags ask for it."""

    args: argparse.Namespace
    in_parts: bool = False  # several managers run the passes one after another
    timing: Timing = field(default_factory=Timing)
    statistics: Statistics = field(default_factory=Statistics)

    def instrumentations(
        self, passes: Sequence[ModulePass], verify_each: bool = True
    ) -> list[Instrumentation]:
        args = self.args
        if args.dump_pass_pipeline:
            count = len(top_level(passes))
            print(f"Pass Manager with {count} passes:\n{pipeline_text(passes)}\n", file=sys.stderr)
        watching = self._printing()
        if args.mlir_timing:
            watching.append(self.timing)
        if args.mlir_pass_statistics:
            watching.append(self.statistics)
        if path := args.mlir_generate_reproducer:
            watching.append(Saving(Path(path), passes, verify_each))
        if path := args.mlir_pass_pipeline_crash_reproducer:
            local = args.mlir_pass_pipeline_local_reproducer or self.in_parts
            watching.append(Reproducer(Path(path), passes, verify_each, local))
        return watching

    def check(self, known: PassTable) -> None:
        """Raises GeError for the name of a pass that there is not."""
        for name in (*self.args.mlir_print_ir_before, *self.args.mlir_print_ir_after):
            require_pass(name, known)

    def _printing(self) -> list[Instrumentation]:
        args = self.args
        before, after = set(args.mlir_print_ir_before), set(args.mlir_print_ir_after)
        change = args.mlir_print_ir_after_change
        before |= ALL if args.mlir_print_ir_before_all else set()
        after |= ALL if args.mlir_print_ir_after_all or (change and not after) else set()
        if not (before or after or args.mlir_print_ir_after_failure):
            return []
        printing = IRPrinting(
            frozenset(before),
            frozenset(after),
            only_changes=change,
            after_failure=args.mlir_print_ir_after_failure,
            module_scope=args.mlir_print_ir_module_scope,
            folder=args.mlir_print_ir_tree_dir or "",
            look=look_of(args),
        )
        return [printing]

    def report(self) -> None:
        args = self.args
        if args.mlir_pass_statistics:
            print(self.statistics.report(args.mlir_pass_statistics_display), file=sys.stderr)
        if args.mlir_timing:
            display, form = args.mlir_timing_display, args.mlir_output_format
            print(self.timing.report(display, form), file=sys.stderr)


@contextmanager
def telling(
    args: argparse.Namespace,
    options: "Options",
    until: str = Level.PROGRAM,
    imports: bool = True,
) -> "Generator[Watch]":
    """Gives what makes instrumentations for a program, which is read meanwhile if it `imports`; in
    the end times and statistics are printed.
    Raises GeError for the name of a pass that there is not."""
    if not asks(args):
        yield lambda program: []
        return
    from ge.lowering.pipeline.stages import pipeline

    watching = Watching(args, in_parts=True)
    watching.check(universe(*options.plugins).all_passes)

    def watch(program: "Program") -> list[Instrumentation]:
        if imports:
            watching.timing.phase("Import", 1 + count_ops(program.module.body.blocks))
        levels = level_of(program.module).path_to(Level.named(until))
        return watching.instrumentations(pipeline(options, levels), options.verify)

    yield watch
    watching.timing.phase("Output")
    watching.report()
