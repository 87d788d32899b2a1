"""Rows of grouped matmuls are brought together by their groups, where that takes less time.

    %y = graph.grouped_matmul %x, %w groups %g       256 rows, of 8 matrices: each row takes its own
becomes
    %p = where each row stands, if rows of one group stand together in blocks of 64
    %0 = graph.gather %x, (the row at each place)    what is left over of a block is any row
    %1 = graph.grouped_matmul %0, %w groups (the group of each block)
    %y = graph.gather %1, %p

so that a matrix is loaded once for each block instead of once for each row. There are as many
blocks as any numbers of groups need. Numbers that are no group's are refused as before: their rows
stand behind the last place.

Where the numbers are known while compiling, rows stand group after group, with nothing between:

    %0 = graph.gather %x, (rows in the order of their groups)     if they are not in it
    %1 = graph.grouped_matmul %0, %w rows [30, 0, 226]
    %y = graph.gather %1, (where each row stands)
"""

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.elementwise import (
    AddOp,
    CastOp,
    CompareOp,
    DivOp,
    MulOp,
    SelectOp,
    SubOp,
)
from ge.dialects.graph.indexing import GatherOp, ScatterElementsOp
from ge.dialects.graph.linear import GroupedMatmulOp
from ge.dialects.graph.reduction import CumulativeOp, ReduceOp
from ge.dialects.graph.shape import ReshapeOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import all_ops
from ge.dialects.support.types import element_type, is_static, numel, shape_of, tensor
from ge.dialects.targets.target import Target, target_for
from ge.runtime.data.arrays import Array, dense, type_of
from ge.runtime.data.weights import payload_at_hand
from ge.runtime.kernels.constants import Constants
from ge.runtime.library.costs.cost import launch_us
from ge.transforms.graph.deduplicate_constants import DeduplicateConstantsPass
from ge.transforms.graph.share_common_subexpressions import ShareCommonSubexpressionsPass
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.matching import Match, Op, Value
from ge.transforms.rewriting.relations import Relation, Ulps
from ge.transforms.rewriting.rules import Emit, Rule

BLOCKS = (16, 32, 64, 128)  # rows of one
LAUNCHES = 10  # that sorting takes, about


def has_single_rows(op: GroupedMatmulOp) -> bool:
    """each matmul has one row, and a number of its own"""
    if op.has_sizes:
        return False
    shapes = [shape_of(v) for v in (*op.operands, op.result)]
    if not all(map(is_static, shapes)) or 0 in map(numel, shapes):
        return False
    return shapes[0][-2] == 1 and numel(shapes[2]) == prod(shapes[3][:-2])


def numbers_of(op: GroupedMatmulOp) -> SSAValue:
    assert op.groups is not None
    return op.groups


class SortGroups(Rule):
    """Rows of one group stand together"""

    name = "sort-groups"
    pattern = Op(
        GroupedMatmulOp, Value("x"), Value("w"), Value("groups"), name="op", where=has_single_rows
    )

    def __init__(self, target: Target) -> None:
        self.target = target

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        op = match.op("op", GroupedMatmulOp)
        before = launch_us(op, self.target)
        if (numbers := known_numbers(op)) is not None:
            return in_order_of_groups(op, numbers, emit)
        times = {block: self.time_us(op, block) for block in BLOCKS}
        block = min(times, key=lambda block: times[block])
        if before is None or before <= times[block]:
            return None
        return sorted_groups(op, block, emit)

    def time_us(self, op: GroupedMatmulOp, block: int) -> float:
        """Of the launches, with sorting."""
        count, experts = numel(shape_of(numbers_of(op))), shape_of(op.rhs)[0]
        shape = (blocks_of(count, experts, block), block, shape_of(op.lhs)[-1])
        types = tensor(shape, element_type(op.lhs)), op.rhs.type, tensor(shape[:1], i32)
        flag = op.transpose_rhs
        product = GroupedMatmulOp.of(*Block(arg_types=types).args, transpose_rhs=flag)
        (counts,) = Block(arg_types=[tensor((count, experts), i32)]).args
        small = launch_us(CumulativeOp.of(counts, kind="sum", axis=0), self.target)
        return (launch_us(product, self.target) or 0) + LAUNCHES * (small or 0)


def known_numbers(op: GroupedMatmulOp) -> Array | None:
    """The group of each row; None where they are not known, or some are no group's."""
    if not isinstance(numbers_of(op).owner, ConstantOp):
        return None
    try:
        numbers = Constants(payload_at_hand()).value(numbers_of(op)).reshape(-1)
    except GeError:  # of a weight that is not at hand
        return None
    experts = shape_of(op.rhs)[0]
    if numbers.min() < -experts or numbers.max() >= experts:
        return None
    return np.where(numbers < 0, numbers + experts, numbers)


