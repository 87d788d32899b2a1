"""A host that calls programs in one of the modes: numbers, time, and what the call came to.

Launches of a call may be recorded once and then replayed as one. A replay needs the same operations
on tensors of the same descriptions: the recorded arguments and tilings are used unchanged. For
others it is refused; the tasks are captured again, or, in the mode that updates, those that differ
are written anew, if their number and kinds are the same.

A unit is set up (`setup`: checks, shapes, tilings), made ready (`prelaunch`: arguments, and a copy
of its tilings where the device does not have them any more), and launched (`launch`). The modes
differ in their units, in how many threads do the three, and in what they keep for the next call.
The schedule that the clock times is what each thread did, and what it waited for.

Several threads. As long as there is nothing to set up, the first thread has time: when it has
handed a unit over it asks for the copies to the device that wait for nothing but each other, which
then do not hold up launches. What follows them in the program is issued after them, or it would not
wait for them.

Buffers. Tilings are in blocks of a ring, which a unit takes when it is set up; before a block is
overwritten, the launches that read it have to be done. Arguments are in two buffers, in turn:
before one is filled again, the launches from it have to be issued."""

from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ge.dialects.npu_task.attributes import HOST, space_of
from ge.dialects.npu_task.control import YieldOp
from ge.dialects.npu_task.ops import BatchCopyOp, CopyOp, LaunchOp, RecordOp, TransferOp
from ge.dialects.support.diagnostics import listing
from ge.dialects.support.errors import GeError
from ge.dialects.targets import DEFAULT_TARGET
from ge.dialects.targets.target import Target
from ge.runtime.check.host_queues import host_problems
from ge.runtime.clock.clock import simulate, stated
from ge.runtime.clock.issue import Issue
from ge.runtime.clock.timeline import Timeline
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session, main_of
from ge.runtime.host.context import TILING_BYTES, Context, Found, KernelCaches
from ge.runtime.host.host_clock import (
    CAUSES,
    HOST_CAUSES,
    HostClock,
    cause_of,
    first_launch,
    idle_gaps,
)
from ge.runtime.host.operation import SetupOutcome
from ge.runtime.host.program import HostUnit, Leaf, Leaves, Operations, mark_growing
from ge.runtime.host.schedule import (
    ALL,
    DEFAULTS,
    EARLIER,
    SUNK,
    Block,
    HostOptions,
    HostSchedule,
    HostTask,
    HostWork,
    Mode,
    TilingCopy,
    modes,
    run_stages,
)

ARGUMENT_BUFFERS = 2

Perform = Callable[[Operation], None]


@dataclass
class Counts:
    """Counts of the work in the calls of a host."""

    setups: int = 0
    skipped: int = 0
    found: dict[str, int] = field(default_factory=lambda: dict.fromkeys(map(str, Found), 0))
    patched: int = 0
    captures: int = 0
    refused: int = 0  # replays that were refused, since shapes had changed
    replays: int = 0
    updates: int = 0

    def add(self, outcome: SetupOutcome) -> None:
        self.setups += outcome.done
        self.skipped += outcome.skipped
        for lookup in outcome.lookups:
            self.found[lookup.found] += 1
            self.patched += lookup.patched


def copies_ahead(tasks: Sequence[Operation]) -> set[Operation]:
    """The tasks, of those between two barriers, that copy to the device before their stream has
    waited for any other, or done anything else."""
    found, bound = set[Operation](), set[int]()
    op: Operation | None = tasks[0] if tasks else None
    while op is not None:
        stream = getattr(op, "stream", None)
        if stream is not None and not isinstance(op, RecordOp):
            if stream.value.data not in bound and is_copy_to_device(op):
                found.add(op)
            else:
                bound.add(stream.value.data)
        op = None if op is tasks[-1] else op.next_op
    return found


def is_copy_to_device(op: Operation) -> bool:
    match op:
        case CopyOp():
            pairs = [(op.source, op.target)]
        case BatchCopyOp():
            pairs = [*op.pairs]
        case TransferOp():
            pairs = [(op.source, op.result)]
        case _:
            return False
    return all(space_of(a.type) == HOST != space_of(b.type) for a, b in pairs)


