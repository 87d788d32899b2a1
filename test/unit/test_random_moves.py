"""Random ops that move elements over devices (`test/bench/random_moves.py` runs more)."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

from random_moves import check

from ge.lowering.driver.compiler import context

FEW, MANY = (*range(12), 1307), range(2000, 2500)  # 1307: padding that fills the last part


@pytest.mark.parametrize(
    "seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.soak) for seed in MANY)]
)
def test_devices_give_what_one_gives_and_are_proved(seed: int):
    assert (wrong := check(seed, context())) is None, wrong
