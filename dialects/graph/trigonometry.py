"""Trigonometric and hyperbolic functions (in radians) and inverses; nan outside the domain."""

from abc import ABC
from typing import ClassVar

from xdsl.irdl import irdl_op_definition

from ge.dialects.graph.support.elementwise_bases import FloatUnary


class Trigonometric(FloatUnary, ABC):
    VECTOR_PROGRAM: ClassVar = True


@irdl_op_definition
class SinOp(Trigonometric):
    name = "graph.sin"


@irdl_op_definition
class CosOp(Trigonometric):
    name = "graph.cos"


@irdl_op_definition
class TanOp(Trigonometric):
    name = "graph.tan"


@irdl_op_definition
class AsinOp(Trigonometric):
    name = "graph.asin"


@irdl_op_definition
class AcosOp(Trigonometric):
    name = "graph.acos"


@irdl_op_definition
class AtanOp(Trigonometric):
    name = "graph.atan"


@irdl_op_definition
class SinhOp(Trigonometric):
    name = "graph.sinh"


@irdl_op_definition
class CoshOp(Trigonometric):
    name = "graph.cosh"


@irdl_op_definition
class AsinhOp(Trigonometric):
    name = "graph.asinh"


@irdl_op_definition
class AcoshOp(Trigonometric):
    name = "graph.acosh"


@irdl_op_definition
class AtanhOp(Trigonometric):
    name = "graph.atanh"
