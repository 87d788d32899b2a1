"""ONNX's ops that change shape or order, and those that make tensors from a shape."""

from collections.abc import Sequence
from typing import cast

import numpy as np
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, TensorType
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph import creation as c
from ge.dialects.graph import shape as g
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.support.element_types import is_float
from ge.dialects.support.types import DYNAMIC, is_static, numel, rank_of
from ge.lowering.onnx.model import element_of_onnx
from ge.lowering.onnx.registry import Node, Unsupported, onnx_op
from ge.runtime.data.arrays import element_of


def parameter(
    n: Node, index: int, attribute: str = ""
) -> tuple[SSAValue | None, tuple[int, ...] | None]:
    """Operand and property for a parameter that is input `index`, or an attribute in earlier
    opsets: the property when its value is known at import. A scalar is taken for a vector of one
    element, and a matrix of one row for that row."""
    if attribute in n.attributes:
        return None, n.ints(attribute)
    value = n.get(index)
    known = None if value is None else n.constant_ints(index)
    return (as_vector(n, value), None) if known is None else (None, known)


def as_vector(n: Node, value: SSAValue | None) -> SSAValue | None:
    if value is None or not isinstance(value.type, TensorType) or rank_of(value) == 1:
        return value
    return n.emit(g.ReshapeOp, value, shape=(-1,))


def scalar_parameter(
    n: Node, index: int, attribute: str = ""
) -> tuple[SSAValue | None, int | None]:
    """The same for a single integer."""
    if attribute in n.attributes:
        return None, n.int(attribute)
    value = n.get(index)
    known = None if value is None else n.constant_ints(index)
    return (None, known[0]) if known else (value, None)


@onnx_op("Reshape")
def reshape(n: Node) -> SSAValue:
    operand, shape = parameter(n, 1, "shape")
    return n.emit(g.ReshapeOp, n[0], operand, shape=shape, allow_zero=bool(n.int("allowzero")))


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
        return n.emit(g.ReshapeOp, n[0], shape=(rows, columns), allow_zero=True)
    if axis == 1:
        return n.emit(g.ReshapeOp, n[0], shape=(0, -1))
    sizes = [product(n, 0, axis), product(n, axis, len(shape))]
    target = n.emit(ConcatOp, sizes, axis=0)
    return n.emit(g.ReshapeOp, n[0], target, allow_zero=True)


def product(n: Node, start: int, end: int) -> SSAValue:
    part = n.emit(g.ShapeOfOp, n[0], start=start, end=end)
    return n.emit(ReduceOp, part, kind="prod")


@onnx_op("Transpose")
def transpose(n: Node) -> SSAValue:
    backward = range(n.rank(0))[::-1]
    return n.emit(g.TransposeOp, n[0], permutation=n.ints("perm", backward))


@onnx_op("Squeeze")
def squeeze(n: Node) -> SSAValue:
    operand, axes = parameter(n, 1, "axes")
    if operand is None and axes is None:
        if DYNAMIC in n.shape(0):
            raise Unsupported("which dimensions are 1 is known only at run time; give the axes")
        axes = tuple(i for i, d in enumerate(n.shape(0)) if d == 1)
    axes = None if axes is None else n.distinct(axes)
    return n.emit(g.SqueezeOp, n[0], operand, axes=axes)


@onnx_op("Unsqueeze")
def unsqueeze(n: Node) -> SSAValue:
    operand, axes = parameter(n, 1, "axes")
    return n.emit(g.UnsqueezeOp, n[0], operand, axes=axes)


@onnx_op("Expand")
def expand(n: Node) -> SSAValue:
    operand, shape = parameter(n, 1)
    return n.emit(g.BroadcastToOp, n[0], operand, shape=shape)


@onnx_op("Tile")
def tile(n: Node) -> SSAValue:
    operand, repeats = parameter(n, 1)
    return n.emit(g.TileOp, n[0], operand, repeats=repeats)


@onnx_op("Shape")
def shape_of(n: Node) -> SSAValue:
    end = n.int("end") if "end" in n.attributes else None
    return n.emit(g.ShapeOfOp, n[0], start=n.int("start"), end=end)


@onnx_op("Size")
def size(n: Node) -> SSAValue:
    if is_static(shape := n.shape(0)):
        return n.const(np.asarray(numel(shape), np.int64))
    return n.emit(ReduceOp, n.emit(g.ShapeOfOp, n[0]), kind="prod", keep_dims=False)


@onnx_op("DepthToSpace", "SpaceToDepth")
def blocks(n: Node) -> SSAValue:
    op = g.DepthToSpaceOp if n.op_type == "DepthToSpace" else g.SpaceToDepthOp
    return n.emit(op, n[0], block=n.int("blocksize"), mode=n.str("mode", "DCR").lower())


@onnx_op("ReverseSequence")
def reverse_sequence(n: Node) -> SSAValue:
    batch, time = n.int("batch_axis", 1), n.int("time_axis", 0)
    return n.emit(g.ReverseSequenceOp, n[0], n[1], batch_axis=batch, time_axis=time)


# ---- creation --------------------------------------------------------------------------------


@onnx_op("Range")
def range_(n: Node) -> SSAValue:
    return n.emit(c.RangeOp, n[0], n[1], n[2])


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
        operand, shape = n.emit(g.ShapeOfOp, n[0]), None
    return n.emit(c.EyeOp, operand, shape=shape, element=element, diagonal=n.int("k"))


@onnx_op("Trilu")
def trilu(n: Node) -> SSAValue:
    operand, k = scalar_parameter(n, 1)
    return n.emit(c.TriOp, n[0], operand, k=k, upper=bool(n.int("upper", 1)))
