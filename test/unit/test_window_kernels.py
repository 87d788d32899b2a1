"""Kernels of convolution, pooling and resizing against their definitions, element by element."""

import itertools
import sys
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Block
from xdsl.utils.exceptions import VerifyException

sys.path.insert(0, str(Path(__file__).parent))
from sums import assert_sums

from ge.dialects.graph.convolution import Col2ImOp, ConvOp, ConvTransposeOp, DeformConvOp
from ge.dialects.graph.image import GridSampleOp, ResizeOp
from ge.dialects.graph.pooling import MaxPoolIndicesOp, MaxUnpoolOp, PoolOp
from ge.dialects.support.boxes import Work
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.runtime import numbers
from ge.runtime.data.arrays import BFLOAT16, Array, type_of
from ge.runtime.device.session import Session
from ge.runtime.numbers import convolution, linear
from ge.runtime.numbers.plan import Scratch


def run(op: type[Any], *arrays: Array | None, **params: Any) -> Any:
    """The op evaluated on the arrays (None for an absent operand)."""
    given = [a for a in arrays if a is not None]
    values = iter(Block(arg_types=[type_of(a) for a in given]).args)
    built = op.of(*(None if a is None else next(values) for a in arrays), **params)
    return numbers.prepare(built)(*given)


def read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


def padded(x: Array, pads: list[int], value: float) -> Array:
    rank = len(pads) // 2
    widths = [(0, 0), (0, 0), *((pads[i], pads[i + rank]) for i in range(rank))]
    return np.pad(x, widths, constant_values=value)


def each_window(x: Array, kernel: Any, strides: Any, dilations: Any) -> Any:
    """Each place of the window and the elements under it."""
    sizes = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True)
    ]
    for place in itertools.product(*map(range, sizes)):
        where = tuple(
            slice(p * s, p * s + (k - 1) * d + 1, d)
            for p, k, s, d in zip(place, kernel, strides, dilations, strict=True)
        )
        yield sizes, place, x[(..., *where)]


def convolved(x: Array, w: Array, strides: Any, pads: Any, dilations: Any, group: int) -> Array:
    """The convolution by its definition, in float64."""
    per_in, per_out = w.shape[1], len(w) // group
    result = np.zeros(0)
    for sizes, place, part in each_window(
        padded(x.astype(np.float64), pads, 0), w.shape[2:], strides, dilations
    ):
        result = result if result.size else np.zeros((len(x), len(w), *sizes))
        for m, weight in enumerate(w.astype(np.float64)):
            first = m // per_out * per_in
            element = (part[:, first : first + per_in] * weight).reshape(len(x), -1).sum(axis=1)
            result[(slice(None), m, *place)] = element
    return result


CONVS = [
    # channels, weight, input size, strides, pads, dilations, groups
    (3, (4, 3, 3), (9,), [2], [1, 0], [2], 1),
    (4, (6, 4, 1, 1), (5, 6), [1, 1], [0] * 4, [1, 1], 1),
    (4, (6, 4, 1, 1), (5, 6), [2, 3], [0] * 4, [1, 1], 1),
    (4, (6, 4, 1, 1), (5, 6), [1, 1], [1, 0, 0, 2], [1, 1], 1),
    (4, (6, 2, 3, 2), (7, 8), [2, 1], [1, 0, 2, 1], [1, 2], 2),
    (6, (6, 1, 3, 3), (7, 7), [1, 1], [1] * 4, [1, 1], 6),
    (3, (3, 1, 5, 3), (21, 9), [1, 2], [2, 1, 2, 1], [1, 1], 3),
    (3, (6, 1, 3, 3), (19, 8), [2, 1], [0, 2, 1, 0], [2, 3], 3),
    (3, (6, 1, 3, 3), (7, 7), [2, 2], [1] * 4, [1, 1], 3),
    (2, (2, 1, 2, 5), (6, 3), [1, 1], [3, 4, 2, 6], [1, 2], 2),
    (2, (3, 2, 2, 2, 2), (4, 4, 5), [1, 2, 1], [0] * 6, [1, 1, 2], 1),
]


