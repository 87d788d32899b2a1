"""The clock: what may run together does, what may not does not, and the figures add up."""

import json
import sys
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.npu_task.attributes import TilingAttr
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import functions
from ge.dialects.support.types import byte_size
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.runtime.clock import clock
from ge.runtime.clock.clock import UnknownShapes, simulate
from ge.runtime.clock.simulation import Simulation
from ge.runtime.clock.timeline import CAUSES, Task, Timeline, bandwidth
from ge.runtime.library.costs.estimates import CoreTime, CoreTimes, l2_bytes_per_us
from ge.runtime.profile import tables as profiler
from ge.runtime.profile.trace import chrome_trace

TARGET = Target.load("910_merged")
BUFFER = 'memref<256x256xf16, "hbm">'
KERNELS = """
npu_task.kernel @cube on cube tiling <[128, 128, 64] blocks 4 buffers 2> {
^bb0(%x: tensor<256x256xf16>):
  %0 = graph.matmul %x, %x : (tensor<256x256xf16>, tensor<256x256xf16>) -> tensor<256x256xf16>
  npu_task.return %0 : tensor<256x256xf16>
}
npu_task.kernel @half on cube tiling <[128, 128, 64] blocks 13 buffers 2> {
^bb0(%x: tensor<256x256xf16>):
  %0 = graph.matmul %x, %x transpose_rhs true
    : (tensor<256x256xf16>, tensor<256x256xf16>) -> tensor<256x256xf16>
  npu_task.return %0 : tensor<256x256xf16>
}
npu_task.kernel @vector on vector tiling <[512] blocks 16 buffers 2> {
^bb0(%x: tensor<256x256xf16>):
  %0 = graph.exp %x : (tensor<256x256xf16>) -> tensor<256x256xf16>
  npu_task.return %0 : tensor<256x256xf16>
}
npu_task.kernel @append on vector tiling <[512] blocks 1 buffers 1> {
^bb0(%x: tensor<256x256xf16>, %r: tensor<1x256xf16>, %n: tensor<i64>):
  %0 = graph.append %x, %r at %n axis 0
    : (tensor<256x256xf16>, tensor<1x256xf16>, tensor<i64>) -> tensor<256x256xf16>
  npu_task.return %0 : tensor<256x256xf16>
}
npu_task.kernel @unknown on vector {
^bb0(%x: tensor<?x?xf16>):
  %0 = graph.exp %x : (tensor<?x?xf16>) -> tensor<?x?xf16>
  npu_task.return %0 : tensor<?x?xf16>
}
"""


@pytest.fixture(autouse=True)
def given_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches take the cores that their tilings say, which move bytes at the rate of L2: what
    programs take is tested elsewhere."""

    def times(body: Body, target: Target) -> CoreTimes | None:
        kernel = body.ops[0].parent_op()
        if not body.is_static or not isinstance(kernel, KernelOp) or kernel.tiling is None:
            return None
        engine, cores = kernel.engine.data.value, kernel.tiling.blocks.data
        size = byte_size(body.inputs[0].type)
        us = size / l2_bytes_per_us(min(cores, target.cube_cores), target)
        cube = us if engine == "cube" else 0.0
        time = CoreTime(0.0, us, cube, us - cube, us, us)
        return CoreTimes(((engine, cores),), lambda held: time, lambda: 2 * size, estimated=True)

    monkeypatch.setattr(clock, "estimated_times", times)


def launch(kernel: str, stream: int, source: str = "%a", target: str = "%b") -> str:
    return (
        f"npu_task.launch @{kernel} on {stream} ins({source} : {BUFFER}) outs({target} : {BUFFER})"
    )


def program(*lines: str) -> ModuleOp:
    body = "\n  ".join(lines)
    text = f"""{KERNELS}
