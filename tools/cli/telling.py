"""What ge-compile and ge-run tell of the passes that they run, as flags ask for it."""

import argparse
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ge.lowering.levels.level import Level
from ge.tools.cli.watch_flags import asks

if TYPE_CHECKING:
    from ge.lowering.driver.compiler import Watch
    from ge.lowering.driver.program import Program
    from ge.lowering.pipeline.options import Options
    from ge.lowering.pipeline.pass_manager import Instrumentation


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
    from ge.dialects.support.operation import count_ops
    from ge.lowering.levels.level import level_of
    from ge.lowering.pipeline.stages import pipeline
    from ge.lowering.plugins.extensions import universe
    from ge.tools.cli.watching import Watching

    watching = Watching(args, in_parts=True)
    watching.check(universe(*options.plugins).all_passes)

    def watch(program: "Program") -> "list[Instrumentation]":
        if imports:
            watching.timing.phase("Import", 1 + count_ops(program.module.body.blocks))
        levels = level_of(program.module).path_to(Level.named(until))
        return watching.instrumentations(pipeline(options, levels), options.verify)

    yield watch
    watching.timing.phase("Output")
    watching.report()