@pytest.mark.parametrize("case", CONVS)
@pytest.mark.parametrize("block_bytes", [1, 1 << 24])
@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int8])
def test_conv(case: Any, block_bytes: int, dtype: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(convolution, "BLOCK_BYTES", block_bytes)
    channels, weight, size, strides, pads, dilations, group = case
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, (2, channels, *size)).astype(dtype)
    w = rng.integers(-9, 9, weight).astype(dtype)
    expected = convolved(x, w, strides, pads, dilations, group)
    params = {"strides": strides, "pads": pads, "dilations": dilations, "group": group}
    result = run(ConvOp, x, w, None, **params)
    assert result.dtype == (np.int32 if dtype is np.int8 else dtype)
    np.testing.assert_array_equal(result.astype(np.float64), expected)
    op = ConvOp.of(*Block(arg_types=[type_of(x), type_of(w)]).args, **params)
    check_prepared(numbers.prepare(op), [x, read_only(w)], result)


def test_depthwise_conv_keeps_infinities_where_they_are() -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 20, 20)).astype(np.float32)
    x[0, 1, 9, 9] = np.inf
    w = np.ones((3, 1, 3, 3), np.float32)
    result = run(ConvOp, x, w, None, group=3)
    assert np.isinf(result[0, 1, 7:10, 7:10]).all()
    assert np.isfinite(result).sum() == result.size - 9


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16, np.int8, np.int16])
@pytest.mark.parametrize(
    ("constant", "positions"),
    [
        (False, 1 << 20),
        (True, 0),
        pytest.param(False, 0, marks=pytest.mark.soak),
        pytest.param(True, 1 << 20, marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize(
    ("weight", "size", "strides", "pads", "dilations"),
    [
        ((4, 1, 3, 3), (16, 5), [1, 1], [1] * 4, [1, 1]),
        ((4, 1, 3, 3), (6, 6), [1, 2], [1] * 4, [1, 1]),
        ((4, 1, 3, 3), (5, 4), [1, 1], [2] * 4, [1, 1]),  # a result wider than the image
        ((8, 1, 3, 3), (7, 6), [2, 1], [1, 0, 0, 1], [1, 1]),
        ((4, 1, 3, 5), (5, 4), [1, 1], [1, 4, 1, 3], [1, 2]),  # whole rows of zeros
        ((8, 1, 4, 3), (2, 6), [1, 1], [3, 0, 1, 1], [1, 1]),
        ((4, 1, 5, 5), (1, 1), [1, 1], [2] * 4, [1, 1]),
        ((4, 1, 3, 1), (9, 3), [3, 1], [0] * 4, [2, 1]),
        ((4, 1, 5, 4), (13, 17), [2, 4], [3, 1, 2, 0], [3, 2]),  # one phase, and two
        ((4, 1, 2, 2), (9, 9), [3, 3], [0] * 4, [1, 1]),  # a phase that no window meets
    ],
)
def test_depthwise_conv(
    weight: Any, size: Any, strides: Any, pads: Any, dilations: Any, positions: int,
    constant: bool, dtype: Any, monkeypatch: Any,
) -> None:  # fmt: skip
    """By pixels (any number of positions for a channel) and by images (none), in blocks."""
    monkeypatch.setattr(convolution, "POSITIONS", positions)
    monkeypatch.setattr(convolution, "BLOCK_BYTES", 1024)
    rng, sums = np.random.default_rng(0), {np.int8: np.int32, np.int16: np.int64}
    x = rng.integers(-4, 5, (2, 4, *size)).astype(dtype)
    w = rng.integers(-4, 5, weight).astype(dtype)
    bias = np.arange(weight[0]).astype(sums.get(dtype, dtype))
    if constant:
        w, bias = read_only(w), read_only(bias)
    want = convolved(x, w, strides, pads, dilations, 4) + np.arange(weight[0])[:, None, None]
    types = [type_of(a) for a in (x, w, bias)]
    op = ConvOp.of(
        *Block(arg_types=types).args, strides=strides, pads=pads, dilations=dilations, group=4
    )
    fn = numbers.prepare(op)
    expected = want.astype(np.float32).astype(bias.dtype)
    for _ in range(2):
        np.testing.assert_array_equal(fn(x, w, bias), expected)
    check_prepared(fn, [x, w, bias], expected)


def check_prepared(fn: numbers.Fn, arrays: list[Array], want: Array) -> None:
    """A prepared call computes with the elements of its time, on the same memory."""
    out, values = np.empty_like(want), arrays[0].copy()
    call = numbers.bind(fn, Scratch(), *arrays, out=out)
    for _ in range(2):
        arrays[0][...] = 1
        call()
        arrays[0][...] = values
        call()
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64])
def test_depthwise_conv_of_the_least_integers(dtype: Any) -> None:
    """Floats hold the sums of some; those of others wrap around."""
    least = np.iinfo(dtype).min
    x, w = np.full((1, 2, 5, 5), least, dtype), np.full((2, 1, 3, 3), least, dtype)
    result = run(ConvOp, x, w, None, group=2)
    values = 2 ** (8 * result.dtype.itemsize)
    assert {int(v) % values for v in result.flat} == {9 * least**2 % values}


@pytest.mark.parametrize("size", [8, 12])
def test_depthwise_conv_of_windows_of_many_elements(size: int) -> None:
    """Sums of integers of so many terms are computed in parts, as matmuls."""
    x = np.full((1, 2, size, size), 127, np.int8)
    w = np.full((2, 1, size, size), 127, np.int8)
    result = run(ConvOp, x, w, None, group=2)
    assert (result == 127 * 127 * size**2).all()


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(
    ("weight", "group", "strides", "pads"),
    [
        ((6, 4, 1, 1), 1, [1, 1], [0] * 4),
        ((6, 4, 3, 3), 1, [1, 2], [1, 0, 2, 1]),
        ((6, 2, 3, 3), 2, [1, 1], [1] * 4),
        ((8, 1, 3, 3), 4, [1, 1], [1] * 4),
        ((8, 1, 3, 3), 4, [2, 2], [1] * 4),
    ],
)
def test_conv_of_extremes_in_blocks(
    weight: Any, group: int, strides: Any, pads: Any, biased: bool, monkeypatch: Any
) -> None:
    """Sums of floats become integers block by block, and a bias may be any integer."""
    monkeypatch.setattr(convolution, "BLOCK_BYTES", 256)
    monkeypatch.setattr(linear, "CONVERTED", 64)
    rng = np.random.default_rng(0)
    x = rng.choice(np.array([-128, 127, 126], np.int8), (2, 4, 19, 21))
    w = read_only(rng.choice(np.array([-128, 127, -127], np.int8), weight))
    bias = rng.integers(-(2**31) + 2**20, 2**31 - 2**20, weight[0]).astype(np.int32)
    want = convolved(x, w, strides, pads, [1, 1], group).astype(np.int64)
    want += bias[:, None, None] if biased else 0
    inputs = [x, w, bias] if biased else [x, w]
    op = ConvOp.of(
        *Block(arg_types=[type_of(a) for a in inputs]).args,
        strides=strides, pads=pads, group=group,
    )  # fmt: skip
    np.testing.assert_array_equal(numbers.prepare(op)(*inputs), want)


@pytest.mark.parametrize("weight", [(2, 1101, 1, 1), (2, 123, 3, 3)])
def test_sums_of_a_conv_that_floats_do_not_hold(weight: Any) -> None:
    """They are odd, and beyond 2^24."""
    x, w = np.full((1, weight[1], 3, 3), 127, np.int8), read_only(np.full(weight, 127, np.int8))
    op = ConvOp.of(*Block(arg_types=[type_of(a) for a in (x, w)]).args)
    assert (numbers.prepare(op)(x, w) == 127**2 * prod(weight[1:])).all()


@pytest.mark.parametrize("rows", [12, 20])
def test_depthwise_conv_adds_the_bias_beside_infinities(rows: int) -> None:
    x = np.ones((1, 3, rows, 12), np.float32)
    x[0, 1, 9, 9] = np.inf
    result = run(ConvOp, x, np.ones((3, 1, 3, 3), np.float32), np.ones(3, np.float32), group=3)
    assert np.isinf(result[0, 1, 7:10, 7:10]).all()
    assert (result == 10).sum() == result.size - 9


def test_conv_into_given_memory() -> None:
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(s, np.float32) for s in ((1, 3, 8, 8), (4, 3, 3, 3), (4,)))
    op = ConvOp.of(*Block(arg_types=[type_of(a) for a in (x, w, b)]).args)
    fn = numbers.prepare(op)
    out = np.full((1, 4, 6, 6), np.nan, np.float32)
    assert fn(x, w, b, out=out) is out
    np.testing.assert_array_equal(out, fn(x, w, b))


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16])
def test_bias_of_half_precision(dtype: Any) -> None:
    x, w, b = np.ones((1, 2, 4), dtype), np.ones((3, 2, 2), dtype), np.arange(3).astype(dtype)
    result = run(ConvOp, x, w, b)
    assert result.dtype == dtype
    assert result[0, :, 0].astype(int).tolist() == [4, 5, 6]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16, np.int8])
