"""onnxruntime's Attention and MultiHeadAttention.

Sizes: B batch, N heads, S queries, P keys of the past, T keys in all, H elements of a head. What a
mask leaves out gets `mask_filter_value` added to its score, as onnxruntime does, and is not left
out by position: so a row that is masked as a whole keeps its weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph.attention import AttentionOp, AttentionScoresOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.shape import ReshapeOp, ShapeOfOp, SqueezeOp, UnsqueezeOp
from ge.dialects.graph.slicing import ConcatOp, SliceOp, SplitOp
from ge.dialects.support.inference import Param
from ge.dialects.support.types import DYNAMIC, rank_of, shape_of, shape_text
from ge.lowering.onnx.contrib import ANY, contrib_op
from ge.lowering.onnx.ops.attention import split_heads, swap_heads
from ge.lowering.onnx.ops.contrib_activation import plus
from ge.lowering.onnx.ops.contrib_positions import counted, size_of
from ge.lowering.onnx.registry import Node, Unsupported


@dataclass(frozen=True)
class Heads:
    """Query [B, N, S, H], key and value [B, N, T, H], of whose tokens `past` come from there."""

    query: SSAValue
    key: SSAValue
    value: SSAValue
    past: SSAValue | None = None  # the keys of the past, [B, N, P, H]


def heads_first(n: Node, x: SSAValue) -> SSAValue:
    """[B, S, N * H] as [B, N, S, H]."""
    return swap_heads(n, split_heads(n, x, n.int("num_heads")))


def joined(n: Node, y: SSAValue) -> SSAValue:
    """[B, N, S, H] as [B, S, N * H]."""
    return n.emit(ReshapeOp, swap_heads(n, y), shape=(0, 0, -1))


def parts(n: Node, x: SSAValue, axis: int, count: int) -> Sequence[SSAValue]:
    """`count` equal parts along an axis."""
    return n.build(SplitOp, x, None, axis=axis, results=count).results


def with_past(n: Node, heads: Heads, key: SSAValue, value: SSAValue) -> Heads:
    """The same with keys and values of the past before the new ones."""
    joined_key = n.emit(ConcatOp, [key, heads.key], axis=2)
    joined_value = n.emit(ConcatOp, [value, heads.value], axis=2)
    return Heads(heads.query, joined_key, joined_value, key)


# ---- masks -------------------------------------------------------------------------------------


def _within(n: Node, mask: SSAValue, heads: Heads) -> SSAValue:
    """Which keys [B, T] lie before an end, and at or after a start, that `mask` has for each
    sequence: [B] ends, or [2 B] ends and then starts."""
    batch, count = shape_of(heads.query)[0], shape_of(mask)[0]
    places = counted(n, heads.key, 2, i32)
    if DYNAMIC in (batch, count) or count == batch:
        return n.emit(e.CompareOp, places, n.emit(UnsqueezeOp, mask, axes=(1,)), predicate="lt")
    if count != 2 * batch:
        raise Unsupported(f"a mask of {count} elements for {batch} sequences is not supported")
    rows = n.emit(ReshapeOp, mask, shape=(2, -1, 1))
    end, start = (n.emit(SqueezeOp, p, axes=(0,)) for p in parts(n, rows, 0, 2))
    before = n.emit(e.CompareOp, places, end, predicate="lt")
    return n.emit(e.AndOp, before, n.emit(e.CompareOp, places, start, predicate="ge"))


def _square(n: Node, mask: SSAValue, heads: Heads) -> SSAValue:
    """The rows of the queries and the columns of the keys of a mask [B, 1, M, M]."""
    begin = n.const([0]) if heads.past is None else size_of(n, heads.past, 2)
    end = n.emit(e.AddOp, begin, size_of(n, heads.query, 2))
    rows = n.emit(SliceOp, mask, begin, end, axes=(2,))
    return n.emit(SliceOp, rows, None, size_of(n, heads.key, 2), starts=(0,), axes=(3,))


def padding_mask(n: Node, index: int, heads: Heads) -> SSAValue | None:
    """What input `index` adds to the scores: [B] or [2 B] limits of the keys, or elements that are
    0 where a key is left out, [B, T], [B, S, T] or [B, 1, M, M]. None where it says nothing."""
    mask = n.get(index)
    if mask is None:
        return None
    rank, shape = rank_of(mask), shape_of(mask)
    if rank == 2 and shape[1] == 1 and shape_of(heads.key)[2] != 1:
        return None  # one number for all keys of a sequence: the same is added to each score
    if rank == 1:
        keep = _within(n, mask, heads)
    elif 2 <= rank <= 4:
        mask = _square(n, mask, heads) if rank == 4 else mask
        keep = n.emit(e.CompareOp, mask, n.like(0, mask), predicate="gt")
    else:
        raise Unsupported(f"a mask of shape {shape_text(shape)} is not supported")
    if rank < 4:
        keep = n.emit(UnsqueezeOp, keep, axes=(1,) if rank == 3 else (1, 2))
    left_out = n.float("mask_filter_value", -10000.0)
    query = heads.query
    return n.emit(e.SelectOp, keep, n.like(0, query), n.like(left_out, query))


# ---- the core ----------------------------------------------------------------------------------


def _offset(n: Node, heads: Heads) -> tuple[SSAValue | None, int | None]:
    """The first query's position among the keys, as operand or number."""
    if heads.past is None:
        return None, 0
    length = shape_of(heads.past)[2]
    if length == DYNAMIC:
        return n.emit(ShapeOfOp, heads.past, start=2, end=3), None
    return None, length


