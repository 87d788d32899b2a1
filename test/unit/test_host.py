"""The host: operations, caches, layers, modes, captured graphs, threads, proofs of its queues."""

import threading
from pathlib import Path

import numpy as np
import pytest

import ge
from ge.dialects.npu_task.attributes import HOST, space_of
from ge.dialects.npu_task.ops import BatchCopyOp, CopyOp
from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target
from ge.lowering.driver.compiler import load, lower_program
from ge.lowering.pipeline.options import Options
from ge.runtime.check.host_queues import host_problems
from ge.runtime.clock.clock import simulate
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session
from ge.runtime.host.api import (
    Context,
    GraphOperation,
    Host,
    HostProgram,
    Node,
    TensorDesc,
    VariantPack,
    capture,
    create_operation,
    layers,
    register_operation,
)
from ge.runtime.host.context import KernelCache
from ge.runtime.host.host import epochs
from ge.runtime.host.host_clock import HOST_CAUSES
from ge.runtime.host.program import mark_growing, repeats
from ge.runtime.host.schedule import MODES, HostSchedule, HostWork, run_stages
from ge.runtime.profile.trace import chrome_trace

MODELS = Path(__file__).parents[1] / "models"
TARGET = Target.load("910_merged")

register_operation("test.add", lambda x, y: x + y, lambda x, y: x)
register_operation(
    "test.twice", lambda x: np.tile(x, 2), lambda x: TensorDesc(x.dtype, (2 * x.shape[0],))
)
register_operation("test.bad", lambda x: x, lambda x: 5)  # pyright: ignore
register_operation("test.scale", lambda x, by: x * np.float32(by), lambda x: x)


@pytest.fixture(scope="module")
def program() -> HostProgram:
    """Equal layers, a launch for each graph op."""
    loaded = load(str(MODELS / "bert_base.tiny.onnx"))
    lower_program(loaded, Options(target=TARGET.name, fusion="off", tiles=False))
    session = Session(loaded.module, loaded.payload, TARGET)
    return HostProgram(loaded.module, TARGET, session)


@pytest.fixture
def context() -> Context:
    return Context(streams=2)


def arrays(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape), np.zeros(shape, np.float32)


# ---- operations ------------------------------------------------------------------------------


def test_a_graph_of_operations_places_what_is_between_them(context: Context):
    add, scale = create_operation("test.add"), create_operation("test.scale", by=3)
    inner = GraphOperation("inner", 1, 1, [Node(scale, [0], [2]), Node(add, [0, 2], [1])])
    outer = GraphOperation("outer", 1, 1, [Node(inner, [0], [2]), Node(inner, [2], [1])])
    x, y = arrays(4, 5)
    pack = VariantPack([x], [y])
    size = outer.setup(pack)
    assert size == 1024  # one tensor of each graph, aligned
    outer.execute(pack, context.workspace(size), context)
    np.testing.assert_array_equal(y, 16 * x)
    assert outer.setup(pack) == size
    assert outer.outcome.skipped == outer.operations == 4


def test_execute_refuses_what_was_not_set_up(context: Context):
    add = create_operation("test.add")
    graph = GraphOperation("sum", 1, 1, [Node(add, [0, 0], [2]), Node(add, [2, 0], [1])])
    x, y = arrays(4)
    pack = VariantPack([x], [y])
    with pytest.raises(GeError, match="not set up for these tensors"):
        graph.execute(pack, context.workspace(0), context)
    size = graph.setup(pack)
    with pytest.raises(GeError, match=f"takes {size} bytes of workspace, there are 0"):
        graph.execute(pack, context.workspace(0), context)
    with pytest.raises(GeError, match=r"gives float32\[4\], but the outputs are float32\[5\]"):
        graph.setup(VariantPack([x], [np.zeros(5, np.float32)]))
    graph.setup(pack)
    descs = VariantPack([TensorDesc.of(x)], [TensorDesc.of(y)])
    with pytest.raises(GeError, match="a description"):
        graph.execute(descs, context.workspace(size + 512), context)
    y.flags.writeable = False
    with pytest.raises(GeError, match="the array of output 0 is read-only"):
        graph.execute(pack, context.workspace(size), context)


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([([0, 2], [1])], "reads tensor 2, which no node before it writes"),
        ([([0, 0], [2])], "no node writes output 0"),
        ([([0, 0], [1]), ([0, 0], [1])], "writes tensor 1, which is written already"),
        ([([0, 0], [0]), ([0, 0], [1])], "writes tensor 0, which is an input"),
        ([([0, 0], [1, 2])], "gives 1 tensors, its node has 2 outputs"),
        ([([0], [1])], r"'test\.add' does not take 1 inputs: missing .* 'y'"),
    ],
)
def test_graphs_that_are_wired_wrongly(nodes: list[tuple[list[int], list[int]]], said: str):
    add = create_operation("test.add")
    x, y = arrays(4)
    pack = VariantPack([x], [y])
    with pytest.raises(GeError, match=said):
        GraphOperation("bad", 1, 1, [Node(add, *wires) for wires in nodes]).setup(pack)


