"""onnxruntime's layers of floats: normalizations (with a residual or embeddings before them, or
an activation behind), matmuls, convolutions and pooling (fused with what follows them, or with
channels as the last dimension), and activation functions with the bias that it adds before them."""

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import IntegerAttr, f32, i32
from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph.activation import (
    GeluOp,
    HardSigmoidOp,
    LeakyReluOp,
    ReluOp,
    SigmoidOp,
    SiluOp,
)
from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.creation import FillOp
from ge.dialects.graph.elementwise import AddOp, ClampOp, MulOp, TanhOp
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.normalization import GroupNormOp, LayerNormOp, RmsNormOp
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import ReshapeOp, ShapeOfOp, TransposeOp
from ge.dialects.graph.slicing import SliceOp, SplitOp
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import DYNAMIC, normalize_axis, rank_of, shape_of
from ge.lowering.onnx.ops.layers import conv_params, gemm, multiply, pool_params, scaled
from ge.lowering.onnx.ops.normalization import rms_norm, statistics
from ge.lowering.onnx.registry import ANY, DOMAIN, Node, Unsupported, contrib_op

# op type -> how its gelu is approximated
_GELUS = {"Gelu": "none", "BiasGelu": "none", "FastGelu": "tanh"}


def plus(n: Node, value: SSAValue, addend: SSAValue | None) -> SSAValue:
    """The sum with a bias or residual that may be absent."""
    return value if addend is None else n.emit(AddOp, value, addend)


@contrib_op(*_GELUS)
def gelu(n: Node) -> SSAValue:
    return n.emit(GeluOp, plus(n, n[0], n.get(1)), approximate=_GELUS[n.op_type])


@contrib_op("QuickGelu", alpha=ANY)
def quick_gelu(n: Node) -> SSAValue:
    """x sigmoid(alpha x): silu with a slope."""
    return n.emit(SiluOp, n[0], alpha=n.float("alpha", 1.702))


@contrib_op("BiasAdd")
def bias_add(n: Node) -> SSAValue:
    return n.emit(AddOp, n.emit(AddOp, n[0], n[1]), n[2])


@contrib_op("BiasSplitGelu")
def bias_split_gelu(n: Node) -> SSAValue:
    """The first half of x + bias times the gelu of the second."""
    halves = n.build(SplitOp, n.emit(AddOp, n[0], n[1]), None, axis=-1, results=2).results
    return n.emit(MulOp, halves[0], n.emit(GeluOp, halves[1]))


# name -> the op, and its properties by the order of `activation_params`
_FUSED: dict[str, tuple[type[TensorOp], tuple[str, ...]]] = {
    "Relu": (ReluOp, ()),
    "Tanh": (TanhOp, ()),
    "Sigmoid": (SigmoidOp, ()),
    "LeakyRelu": (LeakyReluOp, ("alpha",)),
    "HardSigmoid": (HardSigmoidOp, ("alpha", "beta")),
}


def activated(n: Node, value: SSAValue, params: list[float]) -> SSAValue:
    """The function of attribute `activation`, with its parameters, of what a fused op computes."""
    name = n.str("activation")
    if not name:
        return value
    if name == "Clip" and len(params) == 2:
        return n.emit(ClampOp, value, n.like(params[0], value), n.like(params[1], value))
    op, names = _FUSED.get(name, (None, ()))
    if op is None or len(params) > len(names):
        known = ", ".join((*_FUSED, "Clip"))
        given = f" with parameters {params}" if params else ""
        raise Unsupported(f"attribute 'activation' is {name!r}{given}, supported are {known}")
    return n.emit(op, value, **dict(zip(names, params, strict=False)))


def _outputs(
    n: Node, total: SSAValue, y: SSAValue, epsilon: float, centered: bool
) -> Sequence[SSAValue | None]:
    """The result, mean and deviation if they are asked for, and the sum that was normalized."""
    deviations: Sequence[SSAValue | None] = (None, None)
    if n.wants(1) or n.wants(2):
        deviations = statistics(n, n.cast(total, f32), (-1,), epsilon, centered)
    return (y, *deviations, total)


@contrib_op("SkipLayerNormalization", epsilon=ANY)
def skip_layer_norm(n: Node) -> Sequence[SSAValue | None]:
    total = plus(n, n.emit(e.AddOp, n[0], n[1]), n.get(4))
    epsilon = n.float("epsilon", 1e-12)
    y = n.emit(LayerNormOp, total, n[2], n.get(3), epsilon=epsilon)
    return _outputs(n, total, y, epsilon, centered=True)


@contrib_op("SkipSimplifiedLayerNormalization", epsilon=ANY)
def skip_rms_norm(n: Node) -> Sequence[SSAValue | None]:
    total = plus(n, n.emit(e.AddOp, n[0], n[1]), n.get(3))
    epsilon = n.float("epsilon", 1e-12)
    y = n.emit(RmsNormOp, total, n[2], epsilon=epsilon)
    return _outputs(n, total, y, epsilon, centered=False)


