"""Sums of gradients over devices are few: one, or one scattered, in small training steps."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import mesh_programs
from training_graphs import transformer
from xdsl.dialects.builtin import f32

from ge.lowering.driver.devices import device_figures
from ge.runtime.device.session import Session


@pytest.mark.parametrize(
    ("weights", "kind", "most"), [(False, "all_reduce", 1), (True, "reduce_scatter", 3)]
)
def test_gradients_are_summed_together(weights: bool, kind: str, most: int) -> None:
    module, given, payload = mesh_programs.training("dp=4", weights=weights)
    rows = device_figures(module)["devices"]["collectives"]
    assert sum(row["count"] for row in rows if row["op"] == kind) <= most
    one, _, _ = mesh_programs.cut(transformer(1, 32, 4, 4, 8, element=f32, norms=False), payload)
    wanted = Session(one, payload).run(given)
    for name, array in Session(module, payload).run(given).items():
        np.testing.assert_allclose(array, wanted[name], rtol=1e-3, atol=1e-4)
