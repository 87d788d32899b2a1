"""The search for shardings asks little of layers that repeat, and of a second axis."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from counting_steps import calls

from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.transforms.sharding.partition_spmd import PartitionSpmdPass
from ge.transforms.sharding.plans import Search

X, H, W = "tensor<512x256xf16>", "tensor<512x1024xf16>", "tensor<256x1024xf16>"


def searched(monkeypatch: pytest.MonkeyPatch, mesh: str, layers: int) -> int:
    """The calls that a search takes, of layers that each give an output too."""
    lines, x = [f"graph.mesh @mesh [{mesh}]", "@main"], "%x"
    for i in range(layers):
        lines += [
            f'%up{i} = graph.constant #graph.weight<"{i}.up"> : {W}',
            f"%h{i} = graph.matmul {x}, %up{i} : ({X}, {W}) -> {H}",
            f"%r{i} = graph.relu %h{i} : ({H}) -> {H}",
            f"%y{i} = graph.matmul %r{i}, %up{i} transpose_rhs 1 : ({H}, {W}) -> {X}",
            f"%x{i} = graph.add {x}, %y{i} : ({X}, {X}) -> {X}",
        ]
        x = f"%x{i}"
    results = ", ".join([X] * layers)
    lines[1] = f"func.func @main(%x: {X}) -> ({results}) {{"
    lines += [f"return {', '.join(f'%x{i}' for i in range(layers))} : {results}", "}"]
    module = parse_module(context(), SourceText("test.mlir", "\n".join(lines)))
    found: list[int] = []
    run = Search.run
    with monkeypatch.context() as patch:
        patch.setattr(Search, "run", lambda self: found.append(calls(lambda: run(self))))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        PartitionSpmdPass(auto=True).apply(context(), module)
    return found[0]


def test_layers_that_repeat_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (searched(monkeypatch, '"dp"=2, "tp"=4', n) for n in (12, 36))
    assert many < 1.2 * few


@pytest.mark.parametrize(("mesh", "most"), [('"tp"=8', 80_000), ('"dp"=2, "tp"=4', 350_000)])
def test_a_search_takes_so_many_calls(
    monkeypatch: pytest.MonkeyPatch, mesh: str, most: int
) -> None:
    assert searched(monkeypatch, mesh, 12) < most
