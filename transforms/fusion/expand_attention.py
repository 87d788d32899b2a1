"""Attention whose smallest tiles do not fit on a core, as two matmuls and a softmax.

    %y = graph.attention %q, %k, %v mask %m         heads of 3136 elements
becomes
    %0 = graph.transpose %k permutation [0, 1, 3, 2]
    %1 = graph.matmul %q, %0
    %2 = graph.mul %1, scale
    %3 = graph.add %2, %m
    %4 = graph.softmax %3 axis -1
    %y = graph.matmul %4, %v

A tile of the fused kernel holds whole rows of the query, of keys, of values and of the result.
Those of attention between channels have an element for each pixel. A matmul takes its sums in
parts, and has no such limit.

Scores and weights that are results themselves are written out in the same way.

What lies elsewhere, or is rounded or left out by its position, stays attention, and is refused
where its kernel is verified.
"""

from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.graph.attention import AttentionLike, AttentionOp, AttentionScoresOp
from ge.dialects.support.operation import all_ops
from ge.dialects.support.types import element_type, is_static, numel, shape_of
from ge.dialects.targets.target import Target, target_for
from ge.runtime.library.asking import refused
from ge.transforms.graph.written_attention import Expansion
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.matching import Match, Op
from ge.transforms.rewriting.passes import Relation, TargetPass, Ulps
from ge.transforms.rewriting.rules import Emit, Rule


def is_written_out(op: AttentionOp) -> bool:
    """all keys lie in order and count by their masks alone, and nothing is rounded in between"""
    elsewhere = op.length, op.table, op.key_lengths
    windows = op.left_window.value.data, op.right_window.value.data
    rounded = op.is_integer or op.has_grids or op.rounded_weights.value.data
    by_position = op.causal.value.data or any(w >= 0 for w in windows)
    return not (rounded or by_position or any(v is not None for v in elsewhere))


class ExpandAttention(Rule):
    """Attention that does not fit on a core, as two matmuls and a softmax"""

    name = "expand-attention"
    pattern = Op(AttentionOp, ..., name="op", where=is_written_out)

    def __init__(self, target: Target) -> None:
        self.target = target

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        op = match.op("op", AttentionOp)
        if not (body := Body.of(op)).is_static or refused(body, self.target) is None:
            return None
        return Expansion(op, emit).result()


def is_in_order(op: AttentionScoresOp) -> bool:
    """sizes and positions are known"""
    known = is_static((*shape_of(op.query), *shape_of(op.key)))
    return known and op.key_lengths is None and op.offset_value is None


class ExpandScores(Rule):
    """Scores of attention as a matmul and what follows it"""

    name = "expand-scores"
    pattern = Op(AttentionScoresOp, ..., name="op", where=is_in_order)

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        op = match.op("op", AttentionScoresOp)
        if not numel(shape_of(op.result)) or not numel(shape_of(op.query)):
            return None
        expansion, stage = Expansion(op, emit), op.stage.data
        scores = expansion.scores(expansion.scaled(expansion.operand("query")))  # as the kernel
        scores = scores if stage == "raw" else expansion.capped(scores)
        if stage in ("biased", "weights"):
            scores = expansion.masked(scores, rounded=stage == "weights")
        scores = expansion.weights(scores) if stage == "weights" else scores
        return expansion.cast(scores, element_type(op.result))


class ExpandAttentionPass(TargetPass):
    """Write out attention that does not fit on a core of the target."""

    name = "expand-attention"
    RELATION: ClassVar[Relation] = Ulps()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if any(isinstance(o, AttentionLike) for o in all_ops(op.body.blocks)):
            rewrite(op, [ExpandAttention(target_for(op, self.target)), ExpandScores()])
