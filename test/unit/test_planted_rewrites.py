"""What the comparison of random graphs excuses is not what a wrong rewrite makes
(`test/bench/planted_rewrites.py` plants more)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

from planted_rewrites import FAULTS, measure


def test_wrong_rewrites_are_caught() -> None:
    power = measure(seed=0, cases=16)
    assert len(power.planted) > len(FAULTS) / 2
    assert power.visible.total() > 20
    assert power.share() == 1, str(power)
