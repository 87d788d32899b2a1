"""ONNX's elementwise ops, activation functions, and reductions (with ArgMax, ArgMin, CumSum,
CumProd)."""

import functools

import numpy as np
from xdsl.dialects.builtin import f8E8M0FNU
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph import activation as a
from ge.dialects.graph import elementwise as e
from ge.dialects.graph.elementwise import (
    AddOp,
    BitcastOp,
    CastOp,
    ClampOp,
    DivOp,
    ShiftOp,
)
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.support.element_types import row_of
from ge.dialects.support.types import DYNAMIC, agree, element_type, shape_of, shape_text
from ge.lowering.onnx.forms import FORMS
from ge.lowering.onnx.model import element_of_onnx
from ge.lowering.onnx.registry import Node, Unsupported, as_vector, onnx_op


@onnx_op("Max", "Min", "Sum", "Mean")
def variadic(n: Node) -> SSAValue:
    op = FORMS[n.op_type].op if n.op_type in FORMS else AddOp
    tensors = n.tensors()
    total = functools.reduce(lambda x, y: n.emit(op, x, y), tensors)
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


@onnx_op("BitShift")
def shift(n: Node) -> SSAValue:
    return n.emit(ShiftOp, n[0], n[1], direction=n.str("direction").lower())


@onnx_op("Clip")
def clip(n: Node) -> SSAValue:
    low, high = n.get(1), n.get(2)
    if n.opset < 11:
        low = n.like(n.float("min"), n[0]) if "min" in n.attributes else None
        high = n.like(n.float("max"), n[0]) if "max" in n.attributes else None
    return n[0] if low is None and high is None else n.emit(ClampOp, n[0], low, high)


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


@onnx_op(*(name for name, form in FORMS.items() if form.op is ReduceOp))
def reduce(n: Node) -> SSAValue:
    kind, keep_dims = FORMS[n.op_type].fixed["kind"], bool(n.int("keepdims", 1))
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
