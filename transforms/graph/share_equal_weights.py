"""Weights of one element type and the same bytes get one key, reshaped where their shapes differ.

    %0 = graph.constant #graph.weight<"embedding"> : tensor<500x64xf32>
    %1 = graph.constant #graph.weight<"head"> : tensor<500x64xf32>
becomes, where a model has the same matrix at both ends,
    %0 = graph.constant #graph.weight<"embedding"> : tensor<500x64xf32>
    %1 = graph.constant #graph.weight<"embedding"> : tensor<500x64xf32>

Without a payload at hand (`payload_at_hand`), nothing changes.
"""

from collections.abc import Hashable

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.shape import ReshapeOp
from ge.dialects.support.operation import all_ops
from ge.dialects.support.types import element_type, numel, shape_of
from ge.runtime.data.arrays import Array
from ge.runtime.data.weights import Payload, payload_at_hand
from ge.transforms.graph.control_flow import insert_before, replace_op
from ge.transforms.rewriting.counts import count

SAMPLE = 64  # elements at both ends of a weight that are compared before all of them are


def share_equal_weights(module: ModuleOp, payload: Payload) -> int:
    """Let weights of one element type and the same bytes have one key, reshaped where their shapes
    differ; returns how many keys changed."""
    kept: dict[Hashable, list[tuple[ConstantOp, Array]]] = {}
    first: dict[str, ConstantOp] = {}
    changed = 0
    constants = [op for op in all_ops(module.body.blocks) if isinstance(op, ConstantOp)]
    for op in [op for op in constants if op.key is not None]:
        key = op.key or ""
        if key not in first:
            first[key] = op
            array = payload.get(key)
            if array is None or not array.size:
                continue
            flat = array.reshape(-1)
            sample = (flat[:SAMPLE].tobytes(), flat[-SAMPLE:].tobytes())
            element, length = element_type(op.result), numel(shape_of(op.result))
            alike = kept.setdefault((element, length, array.dtype, sample), [])
            equal = (other for other, values in alike if same_bytes(array, values))
            first[key] = next(equal, op)
            if first[key] is op:
                alike.append((op, array))
        if first[key].value != op.value:
            use_weight(op, first[key])
            changed += 1
    return changed


def use_weight(op: ConstantOp, weight: ConstantOp) -> None:
    """Replace a constant by another of the same bytes."""
    op.value = weight.value
    if op.result.type != weight.result.type:
        source = insert_before(op, ConstantOp.make(weight.value, weight.result.type))
        shape = ReshapeOp.of(source.result, shape=shape_of(op.result))
        replace_op(op, insert_before(op, shape).results)


def same_bytes(a: Array, b: Array) -> bool:
    m, n = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
    return bool(np.array_equal(m, n))


class ShareEqualWeightsPass(ModulePass):
    """Keep one of several weights of the same bytes, where the payload is at hand."""

    name = "share-equal-weights"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        payload = payload_at_hand()
        if payload is not None and (shared := share_equal_weights(op, payload)):
            count(self.name, shared, shared)
