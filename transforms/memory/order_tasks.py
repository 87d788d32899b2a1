"""Reorder tasks to lower peak memory.

    %0 = npu_task.launch @wide_0 ins(%x : ...) ...      (100 MB)
    %1 = npu_task.launch @wide_0 ins(%y : ...) ...      (100 MB)
    %2 = npu_task.launch @sum_0 ins(%0 : ...) ...       (1 KB)
    %3 = npu_task.launch @sum_0 ins(%1 : ...) ...       (1 KB)
becomes
    %0 = npu_task.launch @wide_0 ins(%x : ...) ...
    %2 = npu_task.launch @sum_0 ins(%0 : ...) ...
    %1 = npu_task.launch @wide_0 ins(%y : ...) ...
    %3 = npu_task.launch @sum_0 ins(%1 : ...) ...

The order of the program stays where none of several has a lower peak.
Buffers of the model's results, constants and values of unknown size do not count. A branch or loop
is one task, whose ops keep their order. `npu_task.order` of the function names its order.

The least peak of a directed acyclic graph over all orders is NP-complete (Sethi, "Complete register
allocation problems", 1975). The best of several orders is taken:
- *program*: as it stands;
- *depth-first*: from the results back; of a task's operands the one first whose computation has the
  highest peak beyond its result (the rule for trees of Sethi and Ullman, JACM 17, 1970);
- *memory-greedy*: of the ready tasks the one after which the least is live;
- *critical-path*: of the ready tasks the one with the longest chain of tasks behind it;
- then *exact* orders of windows around its peak: by dynamic programming over the sets of finished
  tasks (Ahn et al., "Ordering chaos", MLSys 2020).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from ge.dialects.graph.control import CaseOp, IfOp, LoopOp
from ge.dialects.npu_task.attributes import ORDER
from ge.dialects.npu_task.ops import LaunchOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import align_up, byte_size, has_size
from ge.dialects.targets.target import target_for
from ge.transforms.analysis.task_graph import TaskGraph, used_by, value_graph
from ge.transforms.analysis.views import storage, whole_of
from ge.transforms.rewriting.passes import MainPass, TargetPass

WINDOW = 16  # tasks

STATES = 8_000  # sets of tasks of one window

WINDOWS = 64  # of one program


# ---- orders ----------------------------------------------------------------------------------


def depth_first(graph: TaskGraph) -> list[int]:
    """Order tasks from the results back."""
    peak = [0] * len(graph)
    """Of each task the bytes that its computation takes from scratch."""
    for t in range(len(graph)):
        live = 0
        for w in _writers(graph, peak, t):
            peak[t] = max(peak[t], live + peak[w])
            live += graph.result_bytes(w)
        peak[t] = max(peak[t], live + graph.result_bytes(t))
    order: list[int] = []
    visited = [False] * len(graph)
    for root in range(len(graph)):
        if any(graph.readers[b] for b in graph.results[root]):
            continue
        stack = [(root, iter(_writers(graph, peak, root)))]
        visited[root] = True
        while stack:
            task, rest = stack[-1]
            following = next((w for w in rest if not visited[w]), None)
            if following is None:
                order.append(task)
                stack.pop()
            else:
                visited[following] = True
                stack.append((following, iter(_writers(graph, peak, following))))
    return order


def _writers(graph: TaskGraph, peak: Sequence[int], task: int) -> list[int]:
    """The tasks that a task reads from, the one with the highest peak beyond its results first."""
    writers = dict.fromkeys(graph.writer[b] for b in graph.operands[task])
    return sorted(writers, key=lambda w: graph.result_bytes(w) - peak[w])


def memory_greedy(graph: TaskGraph) -> list[int]:
    """Take of the ready tasks the one after which the least is live."""
    unread = [len(r) for r in graph.readers]

    def growth(t: int) -> int:
        freed = sum(graph.bytes[b] for b in graph.operands[t] if unread[b] == 1)
        return sum(graph.bytes[b] for b in graph.results[t] if unread[b]) - freed

    def started(t: int) -> Iterable[int]:
        for b in graph.operands[t]:
            unread[b] -= 1
            if unread[b] == 1:  # the last reader frees it
                yield from graph.readers[b]

    return _by_priority(graph, growth, started)


def critical_path(graph: TaskGraph) -> list[int]:
    """Take of the ready tasks the one with the longest chain of tasks behind it."""
    chain = [0] * len(graph)
    for t in reversed(range(len(graph))):
        readers = (r for b in graph.results[t] for r in graph.readers[b])
        chain[t] = 1 + max((chain[r] for r in readers), default=0)
    return _by_priority(graph, lambda t: -chain[t], lambda _: ())


def _by_priority(
    graph: TaskGraph, key: Callable[[int], int], started: Callable[[int], Iterable[int]]
) -> list[int]:
    """Take of the ready tasks the one with the least key; `started` yields the tasks whose keys may
    decrease with the start of one."""
    missing = [len(n) for n in graph.operands]
    done = [False] * len(graph)
    heap = [(key(t), t) for t in range(len(graph)) if not missing[t]]
    heapify(heap)
    order: list[int] = []
    while heap:
        _, t = heappop(heap)
        if done[t]:
            continue
        done[t] = True
        order.append(t)
        for other in started(t):
            if not missing[other] and not done[other]:
                heappush(heap, (key(other), other))
        for b in graph.results[t]:
            for r in graph.readers[b]:
                missing[r] -= 1
                if not missing[r]:
                    heappush(heap, (key(r), r))
    return order


ORDERS: dict[str, Callable[[TaskGraph], list[int]]] = {
    "program": lambda graph: list(range(len(graph))),
    "depth-first": depth_first,
    "memory-greedy": memory_greedy,
    "critical-path": critical_path,
}


# ---- exact windows ---------------------------------------------------------------------------


def exact_windows(graph: TaskGraph, order: Sequence[int]) -> list[int]:
    """The order with windows around its peak reordered, while that lowers the peak."""
    best = list(order)
    for _ in range(WINDOWS if best else 0):
        at = graph.live(best).peak_step
        improved = None
        for shift in (WINDOW // 2, WINDOW // 4, 3 * WINDOW // 4):
            low = max(0, at - shift)
            improved = exact(graph, best, low, min(len(best), low + WINDOW))
            if improved is not None:
                break
        if improved is None:
            return best
        best = improved
    return best


def exact(graph: TaskGraph, order: Sequence[int], low: int, high: int) -> list[int] | None:
    """The order with the tasks from `low` to `high` in the order of the least peak; None if that is
    no lower, or if they have too many sets."""
    tasks = list(order[low:high])
    bit = {t: 1 << i for i, t in enumerate(tasks)}
    position = {t: i for i, t in enumerate(order)}
    before = [
        sum({bit[w] for b in graph.operands[t] if (w := graph.writer[b]) in bit}) for t in tasks
    ]
    new = [graph.result_bytes(t) for t in tasks]
    freed: list[list[tuple[int, int]]] = [[] for _ in tasks]
    for b in {b for t in tasks for b in (*graph.operands[t], *graph.results[t])}:
        if all(position[r] < high for r in graph.readers[b]):
            users = {t for t in (graph.writer[b], *graph.readers[b]) if t in bit}
            mask = sum(bit[t] for t in users)
            for t in users:
                freed[tasks.index(t)].append((mask, graph.bytes[b]))
    live = graph.live(order).bytes
    limit = max(live[low:high])
    now = live[low] - new[0]
    states: dict[int, tuple[int, int, list[int]]] = {0: (0, now, [])}
    for _ in tasks:
        reached: dict[int, tuple[int, int, list[int]]] = {}
        for finished, (peak, now, path) in states.items():
            for i, t in enumerate(tasks):
                if finished >> i & 1 or before[i] & ~finished:
                    continue
                most = max(peak, now + new[i])
                mask = finished | 1 << i
                known = reached.get(mask)
                if most >= limit or (known is not None and known[0] <= most):
                    continue
                freed_bytes = sum(s for m, s in freed[i] if not m & ~mask)
                reached[mask] = (most, now + new[i] - freed_bytes, [*path, t])
        states = reached
        if not states or len(states) > STATES:
            return None
    ((_, _, path),) = states.values()
    return [*order[:low], *path, *order[high:]]


def best_order(graph: TaskGraph, names: Sequence[str] = tuple(ORDERS)) -> tuple[str, list[int]]:
    """The name and the order of the least peak, the first of `names` where several are equal."""
    orders = {name: ORDERS[name](graph) for name in names}
    name = min(orders, key=lambda n: graph.live(orders[n]).peak)
    order = exact_windows(graph, orders[name])
    return (name if order == orders[name] else f"{name}, exact windows"), order


PROGRAM = "program"

TASKS = (LaunchOp, IfOp, CaseOp, LoopOp)
"""The ops that are reordered; constants, destinations and views move in front of their users."""


def task_graph(block: Block, alignment: int) -> tuple[TaskGraph, list[Operation]]:
    """The graph of the tasks of a block, and the tasks; sizes are aligned. Where results of the
    model are parts of buffers, the terminator is the last task: it copies them to the host."""
    last = block.last_op
    returned = last.operands if isinstance(block.parent_op(), FuncOp) and last is not None else ()
    results = {whole_of(v) for v in returned}

    def size_of(value: SSAValue) -> int:
        counts = has_size(value) and value not in results
        return align_up(byte_size(value.type), alignment) if counts else 0

    tasks: list[Operation] = [op for op in block.ops if isinstance(op, TASKS)]
    graph = value_graph(([op] for op in tasks), size_of)
    parts = {storage(v) for v in results} - results
    if last is not None and not parts.isdisjoint(graph.buffers):
        tasks.append(last)
        return_parts(graph, [b for value, b in graph.buffers.items() if value in parts])
    return graph, tasks


def return_parts(graph: TaskGraph, buffers: list[int]) -> None:
    """Add a task that reads these buffers after all other tasks."""
    sinks = [t for t, made in enumerate(graph.results) if not any(graph.readers[b] for b in made)]
    last = graph.task()
    for task in sinks:
        if not graph.results[task]:
            graph.buffer(0, task)
        graph.read(graph.results[task][0], last)
    for b in buffers:
        graph.read(b, last)


def rearrange(block: Block, tasks: list[Operation]) -> None:
    """Put the tasks of a block in this order, each after the ops that define its operands."""
    last = block.last_op
    rest = [op for op in block.ops if op is not last or not op.has_trait(IsTerminator)]
    for op in rest:
        op.detach()
    placed: set[Operation] = set()
    order: list[Operation] = []

    def place(op: Operation) -> None:
        for value in used_by(op):
            source = value.owner
            if isinstance(source, Operation) and source in loose and source not in placed:
                place(source)
        placed.add(op)
        order.append(op)

    loose = {op for op in rest if not isinstance(op, TASKS)}
    for op in (*tasks, *(o for o in rest if o in loose)):
        if op not in placed and op is not last:
            place(op)
    if last is not None and last.parent is block:
        block.insert_ops_before(order, last)
    else:
        block.add_ops(order)


@dataclass(frozen=True)
class OrderTasksPass(TargetPass, MainPass):
    """Reorder the tasks of @main to lower peak memory."""

    name = "order-tasks"

    orders: tuple[str, ...] = tuple(ORDERS)
    """Candidates: program, depth-first, memory-greedy, critical-path."""

    def run(self, main: FuncOp) -> None:
        unknown = [n for n in self.orders if n not in ORDERS]
        if unknown or not self.orders:
            message = f"there is no order '{unknown[0]}'" if unknown else "no order is named"
            raise GeError(message, hint=f"orders: {', '.join(ORDERS)}")
        alignment = target_for(main, self.target).hbm_alignment
        graph, tasks = task_graph(main.body.block, alignment)
        name, order = best_order(graph, self.orders)
        if order != list(range(len(tasks))):
            rearrange(main.body.block, [tasks[i] for i in order])
        main.attributes[ORDER] = StringAttr(name)
