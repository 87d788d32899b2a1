"""Recompute values before their later uses instead of keeping them live.

    %0 = npu_task.launch @exp_0 ins(%x : ...) ...             (100 MB)
    %1 = npu_task.launch @sum_0 ins(%0 : ...) ...             (1 KB)
    %2 = ...                                                  (the memory peak)
    %3 = npu_task.launch @mul_0 ins(%0, %2 : ...) ...
becomes
    %0 = npu_task.launch @exp_0 ins(%x : ...) ...
    %1 = npu_task.launch @sum_0 ins(%0 : ...) ...
    %2 = ...
    %4 = npu_task.launch @exp_0 ins(%x : ...) ...
    %3 = npu_task.launch @mul_0 ins(%4, %2 : ...) ...

Only launches of pure kernels of known cost are repeated:
nothing random, no branch or loop, no dynamic shape. `npu_task.recomputed` of the function is the
number of repeated launches. Run `order-tasks` before: the order of the tasks stays.

Plans come from simulating execution under a memory budget. The tasks run in program order. A task
whose results do not fit *evicts* buffers; a task that reads evicted buffers runs the tasks that
recompute them first, each once, in program order. A recomputed buffer stays for its other uses
until it is evicted again. This is dynamic tensor rematerialization (Kirisame et al., arXiv
2006.09616) with known later uses:

- the buffer is evicted whose recomputation costs the least for the memory and time that it frees:

      microseconds to recompute it from what is live / (bytes * tasks until its next use ^ e)

  so cheap, large, long unused buffers go first. A buffer that needs a long chain of evicted ones
  stays: this leaves checkpoints between segments (Chen et al., arXiv 1604.06174);
- a buffer dies after its last use, unless an evicted one is recomputed from it.

Bisection finds the smallest budget within the allowed time, for several e, and counting runs that
serve several evicted buffers each time or once; the plan of the least peak is chosen. A buffer is
never evicted if a task of unknown cost would have to run again for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import product
from math import inf

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import NoMemoryEffect

from ge.dialects.npu_task.attributes import RECOMPUTED, number
from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.targets.target import Target, target_for
from ge.runtime.library.asking import launch_us
from ge.transforms.analysis.dependencies import erase_unused
from ge.transforms.analysis.task_graph import TaskGraph
from ge.transforms.analysis.views import storage, view_offsets
from ge.transforms.memory.order_tasks import task_graph
from ge.transforms.rewriting.passes import TargetPass

EXPONENTS = (0.0, 0.5, 1.0)  # of the time until the next use

BISECTIONS = 8  # budgets for each exponent

LONGEST = 128  # tasks that recompute one buffer

LEAST = 0.01

WORTH = 1.0
"""Without a limit, a plan saves more than this share of the peak, and more than this many times the
share of the time that it costs."""


@dataclass(frozen=True, slots=True)
class TaskRun:
    """A run of a task, which recomputes evicted buffers if it is `again`. Later steps read from it
    the buffers that it `fills`."""

    task: int
    fills: frozenset[int]
    again: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Runs of tasks. Those that are not `again` are in program order; tasks whose results are
    evicted before they are read may be missing."""

    steps: Sequence[TaskRun]
    peak: int  # bytes
    us: float


Costs = Sequence[float | None]
"""Microseconds of each task; None: it cannot be repeated."""


@dataclass(frozen=True, slots=True)
class Recomputation:
    """The tasks that recompute evicted buffers, from the live buffers `leaves`."""

    tasks: Sequence[int]
    leaves: Sequence[int]
    us: float
    """Infinite where a task cannot be repeated, or where there are too many."""


NOTHING_RUNS = Recomputation((), (), 0.0)


