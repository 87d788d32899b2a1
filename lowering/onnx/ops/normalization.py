"""ONNX's softmax family and normalizations. Statistics that are rarely asked for (outputs for
training) are computed beside the op that normalizes."""

from onnx import TensorProto
from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph.normalization import (
    BatchNormOp,
    GroupNormOp,
    LayerNormOp,
    RmsNormOp,
)
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import BroadcastToOp, ReshapeOp, ShapeOfOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import DYNAMIC, element_type, normalize_axis
from ge.lowering.onnx.forms import FORMS
from ge.lowering.onnx.model import element_of_onnx
from ge.lowering.onnx.registry import Node, Unsupported, onnx_op


@onnx_op("Softmax", "LogSoftmax", "Hardmax")
def softmax(n: Node) -> SSAValue:
    """Before opset 13 the input was a matrix: `axis` and all axes after it made the rows."""
    old, rank = n.opset < 13, n.rank(0)
    axis = n.int("axis", 1 if old else -1)
    flatten = old and normalize_axis(axis, rank) != rank - 1
    return n.emit(FORMS[n.op_type].op, n[0], axis=axis, flatten=flatten)


def _mean(n: Node, x: SSAValue, axes: tuple[int, ...], keep_dims: bool = True) -> SSAValue:
    return n.emit(ReduceOp, x, kind="mean", axes=axes, keep_dims=keep_dims)


def _mean_square(n: Node, x: SSAValue, axes: tuple[int, ...], keep_dims: bool = True) -> SSAValue:
    return _mean(n, n.emit(e.MulOp, x, x), axes, keep_dims)


def statistics(
    n: Node, x: SSAValue, axes: tuple[int, ...], epsilon: float, centered: bool = True
) -> tuple[SSAValue, SSAValue]:
    """Mean, and 1 / standard deviation; with `centered` off the mean counts as 0 in the latter."""
    mean = _mean(n, x, axes)
    variance = _mean_square(n, n.emit(e.SubOp, x, mean) if centered else x, axes)
    deviation = n.emit(e.SqrtOp, n.emit(e.AddOp, variance, n.like(epsilon, variance)))
    return mean, n.emit(e.ReciprocalOp, deviation)


@onnx_op("LayerNormalization")
def layer_norm(n: Node) -> SSAValue | tuple[SSAValue, ...]:
    axis, epsilon = n.int("axis", -1), n.float("epsilon", 1e-5)
    y = n.emit(LayerNormOp, n[0], n[1], n.get(2), axis=axis, epsilon=epsilon)
    if not (n.wants(1) or n.wants(2)):
        return y
    axes = tuple(range(normalize_axis(axis, n.rank(0)), n.rank(0)))
    x = n.cast(n[0], element_of_onnx(n.int("stash_type", TensorProto.FLOAT)))
    return (y, *statistics(n, x, axes, epsilon))


@onnx_op("RMSNormalization")
def rms_norm(n: Node) -> SSAValue:
    """The result has the type of `scale`; the wider of the two types is computed in."""
    x, scale = n[0], n[1]
    to = element_type(scale)
    if bitwidth(to) > bitwidth(element_type(x)):
        x = n.cast(x, to)
    scale = n.cast(scale, element_type(x))
    axis, epsilon = n.int("axis", -1), n.float("epsilon", 1e-5)
    return n.cast(n.emit(RmsNormOp, x, scale, axis=axis, epsilon=epsilon), to)


def _channels(n: Node) -> int:
    if n.rank(0) < 2:
        raise Unsupported("the input has no channels")
    return n.shape(0)[1]


