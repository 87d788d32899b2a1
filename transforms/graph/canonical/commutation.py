"""Constants stand on the right, so that equal ops look equal."""

from typing import TypeAlias

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.elementwise import AddOp, AndOp, MulOp, OrOp, XorOp
from ge.transforms.graph.canonical.local import Make, Replacement, rule

Swappable: TypeAlias = AddOp | MulOp | AndOp | OrOp | XorOp


@rule(AddOp, MulOp, AndOp, OrOp, XorOp, below=(ConstantOp,))
def constant_right(op: Swappable, make: Make) -> Replacement:
    """c + x = x + c, where c alone is a constant"""
    if isinstance(op.lhs.owner, ConstantOp) and not isinstance(op.rhs.owner, ConstantOp):
        return make(type(op), op.rhs, op.lhs)
    return None
