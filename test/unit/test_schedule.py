"""Random programs: schedules are proved by the checker that replays them, are never slower than the
order of the program, keep to their limits, and each planted fault is found."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.parser import Parser

from ge.dialects.npu_task.ops import LaunchOp, RecordOp, WaitOp
from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target
from ge.lowering.driver.compiler import context, load, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.happens_before import HappensBefore
from ge.runtime.check.memory import check_plan
from ge.runtime.check.schedule import check_schedule
from ge.runtime.clock.clock import ProgramClock, simulate
from ge.transforms.analysis.dependencies import Segment, segments
from ge.transforms.analysis.task_graph import TaskGraph, Window, windows
from ge.transforms.memory.plan_memory import PlanMemoryPass
from ge.transforms.schedule.assign_streams import AssignStreamsPass, StreamAssignment
from ge.transforms.schedule.events import add_orderings
from ge.transforms.schedule.list_scheduling import (
    ListScheduler,
    MemoryCap,
    Streams,
    memory_orderings,
    path_lengths,
)
from ge.transforms.schedule.split_launches import best_streams

TARGET = Target.load()
MODELS = Path(__file__).parents[1] / "models"
CONTEXT = context()
SIZES = (128, 1024)


def tensor(size: int) -> str:
    return f"tensor<{size}x{size}xf16>"


def memref(size: int, space: str = "hbm") -> str:
    return f'memref<{size}x{size}xf16, "{space}">'


def kernels() -> str:
    """A kernel of each size for all and for a third of the cores of both engines."""
    found: list[str] = []
    for size in SIZES:
        for name, engine, body, tiling in (
            ("cube", "cube", "graph.matmul %0, %0", f"[{size // 2}, 64, 64] blocks"),
            ("vector", "vector", "graph.exp %0", "[1024] blocks"),
        ):
            t = tensor(size)
            types = f"({t}, {t}) -> {t}" if engine == "cube" else f"({t}) -> {t}"
            for share, blocks in (("all", 24), ("some", 8))[: 2 if engine == "cube" else 1]:
                found.append(
                    f"npu_task.kernel @{name}_{share}_{size} on {engine} "
                    f"tiling <{tiling} {blocks} buffers 2> {{\n"
                    f"^bb0(%0: {t}):\n  %1 = {body} : {types}\n  npu_task.return %1 : {t}\n}}"
                )
    return "\n".join(found)


KERNELS = kernels()


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A module on buffers: launches that read one earlier buffer of their size, or two (the second
    one through a copy), and copies to the host."""
    lines: list[str] = []
    known = {size: [f"%x{size}"] for size in SIZES}
    for i in range(draw(st.integers(2, 12))):
        size = draw(st.sampled_from(SIZES))
        source, name = draw(st.sampled_from(known[size])), f"%b{i}"
        kind = draw(st.sampled_from(["cube_all", "cube_some", "vector_all", "out"]))
        if kind == "out":
            lines.append(f"{name} = memref.alloc() : {memref(size, 'host')}")
            t = f"{memref(size)} to {memref(size, 'host')}"
            lines.append(f"npu_task.copy {source} to {name} : {t}")
            continue
        t = memref(size)
        lines.append(f"{name} = memref.alloc() : {t}")
        lines.append(f"npu_task.launch @{kind}_{size} ins({source} : {t}) outs({name} : {t})")
        if draw(st.integers(0, 3)) == 0:  # written again
            other = draw(st.sampled_from(known[size]))
            lines.append(f"npu_task.launch @{kind}_{size} ins({other} : {t}) outs({name} : {t})")
        known[size].append(name)
    args = ", ".join(f"%x{s}: {memref(s)}" for s in SIZES)
    body = "\n  ".join(lines)
    return f"{KERNELS}\nfunc.func @main({args}) {{\n  {body}\n  func.return\n}}"


EXAMPLES = settings().max_examples // 10  # a program takes longer than other examples do


def scheduled(text: str, **options: int) -> ModuleOp:
    module = Parser(CONTEXT, text).parse_module()
    AssignStreamsPass(**options).apply(Context(), module)  # pyright: ignore[reportArgumentType]
    module.verify()
    return module


