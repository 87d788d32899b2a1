"""Graph ops that are one ONNX node: which, and what of the op is where in it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import numpy_helper
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, StringAttr, i1, i64
from xdsl.ir import Attribute

from ge.dialects.graph import activation as a
from ge.dialects.graph import elementwise as e
from ge.dialects.graph import indexing as ix
from ge.dialects.graph import normalization as n
from ge.dialects.graph import shape as s
from ge.dialects.graph import slicing as sl
from ge.dialects.graph.creation import FillOp, RangeOp, TriOp
from ge.dialects.graph.image import GridSampleOp, ResizeOp
from ge.dialects.graph.linear import DetOp, EinsumOp
from ge.dialects.graph.pooling import LrnOp
from ge.dialects.graph.quantization import DynamicQuantizeOp
from ge.dialects.graph.reduction import ArgReduceOp, CumulativeOp, ReduceOp
from ge.dialects.support.constraints import ChoiceAttr
from ge.dialects.support.element_types import bitwidth, is_float, is_integer, is_unsigned, row_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import array_floats, array_ints, element_type
from ge.lowering.onnx.export.exporter import Input, ModelWriter, writes
from ge.lowering.onnx.model import ONNX_NUMBERS
from ge.lowering.onnx.ops.elementwise import COMPARE, REDUCE, SAME
from ge.runtime.data.arrays import dtype_of


@dataclass(frozen=True)
class Form:
    """An ONNX node: its type, its inputs (operands and parameters by name; all operands in order
    where none is named), its attributes (properties, `property:attribute` where ONNX has another
    name)."""

    op_type: str
    inputs: str = ""
    attributes: str = ""


OTHERS = ("Add", "BitwiseNot", "BitwiseAnd", "BitwiseOr", "BitwiseXor")  # see BITS

FORMS: dict[type[TensorOp], Form] = {
    **{op: Form(op_type) for op_type, op in SAME.items() if op_type not in OTHERS},
    a.EluOp: Form("Elu", "", "alpha"),
    a.CeluOp: Form("Celu", "", "alpha"),
    a.SeluOp: Form("Selu", "", "alpha gamma"),
    a.LeakyReluOp: Form("LeakyRelu", "", "alpha"),
    a.ThresholdedReluOp: Form("ThresholdedRelu", "", "alpha"),
    a.HardSigmoidOp: Form("HardSigmoid", "", "alpha beta"),
    a.ShrinkOp: Form("Shrink", "", "bias lambd"),
    a.PReluOp: Form("PRelu"),
    e.MaximumOp: Form("Max"),
    e.MinimumOp: Form("Min"),
    e.IsInfOp: Form("IsInf", "", "negative:detect_negative positive:detect_positive"),
    n.LogSoftmaxOp: Form("LogSoftmax", "", "axis"),
    n.HardmaxOp: Form("Hardmax", "", "axis"),
    n.SoftmaxOp: Form("Softmax", "", "axis"),
    n.BatchNormOp: Form("BatchNormalization", "", "epsilon"),
    s.ReshapeOp: Form("Reshape", "input shape", "allow_zero:allowzero"),
    s.SqueezeOp: Form("Squeeze", "input axes"),
    s.UnsqueezeOp: Form("Unsqueeze", "input axes"),
    s.TransposeOp: Form("Transpose", "", "permutation:perm"),
    s.BroadcastToOp: Form("Expand", "input shape"),
    s.TileOp: Form("Tile", "input repeats"),
    s.ShapeOfOp: Form("Shape", "", "start end"),
    s.ReverseSequenceOp: Form("ReverseSequence", "", "batch_axis time_axis"),
    sl.ConcatOp: Form("Concat", "", "axis"),
    sl.SliceOp: Form("Slice", "input starts ends axes steps"),
    sl.PadOp: Form("Pad", "input pads value axes", "mode"),
    ix.GatherOp: Form("Gather", "", "axis"),
    ix.GatherElementsOp: Form("GatherElements", "", "axis"),
    ix.GatherNdOp: Form("GatherND", "", "batch_dims"),
    ix.ScatterElementsOp: Form("ScatterElements", "", "axis reduction"),
    ix.ScatterNdOp: Form("ScatterND", "", "reduction"),
    ix.NonZeroOp: Form("NonZero"),
    ix.CompressOp: Form("Compress", "", "axis"),
    ix.UniqueOp: Form("Unique", "", "axis sorted"),
    ix.OneHotOp: Form("OneHot", "indices depth values", "axis"),
    ix.TopKOp: Form("TopK", "input k", "axis largest sorted"),
    RangeOp: Form("Range"),
    EinsumOp: Form("Einsum", "", "equation"),
    DetOp: Form("Det"),
    LrnOp: Form("LRN", "", "size alpha beta bias"),
    GridSampleOp: Form("GridSample", "", "mode padding_mode align_corners"),
    DynamicQuantizeOp: Form("DynamicQuantizeLinear"),
}

BITS = (e.AndOp, e.OrOp, e.XorOp, e.NotOp)  # logical on i1, bitwise on integers

PREDICATES = {predicate: op_type for op_type, predicate in COMPARE.items()}
KINDS = {kind: op_type for op_type, kind in REDUCE.items()}


@writes(*FORMS)
def one_node(op: TensorOp, w: ModelWriter) -> list[str]:
    form = FORMS[type(op)]
    if isinstance(op, n.SoftmaxLike) and op.flatten.value.data:
        w.refuse("it is over several axes")
    op_type = form.op_type
    if isinstance(op, BITS) and is_integer(element_type(op.operands[0])):
        op_type = f"Bitwise{op_type}"
    inputs = [parameter(op, name, w) for name in form.inputs.split()] or op.operands
    attributes = dict(attribute(op, text) for text in form.attributes.split())
    return w.nodes_of(op_type, *inputs, results=len(op.results), **attributes)


def parameter(op: TensorOp, name: str, w: ModelWriter) -> Input:
    """An operand, or a parameter that is an operand or a property."""
    if f"{name}_value" not in op.PARAMETERS:
        return getattr(op, name)
    value = getattr(op, f"{name}_value")
    if value is not None:
        return w.node("Cast", value, to=ONNX_NUMBERS[i64]) if element_type(value) != i64 else value
    known = op.ints(name)
    return None if known is None else w.ints(known)


def attribute(op: TensorOp, text: str) -> tuple[str, Any]:
    name, _, onnx_name = text.partition(":")
    return onnx_name or name, python(getattr(op, name))


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
def compare(op: e.CompareOp, w: ModelWriter) -> str:
    if op.predicate.data == "ne":
        return w.node("Not", w.node("Equal", op.lhs, op.rhs))
    return w.node(PREDICATES[op.predicate.data], op.lhs, op.rhs)


@writes(ReduceOp)
def reduce(op: ReduceOp, w: ModelWriter) -> str:
    axes = parameter(op, "axes", w)
    if op.ints("axes") == ():
        axes = None
    return w.node(KINDS[op.kind.data], op.input, axes, keepdims=python(op.keep_dims))


@writes(ArgReduceOp)
def arg_reduce(op: ArgReduceOp, w: ModelWriter) -> str:
    names = "axis keep_dims:keepdims select_last_index"
    op_type = "ArgMax" if op.kind.data == "max" else "ArgMin"
    return w.node(op_type, op.input, **dict(attribute(op, text) for text in names.split()))


@writes(CumulativeOp)
def cumulative(op: CumulativeOp, w: ModelWriter) -> str:
    if op.kind.data != "sum":
        w.refuse("products come with a newer opset")
    flags = {"exclusive": python(op.exclusive), "reverse": python(op.reverse)}
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
    return w.node("Clip", op.input, *map(w.scalar, (op.low, op.high)))


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
        "axes mode coordinates:coordinate_transformation_mode nearest_mode cubic_coeff_a "
        "exclude_outside antialias extrapolation_value keep_aspect_ratio_policy"
    )
    scales: Input = op.scales_value
    if op.scales is not None:
        scales = w.array(np.array(array_floats(op.scales), np.float32), "scales")
    attributes = dict(attribute(op, text) for text in names.split())
    return w.node("Resize", op.input, op.roi, scales, parameter(op, "sizes", w), **attributes)
