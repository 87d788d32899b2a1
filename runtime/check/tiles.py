"""The proof of tile programs: no order in which the pipes of the cores may run changes a result.

Each core's programs are walked (`tile_program.py`), and their instructions replayed with vector
clocks (Fidge 1988; DJIT+, Pozniansky and Schuster, PPoPP 2003): a pipe's instructions run in order,
a wait after the set that it is for, a pop after its push, a push after the pop that made room.
Whatever two instructions touch, one of them writing, must be ordered so.

What is proved is for the shapes of the kernel's arguments, which share no bytes (a launch that
writes its result over an operand is not looked at as such), and its number of cores; cores whose
instructions touch the same bytes of their memories are replayed once. Sums that several cores or
pipes add to are the same but for rounding. What is looked for:

    race        two accesses of the same bytes of a core's memory, or of device memory, in no order
    unwritten   a read of bytes that nothing wrote, an element of a result that nothing stores
    overwritten a read of a buffer in whose place another one was written
    bounds      a sub-tile or rows beyond their tile or where none can begin, a memory too small, a
                box that begins before its memref and is not loaded with padding
    event       a flag that is set twice, waited for in vain, left set, or that no target has
    deadlock    pipes that wait for each other; tiles left in a fifo

    capacity    more cores than the target has

Numbers that a kernel reads (`tile.read`) are taken at their least and at their largest. That proves
it for all where they only say which box is loaded; where loops and conditions depend on them, the
summary says that it is proved for these two alone.

Not proved: that numbers are right, nor that padding is masked: only what a load without `pad` left
unwritten is found when it is read. Tiles lie in memory row by row here, not in the fractals of L1
and L0, which matters only where buffers overlap in parts. Elements that nothing stores are not
looked for in a memref that is also read, or added to.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from xdsl.dialects.arith import AddiOp, MuliOp, SubiOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from ge.dialects.support.diagnostics import location_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.buffers import FifoOp, ViewOp, constant_index, memref_shape
from ge.dialects.tile.compute import SetOp, WaitOp
from ge.dialects.tile.kernel import KernelOp
from ge.dialects.tile.reading import ReadOp
from ge.dialects.tile.transfers import PopOp, PushOp, StoreOp
from ge.dialects.tile.types import BoxType, Memory, Pipe
from ge.runtime.check.problems import Problem, Problems
from ge.runtime.check.tile_history import UNWRITTEN, Clock, Grains, Grid, History, Span, cells
from ge.runtime.check.tile_program import Bytes, Region, Step, Walk, WalkError


@dataclass(frozen=True, slots=True)
class KernelProof:
    """What was found about one kernel."""

    name: str
    cores: int
    instructions: int  # of all cores
    problems: tuple[Problem, ...]
    # Whether more than the place of loads depends on numbers that the kernel reads
    for_some_numbers: bool = False

    @property
    def summary(self) -> str:
        if self.problems:
            return f"@{self.name}: {len(self.problems)} problems"
        text = f"{self.instructions} instructions on {self.cores} cores, in any order of the pipes"
        if self.for_some_numbers:
            text += ", for the least and the largest of each number that it reads, not for all"
        return f"@{self.name}: proved, {text}"


def check_kernels(module: ModuleOp, target: Target | None = None) -> list[KernelProof]:
    """The proofs of all tile programs of a module, on the target, or on the default one."""
    target = target or Target.load()
    return [check_kernel(k, target) for k in module.walk() if isinstance(k, KernelOp)]


def check_kernel(kernel: KernelOp, target: Target) -> KernelProof:
    """The proof of one tile program, on a target."""
    problems = Problems()
    reads = [op for op in kernel.walk() if isinstance(op, ReadOp)]
    check_memories(kernel, target, problems)
    both = (True, False) if reads else (True,)
    steps = [check_cores(kernel, target, problems, largest) for largest in both]
    return KernelProof(
        kernel.sym_name.data,
        kernel.core_count,
        max(steps),
        tuple(problems.found.values()),
        not all(map(only_chooses_boxes, reads)),
    )


def check_cores(kernel: KernelOp, target: Target, problems: Problems, largest: bool) -> int:
    """Replay all cores, where each number read is the largest or the least that it may be. The
    number of their instructions."""
    cores: list[Core] = []
    try:
        for number in range(kernel.core_count):
            cores.append(Core.walk(kernel, number, largest))
    except WalkError as e:
        problems.add(e.kind, str(e), e.op)
    else:
        shared = device_memory(cores, problems)
        seen: set[object] = set()
        for core in cores:
            if (shape := core.shape(shared)) not in seen and not problems.full:
                seen.add(shape)
                Replay(core, shared, target.flags, problems).run()
    return sum(len(q) for core in cores for q in core.queues.values())


def only_chooses_boxes(op: ReadOp) -> bool:
    """Whether a number that is read says nothing but where boxes of memrefs begin that are only
    loaded from, and these begin later the larger it is: what is true of the largest numbers and of
    the least ones, all at once, is then true of those between."""
    values: list[SSAValue] = [op.result]
    while values:
        for use in values.pop().uses:
            user = use.operation
            added = isinstance(user, AddiOp) or (isinstance(user, SubiOp) and not use.index)
            if added or (isinstance(user, MuliOp) and max(map(factor, user.operands)) >= 0):
                values.append(user.results[0])
            elif not (isinstance(user, ViewOp) and _is_loaded_box(user)):
                return False
    return True


def factor(value: SSAValue) -> int:
    """A constant, -1 for what is none."""
    number = constant_index(value)
    return -1 if number is None else number


def _is_loaded_box(view: ViewOp) -> bool:
    if not isinstance(view.result.type, BoxType):
        return False
    boxes = (u.operation for u in view.source.uses if isinstance(u.operation, ViewOp))
    return not any(isinstance(u.operation, StoreOp) for b in boxes for u in b.result.uses)


def check_memories(kernel: KernelOp, target: Target, problems: Problems) -> None:
    """There are as many cores, and buffers end where their memory does."""
    sizes = target.core_memories
    for program in kernel.programs:
        have = target.cube_cores if program is kernel.cube else target.vector_cores
        if (count := kernel.core_count * program.parts) > have:
            kind = program.name.removeprefix("tile.")
            text = f"the kernel takes {count} {kind} cores, and {target.name} has {have}"
            problems.add("capacity", text, kernel)
    for program in kernel.programs:
        for alloc in program.allocs:
            size, space = alloc.tile.bytes, alloc.tile.space
            for offset in alloc.offsets or ():
                if offset + size > sizes[space]:
                    text = f"{space} of {target.name} has {sizes[space]} bytes"
                    text = f"{text}: {size} bytes at {offset} pass its end"
                    problems.add("bounds", text, alloc)


# ---- one core ----

Queue = tuple[int, Pipe]  # a pipe of the unit with this number


@dataclass
class Core:
    """A cube core, a vector core, or one and those beside it, its units: the instructions of each
    pipe, in order."""

    number: int
    queues: dict[Queue, list[Step]]

    @classmethod
    def walk(cls, kernel: KernelOp, number: int, largest: bool = True) -> "Core":
        queues: dict[Queue, list[Step]] = {}
        units = [(p, part) for p in kernel.programs for part in range(p.parts)]
        for i, (program, part) in enumerate(units):
            for step in Walk(kernel, program, number, largest, part).run():
                queues.setdefault((i, step.pipe), []).append(step)
        return cls(number, queues)

    def steps(self) -> Iterator[Step]:
        for queue in self.queues.values():
            yield from queue

    def shape(self, shared: "dict[SSAValue, DeviceGrid]") -> object:
        """Equal for cores that one replay is for."""
        steps = [(q, tuple(s.shape() for s in steps)) for q, steps in self.queues.items()]
        own = any(r.memref in shared for s in self.steps() for r in _boxes(s))
        return tuple(steps), self.number if own else None


def _boxes(step: Step) -> Iterator[Region]:
    yield from step.read_boxes
    yield from step.written_boxes


# ---- device memory ----


@dataclass
class DeviceGrid:
    """The cells of a memref that one core reads and writes, or writes twice."""

    borders: list[list[int]]
    shape: tuple[int, ...] = field(init=False)
    index: list[dict[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        self.shape = tuple(len(b) - 1 for b in self.borders)
        self.index = [{edge: i for i, edge in enumerate(b)} for b in self.borders]

    def spans(self, region: Region) -> tuple[Span, ...]:
        return tuple(
            slice(at[low], at[high])
            for at, (low, high) in zip(self.index, region.bounds, strict=True)
        )

    def grains(self, region: Region) -> Grains:
        rows = [range(s.start, s.stop) for s in self.spans(region)]
        return np.ravel_multi_index(np.ix_(*rows), self.shape).ravel().astype(np.int64)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))


def device_memory(cores: Sequence[Core], problems: Problems) -> dict[SSAValue, DeviceGrid]:
    """Compare what cores do to device memory, in which nothing orders them; the memrefs whose
    accesses by one core have to be ordered too."""
    touched: dict[BlockArgument, list[tuple[int, Step, Region, bool]]] = {}
    for core in cores:
        for step in core.steps():
            for is_write, regions in ((False, step.read_boxes), (True, step.written_boxes)):
                for region in regions:
                    if not region.is_empty:
                        row = core.number, step, region, is_write
                        touched.setdefault(region.memref, []).append(row)
    shared: dict[SSAValue, DeviceGrid] = {}
    for memref, rows in touched.items():
        if any(is_write for _, _, _, is_write in rows):
            grid = DeviceGrid(cells([r.bounds for _, _, r, _ in rows], memref_shape(memref)))
            if compare_cores(memref, grid, rows, problems):
                shared[memref] = grid
    return shared


def compare_cores(
    memref: BlockArgument,
    grid: DeviceGrid,
    rows: Sequence[tuple[int, Step, Region, bool]],
    problems: Problems,
) -> bool:
    """Find races between cores, and elements of a result that nothing stores; whether a core
    touches cells twice, one time writing."""
    none = -1
    writer = np.full(grid.shape, none, np.int64)  # the core that wrote each cell last
    several = np.zeros(grid.shape, bool)  # whether more than one core wrote a cell
    summed = np.zeros(grid.shape, bool)  # whether all writes of a cell so far add to it
    twice, is_read = False, False
    for core, step, region, is_write in rows:
        if not is_write:
            continue
        at = grid.spans(region)
        adds = isinstance(step.op, StoreOp) and step.op.is_atomic
        before = writer[at]
        others = (before != none) & (before != core)
        if (others & ~(summed[at] & adds)).any():
            text = f"two cores store to the same elements of {name(memref)}, in no order"
            problems.add("race", text, step.op)
        twice = twice or bool((before == core).any())
        several[at] |= others
        summed[at] = adds & (summed[at] | (before == none))
        writer[at] = core
    for core, step, region, is_write in rows:
        if is_write or (isinstance(step.op, StoreOp) and step.op.is_atomic):
            continue
        at = grid.spans(region)
        is_read, before = True, writer[at]
        if (((before != none) & (before != core)) | several[at]).any():
            text = f"one core reads elements of {name(memref)} that another one stores"
            problems.add("race", text, step.op)
        twice = twice or bool((before == core).any())
    if not is_read and not summed.any() and (writer == none).any():
        where = [int(i) for i in np.argwhere(writer == none)[0]]
        first = [edges[i] for edges, i in zip(grid.borders, where, strict=True)]
        text = f"elements of {name(memref)}, from {first} on, are stored by no core"
        op = next(step.op for _, step, _, is_write in rows if is_write)
        problems.add("unwritten", text, op)
    return twice


def name(value: SSAValue) -> str:
    if value.name_hint:
        return f"%{value.name_hint}"
    return f"argument {value.index}" if isinstance(value, BlockArgument) else "a buffer"


def said(op: Operation) -> str:
    """An op, and where the kernel's source has it."""
    place = str(location_of(op))
    return f"{op.name} ({place})" if place else op.name


