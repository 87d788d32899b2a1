"""Work that other processes take a part of, on a machine that has processors for them.

A command line tool of ge's own forks itself: its helpers know all that it knows, do pieces of the
work that nobody has begun, and end. What they leave is in files; a piece of which there is none is
for the tool to do. So helpers change how long something takes, and nothing else.

Whoever has imported ge has no helpers: it is not ours to fork.
"""

import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import active_count
from typing import NoReturn

from ge.dialects.support.context import setting

Work = Callable[[str], None]
"""Does the piece of a name, and leaves the result in a file."""


class Helpers:
    """The processes that help a tool with pieces of work, each of which has a name."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}  # of pieces
        self.taken: bytearray | memoryview = bytearray()  # by number: whether somebody has begun
        self.children: list[int] = []

    @property
    def most(self) -> int:
        """How many there may be: one for each further processor. None where a thread might hold a
        lock that a helper waits for, and where forks are not safe."""
        if sys.platform != "linux" or active_count() > 1:
            return 0
        return len(os.sched_getaffinity(0)) - 1

    def begin(self, names: Sequence[str], work: Work, count: int) -> None:
        """Have up to `count` helpers work on these pieces, if none works on others."""
        if self.children or count < 1:
            return
        from mmap import mmap

        self.numbers = {name: number for number, name in enumerate(names)}
        self.taken = memoryview(mmap(-1, len(names)))  # shared with the helpers
        tool = os.getpid()
        with suppress(OSError):  # no more processes are to be had
            for _ in range(count):
                if not (child := os.fork()):
                    self._help(work, tool)
                self.children.append(child)

    def take(self, name: str) -> bool:
        """Whether nobody has begun a piece. Whoever asks begins it now, but for a moment in which
        two may."""
        if (number := self.numbers.get(name)) is None:
            return True
        if self.taken[number]:
            return False
        self.taken[number] = 1
        return True

    def finish(self) -> None:
        """Wait until the helpers have ended: all is done that they did not fail at."""
        for child in self.children:
            with suppress(ChildProcessError):
                os.waitpid(child, 0)
        self.children.clear()
        self.numbers.clear()

    def stop(self) -> None:
        """Wait for no more than what they have begun."""
        self.taken[:] = b"\1" * len(self.taken)
        self.finish()

    def _help(self, work: Work, tool: int) -> NoReturn:
        """Work as a helper, say nothing, and end without what a tool does at its end."""
        from ge.dialects.support.diagnostics import warning_handler

        try:
            with warning_handler(lambda diagnostic: None):
                for name in self.numbers:
                    if os.getppid() == tool and self.take(name):
                        work(name)
        finally:
            os._exit(0)


_helpers: ContextVar[Helpers | None] = ContextVar("helpers", default=None)


def helpers() -> Helpers | None:
    """Those of the tool that runs; None where the process is somebody else's."""
    return _helpers.get()


@contextmanager
def with_helpers() -> Generator[Helpers]:
    """Within the context there may be helpers. None is left behind it."""
    with setting(_helpers, Helpers()) as found:
        try:
            yield found
        finally:
            found.stop()
