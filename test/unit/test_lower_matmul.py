"""Tile programs of matmuls, against the bodies of their kernels."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.options import Options
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.data.arrays import Array
from ge.runtime.device.random_inputs import random_array
from ge.runtime.device.session import Session

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import compare, lowered

Batch: TypeAlias = tuple[list[int], list[int], list[int]]


def text(shapes: list[list[int]], element: str, result: str, flags: str = "") -> str:
    types = ["tensor<" + "x".join(map(str, [*s, ""])) + element + ">" for s in shapes[:2]]
    out = "tensor<" + "x".join(map(str, [*shapes[2], ""])) + result + ">"
    return (
        f"func.func @main(%a: {types[0]}, %b: {types[1]}) -> {out} {{\n"
        f"  %0 = graph.matmul %a, %b {flags} : ({types[0]}, {types[1]}) -> {out}\n"
        f"  func.return %0 : {out}\n}}"
    )


def matmul(
    m: int,
    n: int,
    k: int,
    element: str = "f16",
    batch: Batch = ([], [], []),
    turned: tuple[bool, bool] = (False, False),
) -> str:
    lhs = [*batch[0], k, m] if turned[0] else [*batch[0], m, k]
    rhs = [*batch[1], n, k] if turned[1] else [*batch[1], k, n]
    names = ("transpose_lhs", "transpose_rhs")
    flags = " ".join(f"{f} true" for f, on in zip(names, turned, strict=True) if on)
    result = "i32" if element == "i8" else element
    return text([lhs, rhs, [*batch[2], m, n]], element, result, flags)


BATCHES: list[Batch] = [
    ([], [], []),
    ([3], [3], [3]),
    ([3], [], [3]),
    ([], [2], [2]),
    ([2, 3], [2, 1], [2, 3]),
    ([1, 2], [3, 1], [3, 2]),
    ([2, 2, 2], [2, 1, 2], [2, 2, 2]),
]


@settings(max_examples=settings().max_examples // 3, phases=[Phase.explicit, Phase.generate])
@given(
    st.tuples(*[st.integers(1, 70)] * 3),
    st.sampled_from(["f16", "bf16", "f32", "i8"]),
    st.sampled_from(BATCHES),
    st.tuples(st.booleans(), st.booleans()),
)
def test_all_layouts(
    sizes: tuple[int, int, int],
    element: str,
    batch: Batch,
    turned: tuple[bool, bool],
) -> None:
    compare(matmul(*sizes, element, batch, turned), all_lowered=True)


@pytest.mark.parametrize("sizes", [(1, 700, 300), (130, 70, 1100), (600, 17, 33)])
def test_ragged_ends(sizes: tuple[int, int, int]) -> None:
    compare(matmul(*sizes), all_lowered=True, orders=2)


@pytest.mark.parametrize("target", ["910b2", "310p3"])
@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("rest", ["", "%1 = graph.add %0, %b : ({y}, tensor<96xf32>) -> {y}"])
def test_sums_that_are_not_rounded(element: str, target: str, rest: str) -> None:
    """`to f32`: the result has what the cube adds up, and so has what follows it."""
    if element == "bf16" and target == "310p3":
        pytest.skip("its cube multiplies f16 and i8")
    x, w, y = f"tensor<2x40x64x{element}>", f"tensor<64x96x{element}>", "tensor<2x40x96xf32>"
    compare(
        f"""func.func @main(%x: {x}, %w: {w}, %b: tensor<96xf32>) -> {y} {{
  %0 = graph.matmul %x, %w to f32 : ({x}, {w}) -> {y}
  {rest.format(y=y)}
  func.return %{int(bool(rest))} : {y}
}}""",
        target,
        all_lowered=True,
    )


def test_what_is_not_rounded_is_exact() -> None:
    x = np.random.default_rng(0).standard_normal((9, 40)).astype(np.float16)
    module = parse_module(
        context(),
        SourceText(
            "test",
            """