@pytest.mark.parametrize(
    ("x", "w", "group"),
    [
        ((2, 4, 6, 6), (6, 4, 1, 1), 1),  # more outputs than terms: the bias is one more term
        ((2, 6, 6, 6), (4, 6, 1, 1), 1),
        ((2, 4, 6, 6), (8, 2, 1, 1), 2),
        ((1, 2, 12, 12), (3, 2, 3, 3), 1),
        ((1, 4, 12, 12), (4, 2, 3, 3), 2),
        ((1, 9, 4, 4), (3, 9, 3, 3), 1),
    ],
)
def test_constant_weight_and_bias(x: Any, w: Any, group: int, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    image, weight = (rng.integers(-4, 5, shape).astype(dtype) for shape in (x, w))
    bias_dtype = np.int32 if dtype is np.int8 else dtype
    types = [type_of(a) for a in (image, weight, np.zeros(w[0], bias_dtype))]
    fn = numbers.prepare(ConvOp.of(*Block(arg_types=types).args, group=group))
    weight = read_only(weight)
    for start in (0, 5):  # another bias of the same weight
        bias = np.arange(start, start + w[0]).astype(bias_dtype)
        want = fn(image, weight.copy(), bias)
        constant = read_only(bias.copy())
        for _ in range(2):
            np.testing.assert_array_equal(fn(image, weight, constant), want)


@pytest.mark.parametrize(("weight", "places"), [((64, 64, 1, 1), 4), ((2, 64, 3, 3), 52)])
@pytest.mark.parametrize("extreme", [127, -127])
@pytest.mark.parametrize("most", [2**24, 2**24 + 1, 2**30 + 1])
def test_constant_bias_of_integers(weight: Any, places: int, extreme: int, most: int) -> None:
    """It is a term of the products of floats where these hold all sums."""
    terms = prod(weight[1:])
    x = np.full((1, 64, places, places), 127, np.int8)
    w = read_only(np.full(weight, extreme, np.int8))
    bias = read_only(np.full(weight[0], np.sign(extreme) * (most - terms * 127 * 128), np.int32))
    fn = numbers.prepare(ConvOp.of(*Block(arg_types=[type_of(a) for a in (x, w, bias)]).args))
    for _ in range(2):
        assert (fn(x, w, bias) == terms * 127 * extreme + int(bias[0])).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize(
    "sizes",
    [
        (32, 150, 416),  # columns in two parts
        (32, 150, 421),  # a prime number of columns
        (3, 5, 63),
        (64, 100, 313),  # rows in four parts
        (67, 100, 313),  # a prime number of rows
        (40, 0, 9),
        (5, 7, 0),
        (0, 3, 4),
    ],
)
def test_matmul_in_parts(sizes: Any, dtype: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(convolution, "MULTIPLIES_IN_PARTS", True)
    rows, terms, columns = sizes
    rng = np.random.default_rng(0)
    a = rng.integers(-9, 10, (rows, terms)).astype(dtype)
    b = rng.integers(-9, 10, (terms, columns)).astype(dtype)
    wide = np.full((rows, columns + 3), 7, dtype)
    convolution.into(a, b, wide[:, :columns])
    np.testing.assert_array_equal(wide[:, :columns], a @ b)
    assert (wide[:, columns:] == 7).all()


def test_equal_parts() -> None:
    assert convolution.equal_parts(3136, 290, 64) == 14
    assert convolution.equal_parts(421, 208, 64) == 1
    assert convolution.equal_parts(96, 4, 8) == 1
    assert convolution.equal_parts(0, 4, 8) == 1


COL2IM = {"image_shape": [4, 4], "block_shape": [2, 2]}


@pytest.mark.parametrize(
    ("op", "shapes", "params", "result"),
    [
        (ConvOp, [(0, 4, 5, 5), (8, 4, 1, 1), None], {}, (0, 8, 5, 5)),
        (ConvOp, [(0, 4, 5, 5), (8, 4, 3, 3), None], {"pads": [1] * 4}, (0, 8, 5, 5)),
        (ConvOp, [(2, 0, 5, 5), (8, 0, 1, 1), (8,)], {}, (2, 8, 5, 5)),
        (ConvTransposeOp, [(0, 4, 5, 5), (4, 8, 3, 3), None], {}, (0, 8, 7, 7)),
        (ConvTransposeOp, [(2, 4, 5, 5), (4, 0, 3, 3), None], {}, (2, 0, 7, 7)),
        (Col2ImOp, [(0, 12, 9), None, None], COL2IM, (0, 3, 4, 4)),
        (DeformConvOp, [(0, 4, 5, 5), (8, 4, 1, 1), (0, 2, 5, 5), None, None], {}, (0, 8, 5, 5)),
    ],
)
def test_nothing_to_convolve(op: Any, shapes: Any, params: Any, result: Any) -> None:
    arrays = [None if s is None else np.ones(s, np.float32) for s in shapes]
    got = run(op, *arrays, **params)
    assert got.shape == result
    assert (got == 1).all()  # of nothing but a bias


def test_work_of_convolutions() -> None:
    x, w, b = np.ones((2, 8, 9, 9)), np.ones((4, 4, 3, 3)), np.ones(4)
    conv = ConvOp.of(*Block(arg_types=[type_of(a) for a in (x, w, b)]).args, group=2)
    outputs = 2 * 4 * 7 * 7
    assert conv.work() == Work(
        outputs * 4 * 9, outputs, x.nbytes + w.nbytes + b.nbytes, outputs * 8
    )
    back = ConvTransposeOp.of(
        *Block(arg_types=[type_of(x), type_of(np.ones((8, 3, 2, 2)))]).args, None
    )
    assert back.static_work().macs == x.size * 3 * 4


def test_conv_transpose_is_the_gradient_of_conv() -> None:
    # <conv(x), y> = <x, conv_transpose(y)>
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 4, 9, 8)), rng.standard_normal((6, 2, 3, 3))
    params: Any = {"strides": [2, 1], "pads": [1, 0, 1, 2], "dilations": [1, 2], "group": 2}
    y = run(ConvOp, x, w, None, **params)
    z = rng.standard_normal(y.shape)
    back = run(ConvTransposeOp, z, w, None, **params)
    assert back.shape == x.shape
    most = np.abs(z) * run(ConvOp, np.abs(x), np.abs(w), None, **params)
    assert_sums((y * z).sum(), (x * back).sum(), z.size * w[0].size, most.sum())