def test_nodes_call_one_graph_with_several_shapes(context: Context):
    twice = create_operation("test.twice")
    inner = GraphOperation("inner", 1, 1, [Node(twice, [0], [2]), Node(twice, [2], [1])])
    outer = GraphOperation("outer", 1, 1, [Node(inner, [0], [2]), Node(inner, [2], [1])])
    x = np.arange(4, dtype=np.float32)
    pack = VariantPack([x], [y := np.zeros(64, np.float32)])
    outer.execute(pack, context.workspace(outer.setup(pack)), context)
    np.testing.assert_array_equal(y, np.tile(x, 16))


def test_names_of_operations_and_modes():
    with pytest.raises(GeError, match=r"no operation 'test\.sub'"):
        create_operation("test.sub")
    with pytest.raises(GeError, match="already"):
        register_operation("test.add", np.add, lambda x, y: x)
    with pytest.raises(GeError, match=r"no dispatch mode 'egaer'; did you mean 'eager'"):
        Host.of("egaer")
    assert ge.host.Host is Host


def test_a_host_refuses_what_it_cannot_use(context: Context):
    with pytest.raises(GeError, match="one dispatch mode, not 'all'"):
        Host.of("all")
    with pytest.raises(GeError, match="local slots: 0 to 1024, not x"):
        Host.of("graph", local_slots="x")
    with pytest.raises(GeError, match="tensors are arrays or descriptions, not of type list"):
        _ = VariantPack([[1, 2]], []).descs  # pyright: ignore[reportArgumentType]
    with pytest.raises(GeError, match="no option 'slots'; options: local_slots, global_slots"):
        Host.of("graph", slots=3)
    with pytest.raises(GeError, match="no stream 'a', the context has 2"):
        context.stream("a")  # pyright: ignore[reportArgumentType]
    with pytest.raises(GeError, match=r"0 is no stream; .*context\.stream\(0\)"), capture(0):  # pyright: ignore
        pass
    with pytest.raises(GeError, match="at least one stream, not '2'"):
        Context("2")  # pyright: ignore[reportArgumentType]


def test_operations_refuse_what_they_do_not_take():
    x, y = arrays(4)
    scale = create_operation("test.scale", times=2)
    with pytest.raises(GeError, match=r"does not take 1 inputs, times=2: missing .*'by'"):
        scale.setup(VariantPack([x], [y]))
    with pytest.raises(GeError, match="infer gives 5, not descriptions"):
        create_operation("test.bad").setup(VariantPack([x], [y]))
    with pytest.raises(GeError, match="kernel is no function, but 3"):
        register_operation("test.number", 3, lambda x: x)  # pyright: ignore[reportArgumentType]


def test_slots_are_filled_round_robin():
    cache = KernelCache(2)
    for key in "ab":
        assert cache.find(key, 1) is None
        cache.put(key, 1)
    assert cache.find("a", 1) is not None
    cache.put("c", 1)  # in the place of a
    assert cache.find("a", 1) is None
    found = cache.find("b", 2)
    assert found is not None
    assert found.patched


# ---- captured graphs -------------------------------------------------------------------------


