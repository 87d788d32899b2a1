"""Attention by tiles, with what loads its operands and what uses its result.

    %0 = graph.concat %past_k, %k axis 2         %1 = graph.concat %past_v, %v axis 2
    %2 = graph.attention %q, %0, %1
    %3 = graph.transpose %2 permutation [0, 2, 1, 3]
becomes
    %0, %1, %3 = fused_op.flash_attention(%past_k, %k, %past_v, %v, %q) { ... }

The kernel meets keys tile by tile and keeps a running softmax, so the scores are never in memory.
Ops that only say where operands lie (transposed heads, past and new keys one after the other,
repeated key heads) are how a tile is loaded, and cost nothing; a KV cache that is a result is
written while its tiles pass. Casts, and dequantizing what is stored as integers (a cache of 8
bits), are part of loading too. Other elementwise ops join on the
side of the queries, which are loaded once; on the side of the keys, which each tile of queries
loads again, only if all queries are one tile. Users of the result join as after a matmul.

Sums come in another order than in `graph.attention`: see `runtime/numbers/attention.py`.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from xdsl.ir import Operation, SSAValue

from ge.dialects import graph as g
from ge.dialects.fused_op import FlashAttentionOp
from ge.dialects.support.boxes import Access
from ge.dialects.support.element_types import bitwidth, storage_bytes
from ge.dialects.support.types import element_type, is_static, numel
from ge.runtime.library.costs.estimates import hbm_bytes_per_us
from ge.transforms.fusion.epilogues import EPILOGUE, grow, judge_epilogue
from ge.transforms.fusion.groups import access, can_join
from ge.transforms.fusion.merging import FusionPass, Merger, Missed
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.counts import count, declare
from ge.transforms.rewriting.passes import Relation, Ulps

FUSE_LOADS = declare("fuse-loads", "what an operand of attention comes through joins its launch")

ONE_TILE = 128  # queries that are one tile at most


@dataclass(frozen=True)
class FuseAttentionPass(FusionPass):
    """Fuse attention with ops around it into `fused_op.flash_attention`."""

    name = "fuse-attention"
    RULES = (FUSE_LOADS, *EPILOGUE)
    RELATION: ClassVar[Relation] = Ulps()

    exact: bool = False
    """Whether sums keep their order, so that every bit stays: attention is then left as it is."""

    def fuse(self, merger: Merger) -> None:
        groups = merger.groups
        attention = [op for op in groups.block.ops if isinstance(op, g.AttentionOp)]
        if self.exact:
            forbidden = Missed("the mode forbids sums in another order")
            for op in attention:
                merger.missed(self.name, op, replace(forbidden, loss_us=saved_us(merger, op)))
            return
        for op in attention:
            group = groups.of(op)
            few = 0 <= op.sizes("query")[2] <= ONE_TILE
            take_loads(merger, op, op.query, pointwise=True)
            take_loads(merger, op, op.key, pointwise=few)
            take_loads(merger, op, op.value, pointwise=few)
            grow(merger, group, judge_epilogue)
            merger.finish(group, FlashAttentionOp)
            if (group := groups.of(op)).kind is None:
                group.kind = FlashAttentionOp
                count(merger.rule)
            remarks.applied(merger.rule, op)


def saved_us(merger: Merger, op: g.AttentionOp) -> float | None:
    """Return what the flash kernel would save: the scores, written and read twice (matmul, softmax,
    matmul); None while a shape is dynamic."""
    batch, heads, queries, _ = op.sizes("query")
    sizes = batch, heads, queries, op.sizes("key")[2]
    if not is_static(sizes):
        return None
    scores = storage_bytes(numel(sizes), element_type(op.query))
    return 4 * scores / hbm_bytes_per_us(merger.target.cube_cores, merger.target)


def is_stored_narrow(op: Operation) -> bool:
    """Return whether an op dequantizes elements that take fewer bits in memory."""
    return isinstance(op, g.DequantizeOp) and bitwidth(element_type(op.input)) < bitwidth(
        element_type(op.result)
    )


def take_loads(merger: Merger, op: g.AttentionOp, value: SSAValue, pointwise: bool) -> None:
    """Let the ops join through which an operand is loaded."""
    groups, todo = merger.groups, [value]
    group = groups.of(op)
    while todo:
        producer = groups.defining(todo.pop())
        if producer is None or not can_join(producer):
            continue
        other, kind = groups.of(producer), access(producer)
        loads = kind in (Access.VIEW, Access.MOVEMENT) or isinstance(producer, g.CastOp)
        loads = loads or is_stored_narrow(producer)
        loads = loads or (pointwise and kind is Access.POINTWISE)
        if kind is Access.POINTWISE and not loads and other.kind is None:
            why = "each tile of queries would compute it again"
            merger.missed(FUSE_LOADS, producer, Missed(why, merger.worth_us(other, group)))
        if not loads or other.kind is not None:
            continue
        if other is group or merger.join(group, other, FUSE_LOADS):
            todo += producer.operands