def _by_channel(n: Node, index: int, groups: int) -> SSAValue:
    """Scale or bias of a group norm; before opset 21 it had one element for each group."""
    value, channels = n[index], _channels(n)
    if n.opset >= 21 or channels == groups:
        return value
    column = n.emit(ReshapeOp, value, shape=(groups, 1))
    spread = n.emit(BroadcastToOp, column, shape=(groups, channels // groups))
    return n.emit(ReshapeOp, spread, shape=(channels,))


@onnx_op("GroupNormalization")
def group_norm(n: Node) -> SSAValue:
    groups, epsilon = n.int("num_groups"), n.float("epsilon", 1e-5)
    if n.opset < 21 and _channels(n) == DYNAMIC:  # what each group has is one channel of it
        x = n.emit(ReshapeOp, n[0], shape=(0, groups, -1))
        y = n.emit(GroupNormOp, x, n[1], n[2], groups=groups, epsilon=epsilon)
        return n.emit(ReshapeOp, y, n.emit(ShapeOfOp, n[0]))
    scale, bias = (_by_channel(n, i, groups) for i in (1, 2))
    return n.emit(GroupNormOp, n[0], scale, bias, groups=groups, epsilon=epsilon)


@onnx_op("InstanceNormalization")
def instance_norm(n: Node) -> SSAValue:
    channels, epsilon = max(_channels(n), *n.shape(1)), n.float("epsilon", 1e-5)
    if channels == DYNAMIC:
        ones = (1,) * (n.rank(0) - 2)
        scale, bias = (n.emit(ReshapeOp, n[i], shape=(-1, *ones)) for i in (1, 2))
        return n.emit(LayerNormOp, n[0], scale, bias, axis=2, epsilon=epsilon)
    return n.emit(GroupNormOp, n[0], n[1], n[2], groups=channels, epsilon=epsilon)


@onnx_op("BatchNormalization")
def batch_norm(n: Node) -> tuple[SSAValue | None, ...]:
    """Before opset 14 who named more than one output asked for training."""
    asked = any(map(n.wants, range(1, len(n.proto.output))))
    return batch_normalized(n, bool(n.int("training_mode")) if n.opset >= 14 else asked)


def batch_normalized(n: Node, training: bool) -> tuple[SSAValue | None, ...]:
    """Normalize with the statistics that are given, or in training with those of the batch, and
    return also what becomes of the given ones."""
    epsilon = n.float("epsilon", 1e-5)
    if not n.int("spatial", 1):
        raise Unsupported("statistics for each place (spatial=0) are not supported")
    if not training:
        y = n.emit(BatchNormOp, *n.tensors(), epsilon=epsilon)
        return (y, None, None, None, None)  # old models name outputs of training
    x = n.cast(n[0], n.element(3))
    axes = (0, *range(2, n.rank(0)))
    mean = _mean(n, x, axes, keep_dims=False)
    centered = n.emit(e.SubOp, x, _mean(n, x, axes))
    variance = _mean_square(n, centered, axes, keep_dims=False)
    y = n.emit(BatchNormOp, n[0], n[1], n[2], mean, variance, epsilon=epsilon)
    momentum = n.float("momentum", 0.9)

    def running(old: SSAValue, new: SSAValue) -> SSAValue:
        decayed = n.emit(e.MulOp, old, n.like(momentum, old))
        return n.emit(e.AddOp, decayed, n.emit(e.MulOp, new, n.like(1 - momentum, new)))

    return (y, running(n[3], mean), running(n[4], variance), mean, variance)


@onnx_op("LpNormalization")
def lp_norm(n: Node) -> SSAValue:
    """x / norm; 0 where the norm is 0."""
    kind = {1: "l1", 2: "l2"}.get(n.int("p", 2))
    if kind is None:
        raise Unsupported(f"p is 1 or 2, not {n.int('p', 2)}")
    norm = n.emit(ReduceOp, n[0], kind=kind, axes=(n.int("axis", -1),), keep_dims=True)
    zero = n.emit(e.CompareOp, norm, n.like(0, norm), predicate="eq")
    return n.emit(e.DivOp, n[0], n.emit(e.SelectOp, zero, n.like(1, norm), norm))


@onnx_op("MeanVarianceNormalization")
def mean_variance_norm(n: Node) -> SSAValue:
    return mean_variance_normalized(n, n.distinct(n.ints("axes", (0, 2, 3))))


def mean_variance_normalized(n: Node, axes: tuple[int, ...], divides: bool = True) -> SSAValue:
    """Input 0 around its mean, and divided by its deviation."""
    centered = n.emit(e.SubOp, n[0], _mean(n, n[0], axes))
    if not divides:
        return centered
    deviation = n.emit(e.SqrtOp, _mean_square(n, centered, axes))
    return n.emit(e.DivOp, centered, n.emit(e.AddOp, deviation, n.like(1e-9, deviation)))