func.func @main(%x: tensor<9x40xf16>) -> (tensor<9x9xf32>, tensor<9x9xf16>) {
  %0 = graph.matmul %x, %x transpose_rhs true to f32
    : (tensor<9x40xf16>, tensor<9x40xf16>) -> tensor<9x9xf32>
  %1 = graph.matmul %x, %x transpose_rhs true
    : (tensor<9x40xf16>, tensor<9x40xf16>) -> tensor<9x9xf16>
  func.return %0, %1 : tensor<9x9xf32>, tensor<9x9xf16>
}""",
        ),
    )
    wide, narrow = Session(module).run({"arg0": x}).values()
    want = x.astype(np.float32) @ x.astype(np.float32).T
    np.testing.assert_allclose(wide, want, rtol=1e-6)
    assert np.array_equal(narrow, wide.astype(np.float16))
    assert not np.array_equal(narrow, wide)


X, W, B, Y = "40x64xf16", "64x96xf16", "96xf16", "40x96xf16"
X3, Y3, HEADS, TURNED = "2x40x64xf16", "2x40x96xf16", "2x40x3x32xf16", "2x3x40x32xf16"
MATMUL = f"%0 = graph.matmul %x0, %x1 : (#{X}, #{W}) -> #{Y}"
MATMUL3 = f"%0 = graph.matmul %x0, %x1 : (#{X3}, #{W}) -> #{Y3}"
TO_HEADS = [
    f"%2 = graph.reshape %1 shape [2, 40, 3, 32] : (#{Y3}) -> #{HEADS}",
    f"%3 = graph.transpose %2 permutation [0, 2, 1, 3] : (#{HEADS}) -> #{TURNED}",
]
PARTS = ", ".join(["#40x32xf16"] * 3)
BODIES: dict[str, tuple[list[str], list[str], list[str]]] = {
    "relu": ([X, W], [MATMUL, f"%1 = graph.relu %0 : (#{Y}) -> #{Y}"], ["%1"]),
    "bias": ([X, W, B], [MATMUL, f"%1 = graph.add %0, %x2 : (#{Y}, #{B}) -> #{Y}"], ["%1"]),
    "residual, and the sums": (
        [X, W, Y],
        [MATMUL, f"%1 = graph.add %0, %x2 : (#{Y}, #{Y}) -> #{Y}"],
        ["%1", "%0"],
    ),
    "gate": (
        [X, W, W],
        [
            MATMUL,
            f"%1 = graph.silu %0 : (#{Y}) -> #{Y}",
            f"%2 = graph.matmul %x0, %x2 : (#{X}, #{W}) -> #{Y}",
            f"%3 = graph.mul %1, %2 : (#{Y}, #{Y}) -> #{Y}",
        ],
        ["%3"],
    ),
    "two of one input": (
        [X, W, W, B],
        [
            MATMUL,
            f"%1 = graph.matmul %x0, %x2 : (#{X}, #{W}) -> #{Y}",
            f"%2 = graph.add %1, %x3 : (#{Y}, #{B}) -> #{Y}",
        ],
        ["%0", "%2"],
    ),
    "heads": ([X3, W], [MATMUL3.replace("%0", "%1"), *TO_HEADS], ["%3"]),
    "heads with a bias": (
        [X3, W, B],
        [MATMUL3, f"%1 = graph.add %0, %x2 : (#{Y3}, #{B}) -> #{Y3}", *TO_HEADS],
        ["%3"],
    ),
    "heads that are rotated": (
        ["1x40x64xf16", W, "1x1x40x16xf16"],
        [
            f"%0 = graph.matmul %x0, %x1 : (#1x40x64xf16, #{W}) -> #1x{Y}",
            f"%1 = graph.reshape %0 shape [1, 40, 3, 32] : (#1x{Y}) -> #1x40x3x32xf16",
            "%2 = graph.transpose %1 permutation [0, 2, 1, 3] : (#1x40x3x32xf16) -> #1x3x40x32xf16",
            "%3 = graph.rotary_embedding %2, %x2, %x2 : "
            "(#1x3x40x32xf16, #1x1x40x16xf16, #1x1x40x16xf16) -> #1x3x40x32xf16",
        ],
        ["%3"],
    ),
    "rows that become columns": (
        ["2x64x64xf16", W, B, "2x96x2x32xf16"],
        [
            f"%0 = graph.matmul %x0, %x1 : (#2x64x64xf16, #{W}) -> #2x64x96xf16",
            f"%1 = graph.add %0, %x2 : (#2x64x96xf16, #{B}) -> #2x64x96xf16",
            "%2 = graph.transpose %1 permutation [0, 2, 1] : (#2x64x96xf16) -> #2x96x64xf16",
            "%3 = graph.reshape %2 shape [2, 96, 2, 32] : (#2x96x64xf16) -> #2x96x2x32xf16",
            "%4 = graph.add %3, %x3 : (#2x96x2x32xf16, #2x96x2x32xf16) -> #2x96x2x32xf16",
        ],
        ["%4"],
    ),
    "sums that only turn": (
        ["40x64xf16", "64x70xf16"],
        [
            "%0 = graph.matmul %x0, %x1 : (#40x64xf16, #64x70xf16) -> #40x70xf16",
            "%1 = graph.transpose %0 permutation [1, 0] : (#40x70xf16) -> #70x40xf16",
        ],
        ["%1"],
    ),
    "parts": (
        [X, W],
        [MATMUL, f"%1, %2, %3 = graph.split %0 sizes [32, 32, 32] axis 1 : (#{Y}) -> ({PARTS})"],
        ["%1", "%3"],
    ),
    "halves that meet": (
        [X, W],
        [
            MATMUL,
            f"%1, %2 = graph.split %0 sizes [48, 48] axis 1 : (#{Y}) -> (#40x48xf16, #40x48xf16)",
            "%3 = graph.silu %2 : (#40x48xf16) -> #40x48xf16",
            "%4 = graph.mul %1, %3 : (#40x48xf16, #40x48xf16) -> #40x48xf16",
        ],
        ["%4"],
    ),
    "codes to codes": (
        ["33x64xi8", "64x96xi8", "96xi32", "96xf32"],
        [
            "%0 = graph.matmul %x0, %x1 : (#33x64xi8, #64x96xi8) -> #33x96xi32",
            "%1 = graph.add %0, %x2 : (#33x96xi32, #96xi32) -> #33x96xi32",
            "%2 = graph.requantize %1, %x3 to i8 axis 1 rounding float32 low 0 "
            ": (#33x96xi32, #96xf32) -> #33x96xi8",
        ],
        ["%2"],
    ),
    "one row": (
        ["1x64xf16", W, B],
        [
            f"%0 = graph.matmul %x0, %x1 : (#1x64xf16, #{W}) -> #1x96xf16",
            f"%1 = graph.add %0, %x2 : (#1x96xf16, #{B}) -> #1x96xf16",
        ],
        ["%1"],
    ),
    "softmax": (
        ["40x64xf16", "64x70xf16", "70xf16"],
        [
            "%0 = graph.matmul %x0, %x1 : (#40x64xf16, #64x70xf16) -> #40x70xf16",
            "%1 = graph.add %0, %x2 : (#40x70xf16, #70xf16) -> #40x70xf16",
            "%2 = graph.softmax %1 axis 1 : (#40x70xf16) -> #40x70xf16",
        ],
        ["%2"],
    ),
    "softmax of one row": (
        ["1x1x64xf32", "64x8xf32"],
        [
            "%0 = graph.matmul %x0, %x1 : (#1x1x64xf32, #64x8xf32) -> #1x1x8xf32",
            "%1 = graph.softmax %0 axis 2 : (#1x1x8xf32) -> #1x1x8xf32",
        ],
        ["%1"],
    ),
    "norm": (
        ["2x20x64xf16", "64x96xf16", "2x20x96xf16", "96xf16"],
        [
            "%0 = graph.matmul %x0, %x1 : (#2x20x64xf16, #64x96xf16) -> #2x20x96xf16",
            "%1 = graph.add %0, %x2 : (#2x20x96xf16, #2x20x96xf16) -> #2x20x96xf16",
            "%2 = graph.layer_norm %1, %x3, %x3 axis 2 : "
            "(#2x20x96xf16, #96xf16, #96xf16) -> #2x20x96xf16",
        ],
        ["%2", "%1"],
    ),
    "one row of each": (
        ["5x1x64xf16", "5x64x96xf16"],
        [
            "%0 = graph.matmul %x0, %x1 : (#5x1x64xf16, #5x64x96xf16) -> #5x1x96xf16",
            "%1 = graph.reshape %0 shape [5, 96] : (#5x1x96xf16) -> #5x96xf16",
            "%2, %3 = graph.split %1 sizes [48, 48] axis 1 : (#5x96xf16) -> (#5x48xf16, #5x48xf16)",
        ],
        ["%2", "%3"],
    ),
    "codes": (
        ["33x64xi8", "64x96xi8", "96xf32"],
        [
            "%0 = graph.matmul %x0, %x1 : (#33x64xi8, #64x96xi8) -> #33x96xi32",
            "%1 = graph.cast %0 to f32 : (#33x96xi32) -> #33x96xf32",
            "%2 = graph.mul %1, %x2 : (#33x96xf32, #96xf32) -> #33x96xf32",
            "%3 = graph.cast %2 to f16 : (#33x96xf32) -> #33x96xf16",
        ],
        ["%3"],
    ),
}


def linear(
    inputs: list[str], body: list[str], results: list[str], kind: str = "linear"
) -> ModuleOp:
    """A launch of matmuls and what follows them; `#8x8xf16` stands for a tensor's type."""
    arguments = [", ".join(f"%{n}{i}: #{t}" for i, t in enumerate(inputs)) for n in "ax"]
    types = [types_of(line, r) for r in results for line in body if r in line.split("=")[0]]
    names = [f"%r#{i}" for i in range(len(results))] if len(results) > 1 else ["%r"]
    both, outs = ", ".join(types), ", ".join(names)
    text = (
        f"func.func @main({arguments[0]}) -> ({both}) {{\n"
        f"%r{f':{len(results)}' if len(results) > 1 else ''} = fused_op.{kind}("
        f"{', '.join(f'%a{i}' for i in range(len(inputs)))}) : "
        f"({', '.join('#' + t for t in inputs)}) -> ({both}) {{\n^bb0({arguments[1]}):\n"
        + "\n".join(body)
        + f"\nfused_op.yield {', '.join(results)} : {both}\n}}\n"
        f"func.return {outs} : {both}\n}}"
    )
    text = re.sub(r"#(?=\d+x)([\dx]*\w+)", r"tensor<\1>", text)
    module = parse_module(context(), SourceText("test", text))
    lower(module, Options(target="910b2"), until=Level.TASKS)
    return module


