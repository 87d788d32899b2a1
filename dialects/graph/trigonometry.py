"""Trigonometric and hyperbolic functions and their inverses, of each element."""

from xdsl.irdl import irdl_op_definition

from ge.dialects.graph.support.elementwise_bases import FloatUnary


@irdl_op_definition
class SinOp(FloatUnary):
    """The sine of x in radians."""

    name = "graph.sin"


@irdl_op_definition
class CosOp(FloatUnary):
    """The cosine of x in radians."""

    name = "graph.cos"


@irdl_op_definition
class TanOp(FloatUnary):
    """The tangent of x in radians."""

    name = "graph.tan"


@irdl_op_definition
class AsinOp(FloatUnary):
    """The inverse sine, in [-pi/2, pi/2]; nan outside [-1, 1]."""

    name = "graph.asin"


@irdl_op_definition
class AcosOp(FloatUnary):
    """The inverse cosine, in [0, pi]; nan outside [-1, 1]."""

    name = "graph.acos"


@irdl_op_definition
class AtanOp(FloatUnary):
    """The inverse tangent, in [-pi/2, pi/2]."""

    name = "graph.atan"


@irdl_op_definition
class SinhOp(FloatUnary):
    """The hyperbolic sine."""

    name = "graph.sinh"


@irdl_op_definition
class CoshOp(FloatUnary):
    """The hyperbolic cosine."""

    name = "graph.cosh"


@irdl_op_definition
class AsinhOp(FloatUnary):
    """The inverse hyperbolic sine."""

    name = "graph.asinh"


@irdl_op_definition
class AcoshOp(FloatUnary):
    """The inverse hyperbolic cosine; nan below 1."""

    name = "graph.acosh"


@irdl_op_definition
class AtanhOp(FloatUnary):
    """The inverse hyperbolic tangent; nan outside [-1, 1]."""

    name = "graph.atanh"
