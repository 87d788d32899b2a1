"""Recomputation: plans of random programs are sound, cuts are the least ones, and numbers keep
every bit. The training graphs that it is measured on have the gradients that finite differences
give, and take a third of the memory at memory level 3."""

import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, f32, f64
from xdsl.ir import Attribute

from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.dialects.support.functions import functions
from ge.dialects.support.types import shape_of
from ge.dialects.targets.target import Target
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.memory import check_plan
from ge.runtime.check.proof import check_program
from ge.runtime.clock.clock import simulate
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session
from ge.transforms.analysis.task_graph import TaskGraph
from ge.transforms.memory.recompute_elementwise import UNLIMITED, Network, RecomputeElementwisePass
from ge.transforms.memory.rematerialize import (
    EXPONENTS,
    RematerializePass,
    best_plan,
    peak_of,
    planned,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
from training_graphs import resnet, transformer

# ---- plans


@st.composite
def programs(draw: st.DrawFn) -> tuple[TaskGraph, list[float | None]]:
    """Random tasks, each of which makes up to two buffers and reads earlier ones."""
    graph, costs = TaskGraph(), list[float | None]()
    for _ in range(draw(st.integers(2, 16))):
        known = len(graph.bytes)
        task = graph.task()
        if known:
            for b in draw(st.sets(st.integers(0, known - 1), max_size=3)):
                graph.read(b, task)
        for _ in range(draw(st.integers(1, 2))):
            graph.buffer(draw(st.sampled_from([0, 1, 5, 20])), task)
        costs.append(draw(st.sampled_from([None, 1.0, 2.0, 10.0])))
    return graph, costs


@settings()
@given(programs(), st.sampled_from(EXPONENTS), st.booleans(), st.integers(0, 60))
def test_plans_are_sound(
    program: tuple[TaskGraph, list[float | None]], exponent: float, shared: bool, budget: int
) -> None:
    graph, costs = program
    plan = planned(graph, costs, budget, exponent, shared, most_us=1e9)
    assert plan is not None
    written: set[int] = set()
    first: list[int] = []
    for step in plan.steps:
        assert written.issuperset(graph.operands[step.task])
        assert step.fills.issubset(graph.results[step.task])
        written |= step.fills
        if step.again:
            assert costs[step.task] is not None
        else:
            assert step.fills == frozenset(graph.results[step.task])
            first.append(step.task)
    assert first == sorted(set(first))
    for b, readers in enumerate(graph.readers):  # what is read, or returned, is there
        assert b in written or readers
    assert plan.peak == peak_of(graph, plan.steps)


@given(programs(), st.integers(0, 60))
def test_a_plan_saves_memory_and_takes_the_time_allowed(
    program: tuple[TaskGraph, list[float | None]], limit: int
) -> None:
    graph, costs = program
    before = graph.live(range(len(graph))).peak
    plan = best_plan(graph, costs, 1.2, limit)
    if plan is not None:
        assert before > limit
        assert plan.peak < before
        assert plan.us <= 1.2 * sum(c or 0.0 for c in costs) * (1 + 1e-9)


# ---- cuts


@settings(max_examples=2 * settings().max_examples)
@given(st.integers(2, 7), st.data())
def test_a_cut_is_the_least_one(count: int, data: st.DataObject) -> None:
    network = Network([[] for _ in range(count)])
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
    capacities = {
        pair: data.draw(st.integers(0, 5))
        for pair in data.draw(st.lists(st.sampled_from(pairs), unique=True, max_size=14))
    }
    for (start, end), capacity in capacities.items():
        network.edge(start, end, capacity)

    def size(late: Sequence[bool]) -> int:
        return sum(c for (a, b), c in capacities.items() if late[b] and not late[a])

    late = network.sink_side(0, 1)
    assert not late[0]
    assert late[1]
    cuts = [(False, True, *rest) for rest in product((False, True), repeat=count - 2)]
    assert size(late) == min(map(size, cuts))
    fewest = min(sum(cut) for cut in cuts if size(cut) == size(late))
    assert sum(late) == fewest


def test_a_cut_of_many_paths_through_one_node() -> None:
    network = Network()
    source, sink, hub = (network.node() for _ in range(3))
    network.edge(source, hub, UNLIMITED)
    for i in range(2000):
        node = network.node()
        network.edge(hub, node, UNLIMITED)
        network.edge(node, sink, 1 + i % 3)
    late = network.sink_side(source, sink)
    assert [node for node, is_late in enumerate(late) if is_late] == [sink]


# ---- training graphs


def payload_of(module: ModuleOp) -> dict[str, Array]:
    """Random weights."""
    rng = np.random.default_rng(0)
    found: dict[str, Array] = {}
    for op in module.walk():
        if isinstance(op, ConstantOp) and isinstance(op.value, WeightAttr):
            found[op.value.data] = 0.5 * rng.standard_normal(shape_of(op.result))
    return found


def tiny(name: str, element: Attribute, norms: bool = False) -> ModuleOp:
    if name == "transformer":
        return transformer(2, 8, 2, 4, 2, element, norms)
    return resnet((1, 1), 4, 8, 2, 3, element, norms)


@pytest.mark.parametrize("name", ["transformer", "resnet"])
def test_gradients_agree_with_finite_differences(name: str) -> None:
    module = tiny(name, f64)
    module.verify()
    payload, rng = payload_of(module), np.random.default_rng(1)
    args = functions(module)["main"].body.block.args
    inputs = {n: rng.standard_normal(shape_of(a)) for n, a in zip("xg", args, strict=True)}
    direction = {key: rng.standard_normal(w.shape) for key, w in payload.items()}

    def loss(step: float) -> float:
        moved = {key: w + step * direction[key] for key, w in payload.items()}
        return float((Session(module, moved).run(inputs)["y"] * inputs["g"]).sum())

    gradients = Session(module, payload).run(inputs)
    along = sum(float((gradients[f"d{key}"] * d).sum()) for key, d in direction.items())
    assert (loss(1e-6) - loss(-1e-6)) / 2e-6 == pytest.approx(along, rel=1e-4)


def inputs_of(module: ModuleOp, rng: np.random.Generator) -> dict[str, Array]:
    """Random x and g."""
    args = functions(module)["main"].body.block.args
    return {
        n: rng.standard_normal(shape_of(a)).astype(np.float32)
        for n, a in zip("xg", args, strict=True)
    }


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda: transformer(1, 8, 2, 4, 2, f32), id="one-layer"),
        pytest.param(
            lambda: tiny("transformer", f32, norms=True), id="transformer", marks=pytest.mark.soak
        ),
        pytest.param(lambda: tiny("resnet", f32, norms=True), id="resnet", marks=pytest.mark.soak),
    ],
)
def test_numbers_keep_every_bit(build: Callable[[], ModuleOp]) -> None:
    module = build()
    payload = {key: w.astype(np.float32) for key, w in payload_of(module).items()}
    inputs = inputs_of(module, np.random.default_rng(1))
    lower(module, Options(fusion="off", memory=2), until="tasks")
    kept = Session(module.clone(), payload).run(inputs)
    RematerializePass(slower=2.0).apply(context(), module)
    recomputed = functions(module)["main"].attributes.get("npu_task.recomputed")
    assert isinstance(recomputed, IntegerAttr)
    assert recomputed.value.data > 0
    lower(module, Options(fusion="off", memory=1))
    assert not check_plan(module)
    again = Session(module, payload, poison=True).run(inputs)
    assert all(np.array_equal(kept[key], again[key]) for key in kept)