def main(module: ModuleOp) -> FuncOp:
    return next(op for op in module.ops if isinstance(op, FuncOp))


def figure(module: ModuleOp, name: str) -> int:
    attr = main(module).attributes[f"npu_task.{name}"]
    assert isinstance(attr, IntegerAttr)
    return attr.value.data


@settings(max_examples=EXAMPLES)
@given(programs())
def test_schedules_are_proved(text: str) -> None:
    """With the program's own peak as the limit, which the checker looks at as well."""
    module = scheduled(text)
    assert check_schedule(module, TARGET) == []
    PlanMemoryPass().apply(Context(), module)
    assert check_plan(module) == []
    assert check_schedule(module, TARGET) == []


@settings(max_examples=EXAMPLES)
@given(programs())
def test_schedules_are_never_slower_than_the_program_order(text: str) -> None:
    module = scheduled(text, memory_limit=1 << 40)
    assert check_schedule(module, TARGET) == []
    timeline = simulate(module, TARGET)
    in_order = simulate(scheduled(text, in_order=True), TARGET)
    assert timeline.latency_us <= in_order.latency_us * (1 + 1e-9)
    assert timeline.latency_us >= timeline.lower_bound_us * (1 - 1e-9)


def check_that_the_search_writes_nothing(module: ModuleOp) -> None:
    """The clock times a schedule that is nowhere in the IR, as it does afterwards from the IR."""
    before, func = str(module), main(module)
    streams = best_streams(ProgramClock(module, TARGET), TARGET)
    streams.function(func)
    latency = ProgramClock(module, TARGET, streams.issues()).main(module).latency_us
    assert str(module) == before
    streams.write(func)
    assert str(module) != before
    assert simulate(module, TARGET).latency_us == latency


@settings(max_examples=EXAMPLES)
@given(programs())
def test_the_search_writes_nothing(text: str) -> None:
    check_that_the_search_writes_nothing(Parser(CONTEXT, text).parse_module())


@pytest.mark.parametrize("model", [
    "loop_ts.tiny", pytest.param("loop_greedy.tiny", marks=pytest.mark.soak), "if_cond.tiny",
])  # fmt: skip
def test_the_search_writes_nothing_into_control_flow(model: str) -> None:
    module = load(str(MODELS / f"{model}.onnx")).module
    lower(module, Options(), until="buffers")
    check_that_the_search_writes_nothing(module)


@settings(max_examples=EXAMPLES)
@given(programs())
def test_every_event_of_the_program_order_is_needed(text: str) -> None:
    module = scheduled(text, in_order=True)
    for wait in [op for op in module.walk() if isinstance(op, WaitOp)]:
        block, after = wait.parent, wait.next_op
        assert block is not None
        assert after is not None
        wait.detach()
        assert {p.kind for p in check_schedule(module, TARGET)} & {"race"}
        block.insert_op_before(wait, after)


@settings(max_examples=EXAMPLES)
@given(programs())
def test_waits_without_their_record_are_found(text: str) -> None:
    module = scheduled(text, in_order=True)
    for record in [op for op in module.walk() if isinstance(op, RecordOp)]:
        block, after = record.parent, record.next_op
        assert block is not None
        assert after is not None
        record.detach()
        assert check_schedule(module, TARGET)
        block.insert_op_before(record, after)


@settings(max_examples=EXAMPLES)
@given(programs(), st.data())
def test_more_orderings(text: str, data: st.DataObject) -> None:
    """After `add_orderings` the tasks are ordered, as well as before, and nothing is wrong."""
    module = scheduled(text)
    func = main(module)
    tasks = [op for op in func.body.block.ops if "stream" in op.properties and _is_task(op)]
    later: dict[Operation, list[Operation]] = {}
    for _ in range(3):
        second = data.draw(st.integers(1, len(tasks) - 1)) if len(tasks) > 1 else 0
        if second:
            first = data.draw(st.integers(0, second - 1))
            later.setdefault(tasks[second], []).append(tasks[first])
    add_orderings(func, later, figure(module, "streams"), TARGET.max_events)
    assert check_schedule(module, TARGET) == []
    items = HappensBefore(func).items
    assert all(items[a].follows(items[b]) for a, earlier in later.items() for b in earlier)
    events = figure(module, "events")
    assert add_orderings(func, later, figure(module, "streams"), TARGET.max_events) <= events


