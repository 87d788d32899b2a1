"""Weights of one type and the same bytes get one key.

    %0 = graph.constant #graph.weight<"embedding"> : tensor<500x64xf32>
    %1 = graph.constant #graph.weight<"head"> : tensor<500x64xf32>
becomes, where a model has the same matrix at both ends,
    %0 = graph.constant #graph.weight<"embedding"> : tensor<500x64xf32>
    %1 = graph.constant #graph.weight<"embedding"> : tensor<500x64xf32>

That shows in the payload alone: without one at hand (`weights_at_hand`), nothing changes.
"""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.runtime.data.arrays import Array
from ge.runtime.data.weights import Payload, payload_at_hand
from ge.transforms.rewriting.counts import count

SAMPLE = 64
"""Elements of a weight that are compared before all of them are."""


def share_equal_weights(module: ModuleOp, payload: Payload) -> int:
    """Let weights of one type and the same bytes have one key; returns how many changed theirs."""
    kept: dict[Hashable, list[tuple[str, Array]]] = {}
    keys: dict[str, str] = {}
    weights = [op for op in module.walk() if isinstance(op, ConstantOp) and op.key is not None]
    for op in weights:
        key = op.key or ""
        array = payload.get(key) if key not in keys else None
        if array is None:
            continue
        flat = array.reshape(-1)
        sample = (flat[:SAMPLE].tobytes(), flat[-SAMPLE:].tobytes())
        alike = kept.setdefault((op.result.type, sample), [])
        equal = (k for k, other in alike if same_bytes(array, other))
        keys[key] = next(equal, key)
        if keys[key] == key:
            alike.append((key, array))
    changed = 0
    for op in weights:
        if (key := keys.get(op.key or "", op.key)) != op.key and key is not None:
            op.value = WeightAttr(key)
            changed += 1
    return changed


def same_bytes(a: Array, b: Array) -> bool:
    m, n = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
    return bool(np.array_equal(m, n))


@dataclass(frozen=True)
class ShareEqualWeightsPass(ModulePass):
    """Keep one of several weights of the same bytes, where the payload is at hand."""

    name = "share-equal-weights"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        payload = payload_at_hand()
        if payload is not None and (shared := share_equal_weights(op, payload)):
            count(self.name, shared, shared)
