"""Simulated times of a program's tasks: a discrete-event simulation of streams, events and engines.

- A stream is a queue: a task starts after the one before it on its stream. A wait holds the tasks
  after it back until all that was issued before the record is done.
- A task that may start is launched (`launch_us` for a task in the device's queue) and starts when
  enough cores of its engine are free, first come first served. A cube kernel with vector work
  holds the vector cores of its clusters as well.
- Inside branches and loops the host issues tasks one after the other, `host_launch_us` each, from
  the moment that it knows which way to go; a task does not start before it is issued. All streams
  are idle before and after a branch and between iterations.
- `Launched` asks what a task takes in isolation, with what L2 has of its operands when it is
  issued (`traffic.py`). Tasks that run together share the bandwidths of HBM and L2
  (`simulation.py`).
- Where the host takes a branch by the sizes of inputs, its tasks are in the device's queue.
- Of a branch the longest side counts, and what it leaves in L2. A loop counts as often as its
  constant trip count says, each iteration like the first; without one it counts once.
  `Timeline.notes` says where that happened.

Idle time is that of the busiest of the two compute engines, by what went on meanwhile: the other
one computed (`compute`), only copies ran (`memory`), devices sent each other something and nothing
else ran (`communication`), a launch was under way (`schedule`), or nothing of these (`sync`: issue
by the host, barriers).

A kernel that is given the number of keys is timed in another form.

    npu_task.kernel @attention_0 on cube ... {
    ^bb0(%0: ..., %1: tensor<1x4x64x16xf32>, %2: tensor<i64>):
      graph.attention %0, %1, %1 length %2 ...
with 5 rows is timed as
    ^bb0(%0: ..., %1: tensor<1x4x5x16xf32>, %2: tensor<i64>):
      graph.attention %0, %1, %1 length %2 ...

That they take a part of the time for all keys, as their bytes are, is an assumption, and so is that
rows in blocks are read as fast as rows in order. Other kernels compute all rows of what
grows.

Launches of a kernel share what does not depend on the operands that L2 holds."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.fused_op import Body, FusedOp
from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.stated import growing_symbol
from ge.dialects.npu_task import ops as task
from ge.dialects.npu_task.attributes import GROWS, HBM, HOST, Engine, space_of
from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp, YieldOp
from ge.dialects.npu_task.memory import ByteRegions, RegionHistory, moves, trips
from ge.dialects.npu_task.ops import KernelOp, LaunchOp, SlotOp
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import functions
from ge.dialects.support.tensor_op import TensorOp, split_axes
from ge.dialects.support.types import (
    align_up,
    byte_size,
    element_type,
    is_dynamic,
    set_type,
    shape_of,
    tensor,
)
from ge.dialects.targets.target import Target
from ge.runtime.clock.issue import Issue, IssueQueue
from ge.runtime.clock.simulation import Simulation
from ge.runtime.clock.timeline import (
    COMM,
    COMPUTE,
    COPY,
    DMA_IN,
    DMA_OUT,
    Task,
    Timeline,
    capacities,
)
from ge.runtime.clock.traffic import Moved, Traffic, bytes_read
from ge.runtime.library.asking import estimated_times, plain_figures
from ge.runtime.library.costs.collectives import collective_us
from ge.runtime.library.costs.estimates import (
    HOST_OPS_PER_US,
    CoreTime,
    CoreTimes,
    Figures,
    TaskTime,
    copy_times,
    hbm_bytes_per_us,
    link_time,
)
from ge.runtime.library.costs.l2 import L2Cache
from ge.runtime.library.costs.structure import by_structure


def room_for_rows(main: FuncOp) -> int | None:
    """Number of rows for which a program's growing states have room; None if no state grows."""
    sizes = [
        shape_of(op.result)[axis.value.data]
        for op in main.body.block.ops
        if isinstance(op, SlotOp) and isinstance(axis := op.attributes.get(GROWS), IntegerAttr)
    ]
    return min(sizes, default=None)


