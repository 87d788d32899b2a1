"""Orders of tasks with a low memory peak. Nothing here changes a program.

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
from heapq import heapify, heappop, heappush

from ge.transforms.analysis.task_graph import TaskGraph

WINDOW = 16  # tasks
STATES = 8_000  # sets of tasks of one window
WINDOWS = 64  # of one program


# ---- orders ----------------------------------------------------------------------------------


def depth_first(graph: TaskGraph) -> list[int]:
    """From the results back."""
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
    """Of the ready tasks the one after which the least is live."""
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
    """Of the ready tasks the one with the longest chain of tasks behind it."""
    chain = [0] * len(graph)
    for t in reversed(range(len(graph))):
        readers = (r for b in graph.results[t] for r in graph.readers[b])
        chain[t] = 1 + max((chain[r] for r in readers), default=0)
    return _by_priority(graph, lambda t: -chain[t], lambda _: ())


def _by_priority(
    graph: TaskGraph, key: Callable[[int], int], started: Callable[[int], Iterable[int]]
) -> list[int]:
    """Of the ready tasks the one with the least key; `started` yields the tasks whose keys may
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
    """The order with the tasks from `low` to `high` in the order of the least peak; None where that
    is no lower, or where they have too many sets."""
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