@pytest.mark.parametrize("name", [pytest.param("transformer", marks=pytest.mark.soak), "resnet"])
def test_elementwise_copies_keep_every_bit(name: str) -> None:
    module = tiny(name, f32, norms=True)
    payload = {key: w.astype(np.float32) for key, w in payload_of(module).items()}
    inputs = inputs_of(module, np.random.default_rng(1))
    kept = Session(module.clone(), payload).run(inputs)
    RecomputeElementwisePass().apply(context(), module)
    module.verify()
    assert "fused_op.recomputed" in functions(module)["main"].attributes
    again = Session(module, payload).run(inputs)
    assert all(np.array_equal(kept[key], again[key]) for key in kept)


TARGET = "910b2"


@pytest.mark.parametrize(
    ("build", "ratio"),
    [
        pytest.param(
            lambda: transformer(1, 16, 2, 64, 1, f32), 1.05, id="one-layer", marks=pytest.mark.soak
        ),
        pytest.param(
            lambda: transformer(2, 16, 2, 64, 1, f32),
            2.1,
            id="small-transformer",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            lambda: transformer(8, 32, 4, 128, 2, f32),
            5.0,
            id="transformer",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            lambda: resnet((2, 2, 2, 2), 16, 32, 4, 10, f32),
            1.8,
            id="resnet",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_less_memory_for_a_fifth_more_time(
    build: Callable[[], ModuleOp], ratio: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what is alive at the peak, without the search for packings, which takes
    long and has tests of its own."""
    for budget in ("SEARCH_LONG", "SEARCH_BRIEFLY"):
        monkeypatch.setattr(f"ge.lowering.pipeline.stages.{budget}", 0)
    module = build()
    payload = {key: w.astype(np.float32) for key, w in payload_of(module).items()}
    inputs = inputs_of(module, np.random.default_rng(1))
    peaks: list[int] = []
    times: list[float] = []
    outputs: list[dict[str, Array]] = []
    for level in (2, 3):
        program = module.clone()
        compiled = lower(program, Options(target=TARGET, memory=level))
        assert not check_program(program).problems
        fusions = [record.name for record in compiled.passes].count("fuse-vector-ops")
        assert fusions < level  # with and without copies of elementwise ops at level 3, not more
        peaks.append(compiled.memory["lower_bound_bytes"])
        times.append(simulate(program, Target.load(TARGET)).latency_us)
        outputs.append(Session(program, payload, TARGET, poison=True).run(inputs))
    assert peaks[1] * ratio <= peaks[0]
    assert times[1] <= 1.2 * times[0]
    kept, again = outputs
    for key in kept:
        np.testing.assert_array_equal(again[key], kept[key])
