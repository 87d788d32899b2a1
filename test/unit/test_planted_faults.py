"""Faults in random programs are reported, and edits of program texts refused where they do harm
(`planted_faults.py`, `planted_edits.py`, `planted_claims.py`, `planted_tile_faults.py` and
`planted_device_faults.py` of `test/bench` plant more); random timings of what the compiler makes
give the same bits."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import mesh_programs
import planted_claims
import planted_device_faults
import planted_edits
import planted_faults
import planted_tile_faults

from ge.lowering.driver.compiler import load, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.schedule import useless_events
from ge.runtime.device.function import Function
from ge.runtime.device.interleave import random_order
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session, main_of

MODELS = Path(__file__).parents[1] / "models"


def test_faults_are_reported_and_nothing_else() -> None:
    tally = planted_faults.run_cases(faults=10, timings=6)
    assert tally.wrong == []
    assert set(tally.harmful) == {"dropped wait", "shortened lifetime", "shifted offset"}


@pytest.mark.parametrize("faults", [6, pytest.param(5000, marks=pytest.mark.soak)])
def test_faults_across_devices_are_reported_and_nothing_else(faults: int) -> None:
    tally = planted_device_faults.run_cases(faults, timings=4)
    assert tally.wrong == []
    assert tally.harmful.total() > 0


@pytest.mark.parametrize("seed", [
    7800326, 9000156, 9000344, 9201166, 9201304, 9301485, 9301518, 9402089, 9802246, 9850148,
    9900741, 9901803, 9902873, 9981150, 10000189,
])  # fmt: skip
def test_what_was_missed_or_refused_once(seed: int) -> None:
    """Elements that are none of the whole's in chunks and looked up by place, and parts in another
    order; values in rows that are scattered together, a transposition of dimensions of one element,
    one element that is repeated, a block of rows for each device, and digits of an axis without
    those of another between them, are no faults; parts whose elements are turned around, chunks
    that are gathered along another axis, and windows that pass the end of a part of which chunks
    have some rows, are."""
    assert planted_device_faults.run_cases(1, timings=4, seed=seed).wrong == []


@pytest.mark.parametrize(
    "cases", [(0, 6, 8, 10, 12, 18), pytest.param(range(20), marks=pytest.mark.soak)], ids=len
)
def test_faults_in_tile_programs_are_reported(cases: Sequence[int]) -> None:
    counts = planted_tile_faults.run_cases(cases, seed=3, orders=3)
    assert not any(verdict.startswith("MISSED") for verdict in counts)
    assert counts["reported"] > 3


def test_edits_that_do_harm_are_refused() -> None:
    tally = planted_edits.run_cases(range(5001, 5009))
    assert tally.wrong == []
    assert tally.refused.total() > 4
    assert tally.harmless.total() > 0


@pytest.mark.parametrize(
    "cases", [range(103, 109), pytest.param(range(60), marks=pytest.mark.soak)], ids=len
)
def test_edits_of_states_gears_and_dynamic_plans_are_refused(cases: Sequence[int]) -> None:
    counts = planted_claims.run_cases(cases)
    verdicts = {verdict for verdict, _ in counts}
    assert "MISSED" not in verdicts
    assert "harm, refused" in verdicts


@pytest.mark.parametrize(
    ("model", "options"),
    [
        pytest.param(model, options, marks=[] if some else pytest.mark.soak)
        for model in ("bert_base", "llama_7b_decode.fp16", "if_cond", "loop_greedy")
        for options, some in (
            (Options(), model == "if_cond"),
            (Options(fusion="off"), False),
            (Options(share_io=True), model == "loop_greedy"),
        )
    ],
)
def test_random_timings_give_the_same_bits(model: str, options: Options) -> None:
    """And no event is there in vain."""
    loaded = load(str(MODELS / f"{model}.tiny.onnx"))
    lower(loaded.module, options)
    session = Session(loaded.module, loaded.payload, sanitize=True)
    session.fuzz_schedule(random_inputs(loaded.module), runs=5)
    assert useless_events(loaded.module) == []


@pytest.mark.parametrize(
    ("name", "timings"),
    [
        ("experts", 10),
        *(pytest.param(name, 100, marks=pytest.mark.soak) for name in mesh_programs.PROGRAMS),
    ],
)
def test_random_timings_of_four_devices_give_the_same_bits(name: str, timings: int) -> None:
    module, given, weights = mesh_programs.PROGRAMS[name]()
    Session(module, weights, sanitize=True).fuzz_schedule(given, timings)


def test_orders_differ_and_are_complete() -> None:
    loaded = load(str(MODELS / "bert_base.tiny.onnx"))
    lower(loaded.module, Options(fusion="off"))
    function = Function(loaded.module, main_of(loaded.module), loaded.payload)
    orders = {tuple(random_order(function.code, np.random.default_rng(s))) for s in range(8)}
    assert len(orders) > 1
    assert {tuple(sorted(o)) for o in orders} == {tuple(range(len(function.code.instructions)))}
