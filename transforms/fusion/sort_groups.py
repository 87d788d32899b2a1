"""Rows of grouped matmuls are brought together by their groups, where that takes less time.

    %y = graph.grouped_matmul %x, %w groups %g       256 rows, of 8 matrices: each row takes its own
becomes
    %p = where each row stands, if rows of one group stand together
    %0 = graph.gather %x, (the row at each place)
    %1 = graph.grouped_matmul %0, %w groups (where each group begins) given offsets
    %y = graph.gather %1, %p

so that a matrix is loaded once for each block of rows instead of once for each row. Numbers that
are no group's are refused as before: their rows stand behind the last place.

Where the numbers are known while compiling, so are the rows of each group:

    %0 = graph.gather %x, (rows in the order of their groups)     if they are not in it
    %1 = graph.grouped_matmul %0, %w rows [30, 0, 226]
    %y = graph.gather %1, (where each row stands)

Sizes of groups that are known only at run time become offsets, which tile programs read.
"""

from math import prod
from typing import Any, ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import Block, SSAValue

from ge.dialects import graph as g
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import all_ops
from ge.dialects.support.types import (
    constant_ints,
    element_type,
    is_static,
    numel,
    shape_of,
    tensor,
)
from ge.dialects.targets.target import Target, target_for
from ge.runtime.data.arrays import Array, dense, type_of
from ge.runtime.data.weights import payload_at_hand
from ge.runtime.library.asking import launch_us
from ge.runtime.numbers.constants import Constants
from ge.transforms.graph.deduplicate_constants import DeduplicateConstantsPass
from ge.transforms.graph.share_common_subexpressions import ShareCommonSubexpressionsPass
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.matching import Match, Op, Value
from ge.transforms.rewriting.passes import Relation, TargetPass, Ulps
from ge.transforms.rewriting.rules import Emit, Rule

LAUNCHES = 10  # that sorting takes, about


def has_single_rows(op: g.GroupedMatmulOp) -> bool:
    """each matmul has one row, and a number of its own"""
    if op.in_order:
        return False
    shapes = [shape_of(v) for v in (*op.operands, op.result)]
    if not all(map(is_static, shapes)) or 0 in map(numel, shapes):
        return False
    return shapes[0][-2] == 1 and numel(shapes[2]) == prod(shapes[3][:-2])


def numbers_of(op: g.GroupedMatmulOp) -> SSAValue:
    assert op.groups is not None
    return op.groups


class SortGroups(Rule):
    """Rows of one group stand together"""

    name = "sort-groups"
    pattern = Op(
        g.GroupedMatmulOp, Value("x"), Value("w"), Value("groups"), name="op", where=has_single_rows
    )

    def __init__(self, target: Target) -> None:
        self.target = target

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        op = match.op("op", g.GroupedMatmulOp)
        if (numbers := known_numbers(op)) is not None:
            return in_order_of_groups(op, numbers, emit)
        before, after = launch_us(op, self.target), self.time_us(op)
        return None if before is None or before <= after else sorted_groups(op, emit)

    def time_us(self, op: g.GroupedMatmulOp) -> float:
        """Return the time of the launches, with sorting."""
        count, experts = numel(shape_of(numbers_of(op))), shape_of(op.rhs)[0]
        x = tensor((count, shape_of(op.lhs)[-1]), element_type(op.lhs))
        types = x, op.rhs.type, tensor((experts + 1,), i32)
        flag = op.transpose_rhs
        given = Block(arg_types=types).args
        product = g.GroupedMatmulOp.of(*given, transpose_rhs=flag, given="offsets")
        (counts,) = Block(arg_types=[tensor((count, experts), i32)]).args
        small = launch_us(g.CumulativeOp.of(counts, kind="sum", axis=0), self.target)
        return (launch_us(product, self.target) or 0) + LAUNCHES * (small or 0)


class SizesToOffsets(Rule):
    """Sizes of groups say where each begins"""

    name = "sizes-to-offsets"
    pattern = Op(g.GroupedMatmulOp, Value("x"), Value("w"), Value("groups"), name="op")

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        op = match.op("op", g.GroupedMatmulOp)
        if op.given.data != "sizes":
            return None
        flag = op.transpose_rhs
        if (rows := constant_ints(numbers_of(op))) is not None:
            return emit(g.GroupedMatmulOp, op.lhs, op.rhs, rows=rows, transpose_rhs=flag)
        ends = emit(g.CumulativeOp, emit(g.CastOp, numbers_of(op), to=i32), kind="sum", axis=0)
        offsets = emit(g.ConcatOp, [ints([0], emit), ends], axis=0)
        return emit(g.GroupedMatmulOp, op.lhs, op.rhs, offsets, transpose_rhs=flag, given="offsets")


