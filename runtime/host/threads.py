"""Stages that work on items one after the other, each on a thread of its own."""

from collections.abc import Callable, Sequence
from contextvars import copy_context
from queue import Queue
from threading import Event, Thread
from typing import TypeVar

T = TypeVar("T")

Stage = Callable[[int, T], None]


def run_stages(stages: Sequence[Stage[T]], items: Sequence[T], ahead: int) -> None:
    """Have each stage work on all items in order, as soon as the stage before is done with it, and
    the first stage at most so many items ahead of the last one. The first error comes out: no stage
    goes beyond the item at which it happened."""
    if len(stages) == 1:
        for number, item in enumerate(items):
            stages[0](number, item)
        return
    ready = [Queue[bool]() for _ in stages]
    errors: list[BaseException] = []
    stop = Event()

    def work(place: int) -> None:
        for number, item in enumerate(items):
            if not ready[place].get() or stop.is_set():
                return
            try:
                stages[place](number, item)
            except BaseException as e:
                errors.append(e)
                stop.set()
                for queue in ready:
                    queue.put(False)  # wakes who waits
                return
            ready[(place + 1) % len(stages)].put(True)

    for _ in range(ahead):
        ready[0].put(True)
    threads = [  # each with the caller's context, which has what numpy makes of infinities
        Thread(target=copy_context().run, args=(work, place), daemon=True)
        for place in range(len(stages))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
