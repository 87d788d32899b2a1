"""ONNX's ops that take tensors apart and put them together along axes."""

from collections.abc import Sequence

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph import slicing as g
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.shape import ShapeOfOp
from ge.dialects.graph.support.parameters import element_axis
from ge.dialects.support.types import DYNAMIC, normalize_axis
from ge.lowering.onnx.ops.shape import parameter
from ge.lowering.onnx.registry import Node, onnx_op


@onnx_op("Concat")
def concat(n: Node) -> SSAValue:
    return n.emit(g.ConcatOp, n.tensors(), axis=n.int("axis", 1))


@onnx_op("Split")
def split(n: Node) -> tuple[SSAValue, ...]:
    operand, sizes = parameter(n, 1, "split")
    axis, count = n.int("axis"), len(n.proto.output)
    dim = n.shape(0)[element_axis(axis, n.rank(0))]
    if operand is None and sizes is None and dim != DYNAMIC:
        sizes = g.even_sizes(dim, count)
    op = n.build(g.SplitOp, n[0], operand, axis=axis, sizes=sizes, results=count)
    return tuple(op.results)


@onnx_op("Slice")
def slice_(n: Node) -> SSAValue:
    names = ("starts", "ends", "axes", "steps")
    parameters = {name: parameter(n, i, name) for i, name in enumerate(names, 1)}
    operands = [operand for operand, _ in parameters.values()]
    params = {name: ints for name, (_, ints) in parameters.items()}
    return n.emit(g.SliceOp, n[0], *operands, **params)


@onnx_op("Pad")
def pad(n: Node) -> SSAValue:
    operand, pads = parameter(n, 1, "pads")
    axes_operand, axes = parameter(n, 3)
    value = n.like(n.float("value"), n[0]) if n.float("value") else n.get(2)
    mode = n.str("mode", "constant")
    return n.emit(g.PadOp, n[0], operand, axes_operand, value, pads=pads, axes=axes, mode=mode)


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
    middle = n.emit(g.SliceOp, n[0], starts=starts, ends=ends, axes=axes)
    if not any(missing):
        return middle
    pads = [m // 2 for m in missing] + [m - m // 2 for m in missing]
    return n.emit(g.PadOp, middle, pads=pads, axes=axes)


def center_at_run_time(n: Node, axes: Sequence[int]) -> SSAValue:
    """Crop or pad each of `axes` around its middle to sizes that come as an operand."""
    target, zero, two = n.emit(e.CastOp, n[1], to=i64), n.const(0), n.const(2)
    sizes = n.emit(GatherOp, n.emit(ShapeOfOp, n[0]), n.const(list(axes)))
    surplus = n.emit(e.SubOp, sizes, target)
    starts = n.emit(e.DivOp, n.emit(e.MaximumOp, surplus, zero), two)
    ends = n.emit(e.AddOp, starts, n.emit(e.MinimumOp, sizes, target))
    middle = n.emit(g.SliceOp, n[0], starts, ends, axes=axes)
    missing = n.emit(e.MaximumOp, n.emit(e.NegOp, surplus), zero)
    before = n.emit(e.DivOp, missing, two)
    pads = n.emit(g.ConcatOp, [before, n.emit(e.SubOp, missing, before)], axis=0)
    return n.emit(g.PadOp, middle, pads, axes=axes)
