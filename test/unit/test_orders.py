"""Orders of tasks: valid, never worse than the program's, exact on small graphs."""

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from ge.transforms.analysis.task_graph import TaskGraph
from ge.transforms.memory import order_tasks
from ge.transforms.memory.order_tasks import ORDERS, best_order, exact_windows


@st.composite
def graphs(draw: st.DrawFn, most: int = 20) -> TaskGraph:
    graph = TaskGraph()
    for t in range(draw(st.integers(1, most))):
        task = graph.task()
        if t:
            for b in draw(st.lists(st.integers(0, len(graph.bytes) - 1), max_size=3)):
                graph.read(b, task)
        for _ in range(draw(st.integers(1, 2))):
            graph.buffer(draw(st.integers(0, 9)), task)
    return graph


def is_valid(graph: TaskGraph, order: list[int]) -> bool:
    place = {t: i for i, t in enumerate(order)}
    return sorted(order) == list(range(len(graph))) and all(
        place[graph.writer[b]] < place[t] for t in order for b in graph.operands[t]
    )


def alive(graph: TaskGraph, order: list[int]) -> list[int]:
    """The profile again, by its definition."""
    found: list[int] = []
    for i in range(len(order)):
        now = 0
        for size, writer, readers in zip(graph.bytes, graph.writer, graph.readers, strict=True):
            used = {order.index(t) for t in (writer, *readers)}
            now += size if min(used) <= i <= max(used) else 0
        found.append(now)
    return found


@settings(deadline=None)
@given(graphs())
def test_orders_are_valid(graph: TaskGraph) -> None:
    for name, make in ORDERS.items():
        order = make(graph)
        assert is_valid(graph, order), name
        assert graph.live(order).bytes == alive(graph, order)
    better = exact_windows(graph, list(range(len(graph))))
    assert is_valid(graph, better)
    assert graph.live(better).peak <= graph.live(list(range(len(graph)))).peak


@settings(deadline=None)
@given(graphs())
def test_the_best_is_no_worse_than_any(graph: TaskGraph) -> None:
    _, order = best_order(graph)
    assert graph.live(order).peak <= min(graph.live(make(graph)).peak for make in ORDERS.values())


@settings(deadline=None)
@given(graphs(most=6))
def test_small_graphs_get_their_best_order(graph: TaskGraph) -> None:
    every = (list(p) for p in permutations(range(len(graph))) if is_valid(graph, list(p)))
    _, order = best_order(graph)
    assert graph.live(order).peak == min(graph.live(o).peak for o in every)


def test_nothing_to_order() -> None:
    assert best_order(TaskGraph()) == ("program", [])


def test_a_long_chain_of_branches() -> None:
    """Ten thousand tasks: each step makes two wide values from a narrow one, and narrows them."""
    graph = TaskGraph()
    narrow = graph.buffer(1, graph.task())
    for _ in range(2500):
        wide: list[int] = []
        for _ in range(2):
            task = graph.task()
            graph.read(narrow, task)
            wide.append(graph.buffer(100, task))
        small: list[int] = []
        for w in wide:
            task = graph.task()
            graph.read(w, task)
            small.append(graph.buffer(1, task))
        narrow = small[0]
    assert len(graph) > order_tasks.WINDOW * 100
    name, order = best_order(graph)
    assert is_valid(graph, order)
    assert graph.live(list(range(len(graph)))).peak > 200
    assert graph.live(order).peak < 110
    assert name != "program"