def _is_task(op: Operation) -> bool:
    return not isinstance(op, RecordOp | WaitOp)


# ---- list scheduling ---------------------------------------------------------------------------


def test_a_schedule_does_not_depend_on_an_earlier_run() -> None:
    """Of an engine with one core the next task is launched when the one before it runs, also where
    the tasks have times from a run in another order."""
    alloc = "memref.alloc() : " + memref(1024)
    copy = f"{memref(1024, 'host')} to {memref(1024)}"
    reads = "".join(f"  %b{i} = {alloc}\n  npu_task.copy %x to %b{i} : {copy}\n" for i in range(8))
    sums = "".join(
        f"  npu_task.launch @vector_all_1024 ins(%b{i} : {memref(1024)}) "
        f"outs(%c : {memref(1024)})\n"
        for i in range(8)
    )
    text = (
        f"{KERNELS}\nfunc.func @main(%x: {memref(1024, 'host')}) {{\n{reads}"
        f"  %c = {alloc}\n{sums}  func.return\n}}"
    )
    module = Parser(CONTEXT, text).parse_module()
    (segment,) = segments(main(module).body.block)
    assert isinstance(segment, Segment)
    found: list[list[int]] = []
    for start_us in (0.0, 5.0):
        tasks = simulate(scheduled(text, in_order=True), TARGET).tasks
        for t in tasks:
            t.start_us = start_us
        scheduler = ListScheduler(
            tasks,
            segment.before,
            path_lengths([t.time.total_us for t in tasks], segment.before, TARGET.launch_us),
            MemoryCap(window(len(tasks)), 0),
            Streams(list(range(5, 17)), 8, {"dma_in": [2], "vector": [1]}),
            TARGET,
        )
        scheduler.play()
        found.append(scheduler.schedule.stream)
    assert found[0] == found[1]
    assert len({found[0][i] for i in range(8)}) == 2


