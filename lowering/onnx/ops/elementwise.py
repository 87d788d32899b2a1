"""ONNX's elementwise ops, activation functions, and reductions (with ArgMax, ArgMin, CumSum,
CumProd)."""

import functools

import numpy as np
from xdsl.dialects.builtin import f8E8M0FNU
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph import activation as a
from ge.dialects.graph import elementwise as e
from ge.dialects.graph import elementwise as trig
from ge.dialects.graph.elementwise import (
    AbsOp,
    AddOp,
    AndOp,
    BitcastOp,
    CastOp,
    CeilOp,
    ClampOp,
    CompareOp,
    DivOp,
    ErfOp,
    ExpOp,
    FloorOp,
    IsInfOp,
    IsNanOp,
    LogOp,
    MaximumOp,
    MinimumOp,
    ModOp,
    MulOp,
    NegOp,
    NotOp,
    OrOp,
    PowOp,
    ReciprocalOp,
    RoundOp,
    SelectOp,
    ShiftOp,
    SignOp,
    SqrtOp,
    SubOp,
    TanhOp,
    XorOp,
)
from ge.dialects.graph.reduction import ArgReduceOp, CumulativeOp, ReduceOp
from ge.dialects.support.element_types import row_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import DYNAMIC, agree, element_type, shape_of, shape_text
from ge.lowering.onnx.model import element_of_onnx
from ge.lowering.onnx.ops.shape import as_vector
from ge.lowering.onnx.registry import Handler, Node, Unsupported, onnx_op

# ONNX op type -> the graph op with the same operands and no attributes
SAME: dict[str, type[TensorOp]] = {
    "Abs": AbsOp, "Neg": NegOp, "Sign": SignOp, "Floor": FloorOp, "Ceil": CeilOp,
    "Round": RoundOp, "Reciprocal": ReciprocalOp, "Sqrt": SqrtOp, "Exp": ExpOp,
    "Log": LogOp, "Sin": trig.SinOp, "Cos": trig.CosOp, "Tan": trig.TanOp, "Asin": trig.AsinOp,
    "Acos": trig.AcosOp, "Atan": trig.AtanOp, "Sinh": trig.SinhOp, "Cosh": trig.CoshOp,
    "Tanh": TanhOp, "Asinh": trig.AsinhOp, "Acosh": trig.AcoshOp, "Atanh": trig.AtanhOp,
    "Erf": ErfOp, "Relu": a.ReluOp, "Sigmoid": a.SigmoidOp, "Softplus": a.SoftplusOp,
    "Softsign": a.SoftsignOp, "Mish": a.MishOp, "HardSwish": a.HardSwishOp, "Not": NotOp,
    "BitwiseNot": NotOp, "IsNaN": IsNanOp, "Add": AddOp, "Sub": SubOp, "Mul": MulOp,
    "Div": DivOp, "Pow": PowOp, "And": AndOp, "Or": OrOp, "Xor": XorOp,
    "BitwiseAnd": AndOp, "BitwiseOr": OrOp, "BitwiseXor": XorOp,
    "Where": SelectOp,
}  # fmt: skip


def _same(op: type[TensorOp]) -> Handler:
    return lambda n: n.emit(op, *n.tensors())


for _name, _op in SAME.items():
    onnx_op(_name)(_same(_op))

COMPARE = {
    "Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge",
}  # fmt: skip


@onnx_op(*COMPARE)
def compare(n: Node) -> SSAValue:
    return n.emit(CompareOp, n[0], n[1], predicate=COMPARE[n.op_type])


@onnx_op("Max", "Min", "Sum", "Mean")
def variadic(n: Node) -> SSAValue:
    ops = {"Max": MaximumOp, "Min": MinimumOp, "Sum": AddOp, "Mean": AddOp}
    tensors = n.tensors()
    total = functools.reduce(lambda x, y: n.emit(ops[n.op_type], x, y), tensors)
    if n.op_type == "Mean" and len(tensors) > 1:
        return n.emit(DivOp, total, n.like(len(tensors), total))
    return total


@onnx_op("PRelu")
def prelu(n: Node) -> SSAValue:
    result, shape = n.emit(a.PReluOp, n[0], n[1]), n.shape(0)
    if not agree(shape_of(result), shape):
        raise Unsupported(
            f"a slope of shape {shape_text(n.shape(1))} does not broadcast to {shape_text(shape)}"
        )
    return result


@onnx_op("Mod")
def mod(n: Node) -> SSAValue:
    return n.emit(ModOp, n[0], n[1], fmod=bool(n.int("fmod")))


@onnx_op("BitShift")
def shift(n: Node) -> SSAValue:
    return n.emit(ShiftOp, n[0], n[1], direction=n.str("direction").lower())


@onnx_op("Gelu")
def gelu(n: Node) -> SSAValue:
    return n.emit(a.GeluOp, n[0], approximate=n.str("approximate", "none"))


@onnx_op("Swish")
def swish(n: Node) -> SSAValue:
    return n.emit(a.SiluOp, n[0], alpha=n.float("alpha", 1.0))


_WITH_ALPHA: dict[str, tuple[type[TensorOp], float]] = {
    "Elu": (a.EluOp, 1.0),
    "Celu": (a.CeluOp, 1.0),
    "LeakyRelu": (a.LeakyReluOp, 0.01),
    "ThresholdedRelu": (a.ThresholdedReluOp, 1.0),
}


@onnx_op(*_WITH_ALPHA)
def with_alpha(n: Node) -> SSAValue:
    op, default = _WITH_ALPHA[n.op_type]
    return n.emit(op, n[0], alpha=n.float("alpha", default))


