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

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass

from ge.dialects import graph as g
from ge.dialects.fused_op import Body
from ge.dialects.graph.attention import LOW
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.operation import all_ops
from ge.dialects.support.types import element_type, is_static, numel, shape_of
from ge.dialects.targets.target import Target, target_for
from ge.runtime.data.arrays import Array
from ge.runtime.library.asking import refused
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.matching import Match, Op
from ge.transforms.rewriting.passes import Relation, Ulps
from ge.transforms.rewriting.rules import Emit, Rule


def is_written_out(op: g.AttentionOp) -> bool:
    """all keys lie in order and count by their masks alone, and nothing is rounded in between"""
    elsewhere = op.length, op.table, op.key_lengths
    windows = op.left_window.value.data, op.right_window.value.data
    rounded = op.is_integer or op.has_grids or op.rounded_weights.value.data
    by_position = op.causal.value.data or any(w >= 0 for w in windows)
    return not (rounded or by_position or any(v is not None for v in elsewhere))


class ExpandAttention(Rule):
    """Attention that does not fit on a core, as two matmuls and a softmax"""

    name = "expand-attention"
    pattern = Op(g.AttentionOp, ..., name="op", where=is_written_out)

    def __init__(self, target: Target) -> None:
        self.target = target

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        op = match.op("op", g.AttentionOp)
        if not (body := Body.of(op)).is_static or refused(body, self.target) is None:
            return None
        return Expansion(op, emit).result()


def is_in_order(op: g.AttentionScoresOp) -> bool:
    """sizes and positions are known"""
    known = is_static((*shape_of(op.query), *shape_of(op.key)))
    return known and op.key_lengths is None and op.offset_value is None


class ExpandScores(Rule):
    """Scores of attention as a matmul and what follows it"""

    name = "expand-scores"
    pattern = Op(g.AttentionScoresOp, ..., name="op", where=is_in_order)

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        op = match.op("op", g.AttentionScoresOp)
        if not numel(shape_of(op.result)) or not numel(shape_of(op.query)):
            return None
        expansion, stage = Expansion(op, emit), op.stage.data
        scores = expansion.scores(expansion.scaled(expansion.operand("query")))  # as the kernel
        scores = scores if stage == "raw" else expansion.capped(scores)
        if stage in ("biased", "weights"):
            scores = expansion.masked(scores, rounded=stage == "weights")
        scores = expansion.weights(scores) if stage == "weights" else scores
        return expansion.cast(scores, element_type(op.result))