def rows_read(main: FuncOp, rows: int | None) -> tuple[int, str] | None:
    """Number of rows of its states that a program reads, and a text that says so; None if no state
    grows. Raises GeError for more rows than there are."""
    symbol, most = growing_symbol(main), room_for_rows(main)
    if symbol is None or most is None:
        return None
    if rows is not None and not 0 < rows <= most:
        raise GeError(f"a run reads from 1 to {most} rows of '{symbol}', not {rows}")
    what = ", as where the states are full" if rows is None else ""
    return rows or most, f"attention reads {rows or most} of {most} rows of '{symbol}'{what}"


def attentions(kernel: KernelOp) -> list[AttentionOp]:
    return [op for op in kernel.walk() if isinstance(op, AttentionOp) and op.length is not None]


def with_rows(kernel: KernelOp, rows: int) -> KernelOp:
    """A clone (not inserted) whose attention has so many keys."""
    clone = kernel.clone()
    for op in attentions(clone):
        for name in op.KEYED:
            narrow(getattr(op, name), op.dimension(name, 2), rows)
        for mask in op.masks:
            narrow(mask, len(shape_of(mask)) - 1, rows)
    return clone


def narrow(value: SSAValue, axis: int, rows: int) -> None:
    """Give a value so many rows, and the values that it is computed from."""
    shape = list(shape_of(value))
    if shape[axis] <= rows:
        return
    owner = value.owner
    axes = split_axes(owner, axis) if isinstance(owner, Operation) else None
    shape[axis] = rows
    set_type(value, tensor(shape, element_type(value)))
    if isinstance(owner, Block):
        fused = owner.parent_op()
        if isinstance(fused, FusedOp):
            narrow(fused.inputs[owner.args.index(value)], axis, rows)
        return
    for operand, its in zip(owner.operands, axes or (), strict=False):
        if its is not None:
            narrow(operand, its, rows)


STEPS = 16  # of what L2 holds of an operand


