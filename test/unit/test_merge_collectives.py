"""Sums of gradients over devices are few: one, or one scattered, in small training steps."""

import sys
from collections.abc import ItemsView
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import mesh_programs
from training_graphs import transformer
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation

from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.lowering.driver.devices import device_figures
from ge.runtime.device.session import Session
from ge.transforms.sharding import merge_collectives


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


def test_each_op_is_looked_at_for_the_sums_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each sum of a program, of which there are as many as layers."""
    looked_at: list[int] = []

    class Counted(dict[Operation, float]):
        def __getitem__(self, op: Operation) -> float:
            looked_at.append(1)
            return super().__getitem__(op)

        def items(self) -> ItemsView[Operation, float]:
            looked_at.extend([1] * len(self))
            return super().items()

    seconds_of = merge_collectives.seconds_of
    monkeypatch.setattr(
        merge_collectives, "seconds_of", lambda ops, rates: Counted(seconds_of(ops, rates))
    )
    layers, x = 24, "tensor<64x64xf16>"
    lines = ['graph.mesh @mesh ["tp"=4]', f"func.func @main(%w: {x}, %x0: {x}) -> {x} {{"]
    for i in range(layers):
        lines += [
            f"%m{i} = graph.matmul %x{i}, %w : ({x}, {x}) -> {x}",
            f'%s{i} = graph.all_reduce sum %m{i} over <"tp"=4> : ({x}) -> {x}',
            f"%x{i + 1} = graph.relu %s{i} : ({x}) -> {x}",
        ]
    lines += [f"return %x{layers} : {x}", "}"]
    module = parse_module(context(), SourceText("test.mlir", "\n".join(lines)))
    merge_collectives.MergeCollectivesPass().apply(context(), module)
    assert len(looked_at) <= 4 * layers
