"""Ops with an open axis: sizes between gears are taken where no valid element follows from a padded
one, with onnxruntime's numbers, and refused elsewhere, by the proof too."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
from gear_ops import CASES, Case, outcomes

MIXED = {
    ("MaxPool", "x[2]"), ("InstanceNormalization", "x[2]"), ("GroupNormalization", "x[2]"),
    ("MeanVarianceNormalization", "x[2]"), ("SpaceToDepth", "x[1]"), ("GridSample", "x[2]"),
}  # fmt: skip
WITH_INDICES = {("MaxPool", "x[1]"), ("MaxPool", "x[2]")}  # in the flattened input
WITH_LAST_STATE = {("LSTM", "x[0]"), ("GRU", "x[0]")}
UNKNOWN = {"DynamicQuantizeLinear", "NonZero", "Compress"}
OFTEN = ("Pad", "TopK", "LSTM", "DepthToSpace", "NonZero", "ConvTranspose", "GridSample")
FEW = [c for c in CASES if c.op in OFTEN]


def check(case: Case) -> None:
    pytest.importorskip("onnxruntime", reason="the numbers are compared with onnxruntime's")
    refused = MIXED | (WITH_INDICES | WITH_LAST_STATE if case.outputs > 1 else set())
    for each in outcomes([case]):
        assert not each.error
        assert bool(each.problems) == (each.refused is not None)
        if case.op in UNKNOWN:
            assert each.refused is not None
            assert each.refused.startswith("nothing is known of how graph.")
        elif (case.op, each.axis) in refused:
            assert each.refused is not None
            assert "needs all elements along axis" in each.refused or "follow" in each.refused
        else:
            assert each.refused is None
            assert each.difference is not None
            assert each.difference < 1e-5


@pytest.mark.parametrize("case", FEW, ids=[c.op for c in FEW])
def test_sizes_between_gears(case: Case):
    check(case)


@pytest.mark.soak
@pytest.mark.parametrize("case", CASES, ids=[c.op for c in CASES])
def test_sizes_between_gears_of_all_ops(case: Case):
    check(case)
