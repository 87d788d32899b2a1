"""Attention by tiles, with what stands around it.

    %0 = graph.concat %past_k, %k axis 2         %1 = graph.concat %past_v, %v axis 2
    %2 = graph.attention %q, %0, %1
    %3 = graph.transpose %2 permutation [0, 2, 1, 3]
becomes
    %0, %1, %3 = fused_op.flash_attention(%past_k, %k, %past_v, %v, %q) { ... }

The kernel meets keys tile by tile and keeps a running softmax, so the scores are never in memory.
What only says where operands lie (transposed heads, past and new keys one after the other,
repeated key heads) is how a tile is loaded, and costs nothing; a KV cache that is a result is
written while its tiles pass. Casts are part of loading too. Other elementwise ops join on the
side of the queries, which are loaded once; on the side of the keys, which each tile of queries
loads again, only if all queries are one tile. What follows joins as behind a matmul.

Sums come in another order than in `graph.attention`: see `runtime/kernels/fused.py`.
"""

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ge.dialects.fused_op import FlashAttentionOp
from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.elementwise import CastOp
from ge.dialects.interfaces import Access
from ge.dialects.target import DEFAULT_TARGET
from ge.transforms import remarks
from ge.transforms.fusion.epilogues import follows, grow
from ge.transforms.fusion.merging import Merger, access, can_join, fuse_blocks
from ge.transforms.relations import Relation, Ulps
from ge.transforms.statistics import count

ONE_TILE = 128
"""Queries that are one tile at most."""


@dataclass(frozen=True)
class FuseAttentionPass(ModulePass):
    """Turn attention into `fused_op.flash_attention`, with what stands around it."""

    name = "fuse-attention"
    RELATION: ClassVar[Relation] = Ulps()

    target: str = DEFAULT_TARGET
    """Preset name, or path of a target file."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fuse_blocks(op, self.target, self.name, fuse)


def fuse(merger: Merger) -> None:
    """Let each attention take what loads its operands, then what follows it."""
    groups = merger.groups
    found = [op for op in groups.block.ops if isinstance(op, AttentionOp)]
    for op in found:
        group = groups.of(op)
        few = 0 <= op.sizes("query")[2] <= ONE_TILE
        take_loads(merger, op, op.query, pointwise=True)
        take_loads(merger, op, op.key, pointwise=few)
        take_loads(merger, op, op.value, pointwise=few)
        grow(merger, group, lambda user, group: follows(user, group, merger))
        merger.trim(group)
        group.kind = FlashAttentionOp
        count(merger.rule)
        remarks.applied(merger.rule, op)


def take_loads(merger: Merger, op: AttentionOp, value: SSAValue, pointwise: bool) -> None:
    """Let the ops join that an operand comes through and that are a matter of loading it."""
    groups, todo = merger.groups, [value]
    group = groups.of(op)
    while todo:
        maker = groups.defining(todo.pop())
        if maker is None or not can_join(maker):
            continue
        other, kind = groups.of(maker), access(maker)
        loads = kind in (Access.VIEW, Access.MOVEMENT) or isinstance(maker, CastOp)
        loads = loads or (pointwise and kind is Access.POINTWISE)
        if loads and other.kind is None and (other is group or merger.join(group, other)):
            todo += maker.operands
