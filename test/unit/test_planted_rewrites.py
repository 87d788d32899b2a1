"""What the comparison of random graphs excuses is not what a wrong rewrite makes
(`test/bench/planted_rewrites.py` plants more)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

from planted_rewrites import FAULTS, measure
from random_motifs import MOTIFS


def test_wrong_rewrites_are_caught() -> None:
    power = measure(range(0, 2 * len(MOTIFS), 8))
    assert len(power.planted) > len(FAULTS) / 5
    assert power.visible.total() > 5
    assert power.share() == 1, str(power)
