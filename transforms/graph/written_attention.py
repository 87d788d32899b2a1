"""Attention as two matmuls and a softmax."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from xdsl.dialects.builtin import f32, i1
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph.attention import LOW, AttentionLike
from ge.dialects.graph.elementwise import (
    AddOp,
    CastOp,
    CompareOp,
    DivOp,
    IsNanOp,
    MulOp,
    SelectOp,
    TanhOp,
)
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.normalization import SoftmaxOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import ReshapeOp, TransposeOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import element_type, shape_of
from ge.runtime.data.arrays import Array
from ge.transforms.rewriting.building import Make


@dataclass(frozen=True)
class Expansion:
    """Emits what attention of known sizes computes, 16-bit floats in f32. Query heads that share a
    key head are rows of one matmul."""

    op: AttentionLike
    emit: Make

    def scores(self, query: SSAValue) -> SSAValue:
        batch, heads, queries, size = self.op.sizes("query")
        _, key_heads, keys, _ = self.op.sizes("key")
        rows = heads // key_heads * queries
        query = self.shaped(query, [batch, key_heads, rows, size])
        scores = self.emit(MatmulOp, query, self.operand("key", transposed=True))
        return self.shaped(scores, [batch, heads, queries, keys])

    def result(self) -> SSAValue:
        op, emit = self.op, self.emit
        batch, heads, queries, _ = op.sizes("query")
        _, key_heads, keys, last = op.sizes("value")
        rows = heads // key_heads * queries
        scores = self.scaled(self.scores(self.operand("query")))
        weights = self.weights(self.masked(self.capped(scores)))
        weights = self.shaped(weights, [batch, key_heads, rows, keys])
        result = emit(MatmulOp, weights, self.operand("value"))
        result = self.shaped(result, [batch, heads, queries, last])
        if op.tokens_first("result"):
            result = emit(TransposeOp, result, permutation=[0, 2, 1, 3])
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
        return value if axes == [0, 1, 2, 3] else self.emit(TransposeOp, value, permutation=axes)

    def cast(self, value: SSAValue, to: Attribute) -> SSAValue:
        return value if element_type(value) == to else self.emit(CastOp, value, to=to)

    def shaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        if tuple(shape) == shape_of(value):
            return value
        return self.emit(ReshapeOp, value, shape=shape)

    def scaled(self, value: SSAValue) -> SSAValue:
        op, emit = self.op, self.emit
        scale = 1 / sqrt(op.sizes("query")[3]) if op.scale is None else op.scale.value.data
        return emit(MulOp, value, emit.number(scale, value))

    def capped(self, scores: SSAValue) -> SSAValue:
        emit = self.emit
        if (cap := self.op.softcap.value.data) > 0:
            scores = emit(TanhOp, emit(DivOp, scores, emit.number(cap, scores)))
            scores = emit(MulOp, scores, emit.number(cap, scores))
        return scores

    def masked(self, scores: SSAValue, rounded: bool = True) -> SSAValue:
        op, emit = self.op, self.emit
        for mask in op.masks:
            if element_type(mask) == i1:
                fill = emit.number(op.fill.value.data, scores)
                scores = emit(SelectOp, mask, scores, fill)
            else:
                scores = emit(AddOp, scores, self.cast(mask, self.wide))
        if (seen := self.seen()) is not None:
            scores = emit(SelectOp, emit.constant(seen), scores, emit.number(-inf, scores))
        narrow = element_type(op.query)
        if rounded and bitwidth(narrow) == 16 and any(element_type(m) == narrow for m in op.masks):
            short = self.cast(self.cast(scores, narrow), self.wide)
            top = self.top(scores)
            is_low = emit(CompareOp, top, emit.number(LOW, top), predicate="lt")
            scores = emit(SelectOp, is_low, short, scores)
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
        return self.emit(ReduceOp, scores, kind="max", axes=[3])

    def weights(self, scores: SSAValue) -> SSAValue:
        """The softmax, and what the op says where that is undefined."""
        emit, undefined = self.emit, self.op.undefined.data
        weights = emit(SoftmaxOp, scores, axis=-1)
        if undefined == "nan":
            return weights
        if undefined == "guard":
            nothing = emit(IsNanOp, weights)
        else:
            top = self.top(scores)
            nothing = emit(CompareOp, top, emit.number(-inf, top), predicate="eq")
        return emit(SelectOp, nothing, emit.number(0, weights), weights)
