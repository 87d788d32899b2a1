"""Ops that have nothing to do with each other in one launch: their programs stand one after the
other."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from test_lower_matmul import linear
from tile_lowering import compare

from ge.dialects.support.operation import all_ops
from ge.dialects.text.reading import SourceText, parse_module
from ge.dialects.tile.buffers import AllocOp
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.proof import check_program
from ge.runtime.device.session import Session

WEIGHTS = {  # rows, columns, rows that have one scale (0: each has its own)
    "equal ones": [(256, 64, 0)] * 3,
    "others": [(300, 70, 0), (64, 1030, 0), (7, 9, 0)],
    "many": [(40 + i, 200, 0) for i in range(20)],
    "in groups": [(256, 128, 32), (100, 64, 0), (512, 96, 64)],
    "few rows": [(1, 64, 0), (3, 16, 0)],
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_side_by_side(name: str) -> None:
    """Weights are dequantized, and another value is rounded."""
    inputs, body = ["5x33xf32"], ["%c = graph.cast %x0 to f16 : (#5x33xf32) -> #5x33xf16"]
    for i, (rows, cols, block) in enumerate(WEIGHTS[name]):
        codes, size = f"{rows}x{cols}xi8", f" block_size {block}" if block else ""
        scales = f"{rows // block}x{cols}xf16" if block else f"{rows}xf16"
        inputs += [codes, scales]
        body.append(
            f"%w{i}_ = graph.dequantize %x{2 * i + 1}, %x{2 * i + 2} axis 0{size}"
            f" : (#{codes}, #{scales}) -> #{rows}x{cols}xf16"
        )
    results = ["%c", *(f"%w{i}_" for i in range(len(WEIGHTS[name])))]
    found = compare(linear(inputs, body, results, "region"), all_lowered=True, orders=2)
    ((_, program),) = found.pairs
    if name == "equal ones":  # they have the same buffers, one after the other
        allocs = [op for op in all_ops(program.body.blocks) if isinstance(op, AllocOp)]
        assert len({op.result.type for op in allocs}) == len(allocs)


SHARED = """
func.func @main(%x: tensor<48x6xf16> {graph.name = "x"}, %i: tensor<2xi64> {graph.name = "i"})
    -> (tensor<8x36xf16> {graph.name = "y"}, tensor<2x48xf16> {graph.name = "z"}) {
  %0 = graph.relu %x : (tensor<48x6xf16>) -> tensor<48x6xf16>
  %1 = graph.reshape %0 shape [6, 8, 6] : (tensor<48x6xf16>) -> tensor<6x8x6xf16>
  %2 = graph.transpose %1 permutation [1, 0, 2] : (tensor<6x8x6xf16>) -> tensor<8x6x6xf16>
  %3 = graph.reshape %2 shape [8, 36] : (tensor<8x6x6xf16>) -> tensor<8x36xf16>
  %4 = graph.reshape %1 shape [6, 48] : (tensor<6x8x6xf16>) -> tensor<6x48xf16>
  %5 = graph.exp %3 : (tensor<8x36xf16>) -> tensor<8x36xf16>
  %6 = graph.gather %4, %i : (tensor<6x48xf16>, tensor<2xi64>) -> tensor<2x48xf16>
  func.return %5, %6 : tensor<8x36xf16>, tensor<2x48xf16>
}
"""


def test_only_the_cores_of_a_part_load_what_it_overwrites() -> None:
    """One core computes a part in place; those of the other part must not load from there."""
    module = parse_module(context(), SourceText("shared.mlir", SHARED))
    lower(module, Options(memory=2))
    assert not check_program(module).problems


def test_a_number_in_two_shapes_is_not_of_one_launch() -> None:
    """One part takes it as a vector of one element, the other as a matrix."""
    text = """
func.func @main(%x: tensor<1x1xf16> {graph.name = "x"})
    -> (tensor<1x1xf16> {graph.name = "y"}, tensor<2x1xf16> {graph.name = "z"}) {
  %0 = graph.sub %x, %x : (tensor<1x1xf16>, tensor<1x1xf16>) -> tensor<1x1xf16>
  %1 = graph.broadcast_to %x shape [2, 1] : (tensor<1x1xf16>) -> tensor<2x1xf16>
  func.return %0, %1 : tensor<1x1xf16>, tensor<2x1xf16>
}
"""
    lower(module := parse_module(context(), SourceText("number.mlir", text)), Options())
    assert not check_program(module).problems
    x = np.array([[3]], np.float16)
    assert Session(module, {}).run({"x": x})["z"].tolist() == [[3], [3]]