@dataclass
class Execution:
    """A simulated execution with a budget of bytes."""

    graph: TaskGraph
    costs: Costs
    budget: int
    exponent: float
    shared: bool
    """Whether runs that serve several evicted buffers count once."""
    most_us: float
    steps: list[TaskRun] = field(default_factory=list[TaskRun])
    us: float = 0.0
    live_bytes: int = 0
    now: int = 0

    def __post_init__(self) -> None:
        count = len(self.graph.bytes)
        self.live = [False] * count
        self.pins = [0] * count
        """Of each buffer how many of the next runs read it."""
        self.uses = [0] * count
        """Of each buffer how many of its readers have run."""
        self.dependents = [0] * count
        """Of each buffer how many evicted ones are recomputed from it."""
        self.next_recomputed = [0] * count
        """When the first of those is used."""
        self.recomputations: dict[int, Recomputation] = {}
        """Of each evicted buffer."""
        self.owed = [0] * len(self.graph)
        """Of each task how many evicted buffers it recomputes."""
        self.heap: list[tuple[float, int]] = []

    # ---- running

    def run(self) -> bool:
        """Run all tasks; False where that takes longer than allowed."""
        graph = self.graph
        for task in range(len(graph)):
            self.now = task
            operands = graph.operands[task]
            self.recompute(operands)
            self.step(task, frozenset(graph.results[task]))
            for b in operands:
                self.uses[b] += 1
            self.unpin(operands)
            if self.us > self.most_us:
                return False
        return True

    def recompute(self, operands: Sequence[int]) -> None:
        """Recompute the evicted operands of the next task, and pin all of them."""
        missing = [b for b in operands if not self.live[b]]
        runs = self.recomputation(missing) if missing else NOTHING_RUNS
        for task in runs.tasks:
            self.pin(self.graph.operands[task])
        self.pin(operands)
        for task in runs.tasks:
            fills = frozenset(b for b in self.graph.results[task] if not self.live[b])
            self.step(task, fills, again=True)
            self.unpin(self.graph.operands[task])

    def step(self, task: int, fills: frozenset[int], again: bool = False) -> None:
        """Run a task."""
        size = sum(self.graph.bytes[b] for b in fills)
        self.make_room(size)
        self.live_bytes += size
        self.us += self.costs[task] or 0.0
        self.steps.append(TaskRun(task, fills, again))
        for b in fills:
            self.live[b] = True
        for b in fills:
            self.release(b)
            self.settle(b)

    def pin(self, buffers: Sequence[int]) -> None:
        for b in buffers:
            self.pins[b] += 1

    def unpin(self, buffers: Sequence[int]) -> None:
        for b in buffers:
            self.pins[b] -= 1
            self.settle(b)

    # ---- what is live

    def next_use(self, b: int) -> float:
        """Return when a buffer is used next; infinite: never."""
        own = self.own_use(b)
        return min(own, self.next_recomputed[b]) if self.dependents[b] else own

    def own_use(self, b: int) -> float:
        """The next task that reads a buffer, other than to recompute; infinite: none."""
        readers = self.graph.readers[b]
        return readers[self.uses[b]] if self.uses[b] < len(readers) else inf

    def settle(self, b: int) -> None:
        """Free a buffer that is dead; others may be evicted from now on."""
        if not self.live[b] or self.pins[b] or not self.graph.bytes[b]:
            return
        if self.next_use(b) == inf:
            self.free(b)
        else:
            heappush(self.heap, (0.0, b))

    def free(self, b: int) -> None:
        self.live[b] = False
        self.live_bytes -= self.graph.bytes[b]

    def release(self, b: int) -> None:
        """A buffer is live again: those that it would have been recomputed from may die."""
        stack = [b]
        while stack:
            runs = self.recomputations.pop(stack.pop(), NOTHING_RUNS)
            for task in runs.tasks:
                self.owed[task] -= 1
            for leaf in runs.leaves:
                self.dependents[leaf] -= 1
                if self.live[leaf]:
                    self.settle(leaf)
                elif self.next_use(leaf) == inf:
                    stack.append(leaf)

    def make_room(self, size: int) -> None:
        """Evict buffers until so many bytes fit into the budget, or none may go any more. Scores in
        the heap were right when they were put there; they grow with time."""
        while self.live_bytes + size > self.budget and self.heap:
            score, b = heappop(self.heap)
            if not self.live[b] or self.pins[b] or self.next_use(b) == inf:
                continue
            runs = self.recomputation([b], evicted=b)
            now = self.score(b, runs)
            if now == inf:
                continue
            if now > score * (1 + 1e-9) and self.heap and now > self.heap[0][0]:
                heappush(self.heap, (now, b))
                continue
            self.evict(b, runs)

    def score(self, b: int, runs: Recomputation) -> float:
        """The time to recompute a buffer by the bytes and tasks that it is away for."""
        graph, soon = self.graph, self.now + 1
        distance = max(self.next_use(b) - self.now, 1)
        size = graph.bytes[b]
        if self.shared:
            others = (o for o in graph.results[graph.writer[b]] if o != b)
            size += sum(graph.bytes[o] for o in others if soon < self.own_use(o) < inf)
        return runs.us / (size * distance**self.exponent)

    def evict(self, b: int, runs: Recomputation) -> None:
        """Free a buffer; those that it is recomputed from stay."""
        when = self.next_use(b)
        self.free(b)
        self.recomputations[b] = runs
        for task in runs.tasks:
            self.owed[task] += 1
        for leaf in runs.leaves:
            known = self.next_recomputed[leaf] if self.dependents[leaf] else when
            self.next_recomputed[leaf] = int(min(known, when))
            self.dependents[leaf] += 1

    def recomputation(self, buffers: Sequence[int], evicted: int = -1) -> Recomputation:
        """The tasks that recompute buffers, of which `evicted` counts as not live."""
        graph, us = self.graph, 0.0
        stack = [graph.writer[b] for b in buffers]
        tasks: set[int] = set()
        leaves: dict[int, None] = {}
        while stack:
            task = stack.pop()
            if task in tasks:
                continue
            tasks.add(task)
            cost = self.costs[task]
            if cost is None or (evicted >= 0 and len(tasks) > LONGEST):
                return Recomputation((), (), inf)
            us += 0.0 if self.shared and self.owed[task] else cost
            for b in graph.operands[task]:
                if self.live[b] and b != evicted:
                    leaves[b] = None
                else:
                    stack.append(graph.writer[b])
        return Recomputation(sorted(tasks), tuple(leaves), us)