func.func @main() {{
  %a = npu_task.slot arena 0 : {BUFFER}
  %b = npu_task.slot arena 131072 : {BUFFER}
  {body}
  func.return
}}"""
    return parse_module(context(), SourceText("test.mlir", text))


def run(*lines: str, target: Target = TARGET) -> Timeline:
    return simulate(program(*lines), target)


def overlap(a: Task, b: Task) -> bool:
    return a.start_us < b.end_us and b.start_us < a.end_us


def check(timeline: Timeline) -> None:
    """What holds for every timeline."""
    assert timeline.lower_bound_us <= timeline.latency_us * (1 + 1e-9)
    for engine, gaps in timeline.gaps_us.items():
        busy = timeline.busy_us[engine]
        assert busy + sum(gaps.values()) == pytest.approx(timeline.latency_us)
        assert tuple(gaps) == CAUSES
        found = [g for g in timeline.gaps if g.engine == engine]
        assert sum(g.end_us - g.start_us for g in found) == pytest.approx(sum(gaps.values()))
        assert all(a.end_us <= b.start_us + 1e-6 for a, b in pairwise(found))
        assert all(a.cause != b.cause or a.end_us < b.start_us for a, b in pairwise(found))
        ran = (t for t in timeline.tasks if t.engine == engine)
        assert all(t.end_us <= g.start_us + 1e-6 or g.end_us <= t.start_us + 1e-6
                   for t in ran for g in found[:100])  # fmt: skip
    for task in timeline.tasks:
        assert task.wait_us >= 0
        assert task.duration_us >= task.time.total_us * (1 - 1e-9)
        assert all(before.end_us <= task.start_us + 1e-6 for before in task.after)


def test_one_task() -> None:
    timeline = run(launch("cube", 0))
    (task,) = timeline.tasks
    assert task.start_us == TARGET.launch_us
    assert task.duration_us == pytest.approx(task.time.total_us)
    assert timeline.latency_us == pytest.approx(timeline.lower_bound_us)
    assert timeline.idle_us["schedule"] == TARGET.launch_us
    check(timeline)


def test_a_stream_is_a_queue_and_streams_run_side_by_side() -> None:
    queue = run(launch("cube", 0), launch("vector", 0))
    assert not overlap(*queue.tasks)
    apart = run(launch("cube", 0), launch("vector", 1))
    assert overlap(*apart.tasks)
    assert apart.latency_us < queue.latency_us
    check(queue)
    check(apart)


def test_an_event_orders_streams() -> None:
    lines = [launch("cube", 0), "%e0 = npu_task.record 0 on 0", "npu_task.wait %e0 on 1"]
    timeline = run(*lines, launch("vector", 1), launch("vector", 2))
    cube, after, free = timeline.tasks
    assert after.start_us >= cube.end_us
    assert after.events == [cube]
    assert overlap(cube, free)
    check(timeline)


def test_an_event_that_was_recorded_before_anything_ran_holds_nothing_back() -> None:
    timeline = run("%e0 = npu_task.record 0 on 0", "npu_task.wait %e0 on 1", launch("vector", 1))
    assert timeline.tasks[0].after == []


def test_an_event_after_a_wait_happens_after_what_was_waited_for() -> None:
    timeline = run(
        launch("cube", 0), "%e0 = npu_task.record 0 on 0", "npu_task.wait %e0 on 1",
        "%e1 = npu_task.record 1 on 1", "npu_task.wait %e1 on 2", launch("vector", 2),
    )  # fmt: skip
    first, last = timeline.tasks
    assert last.events == [first]


def test_an_id_that_is_used_again_is_another_event() -> None:
    timeline = run(
        launch("cube", 0), "%e0 = npu_task.record 0 on 0", "npu_task.wait %e0 on 1",
        launch("vector", 1),
        launch("cube", 0), "%e1 = npu_task.record 0 on 0", "npu_task.wait %e1 on 2",
        launch("vector", 2),
    )  # fmt: skip
    first, _, second, last = timeline.tasks
    assert last.events == [second]
    assert last.events != [first]
    check(timeline)


def test_tasks_wait_for_free_cores() -> None:
    timeline = run(launch("half", 0), launch("half", 1))  # 13 + 13 of 24 cores
    assert not overlap(*timeline.tasks)
    assert [t.ready_us for t in timeline.tasks] == [0.0, 0.0]
    assert [t.wait_us for t in timeline.tasks] == [t.start_us for t in timeline.tasks]
    first, second = run(launch("cube", 0), launch("cube", 0, "%b", "%a")).tasks
    assert second.wait_us == pytest.approx(second.start_us - first.end_us)
    assert overlap(*run(launch("cube", 0), launch("cube", 1)).tasks)
    check(timeline)


def test_a_task_does_not_overtake_one_that_waits_for_the_same_engine() -> None:
    """The third would find its 4 cores free beside the first; the second waits for its 13."""
    for engines in ((), (("vector", 1),)):
        tasks = run(launch("half", 0), launch("half", 1), launch("cube", 2)).tasks
        first, second, third = tasks
        second.cores = (*second.cores, *engines)
        Simulation(tasks, TARGET, host_driven=False).run()
        assert first.end_us <= second.start_us <= third.start_us
    _, second, third = run(launch("half", 0), launch("half", 1), launch("vector", 2)).tasks
    assert third.start_us < second.start_us


def slots(*names: str, size: int = 131072) -> list[str]:
    """Buffers beside each other, behind those that each program has."""
    return [
        f"%{name} = npu_task.slot arena {(2 + i) * size} : {BUFFER}" for i, name in enumerate(names)
    ]


def test_tasks_share_the_bandwidth_of_hbm() -> None:
    narrow = replace(TARGET, hbm_rate=TARGET.hbm_rate / 4, full_rate_bytes=1024)
    names = ("x", "y", "z")
    lines = [*slots(*names), *(launch("vector", s, f"%{n}") for s, n in enumerate(names))]
    alone, together = run(launch("vector", 0), target=narrow), run(*lines, target=narrow)
    assert overlap(*together.tasks[:2])
    assert together.latency_us >= together.bytes / bandwidth(narrow)
    assert together.tasks[0].duration_us > 1.5 * alone.tasks[0].duration_us
    check(together)


def test_tasks_share_the_bandwidth_of_l2() -> None:
    narrow = replace(TARGET, l2_read_rate=1.0, l2_write_rate=1.0, full_rate_bytes=1024)
    names = ("x", "y", "z")
    lines = [*slots(*names), *(launch("vector", s, f"%{n}") for s, n in enumerate(names))]
    alone, together = run(launch("vector", 0), target=narrow), run(*lines, target=narrow)
    assert overlap(*together.tasks[:2])
    assert together.tasks[0].duration_us > 1.5 * alone.tasks[0].duration_us
    check(together)


def test_what_was_just_written_comes_from_l2() -> None:
    lines = [launch("vector", 0), launch("vector", 0, "%b", "%a")]
    first, second = run(*lines).tasks
    assert first.time.bytes == 131072  # what it writes stays in L2
    assert second.time.bytes == 0
    assert second.time.total_us < first.time.total_us
    assert second.time.l2_bytes == first.time.l2_bytes >= 2 * 131072


def test_what_no_longer_fits_into_l2_is_written_and_read_again() -> None:
    small = replace(TARGET, l2_bytes=300_000)  # two buffers
    back = launch("vector", 0, "%b", "%a")
    lines = [*slots("x", "y"), launch("vector", 0), launch("vector", 0, "%x", "%y"), back]
    first, between, again = run(*lines, target=small).tasks
    assert first.time.bytes == 131072
    assert between.time.bytes == 2 * 131072  # %x read, %b written back
    assert again.time.bytes == 2 * 131072  # %b read, %y written back
    large = run(*lines).tasks[2]
    assert large.time.bytes == 0
    assert large.time.total_us < again.time.total_us


def test_rows_that_are_appended_do_not_bring_their_cache_into_l2() -> None:
    row, number = (b.replace("256x256xf16", t) for b, t in ((BUFFER, "1x256xf16"), (BUFFER, "i64")))
    ins = f"ins(%a, %r, %n : {BUFFER}, {row}, {number})"
    both = [
        f"%r = npu_task.slot io 0 : {row}",
        f"%n = npu_task.slot io 512 : {number}",
        f"npu_task.launch @append on 0 {ins} outs(%a : {BUFFER})",
        launch("vector", 0),
    ]
    append, read = run(*both).tasks
    assert append.time.bytes == 2 * 512 + 8  # the row, read and written, and the number
    assert read.time.bytes == 131072  # the cache, of which L2 has a row at most
    check(run(*both))
    elsewhere = [line.replace("outs(%a", "outs(%b") for line in both[:3]]
    _, read = run(*elsewhere, launch("vector", 0, "%b", "%a")).tasks
    assert read.time.bytes == 0  # all of it was written


def loop(trips: str, body: str) -> str:
    scalar = 'memref<{}, "hbm">'
    i64, i1 = scalar.format("i64"), scalar.format("i1")
    return f"""
  %n = npu_task.constant dense<{trips}> : tensor<i64> as {i64}
  npu_task.loop trip %n : {i64} order [] stacked [] {{
  ^bb0(%i: {i64}, %go: {i1}):
    {body}
    npu_task.yield %go : {i1}
  }}"""


def test_a_loop_counts_as_often_as_it_runs() -> None:
    once, often = (run(loop(n, launch("cube", 0))) for n in ("1", "5"))
    assert often.latency_us == pytest.approx(5 * once.latency_us)
    assert len(often.tasks) == 5
    assert not any(overlap(a, b) for a, b in zip(often.tasks, often.tasks[1:], strict=False))
    assert once.tasks[0].start_us == TARGET.host_launch_us
    assert often.notes == []
    check(often)
    assert len(run(loop("1000000", launch("cube", 0))).tasks) < 1000


def test_a_loop_that_ends_by_its_data_counts_once() -> None:
    scalar = 'memref<i1, "hbm">'
    timeline = run(f"""
  %c = npu_task.slot io 0 : {scalar}
  npu_task.loop while %c : {scalar} order [] stacked [] {{
  ^bb0(%i: memref<i64, "hbm">, %go: {scalar}):
    {launch("cube", 0)}
    npu_task.yield %c : {scalar}
  }}""")
    assert len(timeline.tasks) == 1
    assert "one iteration is counted" in timeline.notes[0]


def test_the_longer_branch_counts() -> None:
    scalar = 'memref<i1, "hbm">'
    timeline = run(f"""
  %c = npu_task.slot io 0 : {scalar}
  npu_task.if %c : {scalar} order [] {{
    {launch("vector", 1)}
    npu_task.yield
  }} else {{
    {launch("vector", 1)}
    {launch("cube", 0)}
    {launch("cube", 0)}
    npu_task.yield
  }}
  {launch("cube", 0)}""")
    assert [t.kind for t in timeline.tasks] == ["vector", "cube", "cube", "cube"]
    assert "the longer branch is counted" in timeline.notes[0]
    assert timeline.tasks[-1].start_us >= max(t.end_us for t in timeline.tasks[:-1])
    check(timeline)


def test_what_cannot_be_timed() -> None:
    unknown = 'memref<?x?xf16, "hbm">'
    with pytest.raises(UnknownShapes, match="1 tasks have shapes that are known only at run"):
        run(
            f"%d = npu_task.transfer %a on 0 : {BUFFER} to {unknown}",
            f"%e = npu_task.launch @unknown on 1 ins(%d : {unknown}) -> {unknown}",
        )
    with pytest.raises(GeError, match="event 4 is waited for, but was not recorded"):
        run("npu_task.wait %e4 on 0", "%e4 = npu_task.record 4 on 1")
    with pytest.raises(GeError, match="not fixed on a stream: not a program"):
        run(launch("cube", 0).replace("on 0 ", ""))
    with pytest.raises(GeError, match="operands or results differ from those of @vector"):
        run(f"npu_task.launch @vector on 0 ins(%a, %b : {BUFFER}, {BUFFER}) outs(%b : {BUFFER})")


def repeated(times: int) -> ModuleOp:
    """A program of four tasks on several streams, so often one after the other."""
    module = program(
        launch("cube", 0), "%e0 = npu_task.record 0 on 0", "npu_task.wait %e0 on 1",
        launch("vector", 1), launch("vector", 2), launch("cube", 3),
    )  # fmt: skip
    block = functions(module)["main"].body.block
    *slots, last = block.ops
    tasks = [op for op in slots if op.name != "npu_task.slot"]
    same: dict[SSAValue, SSAValue] = {r: r for op in slots for r in op.results}
    for _ in range(times - 1):
        block.insert_ops_before([op.clone(same) for op in tasks], last)
    return module


def simulated(module: ModuleOp) -> tuple[Timeline, int]:
    """The timeline, and how many calls of functions it took."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        timeline = simulate(module, TARGET)
    finally:
        sys.setprofile(None)
    return timeline, calls


