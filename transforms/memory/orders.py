"""Orders of tasks that need little memory at one time. Nothing here changes a program.

The problem (the least peak of a directed acyclic graph over all orders) is NP-complete (Sethi,
"Complete register allocation problems", 1975). Several orders are made, and the best is kept:
- *program*: as it stands;
- *depth-first*: from the results back; of a task's operands first the one that needs the most while
  it is computed beyond what it leaves (the rule for trees of Sethi and Ullman, JACM 17, 1970);
- *memory-greedy*: of the tasks that are ready, the one after which the least is live;
- *critical-path*: of the tasks that are ready, the one with the longest chain of tasks behind it;
- then *exact* orders of windows of the best one, where it needs the most: by dynamic programming
  over the sets of tasks that are done (Ahn et al., "Ordering chaos", MLSys 2020).
"""

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush

from ge.transforms.analysis.task_graph import TaskGraph

WINDOW = 16
"""Tasks of a window that is put in its best order."""

STATES = 8_000
"""Sets of tasks that are looked at for one window."""

WINDOWS = 64
"""Windows that are looked at for one program."""


# ---- orders ----------------------------------------------------------------------------------


def program_order(graph: TaskGraph) -> list[int]:
    return list(range(len(graph)))


def depth_first(graph: TaskGraph) -> list[int]:
    """Results first, each after all that it is made of."""
    need = [0] * len(graph)
    for t in range(len(graph)):
        held = 0
        for w in _by_need(graph, need, t):
            need[t] = max(need[t], held + need[w])
            held += graph.result_bytes(w)
        need[t] = max(need[t], held + graph.result_bytes(t))
    order: list[int] = []
    seen = [False] * len(graph)
    for root in range(len(graph)):
        if any(graph.readers[b] for b in graph.results[root]):
            continue
        stack = [(root, iter(_by_need(graph, need, root)))]
        seen[root] = True
        while stack:
            task, rest = stack[-1]
            following = next((w for w in rest if not seen[w]), None)
            if following is None:
                order.append(task)
                stack.pop()
            else:
                seen[following] = True
                stack.append((following, iter(_by_need(graph, need, following))))
    return order


def _by_need(graph: TaskGraph, need: Sequence[int], task: int) -> list[int]:
    """The tasks that a task reads from, first the one that needs the most beyond what it leaves."""
    writers = dict.fromkeys(graph.writer[b] for b in graph.operands[task])
    return sorted(writers, key=lambda w: graph.result_bytes(w) - need[w])


def memory_greedy(graph: TaskGraph) -> list[int]:
    """Always the task after which the least is live."""
    left = [len(r) for r in graph.readers]

    def growth(t: int) -> int:
        freed = sum(graph.bytes[b] for b in graph.operands[t] if left[b] == 1)
        return sum(graph.bytes[b] for b in graph.results[t] if left[b]) - freed

    def started(t: int) -> Iterable[int]:
        for b in graph.operands[t]:
            left[b] -= 1
            if left[b] == 1:  # the last reader frees it
                yield from graph.readers[b]

    return _by_priority(graph, growth, started)


def critical_path(graph: TaskGraph) -> list[int]:
    """Always the task with the longest chain behind it."""
    chain = [0] * len(graph)
    for t in reversed(range(len(graph))):
        readers = (r for b in graph.results[t] for r in graph.readers[b])
        chain[t] = 1 + max((chain[r] for r in readers), default=0)
    return _by_priority(graph, lambda t: -chain[t], lambda _: ())


def _by_priority(
    graph: TaskGraph, key: Callable[[int], int], started: Callable[[int], Iterable[int]]
) -> list[int]:
    """Tasks that are ready, the least key first; after a task has `started`, it names those whose
    keys may have become less."""
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
    "program": program_order,
    "depth-first": depth_first,
    "memory-greedy": memory_greedy,
    "critical-path": critical_path,
}


# ---- exact windows ---------------------------------------------------------------------------


def exact_windows(graph: TaskGraph, order: Sequence[int]) -> list[int]:
    """The order with windows around its peak in the best order of their own, while that lowers the
    peak."""
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
    """The order with the tasks from `low` to `high` in the best order among themselves; None where
    no order of them needs less, or where there are too many sets of them to look at."""
    tasks = list(order[low:high])
    bit = {t: 1 << i for i, t in enumerate(tasks)}
    place = {t: i for i, t in enumerate(order)}
    before = [
        sum({bit[w] for b in graph.operands[t] if (w := graph.writer[b]) in bit}) for t in tasks
    ]
    made = [graph.result_bytes(t) for t in tasks]
    freed: list[list[tuple[int, int]]] = [[] for _ in tasks]
    for b in {b for t in tasks for b in (*graph.operands[t], *graph.results[t])}:
        if all(place[r] < high for r in graph.readers[b]):
            users = {t for t in (graph.writer[b], *graph.readers[b]) if t in bit}
            mask = sum(bit[t] for t in users)
            for t in users:
                freed[tasks.index(t)].append((mask, graph.bytes[b]))
    live = graph.live(order).bytes
    limit = max(live[low:high])
    now = live[low] - made[0]
    states: dict[int, tuple[int, int, list[int]]] = {0: (0, now, [])}
    for _ in tasks:
        following: dict[int, tuple[int, int, list[int]]] = {}
        for done, (needed, now, path) in states.items():
            for i, t in enumerate(tasks):
                if done >> i & 1 or before[i] & ~done:
                    continue
                most = max(needed, now + made[i])
                mask = done | 1 << i
                known = following.get(mask)
                if most >= limit or (known is not None and known[0] <= most):
                    continue
                gone = sum(s for m, s in freed[i] if not m & ~mask)
                following[mask] = (most, now + made[i] - gone, [*path, t])
        states = following
        if not states or len(states) > STATES:
            return None
    ((_, _, path),) = states.values()
    return [*order[:low], *path, *order[high:]]


def best_order(graph: TaskGraph, names: Sequence[str] = tuple(ORDERS)) -> tuple[str, list[int]]:
    """The order of the least peak and the name of the method, the first of `names` where several
    are equal."""
    orders = {name: ORDERS[name](graph) for name in names}
    name = min(orders, key=lambda n: graph.live(orders[n]).peak)
    order = exact_windows(graph, orders[name])
    return (name if order == orders[name] else f"{name}, exact windows"), order
