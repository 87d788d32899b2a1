"""Types of the tile dialect."""

import pytest
from xdsl.dialects.builtin import f16, f32

from ge.dialects.tile.types import BoxType, FifoType, Memory, RingType, TileType

TYPES = (
    *(kind(*shape, f16) for kind in (BoxType, FifoType) for shape in ((64, 64), (64, 128))),
    BoxType(64, 64, f32),
    TileType(64, 64, f16, Memory.L1),
    TileType(64, 128, f16, Memory.L1),
    TileType(64, 64, f16, Memory.L0A),
    RingType(2, 64, 64, f16, Memory.L1),
    RingType(3, 64, 64, f16, Memory.L1),
)


@pytest.mark.parametrize("a", TYPES)
def test_types_are_equal_where_all_parameters_are(a: object):
    assert [a == b for b in TYPES].count(True) == 1
