"""ONNX's matmuls, float and quantized."""

from collections.abc import Sequence

from xdsl.dialects.builtin import f32, f64, i32
from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph.linear import DetOp, EinsumOp, MatmulOp
from ge.dialects.graph.quantization import DequantizeOp, QuantizeOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import SqueezeOp, UnsqueezeOp
from ge.dialects.support.element_types import is_float
from ge.dialects.support.types import DYNAMIC, element_type, is_static, numel, rank_of, shape_of
from ge.lowering.onnx.registry import Node, Unsupported, onnx_op


@onnx_op("MatMul")
def matmul(n: Node) -> SSAValue:
    return multiply(n, n[0], n[1])


def multiply(n: Node, lhs: SSAValue, rhs: SSAValue, transpose_rhs: bool = False) -> SSAValue:
    """numpy's matmul: a vector is a row on the left, a column on the right."""
    vectors: list[int] = []
    if rank_of(lhs) == 1:
        lhs, vectors = n.emit(UnsqueezeOp, lhs, axes=[0]), [-2]
    if rank_of(rhs) == 1:
        rhs, vectors = n.emit(UnsqueezeOp, rhs, axes=[1]), [*vectors, -1]
    result = n.emit(MatmulOp, lhs, rhs, transpose_rhs=transpose_rhs)
    return n.emit(SqueezeOp, result, axes=vectors) if vectors else result


@onnx_op("Gemm")
def gemm(n: Node) -> SSAValue:
    """alpha A' B' + beta C of [M, K], [K, N] and what broadcasts to [M, N]; C may be absent."""
    result = n.emit(
        MatmulOp,
        n[0],
        n[1],
        transpose_lhs=bool(n.int("transA")),
        transpose_rhs=bool(n.int("transB")),
    )
    result = scaled(n, result, n.float("alpha", 1.0))
    addend, beta = n.get(2), n.float("beta", 1.0)
    if addend is None or beta == 0:  # C is not looked at then, as in BLAS: it may be nan
        return result
    return n.emit(e.AddOp, result, scaled(n, addend, beta))


def scaled(n: Node, value: SSAValue, factor: float) -> SSAValue:
    """value * factor; integers times a fraction are truncated."""
    element = element_type(value)
    if factor == 1.0:
        return value
    if is_float(element) or factor.is_integer():
        return n.emit(e.MulOp, value, n.like(factor, value))
    wide = n.emit(e.CastOp, value, to=f64)
    return n.emit(e.CastOp, n.emit(e.MulOp, wide, n.like(factor, wide)), to=element)


@onnx_op("Einsum")
def einsum(n: Node) -> SSAValue:
    return n.emit(EinsumOp, n.tensors(), equation=n.str("equation"))


@onnx_op("Det")
def det(n: Node) -> SSAValue:
    return n.emit(DetOp, n[0])


def zero_point(n: Node, index: int) -> SSAValue | None:
    """Zero point `index`, None where it is absent or 0."""
    known = n.constant(index)
    return None if known is not None and not known.any() else n.get(index)


def along(n: Node, zero: SSAValue, axis: int, rank: int) -> SSAValue:
    """A zero point as i32: its one element, or those of `axis`, broadcast against a tensor."""
    if rank_of(zero) == 1 and shape_of(zero) != (1,) and (after := rank - 1 - axis % rank):
        zero = n.emit(UnsqueezeOp, zero, axes=range(1, after + 1))
    return n.emit(e.CastOp, zero, to=i32)


def centered(n: Node, index: int, zero_index: int, axis: int) -> SSAValue:
    """Input `index` less its zero point, an input with one element or one for each index of
    `axis`; the 8-bit integers themselves where the zero point is 0."""
    value, zero = n[index], zero_point(n, zero_index)
    if zero is None:
        return value
    wide = n.emit(e.CastOp, value, to=i32)
    return n.emit(e.SubOp, wide, along(n, zero, axis, rank_of(value)))


def same_width(n: Node, lhs: SSAValue, rhs: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Both operands as i32 when one of them is."""
    if i32 not in (element_type(lhs), element_type(rhs)):
        return lhs, rhs
    lhs, rhs = (v if element_type(v) == i32 else n.emit(e.CastOp, v, to=i32) for v in (lhs, rhs))
    return lhs, rhs


def sum_of(n: Node, value: SSAValue, axes: Sequence[int], keep_dims: bool = True) -> SSAValue:
    """The sums of integers as i32."""
    wide = n.emit(e.CastOp, value, to=i32)
    return n.emit(ReduceOp, wide, kind="sum", axes=axes, keep_dims=keep_dims)


@onnx_op("MatMulInteger")
def matmul_integer(n: Node) -> SSAValue:
    """(a - x) (b - y) = a b - x (the sums of b - K y) - (the sums of a) y"""
    a, b, rank = n[0], n[1], (n.rank(0), n.rank(1))
    x, y, terms = zero_point(n, 2), zero_point(n, 3), n.shape(0)[-1]
    if min(rank) < 2 or (x is not None and y is not None and terms == DYNAMIC):
        lhs, rhs = centered(n, 0, 2, axis=-2), centered(n, 1, 3, axis=-1)
        return multiply(n, *same_width(n, lhs, rhs))
    result = n.emit(MatmulOp, a, b)
    columns = None if y is None else along(n, y, -1, rank[1])
    if x is not None:
        sums = sum_of(n, b, [rank[1] - 2])
        if columns is not None:
            sums = n.emit(e.SubOp, sums, n.emit(e.MulOp, columns, n.like(terms, columns)))
        result = n.emit(e.SubOp, result, n.emit(e.MulOp, along(n, x, -2, rank[0]), sums))
    if columns is not None:
        rows = n.emit(e.MulOp, sum_of(n, a, [rank[0] - 1]), columns)
        result = n.emit(e.SubOp, result, rows)
    return result


def dequantized(n: Node, index: int, axis: int) -> SSAValue:
    """Quantized input `index`, with scale and zero point the next two inputs, as f32."""
    scale, zero = as_f32(n, n[index + 1]), n.get(index + 2)
    if is_static(shape_of(scale)) and numel(shape_of(scale)) == 1:
        return n.emit(DequantizeOp, n[index], scale, zero)
    if rank_of(scale) != 1 or not rank_of(n[index]):
        raise Unsupported(f"a scale of rank {rank_of(scale)} for a tensor of rank {n.rank(index)}")
    return n.emit(DequantizeOp, n[index], scale, zero, axis=axis % rank_of(n[index]))


def as_f32(n: Node, value: SSAValue) -> SSAValue:
    return value if element_type(value) == f32 else n.emit(e.CastOp, value, to=f32)


def quantized(n: Node, value: SSAValue, index: int) -> SSAValue:
    scale = as_f32(n, n[index])
    return n.emit(QuantizeOp, value, scale, n[index + 1], to=n.element(index + 1))


@onnx_op("QLinearMatMul")
def qlinear_matmul(n: Node) -> SSAValue:
    product = multiply(n, dequantized(n, 0, axis=-2), dequantized(n, 3, axis=-1))
    return quantized(n, product, 6)