@contrib_op(
    "SimplifiedLayerNormalization", domains=("", DOMAIN), axis=ANY, epsilon=ANY, stash_type=1
)
def simplified_layer_norm(n: Node) -> SSAValue | Sequence[SSAValue]:
    """RMS norm, which onnxruntime's optimizers write as if it were an op of ONNX."""
    y = rms_norm(n)
    if not n.wants(1):
        return y
    if normalize_axis(n.int("axis", -1), n.rank(0)) != n.rank(0) - 1:
        raise Unsupported("output 1 'inv_std_var' of several axes is not supported")
    rows, epsilon = n.cast(n[0], f32), n.float("epsilon", 1e-5)
    return y, statistics(n, rows, (-1,), epsilon, centered=False)[1]


# ---- embeddings --------------------------------------------------------------------------------


def _positions(n: Node) -> SSAValue:
    """The rows of the table of positions: those of `position_ids`, else the first ones."""
    table, ids = n[3], n.get(8)
    if ids is not None:
        return n.emit(GatherOp, table, ids, axis=0)
    length = n.shape(0)[1]
    if length != DYNAMIC:
        return n.emit(SliceOp, table, starts=(0,), ends=(length,), axes=(0,))
    end = n.emit(ShapeOfOp, n[0], start=1, end=2)
    return n.emit(SliceOp, table, None, end, starts=(0,), axes=(0,))


def _mask_index(n: Node) -> SSAValue:
    """Return how many words of each sequence the mask keeps (elements that are 1); 0 without a
    mask."""
    mask, batch = n.get(7), n.shape(0)[0]
    if mask is None:
        shape = n.emit(ShapeOfOp, n[0], start=0, end=1) if batch == DYNAMIC else None
        fixed = None if batch == DYNAMIC else (batch,)
        return n.emit(FillOp, shape, shape=fixed, value=IntegerAttr(0, i32))
    ones = n.emit(e.CompareOp, mask, n.like(1, mask), predicate="eq")
    counted = n.emit(e.CastOp, ones, to=i32)
    return n.emit(ReduceOp, counted, kind="sum", axes=(1,), keep_dims=False)


@contrib_op(
    "EmbedLayerNormalization",
    ranks=dict.fromkeys((0, 1, 2, 3, 4, 7, 8), (2,)),
    epsilon=ANY, mask_index_type=ANY,
)  # fmt: skip
def embed_layer_norm(n: Node) -> Sequence[SSAValue | None]:
    total = n.emit(e.AddOp, n.emit(GatherOp, n[2], n[0], axis=0), _positions(n))
    if (segments := n.get(1)) is not None:
        total = n.emit(e.AddOp, total, n.emit(GatherOp, n[4], segments, axis=0))
    y = n.emit(LayerNormOp, total, n[5], n[6], epsilon=n.float("epsilon", 1e-12))
    return y, _mask_index(n) if n.wants(1) else None, total


# ---- groups of channels ------------------------------------------------------------------------


def _move_channels(n: Node, x: SSAValue, last: bool) -> SSAValue:
    """Channels as the last dimension, or as the second one."""
    rank = rank_of(x)
    order = (0, *range(2, rank), 1) if last else (0, rank - 1, *range(1, rank - 1))
    return n.emit(TransposeOp, x, permutation=order)


def channels_first(n: Node, x: SSAValue, attribute: str = "", default: int = 1) -> SSAValue:
    """A tensor with channels as the second dimension, where `attribute` says they are the last."""
    last = n.int(attribute, default) if attribute else default
    return _move_channels(n, x, last=False) if last else x


def channels_back(n: Node, y: SSAValue, attribute: str = "", default: int = 1) -> SSAValue:
    """A result in the layout that the op has."""
    last = n.int(attribute, default) if attribute else default
    return _move_channels(n, y, last=True) if last else y


def _group_norm(n: Node, x: SSAValue) -> SSAValue:
    groups, epsilon = n.int("groups"), n.float("epsilon", 1e-5)
    first = channels_first(n, x, "channels_last")
    y = n.emit(GroupNormOp, first, n[1], n[2], groups=groups, epsilon=epsilon)
    if (activation := n.int("activation")) not in (0, 1):
        raise Unsupported(f"attribute 'activation' is {activation}, supported are 0 and 1")
    return channels_back(n, n.emit(SiluOp, y) if activation else y, "channels_last")


@contrib_op(
    "GroupNorm", ranks={0: (3, 4, 5)}, activation=ANY, channels_last=ANY, epsilon=ANY, groups=ANY
)
def group_norm(n: Node) -> SSAValue:
    return _group_norm(n, n[0])


@contrib_op(
    "SkipGroupNorm",
    ranks={0: (4,), 3: (2, 4), 4: (1,)},
    activation=ANY, channels_last=ANY, epsilon=ANY, groups=ANY,
)  # fmt: skip
def skip_group_norm(n: Node) -> Sequence[SSAValue]:
    skip, last = n[3], n.int("channels_last", 1)
    if rank_of(skip) == 2:
        shape = (0, 1, 1, -1) if last else (0, -1, 1, 1)
        skip = n.emit(ReshapeOp, skip, shape=shape)
    bias = n.get(4)
    if bias is not None and not last:
        bias = n.emit(ReshapeOp, bias, shape=(1, -1, 1, 1))
    total = plus(n, n.emit(e.AddOp, n[0], skip), bias)
    return _group_norm(n, total), total


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
