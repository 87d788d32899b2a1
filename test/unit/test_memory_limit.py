"""Programs under a memory limit: the arena keeps it, the plan is proved, the numbers stay; what may
leave the device, and when."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ge.dialects.support.errors import GeError
from ge.lowering.driver.compiler import load, lower
from ge.lowering.driver.program import Program
from ge.lowering.pipeline.options import MEMORY_LEVELS, Options
from ge.lowering.pipeline.remedies import WHAT
from ge.runtime.check.memory import check_plan
from ge.runtime.check.proof import check_program
from ge.runtime.data.arrays import Array
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session
from ge.transforms.analysis.task_graph import TaskGraph
from ge.transforms.memory.check_capacity import OverLimitError
from ge.transforms.memory.spill_buffers import SpillProblem, choose

MODELS = Path(__file__).resolve().parents[1] / "models"


def outputs(loaded: Program) -> dict[str, Array]:
    inputs = random_inputs(loaded.module, 0, {}, {})
    return Session(loaded.module, loaded.payload, poison=True).run(inputs)


@pytest.mark.parametrize(
    ("name", "fusion", "shares"),
    [
        ("bert_base.tiny", "off", (0.8,)),
    ],
)
def test_programs_keep_a_limit_and_their_numbers(name: str, fusion: str, shares: tuple[float, ...]):
    path = str(MODELS / f"{name}.onnx")
    free = load(path)
    peak = lower(free.module, Options(fusion=fusion)).memory["peak_bytes"]
    expected = outputs(free)
    for share in shares:
        limit = int(share * peak)
        loaded = load(path)
        found = lower(loaded.module, Options(fusion=fusion, memory_limit=limit))
        assert found.memory["peak_bytes"] <= limit
        assert found.remedies
        assert check_plan(loaded.module) == []
        for key, array in outputs(loaded).items():
            np.testing.assert_array_equal(array, expected[key])


@cache
def free(path: str) -> tuple[int, dict[str, Array]]:
    """The peak and the outputs of a model without a limit."""
    loaded = load(path)
    return lower(loaded.module, Options()).memory["peak_bytes"], outputs(loaded)


@pytest.mark.parametrize(
    ("name", "share"),
    [
        pytest.param("gpt2_prefill.noopt.tiny", 0.9, marks=pytest.mark.soak),
        pytest.param("gpt2_prefill.noopt.tiny", 0.7, marks=pytest.mark.soak),
        pytest.param("gpt2_prefill.noopt.tiny", 0.5, marks=pytest.mark.soak),
        pytest.param("llama_7b_decode.fp16.tiny", 0.9, marks=pytest.mark.soak),
        ("if_cond.tiny", 0.9),
        pytest.param("llama_7b_decode.fp16.tiny", 0.7, marks=pytest.mark.soak),
        pytest.param("llama_7b_decode.fp16.tiny", 0.5, marks=pytest.mark.soak),
    ],
)
def test_programs_fit_or_are_refused(name: str, share: float):
    path = str(MODELS / f"{name}.onnx")
    peak, expected = free(path)
    limit = int(share * peak)
    loaded = load(path)
    refused = None
    try:
        found = lower(loaded.module, Options(memory_limit=limit))
    except OverLimitError as e:
        found, refused = None, e
    if found is None or refused is not None:
        assert refused is not None
        assert refused.arena > limit
        remedies = [n.partition(":")[0] for n in refused.notes]
        assert [n for n in remedies if n in WHAT] == ["order", "fuse", "recompute", "spill"]
        return
    assert found.memory["peak_bytes"] <= limit
    assert check_program(loaded.module).problems == []
    for key, array in outputs(loaded).items():
        np.testing.assert_array_equal(array, expected[key])


@pytest.mark.parametrize(
    ("name", "fusion"),
    [
        ("if_cond.tiny", "default"),
        pytest.param("gpt2_prefill.noopt.tiny", "default", marks=pytest.mark.soak),
        pytest.param("llama_7b_decode.fp16.tiny", "off", marks=pytest.mark.soak),
        pytest.param("gpt2_prefill.noopt.tiny", "off", marks=pytest.mark.soak),
        pytest.param("llama_7b_decode.fp16.tiny", "default", marks=pytest.mark.soak),
    ],
)
def test_a_level_more_needs_no_more_memory(name: str, fusion: str):
    peaks: list[int] = []
    results: list[dict[str, Array]] = []
    for level in MEMORY_LEVELS:
        loaded = load(str(MODELS / f"{name}.onnx"))
        found = lower(loaded.module, Options(fusion=fusion, memory=level))
        fusions = [record.name for record in found.passes].count("fuse-vector-ops")
        assert fusions <= max(level - 1, 1)  # with and without copies at level 3, not more
        peaks.append(found.memory["peak_bytes"])
        assert check_program(loaded.module).problems == []
        results.append(outputs(loaded))
    assert peaks == sorted(peaks, reverse=True)
    for result in results[1:]:
        for key, array in result.items():
            np.testing.assert_array_equal(array, results[0][key])


@pytest.mark.parametrize("name", ["if_cond", pytest.param("bert_base", marks=pytest.mark.soak)])
def test_where_nothing_helps_the_error_tells_what_each_remedy_saves(name: str):
    loaded = load(str(MODELS / f"{name}.tiny.onnx"))
    with pytest.raises(OverLimitError) as info:
        lower(loaded.module, Options(fusion="off", memory_limit=1000))
    notes = info.value.notes
    assert notes[0].startswith("the peak is at ")
    assert any("made by @" in n and "last used by" in n for n in notes)
    assert [n.partition(":")[0] for n in notes[-3:]] == ["order", "recompute", "spill"]


def test_buffers_of_unknown_size_never_leave_the_device():
    loaded = load(str(MODELS / "loop_rnn.tiny.onnx"))
    with pytest.raises(OverLimitError, match="the arena needs 1536 bytes, its limit is 716"):
        lower(loaded.module, Options(target="910_merged", memory_limit=716))


def test_weights_that_do_not_fit_are_no_matter_of_the_arena(tmp_path: Path):
    text = (Path(__file__).parents[2] / "dialects" / "targets" / "910_merged.toml").read_text()
    small = tmp_path / "small.toml"
    lines = [
        "hbm_bytes = 1000" if line.startswith("hbm_bytes") else line for line in text.splitlines()
    ]
    small.write_text("\n".join(lines))
    loaded = load(str(MODELS / "bert_base.tiny.onnx"))
    alone = r"the weights alone take [\d.]+ MiB, .* has [\d.]+ MiB"
    with pytest.raises(OverLimitError, match=alone) as info:
        lower(loaded.module, Options(target=str(small)))
    assert info.value.limit < 0
    assert not info.value.notes


@pytest.mark.parametrize(
    ("text", "size"),
    [("1000", 1000), ("4K", 4096), ("64m", 64 << 20), ("1.5G", 3 << 29), ("2GiB", 2 << 30)],
)
def test_bytes_are_read(text: str, size: int):
    assert Options.from_environment({"GE_MEMORY_LIMIT": text}).memory_limit == size


@pytest.mark.parametrize("text", ["-1", "1.5", "K", "10X", "1e9", "٣"])
def test_what_is_no_number_of_bytes_is_refused(text: str):
    with pytest.raises(GeError, match=r"GE_MEMORY_LIMIT is a number of bytes such as .*, not "):
        Options.from_environment({"GE_MEMORY_LIMIT": text})


@st.composite
def programs(draw: st.DrawFn) -> SpillProblem:
    """Buffers, and the tasks that use them."""
    tasks = draw(st.integers(2, 20))
    task = st.integers(0, tasks - 1)
    graph, defined = TaskGraph(), list[int]()
    for _ in range(tasks):
        graph.task()
    for _ in range(draw(st.integers(1, 12))):
        users = sorted(draw(st.sets(task, min_size=1, max_size=5)))
        buffer = graph.buffer(draw(st.integers(0, 9)), users[0])
        for user in users[1:]:
            graph.read(buffer, user)
        defined.append(draw(st.sampled_from(users)))
    problem = SpillProblem(graph, [0] * tasks)
    problem.defined = defined
    return problem


@settings(max_examples=2 * settings().max_examples)
@given(programs(), st.integers(0, 40))
def test_buffers_are_away_only_where_nobody_needs_them(problem: SpillProblem, limit: int):
    graph = problem.graph
    users = [[w, *r] for w, r in zip(graph.writer, graph.readers, strict=True)]
    before = problem.live_bytes()
    absences, peak = choose(problem, limit)
    live = before.copy()
    for absence in absences:
        mine = users[absence.buffer]
        assert absence.use < absence.load <= absence.next
        assert problem.defined[absence.buffer] <= absence.use
        assert mine[mine.index(absence.use) + 1] == absence.next
        live[absence.use + 1 : absence.load] -= graph.bytes[absence.buffer]
    assert int(live.max(initial=0)) <= max(peak, limit)
    assert peak <= problem.peak()
    needed = [
        sum(size for size, mine in zip(graph.bytes, users, strict=True) if task in mine)
        for task in range(len(graph))
    ]
    if problem.defined == graph.writer and max(needed) <= limit:
        assert peak <= limit
