"""What the vector unit executes for an op, where the target states cycles of its instructions
(`vector_cycles`).

An instruction works on repeats of 256 bytes, and starts once a tile. Floats are computed in 32 bits
where they are bf16, which has no arithmetic, or where an op divides or takes exponentials or roots;
casts stand where a kernel loads or stores fewer bits. Integers of 8 bits are computed in 16.
"""

from xdsl.dialects.builtin import bf16

from ge.dialects.support.boxes import MOVING, Access
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, numel, shape_of

REPEAT_BYTES = 256

# Instructions for each element, by op; `scalar` has one number as an operand. gelu is
# x / (1 + exp(-1.6 x (1 + 0.045 x^2))), what chips compute for all its variants. Floats are rounded
# to integers by a conversion (official: CANN's Cast, float to float). elu, erf, mish, selu and
# softplus are as CANN 8.1 computes them (opp/built-in, impl/dynamic): mish and softplus by one form
# above and one below 0, so that no exponential overflows; that celu is as elu is an assumption. Ops
# that are not here: `VECTOR_COST` instructions as slow as add.
ELEMENTWISE: dict[str, tuple[str, ...]] = {
    "abs": ("abs",),
    "add": ("add",),
    "cast": ("cast",),
    "ceil": ("cast",),
    "celu": (*("scalar",) * 3, "exp", "scalar", "mul", "scalar"),
    "clamp": ("scalar", "scalar"),
    "compare": ("compare",),
    "div": ("div",),
    "elu": (*("scalar",) * 3, "exp", "scalar", "mul", "scalar"),
    "erf": (*("scalar",) * 13, *("mul",) * 10, "div"),
    "exp": ("exp",),
    "floor": ("cast",),
    "gelu": ("mul", "scalar", "scalar", "mul", "exp", "scalar", "div"),
    "log": ("ln",),
    "maximum": ("max",),
    "minimum": ("min",),
    "mish": ("add", "mul", *("compare", "exp", "exp", "add", "div", "select") * 2)
    + ("scalar",) * 9,
    "mul": ("mul",),
    "neg": ("scalar",),
    "reciprocal": ("div",),
    "relu": ("relu",),
    "round": ("cast",),
    "select": ("select",),
    "selu": ("scalar", "exp", "scalar", "scalar", "compare", "select"),
    "sigmoid": ("scalar", "exp", "scalar", "div"),
    "silu": ("scalar", "exp", "scalar", "div"),
    "softplus": (*("scalar",) * 6, *("exp", "ln", "add") * 2),
    "softsign": ("abs", "scalar", "div"),
    "sqrt": ("sqrt",),
    "sub": ("sub",),
    "tanh": ("scalar", "exp", "scalar", "scalar", "div"),
    "transpose": ("transpose",),
}

SLOW = frozenset({"exp", "ln", "div", "sqrt", "rsqrt"})  # in 32 bits


def bits_of(op: TensorOp) -> int:
    """Of the elements that instructions work on."""
    ends = *op.operands[:2], *op.results
    values = [v for v in ends if numel(shape_of(v)) > 1] or ends
    widest = max((bitwidth(element_type(v)) for v in values), default=16)
    slow = op.ACCESS is Access.ROWS or SLOW & set(ELEMENTWISE.get(op.name[6:], ()))
    if op.ACCESS not in MOVING and (slow or any(element_type(v) == bf16 for v in values)):
        widest = max(widest, 32)
    return max(widest, 16)
