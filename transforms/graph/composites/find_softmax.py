"""Softmax recognized in the exponentials and sums that some exporters write out.

    %m = graph.reduce max %x axes [2]
    %e = graph.exp (%x - %m)
    %s = graph.reduce sum %e axes [2]
    %y = graph.div %e, %s                          or the product with the reciprocal
becomes
    %y = graph.softmax %x axis 2

and (%x - %m) - log %s becomes graph.log_softmax. Without the maximum, exponentials overflow where
softmax does not: those stay.
"""

from typing import ClassVar

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from ge.dialects import graph as g
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.matching import Match, Op, Value
from ge.transforms.rewriting.passes import FunctionPass, Relation, Ulps
from ge.transforms.rewriting.rules import Emit, Rule


def along_one_axis(op: g.ReduceOp) -> bool:
    """the dimension summed over stays as 1"""
    axes = op.reduced_axes()
    return axes is not None and len(axes) == 1 and bool(op.keep_dims.value.data)


x = Value("x")
SHIFTED = Op(g.SubOp, x, Op(g.ReduceOp, x, ..., name="max", kind="max", where=along_one_axis))
POWERS = Op(g.ExpOp, SHIFTED)
SUM = Op(g.ReduceOp, POWERS, ..., name="sum", kind="sum", where=along_one_axis)


class FindSoftmax(Rule):
    """exp(x - max x) / sum(exp(x - max x))"""

    name = "find-softmax"
    nearly = 4
    kind: ClassVar[type[g.SoftmaxLike]] = g.SoftmaxOp
    pattern = Op(g.DivOp, POWERS, SUM)

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        axis, other = (match.op(n, g.ReduceOp).reduced_axes() for n in ("sum", "max"))
        if axis is None or axis != other or match["x"].type != match.root.results[0].type:
            return None
        return emit(self.kind, match["x"], axis=axis[0])


class FindSoftmaxByReciprocal(FindSoftmax):
    """exp(x - max x) * (1 / sum(exp(x - max x)))"""

    pattern = Op(g.MulOp, POWERS, Op(g.ReciprocalOp, SUM))


class FindLogSoftmax(FindSoftmax):
    """(x - max x) - log(sum(exp(x - max x)))"""

    name = "find-log-softmax"
    kind = g.LogSoftmaxOp
    pattern = Op(g.SubOp, SHIFTED, Op(g.LogOp, SUM))


class FindSoftmaxPass(FunctionPass):
    """Replace softmax and its logarithm that are written out by graph ops."""

    name = "find-softmax"
    RELATION: ClassVar[Relation] = Ulps()

    def run(self, func: FuncOp) -> None:
        rewrite(func.body, [FindSoftmax(), FindSoftmaxByReciprocal(), FindLogSoftmax()])
