"""The dialect `acme`: two ops on tensors."""

from typing import ClassVar

from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Dialect
from xdsl.irdl import irdl_op_definition, prop_def

from ge.dialects.graph.support.elementwise_bases import FloatUnary


@irdl_op_definition
class ClippedOp(FloatUnary):
    """min(|x|, limit), which Acme's vector unit has an instruction for."""

    name = "acme.clipped"
    limit = prop_def(FloatAttr, default_value=FloatAttr(6.0, 64))
    VECTOR_COST: ClassVar = 1  # instructions for each element


@irdl_op_definition
class TwiceOp(FloatUnary):
    """x + x"""

    name = "acme.twice"


Acme = Dialect("acme", [ClippedOp, TwiceOp])
