"""ONNX's ops that move elements: that change shape or order, make tensors from a shape, take
tensors apart and put them together along axes, pick and place elements by index or condition."""

from collections.abc import Sequence
from typing import cast

import numpy as np
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, i64
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph import creation as c
from ge.dialects.graph import elementwise as e
from ge.dialects.graph.indexing import (
    GatherOp,
)
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import (
    DepthToSpaceOp,
    ReshapeOp,
    ShapeOfOp,
    SpaceToDepthOp,
    SqueezeOp,
    TransposeOp,
)
from ge.dialects.graph.slicing import ConcatOp, PadOp, SliceOp, SplitOp, even_sizes
from ge.dialects.graph.support.parameters import element_axis
from ge.dialects.support.element_types import is_float
from ge.dialects.support.types import DYNAMIC, is_static, normalize_axis, numel
from ge.lowering.onnx.model import element_of_onnx
from ge.lowering.onnx.registry import Node, Unsupported, onnx_op, parameter
from ge.runtime.data.arrays import element_of


@onnx_op("Flatten")
def flatten(n: Node) -> SSAValue:
    shape, axis = n.shape(0), n.int("axis", 1)
    axis += len(shape) if axis < 0 else 0
    if not 0 <= axis <= len(shape):
        raise Unsupported(f"axis {axis} is out of range for rank {len(shape)}")
    before, after = shape[:axis], shape[axis:]
    rows = numel(before) if is_static(before) else -1
    columns = numel(after) if is_static(after) else -1
    if -1 not in (rows, columns) or max(rows, columns) > 0:
        return n.emit(ReshapeOp, n[0], shape=(rows, columns), allow_zero=True)
    if axis == 1:
        return n.emit(ReshapeOp, n[0], shape=(0, -1))
    sizes = [product(n, 0, axis), product(n, axis, len(shape))]
    target = n.emit(ConcatOp, sizes, axis=0)
    return n.emit(ReshapeOp, n[0], target, allow_zero=True)


def product(n: Node, start: int, end: int) -> SSAValue:
    part = n.emit(ShapeOfOp, n[0], start=start, end=end)
    return n.emit(ReduceOp, part, kind="prod")


@onnx_op("Transpose")
def transpose(n: Node) -> SSAValue:
    backward = range(n.rank(0))[::-1]
    return n.emit(TransposeOp, n[0], permutation=n.ints("perm", backward))


@onnx_op("Squeeze")
def squeeze(n: Node) -> SSAValue:
    operand, axes = parameter(n, 1, "axes")
    if operand is None and axes is None:
        if DYNAMIC in n.shape(0):
            raise Unsupported("which dimensions are 1 is known only at run time; give the axes")
        axes = tuple(i for i, d in enumerate(n.shape(0)) if d == 1)
    axes = None if axes is None else n.distinct(axes)
    return n.emit(SqueezeOp, n[0], operand, axes=axes)


@onnx_op("Size")
def size(n: Node) -> SSAValue:
    if is_static(shape := n.shape(0)):
        return n.const(np.asarray(numel(shape), np.int64))
    return n.emit(ReduceOp, n.emit(ShapeOfOp, n[0]), kind="prod", keep_dims=False)


@onnx_op("DepthToSpace", "SpaceToDepth")
def blocks(n: Node) -> SSAValue:
    op = DepthToSpaceOp if n.op_type == "DepthToSpace" else SpaceToDepthOp
    return n.emit(op, n[0], block=n.int("blocksize"), mode=n.str("mode", "DCR").lower())


# ---- creation --------------------------------------------------------------------------------


@onnx_op("ConstantOfShape")
def constant_of_shape(n: Node) -> SSAValue:
    value = n.attribute("value")
    array = np.zeros(1, np.float32) if value is None else value
    operand, shape = parameter(n, 0)
    return n.emit(c.FillOp, operand, shape=shape, value=number(array.reshape(-1)[0]))


def number(value: np.generic) -> Attribute:
    element = element_of(value.dtype)
    if is_float(element):
        return FloatAttr(float(value), cast(AnyFloat, element))
    return IntegerAttr(int(value), cast(IntegerType, element))


@onnx_op("EyeLike")
def eye_like(n: Node) -> SSAValue:
    element = n.element(0)
    if "dtype" in n.attributes:
        element = element_of_onnx(n.int("dtype"))
    shape: Sequence[int] | None = n.shape(0)
    operand = None
    if DYNAMIC in shape:
        operand, shape = n.emit(ShapeOfOp, n[0]), None
    return n.emit(c.EyeOp, operand, shape=shape, element=element, diagonal=n.int("k"))


@onnx_op("Split")
def split(n: Node) -> tuple[SSAValue, ...]:
    operand, sizes = parameter(n, 1, "split")
    axis, count = n.int("axis"), len(n.proto.output)
    dim = n.shape(0)[element_axis(axis, n.rank(0))]
    if operand is None and sizes is None and dim != DYNAMIC:
        sizes = even_sizes(dim, count)
    op = n.build(SplitOp, n[0], operand, axis=axis, sizes=sizes, results=count)
    return tuple(op.results)


@onnx_op("Pad")
def pad(n: Node) -> SSAValue:
    operand, pads = parameter(n, 1, "pads")
    axes_operand, axes = parameter(n, 3)
    value = n.like(n.float("value"), n[0]) if n.float("value") else n.get(2)
    mode = n.str("mode", "constant")
    return n.emit(PadOp, n[0], operand, axes_operand, value, pads=pads, axes=axes, mode=mode)


@onnx_op("CenterCropPad")
def center_crop_pad(n: Node) -> SSAValue:
    """The middle of each axis that is too long, and as many zeros on both sides of each that is
    too short; an odd element is taken or added at the end."""
    axes = [normalize_axis(a, n.rank(0)) for a in n.ints("axes", range(n.rank(0)))]
    target, shape = n.constant_ints(1), n.shape(0)
    sizes = [shape[a] for a in axes]
    if target is None or DYNAMIC in sizes:
        return center_at_run_time(n, axes)
    starts = [max(d - t, 0) // 2 for d, t in zip(sizes, target, strict=True)]
    ends = [s + min(d, t) for s, d, t in zip(starts, sizes, target, strict=True)]
    missing = [max(t - d, 0) for d, t in zip(sizes, target, strict=True)]
    middle = n.emit(SliceOp, n[0], starts=starts, ends=ends, axes=axes)
    if not any(missing):
        return middle
    pads = [m // 2 for m in missing] + [m - m // 2 for m in missing]
    return n.emit(PadOp, middle, pads=pads, axes=axes)


def center_at_run_time(n: Node, axes: Sequence[int]) -> SSAValue:
    """Crop or pad each of `axes` around its middle to sizes that come as an operand."""
    target, zero, two = n.emit(e.CastOp, n[1], to=i64), n.const(0), n.const(2)
    sizes = n.emit(GatherOp, n.emit(ShapeOfOp, n[0]), n.const(list(axes)))
    surplus = n.emit(e.SubOp, sizes, target)
    starts = n.emit(e.DivOp, n.emit(e.MaximumOp, surplus, zero), two)
    ends = n.emit(e.AddOp, starts, n.emit(e.MinimumOp, sizes, target))
    middle = n.emit(SliceOp, n[0], starts, ends, axes=axes)
    missing = n.emit(e.MaximumOp, n.emit(e.NegOp, surplus), zero)
    before = n.emit(e.DivOp, missing, two)
    pads = n.emit(ConcatOp, [before, n.emit(e.SubOp, missing, before)], axis=0)
    return n.emit(PadOp, middle, pads, axes=axes)
