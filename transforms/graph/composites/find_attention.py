"""Attention is recognized, narrowed and laid out: three passes in a row, the last two twice, as a
cast may hide a transpose and a transpose a cast.

    %t = graph.transpose %k                              [B, H, S, D] -> [B, H, D, S]
    %s = graph.matmul %q, %t
    %p = graph.softmax %s
    %y = graph.matmul %p, %v
    %z = graph.transpose %y                              -> [B, S, H, D]
becomes
    %z = graph.attention %q, %k, %v result_tokens_first true
"""

from typing import ClassVar

from xdsl.passes import ModulePass

from ge.transforms.graph.composites.absorb_attention_layout import AbsorbAttentionLayoutPass
from ge.transforms.graph.composites.match_attention import MatchAttentionPass
from ge.transforms.graph.composites.narrow_computation import NarrowComputationPass
from ge.transforms.rewriting.passes import PassSequence, Relation, Ulps


class FindAttentionPass(PassSequence):
    """Replace attention that is written out by the graph op (match-attention), without casts around
    it (narrow-computation), and let the op read and write heads and tokens in the order in which
    they lie in memory (absorb-attention-layout)."""

    name = "find-attention"
    RELATION: ClassVar[Relation] = Ulps()

    def parts(self) -> tuple[ModulePass, ...]:
        layout = NarrowComputationPass(), AbsorbAttentionLayoutPass()
        return MatchAttentionPass(), *layout, *layout