def types_of(line: str, result: str) -> str:
    """The type of one of an op's results."""
    names = line.split(" = ")[0].split(", ")
    return line.split(" -> ")[-1].strip("()").split(", ")[names.index(result)]


def test_the_last_part_of_a_product_whose_blocks_are_known() -> None:
    """Where a block begins is a number then, and no arithmetic of the core's."""
    body = [
        "%0 = graph.matmul %x0, %x1 : (#8x5x4xf32, #4x6xf32) -> #8x5x6xf32",
        "%1, %2, %3 = graph.split %0 axis -1 "
        ": (#8x5x6xf32) -> (#8x5x2xf32, #8x5x2xf32, #8x5x2xf32)",
        "%4 = graph.reshape %3 shape [8, 5, 1, 2] : (#8x5x2xf32) -> #8x5x1x2xf32",
        "%5 = graph.transpose %4 permutation [0, 2, 1, 3] : (#8x5x1x2xf32) -> #8x1x5x2xf32",
        "%6 = graph.sign %5 : (#8x1x5x2xf32) -> #8x1x5x2xf32",
    ]
    compare(linear(["8x5x4xf32", "4x6xf32"], body, ["%6"]), "310p3", all_lowered=True)


@pytest.mark.parametrize("name", BODIES)
def test_what_follows_matmuls(name: str) -> None:
    compare(linear(*BODIES[name]), all_lowered=True, orders=1)


