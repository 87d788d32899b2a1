"""onnxruntime's Attention, MultiHeadAttention and DecoderMaskedMultiHeadAttention.

Sizes: B batch, N heads, S queries, P keys of the past, T keys in all, H elements of a head. What a
mask leaves out gets `mask_filter_value` added to its score, as onnxruntime does, and is not left
out by position: so a row that is masked as a whole keeps its weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph.attention import AttentionOp, AttentionScoresOp
from ge.dialects.graph.indexing import GatherElementsOp, TensorScatterOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.shape import BroadcastToOp, ReshapeOp, ShapeOfOp, SqueezeOp, UnsqueezeOp
from ge.dialects.graph.slicing import ConcatOp, SliceOp, SplitOp
from ge.dialects.support.tensor_op import Param
from ge.dialects.support.types import DYNAMIC, rank_of, shape_of, shape_text
from ge.lowering.onnx.contrib import ANY, contrib_op
from ge.lowering.onnx.ops.attention import split_heads, swap_heads
from ge.lowering.onnx.ops.contrib_activation import plus
from ge.lowering.onnx.ops.contrib_positions import as_i64, counted, size_of
from ge.lowering.onnx.registry import Node, Unsupported


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


def _last_sees_all(n: Node, heads: Heads) -> SSAValue:
    """Which keys each query of a cross attention [S, T] sees in order: the last one all."""
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
    return Heads(*(heads_first(n, x) for x in split), is_self=True)


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
    """With a bias for all three; key and value [B, N, T, H], which come out of a cache, have it."""
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
    first = n.emit(BroadcastToOp, as_i64(n, length), size_of(n, heads.query, 0))
    end = n.emit(e.AddOp, as_i64(n, length), size_of(n, heads.key, 2))
    buffers = [
        n.emit(TensorScatterOp, n[past + i], new, first)
        for i, new in enumerate((heads.key, heads.value))
    ]
    begin, keys, values = (
        n.emit(SliceOp, x, None, to, starts=(0,), axes=(2,))
        for x, to in ((n[past], as_i64(n, length)), *((b, end) for b in buffers))
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
    chosen = n.emit(ReshapeOp, as_i64(n, beams), shape)
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
