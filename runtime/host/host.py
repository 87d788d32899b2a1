"""A host that calls programs in one of the modes: numbers, time, and what the call came to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ge.dialects.npu_task.control import YieldOp
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
from ge.runtime.host.captured import CapturedCall, CapturedTasks
from ge.runtime.host.context import Context
from ge.runtime.host.dispatch import Call, Counts
from ge.runtime.host.first_run import first_run_us
from ge.runtime.host.host_clock import (
    CAUSES,
    HOST_CAUSES,
    HostClock,
    cause_of,
    first_launch,
    idle_gaps,
)
from ge.runtime.host.kernel_cache import KernelCaches
from ge.runtime.host.modes import ALL, SUNK, Mode, modes
from ge.runtime.host.options import DEFAULTS, HostOptions
from ge.runtime.host.program import HostUnit, Leaves, Operations, mark_growing
from ge.runtime.host.schedule import HostSchedule, HostWork


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
    """What one call came to."""

    outputs: dict[str, Array]
    timeline: Timeline | None
    schedules: list[HostSchedule]
    counts: Counts  # of this call
    binding_us: Mapping[HostWork, float] = field(default_factory=dict[HostWork, float])
    """Of a sunk program at new sizes: the host's time before it, by what the host does."""

    @property
    def latency_us(self) -> float:
        """Until the call ends, where it was timed."""
        device_us = 0.0 if self.timeline is None else self.timeline.latency_us
        return device_us + sum(self.binding_us.values())

    @property
    def host_us(self) -> dict[str, float]:
        """The time of all threads by what they do, where the call was timed."""
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
        """For how long the device waits for the host before the first launch: no other task can
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
        """Run a program on inputs, if there are any, and simulate its time. Raises GeError for
        what cannot be computed or timed."""
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
        """State that calls differ in size as these two programs do: what differs is no part of the
        keys of tilings."""
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
