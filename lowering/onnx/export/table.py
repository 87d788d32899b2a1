"""Graph ops that are one ONNX node: which, and what of the op is where in it."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from onnx import numpy_helper
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, StringAttr, i1, i64
from xdsl.ir import Attribute

from ge.dialects.graph import activation as a
from ge.dialects.graph import elementwise as e
from ge.dialects.graph import normalization as n
from ge.dialects.graph import shape as s
from ge.dialects.graph import slicing as sl
from ge.dialects.graph.creation import FillOp, TriOp
from ge.dialects.graph.image import ResizeOp
from ge.dialects.graph.reduction import CumulativeOp, ReduceOp
from ge.dialects.support.constraints import ChoiceAttr
from ge.dialects.support.element_types import bitwidth, is_float, is_integer, is_unsigned, row_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import array_floats, array_ints, element_type
from ge.lowering.onnx.export.exporter import Input, ModelWriter, writes
from ge.lowering.onnx.forms import FORMS, ONNX_NAMES, OPSET, Form
from ge.lowering.onnx.model import ONNX_NUMBERS
from ge.runtime.data.arrays import dtype_of

BITS = (e.AndOp, e.OrOp, e.XorOp, e.NotOp)  # logical on i1, bitwise on integers

FORMS_OF: dict[type[TensorOp], dict[str, Form]] = {}  # by the type of the node
for _name, _form in FORMS.items():
    if _form.since <= OPSET:
        FORMS_OF.setdefault(_form.op, {})[_name] = _form


@writes(*FORMS_OF)
def one_node(op: TensorOp, w: ModelWriter) -> list[str]:
    if isinstance(op, n.SoftmaxLike) and op.flatten.value.data:
        w.refuse("it is over several axes")
    op_type, form = next((t, f) for t, f in FORMS_OF[type(op)].items() if says(op, f))
    if isinstance(op, BITS) and is_integer(element_type(op.operands[0])):
        op_type = f"Bitwise{op_type}"
    inputs = [parameter(op, name, w) for name in form.inputs.split()] or op.operands
    attributes = named(op, form.defaults)
    return w.nodes_of(op_type, *inputs, results=len(op.results), **attributes)


def says(op: TensorOp, form: Form) -> bool:
    """Return whether the properties of an op are those that the type of a node stands for."""
    return all(getattr(op, name).data == word for name, word in form.fixed.items())


def parameter(op: TensorOp, name: str, w: ModelWriter) -> Input:
    """An operand, or a parameter that is an operand or a property."""
    if f"{name}_value" not in op.PARAMETERS:
        return getattr(op, name)
    if isinstance(op, ReduceOp) and op.ints(name) == ():
        return None  # axes that are left out are all of them, in ONNX too
    value = getattr(op, f"{name}_value")
    if value is not None:
        return w.node("Cast", value, to=ONNX_NUMBERS[i64]) if element_type(value) != i64 else value
    known = op.ints(name)
    return None if known is None else w.ints(known)


def named(op: TensorOp, names: Iterable[str]) -> dict[str, Any]:
    """Properties as attributes, by the names that ONNX has for them."""
    return {ONNX_NAMES.get(name, name): python(getattr(op, name)) for name in names}


def python(value: Attribute | None) -> Any:
    """A property as ONNX's helper takes attributes; None for an absent one."""
    match value:
        case IntegerAttr():
            return int(bool(value.value.data)) if value.type == i1 else value.value.data
        case FloatAttr():
            return value.value.data
        case StringAttr() | ChoiceAttr():
            return str(value.data)
        case DenseArrayBase():
            floats = value.elt_type != i64
            return list(array_floats(value) if floats else array_ints(value))
        case _:
            return None


# ---- where a property chooses the ONNX op -----------------------------------------------------


@writes(e.CompareOp)
def compare(op: e.CompareOp, w: ModelWriter) -> str | list[str]:
    if op.predicate.data == "ne":
        return w.node("Not", w.node("Equal", op.lhs, op.rhs))
    return one_node(op, w)