def test_simulation_takes_time_in_proportion() -> None:
    _, few = simulated(repeated(50))
    timeline, many = simulated(repeated(500))
    assert many < 11 * few
    assert many < 150 * len(timeline.tasks)  # 115 when this was written
    assert len(timeline.tasks) == 2_000
    check(timeline)


# ---- profiler --------------------------------------------------------------------------------


@pytest.fixture
def timeline() -> Timeline:
    return run(
        launch("cube", 0), "%e0 = npu_task.record 0 on 0", "npu_task.wait %e0 on 1",
        launch("vector", 1), launch("cube", 0),
    )  # fmt: skip


def test_trace(timeline: Timeline) -> None:
    trace = json.loads(json.dumps(chrome_trace(timeline)))
    events: list[dict[str, Any]] = trace["traceEvents"]
    spans = [e for e in events if e["ph"] == "X" and e["cat"] != "idle"]
    gaps = [e for e in events if e["ph"] == "X" and e["cat"] == "idle"]
    assert {e["name"] for e in gaps} == {"compute", "schedule"}
    for row, engine in ((5, "cube"), (6, "vector")):
        idle = sum(e["dur"] for e in gaps if e["tid"] == row)
        assert idle == pytest.approx(timeline.latency_us - timeline.busy_us[engine])
    assert len(spans) == 2 * len(timeline.tasks)  # on the engine's row and on the stream's
    assert {e["name"] for e in spans} == {"cube", "vector"}
    starts, ends = ([e for e in events if e["ph"] == p] for p in "sf")
    assert len(starts) == len(ends) == 1
    assert starts[0]["id"] == ends[0]["id"]
    assert starts[0]["ts"] <= ends[0]["ts"]
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in (*spans, *gaps)} <= named


