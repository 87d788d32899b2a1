"""onnxruntime's GroupQueryAttention: rotary embedding, a cache of keys and values, and attention in
which each key head serves a group of query heads.

Sizes: B batch, N query heads, K key heads, S new tokens, P rows of the cache that comes in, H
elements of a head. Sequence b has seqlens_k[b] + 1 tokens with the new ones, which stand from row
seqlens_k[b] + 1 - S of its cache on (from 0 on for a first prompt, of which only the first
seqlens_k[b] + 1 tokens count). Rows of the cache behind them are not defined.

The cache that goes out has max(P, total_sequence_length) rows. Where that length is known only at
run time, it is taken to be P + S: a cache that grows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.indexing import GatherOp, TensorScatterOp
from ge.dialects.graph.shape import ReshapeOp, UnsqueezeOp
from ge.dialects.graph.slicing import ConcatOp, PadOp, SliceOp, SplitOp
from ge.dialects.support.tensor_op import Param
from ge.dialects.support.types import DYNAMIC, rank_of, shape_of
from ge.lowering.onnx.contrib import ANY, contrib_op
from ge.lowering.onnx.ops.attention import rotate, split_heads, swap_heads
from ge.lowering.onnx.ops.contrib_attention import joined
from ge.lowering.onnx.ops.contrib_positions import as_i64, counted, rows_from, size_of
from ge.lowering.onnx.registry import Node, Unsupported

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
    """Where the new tokens stand. In a cache that grows for one sequence (or is made) this is
    behind `past` rows; else `first` says it for each sequence, [B], and `lengths` the end."""

    past: int | None = None
    first: SSAValue | None = None
    lengths: SSAValue | None = None


def _flat(n: Node) -> Sequence[SSAValue]:
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
    """How many rows the cache that goes out has: as many as come in (0), or that many more; None
    for as many more as there are new tokens, where that is not a number."""
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
    ends = n.emit(e.AddOp, as_i64(n, n.emit(ReshapeOp, n[5], shape=(-1,))), n.const([1]))
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
    return n.emit(e.AddOp, as_i64(n, first), counted(n, n[0], 1))


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
    """What attention is computed of: keys and values [B, K, T, H], and what changes the scores."""

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
    """Which keys a window leaves to each query [B or 1, 1, S, T + 1], of which the first stays."""
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
    query, key, value = _flat(n)
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