def in_order_of_groups(op: GroupedMatmulOp, numbers: Array, emit: Emit) -> SSAValue:
    batch, own, experts = shape_of(op.result)[:-2], shape_of(op.lhs)[:-2], shape_of(op.rhs)[0]
    size, n = shape_of(op.lhs)[-1], shape_of(op.result)[-1]
    rows = np.broadcast_to(np.arange(prod(own)).reshape(own), batch).reshape(-1)
    order = np.argsort(numbers, kind="stable")
    x = emit(ReshapeOp, op.lhs, shape=[prod(own), size])
    if not np.array_equal(rows[order], np.arange(prod(own))):
        x = emit(GatherOp, x, ints(rows[order], emit), axis=0)
    sizes = np.bincount(numbers, minlength=experts).tolist()
    y = emit(GroupedMatmulOp, x, op.rhs, rows=sizes, transpose_rhs=op.transpose_rhs)
    if not np.array_equal(order, np.arange(len(order))):
        y = emit(GatherOp, y, ints(np.argsort(order), emit), axis=0)
    return emit(ReshapeOp, y, shape=[*batch, 1, n])


def blocks_of(count: int, experts: int, block: int) -> int:
    """That as many rows of so many groups need at most."""
    return min(count, (count + experts * (block - 1)) // block)


def sorted_groups(op: GroupedMatmulOp, block: int, emit: Emit) -> SSAValue:
    batch, (experts, _, _) = shape_of(op.result)[:-2], shape_of(op.rhs)
    count, size, n = prod(batch), shape_of(op.lhs)[-1], shape_of(op.result)[-1]
    blocks, own = blocks_of(count, experts, block), shape_of(op.lhs)[:-2]
    places = blocks * block
    rows = np.broadcast_to(np.arange(prod(own)).reshape(own), batch).reshape(-1)

    groups = emit(CastOp, emit(ReshapeOp, numbers_of(op), shape=[count, 1]), to=i32)
    is_negative = emit(CompareOp, groups, ints(0, emit), predicate="lt")
    groups = emit(SelectOp, is_negative, emit(AddOp, groups, ints(experts, emit)), groups)
    is_own = emit(CompareOp, groups, ints(np.arange(experts)[None], emit), predicate="eq")
    member = emit(CastOp, is_own, to=i32)  # count x experts
    earlier = emit(CumulativeOp, member, kind="sum", axis=0, exclusive=True)
    total = emit(ReduceOp, member, kind="sum", axes=[0])
    needed = emit(DivOp, emit(AddOp, total, ints(block - 1, emit)), ints(block, emit))
    ends = emit(CumulativeOp, needed, kind="sum", axis=1)
    first = emit(MulOp, emit(SubOp, ends, needed), ints(block, emit))
    found = emit(MulOp, member, emit(SubOp, emit(AddOp, first, earlier), ints(places, emit)))
    place = emit(ReduceOp, found, kind="sum", axes=[1], keep_dims=False)
    place = emit(AddOp, place, ints(places, emit))  # behind the last one without a group

    last = np.arange(experts)[None] == experts - 1  # it has what blocks are left over, too
    ends = emit(AddOp, ends, ints(last * places, emit))
    ended = emit(CompareOp, ints(np.arange(blocks)[:, None], emit), ends, predicate="ge")
    number = emit(ReduceOp, emit(CastOp, ended, to=i32), kind="sum", axes=[1], keep_dims=False)
    nothing = ints(np.zeros(places), emit)
    row = emit(ScatterElementsOp, nothing, place, ints(rows, emit), axis=0)

    x = emit(GatherOp, emit(ReshapeOp, op.lhs, shape=[prod(own), size]), row, axis=0)
    x = emit(ReshapeOp, x, shape=[blocks, block, size])
    y = emit(GroupedMatmulOp, x, op.rhs, number, transpose_rhs=op.transpose_rhs)
    y = emit(GatherOp, emit(ReshapeOp, y, shape=[places, n]), place, axis=0)
    return emit(ReshapeOp, y, shape=[*batch, 1, n])


def ints(numbers: Any, emit: Emit) -> SSAValue:
    """A constant of i32."""
    array = np.asarray(numbers, np.int32)
    new = ConstantOp.make(dense(array), type_of(array))
    new.location = emit.location
    emit.rewriter.insert(new, InsertPoint.before(emit.before))
    return new.result


@dataclass(frozen=True)
class SortGroupsPass(ModulePass):
    """Bring rows of one group together before grouped matmuls."""

    name = "sort-groups"
    RELATION: ClassVar[Relation] = Ulps()

    target: str = ""
    """Preset name, or path of a target file."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not any(isinstance(o, GroupedMatmulOp) for o in all_ops(op.body.blocks)):
            return
        if rewrite(op, [SortGroups(target_for(op, self.target))]):
            DeduplicateConstantsPass().apply(ctx, op)
            ShareCommonSubexpressionsPass().apply(ctx, op)
