"""Weights are stored with rows along the terms of products: quantized ones, and others whose own
rows are loaded at less than the full rate.

    %w = graph.dequantize %codes, %scales axis 1 : (tensor<4096x11008xi8>, ...)
    %y = graph.matmul %x, %w
becomes
    %0 = graph.transpose %codes permutation [1, 0]          before the program runs
    %w = graph.dequantize %0, %scales axis 0 : (tensor<11008x4096xi8>, ...)
    %y = graph.matmul %x, %w transpose_rhs true

A core that dequantizes the weights of some columns on their way to the cube then loads few long
rows instead of many short ones. It runs where tile programs are written.

Weights with a scale for each group of terms stay, but for products of one row in f16, which vector
cores compute (`runtime/library/matmul/single_row.py`). Their codes are stored in the order in which
these sum them up, a lane for each group: 128 groups together, term of a group, column, group.

    %w = graph.dequantize %codes, %scales axis 0 block_size 32 : (tensor<4096x11008xi4>, ...)
becomes
    %0 = graph.reshape %codes shape [1, 128, 32, 11008]     before the program runs, as scales
    %1 = graph.transpose %0 permutation [0, 2, 3, 1]
    %2 = graph.dequantize %1, %scales axis 1 block_size 32 : (tensor<1x32x11008x128xi4>, ...)
    %3 = graph.transpose %2 permutation [0, 3, 1, 2]
    %w = graph.reshape %3 shape [4096, 11008]

Groups that are missing at the end are added, if they are few, and taken away again. Where that
takes halves of groups, these have the scales of whole ones.
"""

from math import ceil

from xdsl.context import Context
from xdsl.dialects.builtin import BoolAttr, ModuleOp, f16
from xdsl.ir import SSAValue

from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.graph.shape import ReshapeOp, TransposeOp
from ge.dialects.graph.slicing import ConcatOp, PadOp, SliceOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    element_type,
    is_static,
    normalize_axis,
    numel,
    rank_of,
    shape_of,
)
from ge.dialects.targets.target import Target, target_for
from ge.runtime.library.costs.cycles import share_of
from ge.runtime.library.matmul.lanes import LANES, SPREAD, UNSPREAD, has_room_for_row
from ge.transforms.graph.canonical.linear_maps import is_prepared
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.matching import Match, Op, Value
from ge.transforms.rewriting.passes import TargetPass
from ge.transforms.rewriting.rules import Emit, Rule

MOST_PADDED = 1.25  # times as many terms, that a weight may have with the groups that are added


def is_weight(op: DequantizeOp) -> bool:
    """a weight has one scale, or one for each row or column"""
    alone = op.result.has_one_use() and rank_of(op.result) == 2
    return alone and not op.block_size.value.data and all(map(is_prepared, op.operands))


def is_plain(op: MatmulOp) -> bool:
    """the weight is not transposed, nor is the type of the result stated"""
    return not op.transpose_rhs.value.data and op.to is None


class TurnWeight(Rule):
    """Rows of a weight along the terms of products"""

    name = "turn-weights"
    weight = Op(DequantizeOp, Value("codes"), ..., name="weight", where=is_weight)
    pattern = Op(MatmulOp, Value("x"), weight, name="matmul", where=is_plain)

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        old, matmul = match.op("weight", DequantizeOp), match.op("matmul", MatmulOp)
        codes = emit(TransposeOp, old.input, permutation=[1, 0])
        axis = None if old.axis is None else 1 - normalize_axis(old.axis.value.data, 2)
        given = {} if axis is None else {"axis": axis}
        given |= {} if old.to is None else {"to": old.to}
        weight = emit(DequantizeOp, codes, old.scale, old.zero_point, **given)
        flags = {"transpose_lhs": matmul.transpose_lhs, "transpose_rhs": BoolAttr.from_bool(True)}
        return emit(MatmulOp, matmul.lhs, weight, **flags)


def has_groups(op: DequantizeOp) -> bool:
    """a weight of 4 bits has a scale for each group of terms"""
    alone = op.result.has_one_use() and rank_of(op.result) == 2 and op.axis is not None
    if not alone or not all(map(is_prepared, op.operands)):
        return False
    block, types = op.block_size.value.data, [element_type(v) for v in (op.scale, op.result)]
    along = not normalize_axis(op.axis.value.data, 2) if op.axis is not None else False
    whole = block > 0 and shape_of(op.input)[0] % block == 0
    return along and whole and types == [f16, f16] and bitwidth(element_type(op.input)) == 4


