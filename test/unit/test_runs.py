"""Runs that overlap on the emulated clock: how fast they follow each other, and that no run
overwrites what another one still needs; planted faults of the schedule are found."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from ge.dialects.npu_task.memory import access, owner_of
from ge.dialects.npu_task.ops import SlotOp
from ge.dialects.npu_task.places import input_places, output_places
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import byte_size
from ge.dialects.targets.target import Target
from ge.lowering.cli.run import run
from ge.lowering.driver.compiler import load, lower
from ge.lowering.driver.program import Program
from ge.lowering.pipeline.options import Options
from ge.runtime.clock.clock import simulate
from ge.runtime.clock.runs import COMPUTE, INPUTS, OUTPUTS, issue_runs, simulate_runs
from ge.runtime.clock.timeline import Task

MODELS = Path(__file__).parents[1] / "models"
TARGET = Target.load("910b1")


def program(name: str, **options: object) -> Program:
    loaded = load(str(MODELS / f"{name}.onnx"))
    lower(loaded.module, Options(**options))  # pyright: ignore[reportArgumentType]
    return loaded


def tasks_of(loaded: Program, runs: int, prefetch: int) -> list[Task]:
    main = main_function(loaded.module)
    assert main is not None
    block = main.body.block
    kind = {p.task: INPUTS for p in input_places(block).values()}
    kind |= {p.task: OUTPUTS for p in output_places(block).values()}
    one = simulate(loaded.module, TARGET)
    return [t for r in issue_runs(one.tasks, kind, runs, prefetch) for t in r]


# ---- an independent look at a schedule ---------------------------------------------------------


def races(loaded: Program, tasks: Sequence[Task], prefetch: int) -> Iterator[tuple[str, str]]:
    """Pairs of tasks of different runs on the same bytes, one of which writes, that no chain of
    waits orders."""
    main = main_function(loaded.module)
    assert main is not None
    block = main.body.block
    places = (*input_places(block).values(), *output_places(block).values())
    doubled = {p.value for p in places}
    before: dict[Task, int] = {}
    for i, task in enumerate(tasks):
        before[task] = 1 << i
        for other in task.after:
            assert other in before, "a task waits for one that is issued later"
            before[task] |= before[other]
    touched: list[list[tuple[str, int, int, int, bool]]] = []
    for task in tasks:
        effects = access(task.op)
        mine = list[tuple[str, int, int, int, bool]]()
        for values, writes in ((effects.reads, False), (effects.writes, True)):
            for slot in map(owner_of, values):
                if isinstance(op := slot.owner, SlotOp):
                    low = op.offset.value.data
                    turn = task.run % prefetch if slot in doubled else -1
                    end = low + byte_size(slot.type)
                    mine.append((op.segment.data, turn, low, end, writes))
        touched.append(mine)
    for (i, a), (j, b) in combinations(enumerate(tasks), 2):
        if a.run != b.run and not before[b] >> i & 1 and not before[a] >> j & 1:
            for s, t, low, high, w in touched[i]:
                if any(
                    (s, t) == (s2, t2) and low < high2 and low2 < high and (w or w2)
                    for s2, t2, low2, high2, w2 in touched[j]
                ):
                    yield f"{a.name} of run {a.run}", f"{b.name} of run {b.run}"


@pytest.mark.parametrize("name", ["bert_base.tiny", "llama_7b_decode.fp16.tiny"])
@pytest.mark.parametrize("prefetch", [1, 2, 3])
def test_no_run_overwrites_what_another_one_needs(name: str, prefetch: int):
    loaded = program(name)
    assert not list(races(loaded, tasks_of(loaded, 4, prefetch), prefetch))


@pytest.mark.parametrize("stage", ["inputs", "compute", "outputs"])
def test_planted_faults_are_found(stage: str):
    """Each wait of a run for an earlier one is needed, but those that streams keep anyway."""
    loaded = program("bert_base.tiny")
    tasks = tasks_of(loaded, 3, 1)
    engines = {"inputs": "dma_in", "outputs": "dma_out"}

    def is_of(task: Task) -> bool:
        return task.engine == engines.get(stage, task.engine) and (
            stage != "compute" or task.engine not in engines.values()
        )

    for task in tasks:
        if is_of(task):
            task.after = [b for b in task.after if b.run == task.run]
    found = list(races(loaded, tasks, 1))
    # Copies of outputs that do not wait for each other still come after what computes them
    assert bool(found) == (stage != "outputs")


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
    with pytest.raises(GeError, match=r"prefetch 10000000 takes \d+ bytes, 910b1 has \d+"):
        simulate_runs(module, TARGET, 4, 10_000_000)


def test_ge_run_reports_runs_and_traces_them(tmp_path: Path):
    report, trace = tmp_path / "r.json", tmp_path / "t.json"
    flags = ["--timing-only", "--runs", "3", "--prefetch", "2"]
    model = str(MODELS / "resnet50.ts.tiny.onnx")
    assert run([model, *flags, "--report", str(report), "--trace", str(trace)]) == 0
    runs = json.loads(report.read_text())["time"]["runs"]
    assert runs["runs"] == 3
    assert runs["slowest_stage"] == "compute"
    assert runs["per_second"] == pytest.approx(1e6 / runs["interval_us"])
    events = json.loads(trace.read_text())["traceEvents"]
    assert {e["args"]["run"] for e in events if "run" in e.get("args", {})} == {0, 1, 2}
    live = max(e["args"]["bytes"] for e in events if e["name"] == "bytes live: io")
    assert live > runs["io_bytes"] / 2  # two sets at a time
