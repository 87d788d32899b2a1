"""ONNX's ops that move elements: that change shape or order, make tensors from a shape, take
tensors apart and put them together along axes, pick and place elements by index or condition."""

from collections.abc import Sequence
from typing import cast

import numpy as np
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph import creation as c
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import (
    DepthToSpaceOp,
    ReshapeOp,
    ShapeOfOp,
    SpaceToDepthOp,
    SqueezeOp,
    TransposeOp,
)
from ge.dialects.graph.slicing import ConcatOp, PadOp, SplitOp, even_sizes
from ge.dialects.graph.support.parameters import element_axis
from ge.dialects.support.element_types import is_float
from ge.dialects.support.types import DYNAMIC, is_static, numel
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