class Call:
    """One call of the units between two barriers. `perform` runs the task of an op; without it
    nothing is computed."""

    def __init__(
        self,
        mode: Mode,
        units: Sequence[HostUnit],
        context: Context,
        target: Target,
        counts: Counts,
        perform: Perform | None = None,
        waits: bool = False,
    ) -> None:
        """`waits`: the host learns the next tasks from the device, so all tasks before have to be
        done."""
        self.mode, self.units, self.context, self.counts = mode, units, context, counts
        self.target, self.perform = target, perform
        tasks = [leaf.op for unit in units for leaf in unit.leaves]
        self.schedule = HostSchedule(mode.threads, len(tasks))
        self._blocks: list[tuple[Block, int]] = []  # of each unit: tilings, and their writer
        self._copies: dict[int, TilingCopy] = {}  # unit -> the copy of its tilings
        self._writers: dict[int, int] = {}  # block -> the unit that wrote it
        self._stale: list[bool] = []  # whether they are yet to be copied to the device
        self._readers: dict[int, tuple[int, ...]] = {}  # block -> the launches that read it
        self._last: list[dict[int, HostTask]] = [{} for _ in mode.threads]  # unit -> last task
        self._handed: list[dict[int, HostTask]] = [{} for _ in mode.threads]  # unit -> its handing
        self._has_time = len(mode.threads) > 1  # the first thread, so far
        self._free = copies_ahead(tasks if self._has_time else ())
        self._asked: dict[int, HostTask] = {}  # copies that the first thread has asked for
        self._asked_last: HostTask | None = None  # of these, before the task launched now
        if waits:
            self.add(0, HostWork.SYNCHRONISATION, target.host_sync_us, units[0], 0)

    def run(self) -> HostSchedule:
        stages = [self.setup, self.prelaunch, self.launch]
        if self.mode.captured:
            stages = [self.setup, self.prelaunch, self.capture]
        threads = len(self.mode.threads)
        groups = [[s] for s in stages[: threads - 1]] + [stages[threads - 1 :]]
        work = [self._stage(place, group) for place, group in enumerate(groups)]
        run_stages(
            work, self.units, self.context.tilings.blocks if threads < 3 else ARGUMENT_BUFFERS
        )
        return self.schedule

    def _stage(
        self, thread: int, steps: Sequence[Callable[[int, int, HostUnit], None]]
    ) -> Callable[[int, HostUnit], None]:
        def work(number: int, unit: HostUnit) -> None:
            for step in steps:
                step(thread, number, unit)
            if thread + 1 < len(self.mode.threads):
                us = self.target.host_handoff_us
                self._handed[thread][number] = self.add(
                    thread, HostWork.SYNCHRONISATION, us, unit, number
                )
            if not thread:
                self._has_time = self._has_time and not unit.operation.outcome.done
                if self._has_time:
                    self.ask_ahead(number, unit)

        return work

    def add(
        self, thread: int, kind: HostWork, us: float, unit: HostUnit, number: int, name: str = ""
    ) -> HostTask:
        task = HostTask(thread, kind, us, name or unit.operation.name, number)
        if thread and number not in self._last[thread]:
            task.after.append(self._handed[thread - 1][number])  # which is done: it woke this one
        self._last[thread][number] = task
        self.schedule.tasks[thread].append(task)
        return task

    # ---- the three steps

    def setup(self, thread: int, number: int, unit: HostUnit) -> None:
        t, ring = self.target, self.context.tilings
        size = unit.operation.setup(unit.pack)
        outcome = unit.operation.outcome
        self.counts.add(outcome)
        if size > self.context.workspace(0).size:
            self.context.workspace(size)
            self.add(thread, HostWork.SYNCHRONISATION, t.host_alloc_us, unit, number)
        us = t.host_setup_us * outcome.done + t.host_reuse_us * bool(outcome.skipped)
        if not self.mode.cached:
            us += t.host_dispatch_us
        self.add(thread, HostWork.SETUP, us, unit, number)
        cost = {Found.MISS: t.host_tiling_us}
        us = sum(cost.get(x.found, 0) for x in outcome.lookups) if outcome.lookups else 0.0
        if self.mode.cached:
            us += t.host_lookup_us * len(outcome.lookups)
        us += t.host_patch_us * sum(x.patched for x in outcome.lookups)
        holder: Hashable = id(unit.operation), unit.pack.descs
        block = ring.find(holder) if not outcome.lookups and self.mode.cached else None
        if self.mode.captured:
            block = None if outcome.lookups else number
        self._stale.append(block is None)
        if block is None:
            block = number if self.mode.captured else ring.take(holder)
            task = self.add(thread, HostWork.TILING, us, unit, number)
            task.writes = ("tiling", block)
            self._writers[block] = number
            if block in self._readers:
                task.until = self._readers[block]
        self._blocks.append((("tiling", block), self._writers.get(block, EARLIER)))
        before = () if self._stale[number] else self._readers.get(block, ())
        self._readers[block] = (*before, *(leaf.number for leaf in unit.launches))

    def prelaunch(self, thread: int, number: int, unit: HostUnit) -> None:
        launches = unit.launches
        if not launches:
            return
        us = self.target.host_arguments_us * len(launches)
        filled = self.add(thread, HostWork.ARGUMENTS, us, unit, number)
        filled.writes = self._arguments(number)
        if thread and len(self.mode.threads) > thread + 1 and number >= ARGUMENT_BUFFERS:
            filled.after.append(self._last[thread + 1][number - ARGUMENT_BUFFERS])
        if self._stale[number]:
            copy = self.add(thread, HostWork.COPY, self.target.host_copy_us, unit, number)
            device = self.schedule.device_tasks + len(self.schedule.copies)
            copy.issues, copy.reads = (device,), (self._blocks[number],)
            numbers = [leaf.number for leaf in launches]
            size = TILING_BYTES * len(launches)
            new = TilingCopy(device, size, self._blocks[number][0], numbers)
            self.schedule.copies.append(new)
            self._copies[number] = new
        elif (writer := self._blocks[number][1]) in self._copies:
            self._copies[writer].launches += [leaf.number for leaf in launches]

    def launch(self, thread: int, number: int, unit: HostUnit) -> None:
        t = self.target
        reads = self._reads(number)
        for leaf in unit.leaves:
            if self.perform is not None:
                self.perform(leaf.op)
            if leaf.number in self._asked:
                self._asked_last = self._asked[leaf.number]
                continue
            if leaf.signature is None:
                task = self.add(thread, HostWork.COPY, t.host_copy_us, unit, number)
            else:
                task = self.add(thread, HostWork.LAUNCH, t.host_issue_us, unit, number)
                task.reads = reads
            task.issues = (leaf.number,)
            if self._asked_last is not None:
                task.after.append(self._asked_last)

    def ask_ahead(self, number: int, unit: HostUnit) -> None:
        """Ask for those copies of a unit that wait for no launch."""
        for leaf in unit.leaves:
            if leaf.op in self._free:
                task = self.add(0, HostWork.COPY, self.target.host_copy_us, unit, number)
                task.issues = (leaf.number,)
                self._asked[leaf.number] = task

    def capture(self, thread: int, number: int, unit: HostUnit) -> None:
        """Record the launches of a unit, nothing runs yet; behind the last unit all are replayed.
        The arguments of all units are kept."""
        us = (self.target.host_issue_us + self.target.host_capture_us) * len(unit.leaves)
        self.add(thread, HostWork.LAUNCH, us, unit, number).reads = self._reads(number)
        if number + 1 == len(self.units):
            self.replay(thread, number)

    def replay(self, thread: int, number: int) -> None:
        unit = self.units[number]
        task = self.add(thread, HostWork.LAUNCH, self.target.host_replay_us, unit, number, "replay")
        leaves = [leaf for unit in self.units for leaf in unit.leaves]
        task.issues = tuple(leaf.number for leaf in leaves)
        if self.perform is not None:
            for leaf in leaves:
                self.perform(leaf.op)

    def _reads(self, number: int) -> tuple[tuple[Block, int], ...]:
        if not self.units[number].launches:
            return ()
        return (self._arguments(number), number), self._blocks[number]

    def _arguments(self, number: int) -> Block:
        return "arguments", number if self.mode.captured else number % ARGUMENT_BUFFERS


