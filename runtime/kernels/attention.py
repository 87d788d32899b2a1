"""Kernels of attention and rotary embedding: batched matrix products and softmax in place, in
pieces that stay in the cache; 16-bit floats are computed in float32 and rounded once."""

import math
from collections.abc import Callable, Iterator

import numpy as np

from ge.dialects.graph import attention as g
from ge.runtime.arrays import Array
from ge.runtime.kernels import Fn, kernel
from ge.runtime.kernels.normalization import row_sums, widen

PIECE = 1 << 18
"""Scores computed at a time."""

Piece = tuple[slice, slice, slice, slice]
"""Batch, key heads, (all) query heads of a key head, and queries."""


def pieces(batch: int, key_heads: int, group: int, queries: int, keys: int) -> Iterator[Piece]:
    """The whole of the scores, cut into pieces of about `PIECE` elements."""
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


def _of(array: Array, piece: Piece) -> Array:
    """The part of a mask [B, K, G, Q, S] for a piece; dimensions of 1 broadcast."""
    return array[
        tuple(s if d > 1 else slice(None) for s, d in zip(piece, array.shape, strict=False))
    ]


def excluded(
    op: g.AttentionLike, shape: tuple[int, ...], lengths: Array | None, offset: Array | None
) -> Array | None:
    """Where position alone keeps a key out, [B or 1, 1, 1, Q, S]; None when it never does."""
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
    result: Array | None = None
    for m in masks:
        result = m if result is None else result | m
    return result


def _scores(op: g.AttentionLike, stage: str, use: Callable[[Array, Piece], None]) -> Fn:
    """A function that computes the scores up to `stage` and gives them to `use` by pieces; for
    "weights" they are exp(score - max) and `use` divides."""
    given, cap = op.scale, op.softcap.value.data

    @np.errstate(invalid="ignore")  # infinite scores
    def run(
        q: Array, k: Array, mask: Array | None, lengths: Array | None, offset: Array | None
    ) -> None:
        batch, heads, queries, size = q.shape
        key_heads, keys = k.shape[1:3]
        group = heads // max(key_heads, 1)
        factor = 1 / math.sqrt(size) if given is None else given.value.data
        wide = widen(q)
        wide = (wide * wide.dtype.type(factor)).reshape(batch, key_heads, group, queries, size)
        turned = widen(k)[:, :, None].swapaxes(-1, -2)
        biased = stage in ("biased", "weights")
        out = excluded(op, (queries, keys), lengths, offset) if biased else None
        bias = None
        if mask is not None and biased:
            shape = (*(1,) * (4 - mask.ndim), *mask.shape)
            split = (key_heads, group) if shape[1] > 1 else (1, 1)
            bias = mask.reshape(shape[0], *split, *shape[2:])
        for piece in pieces(batch, key_heads, group, queries, keys):
            s = np.matmul(wide[piece], turned[piece[:2]])
            if cap > 0 and stage != "raw":
                s /= cap
                np.tanh(s, out=s)
                s *= cap
            if bias is not None:
                part = _of(bias, piece)
                if part.dtype == np.bool_:
                    np.copyto(s, -np.inf, where=~part)
                else:
                    s += part
            if out is not None:
                np.copyto(s, -np.inf, where=_of(out, piece))
            if stage == "weights":
                top = s.max(-1, keepdims=True, initial=-np.inf)
                np.copyto(top, 0, where=top == -np.inf)  # no key takes part
                s -= top
                np.exp(s, out=s)
            use(s, piece)

    return run


def _totals(s: Array) -> Array:
    """The sums of the rows, 1 where no key takes part."""
    totals = row_sums(s.reshape(-1, s.shape[-1])) if s.size else np.zeros(s.shape[:-1], s.dtype)
    totals[totals == 0] = 1
    return totals.reshape(*s.shape[:-1], 1)


@kernel(g.AttentionOp)
def attention(op: g.AttentionOp) -> Fn:
    def run(
        q: Array, k: Array, v: Array, mask: Array | None = None,
        lengths: Array | None = None, offset: Array | None = None,
    ) -> Array:  # fmt: skip
        batch, heads, queries, _ = q.shape
        key_heads, size = v.shape[1], v.shape[3]
        values = widen(v)[:, :, None]
        shape = (batch, key_heads, heads // max(key_heads, 1), queries, size)
        y = np.empty(shape, values.dtype)

        def use(s: Array, piece: Piece) -> None:
            part = np.matmul(s, values[piece[:2]])
            np.divide(part, _totals(s), out=y[piece])

        _scores(op, "weights", use)(q, k, mask, lengths, offset)
        return y.reshape(batch, heads, queries, size).astype(q.dtype, copy=False)

    return run


@kernel(g.AttentionScoresOp)
def attention_scores(op: g.AttentionScoresOp) -> Fn:
    stage = op.stage.data

    def run(
        q: Array, k: Array, mask: Array | None = None,
        lengths: Array | None = None, offset: Array | None = None,
    ) -> Array:  # fmt: skip
        (batch, heads, queries, _), (key_heads, keys) = q.shape, k.shape[1:3]
        y = np.empty((batch, key_heads, heads // max(key_heads, 1), queries, keys), q.dtype)

        def use(s: Array, piece: Piece) -> None:
            y[piece] = s / _totals(s) if stage == "weights" else s

        _scores(op, stage, use)(q, k, mask, lengths, offset)
        return y.reshape(batch, heads, queries, keys)

    return run


@kernel(g.RotaryEmbeddingOp)
def rotary_embedding(op: g.RotaryEmbeddingOp) -> Fn:
    interleaved = bool(op.interleaved.value.data)

    def run(x: Array, cos: Array, sin: Array) -> Array:
        wide, c, s = widen(x), widen(cos), widen(sin)
        half = cos.shape[-1]
        if interleaved:
            first, second = np.s_[..., 0 : 2 * half : 2], np.s_[..., 1 : 2 * half : 2]
        else:
            first, second = np.s_[..., :half], np.s_[..., half : 2 * half]
        y = np.empty(x.shape, wide.dtype)
        a, b = wide[first], wide[second]
        y[first] = a * c - b * s
        y[second] = a * s + b * c
        y[..., 2 * half :] = wide[..., 2 * half :]
        return y.astype(x.dtype, copy=False)

    return run