POOLS = [
    ([3, 3], [2, 2], [1, 1, 1, 1], [1, 1]),
    ([2, 3], [1, 2], [0, 1, 1, 0], [2, 1]),
    ([1, 4], [3, 3], [0, 3, 0, 0], [1, 1]),
]


@pytest.mark.parametrize("case", POOLS)
@pytest.mark.parametrize("kind", ["max", "average", "lp"])
@pytest.mark.parametrize("include", [False, True])
def test_pool(case: Any, kind: str, include: bool) -> None:
    kernel, strides, pads, dilations = case
    x = np.random.default_rng(0).standard_normal((2, 3, 9, 10))
    outside = 0.0 if include and kind == "average" else np.nan
    expected = None
    for sizes, place, part in each_window(padded(x, pads, outside), kernel, strides, dilations):
        expected = np.zeros((2, 3, *sizes)) if expected is None else expected
        if kind == "lp":
            element = np.nansum(np.abs(part) ** 3, axis=(2, 3)) ** (1 / 3)
        else:
            element = (np.nanmax if kind == "max" else np.nanmean)(part, axis=(2, 3))
        expected[(..., *place)] = element
    window = {"kernel": kernel, "strides": strides, "pads": pads, "dilations": dilations}
    result = run(PoolOp, x, kind=kind, p=3, count_include_pad=include, **window)
    np.testing.assert_allclose(result, expected)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
