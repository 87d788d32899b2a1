"""ONNX's reductions, ArgMax and ArgMin, CumSum and CumProd."""

from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph.reduction import ArgReduceOp, CumulativeOp, ReduceOp
from ge.dialects.support.types import DYNAMIC
from ge.lowering.onnx.ops.shape import as_vector
from ge.lowering.onnx.registry import Node, Unsupported, onnx_op

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
