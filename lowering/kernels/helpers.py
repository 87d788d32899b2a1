"""Work that other processes take a part of, on a machine that has processors for them.

A command line tool of ge's own forks itself: its helpers know all that it knows, do pieces of the
work that nobody has begun, and end. What they leave is in files; a piece of which there is none is
for the tool to do. So helpers change how long something takes, and nothing else.

Whoever has imported ge has no helpers: it is not ours to fork.
"""

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import active_count
from typing import NoReturn

from ge.dialects.support.context import setting

_own_process = ContextVar("own_process", default=False)


@contextmanager
def process_of(tool: bool) -> Generator[None]:
    """Within the context the process is, or is not, that of a tool of ge's own."""
    with setting(_own_process, tool):
        yield


def helpers() -> int:
    """How many other processes there may be: a processor for each. Where a thread might hold a
    lock that a helper waits for, and where forks are not safe, there is none."""
    if not _own_process.get() or sys.platform != "linux" or active_count() > 1:
        return 0
    return len(os.sched_getaffinity(0)) - 1


def share(count: int, work: Callable[[int], None], most: int) -> None:
    """Do `work` for each number below `count`, with the help of up to `most` processes. Each number
    is one's alone, but for a moment in which two may take it at once. When it returns, all is done
    that helpers did not fail at."""
    from mmap import mmap

    taken = mmap(-1, count)  # shared with the helpers

    def work_on() -> None:
        for i in range(count):
            if not taken[i]:
                taken[i] = 1
                work(i)

    children: list[int] = []
    with suppress(OSError):  # no more processes are to be had
        for _ in range(min(most, count - 1)):
            if not (child := os.fork()):
                help_with(work_on)
            children.append(child)
    try:
        work_on()
    finally:
        taken[:] = b"\1" * count  # if this process fails, helpers end, too
        for child in children:
            with suppress(ChildProcessError):
                os.waitpid(child, 0)


def help_with(work: Callable[[], None]) -> NoReturn:
    """Work as a helper, say nothing, and end without what a tool does at its end."""
    from ge.dialects.support.diagnostics import warning_handler

    try:
        with warning_handler(lambda diagnostic: None):
            work()
    finally:
        os._exit(0)