@pytest.mark.parametrize("pads", [(0, 0), (1, 0), (0, 1), (2, 2)])
def test_ceil_mode(kernel: int, stride: int, pads: tuple[int, int]) -> None:
    """Every window that starts inside the input or its begin pad and not more than a stride
    after the last that fits; an average divides by the elements inside."""
    for size in range(1, 7):
        x = np.arange(1, size + 1, dtype=np.float32).reshape(1, 1, size)
        window: dict[str, Any] = {
            "kernel": [kernel], "strides": [stride], "pads": list(pads), "ceil_mode": True,
        }  # fmt: skip
        begin, end = pads
        starts = range(-begin, min(size, size + end - kernel + stride), stride)
        if not starts:
            with pytest.raises(VerifyException, match="does not fit into spatial dimension 0"):
                run(PoolOp, x, kind="max", **window)
            continue
        inside = [x[0, 0, max(start, 0) : max(start + kernel, 0)] for start in starts]
        top = [v.max(initial=-np.inf) for v in inside]
        mean = [v.mean() if v.size else 0 for v in inside]
        assert run(PoolOp, x, kind="max", **window)[0, 0].tolist() == top
        np.testing.assert_allclose(run(PoolOp, x, kind="average", **window)[0, 0], mean)


def test_pool_keeps_nan_and_lowest_values() -> None:
    x = np.array([[[1, np.nan, 2, -np.inf, -np.inf]]], np.float16)
    result = run(PoolOp, x, kind="max", kernel=[2])
    np.testing.assert_array_equal(result, [[[np.nan, np.nan, 2, -np.inf]]])
    bytes_ = np.array([[[-128, -128]]], np.int8)
    assert run(PoolOp, bytes_, kind="max", kernel=[2], pads=[1, 1]).tolist() == [[[-128] * 3]]


