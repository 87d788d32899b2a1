"""onnxruntime's normalizations: with a residual before them, embeddings before that, or an
activation behind."""

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, f32, i32
from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph import normalization as g
from ge.dialects.graph.activation import SiluOp
from ge.dialects.graph.creation import FillOp
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import ReshapeOp, ShapeOfOp, TransposeOp
from ge.dialects.graph.slicing import SliceOp
from ge.dialects.support.types import DYNAMIC, element_type, normalize_axis, rank_of
from ge.lowering.onnx.contrib import ANY, DOMAIN, contrib_op
from ge.lowering.onnx.ops.contrib_activation import plus
from ge.lowering.onnx.ops.normalization import rms_norm
from ge.lowering.onnx.registry import Node, Unsupported


def _statistics(n: Node, x: SSAValue, epsilon: float, centered: bool) -> tuple[SSAValue, SSAValue]:
    """Mean, and 1 / standard deviation, of the rows in f32; with `centered` off the mean counts as
    0 in the deviation."""
    wide = x if element_type(x) == f32 else n.emit(e.CastOp, x, to=f32)
    mean = n.emit(ReduceOp, wide, kind="mean", axes=(-1,), keep_dims=True)
    rest = n.emit(e.SubOp, wide, mean) if centered else wide
    square = n.emit(e.MulOp, rest, rest)
    variance = n.emit(ReduceOp, square, kind="mean", axes=(-1,), keep_dims=True)
    root = n.emit(e.SqrtOp, n.emit(e.AddOp, variance, n.like(epsilon, variance)))
    return mean, n.emit(e.ReciprocalOp, root)


def _outputs(
    n: Node, total: SSAValue, y: SSAValue, epsilon: float, centered: bool
) -> Sequence[SSAValue | None]:
    """The result, mean and deviation if they are asked for, and the sum that was normalized."""
    statistics: Sequence[SSAValue | None] = (None, None)
    if n.wants(1) or n.wants(2):
        statistics = _statistics(n, total, epsilon, centered)
    return (y, *statistics, total)


@contrib_op("SkipLayerNormalization", epsilon=ANY)
def skip_layer_norm(n: Node) -> Sequence[SSAValue | None]:
    total = plus(n, n.emit(e.AddOp, n[0], n[1]), n.get(4))
    epsilon = n.float("epsilon", 1e-12)
    y = n.emit(g.LayerNormOp, total, n[2], n.get(3), epsilon=epsilon)
    return _outputs(n, total, y, epsilon, centered=True)


@contrib_op("SkipSimplifiedLayerNormalization", epsilon=ANY)
def skip_rms_norm(n: Node) -> Sequence[SSAValue | None]:
    total = plus(n, n.emit(e.AddOp, n[0], n[1]), n.get(3))
    epsilon = n.float("epsilon", 1e-12)
    y = n.emit(g.RmsNormOp, total, n[2], epsilon=epsilon)
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
    return y, _statistics(n, n[0], n.float("epsilon", 1e-5), centered=False)[1]


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
    """How many words of each sequence the mask keeps (elements that are 1); 0 without a mask."""
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
    y = n.emit(g.LayerNormOp, total, n[5], n[6], epsilon=n.float("epsilon", 1e-12))
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
    """Norm and activation of x as the node has it."""
    groups, epsilon = n.int("groups"), n.float("epsilon", 1e-5)
    first = channels_first(n, x, "channels_last")
    y = n.emit(g.GroupNormOp, first, n[1], n[2], groups=groups, epsilon=epsilon)
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
