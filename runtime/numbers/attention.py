"""Kernels of attention, its caches and rotary embedding: batched matmuls and softmax in place, in
pieces that stay in the cache; 16-bit floats are computed in float32 and rounded once.

Of fused ops, attention alone has an algorithm of its own. All others run their body op by op, as
the launch computes it tile by tile; so they agree with the unfused ops bit for bit."""

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, cast

import numpy as np

from ge.dialects.fused_op import FlashAttentionOp
from ge.dialects.graph import attention as g
from ge.dialects.graph.attention import AppendOp, AttentionOp
from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import Array, contiguous, widen
from ge.runtime.numbers import Fn, kernel
from ge.runtime.numbers.reduction import row_sums


def in_blocks(table: Array, size: int, rows: range) -> Array:
    """Map row numbers to the places where the rows lie, for `size` rows in blocks whose places a
    table gives. Raises GeError for rows that lie in no block."""
    block = max(size // max(len(table), 1), 1)
    numbers: Array = np.arange(rows.start, rows.stop)
    found: Array = table[numbers // block]
    if not np.all((found >= 0) & (found < len(table))):
        raise GeError(f"rows up to {rows.stop} lie in no block: the table is {table.tolist()}")
    return found * block + numbers % block


@kernel(AppendOp, into=True)
def append(op: AppendOp) -> Fn:
    axis = op.axis.value.data

    def run(
        cache: Array, rows: Array, length: Array, table: Array | None = None,
        out: Array | None = None,
    ) -> Array:  # fmt: skip
        end, size = int(length.item()), cache.shape[axis]
        if not rows.shape[axis] <= end <= size:
            raise GeError(f"{rows.shape[axis]} rows do not end at row {end} of {size}")
        result = np.empty_like(cache, order="C") if out is None else out
        if result.ctypes.data != cache.ctypes.data:
            np.copyto(result, cache)
        where = (slice(None),) * (axis % cache.ndim)
        first = end - rows.shape[axis]
        place = slice(first, end) if table is None else in_blocks(table, size, range(first, end))
        result[(*where, place)] = rows
        return result

    return run


PIECE = 1 << 18  # scores computed at a time

# Batch, key heads, (all) query heads of a key head, and queries.
Piece = tuple[slice, slice, slice, slice]


def pieces(batch: int, key_heads: int, group: int, queries: int, keys: int) -> Iterator[Piece]:
    """Slices of about `PIECE` scores."""
    one = max(1, group * queries * keys)
    heads = max(1, PIECE // one)
    rows = max(1, queries if one <= PIECE else PIECE // (group * keys))
    batches = max(1, PIECE // (one * key_heads)) if heads >= key_heads > 0 else 1
    for b in range(0, batch, batches):
        for h in range(0, key_heads, heads):
            for r in range(0, queries, rows):
                yield (
                    slice(b, b + batches), slice(h, h + heads), slice(None), slice(r, r + rows)
                )  # fmt: skip


def part_of(array: Array, piece: Piece) -> Array:
    return array[
        tuple(s if d > 1 else slice(None) for s, d in zip(piece, array.shape, strict=False))
    ]


def excluded(
    op: g.AttentionLike, shape: tuple[int, ...], lengths: Array | None, offset: Array | None
) -> Array | None:
    """Mask that is true where position alone excludes a key, [B or 1, 1, 1, Q, S]; None when it
    never does."""
    queries, keys = shape[-2:]
    left, right = op.left_window.value.data, op.right_window.value.data
    if op.causal.value.data:
        right = min(right, 0) if right >= 0 else 0
    key = np.arange(keys)
    masks: list[Array] = []
    if left >= 0 or right >= 0:
        known = op.ints("offset")
        if known is not None:
            first = np.asarray(known)
        elif offset is not None:
            first = offset.reshape(1)
        else:
            first = np.zeros(1, np.int64) if lengths is None else lengths - queries
        position = first.reshape(-1, 1, 1, 1, 1) + np.arange(queries)[:, None]
        if left >= 0:
            masks.append(key < position - left)
        if right >= 0:
            masks.append(key > position + right)
    if lengths is not None:
        masks.append(key >= lengths.reshape(-1, 1, 1, 1, 1))
    return reduce(np.logical_or, masks) if masks else None


def heads_first(op: g.AttentionLike, name: str, array: Array) -> Array:
    return array.swapaxes(1, 2) if op.tokens_first(name) else array


def _split_masks(masks: Sequence[Array], key_heads: int, group: int) -> list[Array]:
    result: list[Array] = []
    for mask in masks:
        shape = (*(1,) * (4 - mask.ndim), *mask.shape)
        heads = (key_heads, group) if shape[1] > 1 else (1, 1)
        result.append(mask.reshape(shape[0], *heads, *shape[2:]))
    return result


def check_sizes(op: g.AttentionLike, q: Array, k: Array, masks: Sequence[Array]) -> None:
    """Raises GeError for operands of run-time sizes that do not fit together."""
    scores = (*q.shape[:3], k.shape[2])
    fit = q.shape[0] == k.shape[0] and q.shape[1] % max(k.shape[1], 1) == 0
    for mask in masks:
        pairs = zip(mask.shape[::-1], scores[::-1], strict=False)
        fit = fit and mask.ndim <= 4 and all(d in (1, size) for d, size in pairs)
    if not fit:
        shapes = ", ".join(str(list(x.shape)) for x in (q, k, *masks))
        raise GeError(f"{op.name}: query, key and masks of {shapes} do not fit together")


def check_values(op: g.AttentionLike, k: Array, v: Array) -> None:
    if k.shape[:3] != v.shape[:3]:
        shapes = f"{list(k.shape)} and {list(v.shape)}"
        raise GeError(f"{op.name}: key and value of {shapes} do not fit together")


def round_to(grid: tuple[float, float, float], x: Array) -> None:
    """Quantize and dequantize in place."""
    scale, least, most = grid
    np.divide(x, x.dtype.type(scale), out=x)
    np.rint(x, out=x)
    x.clip(least, most, out=x)
    x *= x.dtype.type(scale)


class Scores:
    """The scores of attention up to a stage, by pieces. Operands have heads first."""

    def __init__(
        self,
        op: g.AttentionLike,
        stage: str,
        q: Array,
        k: Array,
        masks: Sequence[Array],
        lengths: Array | None,
        offset: Array | None,
    ) -> None:
        batch, heads, queries, size = q.shape
        key_heads, keys = k.shape[1:3]
        check_sizes(op, q, k, masks)
        self.sizes = batch, key_heads, heads // max(key_heads, 1), queries, keys
        group = self.sizes[2]
        factor = 1 / math.sqrt(max(size, 1)) if op.scale is None else op.scale.value.data
        self.sums_scale: np.float32 | None = None  # what sums of integers are multiplied by
        if q.dtype.kind == "i":
            exact = np.float32 if size <= 1024 else np.float64
            wide, wide_keys, self.sums_scale = q.astype(exact), k.astype(exact), np.float32(factor)
        else:
            wide, wide_keys = widen(q), widen(k)
            wide = wide * wide.dtype.type(factor)
        self.queries = wide.reshape(batch, key_heads, group, queries, size)
        self.keys = wide_keys[:, :, None].swapaxes(-1, -2)
        self.cap = op.softcap.value.data if stage != "raw" else 0.0
        self.fill = op.fill.value.data
        biased = stage in ("biased", "weights")
        self.excluded = excluded(op, (queries, keys), lengths, offset) if biased else None
        self.masks = _split_masks(masks, key_heads, group) if biased else []
        self.grid = op.grid("score") if isinstance(op, g.AttentionOp) else None
        added = q.dtype.itemsize == 2 and any(m.dtype == q.dtype for m in masks)
        self.narrow = q.dtype if added else None  # the type that low rows are rounded to

    def of(self, piece: Piece, some: slice = slice(None)) -> Array:
        s = np.matmul(self.queries[piece], self.keys[piece[:2]][..., some])
        if self.sums_scale is not None:
            s = s.astype(np.float32, copy=False)
            s *= self.sums_scale
        if self.grid is not None:
            round_to(self.grid, s)
        if self.cap > 0:
            s /= self.cap
            np.tanh(s, out=s)
            s *= self.cap
        for mask in self.masks:
            part = _keys_of(part_of(mask, piece), some)
            if part.dtype == np.bool_:
                np.copyto(s, self.fill, where=~part)
            else:
                s += part
        if self.excluded is not None:
            np.copyto(s, -np.inf, where=_keys_of(part_of(self.excluded, piece), some))
        return s

    def tops(self, s: Array) -> Array:
        """The largest score of each row, as a column; rounds low rows of s."""
        top = s.max(-1, keepdims=True, initial=-np.inf)
        if self.narrow is not None and (low := top[..., 0] < g.LOW).any():
            s[low] = s[low].astype(self.narrow)
            top[low] = s[low].max(-1, keepdims=True, initial=-np.inf)
        return top


def _keys_of(part: Array, some: slice) -> Array:
    return part[..., some] if part.shape[-1] > 1 else part


def _scores(
    op: g.AttentionLike, stage: str, q: Array, k: Array, rest: Sequence[Array | None]
) -> Iterator[tuple[Array, Piece]]:
    """The scores up to `stage` by pieces; for "weights" they are exp(score - max), not yet divided
    by their sums. Operands have heads first; `rest` are masks, lengths and offset."""
    *masks, lengths, offset = rest
    scores = Scores(op, stage, q, k, cast(list[Array], masks), lengths, offset)
    for piece in pieces(*scores.sizes):
        s = scores.of(piece)
        if stage == "weights":
            top = scores.tops(s)
            np.copyto(top, 0, where=top == -np.inf)  # no key takes part
            s -= top
            np.exp(s, out=s)
        yield s, piece


def totals(s: Array, undefined: str) -> Array:
    """The sums of the rows, 1 for rows whose weights shall be 0; sets these to 0."""
    totals = row_sums(s.reshape(-1, s.shape[-1])) if s.size else np.zeros(s.shape[:-1], s.dtype)
    totals = totals.reshape(*s.shape[:-1], 1)
    if undefined == "guard" and (bad := np.isnan(totals[..., 0])).any():
        s[bad] = 0
        totals[bad] = 1
    if undefined != "nan":
        totals[totals == 0] = 1
    return totals


class Running:
    """The softmax of rows whose scores come in pieces, times values: the largest score so far, and
    sums relative to it that are rescaled when a larger one comes (arXiv 1805.02867)."""

    def __init__(self, rounded: bool) -> None:
        self.rounded = rounded
        self.top: Array = np.zeros(0)
        self.total: Array = self.top
        self.result: Array = self.top
        self.empty = True

    def add(self, scores: Array, top: Array, values: Array) -> None:
        """Scores [..., queries, keys], which are overwritten, their largest ones, and values
        [..., keys, size]."""
        if not self.empty:
            top = np.maximum(top, self.top)
        safe = np.where(top == -np.inf, 0, top)  # no key takes part so far
        scores -= safe
        np.exp(scores, out=scores)
        if self.rounded:
            scores *= g.STEPS
            np.rint(scores, out=scores)
        total = row_sums(scores.reshape(-1, scores.shape[-1])).reshape(top.shape)
        result = np.matmul(scores, values)
        if not self.empty:
            factor = np.exp(self.top - safe)
            total += self.total * factor
            result += self.result * factor
        self.top, self.total, self.result, self.empty = top, total, result, False

    def finish(self, undefined: str, values: Array) -> Array:
        """The rows, with `undefined` as in graph.attention."""
        total, result = self.total, self.result
        if undefined == "guard" and (bad := np.isnan(total[..., 0])).any():
            nothing = np.matmul(np.zeros((1, values.shape[-2]), values.dtype), values)
            result[bad] = np.broadcast_to(nothing, result.shape)[bad]
            total[bad] = 1
        if undefined != "nan":
            total[total == 0] = 1
        return result / total


def first_keys(op: g.AttentionOp, k: Array, v: Array, rest: Sequence[Array | None]) -> list[Any]:
    """The operands between query and length, as far as the length goes."""
    *rest, length, table = rest
    if length is None:
        return [k, v, *rest]
    count, keys = int(length.item()), k.shape[op.dimension("key", 2)]
    if not 0 <= count <= keys:
        raise GeError(f"{op.name}: there are {keys} keys, not {count}")
    *masks, lengths, offset = rest
    some = slice(0, count) if table is None else in_blocks(table, keys, range(count))
    k, v = (
        contiguous(x[(slice(None),) * op.dimension(name, 2) + (some,)])
        for name, x in (("key", k), ("value", v))
    )
    cut = [m[..., :count] if m is not None and m.shape[-1] > 1 else m for m in masks]
    return [k, v, *(m if m is None else contiguous(m) for m in cut), lengths, offset]


def by_tiles(op: g.AttentionOp) -> Fn:
    """The kernel that has the scores of `KEYS` keys at a time."""
    undefined, tokens_first = op.undefined.data, op.tokens_first("result")
    rounded, dtype = bool(op.rounded_weights.value.data), np.float32 if op.is_integer else None
    value_scale = None if op.value_scale is None else np.float32(op.value_scale.value.data)

    def run(q: Array, k: Array, v: Array, *rest: Array | None) -> Array:
        k, v, *masks, lengths, offset = first_keys(op, k, v, rest)
        q, k, v = (heads_first(op, n, x) for n, x in zip(("query", "key", "value"), (q, k, v)))
        check_values(op, k, v)
        scores = Scores(op, "weights", q, k, cast(list[Array], masks), lengths, offset)
        batch, key_heads, group, queries, keys = scores.sizes
        values = (v.astype(dtype) if dtype else widen(v))[:, :, None]
        y = np.empty((batch, key_heads, group, queries, v.shape[3]), values.dtype)
        for piece in pieces(batch, key_heads, group, queries, min(keys, g.KEYS)):
            rows = Running(rounded)
            for start in range(0, max(keys, 1), g.KEYS):
                some = slice(start, start + g.KEYS)
                s = scores.of(piece, some)
                rows.add(s, scores.tops(s), values[piece[:2]][..., some, :])
            y[piece] = rows.finish(undefined, values[piece[:2]])
        if value_scale is not None:
            y *= value_scale
        y = y.reshape(batch, key_heads * group, queries, v.shape[3])
        return (y.swapaxes(1, 2) if tokens_first else y).astype(dtype or q.dtype, copy=False)

    return run


@kernel(g.AttentionOp)
def attention(op: g.AttentionOp) -> Fn:
    """The kernel that has the scores of all keys at a time, but for rounded weights."""
    if op.rounded_weights.value.data:
        return by_tiles(op)
    undefined, tokens_first = op.undefined.data, op.tokens_first("result")
    grid = op.grid("weight")

    def run(q: Array, k: Array, v: Array, *rest: Array | None) -> Array:
        k, v, *others = first_keys(op, k, v, rest)
        q, k, v = (heads_first(op, n, x) for n, x in zip(("query", "key", "value"), (q, k, v)))
        check_values(op, k, v)
        batch, heads, queries, _ = q.shape
        key_heads, size = v.shape[1], v.shape[3]
        group = heads // max(key_heads, 1)
        values = widen(v)[:, :, None]
        if tokens_first:
            result = np.empty((batch, queries, key_heads, group, size), values.dtype)
            y = result.transpose(0, 2, 3, 1, 4)
        else:
            y = result = np.empty((batch, key_heads, group, queries, size), values.dtype)
        for s, piece in _scores(op, "weights", q, k, others):
            total = totals(s, undefined)
            if grid is None:
                np.divide(np.matmul(s, values[piece[:2]]), total, out=y[piece])
            else:
                s /= total
                round_to(grid, s)
                y[piece] = np.matmul(s, values[piece[:2]])
        first = (batch, queries, heads) if tokens_first else (batch, heads, queries)
        return result.reshape(*first, size).astype(q.dtype, copy=False)

    return run


@kernel(g.AttentionScoresOp)
def attention_scores(op: g.AttentionScoresOp) -> Fn:
    stage, undefined = op.stage.data, op.undefined.data

    def run(q: Array, k: Array, *rest: Array | None) -> Array:
        q, k = heads_first(op, "query", q), heads_first(op, "key", k)
        (batch, heads, queries, _), (key_heads, keys) = q.shape, k.shape[1:3]
        y = np.empty((batch, key_heads, heads // max(key_heads, 1), queries, keys), q.dtype)
        for s, piece in _scores(op, stage, q, k, rest):
            y[piece] = s / totals(s, undefined) if stage == "weights" else s
        return y.reshape(batch, heads, queries, keys)

    return run


@kernel(g.RotaryEmbeddingOp)
def rotary_embedding(op: g.RotaryEmbeddingOp) -> Fn:
    interleaved, full = bool(op.interleaved.value.data), bool(op.full_tables.value.data)

    def pairs(size: int) -> tuple[Any, Any]:
        if interleaved:
            return np.s_[..., 0:size:2], np.s_[..., 1:size:2]
        return np.s_[..., : size // 2], np.s_[..., size // 2 : size]

    def run(x: Array, cos: Array, sin: Array) -> Array:
        wide, c, s = widen(x), widen(cos), widen(sin)
        size = cos.shape[-1] if full else 2 * cos.shape[-1]
        first, second = pairs(size)
        y = np.empty(x.shape, wide.dtype)
        a, b = wide[first], wide[second]
        (c0, c1), (s0, s1) = ((t[first], t[second]) if full else (t, t) for t in (c, s))
        y[first] = a * c0 - b * s0
        y[second] = a * s1 + b * c1
        y[..., size:] = wide[..., size:]
        return y.astype(x.dtype, copy=False)

    return run


@kernel(AttentionOp, inside=FlashAttentionOp)
def flash_attention(op: AttentionOp) -> Fn:
    """Attention as graph.attention computes it, but with the scores of `KEYS` keys at a time; with
    more keys than that sums have another order. Results differ by at most 4 ULPs of the largest
    value that a row of weights meets, for each tile of keys; not at all with rounded weights."""
    return by_tiles(op) if op.grid("weight") is None else attention(op)