def attended(n: Node, heads: Heads, mask: int, bias: int, scores: int) -> Sequence[SSAValue | None]:
    """The result [B, S, N * H] and, if output `scores` is wanted, what softmax is applied to. The
    inputs `mask` and `bias` change the scores."""
    found = (n.get(bias), padding_mask(n, mask, heads))
    masks = tuple(m for m in found if m is not None)
    # As onnxruntime has it, one query sees all keys: it is the last of them
    causal = bool(n.int("unidirectional")) and shape_of(heads.query)[2] != 1
    offset_value, offset = _offset(n, heads) if causal else (None, None)
    params: dict[str, Param] = {
        "causal": causal,
        "offset": offset,
        "scale": n.float("scale") or None,
        "undefined": "nan",
    }
    q, k, v = heads.query, heads.key, heads.value
    y = n.emit(AttentionOp, q, k, v, masks, None, offset_value, **params)
    if not n.wants(scores):
        return joined(n, y), None
    stage = n.emit(AttentionScoresOp, q, k, masks, None, offset_value, stage="biased", **params)
    return joined(n, y), stage


# ---- Attention ---------------------------------------------------------------------------------


def self_attention(
    n: Node, packed: SSAValue, past: SSAValue | None, mask: int, bias: int
) -> Sequence[SSAValue | None]:
    """The result, and the present if it is wanted, for query, key and value [B, S, hidden sizes] of
    one matmul; past and present have keys first, then values."""
    heads = _split(n, packed)
    if past is not None:
        key, value = (n.emit(SqueezeOp, p, axes=(0,)) for p in parts(n, past, 0, 2))
        heads = with_past(n, heads, key, value)
    y, _ = attended(n, heads, mask, bias, scores=2)
    if not n.wants(1):
        return (y,)
    both = [n.emit(UnsqueezeOp, x, axes=(0,)) for x in (heads.key, heads.value)]
    return y, n.emit(ConcatOp, both, axis=0)


def _split(n: Node, packed: SSAValue) -> Heads:
    total = shape_of(packed)[-1]
    sizes = n.ints("qkv_hidden_sizes", ())
    if not sizes and total % 3 == 0:
        sizes = (total // 3,) * 3
    if len(sizes) != 3 or sum(sizes) != total:
        raise Unsupported(f"{total} columns of weights are no query, key and value {list(sizes)}")
    split = n.build(SplitOp, packed, None, axis=2, sizes=sizes, results=3).results
    return Heads(*(heads_first(n, x) for x in split))


@contrib_op(
    "Attention",
    absent={6: "past_sequence_length"},
    ranks={0: (3,), 1: (2,), 2: (1,), 4: (5,), 5: (4,)},
    do_rotary=0, mask_filter_value=ANY, num_heads=ANY, past_present_share_buffer=0,
    qkv_hidden_sizes=ANY, rotary_embedding_dim=0, scale=ANY, unidirectional=ANY,
)  # fmt: skip
def attention(n: Node) -> Sequence[SSAValue | None]:
    """Projections and attention."""
    packed = plus(n, n.emit(MatmulOp, n[0], n[1]), n.get(2))
    return self_attention(n, packed, n.get(4), mask=3, bias=5)


# ---- MultiHeadAttention ------------------------------------------------------------------------


def _unpacked(n: Node, x: SSAValue, count: int) -> Sequence[SSAValue]:
    """[B, S, N, count, H] as `count` tensors [B, S, N * H]."""
    return [n.emit(ReshapeOp, p, shape=(0, 0, -1)) for p in parts(n, x, 3, count)]


def _flat(n: Node) -> Sequence[SSAValue]:
    """Query, key and value as [B, S, N * H]; key and value of cross attention as they are."""
    if n.rank(0) == 5:
        return _unpacked(n, n[0], 3)
    if n.rank(1) == 5:
        return [n[0], *_unpacked(n, n[1], 2)]
    return n[0], n[1], n[2]


def _biased(n: Node, flat: Sequence[SSAValue], bias: SSAValue | None) -> Sequence[SSAValue]:
    if bias is None:
        return flat
    if rank_of(flat[1]) == 4:
        raise Unsupported("input 3 'bias' with key and value [B, N, T, H] is not supported")
    sizes = [shape_of(x)[-1] for x in flat]
    if DYNAMIC in sizes:
        raise Unsupported("a bias for hidden sizes that are known only at run time")
    split = n.build(SplitOp, bias, None, axis=0, sizes=sizes, results=3).results
    return [n.emit(e.AddOp, x, b) for x, b in zip(flat, split, strict=True)]


@contrib_op(
    "MultiHeadAttention",
    absent={8: "past_sequence_length", 9: "cache_indirection"},
    ranks={0: (3, 5), 1: (3, 4, 5), 2: (3, 4), 3: (1,), 5: (4,), 6: (4,), 7: (4,)},
    mask_filter_value=ANY, num_heads=ANY, scale=ANY, unidirectional=ANY,
)  # fmt: skip
def multi_head_attention(n: Node) -> Sequence[SSAValue | None]:
    flat = _biased(n, _flat(n), n.get(3))
    heads = Heads(*(x if rank_of(x) == 4 else heads_first(n, x) for x in flat))
    if (past := n.get(6)) is not None:
        heads = with_past(n, heads, past, n[7])
    mask = n.get(4)
    known = () if mask is None else shape_of(mask)
    if len(known) == 2 and past is not None and _are_new(n, known[1], heads):
        raise Unsupported("a mask of the new keys alone, beside a past, is not supported")
    y, scores = attended(n, heads, mask=4, bias=5, scores=3)
    return y, heads.key, heads.value, scores


def _are_new(n: Node, count: int, heads: Heads) -> bool:
    keys = shape_of(heads.key)[2]
    return DYNAMIC not in (count, keys) and count not in (1, keys)
