"""A call of a program in one of the modes: real setups, caches, buffers and threads; the schedule
that the clock times is what each thread did, and what it waited for.

A unit is set up (`setup`: checks, shapes, tilings), made ready (`prelaunch`: arguments, and a copy
of its tilings where the device does not have them any more), and launched (`launch`). The modes
differ in their units, in how many threads do the three, and in what they keep for the next call.

Several threads. As long as there is nothing to set up, the first thread has time: when it has
handed a unit over it asks for the copies to the device that wait for nothing but each other, which
then do not hold up launches. What follows them in the program is issued after them, or it would not
wait for them.

Buffers. Tilings are in blocks of a ring, which a unit takes when it is set up; before a block is
overwritten, the launches that read it have to be done. Arguments are in two buffers, in turn:
before one is filled again, the launches from it have to be issued.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation

from ge.dialects.npu_task.attributes import HOST, space_of
from ge.dialects.npu_task.ops import BatchCopyOp, CopyOp, RecordOp, TransferOp
from ge.dialects.targets.target import Target
from ge.runtime.host.context import TILING_BYTES, Context, Found
from ge.runtime.host.operation import SetupOutcome
from ge.runtime.host.program import HostUnit
from ge.runtime.host.schedule import (
    EARLIER,
    Block,
    HostSchedule,
    HostTask,
    HostWork,
    Mode,
    TilingCopy,
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