@dataclass(slots=True)
class CapturedTasks:
    """The tasks that a capture recorded, and the shapes that they are for."""

    descs: list[Hashable]  # of each unit
    kinds: list[Hashable]  # of each task
    tasks: list[Hashable]  # what each task was recorded with


class CapturedCall(Call):
    """A call whose launches are recorded, or replayed where shapes are as recorded."""

    def run_with(self, captured: MutableMapping[int, CapturedTasks], place: int) -> HostSchedule:
        """Replay the capture made at this place of the program, or capture now."""
        leaves = [leaf for unit in self.units for leaf in unit.leaves]
        new = CapturedTasks(
            [(id(unit.operation), unit.pack.descs) for unit in self.units],
            [_kind(leaf) for leaf in leaves],
            [_recorded(leaf) for leaf in leaves],
        )
        old, captured[place] = captured.get(place), new
        if old is not None and old.descs == new.descs:
            self.update([False] * len(leaves))
        elif old is not None and self.mode.updates and old.kinds == new.kinds:
            self.counts.refused += 1
            self.update([a != b for a, b in zip(old.tasks, new.tasks, strict=True)])
        else:
            self.counts.refused += old is not None
            self.counts.captures += 1
            return self.run()
        return self.schedule

    def update(self, changed: list[bool]) -> None:
        """Set all units up, write the tasks that changed anew, and replay. Where none did, the data
        behind the arguments are other ones."""
        last = len(self.units) - 1
        place = 0
        for number, unit in enumerate(self.units):
            self.setup(0, number, unit)
            count = sum(changed[place : place + len(unit.leaves)])
            place += len(unit.leaves)
            if count:
                self.prelaunch(0, number, unit)
                us = self.target.host_update_us * count
                self.add(0, HostWork.LAUNCH, us, unit, number).reads = self._reads(number)
                self.counts.updates += count
        if not any(changed):
            self.add(0, HostWork.ARGUMENTS, self.target.host_arguments_us, self.units[0], last)
        self.counts.replays += 1
        self.replay(0, last)


