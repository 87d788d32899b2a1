"""Kernels of matrix products: exact integers, 16-bit floats, weights converted once."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Block

sys.path.insert(0, str(Path(__file__).parent))
from sums import assert_matmul

from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.linear import EinsumOp, MatmulOp
from ge.dialects.support.boxes import Work
from ge.runtime import numbers
from ge.runtime.data.arrays import BFLOAT16, Array, type_of
from ge.runtime.numbers.linear import Converted


def kernel_of(op: type[Any], *arrays: Array, **params: Any) -> numbers.Fn:
    """The kernel function of an op on operands like the arrays."""
    return numbers.prepare(op.of(*Block(arg_types=[type_of(a) for a in arrays]).args, **params))


@pytest.mark.parametrize("k", [1, 1024, 1025, 2048, 5000])
def test_int8_matmul_is_exact_at_the_extreme(k: int) -> None:
    # float32 holds sums of 1,024 such products; one more rounds.
    a, b = np.full((3, k), -128, np.int8), np.full((k, 2), -128, np.int8)
    result = kernel_of(MatmulOp, a, b)(a, b)
    assert result.dtype == np.int32
    assert (result == k * 16384).all()


@pytest.mark.parametrize("k", [1025, 3000])
def test_uint8_matmul_is_exact_at_the_extreme(k: int) -> None:
    a, b = np.full((3, k), 255, np.uint8), np.full((k, 2), 255, np.uint8)
    assert (kernel_of(MatmulOp, a, b)(a, b) == k * 65025).all()


@pytest.mark.parametrize("other", [np.int8, np.uint8, np.int16])
@pytest.mark.parametrize("k", [3, 513, 1 << 16])
def test_int16_matmul_is_exact_at_the_extreme(k: int, other: Any) -> None:
    a, b = np.full((3, k), -32768, np.int16), np.full((k, 2), np.iinfo(other).min or 255, other)
    a[1], a[2, ::2] = 32767, 1
    b[0, 1] = 1
    result = kernel_of(MatmulOp, a, b)(a, b)
    assert result.dtype == np.int64
    np.testing.assert_array_equal(result, a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_products_of_small_floats_are_exact(name: str) -> None:
    codes = np.arange(256, dtype=np.uint8).view(np.dtype(name))
    codes = codes[np.isfinite(codes.astype(np.float32))]
    a, b = codes.reshape(-1, 1), codes[::-1].reshape(1, -1)
    result = kernel_of(MatmulOp, a, b)(a, b)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, a.astype(np.float64) * b.astype(np.float64))


def test_int16_conv_is_exact_at_the_extreme() -> None:
    x, w = np.full((1, 200, 5, 5), -32768, np.int16), np.full((2, 200, 3, 3), -128, np.int8)
    block = Block(arg_types=[type_of(x), type_of(w)])
    result = numbers.prepare(ConvOp.of(*block.args, None))(x, w)
    assert result.dtype == np.int64
    assert (result == 1800 << 22).all()


def test_int8_conv_is_exact_at_the_extreme() -> None:
    x, w = np.full((1, 200, 5, 5), -128, np.int8), np.full((2, 200, 3, 3), -128, np.int8)
    block = Block(arg_types=[type_of(x), type_of(w)])
    result = numbers.prepare(ConvOp.of(*block.args, None))(x, w)
    assert (result == 1800 * 16384).all()


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
@pytest.mark.parametrize("high", [100, 60_000, 2**31 - 1])
def test_integer_matmul_equals_numpy(dtype: Any, high: int) -> None:
    rng = np.random.default_rng(0)
    low = 0 if np.dtype(dtype).kind == "u" else -high
    a = rng.integers(low, high, (2, 5, 300)).astype(dtype)
    b = rng.integers(low, high, (300, 7)).astype(dtype)
    np.testing.assert_array_equal(kernel_of(MatmulOp, a, b)(a, b), a @ b)


@pytest.mark.parametrize("transpose_lhs", [False, True])
@pytest.mark.parametrize("transpose_rhs", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, BFLOAT16, np.int8])
def test_transposed_operands(transpose_lhs: bool, transpose_rhs: bool, dtype: Any) -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(-8, 8, (2, 1, 3, 4)).astype(dtype)
    b = rng.integers(-8, 8, (5, 4, 6)).astype(dtype)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    a = a.swapaxes(-1, -2).copy() if transpose_lhs else a
    b = b.swapaxes(-1, -2).copy() if transpose_rhs else b
    flags = {"transpose_lhs": transpose_lhs, "transpose_rhs": transpose_rhs}
    fn = kernel_of(MatmulOp, a, b, **flags)
    result = fn(a, b)
    assert result.dtype == (np.int32 if dtype is np.int8 else dtype)
    np.testing.assert_array_equal(result.astype(np.float64), expected)
    out = np.empty_like(result)
    assert fn(a, b, out=out) is out
    np.testing.assert_array_equal(out, result)


def test_matmul_of_a_strided_view() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((4, 32))[:, ::2], rng.standard_normal((32, 6))[::2, ::3]
    assert_matmul(kernel_of(MatmulOp, a, b)(a, b), a, b)


@pytest.mark.parametrize("shape", [(1, 64, 33), (48, 64, 1), (3, 200, 17), (65, 33, 32)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_rounding_does_not_depend_on_how_matrices_lie_in_memory(
    shape: tuple[int, int, int], dtype: Any
) -> None:
    rng = np.random.default_rng(3)
    m, k, n = shape
    a, b = rng.standard_normal((2, m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    want = kernel_of(MatmulOp, a, b)(a, b)
    turned = b.T.copy()
    for weight in (b, np.asfortranarray(b), np.repeat(b, 2, 1)[:, ::2]):
        for x in (a, np.asfortranarray(a)):
            assert kernel_of(MatmulOp, a, b)(x, weight).tobytes() == want.tobytes()
    got = kernel_of(MatmulOp, a, turned, transpose_rhs=True)(a, turned)
    assert got.tobytes() == want.tobytes()


def test_half_precision_is_rounded_once() -> None:
    a, b = np.full((1, 4096), 1.0, np.float16), np.full((4096, 1), 1.0, np.float16)
    assert kernel_of(MatmulOp, a, b)(a, b)[0, 0] == 4096  # float16 sums stop at 2,048


def test_only_read_only_arrays_are_converted_once() -> None:
    convert, wide = Converted().convert, np.dtype(np.float32)
    weight = np.ones(4, np.float16)
    weight.flags.writeable = False
    assert convert(weight, wide) is convert(weight, wide)
    activation = np.ones(4, np.float16)
    convert(activation, wide)
    activation[:] = 2
    assert (convert(activation, wide) == 2).all()


def test_einsum_in_half_precision() -> None:
    a = np.full((3000, 2), 1.0, np.float16)
    block = Block(arg_types=[type_of(a)])
    result = numbers.prepare(EinsumOp.of(block.args, equation="ij->j"))(a)
    assert result.dtype == np.float16
    assert (result == 3000).all()


def test_work_of_matmul() -> None:
    a, b = np.ones((5, 3, 4), np.float16), np.ones((4, 6), np.float16)
    op = MatmulOp.of(*Block(arg_types=[type_of(a), type_of(b)]).args)
    assert op.work() == Work(5 * 3 * 4 * 6, 0, a.nbytes + b.nbytes, 5 * 3 * 6 * 2)