@pytest.mark.parametrize(
    ("times", "best"),
    [((30, 19, 12, 18), 12), ((30, 40, 50, 60), 30), ((30, 10.005, 10.001, 10), 10.005)],
)
def test_the_fastest_schedule_is_taken(
    times: tuple[float, ...], best: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of that of the program and of all others, until one is as fast as any can be: 10 us. Those
    that are expected to be no faster than one before are not timed."""
    timed: list[float] = []

    def time(_: object, segment: object, schedule: float, before: object) -> SimpleNamespace:
        timed.append(schedule)
        return SimpleNamespace(latency_us=schedule, lower_bound_us=10.0, tasks=())

    monkeypatch.setattr(StreamAssignment, "time", time)
    expected = [(t, t) for t in times[1:]]
    monkeypatch.setattr(StreamAssignment, "candidates", lambda *_: iter(expected))
    assignment = StreamAssignment({}, TARGET, 8, None)
    segment: Any = SimpleNamespace(tasks=())
    found: Any = assignment.best(segment, times[0], window(0))  # pyright: ignore
    assert found == (best, best)
    assert timed == sorted(timed, reverse=True)


# ---- the limit ---------------------------------------------------------------------------------


def window(tasks: int, *buffers: tuple[int, list[int]]) -> Window:
    """Tasks, and buffers of so many bytes with the tasks that use them."""
    graph = TaskGraph()
    for _ in range(tasks):
        graph.task()
    for size, (writer, *readers) in sorted(buffers, key=lambda b: b[1][0]):
        buffer = graph.buffer(size, writer)
        for reader in readers:
            graph.read(buffer, reader)
    return next(windows(graph, [tasks]))


def test_a_task_out_of_order_must_leave_a_way_for_the_others() -> None:
    """0 makes 4 bytes for 2, which makes 4 more; 1 makes 4 bytes that 3 needs. With 8 bytes, 1 may
    not start before 2 has read what 0 made, although there is room for it."""
    assert window(4, (4, [0, 2]), (4, [1, 3]), (4, [2, 3])).profile().peak == 12
    memory = MemoryCap(window(5, (4, [0, 2]), (4, [3, 4]), (4, [2, 4])), 8)
    memory.start(0)
    memory.finish(0)
    assert memory.live == 4
    assert not memory.allows(3)
    memory.start(1)
    memory.start(2)
    memory.finish(2)
    assert memory.allows(3)
    assert memory.start(3) == [0, 2]


def test_bytes_come_from_those_who_used_them_last() -> None:
    memory = MemoryCap(window(4, (4, [0, 1]), (4, [2, 3])), 4)
    for task in (0, 1):
        assert memory.start(task) == []
        memory.finish(task)
    assert memory.start(2) == [0, 1]


@settings(max_examples=EXAMPLES)
@given(programs(), st.integers(1, 7), st.integers(1, 4), st.booleans())
def test_few_streams_and_events_are_enough(
    text: str, streams: int, events: int, in_order: bool
) -> None:
    target = replace(TARGET, name="few", max_streams=streams, max_events=events)
    module = Parser(CONTEXT, text).parse_module()
    AssignStreamsPass(in_order=in_order).assign(module, main(module), target)
    module.verify()
    assert check_schedule(module, target) == []
    assert figure(module, "streams") <= streams
    assert figure(module, "events") <= events


@settings(max_examples=EXAMPLES)
@given(programs())
def test_orderings_beyond_the_limit_change_nothing(text: str) -> None:
    """The schedule that there was is still one, although a task was to wait for all before it."""
    module = scheduled(text)
    func, before = main(module), str(module)
    tasks = [op for op in func.body.block.ops if "stream" in op.properties and _is_task(op)]
    if figure(module, "events"):
        with pytest.raises(GeError, match="more than 0 events"):
            add_orderings(func, {tasks[-1]: tasks[:-1]}, figure(module, "streams"), 0)
    assert str(module) == before


@pytest.mark.parametrize("begun", [False, True])
def test_peak_of_the_program_order(begun: bool) -> None:
    """Windows of one, three and one task: 4 bytes are used in the second one, 2 in none between the
    first and the last one, 8 at the end of the second one."""
    program = window(5, (4, [0, 2] if begun else [2]), (2, [0, 4]), (8, [3]), (0, [1, 4]))
    before, middle, after = windows(program.graph, (1, 3, 1))
    assert middle.profile().bytes == [6 if begun else 2, 6, 10]
    assert [program.graph.bytes[b] for b in middle.buffers] == ([4, 2, 8] if begun else [2, 4, 8])
    assert middle.users(middle.buffers[-1]) == [2]
    assert (before.profile().peak, after.profile().peak) == (6 if begun else 2, 2)


def test_no_task_is_a_window_of_what_is_live_there() -> None:
    first, none, last = windows(window(2, (4, [0, 1]), (8, [0])).graph, (1, 0, 1))
    assert [w.profile().bytes for w in (first, none, last)] == [[12], [4], [4]]


def test_events_beyond_the_limit_are_an_error() -> None:
    from ge.transforms.schedule.events import EventIds, number_events, plan

    module = scheduled(
        f"{KERNELS}\nfunc.func @main(%x: {memref(128)}) {{\n"
        f"  %a = memref.alloc() : {memref(128)}\n  %b = memref.alloc() : {memref(128)}\n"
        f"  npu_task.launch @cube_all_128 ins(%x : {memref(128)}) outs(%a : {memref(128)})\n"
        f"  npu_task.launch @vector_all_128 ins(%a : {memref(128)}) outs(%b : {memref(128)})\n"
        "  func.return\n}",
        in_order=True,
    )
    tasks = [op for op in main(module).body.block.ops if isinstance(op, LaunchOp)]
    none = replace(TARGET, max_events=0).max_events
    with pytest.raises(Exception, match="more than 0 events are needed at one time"):
        number_events(plan(tasks, [0, 1], [[], [0]], 5), EventIds(none))


def test_all_that_begin_a_buffer_wait_for_its_bytes():
    """Tasks 1 and 2 may write parts of one buffer on different streams, the second one first: both
    wait for who had the bytes before."""
    assert memory_orderings(window(3, (512, [0]), (512, [1, 2])), 512) == {1: [0], 2: [0]}