@dataclass
class Launched:
    """Facts that all launches of a kernel share."""

    # How many it has: the first operands of a launch are inputs, what follows, and results, outputs
    inputs: int
    outputs: int
    engine: str
    # How many of which engine; a kernel on the cube cores with an epilogue takes the vector cores
    # of their clusters too
    cores: tuple[tuple[str, int], ...]
    reads: list[tuple[int, int]]  # operand indices, and bytes read of each
    writes: list[int]  # bytes of each output, where it lies in an input's memory
    core: CoreTimes | None = None  # of its tile program, or of the one that it would have
    alone: TaskTime | None = None  # of what runs on no core
    plain: Callable[[], Figures] | None = None  # what a plain loop over elements takes
    lacks: str = ""  # why its tile program does not say the time, so that it is that of such a loop
    times: dict[Moved, TaskTime] = field(default_factory=dict[Moved, TaskTime])

    @classmethod
    def of(cls, kernel: KernelOp, target: Target, core: CoreTimes | None = None) -> "Launched":
        """`core`: of its tile program. Of unknown sizes neither `core` nor `alone` is known."""
        inputs, outputs = len(kernel.body.block.args), len(kernel.output_types)
        engine = DMA_IN if kernel.engine.data is Engine.DMA else kernel.engine.data.value
        if engine not in COMPUTE or kernel.engine.data is Engine.HOST:
            alone = time_alone(kernel, target)
            return cls(inputs, outputs, engine, ((engine, 1),), [], [], alone=alone)
        core = core or estimated_times(Body.of(kernel.main), target)
        if core is None:
            return cls(inputs, outputs, engine, ((engine, 1),), [], [])
        reads, writes, engine = list(bytes_read(kernel)), kernel.bytes_written(), core.cores[0][0]
        capacity = capacities(target)
        cores = tuple((name, min(count, capacity[name])) for name, count in core.cores)
        plain = partial(plain_figures, Body.of(kernel.main), target)
        return cls(inputs, outputs, engine, cores, reads, writes, core, plain=plain)

    def of_rows(self, told: KernelOp) -> "Launched":
        """The facts of launches that read fewer keys, as `told` has them. That time is in
        proportion to the bytes that are read is an assumption."""
        reads, whole = list(bytes_read(told)), self.core
        if whole is None:
            return self
        part = sum(size for _, size in reads) / max(sum(size for _, size in self.reads), 1)

        def time(held: tuple[float, ...]) -> CoreTime:
            start, *others = whole.time(held)
            return CoreTime(start, *[us * part for us in others])

        core = CoreTimes(whole.cores, time, lambda: int(whole.moved() * part), estimated=True)
        return replace(self, reads=reads, writes=told.bytes_written(), core=core, times={})

    def time(self, moved: Moved, target: Target) -> TaskTime:
        if (time := self.times.get(moved)) is None:
            assert self.core is not None
            held = self.held(moved)
            try:
                core = self.core.time(held)
            except GeError as e:  # what the program needs is no fact of the target
                assert self.plain is not None
                self.lacks, core = f"{e.where}: {e.message}", self.plain().time(held)
            time = self.times[moved] = task_time(core, self.core, moved, self.reads, held, target)
        return time

    def least_us(self, target: Target, count: int) -> float:
        """Return what one of `count` pieces takes at least, without its launch: a start, and its
        share of the rest, where L2 holds all operands. 0 where the time is not known."""
        start, whole = 0.0, 0.0
        if self.core is not None:
            with suppress(GeError):  # what the program needs is no fact of the target
                start, rest, *_ = self.core.time((1.0,) * self.inputs)
                whole = start + rest
        elif self.alone is not None:
            start, whole = 0.0, self.alone.total_us
            if self.engine == COMM and target.cluster is not None:
                start = target.cluster.start_us
        return start + (whole - start) / count

    def held(self, moved: Moved) -> tuple[float, ...]:
        """The parts of the operands that L2 holds, in steps of a sixteenth."""
        held = [0.0] * self.inputs
        for (index, size), hits in zip(self.reads, moved.parts, strict=True):
            held[index] = STEPS * hits // size / STEPS if size else 0.0
        return tuple(held)


def task_time(
    core: CoreTime,
    times: CoreTimes,
    moved: Moved,
    reads: list[tuple[int, int]],
    held: tuple[float, ...],
    target: Target,
) -> TaskTime:
    """The time of a launch whose operands L2 has in part: that of its busiest core, and not less
    than that of the bytes that cross HBM."""
    read = sum(size for _, size in reads)
    crossing = max(read - moved.hits, 0) + moved.evicted
    hbm_us = crossing / hbm_bytes_per_us(times.cores[0][1], target)
    return TaskTime(
        core.cube_us,
        core.vector_us,
        core.load_us,
        core.store_us,
        core.start_us + max(core.core_us, hbm_us),
        crossing,
        times.moved(),
        core.start_us,
        hbm_us,
        held,
        moved.hits / max(read, 1),
        times.estimated,
    )


def time_alone(kernel: KernelOp, target: Target) -> TaskTime | None:
    """Time of a kernel of the host, of a transfer or a collective; None while a shape is
    dynamic."""
    body = Body.of(kernel.main)
    if not body.is_static or (work := body.work()) is None:
        return None
    if kernel.engine.data is Engine.DMA:
        return link_time(work.read, target)
    if kernel.engine.data is Engine.COMM:
        us = collective_us(kernel.main, target)
        return TaskTime(in_us=us, total_us=us, bytes=work.read + work.written)
    us = (work.macs + max(work.vector, 1)) / HOST_OPS_PER_US
    return TaskTime(vector_us=us, total_us=us)


_Key = tuple[Engine, Target, int | None, CoreTimes | None]