def test_a_captured_graph_is_replayed(context: Context):
    scale = create_operation("test.scale", by=2)
    x, y = arrays(6)
    pack = VariantPack([x], [y])
    workspace = context.workspace(scale.setup(pack))
    with capture(context.stream(0)) as graph:
        scale.execute(pack, workspace, context)
        with pytest.raises(GeError, match="workspace grows while stream 0 is captured"):
            context.workspace(1 << 20)
        with pytest.raises(GeError, match="waits for the device while"):
            context.synchronize()
        with pytest.raises(GeError, match="captured already"), capture(context.stream(0)):
            pass
    assert not y.any()  # nothing ran
    graph.replay()
    np.testing.assert_array_equal(y, 2 * x)
    other = VariantPack([x + 1], [np.zeros_like(y)])
    graph.replay(other)
    np.testing.assert_array_equal(other.outputs[0], 2 * (x - 0))
    with pytest.raises(GeError, match=r"captured with .* cannot be replayed with .*capture again"):
        graph.replay(VariantPack([np.zeros(7, np.float32)], [np.zeros(7, np.float32)]))
    z = np.zeros_like(y)
    graph.update(0, VariantPack([x], [z]))
    graph.replay()
    np.testing.assert_array_equal(z, 2 * x)
    for number in (1, "a"):
        with pytest.raises(GeError, match=f"there is no task {number!r}"):
            graph.update(number, pack)  # pyright: ignore[reportArgumentType]


# ---- programs --------------------------------------------------------------------------------


def test_repeats():
    assert list(repeats([9, 1, 2, 3, 1, 2, 3, 1, 2, 3, 8])) == [(1, 3, 3)]
    assert list(repeats([1, 2, 1, 2, 5, 3, 4, 3, 4])) == [(0, 2, 2), (5, 2, 2)]
    assert list(repeats([1, 2, 3])) == []


@pytest.mark.parametrize("mode", MODES)
def test_modes_compute_the_same_bits(mode: str, program: HostProgram):
    assert program.session is not None
    inputs = random_inputs(program.module)
    want = program.session.run(inputs)
    host = Host.of(mode, TARGET.name, sanitize=True)
    sunk = simulate(program.module, TARGET)
    for _ in range(2):
        called = host.call(program, inputs)
        for name, array in called.outputs.items():
            assert array.tobytes() == want[name].tobytes()
        assert called.timeline is not None
        assert called.timeline.latency_us >= sunk.latency_us - 1e-6
        assert called.timeline.lower_bound_us == pytest.approx(sunk.lower_bound_us)


def test_setups_and_tilings_are_counted(program: HostProgram):
    launches = len(epochs(program)[0]) and sum(
        len(u.launches) for u in Host.of("graph").units(program, epochs(program)[0])
    )
    eager, graph = Host.of("eager"), Host.of("graph")
    for _ in range(2):
        counts = eager.call(program).counts
        assert (counts.setups, counts.skipped, counts.found["miss"]) == (launches, 0, launches)
    units = graph.units(program, epochs(program)[0])
    distinct = {id(unit.operation): len(unit.launches) for unit in units}
    assert len(distinct) < len(units)  # a layer is found once
    first, second = graph.call(program).counts, graph.call(program).counts
    assert first.setups == sum(distinct.values()) == launches - first.skipped
    assert sum(first.found.values()) == first.setups
    assert (second.setups, second.skipped) == (0, launches)


def test_the_device_waits_less_with_threads_and_caches(program: HostProgram):
    idle: dict[str, float] = {}
    between: dict[str, float] = {}  # launches, without what is before the first one
    host: dict[str, list[float]] = {}
    for mode in ("eager", "graph", "two-stage", "captured"):
        feeder = Host.of(mode)
        calls = [feeder.call(program) for _ in range(2)]
        idle[mode] = sum(calls[1].idle_us[cause] for cause in HOST_CAUSES)
        at_start = calls[1].idle_at_start_us
        assert 0 < at_start < idle[mode]
        between[mode] = idle[mode] - at_start
        host[mode] = [sum(c.host_us.values()) for c in calls]
    units = len(Host.of("graph").units(program, epochs(program)[0]))
    assert idle["two-stage"] <= idle["graph"] + units * TARGET.host_handoff_us
    assert idle["two-stage"] < 0.2 * idle["eager"]
    assert between["two-stage"] < 0.2 * between["eager"]
    assert host["captured"][1] < 0.05 * host["captured"][0]


def test_the_branch_that_counts_is_fed_alone():
    loaded = load(str(MODELS / "if_cond.tiny.onnx"))
    lower_program(loaded, Options())
    for mode in ("eager", "graph", "captured"):
        called = Host.of(mode).call(HostProgram(loaded.module, TARGET))
        assert called.timeline is not None
        assert any("the longer branch is counted" in note for note in called.timeline.notes)
        # one thread cannot work for longer than the call takes
        assert 0 < sum(called.host_us.values()) <= called.timeline.latency_us


