"""What a condition on sizes is for all sizes but a few.

    %s = graph.shape_of %x end 1 : tensor<?x?xf32> -> tensor<1xi64>
    %c = graph.compare "eq" %s, %one : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi1>
    usual(%c)    # False: most sizes are not 1

A size that is compared with 0 or 1 is taken to be a larger one: these are sizes of axes that are
empty, or broadcast. Sizes that are compared with each other, or for equality with a number, are
taken to differ.
"""

from xdsl.ir import Operation, SSAValue

from ge.dialects.graph.elementwise import AndOp, CastOp, CompareOp, NotOp, OrOp
from ge.dialects.graph.shape import ShapeOfOp, View, is_shape_arithmetic
from ge.dialects.support.types import constant_ints

SMALL = 1  # sizes up to this are special: an axis that is empty, or broadcast


MOST_STEPS = 8  # of a chain of shape computations


def follows_from_sizes(value: SSAValue, steps: int = MOST_STEPS) -> bool:
    """Whether a value is shape arithmetic that begins at the shape of a tensor."""
    op = value.owner
    if not steps or not isinstance(op, Operation) or not is_shape_arithmetic(op):
        return False
    return isinstance(op, ShapeOfOp) or any([follows_from_sizes(v, steps - 1) for v in op.operands])


def usual(condition: SSAValue) -> bool | None:
    """What a condition is for all sizes but a few; None where that is not known."""
    match condition.owner:
        case NotOp() as op:
            inner = usual(op.operands[0])
            return None if inner is None else not inner
        case CastOp() | View() as op:
            return usual(op.operands[0])
        case AndOp() as op:
            return both(usual(op.lhs), usual(op.rhs))
        case OrOp() as op:
            a, b = usual(op.lhs), usual(op.rhs)
            neither = both(a if a is None else not a, b if b is None else not b)
            return None if neither is None else not neither
        case CompareOp() as op:
            return compared(op.predicate.data, op.lhs, op.rhs)
        case _:
            return None


def both(a: bool | None, b: bool | None) -> bool | None:
    if a is False or b is False:
        return False
    return True if a and b else None


MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def compared(predicate: str, a: SSAValue, b: SSAValue) -> bool | None:
    if not follows_from_sizes(a):
        a, b, predicate = b, a, MIRRORED.get(predicate, predicate)
    if not follows_from_sizes(a):
        return None
    if predicate in ("eq", "ne"):
        known = follows_from_sizes(b) or constant_ints(b) is not None
        return predicate == "ne" if known else None
    limit = constant_ints(b)
    least = SMALL + (predicate in ("lt", "ge"))  # x < 2 and x >= 2 split as x <= 1 and x > 1
    if limit is None or max(limit, default=0) > least:
        return None
    return predicate in ("gt", "ge")