def _kind(leaf: Leaf) -> Hashable:
    signature = leaf.signature
    return None if signature is None else (signature.kind, signature.structure)


def _recorded(leaf: Leaf) -> Hashable:
    signature = leaf.signature
    return leaf.pack.descs if signature is None else (signature.sizes, signature.tiling)


def first_run_us(module: ModuleOp, target: Target) -> dict[HostWork, float]:
    """Microseconds of the host to bind a program to sizes, by its kinds of work: each launch is set
    up and its arguments are filled, each kernel is tiled once, each task is written to the device's
    queues. The costs are those of a host that feeds the device, and like these assumptions."""
    launches = list[str]()
    copies = 0
    for op in main_of(module).walk():
        if isinstance(op, LaunchOp):
            launches.append(op.callee)
        copies += isinstance(op, CopyOp | BatchCopyOp | TransferOp)
    count, kernels = len(launches), len(set(launches))
    return {
        HostWork.SETUP: target.host_setup_us * count,
        HostWork.TILING: target.host_tiling_us * kernels
        + target.host_lookup_us * (count - kernels),
        HostWork.ARGUMENTS: target.host_arguments_us * count,
        HostWork.LAUNCH: target.host_capture_us * count,
        HostWork.COPY: target.host_capture_us * copies,
    }


class HostProgram:
    """A program as its host sees it; with a session it can be computed."""

    def __init__(
        self,
        module: ModuleOp,
        target: Target,
        session: Session | None = None,
        gear: int | None = None,
        rows: int | None = None,
        is_new: bool = False,
    ) -> None:
        """`gear`: the number of the one that is timed; None: the longest. `rows`: how many are read
        of states that grow, where no session tells; None: all. `is_new`: it has been bound to sizes
        that no call had before."""
        self.module, self.target, self.session = module, target, session
        self.gear, self.rows, self.is_new = gear, rows, is_new
        self.leaves = Leaves(module)
        self.block = main_of(module).body.block


@dataclass
class Called:
    """The result of one call."""

    outputs: dict[str, Array]
    timeline: Timeline | None
    schedules: list[HostSchedule]
    counts: Counts  # of this call
    binding_us: Mapping[HostWork, float] = field(default_factory=dict[HostWork, float])
    """Of a sunk program at new sizes: the host's time before it, by what the host does."""

    @property
    def latency_us(self) -> float:
        """Time until the call ends, if it was timed."""
        device_us = 0.0 if self.timeline is None else self.timeline.latency_us
        return device_us + sum(self.binding_us.values())

    @property
    def host_us(self) -> dict[str, float]:
        """The time of all threads by their kinds of work, if the call was timed."""
        total = dict.fromkeys(HOST_CAUSES, 0.0) | {str(k): us for k, us in self.binding_us.items()}
        for task in self.timeline.tasks if self.timeline else ():
            if not task.on_device:
                total[cause_of(task)] += task.time.total_us * task.runs
        return total

    @property
    def idle_us(self) -> dict[str, float]:
        """The device's idle time before each launch by cause."""
        idle = dict.fromkeys(CAUSES, 0.0) | {str(k): us for k, us in self.binding_us.items()}
        for gap in idle_gaps(self.timeline) if self.timeline else ():
            idle[gap.cause] += gap.end_us - gap.start_us
        return idle

    @property
    def idle_at_start_us(self) -> float:
        """Time for which the device waits for the host before the first launch: no other task can
        hide that."""
        if self.timeline is None:
            return 0.0
        first = first_launch(self.timeline)
        gaps = [g for g in idle_gaps(self.timeline) if g.cause in HOST_CAUSES]
        before = sum(g.end_us - g.start_us for g in gaps if g.end_us <= first)
        return before + sum(self.binding_us.values())