def test_max_unpool_undoes_max_pool() -> None:
    x = np.random.default_rng(0).permutation(64).reshape(1, 2, 4, 8).astype(np.float32)
    values, indices = run(MaxPoolIndicesOp, x, kernel=[2, 2], strides=[2, 2])
    np.testing.assert_array_equal(x.reshape(-1)[indices], values)
    back = run(MaxUnpoolOp, values, indices, None, kernel=[2, 2], strides=[2, 2])
    np.testing.assert_array_equal(back, np.where(np.isin(x, values), x, 0))


def test_nearest_resize_does_not_miss_a_tie() -> None:
    # 2 / float32(0.4) is a little below 5, but is meant to be 5.
    x = np.arange(10, dtype=np.float32)
    params: Any = {"coordinates": "asymmetric", "nearest_mode": "floor"}
    scale = float(np.float32(0.4))
    result = run(ResizeOp, x, None, None, None, scales=[scale], **params)
    np.testing.assert_array_equal(result, [0, 2, 5, 7])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_cubic_resize_of_integers_saturates(dtype: Any) -> None:
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.min, limits.max, limits.max], dtype)
    result = run(ResizeOp, x, None, None, None, sizes=[16], mode="cubic")
    assert result.dtype == dtype
    assert (np.diff(result.astype(int)) >= 0).all()


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
def test_resizing_nothing_gives_nothing(policy: str) -> None:
    empty = np.zeros((1, 0), np.float32)
    got = run(ResizeOp, empty, None, None, None, sizes=[1, 0], keep_aspect_ratio_policy=policy)
    assert got.shape == (1, 0)


def test_numbers_of_any_rank_follow_a_convolution() -> None:
    """What follows is applied to blocks, which have fewer dimensions than the result."""
    x, w, one = "tensor<1x1x3x4xf32>", "tensor<1x1x3x3xf32>", "tensor<1x1x1xf32>"
    text = f"""
func.func @main(%x: {x}, %w: {w}, %c: {one}) -> {x} {{
  %0 = graph.conv %x, %w pads [1, 1, 1, 1] : ({x}, {w}) -> {x}
  %1 = graph.mul %0, %c : ({x}, {one}) -> {x}
  func.return %1 : {x}
}}"""
    module = parse_module(context(), SourceText("test", text))
    rng = np.random.default_rng(0)
    image, weight = (rng.random(s, np.float32) for s in ((1, 1, 3, 4), (1, 1, 3, 3)))
    session, two = Session(module), np.full((1, 1, 1), 2, np.float32)
    inputs = dict(zip(session.input_names, (image, weight, two), strict=True))
    (found,) = session.run(inputs).values()
    want = 2 * convolved(image, weight, [1, 1], [1] * 4, [1, 1], 1)
    np.testing.assert_allclose(found, want, rtol=1e-6)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grids_of_extremes(mode: str, padding: str) -> None:
    """nan is taken as -1, what is far away does not fail."""
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    grid = np.array([-1, np.nan, np.inf, -np.inf, 3e38], np.float32).reshape(1, 5, 1)
    types = [type_of(x), type_of(grid)]
    op = GridSampleOp.of(*Block(arg_types=types).args, padding_mode=padding, mode=mode)
    found = numbers.prepare(op)(x, grid)[0, 0]
    assert found[1] == found[0]
    if padding != "reflection":
        np.testing.assert_array_equal(found[2:], [0, 0, 0] if padding == "zeros" else [3, 0, 3])
