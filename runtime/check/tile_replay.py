"""One core of a tile program, replayed in one legal order with vector clocks.

Bytes of its memories are kept in grains: the largest stretches of which every access takes all or
nothing; device memory in cells. For each stand the numbers of the last write, read and sum by each
pipe, so that an access is ordered after them when its vector clock has reached those numbers.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from math import gcd
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue

from ge.dialects.tile.buffers import FifoOp
from ge.dialects.tile.compute import SetOp, WaitOp
from ge.dialects.tile.kernel import BarrierOp, KernelOp
from ge.dialects.tile.transfers import LoadOp, PopOp, PushOp, StoreOp
from ge.dialects.tile.types import Memory, Pipe
from ge.runtime.check.problems import Problems, placed
from ge.runtime.check.tile_device import (
    Bounds,
    BoxAccess,
    Device,
    DeviceGrid,
    Grains,
    accesses,
    name,
)
from ge.runtime.check.tile_program import Bytes, KernelFacts, ReadNumbers, Region, TileStep, Walk

Queue = tuple[int, Pipe]  # a pipe of the unit with this number
Clock: TypeAlias = NDArray[np.int64]

UNWRITTEN, LEFT = -1, -2  # LEFT: by an earlier load, of a tile that another one did not fill


@dataclass
class Core:
    """A cube core, a vector core, or one and those beside it, its units: the instructions of each
    pipe, in order."""

    number: int
    queues: dict[Queue, list[TileStep]]

    @classmethod
    def walk(
        cls, kernel: KernelOp, number: int, numbers: ReadNumbers, facts: KernelFacts
    ) -> "Core":
        queues: dict[Queue, list[TileStep]] = {}
        for i, (program, part) in enumerate(kernel.units):
            for step in Walk(kernel, program, number, numbers, part, facts).run():
                queues.setdefault((i, step.pipe), []).append(step)
        return cls(number, queues)

    def steps(self) -> Iterator[TileStep]:
        for queue in self.queues.values():
            yield from queue

    @cached_property
    def accesses(self) -> list[BoxAccess]:
        return [
            access
            for (unit, _), steps in self.queues.items()
            for access in accesses(self.number, unit, steps)
        ]

    @property
    def barriers(self) -> int:
        return max((step.phase for step in self.steps()), default=0)

    def grids(self, device: Device, ordered: set[SSAValue]) -> dict[SSAValue, DeviceGrid]:
        """The cells that this core's boxes make of memrefs whose accesses have to be ordered."""
        found: dict[SSAValue, list[Bounds]] = {home: [] for home in ordered}
        for access in self.accesses:
            if (home := device.home(access.region)) in ordered:
                found[home] += device.boxes(access.region)
        return {h: DeviceGrid.of(boxes, device.shapes[h]) for h, boxes in found.items()}

    def shape(self, device: Device, grids: Mapping[SSAValue, DeviceGrid]) -> object:
        """A key that is equal for cores that one replay is for."""
        steps = [(q, tuple(s.shape() for s in steps)) for q, steps in self.queues.items()]
        cells = [
            (home, *(grids[home].ends(box) for box in device.boxes(access.region)))
            for access in self.accesses
            if (home := device.home(access.region)) in grids
        ]
        return tuple(steps), tuple(cells)


# ---- the last accesses of each byte ----


class Did(Enum):
    """The effect of an access on its bytes."""

    READS = "reads"
    WRITES = "writes"
    ADDS = "adds to"


class History:
    """One memory: `size` grains or cells, `pipes` queues that touch it."""

    def __init__(self, size: int, pipes: int) -> None:
        # [pipe, grain]: the number of the last such access by each pipe
        self.last = {did: np.zeros((pipes, size), np.int64) for did in Did}
        self.owner = np.full(size, UNWRITTEN, np.int64)  # whose value the last write was
        self.loaded = np.zeros(size, np.bool_)  # whether that was a load

    def late(self, did: Did, at: Grains, clock: Clock) -> list[tuple[int, int]]:
        """The accesses (pipe, number) that one with this clock may come before."""
        numbers = self.last[did][:, at]
        if not numbers.shape[1]:
            return []
        last = numbers.max(axis=1)
        late = last > clock
        return [(int(p), int(last[p])) for p in np.flatnonzero(late)] if late.any() else []

    def note(self, did: Did, at: Grains, pipe: int, number: int) -> None:
        self.last[did][pipe, at] = number

    def note_write(
        self, at: Grains, pipe: int, number: int, owner: int, is_load: bool = False
    ) -> None:
        self.note(Did.WRITES, at, pipe, number)
        self.owner[at] = owner
        self.loaded[at] = is_load

    def note_left(self, at: Grains) -> None:
        """Note a load that fills only a part of these. Data that another load brought before stand
        for nothing now; computed or filled-in data may have been put there for this."""
        self.owner[at] = np.where(self.loaded[at], LEFT, self.owner[at])