# ---- the order on one core ----


@dataclass
class Replay:
    """The instructions of one core in one legal order, with what each is ordered after."""

    core: Core
    shared: "dict[SSAValue, DeviceGrid]"
    flags: int  # of the target, between two pipes
    problems: Problems
    queues: list[Queue] = field(init=False)
    histories: dict[object, History] = field(default_factory=dict[object, History])
    grids: dict[tuple[int, Memory], Grid] = field(default_factory=dict[tuple[int, Memory], Grid])
    sets: dict[object, list[Clock]] = field(default_factory=dict[object, list[Clock]])
    waits: dict[object, list[Clock]] = field(default_factory=dict[object, list[Clock]])

    def __post_init__(self) -> None:
        self.queues = list(self.core.queues)
        accesses: dict[tuple[int, Memory], list[Bytes]] = {}
        for (unit, _), steps in self.core.queues.items():
            for step in steps:
                for a in (*step.reads, *step.writes):
                    accesses.setdefault((unit, a.memory), []).append(a)
        for memory, touched in accesses.items():
            grid = self.grids[memory] = Grid.of(touched)
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
        if not self.problems.full:
            self.check_end(done)

    def enter(self, step: Step, unit: int, q: int, clock: Clock) -> bool:
        """Run the step if what it waits for is done."""
        op = step.op
        match op:
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

    def places(self, step: Step) -> int:
        assert isinstance(step.fifo, FifoOp)
        return step.fifo.places

    def check_set(
        self, step: Step, clock: Clock, arrived: Sequence[Clock], left: Sequence[Clock]
    ) -> None:
        op, flag = step.op, step.flag
        assert isinstance(op, SetOp)
        assert flag is not None
        what = f"flag {flag} from {op.source.data} to {op.target.data}"
        if not 0 <= flag < self.flags:
            text = f"{what}: the target has {self.flags} between two pipes, from 0 on"
            self.problems.add("event", text, op)
        behind = len(arrived)  # sets before this one, each of which must have been waited for
        if behind and (behind > len(left) or (left[behind - 1] > clock).any()):
            self.problems.add("event", f"{what} may be set again before it was waited for", op)

    def touch(self, step: Step, q: int, clock: Clock) -> None:
        """Compare the bytes of a step with those of all before it."""
        number, unit = int(clock[q]), self.queues[q][0]
        for a in step.reads:
            place = unit, a.memory
            history, at = self.histories[place], self.grids[place].grains(a)
            self.check_read(step, history, at, clock, a)
            history.note_read(at, q, number)
        adds = isinstance(step.op, StoreOp) and step.op.is_atomic
        for region in () if adds else step.read_boxes:
            if region.memref in self.shared and not region.is_empty:
                history = self.histories[region.memref]
                at = self.shared[region.memref].grains(region)
                self.order(step, history.late_writes(at, clock), "reads")
                self.order(step, history.late_adds(at, clock), "reads", "adds to")
                history.note_read(at, q, number)
        for a in step.writes:
            place = unit, a.memory
            history, at = self.histories[place], self.grids[place].grains(a)
            self.order_write(step, history, at, clock)
            history.note_write(at, q, number, a.owner)
        for region in step.written_boxes:
            if region.memref in self.shared and not region.is_empty:
                history = self.histories[region.memref]
                at = self.shared[region.memref].grains(region)
                self.order_write(step, history, at, clock)
                if adds:  # in any order with other sums
                    history.note_add(at, q, number)
                else:
                    self.order(step, history.late_adds(at, clock), "writes", "adds to")
                    history.note_write(at, q, number, 0)

    def check_read(self, step: Step, history: History, at: Grains, clock: Clock, a: Bytes) -> None:
        late = history.late_writes(at, clock)
        self.order(step, late, "reads")
        owners = history.owner[at]
        if late or not owners.size:
            return
        if (owners == UNWRITTEN).any():
            text = f"{said(step.op)} reads bytes of {a.memory} that nothing wrote"
            self.problems.add("unwritten", text, step.op)
        elif (owners != a.owner).any():
            text = f"{said(step.op)} reads a buffer in {a.memory} that another one was written over"
            self.problems.add("overwritten", text, step.op)

    def order_write(self, step: Step, history: History, at: Grains, clock: Clock) -> None:
        self.order(step, history.late_writes(at, clock), "writes")
        self.order(step, history.late_reads(at, clock), "writes", "reads")

    def order(
        self, step: Step, late: Iterable[tuple[int, int]], how: str, other: str = "writes"
    ) -> None:
        """Report what a step is not ordered after."""
        for q, number in late:
            before = self.core.queues[self.queues[q]][number - 1].op
            text = f"{said(step.op)} on {step.pipe} {how} what {said(before)} on {before.pipe()}"
            text = f"{text} {other}, and no flag orders them"
            self.problems.add("race", text, step.op, before)

    def check_end(self, done: Sequence[int]) -> None:
        """Nothing is stuck, no flag is set and no tile is under way."""
        stuck = [
            self.core.queues[queue][done[q]]
            for q, queue in enumerate(self.queues)
            if done[q] < len(self.core.queues[queue])
        ]
        if stuck:
            waiting = ", ".join(f"{said(s.op)} on {s.pipe}" for s in stuck)
            text = f"core {self.core.number} stands still: {waiting} wait for each other or in vain"
            self.problems.add("deadlock", text, stuck[0].op)
            return
        for key, arrived in self.sets.items():
            if key is None or len(arrived) == len(self.waits[key]):
                continue
            count = len(arrived) - len(self.waits[key])
            fifo = cast("tuple[object, ...]", key)[0]
            if isinstance(fifo, FifoOp):
                self.problems.add("deadlock", f"{count} tiles are left in the fifo", fifo)
            else:
                last = self.last_set(key)
                self.problems.add("event", f"the flag of {said(last)} is left set", last)

    def last_set(self, key: object) -> Operation:
        for (program, _), steps in self.core.queues.items():
            for step in reversed(steps):
                op = step.op
                if isinstance(op, SetOp) and key == (
                    program, op.source.data, op.target.data, step.flag
                ):  # fmt: skip
                    return op
        raise AssertionError("a flag that is set has a set")