@dataclass
class Host:
    """Caches, buffers and captured tasks stay from call to call."""

    mode: Mode
    target: Target
    options: HostOptions = DEFAULTS

    def __post_init__(self) -> None:
        o = self.options
        self.context = Context(ring_blocks=o.ring_blocks)
        self.operations = Operations(KernelCaches(o.local_slots, o.global_slots))
        self.captured: dict[int, CapturedTasks] = {}
        self._units: dict[Operation, Sequence[HostUnit]] = {}

    @classmethod
    def of(cls, mode: str, target: str = DEFAULT_TARGET, **options: Any) -> "Host":
        """A host in the mode of a name, with `HostOptions`. Raises GeError for an unknown one."""
        if mode == ALL:
            raise GeError(f"a host has one dispatch mode, not '{ALL}'")
        return cls(modes(mode)[0], Target.load(target), HostOptions.of(options))

    def call(
        self, program: HostProgram, inputs: Mapping[str, Any] | None = None, timed: bool = True
    ) -> Called:
        """Run a program on inputs, if there are any, and simulate its time. Raises GeError for a
        program that cannot be computed or timed."""
        call = _ProgramCall(self, program)
        outputs: dict[str, Array] = {}
        if inputs is not None:
            if program.session is None:
                raise GeError("the program has no session, its numbers are not known")
            driver = None if self.mode.name == SUNK else call.drive
            outputs = program.session.run(inputs, driver=driver)
        if not timed:
            return Called(outputs, None, call.schedules, call.counts)
        rows = program.rows if program.session is None else program.session.rows
        if self.mode.name == SUNK:
            timeline = simulate(program.module, self.target, program.gear, rows=rows)
            if program.is_new:
                call.binding_us = first_run_us(program.module, self.target)
                timeline.first_us = sum(call.binding_us.values())
        else:
            clock = HostClock(program.module, self.target, call.plan)
            clock.taken, clock.rows = program.gear, rows
            timeline = clock.main(program.module)
            timeline.host_threads = self.mode.threads
        return Called(outputs, timeline, call.schedules, call.counts, call.binding_us)

    def expect_growth(self, small: HostProgram, large: HostProgram) -> None:
        """State that calls differ in size as these two programs do: sizes that differ are no part
        of the keys of tilings."""
        both = [
            [unit for ops in epochs(program) for unit in self.units(program, ops)]
            for program in (small, large)
        ]
        mark_growing(*both)

    def units(self, program: HostProgram, ops: Sequence[Operation]) -> Sequence[HostUnit]:
        known = self._units.get(ops[0])
        if known is None or not self.mode.cached:
            leaves = program.leaves.of(ops)
            graphs = self.mode.graphs
            find = self.operations
            known = find.graphs(leaves) if graphs else find.alone(leaves, not self.mode.cached)
            self._units[ops[0]] = known
        return known


class _ProgramCall:
    def __init__(self, host: Host, program: HostProgram) -> None:
        self.host, self.program = host, program
        self.counts = Counts()
        self.schedules: list[HostSchedule] = []
        self.binding_us: Mapping[HostWork, float] = {}
        self._known: dict[Operation, HostSchedule] = {}

    def drive(self, run_until: Callable[[Operation | None], None]) -> None:
        """Have the threads run the program's ops."""
        for ops in epochs(self.program):
            self._known[ops[0]] = self._dispatch(ops, run_until)

    def plan(self, ops: Sequence[Operation]) -> HostSchedule:
        known = self._known.get(ops[0])
        return self._dispatch(ops, None) if known is None else known

    def _dispatch(
        self, ops: Sequence[Operation], perform: Callable[[Operation | None], None] | None
    ) -> HostSchedule:
        host = self.host
        units = host.units(self.program, ops)
        waits = bool(self.schedules)
        facts = (host.mode, units, host.context, host.target, self.counts, perform, waits)
        if host.mode.captured:
            # Captured tasks belong to a place in the program, whatever its size
            schedule = CapturedCall(*facts).run_with(host.captured, len(self.schedules))
        else:
            schedule = Call(*facts).run()
        self.schedules.append(schedule)
        if host.options.sanitize and not isinstance(ops[-1], YieldOp):
            require_sound(schedule, ops)
        return schedule


