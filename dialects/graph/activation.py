"""Activation functions: elementwise ops that neural networks put behind their layers."""

from typing import ClassVar

from xdsl.dialects.builtin import FloatAttr
from xdsl.irdl import irdl_op_definition, prop_def

from ge.dialects.graph.support.elementwise_bases import Binary, FloatUnary, Unary
from ge.dialects.support.constraints import F64, choice, choice_def


@irdl_op_definition
class ReluOp(Unary):
    """max(x, 0)"""

    name = "graph.relu"
    IDEMPOTENT: ClassVar = True


@irdl_op_definition
class SigmoidOp(FloatUnary):
    """1 / (1 + exp(-x))"""

    name = "graph.sigmoid"
    VECTOR_COST: ClassVar = 6


@irdl_op_definition
class SiluOp(FloatUnary):
    """x * sigmoid(alpha * x); also called swish."""

    name = "graph.silu"
    alpha = prop_def(F64, default_value=FloatAttr(1.0, 64))
    VECTOR_COST: ClassVar = 7


Approximation = choice("graph.approximation", "none", "tanh", "sigmoid")


@irdl_op_definition
class GeluOp(FloatUnary):
    """x * Phi(x) with the normal distribution function Phi: `approximate` is `none` (by erf),
    `tanh` (Hendrycks and Gimpel, arXiv 1606.08415) or `sigmoid` (x * sigmoid(1.702 x))."""

    name = "graph.gelu"
    approximate = choice_def(Approximation, "none")
    VECTOR_COST: ClassVar = 14


@irdl_op_definition
class SoftplusOp(FloatUnary):
    """log(1 + exp(x))"""

    name = "graph.softplus"


@irdl_op_definition
class SoftsignOp(FloatUnary):
    """x / (1 + |x|)"""

    name = "graph.softsign"
    VECTOR_COST: ClassVar = 3


@irdl_op_definition
class MishOp(FloatUnary):
    """x * tanh(softplus(x))"""

    name = "graph.mish"
    VECTOR_COST: ClassVar = 16


@irdl_op_definition
class EluOp(FloatUnary):
    """x for x >= 0, alpha * (exp(x) - 1) below."""

    name = "graph.elu"
    alpha = prop_def(F64, default_value=FloatAttr(1.0, 64))


@irdl_op_definition
class SeluOp(FloatUnary):
    """gamma * x for x > 0, gamma * alpha * (exp(x) - 1) below (arXiv 1706.02515)."""

    name = "graph.selu"
    alpha = prop_def(F64, default_value=FloatAttr(1.67326319217681884765625, 64))
    gamma = prop_def(F64, default_value=FloatAttr(1.05070102214813232421875, 64))


@irdl_op_definition
class CeluOp(FloatUnary):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)) (arXiv 1704.07483)."""

    name = "graph.celu"
    alpha = prop_def(F64, default_value=FloatAttr(1.0, 64))


@irdl_op_definition
class LeakyReluOp(FloatUnary):
    """x for x >= 0, alpha * x below."""

    name = "graph.leaky_relu"
    alpha = prop_def(F64, default_value=FloatAttr(0.01, 64))
    VECTOR_COST: ClassVar = 2


@irdl_op_definition
class ThresholdedReluOp(FloatUnary):
    """x where x > alpha, else 0."""

    name = "graph.thresholded_relu"
    alpha = prop_def(F64, default_value=FloatAttr(1.0, 64))
    VECTOR_COST: ClassVar = 2


@irdl_op_definition
class HardSigmoidOp(FloatUnary):
    """max(0, min(1, alpha * x + beta))"""

    name = "graph.hard_sigmoid"
    alpha = prop_def(F64, default_value=FloatAttr(0.2, 64))
    beta = prop_def(F64, default_value=FloatAttr(0.5, 64))
    VECTOR_COST: ClassVar = 4


@irdl_op_definition
class HardSwishOp(FloatUnary):
    """x * max(0, min(1, x / 6 + 1 / 2)) (arXiv 1905.02244)."""

    name = "graph.hard_swish"
    VECTOR_COST: ClassVar = 5


@irdl_op_definition
class ShrinkOp(Unary):
    """x + bias below -lambd, x - bias above lambd, 0 between."""

    name = "graph.shrink"
    bias = prop_def(F64, default_value=FloatAttr(0.0, 64))
    lambd = prop_def(F64, default_value=FloatAttr(0.5, 64))
    VECTOR_COST: ClassVar = 4


@irdl_op_definition
class PReluOp(Binary):
    """lhs for lhs >= 0, lhs * rhs below; rhs is the slope."""

    name = "graph.prelu"
    VECTOR_COST: ClassVar = 3
