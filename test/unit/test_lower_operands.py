"""Matmuls whose operands the vector cores compute, against the bodies of their kernels."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from test_lower_matmul import linear
from tile_lowering import compare

Body = tuple[list[str], list[str], list[str]]


def weights(
    m: int,
    k: int,
    n: int,
    codes: str = "i8",
    turned: bool = False,
    block: int = 0,
    zero: bool = False,
) -> Body:
    """A matmul by dequantized weights."""
    shape, axis = ([n, k], 0) if turned else ([k, n], 1)
    scales = [n]
    if block:
        axis = 1 - axis
        scales = [-(-d // block) if i == axis else d for i, d in enumerate(shape)]
    w, s = ("x".join(map(str, d)) for d in (shape, scales))
    inputs = [f"{m}x{k}xf16", f"{w}x{codes}", f"{s}xf16"] + [f"{s}x{codes}"] * zero
    types = ", ".join("#" + t for t in inputs[1:])
    values = ", ".join(f"%x{i}" for i in range(1, len(inputs)))
    at = f"axis {axis}" + f" block_size {block}" * bool(block)
    flags = " transpose_rhs true" if turned else ""
    body = [
        f"%0 = graph.dequantize {values} {at} : ({types}) -> #{w}xf16",
        f"%1 = graph.matmul %x0, %0{flags} : (#{m}x{k}xf16, #{w}xf16) -> #{m}x{n}xf16",
    ]
    return inputs, body, ["%1"]


BODIES: dict[str, Body] = {
    "weights of 8 bits": weights(40, 64, 96),
    "one row": weights(1, 200, 96),
    "a ragged end": weights(33, 150, 70),
    "turned": weights(33, 160, 70, turned=True),
    "turned and ragged": weights(5, 150, 70, turned=True),
    "weights of 4 bits": weights(40, 128, 96, "i4", block=32, zero=True),
    "zero points": weights(20, 64, 64, zero=True),
    "small blocks": weights(20, 64, 64, block=16),
    "two weights": (
        ["1x40x64xf16", "64x96xi8", "96xf16", "64x96xi8"],
        [
            "%0 = graph.dequantize %x1, %x2 axis 1 : (#64x96xi8, #96xf16) -> #64x96xf16",
            "%1 = graph.dequantize %x3, %x2 axis 1 : (#64x96xi8, #96xf16) -> #64x96xf16",
            "%2 = graph.matmul %x0, %0 : (#1x40x64xf16, #64x96xf16) -> #1x40x96xf16",
            "%3 = graph.matmul %x0, %1 : (#1x40x64xf16, #64x96xf16) -> #1x40x96xf16",
            "%4 = graph.silu %2 : (#1x40x96xf16) -> #1x40x96xf16",
            "%5 = graph.mul %4, %3 : (#1x40x96xf16, #1x40x96xf16) -> #1x40x96xf16",
        ],
        ["%5"],
    ),
    "an input in codes": (
        ["40x64xf32", "1xf32", "64x96xi8", "96xf32"],
        [
            "%0 = graph.quantize %x0, %x1 to i8 : (#40x64xf32, #1xf32) -> #40x64xi8",
            "%1 = graph.matmul %0, %x2 : (#40x64xi8, #64x96xi8) -> #40x96xi32",
            "%2 = graph.dequantize %1, %x3 axis 1 : (#40x96xi32, #96xf32) -> #40x96xf32",
        ],
        ["%2"],
    ),
    "inputs that are rounded": (
        ["2x20x50xf32", "2x50x96xf32"],
        [
            "%0 = graph.cast %x0 to f16 : (#2x20x50xf32) -> #2x20x50xf16",
            "%1 = graph.cast %x1 to f16 : (#2x50x96xf32) -> #2x50x96xf16",
            "%2 = graph.matmul %0, %1 : (#2x20x50xf16, #2x50x96xf16) -> #2x20x96xf16",
            "%3 = graph.relu %2 : (#2x20x96xf16) -> #2x20x96xf16",
        ],
        ["%3"],
    ),
    "views of inputs": (
        ["1x40x1x64xf16", "96x64xf16"],
        [
            "%0 = graph.reshape %x0 shape [40, 64] : (#1x40x1x64xf16) -> #40x64xf16",
            "%1 = graph.transpose %x1 permutation [1, 0] : (#96x64xf16) -> #64x96xf16",
            "%2 = graph.matmul %0, %1 : (#40x64xf16, #64x96xf16) -> #40x96xf16",
        ],
        ["%2"],
    ),
    "its own input behind it": (
        ["2x40x64xf16", "64x64xf16"],
        [
            "%0 = graph.matmul %x0, %x1 : (#2x40x64xf16, #64x64xf16) -> #2x40x64xf16",
            "%1 = graph.add %0, %x0 : (#2x40x64xf16, #2x40x64xf16) -> #2x40x64xf16",
        ],
        ["%1"],
    ),
}


def test_blocks_of_scales_without_a_matmul() -> None:
    compare(
        "func.func @main(%x: tensor<100x64xi4>, %s: tensor<4x64xf16>) -> tensor<100x64xf32> {\n"
        "%0 = graph.dequantize %x, %s to f32 axis 0 block_size 32 : "
        "(tensor<100x64xi4>, tensor<4x64xf16>) -> tensor<100x64xf32>\n"
        "func.return %0 : tensor<100x64xf32>\n}",
        all_lowered=True,
        exact=True,
    )


@pytest.mark.parametrize("name", BODIES)
def test_computed_operands(name: str) -> None:
    compare(linear(*BODIES[name]), all_lowered=True, orders=1)