def require_sound(schedule: HostSchedule, ops: Sequence[Operation]) -> None:
    """Raises GeError for a schedule that is not proved."""
    if problems := host_problems(schedule, _from_to(ops[0], ops[-1])):
        raise GeError(f"the host's queues are not safe: {listing(problems)}")


def _from_to(first: Operation, last: Operation) -> Iterator[Operation]:
    op: Operation | None = first
    while op is not None:
        yield op
        op = None if op is last else op.next_op


def epochs(program: HostProgram) -> list[list[Operation]]:
    """The tasks of the program that are outside of control flow, from barrier to barrier."""
    epochs: list[list[Operation]] = [[]]
    for item in stated(program.block):
        if isinstance(item, Issue):
            epochs[-1].append(item.op)
        else:
            epochs.append([])
    return [ops for ops in epochs if ops]


def call_figures(called: Called) -> dict[str, Any]:
    """Stable keys, for reports. `idle_us` is of the device, before each launch, by cause; that for
    the host has a part before the first launch, and the rest is between launches."""
    counts, idle = called.counts, called.idle_us
    return {
        "latency_us": called.latency_us,
        "host_us": called.host_us,
        "idle_us": idle,
        "idle_for_host_us": sum(idle[cause] for cause in HOST_CAUSES),
        "idle_at_start_us": called.idle_at_start_us,
        "setups": counts.setups,
        "setups_skipped": counts.skipped,
        "tilings": {**counts.found, "patched": counts.patched},
        "captures": counts.captures,
        "refused": counts.refused,
        "replays": counts.replays,
        "updates": counts.updates,
    }


def sums(calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of several calls together."""
    total: dict[str, Any] = {}
    for call in calls:
        for key, value in call.items():
            if isinstance(value, Mapping):
                total[key] = sums([total.get(key, {}), value])  # pyright: ignore
            else:
                total[key] = total.get(key, 0) + value
    return total


GROUPS = (*[""] * 3, "host:", *[""] * 6, "idle:", *[""] * 6, "kernels:", *[""] * 4)
COLUMNS = (
    "mode", "call", "latency us", "us", "setup", "tiling", "args", "launch", "copy", "sync",
    "us", "setup", "tiling", "args", "launch", "copy", "sync", "set up", "skipped",
    "local", "global", "miss",
)  # fmt: skip


def modes_table(calls: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """A table with a row for each mode and call: the time of its end; the time of the host threads,
    and the time for which the device waited for them, by their work; the numbers of setups, of
    skipped ones, and of lookups of tilings."""
    rows: list[Sequence[str]] = [GROUPS, COLUMNS]
    for mode, figures in calls.items():
        for number, call in enumerate(figures, 1):
            host, idle, tilings = call["host_us"], call["idle_us"], call["tilings"]
            times = [call["latency_us"], sum(host.values()), *(host[c] for c in HOST_CAUSES)]
            times += [call["idle_for_host_us"], *(idle[c] for c in HOST_CAUSES)]
            numbers = [call["setups"], call["setups_skipped"]]
            numbers += [tilings[c] for c in ("local", "global", "miss")]
            texts = [f"{us:,.1f}" if us else "-" for us in times]
            rows.append([mode, str(number), *texts, *map(_count, numbers)])
    return aligned(rows)


STEP_COLUMNS = (
    "mode", "total us", "tokens/s", "host us", "idle us", "setups", "skipped", "hits", "patched",
    "miss", "captures", "refused", "updates",
)  # fmt: skip


def steps_table(steps: Mapping[str, Mapping[str, Any]]) -> str:
    """A row for each mode: all steps together."""
    rows: list[Sequence[str]] = [STEP_COLUMNS]
    for mode, s in steps.items():
        tilings = s["tilings"]
        hits = tilings["local"] + tilings["global"]
        times = (s["latency_us"], s["tokens_per_s"], sum(s["host_us"].values()))
        counts = (
            s["setups"], s["setups_skipped"], hits, tilings["patched"], tilings["miss"],
            s["captures"], s["refused"], s["updates"],
        )  # fmt: skip
        texts = [f"{us:,.1f}" if us else "-" for us in (*times, s["idle_for_host_us"])]
        rows.append([mode, *texts, *map(_count, counts)])
    return aligned(rows)


def _count(number: int) -> str:
    return str(number) if number else "-"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need; the first one is text, the others numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
