"""onnxruntime's matmuls, convolutions and pooling of floats: fused with what follows them, or with
channels as the last dimension."""

from typing import cast

from xdsl.ir import SSAValue

from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.graph.shape import TransposeOp
from ge.dialects.support.tensor_op import Param
from ge.dialects.support.types import rank_of, shape_of
from ge.lowering.onnx.contrib import ANY, contrib_op
from ge.lowering.onnx.ops.contrib_activation import activated, plus
from ge.lowering.onnx.ops.contrib_normalization import channels_back, channels_first
from ge.lowering.onnx.ops.convolution import conv_params, window_params
from ge.lowering.onnx.ops.linear import gemm, multiply, scaled
from ge.lowering.onnx.registry import Node, Unsupported

WINDOW = dict.fromkeys(("auto_pad", "dilations", "kernel_shape", "pads", "strides"), ANY)


def _batch_first(n: Node, index: int, flag: str) -> SSAValue:
    """An operand whose first dimension, as `flag` says, belongs behind those of the batch."""
    value, rank = n[index], n.rank(index)
    if not n.int(flag) or rank < 3:
        return value
    return n.emit(TransposeOp, value, permutation=(*range(1, rank - 1), 0, rank - 1))


@contrib_op(
    "FusedMatMul", "TransposeMatMul", alpha=ANY, transA=ANY, transB=ANY, transBatchA=ANY,
    transBatchB=ANY,
)  # fmt: skip
def fused_matmul(n: Node) -> SSAValue:
    """alpha op(A) op(B); vectors are not transposed."""
    lhs, rhs = _batch_first(n, 0, "transBatchA"), _batch_first(n, 1, "transBatchB")
    flags = {
        "transpose_lhs": bool(n.int("transA")) and rank_of(lhs) > 1,
        "transpose_rhs": bool(n.int("transB")) and rank_of(rhs) > 1,
    }
    if min(rank_of(lhs), rank_of(rhs)) > 1:
        product = n.emit(MatmulOp, lhs, rhs, **flags)
    else:
        lhs, rhs = (
            _swapped(n, v) if flag else v
            for v, flag in zip((lhs, rhs), flags.values(), strict=True)
        )
        product = multiply(n, lhs, rhs)
    return scaled(n, product, n.float("alpha", 1.0))


def _swapped(n: Node, value: SSAValue) -> SSAValue:
    rank = rank_of(value)
    order = (*range(rank - 2), rank - 1, rank - 2)
    return n.emit(TransposeOp, value, permutation=order)


@contrib_op(
    "FusedGemm", activation=ANY, activation_alpha=ANY, activation_beta=ANY, activation_gamma=ANY,
    alpha=ANY, beta=ANY, transA=ANY, transB=ANY,
)  # fmt: skip
def fused_gemm(n: Node) -> SSAValue:
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    return activated(n, gemm(n), [n.float(name) for name in names if name in n.attributes])


# ---- windows -----------------------------------------------------------------------------------


def _params(n: Node) -> list[float]:
    values = n.attribute("activation_params")
    if values is not None and not isinstance(values, list):
        raise Unsupported(f"attribute 'activation_params' is {values!r}, expected numbers")
    return [float(v) for v in cast("list[float]", values or [])]


def _fused_conv(
    n: Node, x: SSAValue, weight: SSAValue, residual: SSAValue | None = None
) -> SSAValue:
    """Convolution with channels first, plus a residual, and the activation behind both."""
    params = conv_params(n, weight, shape_of(x)[2:])
    y = plus(n, n.emit(ConvOp, x, weight, n.get(2), **params), residual)
    return activated(n, y, _params(n))


@contrib_op("FusedConv", activation=ANY, activation_params=ANY, group=ANY, **WINDOW)
def fused_conv(n: Node) -> SSAValue:
    return _fused_conv(n, n[0], n[1], n.get(3))


@contrib_op("NhwcConv", group=ANY, **WINDOW)
def nhwc_conv(n: Node) -> SSAValue:
    """Channels last, in the weight too."""
    x, weight = (channels_first(n, v) for v in (n[0], n[1]))
    return channels_back(n, _fused_conv(n, x, weight))


@contrib_op("NhwcFusedConv", activation=ANY, activation_params=ANY, group=ANY, **WINDOW)
def nhwc_fused_conv(n: Node) -> SSAValue:
    """Channels last, but for the weight."""
    residual = n.get(3)
    if residual is not None:
        residual = channels_first(n, residual)
    return channels_back(n, _fused_conv(n, channels_first(n, n[0]), n[1], residual))


@contrib_op("NhwcMaxPool", ceil_mode=ANY, **WINDOW)
def nhwc_max_pool(n: Node) -> SSAValue:
    x = channels_first(n, n[0])
    return channels_back(n, n.emit(PoolOp, x, kind="max", **pool_params(n, x)))


def pool_params(n: Node, x: SSAValue) -> dict[str, Param]:
    """The properties of pooling over x, whose channels come first."""
    kernel = n.ints("kernel_shape")
    ceil_mode = bool(n.int("ceil_mode")) and n.str("auto_pad", "NOTSET") == "NOTSET"
    return {**window_params(n, kernel, shape_of(x)[2:]), "kernel": kernel, "ceil_mode": ceil_mode}
