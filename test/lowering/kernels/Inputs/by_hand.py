"""A kernel by hand of a scalar, and one for an op class of ge's own."""

from typing import Any

import ge
from ge import tile
from ge.dialects.graph.normalization import SoftmaxOp


@tile.kernel(M=16)
def softcap(c: Any, x: Any, cap: Any, out: Any, M: int) -> None:
    """out = cap tanh(x / cap)"""
    t, s = c.ub(M, x.shape[1], copies=2), c.ub(1, 1)
    c.load(s, cap[0:])
    for i in c.share(tile.ceil_div(x.shape[0], M)):
        c.load(t[i], x[i * M :], pad=0)
        t[i] = tile.tanh(t[i] / s) * s
        c.store(out[i * M :], t[i])


@ge.register_pass("softcap-by-hand")
def softcap_by_hand(graph: ge.Graph) -> None:
    pattern = ge.Pattern([ge.OpType("Div"), ge.OpType("Tanh"), ge.OpType("Mul")])
    kernel = softcap.returning(lambda x, cap: x)
    graph.apply_pattern(pattern, lambda found: ge.FusedOp("Softcap", kernel=kernel))


@tile.kernel(M=8)
def own_softmax(c: Any, x: Any, out: Any, M: int) -> None:
    t = c.ub(M, x.shape[1], copies=2)
    for i in c.share(tile.ceil_div(x.shape[0], M)):
        c.load(t[i], x[i * M :], pad=0)
        t[i] = tile.exp(t[i] - tile.rowmax(t[i]))
        t[i] = t[i] / tile.rowsum(t[i])
        c.store(out[i * M :], t[i])


@tile.program(SoftmaxOp)
def softmax(op: SoftmaxOp) -> tile.Returning:
    return own_softmax.returning(lambda x: x, cores=3)
