"""Kernels of fused ops with an algorithm of their own. All others run their body op by op, which is
what the launch computes tile by tile; so they agree with the unfused ops bit for bit."""

from typing import cast

import numpy as np

from ge.dialects.fused_op import FlashAttentionOp
from ge.dialects.graph.attention import AttentionOp
from ge.runtime.data.arrays import Array
from ge.runtime.kernels import Fn, kernel
from ge.runtime.kernels.attention import Scores, check_values, heads_first, pieces
from ge.runtime.kernels.normalization import row_sums, widen

KEYS = 512  # keys that a tile of queries meets at a time


class Running:
    """The softmax of rows whose scores come in pieces, times values: the largest score so far, and
    sums relative to it that are rescaled when a larger one comes (arXiv 1805.02867)."""

    def __init__(self) -> None:
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


@kernel(AttentionOp, inside=FlashAttentionOp)
def flash_attention(op: AttentionOp) -> Fn:
    """As graph.attention, but with the scores of `KEYS` keys at a time; with more keys than that
    sums have another order. Results differ by at most 4 ULPs of the largest value that a row of
    weights meets, for each tile of keys."""
    undefined, tokens_first = op.undefined.data, op.tokens_first("result")

    def run(q: Array, k: Array, v: Array, *rest: Array | None) -> Array:
        *masks, lengths, offset = rest
        q, k, v = (heads_first(op, n, x) for n, x in zip(("query", "key", "value"), (q, k, v)))
        check_values(op, k, v)
        scores = Scores(op, "weights", q, k, cast(list[Array], masks), lengths, offset)
        batch, key_heads, group, queries, keys = scores.sizes
        values = widen(v)[:, :, None]
        y = np.empty((batch, key_heads, group, queries, v.shape[3]), values.dtype)
        for piece in pieces(batch, key_heads, group, queries, min(keys, KEYS)):
            rows = Running()
            for start in range(0, max(keys, 1), KEYS):
                some = slice(start, start + KEYS)
                s = scores.of(piece, some)
                rows.add(s, scores.tops(s), values[piece[:2]][..., some, :])
            y[piece] = rows.finish(undefined, values[piece[:2]])
        y = y.reshape(batch, key_heads * group, queries, v.shape[3])
        return (y.swapaxes(1, 2) if tokens_first else y).astype(q.dtype, copy=False)

    return run
