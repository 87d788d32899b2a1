"""Kernels that move elements, by their bodies and by their tile programs: bit for bit, proved."""

import sys
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import Shape
from ge.dialects.tile.buffers import AllocOp
from ge.dialects.tile.transfers import LoadOp
from ge.dialects.tile.types import tile_type
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.device.interpreter import KernelCode
from ge.runtime.device.random_inputs import random_array
from ge.runtime.device.tiled import TiledCode
from ge.runtime.library import moves
from ge.transforms.tiles import tile_flags

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import compare, lowered

FEW = settings(max_examples=settings().max_examples // 8, derandomize=True)
TYPES = st.sampled_from(["f32", "f16", "i8", "i64", "i1"])


def program(types: Sequence[str], *ops: str) -> str:
    """A function with arguments %a, %b, ... of all types but the last one, which is that of its
    result %r. An op is `%r = name operands : source types -> type`."""
    args = ", ".join(f"%{n}: tensor<{t}>" for n, t in zip("abcdef", types[:-1], strict=False))
    lines: list[str] = []
    for op in ops:
        head, _, rest = op.partition(" : ")
        sources, _, target = rest.partition(" -> ")
        operands = [f"tensor<{t}>" for t in sources.split(", ")]
        source = f"({', '.join(operands)})"
        name, _, text = head.partition(" = ")
        lines.append(f"{name} = graph.{text} : {source} -> tensor<{target}>")
    result = f"tensor<{types[-1]}>"
    body = "\n".join(lines)
    return f"func.func @main({args}) -> {result} {{\n{body}\nreturn %r : {result}\n}}"


def unary(op: str, source: str, target: str) -> str:
    return program([source, target], f"%r = {op} : {source} -> {target}")


def named(shape: Shape, element: str) -> str:
    return "x".join(map(str, (*shape, element)))


CASES = {
    "matrix": unary("transpose %a permutation [1, 0]", "50x70xf32", "70x50xf32"),
    "thin": unary("transpose %a permutation [1, 0]", "33x9xf16", "9x33xf16"),
    "heads": unary("transpose %a permutation [0, 2, 1, 3]", "2x30x4x16xf16", "2x4x30x16xf16"),
    "channels last": unary("transpose %a permutation [0, 2, 3, 1]", "2x20x9x7xi8", "2x9x7x20xi8"),
    "slice": unary("slice %a starts [1, 3] ends [41, 90]", "50x99xf32", "40x87xf32"),
    "steps": unary("slice %a starts [3] ends [99] axes [1] steps [2]", "5x99xf16", "5x48xf16"),
    "pad": unary("pad %a pads [2, 3, 1, 4]", "30x50xf32", "33x57xf32"),
    "pad away": unary("pad %a pads [1, -3, 1, 4]", "30x50xf32", "32x51xf32"),
    "broadcast": unary("broadcast_to %a shape [4, 30, 50]", "30x1xf32", "4x30x50xf32"),
    "one element": unary("broadcast_to %a shape [3]", "1xf16", "3xf16"),
    "a scalar": program(
        ["9x6xf32", "i64", "9xf32"], "%r = gather %a, %b axis 1 : 9x6xf32, i64 -> 9xf32"
    ),
    "tile": unary("tile %a repeats [2, 3]", "5x70xf32", "10x210xf32"),
    "resize": unary("resize %a sizes [2, 3, 14, 18]", "2x3x7x6xf32", "2x3x14x18xf32"),
    "concat rows": program(
        ["3x5x40xf32", "3x9x40xf32", "3x14x40xf32"],
        "%r = concat %a, %b axis 1 : 3x5x40xf32, 3x9x40xf32 -> 3x14x40xf32",
    ),
    "concat short columns": program(
        ["30x5xf32", "30x39xf32", "30x49xf32"],
        "%r = concat %a, %b, %a axis 1 : 30x5xf32, 30x39xf32, 30x5xf32 -> 30x49xf32",
    ),
    "concat columns": program(
        ["2x60x32xf16", "2x60x64xf16", "2x60x96xf16"],
        "%r = concat %a, %b axis 2 : 2x60x32xf16, 2x60x64xf16 -> 2x60x96xf16",
    ),
    "of a concatenation": program(
        ["3x5x40xf32", "3x9x40xf32", "14xf32", "3x40x14xf32"],
        "%0 = concat %a, %b axis 1 : 3x5x40xf32, 3x9x40xf32 -> 3x14x40xf32",
        "%1 = transpose %0 permutation [0, 2, 1] : 3x14x40xf32 -> 3x40x14xf32",
        "%r = add %1, %c : 3x40x14xf32, 14xf32 -> 3x40x14xf32",
    ),
    "views at both ends": program(
        ["60x64xf16", "8x30x16xf16"],
        "%0 = reshape %a shape [2, 30, 4, 16] : 60x64xf16 -> 2x30x4x16xf16",
        "%1 = transpose %0 permutation [0, 2, 1, 3] : 2x30x4x16xf16 -> 2x4x30x16xf16",
        "%r = reshape %1 shape [8, 30, 16] : 2x4x30x16xf16 -> 8x30x16xf16",
    ),
    "transposes of a sum": program(
        ["40x30xf32", "30xf32", "30x40xf32"],
        "%0 = add %a, %b : 40x30xf32, 30xf32 -> 40x30xf32",
        "%r = transpose %0 permutation [1, 0] : 40x30xf32 -> 30x40xf32",
    ),
    "halves that change places": program(
        ["20x64xf32", "20x64xf32"],
        "%0 = slice %a starts [32] ends [64] axes [1] : 20x64xf32 -> 20x32xf32",
        "%1 = slice %a starts [0] ends [32] axes [1] : 20x64xf32 -> 20x32xf32",
        "%2 = mul %0, %0 : 20x32xf32, 20x32xf32 -> 20x32xf32",
        "%r = concat %2, %1 axis 1 : 20x32xf32, 20x32xf32 -> 20x64xf32",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_moves(name: str):
    compare(CASES[name], all_lowered=True, exact=True)


GATHER = program(
    ["90x72xf32", "4x7xi64", "7x72xf32", "4x7x72xf32"],
    "%0 = gather %a, %b axis 0 : 90x72xf32, 4x7xi64 -> 4x7x72xf32",
    "%r = add %0, %c : 4x7x72xf32, 7x72xf32 -> 4x7x72xf32",
)


MASK = """func.func @main(%a: tensor<2x20xi64>, %b: tensor<2x1x1x50x2xi64>, %c: tensor<1x1x30x1xi1>,
    %d: tensor<f32>) -> tensor<2x1x30x50xf32> {
%0 = graph.constant dense<-1.0> : tensor<f32>
%1 = graph.cast %a to i1 : (tensor<2x20xi64>) -> tensor<2x20xi1>
%2 = graph.gather_nd %1, %b : (tensor<2x20xi1>, tensor<2x1x1x50x2xi64>) -> tensor<2x1x1x50xi1>
%3 = graph.and %c, %2 : (tensor<1x1x30x1xi1>, tensor<2x1x1x50xi1>) -> tensor<2x1x30x50xi1>
%r = graph.select %3, %d, %0 : (tensor<2x1x30x50xi1>, tensor<f32>, tensor<f32>)
    -> tensor<2x1x30x50xf32>
return %r : tensor<2x1x30x50xf32>
}"""


def test_elements_at_indices():
    def make(rng: np.random.Generator, element: Attribute, shape: Sequence[int]) -> Array:
        if len(shape) == 5:
            return rng.integers(-2, 2, tuple(shape))
        return rng.integers(0, 2, tuple(shape)).astype(dtype_of(element))

    compare(MASK, all_lowered=True, exact=True, make=make)


def test_rows_at_indices_count_from_the_end_where_they_are_negative():
    def make(rng: np.random.Generator, element: Attribute, shape: Sequence[int]) -> Array:
        if str(element) == "i64":
            return rng.integers(-90, 90, tuple(shape))
        return random_array(rng, element, shape)

    compare(GATHER, all_lowered=True, exact=True, make=make)


@pytest.mark.parametrize(
    ("shape", "indices", "axis"),
    [
        pytest.param((40, 30), (40, 3), 1, marks=pytest.mark.soak),
        ((40, 30), (7, 30), 0),
        ((3, 50, 20), (2, 4, 20), 1),
        ((70,), (9,), 0),
    ],
)
def test_elements_along_an_axis(shape: Shape, indices: Shape, axis: int):
    types = [named(shape, "f16"), named(indices, "i64"), named(indices, "f16")]
    line = f"%r = gather_elements %a, %b axis {axis} : {types[0]}, {types[1]} -> {types[2]}"

    def make(rng: np.random.Generator, element: Attribute, size: Sequence[int]) -> Array:
        if str(element) == "i64":
            return rng.integers(-shape[axis], shape[axis], tuple(size))
        return random_array(rng, element, size)

    compare(program(types, line), all_lowered=True, exact=True, make=make, orders=1)


@pytest.mark.parametrize(
    ("number", "element"),
    [("-0.0", "f32"), ("0x7C00", "f16"), ("2.5", "bf16"), ("-7", "i64"), ("3", "i8")],
)
@pytest.mark.parametrize("shape", [(70001,), (700, 901), (17, 130, 501)])
def test_one_number_everywhere(number: str, element: str, shape: Shape) -> None:
    kind = f"tensor<{named(shape, element)}>"
    text = (
        f"func.func @main() -> {kind} {{\n%r = graph.fill {number} : {element} "
        f"shape {[*shape]} : () -> {kind}\nreturn %r : {kind}\n}}"
    )
    compare(text, all_lowered=True, exact=True, orders=1)


@pytest.mark.parametrize(("axes", "rest"), [([0, 1], ()), ([1], (3,)), ([0], (1,))])
def test_sums_of_elements_that_keep_no_dimension(axes: list[int], rest: Shape) -> None:
    """Their boxes have fewer dimensions than what is added up."""
    result = named(rest, "f32")
    text = program(
        ["3x5xf32", "3x1xi64", "3x1xf32", result],
        "%0 = gather_elements %a, %b axis 1 : 3x5xf32, 3x1xi64 -> 3x1xf32",
        "%1 = mul %0, %c : 3x1xf32, 3x1xf32 -> 3x1xf32",
        f"%2 = reduce sum %1 axes {axes} keep_dims false : 3x1xf32 -> {result}",
        f"%r = mul %2, %2 : {result}, {result} -> {result}",
    )

    def make(rng: np.random.Generator, element: Attribute, size: Sequence[int]) -> Array:
        if str(element) == "i64":
            return rng.integers(-5, 5, tuple(size))
        return random_array(rng, element, size)

    compare(text, all_lowered=True, make=make, orders=1)


def test_what_has_no_program_says_why(monkeypatch: pytest.MonkeyPatch):
    edge = unary("pad %a pads [0, 90, 0, 4] mode edge", "30x50xf32", "30x144xf32")
    (reason,) = lowered(edge).reasons
    assert "95 parts are set side by side, more than 64" in reason
    columns = program(
        ["9x90xf32", "500xi64", "9x500xf32"],
        "%r = gather %a, %b axis 1 : 9x90xf32, 500xi64 -> 9x500xf32",
    )
    monkeypatch.setattr("ge.runtime.library.moves.MOST_SINGLE", 400)
    (reason,) = lowered(columns).reasons
    assert "elements at indices would be moved one by one" in reason


@FEW
@given(shape=st.lists(st.integers(1, 40), min_size=2, max_size=4), element=TYPES, data=st.data())
def test_transposes_of_any_shape(shape: list[int], element: str, data: st.DataObject):
    order = data.draw(st.permutations(range(len(shape))))
    target = named(tuple(shape[i] for i in order), element)
    text = unary(f"transpose %a permutation {order}", named(tuple(shape), element), target)
    if any(k > 1 for k in shape) and list(order) != sorted(order):
        result = lowered(text)
        assert not result.reasons
        if result.pairs:
            compare(result, exact=True)


@FEW
@given(
    sizes=st.lists(st.integers(1, 70), min_size=2, max_size=3),
    others=st.tuples(st.integers(1, 9), st.integers(1, 33)),
    axis=st.integers(0, 2),
    element=TYPES,
)
def test_concatenations_of_any_sizes(
    sizes: list[int], others: tuple[int, int], axis: int, element: str
):
    shapes = [(*others[:axis], n, *others[axis:]) for n in (*sizes, sum(sizes))]
    types = [named(s, element) for s in shapes]
    operands = ", ".join(f"%{n}" for n in "abc"[: len(sizes)])
    op = f"%r = concat {operands} axis {axis} : {', '.join(types[:-1])} -> {types[-1]}"
    compare(program(types, op), exact=True, all_lowered=True)


def joined(count: int) -> str:
    """Values one after the other, with an op on all of them."""
    types = [f"tensor<2x{3 + i % 4}x40xf32>" for i in range(count)]
    channels = sum(3 + i % 4 for i in range(count))
    result = f"tensor<2x{channels}x40xf32>"
    args = ", ".join(f"%x{i}: {t}" for i, t in enumerate(types))
    names = ", ".join(f"%x{i}" for i in range(count))
    return f"""func.func @main({args}) -> {result} {{
      %0 = graph.concat {names} axis 1 : ({", ".join(types)}) -> {result}
      %1 = graph.relu %0 : ({result}) -> {result}
      func.return %1 : {result} }}"""


def test_many_pieces_are_written_in_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many values there are: where boxes stand is found out once, pieces have the same
    buffers one after the other, and flags are shared in a few rounds."""
    reaches, rounds = list[Any](), list[Any]()

    class Counted(moves.Reach):
        def __init__(self, *args: Any) -> None:
            reaches.append(args)
            super().__init__(*args)

    units_of = tile_flags.units_of
    monkeypatch.setattr(moves, "Reach", Counted)
    monkeypatch.setattr(tile_flags, "units_of", lambda *a: rounds.append(a) or units_of(*a))
    found = compare(joined(60), all_lowered=True, exact=True, orders=2)
    program = found.pairs[0][1]
    assert len(reaches) == 1  # of the launch with the relu: two take longer, by their bounds
    assert len(rounds) < 12
    buffers = [op for op in program.walk() if isinstance(op, AllocOp)]
    assert len(buffers) == 2 * 4  # to load and to store, of each shape


@pytest.mark.parametrize("shape", [(2, 128, 4096), (512, 1024), (1000, 1001)])
def test_boxes_of_transpositions_are_alike(shape: Shape) -> None:
    """Also the last ones along a dimension are nearly full: 128 rows in boxes of 112 were 16 in the
    second one, and took 1.9 times as long as their bytes."""
    *parts, rows, cols = shape
    types = [f"tensor<{'x'.join(map(str, s))}xf32>" for s in (shape, (*parts, cols, rows))]
    order = [*range(len(parts)), len(parts) + 1, len(parts)]
    line = f"%r = graph.transpose %x permutation {order} : ({types[0]}) -> {types[1]}"
    text = f"func.func @main(%x: {types[0]}) -> {types[1]} {{\n{line}\nreturn %r : {types[1]}\n}}"
    ((_, program),) = lowered(text).pairs
    (load,) = (op for op in program.walk() if isinstance(op, LoadOp))
    high, wide = tile_type(load.target).shape
    assert ceil(rows / high) * high * ceil(cols / wide) * wide < 1.2 * rows * cols


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    "text",
    [
        "gather %a, %b axis 0 : {n}x8xf16, 4xi64 -> 4x8xf16",
        "gather_nd %a, %b : {n}x8xf16, 4x1xi64 -> 4x8xf16",
        "gather_elements %a, %b axis 0 : {n}x8xf16, 4x8xi64 -> 4x8xf16",
        "gather_elements %a, %b axis 1 : 4x{n}xf16, 4x5xi64 -> 4x5xf16",
        "grouped_matmul %a, %c groups %b : 4x8xf16, {n}x8x8xf16, 4xi64 -> 4x4x8xf16",
        "scatter_nd %a, %b, %c : {n}x8xf16, 4x1xi64, 4x8xf16 -> {n}x8xf16",
    ],
)
def test_indices_of_nothing_are_refused(text: str, count: int) -> None:
    """Also where there is one element, row or matrix, so that an index decides nothing, and where
    a tile has padding behind the last one."""
    op, _, types = f"%r = {text.format(n=count)}".partition(" : ")
    first, *others, last = types.replace(" -> ", ", ").split(", ")
    others.sort(key=lambda t: "i64" not in t)  # %b has the indices
    module = program([first, *others, last], f"{op} : {types}")

    def make(rng: np.random.Generator, element: Attribute, shape: Sequence[int]) -> Array:
        return np.full(shape, index) if element == i64 else random_array(rng, element, shape)

    result = lowered(module, fusion="off")  # else gathers of one row are no gathers
    ((kernel, tiles),) = result.pairs
    code = KernelCode(kernel, {})
    for index in (-count - 1, count):
        inputs = [make(np.random.default_rng(0), *data_type(t)) for t in kernel.input_types]
        for way in (code, TiledCode(kernel, TileKernel(tiles, result.target), {})):
            with pytest.raises(GeError, match=f"{index}|are gathered of"):
                way.run(inputs, [None])
    index = count - 1
    compare(result, all_lowered=True, exact="matmul" not in text, make=make)
