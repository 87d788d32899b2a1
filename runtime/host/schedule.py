"""Ways for a host to feed a program to the device: its modes, the sizes of its caches and rings
(the defaults are ATB's), its threads, and their work in a call, as data: the clock times it,
`runtime/check` proves it."""

from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from enum import StrEnum
from queue import Queue
from threading import Event, Thread
from typing import Any, TypeVar

from ge.dialects.support.errors import GeError


class HostWork(StrEnum):
    """Work of a host thread, and so the cause for which the device waits when it is idle."""

    SETUP = "setup"
    TILING = "tiling"
    ARGUMENTS = "arguments"
    LAUNCH = "launch"
    COPY = "copy"
    SYNCHRONISATION = "synchronisation"


Block = tuple[str, int]  # of a ring of buffers: its name, and the number of the block

EARLIER = -1


@dataclass(slots=True, eq=False)
class HostTask:
    """Work of a thread without a break. It comes after the one before on its thread."""

    thread: int
    kind: HostWork
    us: float
    name: str
    unit: int
    after: "list[HostTask]" = field(default_factory=list["HostTask"])  # of other threads
    until: tuple[int, ...] = ()  # tasks of the device that must be done before
    issues: tuple[int, ...] = ()  # tasks that the device may start when this is done
    writes: Block | None = None
    # With the unit that has written it in this call; `EARLIER`: it is there from a call before
    reads: tuple[tuple[Block, int], ...] = ()


@dataclass(slots=True)
class TilingCopy:
    """A copy of tilings to the device, and the launches that need them."""

    number: int  # among the tasks of the device, after those of the program
    bytes: int
    block: Block
    launches: list[int]


@dataclass
class HostSchedule:
    """The tasks of all threads, each thread's in order, and the copies that the program does not
    have."""

    threads: tuple[str, ...]
    device_tasks: int
    tasks: list[list[HostTask]] = field(default_factory=list[list[HostTask]])
    copies: list[TilingCopy] = field(default_factory=list[TilingCopy])

    def __post_init__(self) -> None:
        self.tasks = [[] for _ in self.threads]

    def all(self) -> Iterable[HostTask]:
        return (task for tasks in self.tasks for task in tasks)


@dataclass(frozen=True, slots=True)
class Mode:
    """A way for a host to feed the device: on which threads, and what it keeps from call to
    call."""

    name: str
    what: str
    threads: tuple[str, ...]
    graphs: bool = True  # layers are set up as a whole, not launch by launch
    cached: bool = True  # setups and tilings are kept
    captured: bool = False  # launches are recorded, then replayed as one
    updates: bool = False  # captured tasks are written anew where shapes change


ALL = "all"
SUNK = "sunk"

MODES = {
    mode.name: mode
    for mode in (
        Mode("eager", "op by op, each set up anew, as a framework does", ("host",), False, False),
        Mode("operations", "op by op, setups and tilings kept", ("host",), False),
        Mode("graph", "layer by layer: all setups, then all launches", ("host",)),
        Mode("two-stage", "one thread sets up, one executes", ("setup", "execute")),
        Mode(
            "three-stage", "filling arguments apart as well, into two buffers in turn",
            ("setup", "prelaunch", "launch"),
        ),
        Mode(
            "captured", "recorded once, replayed while shapes stay, else recorded again",
            ("host",), captured=True,
        ),
        Mode(
            "updated", "captured, and tasks whose shapes change are written anew",
            ("host",), captured=True, updates=True,
        ),
        Mode(SUNK, "the program's own tasks wait in the device's queues", ()),
    )
}  # fmt: skip


def modes(name: str) -> list[Mode]:
    """The mode of a name, or all. Raises GeError for an unknown name."""
    if name == ALL:
        return [*MODES.values()]
    if name not in MODES:
        near = get_close_matches(str(name), (*MODES, ALL), 1)
        hint = f"did you mean '{near[0]}'?" if near else f"modes: {', '.join(MODES)}, {ALL}"
        raise GeError(f"there is no dispatch mode '{name}'", hint=hint)
    return [MODES[name]]


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
                    queue.put(False)  # wakes the waiting thread
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


MOST_SLOTS = 1024


@dataclass(frozen=True, slots=True)
class HostOptions:
    """Raises GeError for sizes that a host cannot have."""

    local_slots: int = 1
    global_slots: int = 5
    ring_blocks: int = 128
    sanitize: bool = False  # prove what the threads do (`runtime/check/host_queues.py`)

    def __post_init__(self) -> None:
        for name, least in (("local_slots", 0), ("global_slots", 0), ("ring_blocks", 1)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= MOST_SLOTS:
                text = f"{name.replace('_', ' ')}: {least} to {MOST_SLOTS}"
                raise GeError(f"{text}, not {value}")

    @classmethod
    def of(cls, given: dict[str, Any]) -> "HostOptions":
        """Raises GeError for an unknown one."""
        known = [f.name for f in fields(cls)]
        if unknown := [name for name in given if name not in known]:
            hint = f"options: {', '.join(known)}"
            raise GeError(f"a host has no option '{unknown[0]}'", hint=hint)
        return cls(**given)


DEFAULTS = HostOptions()
