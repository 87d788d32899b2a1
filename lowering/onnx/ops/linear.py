"""ONNX's matmuls, float and quantized."""

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph.linear import DetOp, EinsumOp, MatmulOp
from ge.dialects.graph.quantization import DequantizeOp, QuantizeOp
from ge.dialects.graph.shape import SqueezeOp, UnsqueezeOp
from ge.dialects.support.types import element_type, is_static, numel, rank_of, shape_of
from ge.lowering.onnx.registry import Node, Unsupported, onnx_op


@onnx_op("MatMul")
def matmul(n: Node) -> SSAValue:
    return multiply(n, n[0], n[1])


def multiply(n: Node, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    """numpy's matmul: a vector is a row on the left, a column on the right."""
    vectors: list[int] = []
    if rank_of(lhs) == 1:
        lhs, vectors = n.emit(UnsqueezeOp, lhs, axes=[0]), [-2]
    if rank_of(rhs) == 1:
        rhs, vectors = n.emit(UnsqueezeOp, rhs, axes=[1]), [*vectors, -1]
    result = n.emit(MatmulOp, lhs, rhs)
    return n.emit(SqueezeOp, result, axes=vectors) if vectors else result


@onnx_op("Gemm")
def gemm(n: Node) -> SSAValue:
    result = n.emit(
        MatmulOp,
        n[0],
        n[1],
        transpose_lhs=bool(n.int("transA")),
        transpose_rhs=bool(n.int("transB")),
    )
    result = scaled(n, result, n.float("alpha", 1.0))
    addend = n.get(2)
    if addend is None:
        return result
    return n.emit(e.AddOp, result, scaled(n, addend, n.float("beta", 1.0)))


def scaled(n: Node, value: SSAValue, factor: float) -> SSAValue:
    return value if factor == 1.0 else n.emit(e.MulOp, value, n.like(factor, value))


@onnx_op("Einsum")
def einsum(n: Node) -> SSAValue:
    return n.emit(EinsumOp, n.tensors(), equation=n.str("equation"))


@onnx_op("Det")
def det(n: Node) -> SSAValue:
    return n.emit(DetOp, n[0])


def centered(n: Node, index: int, zero_point: int, axis: int) -> SSAValue:
    """Input `index` less its zero point, an input with one element or one for each index of
    `axis`; the 8-bit integers themselves where the zero point is 0."""
    value, zero = n[index], n.get(zero_point)
    if zero is None or ((known := n.constant(zero_point)) is not None and not known.any()):
        return value
    if rank_of(zero) == 1 and shape_of(zero) != (1,):
        rank = rank_of(value)
        after = rank - 1 - axis % rank
        if after:
            zero = n.emit(UnsqueezeOp, zero, axes=range(1, after + 1))
    wide = n.emit(e.CastOp, value, to=i32)
    return n.emit(e.SubOp, wide, n.emit(e.CastOp, zero, to=i32))


def same_width(n: Node, lhs: SSAValue, rhs: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Both operands as i32 when one of them is."""
    if i32 not in (element_type(lhs), element_type(rhs)):
        return lhs, rhs
    lhs, rhs = (v if element_type(v) == i32 else n.emit(e.CastOp, v, to=i32) for v in (lhs, rhs))
    return lhs, rhs


@onnx_op("MatMulInteger")
def matmul_integer(n: Node) -> SSAValue:
    lhs, rhs = centered(n, 0, 2, axis=-2), centered(n, 1, 3, axis=-1)
    return multiply(n, *same_width(n, lhs, rhs))


def dequantized(n: Node, index: int, axis: int) -> SSAValue:
    """Quantized input `index`, with scale and zero point the next two inputs, as f32."""
    scale, zero_point = as_f32(n, n[index + 1]), n.get(index + 2)
    if is_static(shape_of(scale)) and numel(shape_of(scale)) == 1:
        return n.emit(DequantizeOp, n[index], scale, zero_point)
    if rank_of(scale) != 1:
        raise Unsupported(f"a scale of rank {rank_of(scale)}")
    return n.emit(DequantizeOp, n[index], scale, zero_point, axis=axis % rank_of(n[index]))


def as_f32(n: Node, value: SSAValue) -> SSAValue:
    return value if element_type(value) == f32 else n.emit(e.CastOp, value, to=f32)


def quantized(n: Node, value: SSAValue, index: int) -> SSAValue:
    scale = as_f32(n, n[index])
    return n.emit(QuantizeOp, value, scale, n[index + 1], to=n.element(index + 1))


@onnx_op("QLinearMatMul")
def qlinear_matmul(n: Node) -> SSAValue:
    product = multiply(n, dequantized(n, 0, axis=-2), dequantized(n, 3, axis=-1))
    return quantized(n, product, 6)
