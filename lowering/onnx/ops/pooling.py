"""ONNX's pooling over windows, whole images and regions, and LRN."""

from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph import pooling as g
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.support.tensor_op import Param
from ge.lowering.onnx.ops.convolution import window_params
from ge.lowering.onnx.registry import Node, onnx_op


def pool_params(n: Node) -> dict[str, Param]:
    kernel, spatial = n.ints("kernel_shape"), n.shape(0)[2:]
    ceil_mode = bool(n.int("ceil_mode")) and n.str("auto_pad", "NOTSET") == "NOTSET"
    return {**window_params(n, kernel, spatial), "kernel": kernel, "ceil_mode": ceil_mode}


@onnx_op("MaxPool")
def max_pool(n: Node) -> object:
    if not n.wants(1):
        return n.emit(g.PoolOp, n[0], kind="max", **pool_params(n))
    column_major = bool(n.int("storage_order"))
    return n.build(g.MaxPoolIndicesOp, n[0], column_major=column_major, **pool_params(n)).results


@onnx_op("AveragePool")
def average_pool(n: Node) -> SSAValue:
    include = bool(n.int("count_include_pad"))
    return n.emit(g.PoolOp, n[0], kind="average", count_include_pad=include, **pool_params(n))


@onnx_op("LpPool")
def lp_pool(n: Node) -> SSAValue:
    return n.emit(g.PoolOp, n[0], kind="lp", p=order(n), **pool_params(n))


def order(n: Node) -> int:
    """Of a norm; in opset 1 a float."""
    p = n.attribute("p")
    return int(p) if isinstance(p, float) and p.is_integer() else n.int("p", 2)


@onnx_op("GlobalAveragePool", "GlobalMaxPool")
def global_pool(n: Node) -> SSAValue:
    kind = "mean" if n.op_type == "GlobalAveragePool" else "max"
    return n.emit(ReduceOp, n[0], kind=kind, axes=range(2, n.rank(0)))


@onnx_op("GlobalLpPool")
def global_lp_pool(n: Node) -> SSAValue:
    p, axes = order(n), range(2, n.rank(0))
    if p in (1, 2):
        return n.emit(ReduceOp, n[0], kind=f"l{p}", axes=axes)
    powers = n.emit(e.PowOp, n.emit(e.AbsOp, n[0]), n.like(p, n[0]))
    total = n.emit(ReduceOp, powers, kind="sum", axes=axes)
    return n.emit(e.PowOp, total, n.like(1 / p, n[0]))


@onnx_op("MaxUnpool")
def max_unpool(n: Node) -> SSAValue:
    shape, kernel = n.constant_ints(2), n.ints("kernel_shape")
    return n.emit(
        g.MaxUnpoolOp,
        n[0],
        n[1],
        n.get(2) if shape is None else None,
        output_shape=shape,
        kernel=kernel,
        **window_params(n, kernel),
    )


@onnx_op("LRN")
def lrn(n: Node) -> SSAValue:
    return n.emit(
        g.LrnOp,
        n[0],
        size=n.int("size"),
        alpha=n.float("alpha", 1e-4),
        beta=n.float("beta", 0.75),
        bias=n.float("bias", 1.0),
    )


@onnx_op("RoiAlign")
def roi_align(n: Node) -> SSAValue:
    default = "half_pixel" if n.opset >= 16 else "output_half_pixel"
    return n.emit(
        g.RoiAlignOp,
        n[0],
        n[1],
        n[2],
        mode={"avg": "average"}.get(mode := n.str("mode", "avg").lower(), mode),
        output_size=[n.int("output_height", 1), n.int("output_width", 1)],
        sampling_ratio=n.int("sampling_ratio"),
        spatial_scale=n.float("spatial_scale", 1.0),
        half_pixel=n.str("coordinate_transformation_mode", default).lower() == "half_pixel",
    )


@onnx_op("MaxRoiPool")
def max_roi_pool(n: Node) -> SSAValue:
    size, scale = n.ints("pooled_shape"), n.float("spatial_scale", 1.0)
    return n.emit(g.MaxRoiPoolOp, n[0], n[1], output_size=size, spatial_scale=scale)
