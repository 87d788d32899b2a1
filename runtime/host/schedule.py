"""What the threads of a host do in a call, as data: the clock times it, `runtime/check` proves
it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum


class HostWork(StrEnum):
    """What a host thread does, and what the device waits for when it is idle."""

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
    """What a thread does without a break. It comes after the one before on its thread."""

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
