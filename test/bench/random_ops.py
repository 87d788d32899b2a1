"""Makes an op of each class for random graphs, with operands that suit it.

Most ops are made from their definition alone (`generic`): operands and properties of the kinds
that it states, at random, until `infer` accepts them. Ops of which hardly any random operands fit
together have a maker that chooses them (`random_computing_ops.py`, `random_moving_ops.py`). A new
op, of a plugin too, needs none of this.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import random_computing_ops  # noqa: F401  its makers
import random_moving_ops  # noqa: F401
from random_builder import MAKERS, Builder, Unsuitable
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    f32,
    f64,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    OptOperandDef,
    OptPropertyDef,
    VarOperandDef,
    VarResultDef,
    VerificationContext,
)
from xdsl.utils.exceptions import VerifyException

from ge.dialects.support.constraints import ChoiceConstraint
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import shape_of


def make(b: Builder, op: type[TensorOp], tries: int = 30) -> TensorOp:
    """An op of the class, not added yet. Raises Unsuitable when none is found."""
    maker = MAKERS.get(op) or (lambda b: generic(b, op))
    for _ in range(tries):
        try:
            made = maker(b)
            made.verify()
            return made
        except (VerifyException, ValueError, IndexError, ZeroDivisionError) as e:
            b.words.setdefault(op, set()).update(re.findall(r"[a-z]\w+", str(e)))
        except Unsuitable:
            pass
    raise Unsuitable


# ---- from the definition -----------------------------------------------------------------------

KINDS: dict[str, Attribute] = {
    "flag": BoolAttr.from_bool(True),
    "int": IntegerAttr(1, i64),
    "float": FloatAttr(1.0, f64),
    "ints": DenseArrayBase.from_list(i64, [1]),
    "floats": DenseArrayBase.from_list(f64, [1.0]),
    "word": StringAttr("?"),
    "words": ArrayAttr([StringAttr("?")]),
    "element": f32,
}


@cache
def kind_of(constraint: Any) -> str:
    """Which of `KINDS` a property is, the first of several; "" where it is another one."""

    def fits(attr: Attribute) -> bool:
        try:
            constraint.verify(attr, VerificationContext())
            return True
        except VerifyException:
            return False

    return next((name for name, attr in KINDS.items() if fits(attr)), "")


def generic(b: Builder, op: type[TensorOp]) -> TensorOp:
    definition = op.get_irdl_definition()
    properties: dict[str, Any] = {}
    operands: list[Any] = []
    for name, kind in definition.operands:
        first = operands[0] if operands and isinstance(operands[0], SSAValue) else None
        prop = op.PARAMETERS.get(name)
        if isinstance(kind, OptOperandDef) and b.flip():
            operands.append(None)
        elif prop is not None and first is not None:
            value, ints = b.parameter(*random_ints(b, len(shape_of(first))))
            operands.append(value)
            if ints is not None:
                properties[prop] = ints if b.flip(0.7) else ints[0]
        elif isinstance(kind, VarOperandDef) and not isinstance(kind, OptOperandDef):
            head = b.any()
            operands.append([head, *(b.broadcastable(head) for _ in range(b.rng.randint(0, 2)))])
        else:
            operands.append(b.any() if first is None else another(b, first))
    first = next((o for o in operands if isinstance(o, SSAValue)), None)
    rank = 2 if first is None else len(shape_of(first))
    for name, p in definition.properties.items():
        given = name in properties or name in op.PARAMETERS.values()
        optional = isinstance(p, OptPropertyDef) or p.default_value is not None
        if not given and not name.endswith("SegmentSizes") and not (optional and b.flip()):
            if isinstance(p.constr, ChoiceConstraint):
                value = b.rng.choice(p.constr.attr.words())
            else:
                value = random_property(b, op, kind_of(p.constr), rank)
            if value is not None:
                properties[name] = value
    if any(isinstance(r, VarResultDef) for _, r in definition.results):
        return op.of(*operands, results=b.rng.randint(1, 3), **properties)
    return op.of(*operands, **properties)


def another(b: Builder, first: SSAValue) -> SSAValue:
    """An operand beside the first one."""
    kind = b.rng.random()
    if kind < 0.75:
        return b.broadcastable(first)
    if kind < 0.85:
        return b.broadcastable(first, b.element())
    return b.any()


def random_ints(b: Builder, count: int) -> Sequence[int]:
    length = b.rng.choice((count, count, 1, 2, 2 * count))
    return [b.rng.randint(-1, 4) for _ in range(max(length, 1))]


def random_property(b: Builder, op: type[TensorOp], kind: str, rank: int) -> Any:
    match kind:
        case "flag":
            return b.flip()
        case "int":
            return b.rng.randint(-2, 3)
        case "float":
            return b.rng.choice((0.0, 1e-5, 0.1, 0.5, 1.0, 2.0))
        case "ints":
            return list(random_ints(b, rank))
        case "floats":
            return [b.rng.choice((0.5, 1.0, 2.0)) for _ in range(rank)]
        case "word":
            return b.rng.choice(sorted(b.words.get(op, ())) or ["?"])
        case "element":
            return b.element()
        case _:
            return None