@pytest.mark.parametrize(
    "line",
    [
        "%0 = graph.quantize %a0, %a1, %a2 to i8 : (#33x96xf32, #f32, #i8) -> #33x96xi8",
        "%0 = graph.dequantize %a0, %a1, %a2 : (#33x96xi8, #f32, #i8) -> #33x96xf32",
        "%0 = graph.dequantize %a0, %a1 axis 0 : (#33x96xi8, #33xf32) -> #33x96xf32",
        "%0 = graph.dequantize %a0, %a1, %a2 axis 1 : (#33x96xi8, #96xf32, #96xi8) -> #33x96xf32",
        "%0 = graph.dequantize %a0, %a1, %a2 axis 0 block_size 32"
        " : (#64x8xi4, #2x8xf16, #2x8xi4) -> #64x8xf16",
        "%0 = graph.dequantize %a0, %a1, %a2 axis 1 block_size 32"
        " : (#16x256xi4, #16x8xf16, #16x8xi4) -> #16x256xf16",
    ],
)
def test_integers_on_a_grid(line: str) -> None:
    inputs, result = re.findall(r"#\S+?(?=[,)]|$)", line)[:-1], line.split("-> ")[1]
    arguments = ", ".join(f"%a{i}: {t}" for i, t in enumerate(inputs))
    text = f"func.func @main({arguments}) -> {result} {{\n{line}\nfunc.return %0 : {result}\n}}"
    compare(re.sub(r"#([\dx]*\w+)", r"tensor<\1>", text), all_lowered=True, make=small)


