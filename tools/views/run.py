"""A run of a compiled program, for its page."""

from collections.abc import Mapping

from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import target_for
from ge.lowering.driver.program import Program
from ge.lowering.levels.level import Level, level_of
from ge.lowering.pipeline.options import Options
from ge.runtime.clock.clock import simulate
from ge.runtime.device.gears import GearTable
from ge.runtime.device.session import main_of
from ge.tools.views.make import Seen
from ge.tools.views.watch import Watcher


def simulated(
    program: Program, options: Options, watcher: Watcher,
    shapes: Mapping[str, tuple[int, ...]], dims: Mapping[str, int],
) -> Seen:  # fmt: skip
    """What there is to show of a program: one with gears runs at these sizes. Without a time, why
    there is none."""
    module = program.module
    seen = Seen(program.path, watcher, module, report=program.report(), target=options.target)
    if (level := level_of(module)) is not Level.PROGRAM:
        seen.untimed = f"the module is at the {level} level, and time is known of programs"
        return seen
    target = target_for(main_of(module))
    seen.target = target.name
    try:
        gears = GearTable.of(main_of(module))
        taken = None
        if gears is not None:  # other sizes were fixed when the model was read
            taken = gears.chosen(shapes, {n: size for n, size in dims.items() if n in gears.names})
        seen.timeline = simulate(module, target, taken)
    except GeError as error:
        seen.untimed = f"{error.message}; {error.hint}" if error.hint else error.message
    return seen
