"""Truth values, comparisons and choices in their simplest form."""

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as g
from ge.dialects.graph.shape import BroadcastToOp
from ge.dialects.graph.support.folding import Number, is_splat, splat
from ge.dialects.support.element_types import is_float, is_integer
from ge.dialects.support.types import element_type, is_static, shape_of
from ge.transforms.graph.canonical.facts import uniform
from ge.transforms.graph.canonical.local import Make, Replacement, rule

OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def of_truth_values(value: SSAValue) -> bool:
    return element_type(value) == i1


# ---- comparisons -------------------------------------------------------------------------------


@rule(g.NotOp)
def not_compared(op: g.NotOp, make: Make) -> Replacement:
    """not (x == y) = (x != y); not (x < y) = (x >= y) where there is no nan"""
    inner = op.input.owner
    if not isinstance(inner, g.CompareOp):
        return None
    predicate = inner.predicate.data
    if predicate not in ("eq", "ne") and is_float(element_type(inner.lhs)):
        return None
    return make(g.CompareOp, inner.lhs, inner.rhs, predicate=OPPOSITE[predicate])


@rule(g.CompareOp)
def compare_with_itself(op: g.CompareOp, make: Make) -> Replacement:
    """x != x = is_nan x; x == x, x <= x and x >= x the opposite; x < x and x > x never"""
    if op.lhs is not op.rhs or not is_float(element_type(op.lhs)):
        return None
    predicate, shape = op.predicate.data, shape_of(op.lhs)
    if predicate in ("lt", "gt"):
        return make.constant(0, i1, shape) if is_static(shape) else None
    nan = make(g.IsNanOp, op.lhs)
    return nan if predicate == "ne" else make(g.NotOp, nan)


# Comparisons of a boolean, as 0 or 1, with a number that give it (True) or its negation.
TRUTH_OF: dict[tuple[str, Number], bool] = {
    ("eq", 1): True, ("ge", 1): True, ("ne", 0): True, ("gt", 0): True,
    ("ne", 1): False, ("lt", 1): False, ("eq", 0): False, ("le", 0): False,
}  # fmt: skip


@rule(g.CompareOp)
def compare_truth_value(op: g.CompareOp, make: Make) -> Replacement:
    """b == 1 = b, b == 0 = not b, also where b was converted to numbers"""
    number, value = uniform(op.rhs, op.lhs), op.lhs
    if number is None:
        return None
    if isinstance(value.owner, g.CastOp):
        value = value.owner.input
    if not of_truth_values(value) or (op.predicate.data, number) not in TRUTH_OF:
        return None
    return value if TRUTH_OF[op.predicate.data, number] else make(g.NotOp, value)


@rule(g.CastOp)
def cast_choice_to_truth(op: g.CastOp, make: Make) -> Replacement:
    """The truth of select(c, 1, 0) is c, that of select(c, 0, 1) not c."""
    choice = op.input.owner
    if op.to != i1 or not isinstance(choice, g.SelectOp):
        return None
    yes, no = splat(choice.on_true), splat(choice.on_false)
    if yes is None or no is None or choice.condition.type != op.result.type:
        return None
    if bool(yes) == bool(no):
        return None
    return choice.condition if yes else make(g.NotOp, choice.condition)


# ---- and, or, xor ------------------------------------------------------------------------------


@rule(g.XorOp)
def flip_all(op: g.XorOp, make: Make) -> Replacement:
    """x ^ true = not x"""
    for value, other in op.sides():
        number = uniform(other, value)
        if number is not None and number in ((1,) if of_truth_values(value) else (-1,)):
            return make(g.NotOp, value)
    return None


@rule(g.AndOp, g.OrOp)
def and_again(op: g.AndOp | g.OrOp, make: Make) -> Replacement:
    """x & (x & y) = x & y; x & (x | y) = x; the same with "or" and "and" exchanged"""
    for value, other in op.sides():
        inner = other.owner
        if not isinstance(inner, g.AndOp | g.OrOp) or value not in inner.operands:
            continue
        result = other if type(inner) is type(op) else value
        if result.type == op.result.type:
            return result
    return None


# ---- choices -----------------------------------------------------------------------------------


@rule(g.SelectOp)
def choice_known(op: g.SelectOp, make: Make) -> Replacement:
    """A choice that is made, of something that the others broadcast."""
    known, shape = splat(op.condition), shape_of(op.result)
    if known is None or not is_static(shape):
        return None
    return make(BroadcastToOp, op.on_true if known else op.on_false, shape=shape)


@rule(g.SelectOp)
def choice_of_negated(op: g.SelectOp, make: Make) -> Replacement:
    """select(not c, x, y) = select(c, y, x)"""
    if isinstance(inner := op.condition.owner, g.NotOp):
        return make(g.SelectOp, inner.input, op.on_false, op.on_true)
    return None


@rule(g.SelectOp)
def choice_of_truth(op: g.SelectOp, make: Make) -> Replacement:
    """select(c, true, x) = c | x, select(c, x, false) = c & x, select(c, false, true) = not c"""
    if not of_truth_values(op.on_true):
        return None
    if is_splat(op.on_true, 1):
        return make(g.OrOp, op.condition, op.on_false)
    if is_splat(op.on_false, 0):
        return make(g.AndOp, op.condition, op.on_true)
    if is_splat(op.on_true, 0) and is_splat(op.on_false, 1):
        return make(g.NotOp, op.condition)
    return None


@rule(g.SelectOp)
def choice_again(op: g.SelectOp, make: Make) -> Replacement:
    """select(c, select(c, x, y), z) = select(c, x, z), and for the other branch"""
    yes, no = op.on_true.owner, op.on_false.owner
    if isinstance(yes, g.SelectOp) and yes.condition is op.condition:
        return make(g.SelectOp, op.condition, yes.on_true, op.on_false)
    if isinstance(no, g.SelectOp) and no.condition is op.condition:
        return make(g.SelectOp, op.condition, op.on_true, no.on_false)
    return None


@rule(g.IsNanOp)
def never_nan(op: g.IsNanOp, make: Make) -> Replacement:
    """What comes from integers is a number."""
    inner, shape = op.input.owner, shape_of(op.input)
    if not isinstance(inner, g.CastOp) or not is_static(shape):
        return None
    source = element_type(inner.input)
    return make.constant(0, i1, shape) if source == i1 or is_integer(source) else None
