"""Locks and threads after `fork`: a child has the one thread that forked, and locks as they were.

What another thread of the parent held stays locked in the child for ever, and threads that waited
for work are not there. So whatever has locks or threads makes them anew in each child; and what
must not be half done there is held while a process forks.
"""

import os
from collections.abc import Callable
from typing import Protocol
from weakref import WeakSet


class Renewed(Protocol):
    def after_fork(self) -> None:
        """Make locks and threads anew, in the child."""
        ...


_renewed: WeakSet[Renewed] = WeakSet()


def renew_in_children(owner: Renewed) -> None:
    """Have `after_fork` of an object called in each child, as long as the object lives."""
    _renewed.add(owner)


def _renew() -> None:
    for owner in list(_renewed):
        owner.after_fork()


def done_before_forks(acquire: Callable[[], object], release: Callable[[], object]) -> None:
    """Have a lock held while the process forks, for as long as the process lives."""
    os.register_at_fork(before=acquire, after_in_parent=release, after_in_child=release)


os.register_at_fork(after_in_child=_renew)
