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


def groups(columns: int, count: int, terms: int = 32, missing: int = 0, zero: bool = True) -> Body:
    """A product with two weights of 4 bits, in parts of 128 groups, of which some are missing."""
    k, short = count * 128 * terms, (count * 128 - missing) * terms
    codes, scales = f"{count}x{terms}x{columns}x128xi4", f"{count}x1x{columns}x128x"
    kinds = [codes, scales + "f16", *([scales + "i4"] if zero else [])]
    lines, moved = list[str](), f"#{count}x128x{terms}x{columns}xf16"
    for i in range(2):
        names = ", ".join(f"%x{1 + i * len(kinds) + j}" for j in range(len(kinds)))
        types = ", ".join(f"#{kind}" for kind in kinds)
        lanes, whole = f"#{codes[:-2]}f16", f"#{k}x{columns}xf16"
        lines += [
            f"%p{i} = graph.dequantize {names} axis 1 block_size {terms} : ({types}) -> {lanes}",
            f"%q{i} = graph.transpose %p{i} permutation [0, 3, 1, 2] : ({lanes}) -> {moved}",
            f"%r{i} = graph.reshape %q{i} shape [{k}, {columns}] : ({moved}) -> {whole}",
        ]
        last, weight = f"%r{i}", f"#{short}x{columns}xf16"
        if missing:
            lines.append(
                f"%s{i} = graph.slice {last} starts [0] ends [{short}] axes [0] steps [1]"
                f" : ({whole}) -> {weight}"
            )
            last = f"%s{i}"
        lines.append(
            f"%t{i} = graph.matmul %x0, {last} : (#1x{short}xf16, {weight}) -> #1x{columns}xf16"
        )
    result = f"#1x{columns}xf16"
    lines.append(f"%y = graph.mul %t0, %t1 : ({result}, {result}) -> {result}")
    return [f"1x{short}xf16", *kinds, *kinds], lines, ["%y"]


HEADS: Body = (
    ["1x1x150xf16", "256x150xi8", "256xf16", "1x1x1x64xf16", "1x1x1x64xf16"],
    [
        "%0 = graph.dequantize %x1, %x2 axis 0 : (#256x150xi8, #256xf16) -> #256x150xf16",
        "%1 = graph.matmul %x0, %0 transpose_rhs true"
        " : (#1x1x150xf16, #256x150xf16) -> #1x1x256xf16",
        "%2 = graph.reshape %1 shape [1, 2, 1, 128] : (#1x1x256xf16) -> #1x2x1x128xf16",
        "%3 = graph.rotary_embedding %2, %x3, %x4"
        " : (#1x2x1x128xf16, #1x1x1x64xf16, #1x1x1x64xf16) -> #1x2x1x128xf16",
    ],
    ["%3"],
)
BODIES = {
    "many terms": weights(1, 4000, 130, turned=True),
    "many columns": weights(1, 128, 5000, turned=True),
    "a ragged end": weights(1, 150, 70, turned=True),
    "two weights": GATED,
    "three weights": THREE,
    "one scale": ONE_SCALE,
    "heads": HEADS,
    "groups": groups(150, 2),
    "groups that are missing": groups(70, 1, missing=40),
    "groups of 16 without zero points": groups(40, 3, 16, missing=10, zero=False),
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


@pytest.mark.parametrize("largest", [1e-3, 60000.0])
def test_sums_of_f16_are_in_range(largest: float) -> None:
    """Elements of the row are small, or nearly as large as f16 has them."""

    def make(rng: np.random.Generator, element: Attribute, shape: Sequence[int]) -> Array:
        if element != f16:
            return random_array(rng, element, shape)
        size = largest if len(shape) == 2 else 1e-3 / largest**0.5  # of the row, and of scales
        return (rng.uniform(0.5, 1.0, shape) * size).astype("f2")

    compare(linear(*groups(70, 1, missing=40)), all_lowered=True, make=make)


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
