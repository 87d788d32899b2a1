"""What the elements of values cannot go beyond, by the ops that compute them."""

import math

from xdsl.ir import Operation, SSAValue

from ge.dialects.graph import elementwise as g
from ge.dialects.graph.activation import GeluOp, HardSigmoidOp, ReluOp, SigmoidOp, SiluOp
from ge.dialects.graph.normalization import SoftmaxOp
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import ReshapeOp, SqueezeOp, TransposeOp, UnsqueezeOp
from ge.transforms.quantization.observe import Observer
from ge.transforms.quantization.table import Range

ANY: Range = -math.inf, math.inf
LIMITS: dict[type[Operation], Range] = {
    ReluOp: (0.0, math.inf),
    SigmoidOp: (0.0, 1.0),
    HardSigmoidOp: (0.0, 1.0),
    SoftmaxOp: (0.0, 1.0),
    g.TanhOp: (-1.0, 1.0),
    GeluOp: (-0.1701, math.inf),
}
KINDS = ("max", "min", "mean", "average")  # of reductions that stay within what they reduce


class Limits:
    """What the elements of values cannot go beyond, by the ops that compute them."""

    def __init__(self, observer: Observer) -> None:
        self.constants, self.constant = observer.constants, observer.constant

    def of(self, value: SSAValue) -> Range:
        op = value.owner
        if not isinstance(op, Operation):
            return ANY
        if type(op) in LIMITS:
            return LIMITS[type(op)]
        match op:
            case SiluOp(alpha=alpha) if alpha.value.data > 0:
                return -0.2785 / alpha.value.data, math.inf
            case PoolOp(kind=kind) | ReduceOp(kind=kind) if kind.data in KINDS:
                return self.of(op.operands[0])
            case ReshapeOp() | SqueezeOp() | UnsqueezeOp() | TransposeOp():
                return self.of(op.operands[0])
            case g.ClampOp():
                return self.within(self.of(op.input), op.low, op.high)
            case g.MinimumOp() if op.rhs in self.constants:
                return self.within(self.of(op.lhs), None, op.rhs)
            case g.MaximumOp() if op.rhs in self.constants:
                return self.within(self.of(op.lhs), op.rhs, None)
            case _:
                return ANY

    def within(self, range: Range, low: SSAValue | None, high: SSAValue | None) -> Range:
        least, most = range
        if low is not None and low in self.constants:
            least = max(least, float(self.constant(low).min()))
        if high is not None and high in self.constants:
            limits = self.constant(high)
            least, most = min(least, float(limits.min())), min(most, float(limits.max()))
        return least, most