# ---- plans -------------------------------------------------------------------------------------


def without_dead_steps(graph: TaskGraph, steps: Sequence[TaskRun]) -> list[TaskRun]:
    """The steps without those whose buffers are evicted before they are read. Tasks without such
    buffers stay."""
    read: set[int] = set()
    needed: list[TaskRun] = []
    for step in reversed(steps):
        results = graph.results[step.task]
        sink = any(not graph.bytes[b] or not graph.readers[b] for b in results)
        if not results or sink or not read.isdisjoint(step.fills):
            read -= step.fills
            read.update(graph.operands[step.task])
            needed.append(step)
    return needed[::-1]


def peak_of(graph: TaskGraph, steps: Sequence[TaskRun]) -> int:
    """The most bytes live while the steps run."""
    runs = TaskGraph()
    current: dict[int, int] = {}
    for step in steps:
        run = runs.task()
        for b in graph.operands[step.task]:
            runs.read(current[b], run)
        for b in graph.results[step.task]:
            new = runs.buffer(graph.bytes[b], run)
            if b in step.fills:
                current[b] = new
    return runs.live(range(len(runs))).peak


def planned(
    graph: TaskGraph, costs: Costs, budget: int, exponent: float, shared: bool, most_us: float
) -> Plan | None:
    """The plan of one execution, None where it takes longer than allowed."""
    execution = Execution(graph, costs, budget, exponent, shared, most_us)
    if not execution.run():
        return None
    steps = without_dead_steps(graph, execution.steps)
    us = sum(costs[s.task] or 0.0 for s in steps)
    return Plan(steps, peak_of(graph, steps), us)


def best_plan(graph: TaskGraph, costs: Costs, slower: float, limit: int = 0) -> Plan | None:
    """The plan of the least peak that takes at most `slower` times as long as the tasks; with a
    `limit` in bytes, the fastest one with a peak within it, if there is one. None where none is
    worth it."""
    most = graph.live(range(len(graph))).peak
    base_us = sum(c or 0.0 for c in costs)
    if not base_us or most <= limit:
        return None
    plans: list[Plan] = []
    for exponent, shared in product(EXPONENTS, (False, True)):
        low, high = 0, most
        budget = limit or most // 2
        for _ in range(BISECTIONS):
            plan = planned(graph, costs, budget, exponent, shared, slower * base_us)
            if plan is not None and len(plan.steps) > len(graph):  # else nothing is repeated
                plans.append(plan)
            if plan is None or plan.peak <= limit:  # too slow, or less than is asked for
                low = budget
            else:
                high = budget
            budget = (low + high) // 2
    return best_of(plans, most, base_us, limit)


def best_of(plans: Sequence[Plan], most: int, base_us: float, limit: int) -> Plan | None:
    if fitting := [p for p in plans if p.peak <= limit]:
        return min(fitting, key=lambda p: (p.us, p.peak))

    def is_worth_it(plan: Plan) -> bool:
        least = 0.0 if limit else max(LEAST, WORTH * (plan.us / base_us - 1))
        return 1 - plan.peak / most > least

    smaller = filter(is_worth_it, plans)
    return min(smaller, key=lambda p: (p.peak, p.us), default=None)


