"""onnxruntime's ops of attention: Attention, MultiHeadAttention, DecoderMaskedMultiHeadAttention,
GroupQueryAttention, RotaryEmbedding, and the numbers of tokens that they count with.

Sizes: B batch, N query heads, K key heads, S queries, P keys of the past (rows of the cache that
comes in), T keys in all, H elements of a head. What a mask leaves out gets `mask_filter_value`
added to its score, as onnxruntime does, and is not left out by position: so a row that is masked
as a whole keeps its weights.

In GroupQueryAttention each key head serves a group of query heads. Sequence b has seqlens_k[b] +
1 tokens with the new ones, which stand from row seqlens_k[b] + 1 - S of its cache on (from 0 on
for a first prompt, of which only the first seqlens_k[b] + 1 tokens count). Rows of the cache
behind them are not defined. The cache that goes out has max(P, total_sequence_length) rows. Where
that length is known only at run time, it is taken to be P + S: a cache that grows."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph.attention import AttentionOp, AttentionScoresOp
from ge.dialects.graph.creation import RangeOp
from ge.dialects.graph.indexing import GatherElementsOp, GatherOp, TensorScatterOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.shape import BroadcastToOp, ReshapeOp, ShapeOfOp, SqueezeOp, UnsqueezeOp
from ge.dialects.graph.slicing import ConcatOp, PadOp, SliceOp, SplitOp
from ge.dialects.support.tensor_op import Param
from ge.dialects.support.types import DYNAMIC, rank_of, shape_of, shape_text
from ge.lowering.onnx.ops.attention import first_position, rotate, split_heads, swap_heads
from ge.lowering.onnx.ops.contrib_layers import plus
from ge.lowering.onnx.registry import ANY, Node, Unsupported, contrib_op


def size_of(n: Node, x: SSAValue, axis: int) -> SSAValue:
    """Return a dimension as i64 [1]: a constant if it is known."""
    size = shape_of(x)[axis]
    return n.const([size]) if size != DYNAMIC else n.emit(ShapeOfOp, x, start=axis, end=axis + 1)


def counted(n: Node, x: SSAValue, axis: int, element: Attribute = i64) -> SSAValue:
    """0, 1, 2, ... for each index of a dimension, as i64 or i32."""
    size = shape_of(x)[axis]
    if size != DYNAMIC:
        return n.const(np.arange(size), element)
    limit = n.emit(SqueezeOp, size_of(n, x, axis), axes=(0,))
    return n.cast(n.emit(RangeOp, n.const(0), limit, n.const(1)), element)


def rows_from(n: Node, table: SSAValue, start: int, x: SSAValue, axis: int) -> SSAValue:
    """Return as many rows of a table, from a known one on, as x has indices of a dimension: [1, S,
    R]."""
    size = shape_of(x)[axis]
    if size == DYNAMIC:
        end = n.emit(e.AddOp, size_of(n, x, axis), n.const([start]))
        rows = n.emit(SliceOp, table, None, end, starts=(start,), axes=(0,))
    else:
        rows = n.emit(SliceOp, table, starts=(start,), ends=(start + size,), axes=(0,))
    return n.emit(UnsqueezeOp, rows, axes=(0,))


def _tables(n: Node, tokens: int) -> list[SSAValue]:
    """Cosines and sines [B or 1, S, R / 2] at the positions of the node: [B, S] of them, or one
    that the first token has. The input has its tokens in dimension `tokens`."""
    positions = n[1]
    if rank_of(positions) == 2:
        return [n.emit(GatherOp, t, positions, axis=0) for t in (n[2], n[3])]
    if (known := n.constant_ints(1)) is not None and len(known) == 1:
        return [rows_from(n, t, known[0], n[0], tokens) for t in (n[2], n[3])]
    places = n.emit(e.AddOp, counted(n, n[0], tokens), n.cast(positions, i64))
    places = n.emit(ReshapeOp, places, shape=(1, -1))
    return [n.emit(GatherOp, t, places, axis=0) for t in (n[2], n[3])]


def _heads(n: Node) -> int:
    """The number of heads of an input [B, S, hidden]: the tables say how large one is, except for
    heads of which a part is rotated."""
    if n.int("rotary_embedding_dim"):
        return n.int("num_heads")
    hidden, pairs = n.shape(0)[2], n.shape(2)[1]
    if DYNAMIC in (hidden, pairs) or not pairs or hidden % (2 * pairs):
        raise Unsupported(f"{hidden} elements do not make heads of {2 * pairs}")
    return hidden // (2 * pairs)


@contrib_op(
    "RotaryEmbedding",
    ranks={0: (3, 4), 1: (1, 2), 2: (2,), 3: (2,)},
    interleaved=ANY, is_packed_batching=ANY, num_heads=ANY, rotary_embedding_dim=ANY, scale=ANY,
)  # fmt: skip
def rotary_embedding(n: Node) -> SSAValue:
    """Of [B, S, N * H], or [B, N, S, H]. onnxruntime reads `scale` and `is_packed_batching`, and
    computes the same with them."""
    flat = n.rank(0) == 3
    cos, sin = _tables(n, 1 if flat else 2)
    x = split_heads(n, n[0], _heads(n)) if flat else n[0]
    y = rotate(n, x, cos, sin, 2 if flat else 1, bool(n.int("interleaved")))
    return n.emit(ReshapeOp, y, shape=(0, 0, -1)) if flat else y


@dataclass(frozen=True)
class Heads:
    """Query [B, N, S, H], key and value [B, N, T, H], of whose tokens `past` come from there.
    `is_self`: they are parts of one tensor, so that the new tokens of all are the same."""

    query: SSAValue
    key: SSAValue
    value: SSAValue
    past: SSAValue | None = None  # the keys of the past, [B, N, P, H]
    is_self: bool = field(default=False, kw_only=True)


def heads_first(n: Node, x: SSAValue) -> SSAValue:
    """[B, S, N * H] as [B, N, S, H]."""
    return swap_heads(n, split_heads(n, x, n.int("num_heads")))


def joined(n: Node, y: SSAValue) -> SSAValue:
    """[B, N, S, H] as [B, S, N * H]."""
    return n.emit(ReshapeOp, swap_heads(n, y), shape=(0, 0, -1))


def parts(n: Node, x: SSAValue, axis: int, count: int) -> Sequence[SSAValue]:
    return n.build(SplitOp, x, None, axis=axis, results=count).results


def with_past(n: Node, heads: Heads, key: SSAValue, value: SSAValue) -> Heads:
    """The same with keys and values of the past before the new ones."""
    joined_key = n.emit(ConcatOp, [key, heads.key], axis=2)
    joined_value = n.emit(ConcatOp, [value, heads.value], axis=2)
    return Heads(heads.query, joined_key, joined_value, key)


# ---- masks -------------------------------------------------------------------------------------


def _within(n: Node, mask: SSAValue, heads: Heads) -> SSAValue:
    """Return which keys [B, T] lie before an end, and at or after a start, that `mask` has for each
    sequence: [B] ends, [2 B] ends and then starts, or [3 B + 2] of which the ends count."""
    batch, count = shape_of(heads.query)[0], shape_of(mask)[0]
    places = counted(n, heads.key, 2, i32)
    if count == 3 * batch + 2 > 2:  # the ends, then where sequences begin in a packed batch
        mask, count = n.emit(SliceOp, mask, starts=(0,), ends=(batch,), axes=(0,)), batch
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
    """Return what input `index` adds to the scores: [B] or [2 B] limits of the keys, or elements
    that are 0 where a key is left out, [B, T], [B, S, T] or [B, 1, M, M]. None if it changes
    nothing."""
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


def _last_sees_all(n: Node, heads: Heads) -> SSAValue:
    """Return which keys each query of a cross attention [S, T] sees in order: the last one all."""
    queries, keys = counted(n, heads.query, 2), counted(n, heads.key, 2)
    rows = n.emit(UnsqueezeOp, queries, axes=(1,))
    before = n.emit(e.CompareOp, keys, rows, predicate="le")
    last = n.emit(e.SubOp, size_of(n, heads.query, 2), n.const([1]))
    return n.emit(e.OrOp, before, n.emit(e.CompareOp, rows, last, predicate="eq"))


def attended(n: Node, heads: Heads, mask: int, bias: int, scores: int) -> Sequence[SSAValue | None]:
    """The result [B, S, N * H] and, if output `scores` is wanted, what softmax is applied to. The
    inputs `mask` and `bias` change the scores."""
    found = (n.get(bias), padding_mask(n, mask, heads))
    masks = tuple(m for m in found if m is not None)
    # As onnxruntime has it, one query sees all keys: it is the last of them
    queries, keys = shape_of(heads.query)[2], shape_of(heads.key)[2]
    causal = bool(n.int("unidirectional")) and queries != 1
    are_as_many = heads.is_self or queries == keys != DYNAMIC
    if causal and heads.past is None and not are_as_many:
        seen = _last_sees_all(n, heads)
        low = n.like(float("-inf"), heads.query)
        masks = (*masks, n.emit(e.SelectOp, seen, n.like(0, heads.query), low))
        causal = False
    offset_value, offset = first_position(n, heads.past) if causal else (None, None)
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
    return Heads(*(heads_first(n, x) for x in split), is_self=True)


@contrib_op(
    "Attention",
    absent={6: "past_sequence_length"},
    ranks={0: (3,), 1: (2,), 2: (1,), 4: (5,), 5: (4,)},
    do_rotary=0, mask_filter_value=ANY, num_heads=ANY, past_present_share_buffer=0,
    qkv_hidden_sizes=ANY, rotary_embedding_dim=0, scale=ANY, unidirectional=ANY,
)  # fmt: skip
def attention(n: Node) -> Sequence[SSAValue | None]:
    packed = plus(n, n.emit(MatmulOp, n[0], n[1]), n.get(2))
    return self_attention(n, packed, n.get(4), mask=3, bias=5)


# ---- MultiHeadAttention ------------------------------------------------------------------------


def _unpacked(n: Node, x: SSAValue, count: int) -> Sequence[SSAValue]:
    """[B, S, N, count, H] as `count` tensors [B, S, N * H]."""
    return [n.emit(ReshapeOp, p, shape=(0, 0, -1)) for p in parts(n, x, 3, count)]


def _flat(n: Node) -> Sequence[SSAValue]:
    """Query, key and value as [B, S, N * H]; key and value of cross attention unchanged."""
    if n.rank(0) == 5:
        return _unpacked(n, n[0], 3)
    if n.rank(1) == 5:
        return [n[0], *_unpacked(n, n[1], 2)]
    return n[0], n[1], n[2]


def _biased(n: Node, flat: Sequence[SSAValue], bias: SSAValue | None) -> Sequence[SSAValue]:
    """Add a bias to all three, except key and value [B, N, T, H], which come out of a cache and
    have it."""
    if bias is None:
        return flat
    if rank_of(flat[1]) == 4:
        size = shape_of(flat[0])[-1]
        own = n.emit(SliceOp, bias, starts=(0,), ends=(size,), axes=(0,))
        return [n.emit(e.AddOp, flat[0], own), *flat[1:]]
    sizes = [shape_of(x)[-1] for x in flat]
    if DYNAMIC in sizes:
        raise Unsupported("a bias for hidden sizes that are known only at run time")
    split = n.build(SplitOp, bias, None, axis=0, sizes=sizes, results=3).results
    return [n.emit(e.AddOp, x, b) for x, b in zip(flat, split, strict=True)]


def _in_buffer(
    n: Node, heads: Heads, past: int, length: SSAValue
) -> tuple[Heads, Sequence[SSAValue]]:
    """New keys and values behind the first `length` (one number) of buffers, which are the inputs
    `past` and the next; and the buffers with them."""
    first = n.emit(BroadcastToOp, n.cast(length, i64), size_of(n, heads.query, 0))
    end = n.emit(e.AddOp, n.cast(length, i64), size_of(n, heads.key, 2))
    buffers = [
        n.emit(TensorScatterOp, n[past + i], new, first)
        for i, new in enumerate((heads.key, heads.value))
    ]
    begin, keys, values = (
        n.emit(SliceOp, x, None, to, starts=(0,), axes=(2,))
        for x, to in ((n[past], n.cast(length, i64)), *((b, end) for b in buffers))
    )
    return Heads(heads.query, keys, values, begin), buffers


@contrib_op(
    "MultiHeadAttention",
    absent={9: "cache_indirection"},
    ranks={0: (3, 5), 1: (3, 4, 5), 2: (3, 4), 3: (1,), 5: (4,), 6: (4,), 7: (4,)},
    mask_filter_value=ANY, num_heads=ANY, scale=ANY, unidirectional=ANY,
)  # fmt: skip
def multi_head_attention(n: Node) -> Sequence[SSAValue | None]:
    flat = _biased(n, _flat(n), n.get(3))
    own = (x if rank_of(x) == 4 else heads_first(n, x) for x in flat)
    heads = Heads(*own, is_self=n.rank(0) == 5)
    past, presents = n.get(6), None
    if past is not None and (length := n.get(8)) is not None:
        heads, presents = _in_buffer(n, heads, 6, length)
    elif past is not None:
        heads = with_past(n, heads, past, n[7])
    mask = n.get(4)
    known = () if mask is None else shape_of(mask)
    if len(known) == 2 and past is not None and _are_new(n, known[1], heads):
        raise Unsupported("a mask of the new keys alone, beside a past, is not supported")
    y, scores = attended(n, heads, mask=4, bias=5, scores=3)
    return y, *(presents or (heads.key, heads.value)), scores


def _are_new(n: Node, count: int, heads: Heads) -> bool:
    keys = shape_of(heads.key)[2]
    return DYNAMIC not in (count, keys) and count not in (1, keys)


# ---- DecoderMaskedMultiHeadAttention -----------------------------------------------------------


def _of_beams(n: Node, heads: Heads, beams: SSAValue) -> Heads:
    """Keys and values of the past from the beam that `beams` [B / beams, beams, M] has for each
    of them, among those of the same sequence."""
    count = shape_of(beams)[1]
    if count == DYNAMIC or heads.past is None:
        raise Unsupported("the number of beams is known only at run time")
    rows = counted(n, heads.query, 0)
    column = n.emit(UnsqueezeOp, rows, axes=(1,))
    leader = n.emit(e.SubOp, column, n.emit(e.ModOp, column, n.const(count)))
    shape = n.emit(ConcatOp, [size_of(n, heads.query, 0), n.const([-1])], axis=0)
    chosen = n.emit(ReshapeOp, n.cast(beams, i64), shape)
    chosen = n.emit(SliceOp, chosen, None, size_of(n, heads.key, 2), starts=(0,), axes=(1,))
    is_new = n.emit(
        e.CompareOp, counted(n, heads.key, 2), size_of(n, heads.past, 2), predicate="ge"
    )
    source = n.emit(e.SelectOp, is_new, column, n.emit(e.AddOp, leader, chosen))
    source = n.emit(UnsqueezeOp, source, axes=(1, 3))

    def gathered(x: SSAValue) -> SSAValue:
        shape = n.emit(ConcatOp, [size_of(n, x, i) for i in range(4)], axis=0)
        return n.emit(GatherElementsOp, x, n.emit(BroadcastToOp, source, shape), axis=0)

    return Heads(heads.query, gathered(heads.key), gathered(heads.value), heads.past)


@contrib_op(
    "DecoderMaskedMultiHeadAttention",
    ranks={0: (3,), 1: (3, 4), 2: (3, 4), 3: (2,), 4: (4,), 5: (4,), 6: (4,), 9: (3,), 10: (1,)},
    mask_filter_value=ANY, num_heads=ANY, output_qk=ANY, past_present_share_buffer=ANY, scale=ANY,
)  # fmt: skip
def decoder_masked_attention(n: Node) -> Sequence[SSAValue | None]:
    """Of one new token: beside the keys of a buffer, or of another sequence (cross attention)."""
    flat = _biased(n, (n[0], n[1], n[2]), n.get(10))
    heads = Heads(*(x if rank_of(x) == 4 else heads_first(n, x) for x in flat))
    presents: Sequence[SSAValue] = heads.key, heads.value
    if rank_of(flat[1]) == 3:
        if not n.int("past_present_share_buffer") or n.get(5) is None or n.get(7) is None:
            raise Unsupported("a past is supported in a buffer, with its 'past_sequence_length'")
        heads, presents = _in_buffer(n, heads, 5, n[7])
        if (beams := n.get(9)) is not None and shape_of(beams)[1] != 1:
            heads = _of_beams(n, heads, beams)
    y, scores = attended(n, heads, mask=3, bias=4, scores=3)
    return y, *presents, scores


_ABSENT = {
    12: "k_scale", 13: "v_scale", 14: "q_norm_weight", 15: "k_norm_weight", 16: "query_seqlens",
}  # fmt: skip

_RANKS = {
    0: (3,),
    1: (3,),
    2: (3,),
    3: (4,),
    4: (4,),
    7: (2,),
    8: (2,),
    9: (2,),
    10: (4,),
    11: (1,),
}


@dataclass(frozen=True)
class Cache:
    """The place of new tokens in a cache. In a cache that grows for one sequence (or is made) this
    is behind `past` rows; else `first` says it for each sequence, [B], and `lengths` the end."""

    past: int | None = None
    first: SSAValue | None = None
    lengths: SSAValue | None = None


def _grouped(n: Node) -> Sequence[SSAValue]:
    """Query [B, S, N * H], key and value [B, S, K * H]."""
    if n.get(1) is not None:
        return n[0], n[1], n[2]
    heads, groups, width = n.int("num_heads"), n.int("kv_num_heads"), n.shape(0)[2]
    if width == DYNAMIC or width % (heads + 2 * groups):
        raise Unsupported(f"{width} elements are no query, key and value of {heads} + 2 * {groups}")
    size = width // (heads + 2 * groups)
    sizes = (heads * size, groups * size, groups * size)
    return n.build(SplitOp, n[0], None, axis=2, sizes=sizes, results=3).results


def _total(n: Node) -> int | None:
    """The length of the longest sequence with the new tokens, if it is known."""
    total = n.constant_ints(6)
    if total is None:
        return None
    if len(total) != 1:
        raise Unsupported(f"input 6 'total_sequence_length' has {len(total)} elements, not one")
    return total[0]


def _past(n: Node) -> SSAValue | None:
    """The keys of the cache that comes in; None for one without rows."""
    past = n.get(3)
    return None if past is None or shape_of(past)[2] == 0 else past


def _rows(n: Node, past: SSAValue) -> int | None:
    """Return how many rows longer the cache that goes out is than the one that comes in (0: equal);
    None for as many more as there are new tokens, if that is not a number."""
    total, before, new = _total(n), shape_of(past)[2], n.shape(0)[1]
    if total is not None and before != DYNAMIC:
        return max(total - before, 0)
    return None if new == DYNAMIC else new


def _cache(n: Node) -> Cache:
    past, new = _past(n), n.shape(0)[1]
    if past is None:
        return Cache(past=0)
    before = shape_of(past)[2]
    if n.shape(0)[0] == 1 and DYNAMIC not in (before, new) and _rows(n, past) == new:
        return Cache(past=before)
    ends = n.emit(e.AddOp, n.cast(n.emit(ReshapeOp, n[5], shape=(-1,)), i64), n.const([1]))
    tokens = size_of(n, n[0], 1)
    ends = n.emit(e.MaximumOp, ends, tokens)  # of a first prompt, all tokens are in the cache
    return Cache(first=n.emit(e.SubOp, ends, tokens), lengths=ends)


def _present(n: Node, cache: Cache, index: int, new: SSAValue) -> SSAValue:
    """The cache `index` with the new rows [B, K, S, H] in it."""
    if _past(n) is None:
        return new
    past = n[index]
    if cache.first is None:
        return n.emit(ConcatOp, [past, new], axis=2)
    more = _rows(n, past)
    if more != 0:
        pads = (
            n.emit(ConcatOp, [n.const([0]), size_of(n, new, 2)], axis=0) if more is None else None
        )
        past = n.emit(PadOp, past, pads, pads=None if more is None else (0, more), axes=(2,))
    return n.emit(TensorScatterOp, past, new, cache.first)


# ---- positions ---------------------------------------------------------------------------------


def _places(n: Node, cache: Cache) -> SSAValue:
    """The position of each new token, i64 [S] or [B, S]."""
    places = counted(n, n[0], 1)
    if cache.first is not None:
        return n.emit(e.AddOp, n.emit(UnsqueezeOp, cache.first, axes=(1,)), places)
    return n.emit(e.AddOp, places, n.const([cache.past])) if cache.past else places


def _given_places(n: Node) -> SSAValue | None:
    """The positions [B or 1, S] that the node has as an input. Of a first prompt's, onnxruntime
    reads the first and counts on."""
    ids, total, new = n.get(9), _total(n), n.shape(0)[1]
    is_first = _past(n) is None or (total is not None and total == new)
    if ids is None or not is_first:
        return ids
    first = n.emit(SliceOp, ids, starts=(0, 0), ends=(1, 1), axes=(0, 1))
    return n.emit(e.AddOp, n.cast(first, i64), counted(n, n[0], 1))


def _rotated(n: Node, cache: Cache, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
    """Query and key [B, S, heads, H], turned by their positions if the node says so."""
    if not n.int("do_rotary"):
        return values
    ids = _given_places(n)
    if ids is None and cache.past is not None:
        cos, sin = (rows_from(n, n[i], cache.past, n[0], 1) for i in (7, 8))
    else:
        ids = _places(n, cache) if ids is None else ids
        cos, sin = (n.emit(GatherOp, n[i], ids, axis=0) for i in (7, 8))
    interleaved = bool(n.int("rotary_interleaved"))
    return [rotate(n, x, cos, sin, 2, interleaved) for x in values]


# ---- the core ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class GroupedAttentionScores:
    """Inputs of attention scores: keys and values [B, K, T, H], and what changes the scores."""

    key: SSAValue
    value: SSAValue
    cache: Cache
    masks: tuple[SSAValue, ...] = ()
    window: int = -1  # keys that a query sees, with its own


def _with_sink(n: Node, scores: GroupedAttentionScores) -> GroupedAttentionScores:
    """A key of zeros before all others, whose score is 0 or what `head_sink` has for each head: it
    takes its share of the weights, and its value is 0."""
    front = {"pads": (1, 0), "axes": (2,)}
    key, value = (n.emit(PadOp, x, **front) for x in (scores.key, scores.value))
    masks = tuple(n.emit(PadOp, m, pads=(1, 0), axes=(3,)) for m in scores.masks)
    if (sinks := n.get(11)) is not None:
        is_sink = n.emit(e.CompareOp, counted(n, key, 2), n.const(0), predicate="eq")
        of_head = n.emit(ReshapeOp, sinks, shape=(1, -1, 1, 1))
        masks = (*masks, n.emit(e.SelectOp, is_sink, of_head, n.like(0, sinks)))
    cache = scores.cache
    if cache.lengths is not None:
        cache = replace(cache, lengths=n.emit(e.AddOp, cache.lengths, n.const([1])))
    else:
        cache = replace(cache, past=(cache.past or 0) + 1)
    if scores.window > 0:
        masks = (*masks, _window_mask(n, scores, key))
    return GroupedAttentionScores(key, value, cache, masks)


def _window_mask(n: Node, scores: GroupedAttentionScores, key: SSAValue) -> SSAValue:
    """Return which keys a window leaves to each query [B or 1, 1, S, T + 1], of which the first
    stays."""
    places = counted(n, key, 2)
    least = n.emit(e.AddOp, _places(n, scores.cache), n.const([2 - scores.window]))
    least = n.emit(UnsqueezeOp, least, axes=(-1,))
    inside = n.emit(e.CompareOp, places, least, predicate="ge")
    first = n.emit(e.CompareOp, places, n.const(0), predicate="eq")
    keep = n.emit(e.OrOp, inside, first)
    return n.emit(UnsqueezeOp, keep, axes=(1,) if rank_of(keep) == 3 else (0, 1))


def _cut(n: Node, scores: GroupedAttentionScores) -> GroupedAttentionScores:
    """The first keys of a longer cache, where the bias has columns for these alone."""
    keys = shape_of(scores.key)[2]
    known = min((shape_of(m)[3] for m in scores.masks), default=keys)
    if DYNAMIC in (known, keys) or known >= keys:
        return scores
    part = {"starts": (0,), "ends": (known,), "axes": (2,)}
    key, value = (n.emit(SliceOp, x, **part) for x in (scores.key, scores.value))
    return replace(scores, key=key, value=value)


def _attended(n: Node, query: SSAValue, scores: GroupedAttentionScores) -> SSAValue:
    causal = bool(n.int("causal", 1))
    cache = scores.cache
    params: dict[str, Param] = {
        "causal": causal,
        "offset": cache.past if causal or scores.window > 0 else None,
        "left_window": scores.window - 1 if scores.window > 0 else -1,
        "scale": n.float("scale") or None,
        "softcap": n.float("softcap"),
    }
    k, v = scores.key, scores.value
    y = n.emit(AttentionOp, query, k, v, scores.masks, cache.lengths, None, **params)
    return joined(n, y)


@contrib_op(
    "GroupQueryAttention",
    absent=_ABSENT, unwanted={3: "output_qk"}, ranks=_RANKS,
    causal=ANY, do_rotary=ANY, k_norm_epsilon=ANY, k_quant_type="NONE", kv_cache_bit_width=ANY,
    kv_num_heads=ANY, local_window_size=ANY, num_heads=ANY, q_norm_epsilon=ANY,
    qk_norm_epsilon=ANY, qk_output=ANY, rotary_interleaved=ANY, scale=ANY, sliding_window_cache=0,
    smooth_softmax=ANY, softcap=ANY, v_quant_type="NONE",
)  # fmt: skip
def group_query_attention(n: Node) -> Sequence[SSAValue]:
    query, key, value = _grouped(n)
    groups = n.int("kv_num_heads")
    split = [split_heads(n, query, n.int("num_heads")), split_heads(n, key, groups)]
    cache = _cache(n)
    turned = [swap_heads(n, x) for x in _rotated(n, cache, split)]
    new = turned[1], swap_heads(n, split_heads(n, value, groups))
    presents = [_present(n, cache, 3 + i, x) for i, x in enumerate(new)]
    bias = n.get(10)
    window = n.int("local_window_size", -1)
    scores = GroupedAttentionScores(
        presents[0], presents[1], cache, () if bias is None else (bias,), window
    )
    scores = _cut(n, scores)
    if n.int("smooth_softmax", -1) == 1 or n.get(11) is not None:
        scores = _with_sink(n, scores)
    return _attended(n, turned[0], scores), *presents
