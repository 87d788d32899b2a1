"""How far long work is, shown on a terminal, and how long it may take.

`effort_at_hand()` is what the work tells, chunk by chunk: `tell` moves the bar; `check` raises
TimeIsUp when the seconds that it was given are over. What then stays undone is named in `undone`,
for one warning at the end."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from ge.dialects.support.context import at_hand, having

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

# Called with the name of what is done next, how much is done and how much there is (0: not known)
Progress = Callable[[str, int, int], None]

PATIENCE = 1.0  # seconds of silence before a bar appears


class TimeIsUp(Exception):
    """The time that work was given is over; what it decided so far holds."""


@dataclass
class Effort:
    seconds: float = inf
    report: Progress | None = None
    undone: list[str] = field(default_factory=list[str])
    start: float = field(default_factory=lambda: time.monotonic())
    is_needed: bool = False  # what nothing replaces: it goes on, but may take a shorter way

    def is_over(self, share: float = 1.0) -> bool:
        """Return whether a share of the time has passed."""
        return time.monotonic() - self.start >= self.seconds * share

    def check(self) -> None:
        """Raises TimeIsUp where it is."""
        if self.is_over() and not self.is_needed:
            raise TimeIsUp

    def tell(self, name: str, done: int, total: int) -> None:
        if self.report is not None:
            self.report(name, done, total)


def effort_at_hand() -> Effort:
    return at_hand(Effort) or Effort()


@contextmanager
def effort(seconds: float = 0) -> Generator[Effort]:
    """Give work so many seconds (0: any number), and a bar where somebody watches. Work inside of
    other work is a part of that."""
    if (outer := at_hand(Effort)) is not None:
        yield outer
        return
    with progress_bar() as report, having(Effort(seconds or inf, report)) as made:
        yield made


@contextmanager
def unlimited() -> Generator[None]:
    """Take the time that it takes for what nothing replaces."""
    with having(replace(effort_at_hand(), is_needed=True)):
        yield


@contextmanager
def progress_bar() -> Generator[Progress | None]:
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
            task = bar.add_task(name, total=total or None)
        if task is not None:
            bar.update(task, completed=done, total=total or None, description=name)

    try:
        yield report
    finally:
        if bar is not None:
            bar.stop()