def launch_costs(module: ModuleOp, target: Target) -> dict[str, float]:
    """Microseconds of a launch of each kernel that may be repeated."""
    costs: dict[str, float] = {}
    for kernel in module.ops:
        if isinstance(kernel, KernelOp) and is_repeatable(kernel):
            if (us := launch_us(kernel.main, target)) is not None:
                costs[kernel.sym_name.data] = us
    return costs


def is_repeatable(kernel: KernelOp) -> bool:
    """Return whether a launch gives the same each time, and does nothing else."""
    return all(
        op.has_trait(NoMemoryEffect) for op in kernel.body.walk() if isinstance(op, TensorOp)
    )


@dataclass
class Rematerialization:
    """Carries out a plan for the tasks of one block."""

    graph: TaskGraph
    tasks: Sequence[Operation]
    current: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Result of a task, or view of one -> its latest copy."""
    views: dict[SSAValue, list[SSAValue]] = field(default_factory=dict[SSAValue, list[SSAValue]])
    """Result of a task -> the views of it in `current`."""

    def apply(self, plan: Plan) -> None:
        """Replace the tasks by the runs of the plan."""
        first_runs: set[int] = set()
        repeated: list[TaskRun] = []
        for step in plan.steps:
            if step.again:
                repeated.append(step)
                continue
            first_runs.add(step.task)
            task = self.tasks[step.task]
            for again in repeated:
                self.repeat(again, task)
            repeated.clear()
            for op in task.walk():
                for i, value in enumerate(op.operands):
                    if (new := self.latest(value, task)) is not value:
                        op.operands[i] = new
        for i in reversed(range(len(self.tasks))):
            if i not in first_runs:
                erase(self.tasks[i])

    def repeat(self, step: TaskRun, before: Operation) -> None:
        """Repeat a launch before a task."""
        launch = self.tasks[step.task]
        assert isinstance(launch, LaunchOp)
        outs = [EmptyOp.create(result_types=[v.type]) for v in launch.outs]
        ins = [self.latest(v, before) for v in launch.ins]
        destinations = [e.tensor for e in outs]
        again = LaunchOp(launch.callee, ins, destinations, launch.result_types)
        for op in (*outs, again):
            op.location = launch.location
            Rewriter.insert_op(op, InsertPoint.before(before))
        results = self.graph.results[step.task]
        for b, old, new in zip(results, launch.results_, again.results_, strict=True):
            if b in step.fills:
                new.name_hint = old.name_hint
                self.current[old] = new
                for view in self.views.pop(old, ()):
                    del self.current[view]

    def latest(self, value: SSAValue, before: Operation) -> SSAValue:
        """The latest copy of a value; views are copied, too."""
        root = storage(value)
        if value in self.current or root not in self.current:
            return self.current.get(value, value)
        view = value.owner
        assert isinstance(view, Operation)
        new = view.clone({view.operands[0]: self.latest(view.operands[0], before)})
        Rewriter.insert_op(new, InsertPoint.before(before))
        for old, result in zip(view.results, new.results, strict=True):
            self.current[old] = result
            self.views.setdefault(root, []).append(old)
        return self.current[value]


def erase(task: Operation) -> None:
    """Erase a task that only unused views are left of, these views, and its destinations."""
    for result in task.results:
        for use in list(result.uses):
            erase(use.operation)
    destinations = [v.owner for v in task.operands if isinstance(v.owner, EmptyOp)]
    Rewriter.erase_op(task)
    for empty in destinations:
        Rewriter.erase_op(empty)


@dataclass(frozen=True)
class RematerializePass(TargetPass):
    """Recompute values of @main before later uses where that lowers the memory peak."""

    name = "rematerialize"

    slower: float = 1.1
    """How many times as long the tasks may take, one after the other."""
    limit: int = 0
    """Bytes that may be live: nothing more is recomputed than it takes to get there; 0: the least
    peak that `slower` allows."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.slower < 1:
            raise GeError(f"slower is at least 1, not {self.slower:g}")
        if self.limit < 0:
            raise GeError(f"limit is a number of bytes, not {self.limit}")
        if (main := main_function(op)) is None:
            return
        target, block = target_for(main, self.target), main.body.block
        graph, tasks = task_graph(block, target.hbm_alignment)
        by_kernel = launch_costs(op, target)
        costs = [by_kernel.get(t.callee) if isinstance(t, LaunchOp) else None for t in tasks]
        plan = best_plan(graph, costs, self.slower, self.limit)
        if plan is None:
            return
        Rematerialization(graph, tasks).apply(plan)
        erase_unused(o for o in block.ops if view_offsets(o) is not None)
        main.attributes[RECOMPUTED] = number(len(plan.steps) - len(tasks))
