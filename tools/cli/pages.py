"""Pages of ge-run and ge-compile: `--html`."""

import argparse
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ge.runtime.data.files import Outputs
from ge.tools.cli.flags import fixed_of

if TYPE_CHECKING:
    from ge.lowering.driver.program import Program
    from ge.lowering.pipeline.options import Options
    from ge.runtime.clock.timeline import Timeline
    from ge.tools.views.make import Watcher


def told(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


@contextmanager
def watched(args: argparse.Namespace, inputs: Sequence[str]) -> "Generator[list[Watcher]]":
    """Watch the compilation, if a page is asked for."""
    if not args.html:
        yield []
        return
    from ge.tools.views.make import watching

    with watching(args.input, args.html, inputs, told) as watcher:
        yield [watcher]


def write_compiled(
    path: str, program: "Program", options: "Options", watcher: "Watcher",
    inputs: Iterable[Path | str],
) -> None:  # fmt: skip
    """The page of a program that was compiled, and of its run where time is known."""
    from ge.tools.views.make import simulated, write_page

    with Outputs(inputs) as out:
        write_page(out, path, simulated(program, options, watcher, *fixed_of(options)))


def write_run(
    out: Outputs, path: str, program: "Program", timeline: "Timeline | None",
    watcher: "Watcher", **known: Any,
) -> None:  # fmt: skip
    """The page of a run that was simulated; `known` are other fields of `Seen`."""
    from ge.tools.views.make import Seen, write_page

    untimed = "" if timeline is not None else "this run was not simulated: add --timing-only"
    write_page(out, path, Seen(program.path, watcher, program.module, timeline, untimed, **known))