def known_numbers(op: g.GroupedMatmulOp) -> Array | None:
    """Return the group of each row; None if groups are not known, or some rows are in none."""
    if not isinstance(numbers_of(op).owner, g.ConstantOp):
        return None
    try:
        numbers = Constants(payload_at_hand()).value(numbers_of(op)).reshape(-1)
    except GeError:  # of a weight that is not at hand
        return None
    experts = shape_of(op.rhs)[0]
    if numbers.min() < -experts or numbers.max() >= experts:
        return None
    return np.where(numbers < 0, numbers + experts, numbers)


def in_order_of_groups(op: g.GroupedMatmulOp, numbers: Array, emit: Emit) -> SSAValue:
    batch, own, experts = shape_of(op.result)[:-2], shape_of(op.lhs)[:-2], shape_of(op.rhs)[0]
    size, n = shape_of(op.lhs)[-1], shape_of(op.result)[-1]
    rows = np.broadcast_to(np.arange(prod(own)).reshape(own), batch).reshape(-1)
    order = np.argsort(numbers, kind="stable")
    x = emit(g.ReshapeOp, op.lhs, shape=[prod(own), size])
    if not np.array_equal(rows[order], np.arange(prod(own))):
        x = emit(g.GatherOp, x, ints(rows[order], emit), axis=0)
    sizes = np.bincount(numbers, minlength=experts).tolist()
    y = emit(g.GroupedMatmulOp, x, op.rhs, rows=sizes, transpose_rhs=op.transpose_rhs)
    if not np.array_equal(order, np.arange(len(order))):
        y = emit(g.GatherOp, y, ints(np.argsort(order), emit), axis=0)
    return emit(g.ReshapeOp, y, shape=[*batch, 1, n])


def sorted_groups(op: g.GroupedMatmulOp, emit: Emit) -> SSAValue:
    batch, (experts, _, _) = shape_of(op.result)[:-2], shape_of(op.rhs)
    count, size, n = prod(batch), shape_of(op.lhs)[-1], shape_of(op.result)[-1]
    own = shape_of(op.lhs)[:-2]
    rows = np.broadcast_to(np.arange(prod(own)).reshape(own), batch).reshape(-1)

    groups = emit(g.CastOp, emit(g.ReshapeOp, numbers_of(op), shape=[count, 1]), to=i32)
    is_negative = emit(g.CompareOp, groups, ints(0, emit), predicate="lt")
    groups = emit(g.SelectOp, is_negative, emit(g.AddOp, groups, ints(experts, emit)), groups)
    is_own = emit(g.CompareOp, groups, ints(np.arange(experts)[None], emit), predicate="eq")
    member = emit(g.CastOp, is_own, to=i32)  # count x experts
    earlier = emit(g.CumulativeOp, member, kind="sum", axis=0, exclusive=True)
    total = emit(g.ReduceOp, member, kind="sum", axes=[0])
    ends = emit(g.CumulativeOp, total, kind="sum", axis=1)
    first = emit(g.SubOp, ends, total)
    found = emit(g.MulOp, member, emit(g.SubOp, emit(g.AddOp, first, earlier), ints(count, emit)))
    place = emit(g.ReduceOp, found, kind="sum", axes=[1], keep_dims=False)
    place = emit(g.AddOp, place, ints(count, emit))  # behind the last one without a group
    row = emit(g.ScatterElementsOp, ints(np.zeros(count), emit), place, ints(rows, emit), axis=0)

    x = emit(g.GatherOp, emit(g.ReshapeOp, op.lhs, shape=[prod(own), size]), row, axis=0)
    starts = emit(g.ConcatOp, [ints([0], emit), emit(g.ReshapeOp, ends, shape=[experts])], axis=0)
    flag = op.transpose_rhs
    y = emit(g.GroupedMatmulOp, x, op.rhs, starts, transpose_rhs=flag, given="offsets")
    y = emit(g.GatherOp, y, place, axis=0)
    return emit(g.ReshapeOp, y, shape=[*batch, 1, n])


def ints(numbers: Any, emit: Emit) -> SSAValue:
    """A constant of i32."""
    array = np.asarray(numbers, np.int32)
    return emit.add(g.ConstantOp.make(dense(array), type_of(array))).result


class SortGroupsPass(TargetPass):
    """Bring rows of one group together before grouped matmuls."""

    name = "sort-groups"
    RELATION: ClassVar[Relation] = Ulps()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not any(isinstance(o, g.GroupedMatmulOp) for o in all_ops(op.body.blocks)):
            return
        if rewrite(op, [SizesToOffsets(), SortGroups(target_for(op, self.target))]):
            DeduplicateConstantsPass().apply(ctx, op)
            ShareCommonSubexpressionsPass().apply(ctx, op)
