"""Profiles: critical path and slack, what-if, the memory rows of the trace, `ge.Profiler`."""

from bisect import bisect_right
from functools import cache
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import ge
from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, load, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.clock.clock import simulate
from ge.runtime.clock.timeline import Task, Timeline
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session
from ge.runtime.profile.limits import critical_path, slack
from ge.runtime.profile.tables import op_statistic, time_report
from ge.runtime.profile.trace import chrome_trace, residences
from ge.runtime.profile.what_if import changed, what_if

MODELS = Path(__file__).parents[1] / "models"


@pytest.fixture(scope="module")
def module() -> ModuleOp:
    loaded = load(str(MODELS / "bert_base.tiny.onnx"))
    lower(loaded.module, Options(fusion="off"))
    return loaded.module


@cache
def timeline_of(model: str) -> Timeline:
    """Of a model as it is imported, without fusion."""
    loaded = load(str(MODELS / f"{model}.onnx"))
    lower(loaded.module, Options(fusion="off"))
    return simulate(loaded.module, Target.load())


@pytest.fixture(scope="module")
def timeline(module: ModuleOp) -> Timeline:
    return simulate(module, Target.load())


# ---- critical path ---------------------------------------------------------------------------


def chain(*tasks: Task) -> Timeline:
    timeline = Timeline(Target.load(), list(tasks))
    timeline.latency_us = max(t.end_us for t in tasks)
    return timeline


def a_task(timeline: Timeline, start: float, duration: float, *after: Task) -> Task:
    """A task that starts one launch after the last of those that it waits for."""
    model = timeline.tasks[0]
    ready = max((b.end_us for b in after), default=0.0)
    return Task(
        model.op, model.kind, model.engine, 0, (), model.time, None, (), (),
        after=list(after), events=[], needs=[],
        ready_us=ready, start_us=start, duration_us=duration,
    )  # fmt: skip


def test_slack_is_what_a_task_may_be_late(timeline: Timeline) -> None:
    launch = timeline.target.launch_us
    a = a_task(timeline, launch, 10.0)
    b = a_task(timeline, launch, 4.0)
    c = a_task(timeline, a.end_us + launch, 5.0, a, b)
    found = slack(chain(a, b, c))
    assert [found[t] for t in (a, b, c)] == pytest.approx([0.0, 6.0, 0.0])
    assert critical_path(chain(a, b, c)) == [a, c]


def test_a_task_that_waits_for_cores_is_held_back_by_the_one_that_frees_them(
    timeline: Timeline,
) -> None:
    a = a_task(timeline, 2.0, 10.0)
    b = a_task(timeline, 12.0, 5.0)
    a.cores = b.cores = (("cube", 1),)
    assert list(slack(chain(a, b)).values()) == pytest.approx([0.0, 0.0])


def test_critical_path_of_a_model(timeline: Timeline) -> None:
    path = critical_path(timeline)
    assert path[-1].end_us == pytest.approx(timeline.latency_us)
    assert all(s >= -1e-6 for s in slack(timeline).values())
    for task in path:
        assert all(b.end_us <= task.start_us + 1e-6 for b in task.after)


@pytest.mark.parametrize("model", [
    pytest.param("loop_greedy.tiny", marks=pytest.mark.soak), "if_ts.tiny", "bert_base.tiny",
])  # fmt: skip
def test_critical_paths_add_up(model: str) -> None:
    """Also over branches and loops, and where several paths are equally long."""
    found = timeline_of(model)
    path = critical_path(found)
    assert path[-1].end_us == pytest.approx(found.latency_us)
    assert all(b.end_us <= t.start_us + 1e-6 for b, t in pairwise(path))
    waits = [t.start_us - b for b, t in zip([0.0, *(t.end_us for t in path)], path, strict=False)]
    assert sum(t.duration_us for t in path) + sum(waits) == pytest.approx(found.latency_us)
    report = time_report(found)["critical_path"]
    assert report["busy_us"] + report["wait_us"] == pytest.approx(found.latency_us)
    assert report["wait_us"] == pytest.approx(sum(waits))


