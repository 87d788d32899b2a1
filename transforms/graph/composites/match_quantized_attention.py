"""Attention whose scores or weights are quantized and dequantized in between.

    %s = graph.matmul %q, %k
    %i = graph.quantize %s, 0.5, 3
    %d = graph.dequantize %i, 0.5, 3
    %p = graph.softmax %d
    %y = graph.matmul %p, %v
becomes
    %y = graph.attention %q, %k, %v score_scale 0.5 score_zero_point 3 : i8

and so with `weight_scale` for what softmax gives; otherwise as match-attention. It comes after
lower-quantization: a product that is computed in integers is no part of attention. Exceptions:
scales along an axis or not known; scores that are quantized after a mask, or multiplied by another
number than a power of two after it; weights of more than `KEYS` keys, as a row of them is rounded
as a whole. Where the scale of scores is moved to the query, some are rounded to a neighbour.
"""

from typing import ClassVar

from xdsl.dialects.func import FuncOp

from ge.transforms.analysis.dimensions import Dimensions
from ge.transforms.graph.composites.match_attention import FindAttention
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.passes import Decibels, FunctionPass, Relation


class MatchQuantizedAttentionPass(FunctionPass):
    """Replace attention with quantized scores or weights by the graph op."""

    name = "match-quantized-attention"
    RELATION: ClassVar[Relation] = Decibels(40)

    def run(self, func: FuncOp) -> None:
        rewrite(func.body, [FindAttention(Dimensions(func.body), quantized=True)])
