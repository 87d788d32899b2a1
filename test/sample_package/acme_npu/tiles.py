"""How launches of `acme.clipped` run on the cores (`--tiles`)."""

from typing import Any

from acme_npu.ops import ClippedOp
from ge import tile


@tile.kernel(ROWS=16, limit=6.0)
def clip(c: Any, x: Any, out: Any, ROWS: int, limit: float) -> None:
    """out = min(|x|, limit), for matrices"""
    t = c.ub(ROWS, x.shape[1], copies=2)
    for i in c.share(tile.ceil_div(x.shape[0], ROWS)):
        c.load(t[i], x[i * ROWS :], pad=0)
        t[i] = tile.minimum(tile.abs(t[i]), limit)
        c.store(out[i * ROWS :], t[i])


def like_operand(x: Any) -> Any:
    return x


@tile.program(ClippedOp)
def clipped(op: ClippedOp) -> tile.Returning:
    return clip.returning(like_operand, limit=op.limit.value.data)