def test_a_trace_has_a_row_for_each_thread(program: HostProgram):
    timeline = Host.of("two-stage").call(program).timeline
    assert timeline is not None
    events = chrome_trace(timeline)["traceEvents"]
    rows = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {"host: setup", "host: execute"} <= rows
    assert all(t.on_device == (t.stream >= 0) for t in timeline.tasks)
    idle = sum(g.end_us - g.start_us for g in timeline.gaps)
    assert idle == pytest.approx(sum(timeline.idle_us.values()))


def test_growth_is_found_in_programs_of_another_order(program: HostProgram):
    units = Host.of("graph").units(program, epochs(program)[0])
    mark_growing(units, [*units[2:], *units[:2]])
    mark_growing(units, units[1:])
    mark_growing(units, [])


# ---- layers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("captured", [False, True])
def test_layers_of_a_program_compute_its_numbers(
    captured: bool, program: HostProgram, context: Context
):
    assert program.session is not None
    inputs = random_inputs(program.module)
    parts = layers(program)
    first, second = (c for c in parts.calls if c.operation is parts.calls[1].operation)
    assert first.inputs.keys() != second.inputs.keys()  # other weights, in one operation
    values = {**parts.constants, **inputs}
    for call in parts.calls:
        values |= {n: np.zeros(d.shape, d.dtype) for n, d in call.outputs.items()}
        pack = VariantPack([values[n] for n in call.inputs], [values[n] for n in call.outputs])
        workspace = context.workspace(call.operation.setup(pack))
        assert call.operation.outcome.skipped == (call is second) * call.operation.operations
        if captured:
            with capture(context.stream(0)) as graph:
                call.operation.execute(pack, workspace, context)
            graph.replay()
        else:
            call.operation.execute(pack, workspace, context)
    for name, want in program.session.run(inputs).items():
        assert values[name].tobytes() == want.tobytes()
    wrong = VariantPack([TensorDesc("float32", (3,))] * len(first.inputs), [])
    with pytest.raises(GeError, match=r"has no kernel for float32\[3\]"):
        first.operation.setup(wrong)
    with pytest.raises(GeError, match="give HostProgram a session"):
        layers(HostProgram(program.module, TARGET))


BUFFERS = """
func.func @main(%x: tensor<4x4xf32> {graph.name = "x"}, %k: tensor<3x4xf32> {graph.name = "k"})
    -> (tensor<7x4xf32> {graph.name = "y"}, tensor<4x4xf32> {graph.name = "z"}) {
  %0 = graph.exp %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = graph.softmax %0 axis 1 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = graph.softmax %k axis 1 : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %3 = graph.concat %2, %1 axis 0 : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<7x4xf32>
  %4 = graph.add %1, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %3, %4 : tensor<7x4xf32>, tensor<4x4xf32>
}
"""


def test_layers_write_buffers_by_parts(
    tmp_path: Path, context: Context, monkeypatch: pytest.MonkeyPatch
):
    source = tmp_path / "buffers.mlir"
    source.write_text(BUFFERS)
    loaded = load(str(source))
    lower_program(loaded, Options(fusion="off"))
    program = HostProgram(loaded.module, TARGET, Session(loaded.module, {}, TARGET))
    assert program.session is not None
    inputs = random_inputs(program.module)
    (call,) = layers(program).calls
    assert set(call.inputs) == {"x", "k"}
    values = {n: np.full(d.shape, np.nan, d.dtype) for n, d in call.outputs.items()}
    pack = VariantPack([inputs[n] for n in call.inputs], [*values.values()])
    workspace = context.workspace(call.operation.setup(pack))
    with monkeypatch.context() as patch:  # what is not written is garbage
        patch.setattr(np, "empty", lambda shape, dtype: np.full(shape, np.nan, dtype))
        call.operation.execute(pack, workspace, context)
    for name, want in program.session.run(inputs).items():
        assert values[name].tobytes() == want.tobytes()


def test_layers_are_of_programs_without_control_flow():
    loaded = load(str(MODELS / "if_cond.tiny.onnx"))
    lower_program(loaded, Options())
    session = Session(loaded.module, loaded.payload, TARGET)
    with pytest.raises(GeError, match=r"layers are of programs without npu_task\.if"):
        layers(HostProgram(loaded.module, TARGET, session))


# ---- threads ---------------------------------------------------------------------------------


def test_the_first_error_of_a_thread_comes_out():
    done: list[tuple[int, int]] = []

    def stage(place: int, number: int, item: str) -> None:
        done.append((place, number))
        if (place, item) == (1, "c"):
            raise GeError("the second stage fails at c")

    stages = [lambda n, i, p=place: stage(p, n, i) for place in range(3)]
    with pytest.raises(GeError, match="fails at c"):
        run_stages(stages, "abcdef", 2)
    assert (2, 2) not in done
    assert threading.active_count() < 10


