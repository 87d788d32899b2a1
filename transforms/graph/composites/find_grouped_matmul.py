"""Matmuls by matrices that are gathered, as exports of mixtures of experts have them.

    %m = graph.gather %weights, %experts           256 matrices of 28672 x 4096, of 8
    %y = graph.matmul %x, %m
becomes
    %y = graph.grouped_matmul %x, %weights groups %experts

which stores none of the gathered matrices. Where they stand on the left, as in %m %x of one column
each, operands and result are transposed.
"""

from typing import ClassVar

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from ge.dialects import graph as g
from ge.dialects.support.element_types import is_float
from ge.dialects.support.types import element_type, rank_of
from ge.transforms.analysis.parts import last_swapped
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.matching import Match, Op, Value
from ge.transforms.rewriting.passes import FunctionPass, Relation, Ulps
from ge.transforms.rewriting.rules import Emit, Rule


def picks_matrices(op: g.GatherOp) -> bool:
    """matrices are gathered, of floats"""
    is_first = rank_of(op.input) == 3 and op.axis.value.data == 0
    return is_first and rank_of(op.indices) > 0 and is_float(element_type(op.input))


GATHERED = Op(g.GatherOp, Value("weights"), Value("groups"), where=picks_matrices, shared=True)


class FindGroupedMatmul(Rule):
    """matmul(x, gather(weights, groups))"""

    name = "find-grouped-matmul"
    nearly = 2
    pattern = Op(g.MatmulOp, Value("x"), GATHERED, name="matmul", to=None)
    on_the_left: ClassVar[bool] = False

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        op, x = match.op("matmul", g.MatmulOp), match["x"]
        if rank_of(x) < 2:
            return None
        left, right = bool(op.transpose_lhs.value.data), bool(op.transpose_rhs.value.data)
        if self.on_the_left:  # (a b)^T = b^T a^T
            left, right = not right, not left
        if left:
            x = turned(x, emit)
        weights, groups = match["weights"], match["groups"]
        result = emit(g.GroupedMatmulOp, x, weights, groups, transpose_rhs=right)
        return turned(result, emit) if self.on_the_left else result


class FindGroupedMatmulOnTheLeft(FindGroupedMatmul):
    """matmul(gather(weights, groups), x)"""

    name = "find-grouped-matmul-on-the-left"
    pattern = Op(g.MatmulOp, GATHERED, Value("x"), name="matmul", to=None)
    on_the_left = True


def turned(value: SSAValue, emit: Emit) -> SSAValue:
    """Matrices transposed."""
    return emit(g.TransposeOp, value, permutation=last_swapped(rank_of(value)))


class FindGroupedMatmulPass(FunctionPass):
    """Replace matmuls by gathered matrices."""

    name = "find-grouped-matmul"
    RELATION: ClassVar[Relation] = Ulps()

    def run(self, func: FuncOp) -> None:
        rewrite(func.body, [FindGroupedMatmul(), FindGroupedMatmulOnTheLeft()])
