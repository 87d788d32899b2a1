"""Which values are computed again instead of kept. Nothing here changes a program.

A plan is found by simulating execution under a memory budget: the tasks run in their order; a
task whose results do not fit makes room by *evicting* values; where a task needs a value that is
gone, all that has to be computed for it again runs before it, each task once, in the order of the
program. What comes back stays for its other uses, until it is evicted again. This is dynamic tensor
rematerialization (Kirisame et al., arXiv 2006.09616), for programs whose later uses are known:

- evicted is what costs the least for the room that it makes and the time that it makes it for:

      microseconds to compute it from what is in memory / (bytes * tasks until its next use ^ e)

  so cheap, large, long unused values go first; a value that would need a long chain of evicted ones
  stays, which leaves checkpoints between segments (Chen et al., arXiv 1604.06174);
- a value whose uses are over leaves at once, unless an evicted one is to be computed from it.

The smallest budget for which the tasks take no more than the time allowed is found by bisection,
for several e, counting runs that serve several evicted values each time or once; the plan of the
least peak is kept. A task is repeated only where its cost is
known; what cannot be repeated, and all that only it leads to, is never evicted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import product
from math import inf

from ge.transforms.analysis.task_graph import TaskGraph

EXPONENTS = (0.0, 0.5, 1.0)
"""How much the time until the next use counts."""

BISECTIONS = 8
"""Budgets tried for each exponent."""

LONGEST = 128
"""Tasks that one value may take to be computed again."""

LEAST = 0.01
"""Without a limit, a plan saves more than this share of the peak."""

WORTH = 1.0
"""And more than this many times the share of the peak that it costs of the time."""


@dataclass(frozen=True, slots=True)
class Step:
    """A run of a task. Later steps read from it the buffers that it `fills`."""

    task: int
    fills: frozenset[int]
    again: bool = False
    """Whether the task runs for a value that was evicted."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Runs of tasks. Those that are not `again` are in the order of the program, and may lack
    tasks whose results nothing reads before they are evicted."""

    steps: Sequence[Step]
    peak: int
    """The most bytes live at one time."""
    us: float
    """What the runs take, one after the other."""


Costs = Sequence[float | None]
"""Microseconds of each task; None: it cannot be repeated."""


@dataclass(frozen=True, slots=True)
class Chain:
    """What has to run for buffers that are not in memory."""

    tasks: Sequence[int]
    leaves: Sequence[int]
    """The buffers in memory that it starts from."""
    us: float
    """Infinite where a task cannot be repeated, or where there are too many."""


NOTHING_RUNS = Chain((), (), 0.0)


@dataclass
class Execution:
    """An execution of the tasks with a budget of bytes."""

    graph: TaskGraph
    costs: Costs
    budget: int
    exponent: float
    shared: bool
    """Whether runs that serve several evicted buffers count once."""
    most_us: float
    steps: list[Step] = field(default_factory=list[Step])
    us: float = 0.0
    alive: int = 0
    now: int = 0

    def __post_init__(self) -> None:
        count = len(self.graph.bytes)
        self.present = [False] * count
        self.pins = [0] * count
        """Runs that are about to read a buffer."""
        self.used = [0] * count
        """Readers of a buffer that have run."""
        self.held = [0] * count
        """Evicted buffers that are to be computed from a buffer."""
        self.next_held = [0] * count
        """When the first of those is needed."""
        self.leaves: dict[int, Sequence[int]] = {}
        """Evicted buffer -> those that it holds."""
        self.owed = [0] * len(self.graph)
        """How many evicted buffers a task has to run for."""
        self.owing: dict[int, Sequence[int]] = {}
        """Evicted buffer -> the tasks that have to run for it."""
        self.heap: list[tuple[float, int]] = []

    # ---- running

    def run(self) -> bool:
        """Run all tasks; False where that takes longer than allowed."""
        graph = self.graph
        for task in range(len(graph)):
            self.now = task
            needs = graph.operands[task]
            self.recompute([b for b in needs if not self.present[b]], needs)
            self.step(task, frozenset(graph.results[task]))
            for b in needs:
                self.used[b] += 1
            self.unpin(needs)
            if self.us > self.most_us:
                return False
        return True

    def recompute(self, missing: Sequence[int], needs: Sequence[int]) -> None:
        """Bring back buffers that the next task needs, and keep those that it needs."""
        chain = self.chain(missing) if missing else NOTHING_RUNS
        for task in chain.tasks:
            self.pin(self.graph.operands[task])
        self.pin(needs)
        for task in chain.tasks:
            made = self.graph.results[task]
            self.step(task, frozenset(b for b in made if not self.present[b]), again=True)
            self.unpin(self.graph.operands[task])

    def step(self, task: int, fills: frozenset[int], again: bool = False) -> None:
        """One run of a task, which needs room for what it fills."""
        size = sum(self.graph.bytes[b] for b in fills)
        self.make_room(size)
        self.alive += size
        self.us += self.costs[task] or 0.0
        self.steps.append(Step(task, fills, again))
        for b in fills:
            self.present[b] = True
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

    # ---- what is in memory

    def next_use(self, b: int) -> float:
        """When a buffer is needed next, infinite for never."""
        own = self.own_use(b)
        if self.held[b]:
            own = min(own, self.next_held[b])
        return own

    def own_use(self, b: int) -> float:
        """The next task of the program that reads a buffer, infinite for none."""
        readers = self.graph.readers[b]
        return readers[self.used[b]] if self.used[b] < len(readers) else inf

    def settle(self, b: int) -> None:
        """A buffer that nobody needs leaves; others may be evicted from now on."""
        if not self.present[b] or self.pins[b] or not self.graph.bytes[b]:
            return
        if self.next_use(b) == inf:
            self.leave(b)
        else:
            heappush(self.heap, (0.0, b))

    def leave(self, b: int) -> None:
        self.present[b] = False
        self.alive -= self.graph.bytes[b]

    def release(self, b: int) -> None:
        """A buffer is no more to be computed from others: they may leave."""
        stack = [b]
        while stack:
            gone = stack.pop()
            for task in self.owing.pop(gone, ()):
                self.owed[task] -= 1
            for leaf in self.leaves.pop(gone, ()):
                self.held[leaf] -= 1
                if self.present[leaf]:
                    self.settle(leaf)
                elif self.next_use(leaf) == inf:
                    stack.append(leaf)

    def make_room(self, size: int) -> None:
        """Evict buffers until so many bytes fit into the budget, or none may go any more. The
        scores in the heap were right when they were put there; they grow as time goes by."""
        while self.alive + size > self.budget and self.heap:
            score, b = heappop(self.heap)
            if not self.present[b] or self.pins[b] or self.next_use(b) == inf:
                continue
            chain = self.chain([b], gone=b)
            now = self.score(b, chain)
            if now == inf:
                continue
            if now > score * (1 + 1e-9) and self.heap and now > self.heap[0][0]:
                heappush(self.heap, (now, b))
                continue
            self.evict(b, chain)

    def score(self, b: int, chain: Chain) -> float:
        """Time to compute a buffer again by the bytes and steps that it is not kept for."""
        graph, soon = self.graph, self.now + 1
        distance = max(self.next_use(b) - self.now, 1)
        size = graph.bytes[b]
        if self.shared:
            others = (o for o in graph.results[graph.writer[b]] if o != b)
            size += sum(graph.bytes[o] for o in others if soon < self.own_use(o) < inf)
        return chain.us / (size * distance**self.exponent)

    def evict(self, b: int, chain: Chain) -> None:
        """Take a buffer out of memory; what it is to be computed from stays."""
        when = self.next_use(b)
        self.leave(b)
        self.leaves[b] = chain.leaves
        self.owing[b] = chain.tasks
        for task in chain.tasks:
            self.owed[task] += 1
        for leaf in chain.leaves:
            known = self.next_held[leaf] if self.held[leaf] else when
            self.next_held[leaf] = int(min(known, when))
            self.held[leaf] += 1

    def chain(self, buffers: Sequence[int], gone: int = -1) -> Chain:
        """What has to run for buffers, of which `gone` counts as not in memory."""
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
            if cost is None or (gone >= 0 and len(tasks) > LONGEST):
                return Chain((), (), inf)
            us += 0.0 if self.shared and self.owed[task] else cost
            for b in graph.operands[task]:
                if self.present[b] and b != gone:
                    leaves[b] = None
                else:
                    stack.append(graph.writer[b])
        return Chain(sorted(tasks), tuple(leaves), us)


# ---- plans -------------------------------------------------------------------------------------


def without_dead_steps(graph: TaskGraph, steps: Sequence[Step]) -> list[Step]:
    """The steps without those of which nobody reads anything: a value was evicted before its first
    use. Tasks that make no buffers between tasks stay."""
    wanted: set[int] = set()
    kept: list[Step] = []
    for step in reversed(steps):
        made = graph.results[step.task]
        sink = any(not graph.bytes[b] or not graph.readers[b] for b in made)
        if made and not sink and wanted.isdisjoint(step.fills):
            continue
        wanted -= step.fills
        wanted.update(graph.operands[step.task])
        kept.append(step)
    return kept[::-1]


def peak_of(graph: TaskGraph, steps: Sequence[Step]) -> int:
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
    """The plan of the least peak that takes at most `slower` times as long as the tasks do; with a
    `limit` in bytes, the one that takes the least time of those that need no more, if there is one.
    None where none is worth it."""
    most = graph.live(range(len(graph))).peak
    base_us = sum(c or 0.0 for c in costs)
    if not base_us or most <= limit:
        return None
    found: list[Plan] = []
    for exponent, shared in product(EXPONENTS, (False, True)):
        low, high = 0, most
        budget = limit or most // 2
        for _ in range(BISECTIONS):
            plan = planned(graph, costs, budget, exponent, shared, slower * base_us)
            if plan is not None and len(plan.steps) > len(graph):  # else nothing is repeated
                found.append(plan)
            if plan is None or plan.peak <= limit:  # too slow, or less than is asked for
                low = budget
            else:
                high = budget
            budget = (low + high) // 2
    return chosen(found, most, base_us, limit)


def chosen(found: Sequence[Plan], most: int, base_us: float, limit: int) -> Plan | None:
    """The plan to carry out of those found."""
    if limit:
        fitting = [p for p in found if p.peak <= limit]
        if fitting:
            return min(fitting, key=lambda p: (p.us, p.peak))
        smaller = [p for p in found if p.peak < most]
    else:
        least = [max(LEAST, WORTH * (p.us / base_us - 1)) for p in found]
        smaller = [p for p, share in zip(found, least, strict=True) if 1 - p.peak / most > share]
    return min(smaller, key=lambda p: (p.peak, p.us), default=None)
