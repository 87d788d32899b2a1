"""A progress bar for work that takes over a second, on a terminal; nothing when piped."""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from ge.lowering.pipeline.instrumentation import Progress

PATIENCE = 1.0  # seconds of silence before a bar appears


@contextmanager
def progress_bar() -> Generator["Progress | None"]:
    """A function to report progress with; None where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    start = time.monotonic()
    bar: Bar | None = None
    task: TaskID | None = None

    def report(name: str, done: int, total: int) -> None:
        nonlocal bar, task
        if bar is None:
            if time.monotonic() - start < PATIENCE:
                return
            from rich.console import Console
            from rich.progress import Progress as Bar

            bar = Bar(console=Console(stderr=True), transient=True)
            bar.start()
            task = bar.add_task(name, total=total)
        if task is not None:
            bar.update(task, completed=done, total=total, description=name)

    try:
        yield report
    finally:
        if bar is not None:
            bar.stop()