# A scheduler and a session simulate the same kernels again and again; bodies do not change
_known: WeakKeyDictionary[KernelOp, dict[_Key, Launched]] = WeakKeyDictionary()


def launched(
    kernel: KernelOp,
    target: Target,
    rows: int | None = None,
    core: CoreTimes | None = None,
) -> Launched:
    """The facts that all launches of a kernel share, worked out once. `rows`: the number of keys,
    for kernels that are given it. `core`: the times of its tile program."""
    if rows is not None and not attentions(kernel):
        rows = None
    key = (engine := kernel.engine.data), target, rows, core
    known = _known.setdefault(kernel, {})
    if key not in known:
        # the time of a collective depends on the mesh, which its kernel does not state
        make = Launched.of if engine is Engine.COMM else partial(_launched, engine=engine)
        whole = make(kernel, target=target, core=core)
        known[key] = whole if rows is None else whole.of_rows(with_rows(kernel, rows))
    return known[key]


@by_structure
def _launched(kernel: KernelOp, engine: Engine, target: Target, core: CoreTimes | None) -> Launched:
    return Launched.of(kernel, target, core)


TASKS = (LaunchOp, task.CopyOp, task.BatchCopyOp, task.TransferOp)  # what runs on a stream

# What only names memory: most ops of a program
PASSIVE = {task.SlotOp, task.ConstantOp, ReinterpretCastOp, AllocOp}


class UnknownShapes(GeError):
    """A program cannot be timed because shapes are known only at run time."""


class TaskBuilder:
    """The tasks of an epoch (those issued between two barriers), with the tasks that each waits
    for."""

    def __init__(self, regions: ByteRegions) -> None:
        self.tasks: list[Task] = []
        self._of: dict[Issue, Task] = {}
        self._last: dict[int, Task] = {}
        self._regions, self._history = regions, RegionHistory[Task]()

    def add(
        self,
        issue: Issue,
        engine: str,
        cores: tuple[tuple[str, int], ...],
        time: TaskTime,
        reads: Iterable[SSAValue],
        writes: Iterable[SSAValue],
        kernel: KernelOp | None = None,
    ) -> None:
        events = [self._of[w] for w in issue.waits if w in self._of]
        last = self._last.get(issue.stream)
        reads, writes = tuple(reads), tuple(writes)
        new = self._of[issue] = self._last[issue.stream] = Task(
            op=issue.op,
            kind=COPY if kernel is None else kernel.sym_name.data,
            engine=engine,
            stream=issue.stream,
            cores=cores,
            time=time,
            kernel=kernel,
            reads=tuple(v.type for v in reads),
            writes=tuple(v.type for v in writes),
            after=events if last is None else [*events, last],
            events=events,
            needs=self.needed(reads),
        )
        for region in map(self._regions.of, writes):
            self._history.write(region, new)
        self.tasks.append(new)

    def needed(self, reads: Iterable[SSAValue]) -> list[Task]:
        """The tasks that wrote these buffers: no schedule can do without these dependencies. That
        the memory plan has buffers written again, or share bytes, is ignored."""
        writers = map(self._history.writers, map(self._regions.of, reads))
        return list(dict.fromkeys(chain.from_iterable(writers)))

    def again(self, issue: Issue, task: Task, time: TaskTime) -> None:
        """Add a task as it was in an epoch of the same tasks, on another stream perhaps."""
        events = [self._of[w] for w in issue.waits if w in self._of]
        last = self._last.get(issue.stream)
        new = task.again(issue.stream, time, events if last is None else [*events, last], events)
        self._of[issue] = self._last[issue.stream] = new
        self.tasks.append(new)