@dataclass(frozen=True)
class Expansion:
    """Emits what attention of known sizes computes, 16-bit floats in f32. Query heads that share a
    key head are rows of one matmul."""

    op: g.AttentionLike
    emit: Emit

    def scores(self, query: SSAValue) -> SSAValue:
        batch, heads, queries, size = self.op.sizes("query")
        _, key_heads, keys, _ = self.op.sizes("key")
        rows = heads // key_heads * queries
        query = self.shaped(query, [batch, key_heads, rows, size])
        scores = self.emit(g.MatmulOp, query, self.operand("key", transposed=True))
        return self.shaped(scores, [batch, heads, queries, keys])

    def result(self) -> SSAValue:
        op, emit = self.op, self.emit
        batch, heads, queries, _ = op.sizes("query")
        _, key_heads, keys, last = op.sizes("value")
        rows = heads // key_heads * queries
        scores = self.scaled(self.scores(self.operand("query")))
        weights = self.weights(self.masked(self.capped(scores)))
        weights = self.shaped(weights, [batch, key_heads, rows, keys])
        result = emit(g.MatmulOp, weights, self.operand("value"))
        result = self.shaped(result, [batch, heads, queries, last])
        if op.tokens_first("result"):
            result = emit(g.TransposeOp, result, permutation=[0, 2, 1, 3])
        return self.cast(result, element_type(op.result))

    @property
    def wide(self) -> Attribute:
        """The type that is computed in."""
        element = element_type(self.op.query)
        return f32 if bitwidth(element) == 16 else element

    def operand(self, name: str, transposed: bool = False) -> SSAValue:
        """An operand: its batch, heads, tokens and elements; `transposed`: elements and tokens."""
        value = self.cast(getattr(self.op, name), self.wide)
        order = (0, 1, 3, 2) if transposed else (0, 1, 2, 3)
        axes = [self.op.dimension(name, index) for index in order]
        return value if axes == [0, 1, 2, 3] else self.emit(g.TransposeOp, value, permutation=axes)

    def cast(self, value: SSAValue, to: Attribute) -> SSAValue:
        return value if element_type(value) == to else self.emit(g.CastOp, value, to=to)

    def shaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        if tuple(shape) == shape_of(value):
            return value
        return self.emit(g.ReshapeOp, value, shape=shape)

    def scaled(self, value: SSAValue) -> SSAValue:
        op, emit = self.op, self.emit
        scale = 1 / sqrt(op.sizes("query")[3]) if op.scale is None else op.scale.value.data
        return emit(g.MulOp, value, emit.number(scale, value))

    def capped(self, scores: SSAValue) -> SSAValue:
        emit = self.emit
        if (cap := self.op.softcap.value.data) > 0:
            scores = emit(g.TanhOp, emit(g.DivOp, scores, emit.number(cap, scores)))
            scores = emit(g.MulOp, scores, emit.number(cap, scores))
        return scores

    def masked(self, scores: SSAValue, rounded: bool = True) -> SSAValue:
        op, emit = self.op, self.emit
        for mask in op.masks:
            if element_type(mask) == i1:
                fill = emit.number(op.fill.value.data, scores)
                scores = emit(g.SelectOp, mask, scores, fill)
            else:
                scores = emit(g.AddOp, scores, self.cast(mask, self.wide))
        if (seen := self.seen()) is not None:
            scores = emit(g.SelectOp, emit.constant(seen), scores, emit.number(-inf, scores))
        narrow = element_type(op.query)
        if rounded and bitwidth(narrow) == 16 and any(element_type(m) == narrow for m in op.masks):
            short = self.cast(self.cast(scores, narrow), self.wide)
            top = self.top(scores)
            is_low = emit(g.CompareOp, top, emit.number(LOW, top), predicate="lt")
            scores = emit(g.SelectOp, is_low, short, scores)
        return scores

    def seen(self) -> Array | None:
        """Return a mask of the keys that queries see by their positions, [queries, keys]; None:
        all."""
        op, (first,) = self.op, self.op.ints("offset") or (0,)
        left, right = op.left_window.value.data, op.right_window.value.data
        right = 0 if op.causal.value.data else right
        if left < 0 and right < 0:
            return None
        apart = np.arange(op.sizes("key")[2]) - np.arange(op.sizes("query")[2])[:, None] - first
        return ((left < 0) | (apart >= -left)) & ((right < 0) | (apart <= right))

    def top(self, scores: SSAValue) -> SSAValue:
        return self.emit(g.ReduceOp, scores, kind="max", axes=[3])

    def weights(self, scores: SSAValue) -> SSAValue:
        """The softmax, and what the op says where that is undefined."""
        emit, undefined = self.emit, self.op.undefined.data
        weights = emit(g.SoftmaxOp, scores, axis=-1)
        if undefined == "nan":
            return weights
        if undefined == "guard":
            nothing = emit(g.IsNanOp, weights)
        else:
            top = self.top(scores)
            nothing = emit(g.CompareOp, top, emit.number(-inf, top), predicate="eq")
        return emit(g.SelectOp, nothing, emit.number(0, weights), weights)


@dataclass(frozen=True)
class ExpandAttentionPass(ModulePass):
    """Write out attention that does not fit on a core of the target."""

    name = "expand-attention"
    RELATION: ClassVar[Relation] = Ulps()

    target: str = ""
    """Preset name, or path of a target file."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if any(isinstance(o, g.AttentionLike) for o in all_ops(op.body.blocks)):
            rewrite(op, [ExpandAttention(target_for(op, self.target)), ExpandScores()])