def test_iterations_wait_for_tasks_of_their_own(timeline: Timeline) -> None:
    twice = Timeline(timeline.target)
    twice.append(timeline, 2)
    tasks = set(twice.tasks)
    assert all(b in tasks for t in twice.tasks for b in (*t.after, *t.events))
    found = slack(twice)
    half = len(twice.tasks) // 2
    first, second = ([found[t] for t in ts] for ts in (twice.tasks[:half], twice.tasks[half:]))
    assert first == pytest.approx(second)


def test_sums_count_iterations_that_are_not_shown(timeline: Timeline) -> None:
    loop = Timeline(timeline.target)
    loop.append(timeline, 250)
    outer = Timeline(timeline.target)
    outer.append(loop, 3)
    rows = op_statistic([outer], "loop")
    assert sum(r["Count"] for r in rows) == 750 * len(timeline.tasks)
    assert len(outer.tasks) == 100 * len(timeline.tasks)  # of nested loops as many as of one
    path = time_report(outer)["critical_path"]
    once = sum(t.duration_us for t in critical_path(timeline))
    assert path["busy_us"] == pytest.approx(750 * once)
    assert path["busy_us"] + path["wait_us"] == pytest.approx(outer.latency_us)


# ---- what if ---------------------------------------------------------------------------------


def test_better_targets_are_not_slower(module: ModuleOp, timeline: Timeline) -> None:
    changes = ("hbm_bandwidth=2x", "l2_bandwidth=2x", "cube=2x", "vector=2x", "launch=0.5x")
    latency = timeline.latency_us
    found = what_if(module, timeline.target, latency, changes)
    assert [w.change for w in found] == list(changes)
    assert all(w.latency_us <= latency * 1.001 for w in found)
    assert found[-1].latency_us < latency
    (same,) = what_if(module, timeline.target, latency, ["clock_ghz=1x"])
    assert same.ratio == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("hbm_bandwith=2x", "has no 'hbm_bandwith'; did you mean hbm_bandwidth?"),
        ("hbm_bandwidth", "cannot read the change"),
        ("hbm_bandwidth=3", "'hbm_bandwidth' takes a factor"),
        ("launch_us=0x", "no positive number"),
        ("name=2x", "has no 'name'"),
        ("cube_cores=2x", "the program was made for the 'cube_cores' that its target has"),
        ("hbm_efficiency=1.5", "is a share, at most 1, not 1.5"),
    ],
)
def test_changes_that_cannot_be_made(change: str, message: str) -> None:
    with pytest.raises(GeError, match=message.replace("?", r"\?")):
        changed(Target.load(), change)


def test_a_field_takes_a_value() -> None:
    target = changed(Target.load(), "launch_us=0.5")
    assert target.launch_us == 0.5
    assert changed(Target.load(), "cube=2x").macs_per_cycle["f16"] == 8192


def test_a_vector_unit_whose_instructions_are_stated() -> None:
    """Twice as fast is half the cycles; the field by its own name is what it says."""
    target = Target.load("910b2")
    body = "(%x: tensor<512x512xf32>) -> tensor<512x512xf32>"
    text = f"""func.func @main{body} {{
      %0 = graph.gelu %x : (tensor<512x512xf32>) -> tensor<512x512xf32>
      func.return %0 : tensor<512x512xf32>
    }}"""
    module = parse_module(context(), SourceText("test", text))
    lower(module, Options(target="910b2"))
    latency = simulate(module, target).latency_us
    faster, slower = what_if(module, target, latency, ["vector=100x", "vector=0.01x"])
    assert faster.latency_us < latency < slower.latency_us
    assert changed(target, "vector=2x").vector_cycles["div"] == 2
    assert changed(target, "vector_cycles=2x").vector_cycles["div"] == 8


# ---- trace -----------------------------------------------------------------------------------


def test_trace_shows_memory(timeline: Timeline) -> None:
    events: list[dict[str, Any]] = chrome_trace(timeline)["traceEvents"]
    begins, ends = ([e for e in events if e["ph"] == p] for p in "be")
    buffers = list(residences(timeline))
    assert len(begins) == len(ends) == len(buffers) > 20
    assert {e["cat"] for e in begins} == {"arena", "io"}
    live = [e["args"]["bytes"] for e in events if e["name"] == "bytes live: arena"]
    assert live[-1] == 0
    assert 0 < max(live) <= sum(b.bytes for b in buffers)
    traffic = [e["args"]["GB/s"] for e in events if e["name"] == "HBM traffic"]
    assert max(traffic) > 0
    assert traffic[-1] == 0


