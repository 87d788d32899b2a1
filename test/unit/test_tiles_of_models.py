"""Launches on tile programs: kernels, programs and models, both ways."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import compare

RELU = """
func.func @main(%x: tensor<9x511xf32>) -> tensor<9x511xf32> {
  %0 = graph.relu %x : (tensor<9x511xf32>) -> tensor<9x511xf32>
  func.return %0 : tensor<9x511xf32>
}
"""


def test_a_kernel_of_one_op():
    lowered = compare(RELU, all_lowered=True, exact=True, orders=3)
    assert [k.tiles.data for k, _ in lowered.pairs if k.tiles] == ["relu_0_tiles"]