# ---- proofs ----------------------------------------------------------------------------------


def schedule_of(
    program: HostProgram, mode: str, calls: int = 1, **options: int
) -> tuple[HostSchedule, list[str]]:
    """Of the last call, and what is wrong with it."""
    host = Host.of(mode, **options)
    schedule = [host.call(program) for _ in range(calls)][-1].schedules[0]
    ops = list(program.block.ops)
    return schedule, host_problems(schedule, ops)


@pytest.mark.parametrize(
    ("ring", "mode"),
    [
        *((2, mode) for mode in ("eager", "two-stage", "captured")),
        *((128, mode) for mode in ("graph", "three-stage")),
        *(pytest.param(128, m, marks=pytest.mark.soak) for m in ("eager", "two-stage", "captured")),
        *(pytest.param(2, m, marks=pytest.mark.soak) for m in ("graph", "three-stage")),
    ],
)
def test_queues_are_proved(mode: str, ring: int, program: HostProgram):
    for calls in (1, 2):
        assert schedule_of(program, mode, calls, ring_blocks=ring)[1] == []


@pytest.mark.parametrize("mode", ["two-stage", "three-stage"])
def test_inputs_are_copied_ahead_of_launches(mode: str, program: HostProgram):
    """By the first thread, where it has nothing to set up. What leaves the device is asked for
    where launches are."""
    host = Host.of(mode)
    copies = [op for op in epochs(program)[0] if isinstance(op, CopyOp)]
    arriving = sum(space_of(op.source.type) == HOST for op in copies)
    assert 0 < arriving < len(copies)
    for by_first in (0, arriving):
        (schedule,) = host.call(program).schedules
        assert host_problems(schedule, list(program.block.ops)) == []
        threads = [
            task.thread
            for task in schedule.all()
            if task.kind is HostWork.COPY and task.reads == ()
        ]
        assert threads.count(0) == by_first
        assert threads.count(len(schedule.threads) - 1) == len(copies) - by_first


def test_copies_of_several_buffers_are_tasks_of_the_device_too():
    loaded = load(str(MODELS / "bert_base.tiny.onnx"))
    lower_program(loaded, Options(merge_io=True))
    merged = HostProgram(loaded.module, TARGET)
    assert any(isinstance(op, BatchCopyOp) for op in merged.block.ops)
    for mode in ("graph", "two-stage"):
        assert schedule_of(merged, mode, calls=2)[1] == []


def plant(schedule: HostSchedule, fault: str) -> None:
    tasks = list(schedule.all())
    match fault:
        case "not written":
            task = next(t for t in tasks if t.kind is HostWork.ARGUMENTS)
            line = schedule.tasks[task.thread]
            line.append(line.pop(line.index(task)))
        case "not copied":
            schedule.copies[0].launches.clear()
        case "overwritten":
            for task in tasks:
                task.until = ()
        case "ping-pong":
            for task in tasks:
                if task.thread == 1:
                    task.after = [t for t in task.after if t.thread == 0]
        case "too early":
            for task in tasks:
                task.after = [t for t in task.after if t.kind is not HostWork.COPY]
        case "issued":
            next(t for t in tasks if t.kind is HostWork.LAUNCH).issues = ()
        case _:
            first = next(t for t in tasks if t.kind is HostWork.TILING)
            first.until = (schedule.device_tasks - 1,)


@pytest.mark.parametrize(
    ("fault", "mode", "said"),
    [
        ("not written", "graph", "not written: arguments"),
        ("not copied", "graph", "not copied: tiling"),
        ("overwritten", "eager", "overwritten: tiling"),
        ("ping-pong", "three-stage", "overwritten: arguments"),
        ("issued", "two-stage", "issued: task"),
        ("too early", "two-stage", "too early: task"),
        ("deadlock", "operations", "deadlock"),
    ],
)
def test_planted_faults_are_found(fault: str, mode: str, said: str, program: HostProgram):
    calls = 2 if fault == "too early" else 1
    schedule, before = schedule_of(program, mode, calls, ring_blocks=2)
    assert before == []
    plant(schedule, fault)
    problems = host_problems(schedule, list(program.block.ops))
    assert any(p.startswith(said) for p in problems), problems
