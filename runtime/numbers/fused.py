"""Kernels of fused ops with an algorithm of their own. All others run their body op by op, which is
what the launch computes tile by tile; so they agree with the unfused ops bit for bit."""

from ge.dialects.fused_op import FlashAttentionOp
from ge.dialects.graph.attention import AttentionOp
from ge.runtime.numbers import Fn, kernel
from ge.runtime.numbers.attention import attention, by_tiles


@kernel(AttentionOp, inside=FlashAttentionOp)
def flash_attention(op: AttentionOp) -> Fn:
    """As graph.attention, but with the scores of `KEYS` keys at a time; with more keys than that
    sums have another order. Results differ by at most 4 ULPs of the largest value that a row of
    weights meets, for each tile of keys; not at all with rounded weights."""
    return by_tiles(op) if op.grid("weight") is None else attention(op)