@onnx_op("Selu")
def selu(n: Node) -> SSAValue:
    alpha = n.float("alpha", 1.67326319217681884765625)
    return n.emit(a.SeluOp, n[0], alpha=alpha, gamma=n.float("gamma", 1.05070102214813232421875))


@onnx_op("HardSigmoid")
def hard_sigmoid(n: Node) -> SSAValue:
    return n.emit(a.HardSigmoidOp, n[0], alpha=n.float("alpha", 0.2), beta=n.float("beta", 0.5))


@onnx_op("Shrink")
def shrink(n: Node) -> SSAValue:
    return n.emit(a.ShrinkOp, n[0], bias=n.float("bias"), lambd=n.float("lambd", 0.5))


@onnx_op("Clip")
def clip(n: Node) -> SSAValue:
    low, high = n.get(1), n.get(2)
    if n.opset < 11:
        low = n.like(n.float("min"), n[0]) if "min" in n.attributes else None
        high = n.like(n.float("max"), n[0]) if "max" in n.attributes else None
    return n[0] if low is None and high is None else n.emit(ClampOp, n[0], low, high)


@onnx_op("IsInf")
def is_inf(n: Node) -> SSAValue:
    negative, positive = n.int("detect_negative", 1), n.int("detect_positive", 1)
    return n.emit(IsInfOp, n[0], negative=bool(negative), positive=bool(positive))


@onnx_op("Cast", "CastLike")
def cast(n: Node) -> SSAValue:
    to = element_type(n[1]) if n.op_type == "CastLike" else element_of_onnx(n.int("to"))
    return converted(n, to)


def converted(n: Node, to: Attribute) -> SSAValue:
    """Input 0 in another element type."""
    if to == element_type(n[0]):
        return n[0]
    row = row_of(to)
    if row is None or not row.is_float or row.bits != 8:
        return n.emit(CastOp, n[0], to=to)
    rounding = n.str("round_mode", "up") if to == f8E8M0FNU else "nearest"
    return n.emit(CastOp, n[0], to=to, saturate=bool(n.int("saturate", 1)), rounding=rounding)


@onnx_op("BitCast")
def bitcast(n: Node) -> SSAValue:
    return n.emit(BitcastOp, n[0], to=element_of_onnx(n.int("to")))


@onnx_op("Identity")
def identity(n: Node) -> object:
    return [n.inputs[0]]


@onnx_op("Constant")
def constant(n: Node) -> object:
    """The forms with a Python value; the importer itself keeps the form with a tensor."""
    for name in ("value_float", "value_floats"):
        if name in n.attributes:
            return n.const(np.asarray(n.attribute(name), np.float32))
    for name in ("value_int", "value_ints"):
        if name in n.attributes:
            return n.const(np.asarray(n.attribute(name), np.int64))
    raise Unsupported("only tensors and numbers can be constants")


REDUCE = {
    "ReduceSum": "sum",
    "ReduceMean": "mean",
    "ReduceMax": "max",
    "ReduceMin": "min",
    "ReduceProd": "prod",
    "ReduceL1": "l1",
    "ReduceL2": "l2",
    "ReduceLogSum": "log_sum",
    "ReduceLogSumExp": "log_sum_exp",
    "ReduceSumSquare": "sum_square",
}


@onnx_op(*REDUCE)
def reduce(n: Node) -> SSAValue:
    kind, keep_dims = REDUCE[n.op_type], bool(n.int("keepdims", 1))
    axes, run_time_axes = axes_of(n)
    if axes is None:
        return n.emit(ReduceOp, n[0], run_time_axes, kind=kind, keep_dims=keep_dims)
    if not axes and n.int("noop_with_empty_axes"):
        return of_one_element(n, kind)
    return n.emit(ReduceOp, n[0], kind=kind, axes=n.distinct(axes) or None, keep_dims=keep_dims)


def axes_of(n: Node) -> tuple[tuple[int, ...] | None, SSAValue | None]:
    """The axes from attribute or input 1; () for none given, None (and the value) when they are
    known only at run time."""
    if "axes" in n.attributes:
        return n.ints("axes"), None
    value = n.get(1)
    if value is None:
        return (), None
    axes, value = n.constant_ints(1), as_vector(n, value)
    if axes is None and n.shape(1) == (0,):
        return (), None
    if axes is None and n.int("noop_with_empty_axes") and DYNAMIC in n.shape(1):
        raise Unsupported("noop_with_empty_axes with a number of axes known only at run time")
    return axes, value


def of_one_element(n: Node, kind: str) -> SSAValue:
    if kind in ("l1", "l2"):
        return n.emit(e.AbsOp, n[0])
    if kind == "log_sum":
        return n.emit(e.LogOp, n[0])
    if kind == "sum_square":
        return n.emit(e.MulOp, n[0], n[0])
    return n[0]


@onnx_op("ArgMax", "ArgMin")
def arg_reduce(n: Node) -> SSAValue:
    return n.emit(
        ArgReduceOp,
        n[0],
        kind="max" if n.op_type == "ArgMax" else "min",
        axis=n.int("axis"),
        keep_dims=bool(n.int("keepdims", 1)),
        select_last_index=bool(n.int("select_last_index")),
    )


@onnx_op("CumSum", "CumProd")
def cumulative(n: Node) -> SSAValue:
    axis = n.constant_ints(1)
    return n.emit(
        CumulativeOp,
        n[0],
        n[1] if axis is None else None,
        kind="sum" if n.op_type == "CumSum" else "prod",
        axis=None if axis is None else axis[0],
        exclusive=bool(n.int("exclusive")),
        reverse=bool(n.int("reverse")),
    )
