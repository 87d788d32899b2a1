"""Products of one row with codes of 8 or 4 bits on vector cores alone, against the bodies of their
kernels."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import f16
from xdsl.ir import Attribute

sys.path.insert(0, str(Path(__file__).parent))
from test_lower_matmul import linear
from test_lower_operands import Body, weights
from tile_lowering import Lowered, compare

from ge.dialects.tile.kernel import CubeOp
from ge.lowering.driver.variants import tune_program
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.data.arrays import Array
from ge.runtime.device.random_inputs import random_array

GATED: Body = (
    ["1x1x150xf16", "150x200xi8", "200xf16", "150x200xi8", "200xf16"],
    [
        "%0 = graph.dequantize %x1, %x2 axis 1 : (#150x200xi8, #200xf16) -> #150x200xf16",
        "%1 = graph.dequantize %x3, %x4 axis 1 : (#150x200xi8, #200xf16) -> #150x200xf16",
        "%2 = graph.matmul %x0, %0 : (#1x1x150xf16, #150x200xf16) -> #1x1x200xf16",
        "%3 = graph.matmul %x0, %1 : (#1x1x150xf16, #150x200xf16) -> #1x1x200xf16",
        "%4 = graph.silu %2 : (#1x1x200xf16) -> #1x1x200xf16",
        "%5 = graph.mul %4, %3 : (#1x1x200xf16, #1x1x200xf16) -> #1x1x200xf16",
    ],
    ["%5"],
)
ONE_SCALE: Body = (
    ["1x96xf16", "96x70xi8", "1xf16", "70xf16"],
    [
        "%0 = graph.dequantize %x1, %x2 : (#96x70xi8, #1xf16) -> #96x70xf16",
        "%1 = graph.matmul %x0, %0 : (#1x96xf16, #96x70xf16) -> #1x70xf16",
        "%2 = graph.add %1, %x3 : (#1x70xf16, #70xf16) -> #1x70xf16",
    ],
    ["%2"],
)
THREE: Body = (
    ["1x150xf16", *["150x200xi8", "200xf16"] * 2, "150x40xi8", "40xf16"],
    [
        line
        for i, n in enumerate((200, 200, 40))
        for line in (
            f"%{2 * i} = graph.dequantize %x{2 * i + 1}, %x{2 * i + 2} axis 1"
            f" : (#150x{n}xi8, #{n}xf16) -> #150x{n}xf16",
            f"%{2 * i + 1} = graph.matmul %x0, %{2 * i} : (#1x150xf16, #150x{n}xf16) -> #1x{n}xf16",
        )
    ],
    ["%1", "%3", "%5"],
)


def groups(terms: int, columns: int, block: int = 32, zero: bool = True, codes: str = "i4") -> Body:
    """The product of two products with weights in groups."""
    weight, scales = f"{terms}x{columns}x", f"{terms // block}x{columns}x"
    kinds = [weight + codes, scales + "f16", *([scales + codes] if zero else [])]
    result, lines = f"#1x{columns}xf16", list[str]()
    for i in range(2):
        names = ", ".join(f"%x{1 + i * len(kinds) + j}" for j in range(len(kinds)))
        types = ", ".join(f"#{kind}" for kind in kinds)
        lines += [
            f"%w{i} = graph.dequantize {names} axis 0 block_size {block}"
            f" : ({types}) -> #{weight}f16",
            f"%t{i} = graph.matmul %x0, %w{i} : (#1x{terms}xf16, #{weight}f16) -> {result}",
        ]
    lines.append(f"%y = graph.mul %t0, %t1 : ({result}, {result}) -> {result}")
    return [f"1x{terms}xf16", *kinds, *kinds], lines, ["%y"]


HEADS: Body = (
    ["1x1x150xf16", "150x256xi8", "256xf16", "1x1x1x64xf16", "1x1x1x64xf16"],
    [
        "%0 = graph.dequantize %x1, %x2 axis 1 : (#150x256xi8, #256xf16) -> #150x256xf16",
        "%1 = graph.matmul %x0, %0 : (#1x1x150xf16, #150x256xf16) -> #1x1x256xf16",
        "%2 = graph.reshape %1 shape [1, 2, 1, 128] : (#1x1x256xf16) -> #1x2x1x128xf16",
        "%3 = graph.rotary_embedding %2, %x3, %x4"
        " : (#1x2x1x128xf16, #1x1x1x64xf16, #1x1x1x64xf16) -> #1x2x1x128xf16",
    ],
    ["%3"],
)
BODIES = {
    "many terms": weights(1, 4000, 130),
    "many columns": weights(1, 128, 5000),
    "a ragged end": weights(1, 150, 70),
    "two weights": GATED,
    "three weights": THREE,
    "one scale": ONE_SCALE,
    "heads": HEADS,
    "groups": groups(2048, 150),
    "groups of one product": weights(1, 512, 512, "i4", block=32, zero=True),
    "parts of groups": groups(1440, 300, 96),
    "groups of 8 without zero points": groups(1200, 40, 8, zero=False),
    "groups of 8 bits": groups(2048, 150, codes="i8"),
    "groups of 8 bits of an odd number of columns": weights(1, 512, 511, block=32, zero=True),
    "groups of 8 bits without zero points": groups(1440, 300, 96, zero=False, codes="i8"),
}
OTHERS = {
    "two rows": weights(2, 512, 512),
    "codes along terms": weights(1, 512, 512, turned=True),
    "zero points": weights(1, 512, 512, zero=True),
    "codes of 4 bits of an odd number of columns": weights(1, 512, 511, "i4", block=32),
}


def has_cube(found: Lowered) -> bool:
    return any(isinstance(side, CubeOp) for _, tiles in found.pairs for side in tiles.programs)


@pytest.mark.parametrize("name", BODIES)
def test_one_row(name: str) -> None:
    found = compare(linear(*BODIES[name]), all_lowered=True, orders=2)
    assert not has_cube(found)


@pytest.mark.parametrize("largest", [1e-3, 60000.0])
def test_sums_of_f16_are_in_range(largest: float) -> None:
    """Elements of the row are small, or nearly as large as f16 has them."""

    def make(rng: np.random.Generator, element: Attribute, shape: Sequence[int]) -> Array:
        if element != f16:
            return random_array(rng, element, shape)
        size = largest if shape[0] == 1 else 1e-3 / largest**0.5  # of the row, and of scales
        return (rng.uniform(0.5, 1.0, shape) * size).astype("f2")

    for codes in ("i4", "i8"):
        compare(linear(*groups(2048, 70, codes=codes)), all_lowered=True, make=make)


@pytest.mark.parametrize("name", OTHERS)
def test_the_cube_has_other_products(name: str) -> None:
    assert has_cube(compare(linear(*OTHERS[name]), all_lowered=True))


@pytest.mark.parametrize("name", ["many columns", "groups"])
def test_tuning_compares_with_the_program_there_is(name: str) -> None:
    """Cuts are those of the cube, which has another program."""
    found = compare(linear(*BODIES[name]), all_lowered=True)
    (tuning,) = tune_program(found.module)
    ((_, tiles),) = found.pairs
    assert tuning.best.own_us == TileKernel(tiles, found.target).time().total_us