def has_one_row(op: MatmulOp) -> bool:
    """one row in f16 is multiplied, and the weight is not transposed"""
    rows = is_static(shape_of(op.lhs)) and numel(shape_of(op.lhs)[:-1]) == 1
    return rows and is_plain(op) and not op.transpose_lhs.value.data


class SpreadGroups(Rule):
    """Groups of a weight of 4 bits along the lanes of vector cores"""

    name = "spread-groups"
    weight = Op(DequantizeOp, Value("codes"), ..., name="weight", where=has_groups)
    pattern = Op(MatmulOp, Value("x"), weight, name="matmul", where=has_one_row)

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        old, matmul = match.op("weight", DequantizeOp), match.op("matmul", MatmulOp)
        (terms, columns), whole = shape_of(old.input), old.block_size.value.data
        if not has_room_for_row(terms, self.target):
            return None
        sizes = [size for size in (whole, whole // 2) if size and whole % size == 0]
        padded = {size: ceil(terms / size / LANES) * LANES * size for size in sizes}
        block = next((n for n in sizes if padded[n] <= MOST_PADDED * terms), 0)
        if not block:
            return None
        count = padded[block] // block // LANES

        def spread(value: SSAValue, each: int) -> SSAValue:
            missing = count * LANES * each - shape_of(value)[0]
            if missing:
                value = emit(PadOp, value, pads=[0, missing], axes=[0])
            parts = emit(ReshapeOp, value, shape=[count, LANES, each, columns])
            return emit(TransposeOp, parts, permutation=SPREAD)

        def of_groups(value: SSAValue) -> SSAValue:
            """Numbers of groups, for each half of these."""
            if block < whole:
                rows = emit(ReshapeOp, value, shape=[terms // whole, 1, columns])
                twice = emit(ConcatOp, [rows, rows], axis=1)
                value = emit(ReshapeOp, twice, shape=[terms // block, columns])
            return spread(value, 1)

        zero = None if old.zero_point is None else of_groups(old.zero_point)
        given = {"axis": 1, "block_size": block} | ({} if old.to is None else {"to": old.to})
        codes, scale = spread(old.input, block), of_groups(old.scale)
        weight = emit(DequantizeOp, codes, scale, zero, **given)
        weight = emit(TransposeOp, weight, permutation=UNSPREAD)
        weight = emit(ReshapeOp, weight, shape=[padded[block], columns])
        if padded[block] > terms:
            weight = emit(SliceOp, weight, starts=[0], ends=[terms], axes=[0], steps=[1])
        return emit(MatmulOp, matmul.lhs, weight)


def is_dequantized(value: SSAValue) -> bool:
    """Return whether a core makes a weight of codes."""
    op = value.owner
    return isinstance(op, DequantizeOp) or (
        isinstance(op, TensorOp) and any(map(is_dequantized, op.operands))
    )


class TurnForRate(Rule):
    """Rows of a weight that a cube core loads at less than its full rate (`share_of`), where its
    columns are loaded at that"""

    name = "turn-for-rate"
    pattern = Op(MatmulOp, Value("x"), Value("weight"), name="matmul", where=is_plain)

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        weight, matmul = match["weight"], match.op("matmul", MatmulOp)
        others = [use.operation for use in weight.uses if use.operation is not matmul]
        used_before = all(map(is_prepared, [r for op in others for r in op.results]))
        if rank_of(weight) != 2 or not used_before or not is_prepared(weight):
            return None
        terms, columns = (share_of(size, element_type(weight)) for size in shape_of(weight))
        if columns == 1 or terms < 1 or is_dequantized(weight):
            return None
        turned = emit(TransposeOp, weight, permutation=[1, 0])
        flags = {"transpose_lhs": matmul.transpose_lhs, "transpose_rhs": BoolAttr.from_bool(True)}
        return emit(MatmulOp, matmul.lhs, turned, **flags)


class TurnWeightsPass(TargetPass):
    """Store weights so that cores load long rows of them, at their full rate."""

    name = "turn-weights"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_for(op, self.target)
        loads_rows = [TurnForRate()] if target.split_cores else []
        rewrite(op, [TurnWeight(), SpreadGroups(target), *loads_rows])
