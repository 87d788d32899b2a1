"""Processes and threads: locks and threads after a `fork`, work that a process does once,
whichever thread comes first, and work that other processes take a part of.

A forked child has the one thread that forked, and locks in the state that they were in: those that
another thread of the parent held stay locked in the child for ever, and threads that waited for
work are not there. So objects with locks or threads make them anew in each child; and work that
must not be half done there is held while a process forks.

Python has two kinds of locks of its own which it does not make anew. That of a module is held while
another thread imports the module: no process forks then, where the module is ge's or one that ge
imports. (Other modules are left alone: one may be a program that runs while it is imported.) Those
of `cached_property`, up to Python 3.11, are made anew.

A command line tool of ge's own forks itself where the machine has processors for it: its helpers
know all that it knows, do pieces of the work that nobody has begun, and end. Their results are in
files; a piece without a file is for the tool to do. So helpers change how long something
takes, and nothing else. A program that imports ge has no helpers: it is not ours to fork.
"""

import importlib
import os
import sys
from _imp import acquire_lock as stop_imports
from _imp import release_lock as let_imports
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from threading import RLock, active_count, get_ident
from time import sleep
from typing import Any, NoReturn, Protocol
from weakref import WeakSet

from ge.dialects.support.context import at_hand, having

# Packages that ge imports, at the latest where it uses them
PACKAGES = "ge ml_dtypes numpy onnx onnx_ir onnxscript pygments rich safetensors torch xdsl"

IMPORTED = {*PACKAGES.split(), *sys.stdlib_module_names}

# Module -> reference to its lock
_module_locks: Mapping[str, Any] = getattr(importlib, "_bootstrap")._module_locks


class Renewed(Protocol):
    def after_fork(self) -> None:
        """Make locks and threads anew, in the child."""
        ...


_renewed: WeakSet[Renewed] = WeakSet()

_locks: list[Any] = []

_held: list[Any] = []  # of these, while the process forks

_had_threads = False  # beside the one that forks


def renew_in_children(owner: Renewed) -> None:
    """Have `after_fork` of an object called in each child, as long as the object lives."""
    _renewed.add(owner)


def lock_held_while_forking() -> Any:
    """A new lock, which the thread that forks holds meanwhile, for as long as the process lives."""
    _locks.append(RLock())
    return _locks[-1]


def _imports_go_on() -> bool:
    """True if another thread is importing a module that ge needs."""
    locks = [
        reference()
        for name, reference in list(_module_locks.items())
        if name.partition(".")[0] in IMPORTED
    ]
    return any(lock is not None and lock.owner not in (None, get_ident()) for lock in locks)


def _hold() -> None:
    """Hold all locks, and let no import begin. Nobody is waited for with a lock in hand, for the
    thread that has the next one may want it."""
    global _had_threads
    while True:
        if all(lock.acquire(blocking=False) and not _held.append(lock) for lock in _locks):
            stop_imports()
            if not _imports_go_on():
                _had_threads = active_count() > 1
                return
            let_imports()
        _drop()
        sleep(0.001)


def _drop() -> None:
    while _held:
        _held.pop().release()


def _release() -> None:
    let_imports()
    _drop()


def _properties() -> Iterator[Any]:
    """The properties of ge's classes that are kept once computed."""
    for name, module in list(sys.modules.items()):
        if name.startswith("ge."):
            classes = (c for c in vars(module).values() if isinstance(c, type))
            members = (m for c in classes if c.__module__ == name for m in vars(c).values())
            yield from (m for m in members if isinstance(m, cached_property))


def _renew() -> None:
    _release()
    if sys.version_info < (3, 12) and _had_threads:
        for held in _properties():
            held.lock = RLock()
    for owner in list(_renewed):
        owner.after_fork()


os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_renew)


class Once:
    """A function that does something at the first call. Threads that call it meanwhile wait until
    it is done; its function may call it again, which does nothing. If it raises, the next call
    begins anew."""

    def __init__(self, action: Callable[[], object]) -> None:
        self.action, self.lock = action, lock_held_while_forking()
        self.is_done = self.is_running = False

    def __call__(self) -> None:
        if self.is_done:
            return
        with self.lock:
            if self.is_done or self.is_running:
                return
            self.is_running = True
            try:
                self.action()
                self.is_done = True
            finally:
                self.is_running = False


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
        """Most helpers there may be: one for each further processor, 0 where a thread might hold a
        lock that a helper waits for or where forks are not safe."""
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
        """Begin a piece. Returns true if nobody has begun it before, except for a moment in which
        two callers may both get true."""
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
        """Wait only for the pieces that they have begun."""
        self.taken[:] = b"\1" * len(self.taken)
        self.finish()

    def _help(self, work: Work, tool: int) -> NoReturn:
        """Work as a helper, print nothing, and end without the steps of a tool's end."""
        from ge.dialects.support.diagnostics import warning_handler

        try:
            with warning_handler(lambda diagnostic: None):
                for name in self.numbers:
                    if os.getppid() == tool and self.take(name):
                        work(name)
        finally:
            os._exit(0)


def helpers() -> Helpers | None:
    """The helpers of the tool that runs; None where the process is somebody else's."""
    return at_hand(Helpers)


@contextmanager
def with_helpers() -> Generator[Helpers]:
    """Within the context there may be helpers. None is left behind it."""
    with having(Helpers()) as found:
        try:
            yield found
        finally:
            found.stop()