@pytest.mark.parametrize(("rows", "depth"), [(8, 64), (24, 64), (250, 70)])
@pytest.mark.parametrize("target", ["910b2", "310p3"])
def test_rows_that_are_quantized_before_a_product(rows: int, depth: int, target: str) -> None:
    """What stands behind the last row, or the last column, is an integer 0."""
    x, q, w, y = f"{rows}x{depth}xf32", f"{rows}x{depth}xi8", f"{depth}x32xi8", f"{rows}x32xi32"
    text = f"""
func.func @main(%x: tensor<{x}>, %s: tensor<f32>, %z: tensor<i8>, %w: tensor<{w}>) -> tensor<{y}> {{
  %0 = fused_op.linear(%x, %s, %z, %w)
      : (tensor<{x}>, tensor<f32>, tensor<i8>, tensor<{w}>) -> tensor<{y}> {{
  ^bb0(%a: tensor<{x}>, %b: tensor<f32>, %c: tensor<i8>, %d: tensor<{w}>):
    %1 = graph.quantize %a, %b, %c to i8 : (tensor<{x}>, tensor<f32>, tensor<i8>) -> tensor<{q}>
    %2 = graph.matmul %1, %d : (tensor<{q}>, tensor<{w}>) -> tensor<{y}>
    fused_op.yield %2 : tensor<{y}>
  }}
  func.return %0 : tensor<{y}>
}}"""
    compare(text, target, all_lowered=True, exact=True, make=small)


