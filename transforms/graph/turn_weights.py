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

Codes that vector cores multiply with one row in f16 (`runtime/library/matmul/single_row.py`) are
stored with rows along the columns: they are not turned, and are where they lay along the terms.
Others with a scale for each group of terms stay.
"""

from xdsl.context import Context
from xdsl.dialects.builtin import BoolAttr, ModuleOp, f16
from xdsl.ir import SSAValue

from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.graph.shape import TransposeOp
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
from ge.runtime.library.matmul.codes import has_codes_for_rows
from ge.transforms.graph.canonical.linear_maps import is_prepared
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.matching import Match, Op, Value
from ge.transforms.rewriting.passes import TargetPass
from ge.transforms.rewriting.rules import Emit, Rule


def is_stored(op: DequantizeOp) -> bool:
    """a weight of two dimensions is made of constants, for one op"""
    alone = op.result.has_one_use() and rank_of(op.result) == 2
    return alone and all(map(is_prepared, op.operands))


def is_weight(op: DequantizeOp) -> bool:
    """a weight has one scale, or one for each row or column"""
    return is_stored(op) and not op.block_size.value.data


def is_plain(op: MatmulOp) -> bool:
    """the weight is not transposed, nor is the type of the result stated"""
    return not op.transpose_rhs.value.data and op.to is None


def has_one_row(op: MatmulOp) -> bool:
    """one row in f16 is multiplied"""
    rows = is_static(shape_of(op.lhs)) and numel(shape_of(op.lhs)[:-1]) == 1
    return rows and element_type(op.lhs) == f16 and not op.transpose_lhs.value.data


class TurnWeight(Rule):
    """Rows of a weight along the terms of products"""

    name = "turn-weights"
    weight = Op(DequantizeOp, Value("codes"), ..., name="weight", where=is_weight)
    pattern = Op(MatmulOp, Value("x"), weight, name="matmul", where=is_plain)

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        old, matmul = match.op("weight", DequantizeOp), match.op("matmul", MatmulOp)
        by_rows = self.target.split_cores and has_one_row(matmul)
        if by_rows and has_codes_for_rows(old, 1):
            return None
        flags = {"transpose_lhs": matmul.transpose_lhs, "transpose_rhs": BoolAttr.from_bool(True)}
        return emit(MatmulOp, matmul.lhs, turned(old, emit), **flags)


class TurnForOneRow(Rule):
    """Rows of a weight along the columns of the product of one row"""

    name = "turn-for-one-row"
    weight = Op(DequantizeOp, Value("codes"), ..., name="weight", where=is_stored)
    pattern = Op(MatmulOp, Value("x"), weight, name="matmul", where=has_one_row)

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        old, matmul = match.op("weight", DequantizeOp), match.op("matmul", MatmulOp)
        if not matmul.transpose_rhs.value.data or not has_codes_for_rows(old, 0):
            return None
        return emit(MatmulOp, matmul.lhs, turned(old, emit), to=matmul.to)


def turned(old: DequantizeOp, emit: Emit) -> SSAValue:
    """A weight with the dimensions of its codes exchanged."""
    ends = [
        emit(TransposeOp, v, permutation=[1, 0]) if v is not None and rank_of(v) == 2 else v
        for v in (old.input, old.scale, old.zero_point)
    ]
    axis = None if old.axis is None else 1 - normalize_axis(old.axis.value.data, 2)
    given = {} if axis is None else {"axis": axis, "block_size": old.block_size}
    given |= {} if old.to is None else {"to": old.to}
    return emit(DequantizeOp, *ends, **given)


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
        apart = [TurnForOneRow(), TurnForRate()] if target.split_cores else []
        rewrite(op, [TurnWeight(target), *apart])
