"""Products of one row with codes of 8 bits on vector cores alone, against the bodies of their
kernels."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from test_lower_matmul import linear
from test_lower_operands import Body, weights
from tile_lowering import Lowered, compare

from ge.dialects.tile.kernel import CubeOp
from ge.lowering.driver.variants import tune_program
from ge.runtime.cores.kernel import TileKernel

GATED: Body = (
    ["1x1x150xf16", "200x150xi8", "200xf16", "200x150xi8", "200xf16"],
    [
        "%0 = graph.dequantize %x1, %x2 axis 0 : (#200x150xi8, #200xf16) -> #200x150xf16",
        "%1 = graph.dequantize %x3, %x4 axis 0 : (#200x150xi8, #200xf16) -> #200x150xf16",
        "%2 = graph.matmul %x0, %0 transpose_rhs true"
        " : (#1x1x150xf16, #200x150xf16) -> #1x1x200xf16",
        "%3 = graph.matmul %x0, %1 transpose_rhs true"
        " : (#1x1x150xf16, #200x150xf16) -> #1x1x200xf16",
        "%4 = graph.silu %2 : (#1x1x200xf16) -> #1x1x200xf16",
        "%5 = graph.mul %4, %3 : (#1x1x200xf16, #1x1x200xf16) -> #1x1x200xf16",
    ],
    ["%5"],
)
ONE_SCALE: Body = (
    ["1x96xf16", "70x96xi8", "1xf16", "70xf16"],
    [
        "%0 = graph.dequantize %x1, %x2 : (#70x96xi8, #1xf16) -> #70x96xf16",
        "%1 = graph.matmul %x0, %0 transpose_rhs true : (#1x96xf16, #70x96xf16) -> #1x70xf16",
        "%2 = graph.add %1, %x3 : (#1x70xf16, #70xf16) -> #1x70xf16",
    ],
    ["%2"],
)
THREE: Body = (
    ["1x150xf16", *["200x150xi8", "200xf16"] * 2, "40x150xi8", "40xf16"],
    [
        line
        for i, n in enumerate((200, 200, 40))
        for line in (
            f"%{2 * i} = graph.dequantize %x{2 * i + 1}, %x{2 * i + 2} axis 0"
            f" : (#{n}x150xi8, #{n}xf16) -> #{n}x150xf16",
            f"%{2 * i + 1} = graph.matmul %x0, %{2 * i} transpose_rhs true"
            f" : (#1x150xf16, #{n}x150xf16) -> #1x{n}xf16",
        )
    ],
    ["%1", "%3", "%5"],
)
BODIES = {
    "many terms": weights(1, 4000, 130, turned=True),
    "many columns": weights(1, 128, 5000, turned=True),
    "a ragged end": weights(1, 150, 70, turned=True),
    "two weights": GATED,
    "three weights": THREE,
    "one scale": ONE_SCALE,
}
OTHERS = {
    "two rows": weights(2, 512, 512, turned=True),
    "codes along columns": weights(1, 512, 512),
    "zero points": weights(1, 512, 512, turned=True, zero=True),
    "codes of 4 bits": weights(1, 512, 512, "i4", block=32),
}


def has_cube(found: Lowered) -> bool:
    return any(isinstance(side, CubeOp) for _, tiles in found.pairs for side in tiles.programs)


@pytest.mark.parametrize("name", BODIES)
def test_one_row(name: str) -> None:
    found = compare(linear(*BODIES[name]), all_lowered=True, orders=2)
    assert not has_cube(found)


@pytest.mark.parametrize("name", OTHERS)
def test_the_cube_has_other_products(name: str) -> None:
    assert has_cube(compare(linear(*OTHERS[name]), all_lowered=True))


def test_tuning_compares_with_the_program_there_is() -> None:
    """Cuts are those of the cube, which has another program."""
    found = compare(linear(*BODIES["many columns"]), all_lowered=True)
    (tuning,) = tune_program(found.module)
    ((_, tiles),) = found.pairs
    assert tuning.best.own_us == TileKernel(tiles, found.target).time().total_us
