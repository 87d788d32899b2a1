"""Constants are stored once.

    %0 = graph.constant dense<[2, 2]> : tensor<2xi64>
    %1 = graph.if %c : (tensor<i1>) -> tensor<2xi64> {
      %2 = graph.constant dense<2> : tensor<2xi64>
      graph.yield %2 : tensor<2xi64>
    } ...
becomes
    %0 = graph.constant dense<2> : tensor<2xi64>
    %1 = graph.if %c : (tensor<i1>) -> tensor<2xi64> {
      graph.yield %0 : tensor<2xi64>
    } ...

Constants in the IR are equal by value and type, weights by key: `share-equal-weights` gives equal
bytes one key.
"""

from collections.abc import Iterator
from typing import cast

from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.support.parameters import splat_bytes
from ge.dialects.support.types import Dense
from ge.transforms.graph.control_flow import move_before, nested_blocks, replace_op
from ge.transforms.rewriting.counts import count
from ge.transforms.rewriting.passes import FunctionPass


def constants(block: Block) -> Iterator[ConstantOp]:
    for op in list(block.ops):
        if isinstance(op, ConstantOp):
            yield op
        for inner in nested_blocks(op):
            yield from constants(inner)


def plain(value: Attribute) -> Attribute:
    """The canonical form of a constant: a splat as one number, booleans as 0 and 1."""
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
    """Keep the first of equal constants, before all its users; returns how many were erased."""
    firsts: dict[tuple[Attribute, Attribute], ConstantOp] = {}
    shared = 0
    for op in constants(block):
        op.value = plain(op.value)
        first = firsts.setdefault((op.value, op.result.type), op)
        if first is op:
            continue
        if first.parent is not block:
            move_before(ancestor_in(block, first), [first])
        replace_op(op, first.results)
        shared += 1
    return shared


class DeduplicateConstantsPass(FunctionPass):
    """Keep one of several equal constants."""

    name = "deduplicate-constants"

    def run(self, func: FuncOp) -> None:
        for block in func.body.blocks:
            if shared := share_constants(block):
                count(self.name, shared, shared)
