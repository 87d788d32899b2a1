"""Random graphs on random meshes (`test/bench/random_shardings.py` runs more)."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

from random_graphs import Graphs, op_classes
from random_shardings import check

# 20167: a scatter whose indices are fewer than the elements along other dimensions
FEW, MANY = (*range(0, 20), 20167), range(1000, 1600)


@pytest.mark.parametrize("seed", FEW)
def test_devices_give_what_one_gives(seed: int):
    assert (wrong := check(Graphs(op_classes()), seed)) is None, wrong


@pytest.mark.soak
@pytest.mark.parametrize("seed", MANY)
def test_devices_give_what_one_gives_of_many(seed: int):
    assert (wrong := check(Graphs(op_classes()), seed)) is None, wrong