@dataclass
class MemoryGrains:
    """The grains of one memory."""

    grain: int
    known: dict[Bytes, Grains] = field(default_factory=dict[Bytes, Grains])

    @classmethod
    def of(cls, accesses: Iterable[Bytes]) -> "MemoryGrains":
        grain = 0
        for a in accesses:
            grain = gcd(grain, a.low, a.width, a.pitch if a.rows > 1 else 0)
        return cls(max(grain, 1))

    def grains(self, a: Bytes) -> Grains:
        """The grains that an access touches."""
        if (at := self.known.get(a)) is None:
            low, width = a.low // self.grain, a.width // self.grain
            if a.rows <= 1:
                at = slice(low, low + width * a.rows)
            else:
                rows = low + np.arange(a.rows)[:, None] * (a.pitch // self.grain)
                at = (rows + np.arange(width)[None, :]).ravel()
            self.known[a] = at
        return at


# ---- the order on one core ----


def replay(
    core: Core,
    device: Device,
    grids: Mapping[SSAValue, DeviceGrid],
    flags: int,
    problems: Problems,
) -> None:
    """Report errors on one core. The data of a load do not matter if nothing reads its tile
    (queries, where there are no keys)."""
    run = Replay(core, device, grids, flags)
    run.run()
    if run.problems.found and not run.problems.full and (unread := run.unread):
        run = Replay(core, device, grids, flags, unread)
        run.run()
    for (rule, op, other), problem in run.problems.found.items():
        problems.add(rule, problem.text, op, other)


@dataclass
class Replay:
    """The instructions of one core in one legal order, with the instructions that each is ordered
    after."""

    core: Core
    device: Device
    shared: Mapping[SSAValue, DeviceGrid]  # of device memory whose accesses are ordered
    flags: int  # of the target, between two pipes
    skipped: Collection[TileStep] = ()  # loads, for what they read
    problems: Problems = field(default_factory=Problems)
    queues: list[Queue] = field(init=False)
    histories: dict[object, History] = field(default_factory=dict[object, History])
    grids: dict[tuple[int, Memory], MemoryGrains] = field(
        default_factory=dict[tuple[int, Memory], MemoryGrains]
    )
    sets: dict[object, list[Clock]] = field(default_factory=dict[object, list[Clock]])
    waits: dict[object, list[Clock]] = field(default_factory=dict[object, list[Clock]])
    loaded: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])  # and read

    def __post_init__(self) -> None:
        self.queues = list(self.core.queues)
        accesses: dict[tuple[int, Memory], list[Bytes]] = {}
        for (unit, _), steps in self.core.queues.items():
            for step in steps:
                for a in (*step.reads, *step.writes, *step.around):
                    accesses.setdefault((unit, a.memory), []).append(a)
        for memory, touched in accesses.items():
            grid = self.grids[memory] = MemoryGrains.of(touched)
            high = max(a.high for a in touched)
            self.histories[memory] = History(-(-high // grid.grain), len(self.queues))
        for memref, grid in self.shared.items():
            self.histories[memref] = History(grid.size, len(self.queues))

    def run(self) -> None:
        count = len(self.queues)
        clocks = [np.zeros(count, np.int64) for _ in range(count)]
        done = [0] * count
        moved = True
        while moved and not self.problems.full:
            moved = False
            for q, queue in enumerate(self.queues):
                steps = self.core.queues[queue]
                while done[q] < len(steps) and self.enter(steps[done[q]], queue[0], q, clocks[q]):
                    done[q] += 1
                    moved = True
            moved = moved or self.meet(done, clocks)
        if not self.problems.full:
            self.check_end(done)

    def meet(self, done: list[int], clocks: Sequence[Clock]) -> bool:
        """Take all pipes past a barrier, if they have come to one."""
        queues = [self.core.queues[queue] for queue in self.queues]
        heads = [steps[n] for steps, n in zip(queues, done, strict=True) if n < len(steps)]
        if len(heads) < len(queues) or not all(isinstance(s.op, BarrierOp) for s in heads):
            return False
        for q in range(len(queues)):
            done[q] += 1
            clocks[q][q] = done[q]
        for clock in clocks:
            clock[:] = done
        return bool(heads)

    def enter(self, step: TileStep, unit: int, q: int, clock: Clock) -> bool:
        """Run the step if all that it waits for is done."""
        op = step.op
        match op:
            case BarrierOp():
                return False
            case SetOp() | WaitOp():
                key = unit, op.source.data, op.target.data, step.flag
            case PushOp() | PopOp():
                key = step.fifo, step.part
            case _:
                key = None
        arrived, left = self.sets.setdefault(key, []), self.waits.setdefault(key, [])
        if isinstance(op, WaitOp | PopOp):
            if len(left) >= len(arrived):
                return False
            np.maximum(clock, arrived[len(left)], out=clock)
        elif isinstance(op, PushOp):
            free = len(arrived) - self.places(step)
            if free >= 0:
                if free >= len(left):
                    return False
                np.maximum(clock, left[free], out=clock)
        clock[q] += 1
        if isinstance(op, SetOp):
            self.check_set(step, clock, arrived, left)
        self.touch(step, q, clock)
        if isinstance(op, SetOp | PushOp):
            arrived.append(clock.copy())
        elif isinstance(op, WaitOp | PopOp):
            left.append(clock.copy())
        return True

    def places(self, step: TileStep) -> int:
        assert isinstance(step.fifo, FifoOp)
        return step.fifo.places

    def check_set(
        self, step: TileStep, clock: Clock, arrived: Sequence[Clock], left: Sequence[Clock]
    ) -> None:
        op, flag = step.op, step.flag
        assert isinstance(op, SetOp)
        assert flag is not None
        what = f"flag {flag} from {op.source.data} to {op.target.data}"
        if not 0 <= flag < self.flags:
            text = f"{what}: the target has {self.flags} between two pipes, from 0 on"
            self.problems.add("T12", text, op)
        behind = len(arrived)  # sets before this one, each of which must have been waited for
        if behind and (behind > len(left) or (left[behind - 1] > clock).any()):
            self.problems.add("T13", f"{what} may be set again before it was waited for", op)

    def touch(self, step: TileStep, q: int, clock: Clock) -> None:
        """Compare the bytes of a step with those of all before it."""
        number, unit = int(clock[q]), self.queues[q][0]
        for a in step.reads:
            history, at = self.grains(unit, a)
            self.check_read(step, history, at, clock, a)
            history.note(Did.READS, at, q, number)
            if self.shared:
                self.note_loaded(history, at)
        adds = isinstance(step.op, StoreOp) and step.op.is_atomic
        for region in () if adds or step in self.skipped else step.read_boxes:
            for history, at in self.cells(region):
                self.order(step, Did.READS, history, at, clock, Did.WRITES, Did.ADDS)
                self.check_own(step, history, at, region)
                history.note(Did.READS, at, q, number)
        for a in step.around:
            history, at = self.grains(unit, a)
            history.note_left(at)
        is_load = isinstance(step.op, LoadOp)
        for a in step.writes:
            history, at = self.grains(unit, a)
            self.order(step, Did.WRITES, history, at, clock, Did.WRITES, Did.READS)
            history.note_write(at, q, number, a.owner, is_load)
        for region in step.written_boxes:
            for history, at in self.cells(region):
                self.order(step, Did.WRITES, history, at, clock, Did.WRITES, Did.READS)
                if adds:  # in any order with other sums
                    self.check_sum(step, history, at, region)
                    history.note(Did.ADDS, at, q, number)
                else:
                    self.order(step, Did.WRITES, history, at, clock, Did.ADDS)
                    history.note_write(at, q, number, region.memref.index)

    def grains(self, unit: int, a: Bytes) -> tuple[History, Grains]:
        """The grains that an access touches of a memory of the core."""
        place = unit, a.memory
        return self.histories[place], self.grids[place].grains(a)

    def cells(self, region: Region) -> Iterator[tuple[History, Grains]]:
        """The cells that a region touches of memrefs whose accesses have to be ordered."""
        home = self.device.home(region)
        if home in self.shared and not region.is_empty:
            for box in self.device.boxes(region):
                yield self.histories[home], self.shared[home].grains(box)

    def note_loaded(self, history: History, at: Grains) -> None:
        """Note that data read may come from the last writes on each pipe that loads."""
        for q, (_, pipe) in enumerate(self.queues):
            if pipe is Pipe.MTE2:
                self.loaded.update((q, int(n)) for n in np.unique(history.last[Did.WRITES][q, at]))

    @property
    def unread(self) -> set[TileStep]:
        """Loads of a tile that nothing reads."""
        return {
            step
            for q, queue in enumerate(self.queues)
            for i, step in enumerate(self.core.queues[queue])
            if step.read_boxes and step.writes and (q, i + 1) not in self.loaded
        }

    def check_own(self, step: TileStep, history: History, at: Grains, region: Region) -> None:
        """Elements are not read by one name after they were written by another one."""
        owners = history.owner[at]
        if (others := owners[(owners != UNWRITTEN) & (owners != region.memref.index)]).size:
            args = self.device.kernel.body.block.args
            text = f"{placed(step.op)} reads elements of {name(region.memref)} that"
            text = f"{text} {name(args[int(others[0])])} was written over"
            self.problems.add("T10", text, step.op)

    def check_sum(self, step: TileStep, history: History, at: Grains, region: Region) -> None:
        """Check that elements added to are 0, or were stored by the same name; elements that other
        cores stored before a barrier are left to `compare_cores`."""
        owners = history.owner[at]
        others = owners != region.memref.index
        if step.phase:
            others &= owners != UNWRITTEN
        if not self.device.is_alone(region.memref) and others.any():
            text = (
                f"{placed(step.op)} adds to elements of {name(region.memref)} that hold an operand"
            )
            self.problems.add("T11", text, step.op)

    def check_read(
        self, step: TileStep, history: History, at: Grains, clock: Clock, a: Bytes
    ) -> None:
        is_ordered = self.order(step, Did.READS, history, at, clock, Did.WRITES)
        owners = history.owner[at]
        if not is_ordered or (owners == a.owner).all():
            return
        if (owners == UNWRITTEN).any():
            text = f"{placed(step.op)} reads bytes of {a.memory} that nothing wrote"
            self.problems.add("T5", text, step.op)
        elif (owners == LEFT).any():
            text = (
                f"{placed(step.op)} reads bytes of {a.memory} that an earlier load wrote: the last "
            )
            text += "one passed its memref, or the end of its box, and had less for them; load with"
            text += " `pad`"
            self.problems.add("T8", text, step.op)
        else:
            text = (
                f"{placed(step.op)} reads a buffer in {a.memory} that another one was written over"
            )
            self.problems.add("T9", text, step.op)

    def order(
        self, step: TileStep, did: Did, history: History, at: Grains, clock: Clock, *others: Did
    ) -> bool:
        """True if a step comes after all accesses of these kinds; accesses that it may overtake are
        reported."""
        is_ordered = True
        for other in others:
            for q, number in history.late(other, at, clock):
                first = self.core.queues[self.queues[q]][number - 1]
                text = f"{placed(step.op)} on {step.pipe} {did.value} what {placed(first.op)}"
                text = f"{text} on {first.pipe} {other.value}, and no flag orders them"
                self.problems.add("T1", text, step.op, first.op)
                is_ordered = False
        return is_ordered

    def check_end(self, done: Sequence[int]) -> None:
        """Nothing is stuck, no flag is set and no tile is under way."""
        stuck = [
            self.core.queues[queue][done[q]]
            for q, queue in enumerate(self.queues)
            if done[q] < len(self.core.queues[queue])
        ]
        if stuck:
            waiting = ", ".join(f"{placed(s.op)} on {s.pipe}" for s in stuck)
            text = f"core {self.core.number} stands still: {waiting} wait for each other or in vain"
            self.problems.add("T15", text, stuck[0].op)
            return
        for key, arrived in self.sets.items():
            if key is None or len(arrived) == len(self.waits[key]):
                continue
            count = len(arrived) - len(self.waits[key])
            fifo = cast("tuple[object, ...]", key)[0]
            if isinstance(fifo, FifoOp):
                self.problems.add("T16", f"{count} tiles are left in the fifo", fifo)
            else:
                last = self.last_set(key)
                self.problems.add("T14", f"the flag of {placed(last)} is left set", last)

    def last_set(self, key: object) -> Operation:
        for (program, _), steps in self.core.queues.items():
            for step in reversed(steps):
                op = step.op
                if isinstance(op, SetOp) and key == (
                    program, op.source.data, op.target.data, step.flag
                ):  # fmt: skip
                    return op
        raise AssertionError("a flag that is set has a set")
