"""Processes and threads: locks and threads after a `fork`, and work that a process does once,
whichever thread comes first.

A forked child has the one thread that forked, and locks in the state that they were in: those that
another thread of the parent held stay locked in the child for ever, and threads that waited for
work are not there. So objects with locks or threads make them anew in each child; and work that
must not be half done there is held while a process forks.

Python has two kinds of locks of its own which it does not make anew. That of a module is held while
another thread imports the module: no process forks then, where the module is ge's or one that ge
imports. (Other modules are left alone: one may be a program that runs while it is imported.) Those
of `cached_property`, up to Python 3.11, are made anew.
"""

import importlib
import os
import sys
from _imp import acquire_lock as stop_imports
from _imp import release_lock as let_imports
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from threading import RLock, active_count, get_ident
from time import sleep
from typing import Any, Protocol
from weakref import WeakSet

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
