"""Trigonometric and hyperbolic functions and their inverses."""

from abc import ABC
from typing import ClassVar

from xdsl.irdl import irdl_op_definition

from ge.dialects.graph.support.elementwise_bases import FloatUnary


class Trigonometric(FloatUnary, ABC):
    """Circular and hyperbolic functions, and their inverses."""

    VECTOR_PROGRAM: ClassVar = True


@irdl_op_definition
class SinOp(Trigonometric):
    """The sine of x in radians."""

    name = "graph.sin"


@irdl_op_definition
class CosOp(Trigonometric):
    """The cosine of x in radians."""

    name = "graph.cos"


@irdl_op_definition
class TanOp(Trigonometric):
    """The tangent of x in radians."""

    name = "graph.tan"


@irdl_op_definition
class AsinOp(Trigonometric):
    """The inverse sine, in [-pi/2, pi/2]; nan outside [-1, 1]."""

    name = "graph.asin"


@irdl_op_definition
class AcosOp(Trigonometric):
    """The inverse cosine, in [0, pi]; nan outside [-1, 1]."""

    name = "graph.acos"


@irdl_op_definition
class AtanOp(Trigonometric):
    """The inverse tangent, in [-pi/2, pi/2]."""

    name = "graph.atan"


@irdl_op_definition
class SinhOp(Trigonometric):
    """The hyperbolic sine."""

    name = "graph.sinh"


@irdl_op_definition
class CoshOp(Trigonometric):
    """The hyperbolic cosine."""

    name = "graph.cosh"


@irdl_op_definition
class AsinhOp(Trigonometric):
    """The inverse hyperbolic sine."""

    name = "graph.asinh"


@irdl_op_definition
class AcoshOp(Trigonometric):
    """The inverse hyperbolic cosine; nan below 1."""

    name = "graph.acosh"


@irdl_op_definition
class AtanhOp(Trigonometric):
    """The inverse hyperbolic tangent; nan outside [-1, 1]."""

    name = "graph.atanh"