def stated(block: Block) -> Iterator[Issue | Operation]:
    """The tasks that the host issues in a block by the streams and events of the IR, and control
    flow, before which all tasks end. Raises GeError for ops that are no part of a program."""
    queue = IssueQueue()
    for op in block.ops:
        if type(op) in PASSIVE:
            continue
        if isinstance(op, TensorOp) or (isinstance(op, TASKS) and op.stream is None):
            what = "fixed on a stream" if isinstance(op, TASKS) else "a task"
            hint = "compile it with ge-compile first"
            raise GeError(f"{op.name} is not {what}: not a program", str(location_of(op)), hint)
        if (issue := queue.add(op)) is not None:
            yield issue
        elif isinstance(op, IfOp | CaseOp | LoopOp | YieldOp):
            queue = IssueQueue()
            yield op


class ProgramClock:
    """A program as nested sequences of tasks."""

    def __init__(
        self,
        module: ModuleOp,
        target: Target,
        issued: Mapping[Block, Sequence[Issue | Operation]] | None = None,
        absent: Collection[Operation] = (),
        rows: int | None = None,
        tiles: Mapping[str, CoreTimes] | None = None,
    ) -> None:
        """`issued`: the schedule, what the host issues in each block; None: that of the IR.
        `absent`: tasks that do not run. `rows`: how many attention reads of states that grow; None:
        all. `tiles`: what kernels take, by estimate; None: what their tile programs take."""
        self.target, self.issued, self.absent, self.rows = target, issued, absent, rows
        self.kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
        self.tiles = tiles or {}
        if tiles is None and any(kernel.tiles is not None for kernel in self.kernels.values()):
            from ge.runtime.cores.report import core_times  # compilers have no use for it

            self.tiles = core_times(module, target)
        self.notes: list[str] = []
        self.regions = ByteRegions()
        self.traffic = Traffic(target.l2_bytes, self.regions)
        # Of branches that the host takes by the sizes of inputs the one that counts, and all times
        self.taken: int | None = None
        self.branches: list[Timeline] = []
        self._known: dict[str, Launched] = {}
        self._unknown: list[Operation] = []
        # Task -> its time where L2 holds what it does now
        self._timed: dict[Operation, Callable[[], TaskTime]] = {}

    def main(self, module: ModuleOp) -> Timeline:
        main = functions(module).get("main")
        if main is None or not main.body.blocks:
            raise GeError("the module has no function @main")
        if (read := rows_read(main, self.rows)) is not None:
            self.rows, note = read
            self.notes.append(note)
        timeline = self.block(main.body.block, host_driven=False)
        lacking: dict[str, list[str]] = {}
        for name, known in self._known.items():
            if known.lacks:
                lacking.setdefault(known.lacks, []).append(name)
        for lack, (name, *others) in lacking.items():
            who = f"{name} and {len(others)} more kernels are" if others else f"{name} is"
            self.notes.append(f"{who} timed as a plain loop over elements, as {lack}")
        timeline.notes = self.notes
        if self._unknown:
            names = (name for op in self._unknown if (name := str(location_of(op))))
            hint = "fix the model's shapes with --shape, --dim or --inputs"
            if self.taken is not None:
                hint = "these sizes are of no gear, and the fallback cannot be timed"
            raise UnknownShapes(
                f"{len(self._unknown)} tasks have shapes that are known only at run time, "
                f"the first is {next(names, self._unknown[0].name)}",
                hint=hint,
            )
        return timeline

    def block(self, block: Block, host_driven: bool) -> Timeline:
        """The timeline of a block: simulated piece by piece, since control flow waits for all tasks
        issued before. Raises GeError for ops that are no part of a program."""
        result = Timeline(self.target)
        builder = TaskBuilder(self.regions)
        for item in stated(block) if self.issued is None else self.issued.get(block, ()):
            if isinstance(item, Issue):
                self.add(builder, item)
                continue
            result.append(self.run(builder, host_driven))
            builder = TaskBuilder(self.regions)
            if isinstance(item, IfOp | CaseOp):
                result.append(*self.branch(item))
            elif isinstance(item, LoopOp):
                result.append(*self.loop(item))
            elif isinstance(item, YieldOp):
                self.carry(builder, item)
        result.append(self.run(builder, host_driven))
        return result

    def in_isolation(self, issues: Sequence[Issue], before: Timeline | None = None) -> Timeline:
        """Timeline of tasks, without notes of what engines do meanwhile. `before`: a timeline of
        the same tasks, in another order or on other streams, whose bounds hold for any schedule of
        them."""
        self.traffic.cache = L2Cache(self.target.l2_bytes)
        builder = TaskBuilder(self.regions)
        if before is None:
            for issue in issues:
                self.add(builder, issue)
            return self.run(builder, host_driven=False, is_accounted=False)
        tasks = {t.op: t for t in before.tasks}
        same_order = all([i.op is t.op for i, t in zip(issues, before.tasks, strict=True)])
        for issue in issues:
            task = tasks[issue.op]
            builder.again(issue, task, task.time if same_order else self._timed[issue.op]())
        bounds = before.lower_bound_us, before.path_us
        return self.run(builder, False, False, bounds)

    def run(
        self,
        builder: TaskBuilder,
        host_driven: bool,
        is_accounted: bool = True,
        bounds: tuple[float, float] | None = None,
    ) -> Timeline:
        return Simulation(builder.tasks, self.target, host_driven, is_accounted).run(bounds)

    def add(self, builder: TaskBuilder, issue: Issue) -> None:
        op = issue.op
        if op in self.absent:
            return
        if isinstance(op, LaunchOp):
            self.launch(builder, issue, op)
        elif isinstance(op, task.BatchCopyOp):
            self.batch_copy(builder, issue, op)
        else:
            self.copy(builder, issue, op.operands[0], (*op.operands, *op.results)[1])

    def launched(self, name: str) -> Launched:
        """Return the facts that all launches of a kernel share."""
        if (known := self._known.get(name)) is None:
            kernel = self.kernels[name]
            core = None if kernel.tiles is None else self.tiles.get(kernel.tiles.data)
            known = self._known[name] = launched(kernel, self.target, self.rows, core)
        return known

    def launch(self, builder: TaskBuilder, issue: Issue, op: LaunchOp) -> None:
        if op.callee not in self.kernels:
            raise GeError(f"there is no kernel @{op.callee}", str(location_of(op)))
        known = self.launched(op.callee)
        kernel, operands = self.kernels[op.callee], op.operands
        ins = operands[: known.inputs]
        writes = (*operands[known.inputs :], *op.results)
        if len(writes) != known.outputs:
            text = f"operands or results differ from those of @{op.callee}"
            raise GeError(text, str(location_of(op)), "see pass verify-level{level=program}")
        alone = known.alone
        if known.core is None and alone is None:
            self._unknown.append(op)
            return
        if alone is None:
            accesses = self.traffic.launch(ins, known.reads, writes, known.writes)

            def timed() -> TaskTime:
                return known.time(self.traffic.moved(accesses), self.target)
        else:

            def timed() -> TaskTime:
                return self.moved(writes, alone)

        time = self.timed(op, timed)
        builder.add(issue, known.engine, known.cores, time, ins, writes, kernel)

    def timed(self, op: Operation, time: Callable[[], TaskTime]) -> TaskTime:
        self._timed[op] = time
        return time()

    def moved(self, values: Iterable[SSAValue], time: TaskTime) -> TaskTime:
        """The time of a task that writes some buffers past L2."""
        for value in values:
            self.traffic.transfer(value)
        return time

    def copy(self, builder: TaskBuilder, issue: Issue, source: SSAValue, to: SSAValue) -> None:
        try:
            size = byte_size(source.type if is_dynamic(to.type) else to.type)
        except ValueError:
            self._unknown.append(issue.op)
            return
        spaces = [getattr(v.type, "memory_space", None) for v in (source, to)]
        if HOST in spaces and spaces[0] != spaces[1]:
            engine = DMA_IN if spaces[0] == HOST else DMA_OUT
            link = link_time(size, self.target)
            time = self.timed(issue.op, lambda: self.moved((to,), link))
            builder.add(issue, engine, ((engine, 1),), time, (source,), (to,))
            return
        times = copy_times(size, self.target)
        accesses = self.traffic.copy(source, to)

        def timed() -> TaskTime:
            moved = self.traffic.moved(accesses)
            held = (moved.hits / size if size else 0.0,)
            return task_time(times.time(held), times, moved, [(0, size)], held, self.target)

        time = self.timed(issue.op, timed)
        builder.add(issue, "vector", times.cores, time, (source,), (to,))

    def batch_copy(self, builder: TaskBuilder, issue: Issue, op: task.BatchCopyOp) -> None:
        """Add one transfer of all buffers, with the gaps between them on the device."""
        alignment = self.target.hbm_alignment
        size = sum(align_up(byte_size(v.type), alignment) for v in op.on_device)
        link = link_time(size, self.target)
        time = self.timed(op, lambda: self.moved(op.targets, link))
        engine = DMA_IN if space_of(op.targets[0].type) == HBM else DMA_OUT
        builder.add(issue, engine, ((engine, 1),), time, op.sources, op.targets)

    def carry(self, builder: TaskBuilder, op: YieldOp) -> None:
        for value, place, row in moves(op):
            if place is None or row:
                continue
            if self.regions.of(value) != self.regions.of(place):
                self.copy(builder, Issue(op, 0, []), value, place)

    def branch(self, op: IfOp | CaseOp) -> tuple[Timeline, int]:
        before = self.traffic.cache
        by_device = not (isinstance(op, CaseOp) and op.is_decided_by_host)
        sides: list[tuple[Timeline, L2Cache]] = []
        for region in op.regions:
            self.traffic.cache, count = before.copy(), len(self._unknown)
            timeline = self.block(region.block, host_driven=by_device)
            if not by_device and self.taken != len(sides):
                del self._unknown[count:]  # of sizes that no gear has: another branch counts
            sides.append((timeline, self.traffic.cache))
        if not by_device:
            self.branches = [timeline for timeline, _ in sides]
        chosen = self.taken if not by_device and self.taken is not None else None
        if chosen is not None:
            longest, self.traffic.cache = sides[chosen]
            return longest, 1
        longest, self.traffic.cache = max(sides, key=lambda side: side[0].latency_us)
        self.note_longest(op)
        return longest, 1

    def note_longest(self, op: IfOp | CaseOp) -> None:
        what = "longest" if len(op.regions) > 2 else "longer"
        self.notes.append(f"{str(location_of(op)) or op.name}: the {what} branch is counted")

    def loop(self, op: LoopOp) -> tuple[Timeline, int]:
        """The timeline of one iteration, and how many there are (1 where that is not known)."""
        body = self.block(op.body.block, host_driven=True)
        least, most = trips(op)
        if least != most:
            self.notes.append(f"{str(location_of(op)) or op.name}: one iteration is counted")
        elif least > (count := body.shown(body, least)):
            shown = f"{count} of {least} iterations"
            self.notes.append(f"{str(location_of(op)) or op.name}: trace and summary show {shown}")
        return body, least if least == most else 1


def simulate(
    module: ModuleOp,
    target: Target,
    taken: int | None = None,
    absent: Collection[Operation] = (),
    rows: int | None = None,
) -> Timeline:
    """Timeline of a program's tasks, except `absent` ones. Attention reads so many `rows` of states
    that grow, by default all. The time of a kernel is that of its tile program if the program can
    run unchanged on the target, and an estimate otherwise: `Timeline.machine` says which. Raises
    GeError for a module that is no program and for one whose shapes are known only at run time."""
    clock = ProgramClock(module, target, absent=absent, rows=rows)
    clock.taken = taken
    return clock.main(module)
