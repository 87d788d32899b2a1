"""Runs that overlap on the emulated clock: how fast they follow each other, and that no run
overwrites what another one still needs; planted faults of the schedule are found."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from xdsl.dialects.func import FuncOp

from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import Target
from ge.lowering.driver.compiler import load, lower
from ge.lowering.driver.program import Program
from ge.lowering.pipeline.options import Options
from ge.runtime.check.schedule import check_runs
from ge.runtime.clock import runs as clock_of_runs
from ge.runtime.clock.clock import simulate
from ge.runtime.clock.runs import COMPUTE, INPUTS, OUTPUTS, overlapping, simulate_runs
from ge.runtime.clock.timeline import Task
from ge.tools.commands import ge_check, ge_compile, ge_run

MODELS = Path(__file__).parents[1] / "models"
TARGET = Target.load("910_merged")


@cache
def program(name: str, **options: object) -> Program:
    """Compiled once: no test changes it."""
    loaded = load(str(MODELS / f"{name}.onnx"))
    lower(loaded.module, Options(**options))  # pyright: ignore[reportArgumentType]
    return loaded


def tasks_of(loaded: Program, runs: int, prefetch: int) -> tuple[FuncOp, list[Task]]:
    main = main_function(loaded.module)
    assert main is not None
    return main, overlapping(main, simulate(loaded.module, TARGET), runs, prefetch)


@pytest.mark.parametrize(
    ("name", "prefetch"),
    [
        ("bert_base.tiny", 1),
        pytest.param("bert_base.tiny", 2, marks=pytest.mark.soak),
        ("bert_base.tiny", 3),
        pytest.param("llama_7b_decode.fp16.tiny", 1, marks=pytest.mark.soak),
        ("llama_7b_decode.fp16.tiny", 2),
        pytest.param("llama_7b_decode.fp16.tiny", 3, marks=pytest.mark.soak),
    ],
)
def test_no_run_overwrites_what_another_one_needs(name: str, prefetch: int):
    main, tasks = tasks_of(program(name), 4, prefetch)
    assert not list(check_runs(main, tasks, prefetch))


@pytest.mark.parametrize("stage", ["inputs", "compute", "outputs"])
def test_planted_faults_are_found(stage: str):
    """Each wait of a run for an earlier one is needed, but those that streams keep anyway."""
    main, tasks = tasks_of(program("bert_base.tiny"), 3, 1)
    engines = {"inputs": "dma_in", "outputs": "dma_out"}

    def is_of(task: Task) -> bool:
        return task.engine == engines.get(stage, task.engine) and (
            stage != "compute" or task.engine not in engines.values()
        )

    for task in tasks:
        if is_of(task):
            task.after = [b for b in task.after if b.run == task.run]
    found = list(check_runs(main, tasks, 1))
    # Copies of outputs that do not wait for each other still come after what computes them
    assert bool(found) == (stage != "outputs")


def test_s10_runs_touch_no_bytes_of_each_other():
    """Runs that are issued with three sets of inputs and outputs, and have two."""
    main, tasks = tasks_of(program("bert_base.tiny"), 6, 3)
    found = [*check_runs(main, tasks, 2)]
    assert {p.rule for p in found} == {"S10"}
    assert "of run 2 touch the same bytes" in str(found[0])


def test_s9_runs_wait_for_what_is_issued_before():
    main, tasks = tasks_of(program("bert_base.tiny"), 3, 1)
    later = next(t for t in reversed(tasks) if t.after)
    tasks.append(tasks.pop(tasks.index(later.after[0])))  # issued last
    assert "S9" in {p.rule for p in check_runs(main, tasks, 1)}


def test_ge_check_proves_runs_that_overlap(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    path = str(tmp_path / "p.mlir")
    for name, said in (("loop_ts", "its runs do not overlap"), ("bert_base", "so are runs that")):
        flags = ["--no-tiles", "-o", path]  # whose proofs would be listed too
        assert ge_compile([str(MODELS / f"{name}.tiny.onnx"), *flags]) == 0
        assert ge_check([path, "--prefetch", "2"]) == 0
        assert f"; {said}" in capsys.readouterr().out

    def nothing(tasks: Sequence[Task]) -> Sequence[Task]:
        return tasks[:0]

    monkeypatch.setattr(clock_of_runs, "starts", nothing)
    assert ge_check([path, "--prefetch", "2"]) == 1
    result = capsys.readouterr()
    assert "touch the same bytes, and nothing orders them [S10]" in result.err
    assert result.out.endswith(": runs disturb each other\n")


# ---- time --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bert_base.tiny", "resnet50.ts.tiny"])
def test_runs_follow_at_the_pace_of_the_slowest_stage(name: str):
    runs = simulate_runs(program(name).module, TARGET, 16, 2)
    slowest = max(runs.stages_us.values())
    assert runs.interval_us == pytest.approx(slowest, rel=0.05)
    assert runs.slowest == COMPUTE
    one = simulate(program(name).module, TARGET).latency_us
    assert runs.timeline.latency_us < 16 * one * 0.97
    assert runs.timeline.latency_us >= 15 * runs.interval_us
    for task in runs.timeline.tasks:
        assert all(before.end_us <= task.start_us + 1e-6 for before in task.after)


def test_without_a_second_set_the_next_inputs_wait():
    module = program("bert_base.tiny").module
    one, two = (simulate_runs(module, TARGET, 8, prefetch) for prefetch in (1, 2))
    alone = one.stages_us
    assert one.interval_us == pytest.approx(alone[INPUTS] + alone[COMPUTE], rel=0.05)
    assert two.interval_us < one.interval_us
    assert one.io_bytes < two.io_bytes == 2 * one.io_bytes


def test_a_slow_link_sets_the_pace():
    module = program("resnet50.ts.tiny").module
    runs = simulate_runs(module, replace(TARGET, name="slow", host_link_gbs=0.1), 8, 2)
    assert runs.slowest == INPUTS
    assert runs.interval_us == pytest.approx(runs.stages_us[INPUTS], rel=0.05)


def test_one_run_is_one_run():
    module = program("resnet50.ts.tiny").module
    runs = simulate_runs(module, TARGET, 1, 2)
    assert runs.timeline.latency_us == pytest.approx(simulate(module, TARGET).latency_us)


@pytest.mark.parametrize("name", ["loop_ts.tiny", "bert_base.tiny"])
def test_what_does_not_overlap_adds_up(name: str):
    """The host waits for branches and loops; shared inputs and outputs are not copied."""
    module = program(name, share_io=name == "bert_base.tiny").module
    runs = simulate_runs(module, TARGET, 3, 2)
    one = simulate(module, TARGET).latency_us
    assert runs.timeline.latency_us == pytest.approx(3 * one)
    assert runs.stages_us == {INPUTS: 0.0, COMPUTE: one, OUTPUTS: 0.0}
    told = any("runs do not overlap" in note for note in runs.timeline.notes)
    assert told == (name == "loop_ts.tiny")


def test_sets_of_inputs_take_memory():
    module = program("resnet50.ts.tiny").module
    with pytest.raises(GeError, match=r"prefetch 10000000 takes \d+ bytes, 910_merged has \d+"):
        simulate_runs(module, TARGET, 4, 10_000_000)


def test_ge_run_reports_runs_and_traces_them(tmp_path: Path):
    report, trace = tmp_path / "r.json", tmp_path / "t.json"
    flags = ["--timing-only", "--runs", "3", "--prefetch", "2"]
    model = str(MODELS / "resnet50.ts.tiny.onnx")
    assert ge_run.run([model, *flags, "--report", str(report), "--trace", str(trace)]) == 0
    runs = json.loads(report.read_text())["time"]["runs"]
    assert runs["runs"] == 3
    assert runs["slowest_stage"] == "compute"
    assert runs["per_second"] == pytest.approx(1e6 / runs["interval_us"])
    events = json.loads(trace.read_text())["traceEvents"]
    assert {e["args"]["run"] for e in events if "run" in e.get("args", {})} == {0, 1, 2}
    live = max(e["args"]["bytes"] for e in events if e["name"] == "bytes live: io")
    assert live > runs["io_bytes"] / 2  # two sets at a time
