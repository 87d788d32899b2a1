"""Constants are stored once.

    %0 = graph.constant dense<[2, 2]> : tensor<2xi64>
    %1 = graph.if %c : tensor<i1> -> (tensor<2xi64>) {
      %2 = graph.constant dense<2> : tensor<2xi64>
      graph.yield %2 : tensor<2xi64>
    } ...
becomes
    %0 = graph.constant dense<2> : tensor<2xi64>
    %1 = graph.if %c : tensor<i1> -> (tensor<2xi64>) {
      graph.yield %0 : tensor<2xi64>
    } ...

Constants in the text are equal by value and type, weights by key. That two keys stand for the same
bytes (a matrix that a model uses at both ends, written out twice) shows only in the payload:
`share_equal_weights` looks there, where there is one. Weights whose shapes differ become reshapes
of one.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, ModuleOp, i1
from xdsl.ir import Attribute, Block, Operation
from xdsl.passes import ModulePass

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.shape import ReshapeOp
from ge.dialects.graph.support.folding import splat_bytes
from ge.dialects.support.functions import defined_functions
from ge.dialects.support.types import Dense, shape_of
from ge.runtime.data.arrays import Array
from ge.runtime.data.weights import Payload
from ge.transforms.rewriting.counts import count

SAMPLE = 64
"""Elements of a weight that are compared before all of them are."""


def constants(block: Block) -> Iterator[ConstantOp]:
    """The constants of a block and of the branches and loops in it, in order."""
    for op in list(block.ops):
        if isinstance(op, ConstantOp):
            yield op
        elif not isinstance(op, FusedOp):
            for region in op.regions:
                for inner in region.blocks:
                    yield from constants(inner)


def plain(value: Attribute) -> Attribute:
    """One number for a constant all of whose elements are that number; truth values as 0 and 1."""
    if not isinstance(value, DenseIntOrFPElementsAttr):
        return value
    dense = cast(Dense, value)
    data = splat_bytes(dense) or dense.data.data
    if dense.get_element_type() == i1:
        data = bytes(map(bool, data))
    if data == dense.data.data:
        return dense
    return DenseIntOrFPElementsAttr(dense.type, BytesAttr(data))


def ancestor_in(block: Block, op: Operation) -> Operation:
    """The op of a block that an op is, or is inside of."""
    while op.parent is not block:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op


def share_constants(block: Block) -> int:
    """Keep the first of equal constants, before all its users; returns how many others went."""
    first: dict[tuple[Attribute, Attribute], ConstantOp] = {}
    shared = 0
    for op in constants(block):
        op.value = plain(op.value)
        kept = first.setdefault((op.value, op.result.type), op)
        if kept is op:
            continue
        if kept.parent is not block:
            before = ancestor_in(block, kept)
            kept.detach()
            block.insert_op_before(kept, before)
        op.result.replace_all_uses_with(kept.result)
        op.detach()
        op.erase()
        shared += 1
    return shared


def share_equal_weights(module: ModuleOp, payload: Payload) -> int:
    """Let weights of one element type and the same bytes have one key, reshaped where their shapes
    differ; returns how many changed theirs."""
    kept: dict[Hashable, list[tuple[ConstantOp, Array]]] = {}
    first: dict[str, ConstantOp] = {}
    changed = 0
    for op in [op for op in module.walk() if isinstance(op, ConstantOp) and op.key is not None]:
        key = op.key or ""
        if key not in first:
            first[key] = op
            array = payload.get(key)
            if array is None or not array.size:
                continue
            flat = array.reshape(-1)
            sample = (flat[:SAMPLE].tobytes(), flat[-SAMPLE:].tobytes())
            alike = kept.setdefault((array.dtype, array.size, sample), [])
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
    if op.result.type == weight.result.type or op.parent is None:
        return
    source = ConstantOp.make(weight.value, weight.result.type)
    shape = ReshapeOp.of(source.result, None, shape=shape_of(op.result), location=op.location)
    source.location = op.location
    op.parent.insert_ops_before([source, shape], op)
    op.result.replace_all_uses_with(shape.result)
    op.detach()
    op.erase()


def same_bytes(a: Array, b: Array) -> bool:
    m, n = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
    return bool(np.array_equal(m, n))


@dataclass(frozen=True)
class DeduplicateConstantsPass(ModulePass):
    """Keep one of several equal constants."""

    name = "deduplicate-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in defined_functions(op):
            for block in func.body.blocks:
                if shared := share_constants(block):
                    count(self.name, shared, shared)