def small(rng: np.random.Generator, element: Attribute, shape: Sequence[int]) -> Array:
    """Scales are small numbers above 0."""
    array = random_array(rng, element, shape)
    is_scale = len(shape) < 2 and array.dtype == np.float32
    return (np.abs(array) * 0.02 + 0.01).astype(np.float32) if is_scale else array


@pytest.mark.parametrize("name", ["relu", "heads", "parts", "two of one input"])
def test_sums_that_only_move_do_not_pass_the_vector_core(name: str) -> None:
    inputs, body, results = BODIES[name]
    if name == "two of one input":
        inputs, body, results = inputs[:3], body[:2], ["%0", "%1"]
    assert lowered(linear(inputs, body, results)).pairs[0][1].vector is None


def test_rows_of_an_output_are_more_than_those_of_a_block() -> None:
    body = [
        "%0 = graph.matmul %x0, %x1 : (#2x512x64xf16, #64x32xf16) -> #2x512x32xf16",
        "%1 = graph.reshape %0 shape [2, 512, 2, 16] : (#2x512x32xf16) -> #2x512x2x16xf16",
        "%2 = graph.transpose %1 permutation [0, 2, 1, 3] : (#2x512x2x16xf16) -> #2x2x512x16xf16",
    ]
    compare(linear(["2x512x64xf16", "64x32xf16"], body, ["%2"]), all_lowered=True)


def test_softmax_of_parts_of_rows_is_not_lowered() -> None:
    parts = "40x3x32xf16"
    body = [
        MATMUL,
        f"%1 = graph.reshape %0 shape [40, 3, 32] : (#{Y}) -> #{parts}",
        f"%2 = graph.softmax %1 axis 2 : (#{parts}) -> #{parts}",
    ]
    result = lowered(linear([X, W], body, ["%2"]))
    assert "rows of tensor<40x3x32xf32> are none of the matmul" in str(result.reasons)


def test_steps_of_l1_load_while_the_cube_works() -> None:
    """Long sums take hardly longer than the busiest pipe of a core."""
    result = lowered(matmul(1024, 1024, 4096))
    time = TileKernel(result.pairs[0][1], result.target).time()
    assert time.cores == result.target.cube_cores
    assert time.core_us < 1.1 * max(p.busy_us for p in time.pipes)


@pytest.mark.parametrize("target", ["910b2", "310p3"])
@pytest.mark.parametrize(
    ("element", "flags"),
    [("i32", ""), ("i64", "transpose_lhs true"), ("f64", "transpose_rhs true"),
     ("i64", "transpose_lhs true transpose_rhs true")],
)  # fmt: skip
def test_what_the_cube_does_not_multiply(target: str, element: str, flags: str) -> None:
    """Sums of products, on the vector cores."""
    a, b = ("x".join(s if f"{n} true" not in flags else s[::-1])
            for s, n in (("57", "transpose_lhs"), ("79", "transpose_rhs")))  # fmt: skip
    x, y, z = (f"tensor<{shape}x{element}>" for shape in (f"3x{a}", b, "3x5x9"))
    module = f"""
func.func @main(%x: {x}, %y: {y}) -> {z} {{
  %0 = graph.matmul %x, %y {flags} : ({x}, {y}) -> {z}
  func.return %0 : {z}
}}"""
    compare(module, target, all_lowered=True)


@pytest.mark.parametrize("target", ["910b2", "310p3"])
def test_sums_with_relu_beside_sums_without(target: str) -> None:
    x, out = "tensor<2x8x20xf16>", "tensor<2x20x3xf16>"
    text = f"""
func.func @main(%x: {x}, %w: tensor<8x3xf16>) -> ({out}, {out}) {{
  %0 = graph.matmul %x, %w transpose_lhs true : ({x}, tensor<8x3xf16>) -> {out}
  %1 = graph.relu %0 : ({out}) -> {out}
  func.return %0, %1 : {out}, {out}
}}"""
    compare(text, target, all_lowered=True, orders=1)
