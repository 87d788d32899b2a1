"""Tile programs of attention compute what the kernels' bodies do."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import f16
from xdsl.ir import Attribute

from ge.dialects.targets.target import Target
from ge.dialects.tile.buffers import ViewOp
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.data.arrays import Array
from ge.runtime.library.attention import attention as attention_lowering
from ge.runtime.library.attention import tiles as attention_tiles
from ge.runtime.library.attention.tiles import AttentionProblem, AttentionTiles, candidates

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import Lowered, compare, lowered


@pytest.fixture(autouse=True, scope="module")
def tiles_are_found_anew() -> Iterator[None]:
    """What they follow from changes in tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_lowering, "tiles_for", attention_tiles.tiles_for.__wrapped__)
        yield


def attention(
    q: list[int],
    k: list[int],
    v: list[int],
    dtype: str = "f16",
    flags: str = "",
    masks: tuple[str, ...] = (),
    first: tuple[str, ...] = (),
) -> str:
    """Attention of operands whose heads come before tokens, but for those in `first`."""

    def tensor(name: str, shape: list[int]) -> str:
        b, h, t, e = shape
        sizes = [b, t, h, e] if name in first else shape
        return f"tensor<{'x'.join(map(str, sizes))}x{dtype}>"

    shapes = {"query": q, "key": k, "value": v, "result": [*q[:3], v[3]]}
    tq, tk, tv, to = (tensor(n, s) for n, s in shapes.items())
    options = " ".join([*(f"{n}_tokens_first true" for n in first), flags])
    given = "".join(f", %m{i}: {t}" for i, t in enumerate(masks))
    added = f"mask {', '.join(f'%m{i}' for i in range(len(masks)))}"
    return f"""func.func @main(%q: {tq}, %k: {tk}, %v: {tv}{given}) -> {to} {{
      %r = graph.attention %q, %k, %v {added if masks else ""} {options}
        : ({", ".join((tq, tk, tv, *masks))}) -> {to}
      func.return %r : {to}
    }}"""


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that short keys are several tiles."""
    monkeypatch.setattr(attention_tiles, "ROWS", (32, 16))
    monkeypatch.setattr(attention_tiles, "KEYS", (32, 16))


NAMES = ("query", "key", "value", "result")
FLAGS = (
    *("", "causal true", "causal true offset 9", "softcap 3.0", "scale -0.5"),
    *(
        "left_window 20",
        "left_window 7 right_window 9 offset 5",
        "causal true offset -7",
    ),
)


@settings(max_examples=3, deadline=None, derandomize=True)
@given(
    st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(1, 2)),  # batch, key heads, group
    st.tuples(st.integers(1, 24), st.integers(1, 60), st.integers(1, 40), st.integers(1, 40)),
    st.sampled_from(("f16", "bf16", "f32")),
    st.sampled_from(FLAGS),
    st.sets(st.sampled_from(NAMES)),
    st.sampled_from((16, 512)),
)
def test_attention_of_all_shapes(
    heads: tuple[int, int, int],
    sizes: tuple[int, int, int, int],
    dtype: str,
    flags: str,
    first: set[str],
    most: int,
) -> None:
    (b, h, g), (queries, keys, size, value) = heads, sizes
    shapes = [b, h * g, queries, size], [b, h, keys, size], [b, h, keys, value]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_tiles, "KEYS", (most, 16))
        compare(attention(*shapes, dtype, flags, (), tuple(first)), all_lowered=True)


MASKS = ("2x2x20x40xf16", "20x1xf32", "20x40xi1")
MORE_MASKS = ("20x40xf32", "2x1x1x40xf16", "1xf16")


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize(
    "mask", [*MASKS, *(pytest.param(m, marks=pytest.mark.soak) for m in MORE_MASKS)]
)
def test_masks_are_added(mask: str) -> None:
    shapes = [2, 2, 20, 16], [2, 2, 40, 16], [2, 2, 40, 8]
    compare(attention(*shapes, "f16", "causal true", (f"tensor<{mask}>",)), all_lowered=True)


def test_several_masks() -> None:
    shapes = [1, 1, 20, 16], [1, 1, 20, 16], [1, 1, 20, 16]
    masks = ("tensor<20x20xf32>", "tensor<20xf32>")
    compare(attention(*shapes, "f32", "softcap 2.0", masks), all_lowered=True)


def masked_rows(rng: np.random.Generator, element: Attribute, shape: Sequence[int]) -> Array:
    """Random numbers; rows of a mask (of two dimensions) where no key takes part, or all but."""
    sizes = tuple(shape)
    array = rng.standard_normal(sizes)
    if len(sizes) == 2:
        array = np.where(rng.random(sizes) < 0.3, -np.inf, 0)
        array[3], array[5] = -np.inf, -60000
        array[7, 4] = np.nan
    return array.astype(np.float16)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize(
    "undefined", ["zero", "nan", pytest.param("guard", marks=pytest.mark.soak)]
)
def test_rows_without_a_key(undefined: str) -> None:
    shapes = [1, 1, 20, 16], [1, 1, 40, 16], [1, 1, 40, 16]
    text = attention(*shapes, "f16", f"undefined {undefined}", ("tensor<20x40xf16>",))
    compare(text, all_lowered=True, make=masked_rows)


@pytest.mark.usefixtures("small_tiles")
def test_pipes_may_run_in_any_order() -> None:
    shapes = [1, 3, 20, 16], [1, 1, 40, 16], [1, 1, 40, 16]
    compare(attention(*shapes, "f16", "causal true"), all_lowered=True, orders=3)


def boxes_of_queries(result: Lowered) -> set[tuple[int, ...]]:
    """The sizes of boxes of the first argument."""
    (_, program), *_ = result.pairs
    views = (op for op in program.walk() if isinstance(op, ViewOp))
    return {v.box_sizes for v in views if v.source is program.body.block.args[0]}


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize(
    ("tokens", "group", "first", "flags", "masks", "box"),
    [
        pytest.param(
            *(1, 4, NAMES, "", ("tensor<1x1x1x40xf16>",), (1, 1, 16, 16)), marks=pytest.mark.soak
        ),
        (1, 7, (), "causal true offset 30", ("tensor<14x1x40xf16>",), (1, 1, 16, 16)),
        pytest.param(
            *(3, 4, (), "causal true offset 5", (), (1, 1, 16, 16)), marks=pytest.mark.soak
        ),
        (3, 4, NAMES, "left_window 9 offset 20", (), (1, 4, 1, 4, 16)),
        (6, 2, NAMES, "causal true offset 29", ("tensor<40xf32>",), (1, 8, 1, 2, 16)),
        (3, 4, ("query",), "causal true", (), (1, 16, 1, 16)),
        pytest.param(
            *(3, 4, (), "causal true", ("tensor<3x40xf16>",), (1, 1, 16, 16)),
            marks=pytest.mark.soak,
        ),
    ],
)
def test_heads_that_share_keys_are_rows_of_a_tile(
    tokens: int,
    group: int,
    first: tuple[str, ...],
    flags: str,
    masks: tuple[str, ...],
    box: tuple[int, ...],
) -> None:
    shapes = [1, 2 * group, tokens, 16], [1, 2, 40, 16], [1, 2, 40, 32]
    result = compare(attention(*shapes, "f16", flags, masks, first), all_lowered=True)
    assert box in boxes_of_queries(result)


@pytest.mark.parametrize(
    ("dtype", "piece", "part"),
    [
        ("f32", 32, 16),
        ("f16", 16, 32),
        pytest.param("f16", 16, 16, marks=pytest.mark.soak),
    ],
)
def test_keys_and_values_in_pieces(
    monkeypatch: pytest.MonkeyPatch, dtype: str, piece: int, part: int
) -> None:
    def cut(*args: Any) -> Iterator[AttentionTiles]:
        for t in candidates(*args):
            if t.rows == t.keys == 32:
                yield t._replace(piece=piece, value_part=part, key_part=16, size_part=16)

    monkeypatch.setattr(attention_tiles, "candidates", cut)
    shapes = [1, 2, 40, 16], [1, 1, 75, 16], [1, 1, 75, 32]
    compare(attention(*shapes, dtype), all_lowered=True, orders=2)


@pytest.mark.parametrize("keys", [20, 64, 100, 128])
@pytest.mark.parametrize(
    ("dtype", "flags", "masks", "first"),
    [
        ("f16", "scale 0.25", (), NAMES),
        ("f32", "softcap 3.0", (), ()),
        ("bf16", "", ("tensor<2x1x40x{}xbf16>", "tensor<{}xf32>"), ("query", "result")),
        ("f16", "causal true", (), ()),
    ],
)
@pytest.mark.parametrize("target", ["910b2", "310p3"])
def test_scores_of_the_next_item_come_first(
    target: str,
    dtype: str,
    flags: str,
    masks: tuple[str, ...],
    first: tuple[str, ...],
    keys: int,
    small_tiles: None,
) -> None:
    """Of items with few tiles of keys, of which cores have several."""
    q, k, v = [2, 17, 40, 32], [2, 17, keys, 32], [2, 17, keys, 48]
    masks = tuple(mask.format(keys) for mask in masks)
    text = attention(q, k, v, dtype, flags, masks, first)
    compare(text, target, all_lowered=True, orders=2)


def test_no_core_waits_for_the_other_kind_at_each_item() -> None:
    """Items of a core take less than three crossings of the queues more than the first one."""
    times = list[float]()
    for heads in (24, 240):
        size = [1, heads, 128, 64]
        ((_, tiles),) = lowered(attention(size, size, size)).pairs
        times.append(TileKernel(tiles, target := Target.load("910b2")).time().total_us)
    crossings = 3 * target.cross_flag_cycles / target.cycles_per_us
    each = (times[1] - times[0]) / 9
    assert each < min(times[0] / 4, crossings + 1)


def test_heads_of_512_elements_fit() -> None:
    shapes = [1, 1, 17, 512], [1, 1, 40, 512], [1, 1, 40, 512]
    compare(attention(*shapes, "f32"), all_lowered=True)


def integers(
    q: list[int], k: list[int], v: list[int], flags: str, masks: tuple[str, ...], first: str
) -> str:
    """Attention of integers, whose weights are rounded; the result is f32."""
    flags = f"rounded_weights true scale 0.004 value_scale 0.03{flags}"
    text = attention(q, k, v, "i8", flags, masks, tuple(first.split()))
    o = [q[0], q[2], q[1], v[3]] if "result" in first else [*q[:3], v[3]]
    result = f"tensor<{'x'.join(map(str, o))}x"
    for before in ("-> ", "func.return %r : "):
        text = text.replace(f"{before}{result}i8>", f"{before}{result}f32>")
    return text


@pytest.mark.parametrize(
    ("tokens", "keys", "size", "flags", "masks", "first"),
    [
        (20, 70, 16, "", (), ""),
        (5, 1300, 40, " causal true offset 1250", (), ""),
        (1, 40, 64, "", ("tensor<1x40xi1>",), "query key value result"),
    ],
)
def test_integers_are_exact(
    tokens: int, keys: int, size: int, flags: str, masks: tuple[str, ...], first: str
) -> None:
    shapes = [1, 2, tokens, size], [1, 1, keys, size], [1, 1, keys, 24]
    compare(integers(*shapes, flags, masks, first), all_lowered=True, exact=True)


@pytest.mark.parametrize("keys", [100, 600])
def test_integers_of_several_items_are_exact(keys: int) -> None:
    shapes = [1, 30, 16, 32], [1, 30, keys, 32], [1, 30, keys, 32]
    compare(integers(*shapes, "", (), ""), all_lowered=True, exact=True)


SCORES = "score_scale 0.04 score_zero_point 5 : i8"
WEIGHTS = "weight_scale 0.0035 weight_zero_point -128 : i8"


@pytest.mark.parametrize(
    ("flags", "undefined"),
    [
        (SCORES, "zero"),
        pytest.param(SCORES, "guard", marks=pytest.mark.soak),
        pytest.param(WEIGHTS, "zero", marks=pytest.mark.soak),
        pytest.param(WEIGHTS, "guard", marks=pytest.mark.soak),
        pytest.param(f"softcap 3.0 {SCORES} {WEIGHTS}", "zero", marks=pytest.mark.soak),
        (f"softcap 3.0 {SCORES} {WEIGHTS}", "guard"),
    ],
)
def test_scores_and_weights_on_a_grid(flags: str, undefined: str) -> None:
    shapes = [1, 2, 20, 16], [1, 1, 70, 16], [1, 1, 70, 16]
    flags = f"scale 0.25 undefined {undefined} {flags}"
    compare(attention(*shapes, "f32", flags, ("tensor<20x70xi1>",)), all_lowered=True)


# Keys and values that are stored as integers.
STORED = """func.func @main(%q: tensor<1x3x5x16xf16>, %k: tensor<1x3x70x16xi8>,
    %v: tensor<1x3x70x16xi8>, %s: tensor<f16>) -> tensor<1x3x5x16xf16> {
      %0 = graph.dequantize %k, %s
        : (tensor<1x3x70x16xi8>, tensor<f16>) -> tensor<1x3x70x16xf16>
      %1 = graph.dequantize %v, %s
        : (tensor<1x3x70x16xi8>, tensor<f16>) -> tensor<1x3x70x16xf16>
      %2 = graph.attention %q, %0, %1 : (tensor<1x3x5x16xf16>, tensor<1x3x70x16xf16>,
        tensor<1x3x70x16xf16>) -> tensor<1x3x5x16xf16>
      func.return %2 : tensor<1x3x5x16xf16>
}
"""

# Attention with what computes its operands: biases of queries, keys and values.
BIASED = """func.func @main(%a: tensor<2x17x64xf32>, %ba: tensor<64xf32>,
    %b: tensor<2x17x64xf32>, %bb: tensor<64xf32>, %d: tensor<2x17x64xf32>, %bd: tensor<64xf32>,
    %m: tensor<2x1x17x17xi1>) -> tensor<2x17x64xf32> {
      %15 = graph.add %a, %ba : (tensor<2x17x64xf32>, tensor<64xf32>) -> tensor<2x17x64xf32>
      %16 = graph.reshape %15 shape [2, 17, 4, 16] : (tensor<2x17x64xf32>) -> tensor<2x17x4x16xf32>
      %17 = graph.add %b, %bb : (tensor<2x17x64xf32>, tensor<64xf32>) -> tensor<2x17x64xf32>
      %18 = graph.reshape %17 shape [2, 17, 4, 16] : (tensor<2x17x64xf32>) -> tensor<2x17x4x16xf32>
      %19 = graph.add %d, %bd : (tensor<2x17x64xf32>, tensor<64xf32>) -> tensor<2x17x64xf32>
      %20 = graph.reshape %19 shape [2, 17, 4, 16] : (tensor<2x17x64xf32>) -> tensor<2x17x4x16xf32>
      %21 = graph.attention %16, %18, %20 mask %m
        scale 2.500000e-01 undefined guard value_tokens_first true result_tokens_first true
        query_tokens_first true key_tokens_first true
        : (tensor<2x17x4x16xf32>, tensor<2x17x4x16xf32>, tensor<2x17x4x16xf32>,
        tensor<2x1x17x17xi1>) -> tensor<2x17x4x16xf32>
      %22 = graph.reshape %21 shape [2, 17, 64] : (tensor<2x17x4x16xf32>) -> tensor<2x17x64xf32>
      func.return %22 : tensor<2x17x64xf32>
}
"""

# One tensor of all three, whose keys and values are results, too.
CACHED = """func.func @main(%6: tensor<24x192xf32>, %7: tensor<192xf32>,
    %8: tensor<2x1x12x12xf32>) -> (tensor<2x4x12x16xf32>, tensor<2x4x12x16xf32>,
    tensor<2x12x4x16xf32>) {
      %9 = graph.add %6, %7 : (tensor<24x192xf32>, tensor<192xf32>) -> tensor<24x192xf32>
      %10 = graph.reshape %9 shape [2, 12, 192] : (tensor<24x192xf32>) -> tensor<2x12x192xf32>
      %11, %12, %13 = graph.split %10 sizes [64, 64, 64] axis 2
        : (tensor<2x12x192xf32>) -> (tensor<2x12x64xf32>, tensor<2x12x64xf32>, tensor<2x12x64xf32>)
      %14 = graph.reshape %12 shape [2, 12, 4, 16] : (tensor<2x12x64xf32>) -> tensor<2x12x4x16xf32>
      %15 = graph.transpose %14 permutation [0, 2, 1, 3]
        : (tensor<2x12x4x16xf32>) -> tensor<2x4x12x16xf32>
      %16 = graph.reshape %13 shape [2, 12, 4, 16] : (tensor<2x12x64xf32>) -> tensor<2x12x4x16xf32>
      %17 = graph.transpose %16 permutation [0, 2, 1, 3]
        : (tensor<2x12x4x16xf32>) -> tensor<2x4x12x16xf32>
      %18 = graph.reshape %11 shape [2, 12, 4, 16] : (tensor<2x12x64xf32>) -> tensor<2x12x4x16xf32>
      %19 = graph.attention %18, %14, %16 mask %8
        scale 2.500000e-01 undefined guard value_tokens_first true result_tokens_first true
        query_tokens_first true key_tokens_first true
        : (tensor<2x12x4x16xf32>, tensor<2x12x4x16xf32>, tensor<2x12x4x16xf32>,
        tensor<2x1x12x12xf32>) -> tensor<2x12x4x16xf32>
      func.return %15, %17, %19 : tensor<2x4x12x16xf32>, tensor<2x4x12x16xf32>,
    tensor<2x12x4x16xf32>
}
"""

# Keys and values that stand side by side.
SPLIT = """func.func @main(%q: tensor<2x17x64xf16>,
    %kv: tensor<2x21x128xf16>) -> tensor<2x17x64xf16> {
      %16 = graph.reshape %q shape [2, 17, 4, 16] : (tensor<2x17x64xf16>) -> tensor<2x17x4x16xf16>
      %k, %v = graph.split %kv sizes [64, 64] axis 2
        : (tensor<2x21x128xf16>) -> (tensor<2x21x64xf16>, tensor<2x21x64xf16>)
      %18 = graph.reshape %k shape [2, 21, 4, 16] : (tensor<2x21x64xf16>) -> tensor<2x21x4x16xf16>
      %20 = graph.reshape %v shape [2, 21, 4, 16] : (tensor<2x21x64xf16>) -> tensor<2x21x4x16xf16>
      %21 = graph.attention %16, %18, %20 value_tokens_first true result_tokens_first true
        query_tokens_first true key_tokens_first true
        : (tensor<2x17x4x16xf16>, tensor<2x21x4x16xf16>,
        tensor<2x21x4x16xf16>) -> tensor<2x17x4x16xf16>
      %22 = graph.reshape %21 shape [2, 17, 64] : (tensor<2x17x4x16xf16>) -> tensor<2x17x64xf16>
      func.return %22 : tensor<2x17x64xf16>
}
"""

# Of one query: a cache, and one key more.
DECODE = """func.func @main(%8: tensor<2x192xf32>, %9: tensor<192xf32>,
    %10: tensor<2x4x11x16xf32>, %11: tensor<2x4x11x16xf32>,
    %12: tensor<2x1x1x12xf32>)
      -> (tensor<2x4x12x16xf32>, tensor<2x4x12x16xf32>, tensor<2x4x1x16xf32>) {
      %13 = graph.add %8, %9 : (tensor<2x192xf32>, tensor<192xf32>) -> tensor<2x192xf32>
      %14 = graph.reshape %13 shape [2, 1, 192] : (tensor<2x192xf32>) -> tensor<2x1x192xf32>
      %15, %16, %17 = graph.split %14 sizes [64, 64, 64] axis 2
        : (tensor<2x1x192xf32>) -> (tensor<2x1x64xf32>, tensor<2x1x64xf32>, tensor<2x1x64xf32>)
      %18 = graph.reshape %16 shape [2, 4, 1, 16] : (tensor<2x1x64xf32>) -> tensor<2x4x1x16xf32>
      %19 = graph.reshape %17 shape [2, 4, 1, 16] : (tensor<2x1x64xf32>) -> tensor<2x4x1x16xf32>
      %20 = graph.concat %10, %18 axis -2
        : (tensor<2x4x11x16xf32>, tensor<2x4x1x16xf32>) -> tensor<2x4x12x16xf32>
      %21 = graph.concat %11, %19 axis -2
        : (tensor<2x4x11x16xf32>, tensor<2x4x1x16xf32>) -> tensor<2x4x12x16xf32>
      %22 = graph.reshape %15 shape [2, 4, 1, 16] : (tensor<2x1x64xf32>) -> tensor<2x4x1x16xf32>
      %23 = graph.attention %22, %20, %21 mask %12
        scale 2.500000e-01 undefined guard
        : (tensor<2x4x1x16xf32>, tensor<2x4x12x16xf32>, tensor<2x4x12x16xf32>,
        tensor<2x1x1x12xf32>) -> tensor<2x4x1x16xf32>
      func.return %20, %21, %23 : tensor<2x4x12x16xf32>, tensor<2x4x12x16xf32>, tensor<2x4x1x16xf32>
}
"""

# Keys of two parts, values of one.
JOINED = """func.func @main(%q: tensor<2x4x20x16xf16>, %a: tensor<2x2x37x16xf16>,
    %b: tensor<2x2x20x16xf16>, %v: tensor<2x2x57x16xf16>) -> (tensor<2x2x57x16xf16>,
    tensor<2x4x20x16xf16>) {
      %20 = graph.concat %a, %b axis 2
        : (tensor<2x2x37x16xf16>, tensor<2x2x20x16xf16>) -> tensor<2x2x57x16xf16>
      %23 = graph.attention %q, %20, %v offset 37 causal true
        : (tensor<2x4x20x16xf16>, tensor<2x2x57x16xf16>,
        tensor<2x2x57x16xf16>) -> tensor<2x4x20x16xf16>
      func.return %20, %23 : tensor<2x2x57x16xf16>, tensor<2x4x20x16xf16>
}
"""


def beside_each_other(size: int, element: str) -> str:
    """Queries, keys and values of 3 heads of so many elements in one tensor."""
    x, part = (f"tensor<2x17x{n * 3 * size}x{element}>" for n in (3, 1))
    head = f"tensor<2x17x3x{size}x{element}>"
    flags = " ".join(f"{n}_tokens_first true" for n in ("value", "result", "query", "key"))
    return f"""func.func @main(%x: {x}) -> {head} {{
      %0, %1, %2 = graph.split %x sizes [{3 * size}, {3 * size}, {3 * size}] axis 2
        : ({x}) -> ({part}, {part}, {part})
      %3 = graph.reshape %0 shape [2, 17, 3, {size}] : ({part}) -> {head}
      %4 = graph.reshape %1 shape [2, 17, 3, {size}] : ({part}) -> {head}
      %5 = graph.reshape %2 shape [2, 17, 3, {size}] : ({part}) -> {head}
      %6 = graph.attention %3, %4, %5 {flags} : ({head}, {head}, {head}) -> {head}
      func.return %6 : {head}
}}
"""


@pytest.mark.parametrize("target", ["910b2", "310p3"])
@pytest.mark.parametrize(("size", "element"), [(8, "f32"), (40, "f16")])
def test_heads_of_parts_of_tiles_beside_each_other(size: int, element: str, target: str) -> None:
    """What stands beside a head in a tile of 16 columns is another one, which does not count."""
    compare(beside_each_other(size, element), target, all_lowered=True, tiles=True)


# What is computed of the result.
QUANTIZED = """func.func @main(%q: tensor<2x17x4x32xf32>, %k: tensor<2x4x21x32xf32>,
    %b: tensor<4x32xf32>) -> tensor<2x17x128xi8> {
      %s = graph.constant dense<0.02> : tensor<f32>
      %z = graph.constant dense<3> : tensor<i8>
      %0 = graph.attention %q, %k, %k result_tokens_first true query_tokens_first true
        : (tensor<2x17x4x32xf32>, tensor<2x4x21x32xf32>,
        tensor<2x4x21x32xf32>) -> tensor<2x17x4x32xf32>
      %1 = graph.add %0, %b : (tensor<2x17x4x32xf32>, tensor<4x32xf32>) -> tensor<2x17x4x32xf32>
      %2 = graph.quantize %1, %s, %z to i8
        : (tensor<2x17x4x32xf32>, tensor<f32>, tensor<i8>) -> tensor<2x17x4x32xi8>
      %3 = graph.reshape %2 shape [2, 17, 128] : (tensor<2x17x4x32xi8>) -> tensor<2x17x128xi8>
      func.return %3 : tensor<2x17x128xi8>
}
"""


@pytest.mark.parametrize(
    "text",
    [
        *(BIASED, CACHED, DECODE, STORED, QUANTIZED),
        *(pytest.param(text, marks=pytest.mark.soak) for text in (SPLIT, JOINED)),
    ],
)
def test_what_attention_is_fused_with(text: str) -> None:
    compare(text, all_lowered=True)


def microseconds(result: Lowered) -> float:
    return sum(TileKernel(program, result.target).time().total_us for _, program in result.pairs)


def test_causal_attention_skips_tiles() -> None:
    shapes = [1, 24, 1024, 64], [1, 24, 1024, 64], [1, 24, 1024, 64]
    times = [microseconds(lowered(attention(*shapes, "f16", f))) for f in ("", "causal true")]
    assert times[1] < 0.75 * times[0]


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ("rounded_weights true", "floats whose weights are rounded"),
    ],
)
def test_what_has_no_program_says_why(flags: str, reason: str) -> None:
    shapes = [1, 1, 20, 16], [1, 1, 40, 16], [1, 1, 40, 16]
    result = lowered(attention(*shapes, "f16", flags))
    assert not result.pairs
    assert reason in result.reasons[0]


def ends_at_37(rng: np.random.Generator, element: Attribute, shape: Sequence[int]) -> Array:
    """Random numbers; of keys nan behind the first 37."""
    if not shape:
        return np.array(37, np.int64)
    array = rng.standard_normal(tuple(shape)).astype(np.float16)
    if len(shape) == 4 and shape[2] == 40:
        array[:, :, 37:] = np.nan
    return array


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize(
    "flags",
    [
        *(pytest.param(f, marks=pytest.mark.soak) for f in ("", "causal true offset 30")),
        "left_window 9 offset 30",
    ],
)
def test_keys_behind_the_length_are_of_no_meaning(flags: str) -> None:
    t = "tensor<2x4x5x16xf16>"
    text = f"""func.func @main(%q: {t}, %k: tensor<2x2x40x16xf16>, %n: tensor<i64>,
        %m: tensor<1x40xf16>) -> {t} {{
      %r = graph.attention %q, %k, %k length %n mask %m
        {flags}
        : ({t}, tensor<2x2x40x16xf16>, tensor<2x2x40x16xf16>, tensor<1x40xf16>, tensor<i64>) -> {t}
      func.return %r : {t}
    }}"""
    compare(text, all_lowered=True, make=ends_at_37)


def lengths(rng: np.random.Generator, element: Attribute, shape: Sequence[int]) -> Array:
    if len(shape) == 1:
        return np.array([37, 0, 9][: shape[0]], np.int64)
    return rng.standard_normal(tuple(shape)).astype(np.float16)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize(
    "flags",
    [
        *(pytest.param(f, marks=pytest.mark.soak) for f in ("", "causal true")),
        "causal true offset 5",
    ],
)
def test_keys_of_each_batch_have_a_number(flags: str) -> None:
    t = "tensor<3x2x20x16xf16>"
    text = f"""func.func @main(%q: {t}, %k: tensor<3x2x40x16xf16>, %n: tensor<3xi64>) -> {t} {{
      %r = graph.attention %q, %k, %k key_lengths %n {flags}
        : ({t}, tensor<3x2x40x16xf16>, tensor<3x2x40x16xf16>, tensor<3xi64>) -> {t}
      func.return %r : {t}
    }}"""
    compare(text, all_lowered=True, make=lengths)


def test_tiles_are_estimated_once_by_their_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each number of copies, nor again for what has the same attention in it."""
    calls, estimate = list[tuple[Any, ...]](), attention_tiles.estimate

    def counted(p: AttentionProblem, t: AttentionTiles, target: Target, splits: int = 1) -> float:
        calls.append((*t[:8], t.copies > 1, splits))
        return estimate(p, t, target, splits)

    monkeypatch.setattr(attention_tiles, "estimate", counted)
    problem, target = AttentionProblem(12, 128, 128, 64, 64, f16, ()), Target.load("910b2")
    found = attention_tiles.tiles_for(problem, target)
    assert len(calls) == len(set(calls)) < len(found) / 2
    for cycles, tiles, splits in found[:: len(found) // 9]:
        assert cycles == estimate(problem, tiles, target, splits)
    calls.clear()
    assert (
        attention_tiles.tiles_for(AttentionProblem(12, 128, 128, 64, 64, f16, ()), target) is found
    )
    assert not calls