@writes(CumulativeOp)
def cumulative(op: CumulativeOp, w: ModelWriter) -> str:
    if op.kind.data != "sum":
        w.refuse("products come with a newer opset")
    flags = named(op, FORMS["CumSum"].defaults)
    return w.node("CumSum", op.input, position(op, "axis", w), **flags)


@writes(TriOp)
def triangle(op: TriOp, w: ModelWriter) -> str:
    return w.node("Trilu", op.input, position(op, "k", w), upper=python(op.upper))


def position(op: TensorOp, name: str, w: ModelWriter) -> Input:
    """A parameter that ONNX wants as a tensor of rank 0."""
    known = op.ints(name)
    return parameter(op, name, w) if known is None else w.array(np.array(known[0], np.int64), name)


@writes(e.ModOp)
def mod(op: e.ModOp, w: ModelWriter) -> str:
    fmod = python(op.fmod)
    if not fmod and is_float(element_type(op.lhs)):
        w.refuse("the sign of a remainder of floats is the divisor's in a newer opset only")
    return w.node("Mod", op.lhs, op.rhs, fmod=fmod)


@writes(e.ShiftOp)
def shift(op: e.ShiftOp, w: ModelWriter) -> str:
    if not is_unsigned(element_type(op.lhs)):
        w.refuse("bits of signed integers are shifted in a newer opset only")
    return w.node("BitShift", op.lhs, op.rhs, direction=op.direction.data.upper())


@writes(s.DepthToSpaceOp)
def depth_to_space(op: s.DepthToSpaceOp, w: ModelWriter) -> str:
    return w.node("DepthToSpace", op.input, blocksize=python(op.block), mode=op.mode.data.upper())


@writes(s.SpaceToDepthOp)
def space_to_depth(op: s.SpaceToDepthOp, w: ModelWriter) -> str:
    if op.mode.data != "dcr":
        w.refuse("its mode comes with a newer opset")
    return w.node("SpaceToDepth", op.input, blocksize=python(op.block))


@writes(FillOp)
def fill(op: FillOp, w: ModelWriter) -> str:
    array = np.array([op.value.value.data]).astype(dtype_of(op.value.type))
    value = numpy_helper.from_array(array)
    return w.node("ConstantOfShape", parameter(op, "shape", w), value=value)


@writes(e.ClampOp)
def clamp(op: e.ClampOp, w: ModelWriter) -> str:
    low, high = map(w.scalar, (op.low, op.high))
    if not w.has_float_codes:
        return w.node("Clip", op.input, low, high)
    above = w.name(op.input) if low is None else w.node("Max", op.input, low)
    return above if high is None else w.node("Min", above, high)


@writes(a.ReluOp)
def relu(op: a.ReluOp, w: ModelWriter) -> str | list[str]:
    if not w.has_float_codes:
        return one_node(op, w)
    return w.node("Max", op.input, w.number(0, element_type(op.input)))


@writes(e.CastOp)
def cast(op: e.CastOp, w: ModelWriter) -> str:
    row = row_of(op.to)
    if op.rounding.data != "nearest" or bitwidth(op.to) < 4:
        w.refuse(f"a cast to {op.to} comes with a newer opset")
    saturate = python(op.saturate) if row is not None and row.is_float and row.bits == 8 else None
    return w.node("Cast", op.input, to=ONNX_NUMBERS[op.to], saturate=saturate)


@writes(sl.SplitOp)
def split(op: sl.SplitOp, w: ModelWriter) -> list[str]:
    sizes = parameter(op, "sizes", w)
    parts = len(op.parts)
    even = parts if sizes is None else None
    axis = python(op.axis)
    return w.nodes_of("Split", op.input, sizes, results=parts, axis=axis, num_outputs=even)


@writes(ResizeOp)
def resize(op: ResizeOp, w: ModelWriter) -> str:
    names = (
        "axes mode coordinates nearest_mode cubic_coeff_a exclude_outside antialias "
        "extrapolation_value keep_aspect_ratio_policy"
    )
    scales: Input = op.scales_value
    if op.scales is not None:
        scales = w.array(np.array(array_floats(op.scales), np.float32), "scales")
    attributes = named(op, names.split())
    return w.node("Resize", op.input, op.roi, scales, parameter(op, "sizes", w), **attributes)