def test_slices_of_a_row_do_not_overlap() -> None:
    """Viewers drop slices that begin before another one of their row is over, and arrows that do
    not begin within a slice."""
    found = timeline_of("llama_7b_prefill.op23.tiny")
    events: list[dict[str, Any]] = chrome_trace(found)["traceEvents"]
    names = [(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"]
    assert len(set(names)) == len(names)
    rows: dict[tuple[int, int], list[tuple[float, float]]] = {row: [] for row in names}
    for e in events:
        if e["ph"] == "X":
            rows[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
    for slices in rows.values():
        slices.sort()
        assert all(a[1] <= b[0] + 1e-6 for a, b in pairwise(slices))
    assert len(rows) > 5 + 2 + len({t.stream for t in found.tasks})  # some engine has two rows
    starts = [e for e in events if e["ph"] == "s"]
    assert len(starts) == sum(e["ph"] == "f" for e in events) > 0
    for e in starts:
        slices = rows[e["pid"], e["tid"]]
        a, b = slices[bisect_right(slices, (e["ts"], inf)) - 1]
        assert a <= e["ts"] < b


# ---- in Python -------------------------------------------------------------------------------


def test_profiler() -> None:
    loaded = load(str(MODELS / "bert_base.tiny.onnx"))
    lower(loaded.module, Options())
    session = Session(loaded.module, loaded.payload)
    inputs = random_inputs(loaded.module)
    session.run(inputs)
    profiler = ge.Profiler()
    profiler.start()
    with pytest.raises(GeError, match="started already"):
        profiler.start()
    session.run(inputs)
    session.run(inputs)
    profiler.stop()
    session.run(inputs)
    report = profiler.report()
    (entry,) = report["runs"]
    assert entry["runs"] == 2
    assert entry["seconds"] > 0
    assert report["latency_us"] == pytest.approx(2 * entry["time"]["latency_us"])
    rows = profiler.operator_stats()
    launches = simulate(loaded.module, session.target).tasks
    assert sum(r["Count"] for r in rows) == 2 * len(launches)
    with pytest.raises(GeError, match="has not been started"):
        profiler.stop()


BATCHES = """
func.func @main(%x: tensor<?x64xf32> {graph.name = "x", graph.dims = ["batch", ""]})
    -> (tensor<?x32xf32> {graph.name = "y"}) {
  %w = graph.constant dense<0.5> : tensor<64x32xf32>
  %0 = graph.matmul %x, %w : (tensor<?x64xf32>, tensor<64x32xf32>) -> tensor<?x32xf32>
  func.return %0 : tensor<?x32xf32>
}
"""


@pytest.mark.parametrize(
    "options", [{}, {"static_shape": False}, {"dynamic_batch": "1,512,3000"}], ids=str
)
def test_each_run_has_the_time_of_its_shapes(options: dict[str, Any], tmp_path: Path) -> None:
    """Programs that are bound to the shapes of inputs, that run as they are, and of gears."""
    (tmp_path / "m.mlir").write_text(BATCHES)
    session = ge.compile(str(tmp_path / "m.mlir"), **options).session()
    sizes = [1, 512, 3000, 512]
    with ge.Profiler() as profiler:
        for n in sizes:
            session.run({"x": np.ones((n, 64), np.float32)})
    report = profiler.report()
    runs = report["per_run"]
    assert [r["inputs"]["x"][0] for r in runs] == sizes
    times = [r["latency_us"] for r in runs]
    assert times[0] < times[1] == times[3] < times[2]
    assert [r["runs"] for r in report["runs"]] == [1, 2, 1]
    if "dynamic_batch" in options:  # of gears, whose programs are cut for their sizes
        static = BATCHES.replace(', graph.dims = ["batch", ""]', "").replace("?", "3000")
        (tmp_path / "s.mlir").write_text(static)
        module = ge.compile(str(tmp_path / "s.mlir")).module
    else:
        alone = ge.compile(str(tmp_path / "m.mlir"))
        assert alone.bind is not None
        module = alone.bind({"batch": 3000}, {}).module
    assert times[2] == pytest.approx(simulate(module, session.target).latency_us, rel=0.02)
    starts = [e.start for e in report.timeline_events]
    assert starts == sorted(starts)
