"""Quantized weights are stored with rows along the terms of products.

    %w = graph.dequantize %codes, %scales axis 1 : (tensor<4096x11008xi8>, ...)
    %y = graph.matmul %x, %w
becomes
    %0 = graph.transpose %codes permutation [1, 0]          before the program runs
    %w = graph.dequantize %0, %scales axis 0 : (tensor<11008x4096xi8>, ...)
    %y = graph.matmul %x, %w transpose_rhs true

A core that dequantizes the weights of some columns on their way to the cube then loads few long
rows instead of many short ones. It runs where tile programs are written; weights with a scale for
each block stay.
"""

from xdsl.context import Context
from xdsl.dialects.builtin import BoolAttr, ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.graph.shape import TransposeOp
from ge.dialects.support.types import normalize_axis, rank_of
from ge.transforms.graph.canonical.linear_maps import is_prepared
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.matching import Match, Op, Value
from ge.transforms.rewriting.rules import Emit, Rule


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


class TurnWeightsPass(ModulePass):
    """Store quantized weights with rows along the terms of products."""

    name = "turn-weights"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [TurnWeight()])
