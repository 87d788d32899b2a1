"""Faults in kernels by hand that change a result in some order of the pipes are reported
(`tile_faults.py` of `test/bench` plants more)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import tile_faults


def test_faults_are_reported_and_right_kernels_are_not() -> None:
    tally = tile_faults.run_cases(range(30), orders=4)
    assert tally.wrong == []
    assert tally.harmful.total() > 5
    assert len(tally.harmful) > 3