def test_op_summary_and_statistic(timeline: Timeline) -> None:
    rows = profiler.op_summary(timeline, "m")
    assert [r["Op Name"] for r in rows] == ["cube", "vector", "cube"]
    assert all(set(r) == set(profiler.OP_SUMMARY) for r in rows)
    (vector,) = (r for r in rows if r["OP Type"] == "graph.exp")
    assert vector["Task Type"] == "AI_VECTOR_CORE"
    assert vector["Block Num"] == 16
    assert vector["Input Shapes"] == "256,256"
    assert vector["aic_mac_time(us)"] == "N/A"
    cube = next(r for r in rows if r["OP Type"] == "graph.matmul")
    assert 0 < cube["aic_mac_ratio"] <= 1
    assert cube["cube_utilization(%)"] == pytest.approx(100 * 4 / 24, abs=0.01)
    statistic = profiler.op_statistic([timeline], "m")
    assert {r["OP Type"]: r["Count"] for r in statistic} == {"graph.matmul": 2, "graph.exp": 1}
    assert sum(r["Ratio(%)"] for r in statistic) == pytest.approx(100, abs=0.1)
    text = profiler.csv_text(profiler.OP_SUMMARY, rows)
    assert len(text.splitlines()) == 4


def test_report(timeline: Timeline) -> None:
    report = profiler.time_report(timeline)
    first = [
        "machine",
        "latency_us",
        "first_us",
        "lower_bound_us",
        "engines",
        "idle",
        "critical_path",
        "timed_by",
    ]
    assert list(report) == first
    assert set(report["idle"]) == {*CAUSES} - {"communication"}  # there is one device
    cube = report["engines"]["cube"]
    assert cube["utilization"] == pytest.approx(cube["busy_us"] / report["latency_us"])
    assert profiler.summary_table(timeline).startswith("latency ")


def test_tiling_of_more_cores_than_the_target_has_still_runs() -> None:
    module = program(launch("cube", 0))
    kernel = next(op for op in module.ops if op.name == "npu_task.kernel")
    kernel.properties["tiling"] = TilingAttr.of((16, 16, 16), 1000, 2)
    assert simulate(module, TARGET).tasks[0].duration_us > 0
