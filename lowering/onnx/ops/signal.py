"""ONNX's signal processing ops. The window functions are ONNX functions: their bodies serve."""

from xdsl.ir import SSAValue

from ge.dialects.graph.shape import UnsqueezeOp
from ge.dialects.graph.signal import DftOp, MelWeightMatrixOp, StftOp
from ge.lowering.onnx.model import element_of_onnx
from ge.lowering.onnx.registry import Node, onnx_op


def parameter(n: Node, index: int) -> tuple[SSAValue | None, int | None]:
    """Scalar input `index` as run-time operand or constant; (None, None) when absent."""
    values = n.constant_ints(index) if n.get(index) is not None else None
    return (None, values[0]) if values else (n.get(index), None)


@onnx_op("DFT")
def dft(n: Node) -> SSAValue:
    length_value, length = parameter(n, 1)
    axis_value, axis = (None, n.int("axis", 1)) if n.opset < 20 else parameter(n, 2)
    if axis is None and axis_value is None:
        axis = -2
    return n.emit(
        DftOp,
        n[0],
        length_value,
        axis_value,
        length=length,
        axis=axis,
        inverse=bool(n.int("inverse")),
        onesided=bool(n.int("onesided")),
    )


@onnx_op("STFT")
def stft(n: Node) -> SSAValue:
    step_value, step = parameter(n, 1)
    length_value, length = parameter(n, 3)
    # A real signal without the last dimension of size 1: not in the standard, but runtimes take it
    signal = n.emit(UnsqueezeOp, n[0], axes=(2,)) if n.rank(0) == 2 else n[0]
    return n.emit(
        StftOp,
        signal,
        n.get(2),
        step_value,
        length_value,
        frame_step=step,
        frame_length=length,
        onesided=bool(n.int("onesided", 1)),
    )


@onnx_op("MelWeightMatrix")
def mel_weight_matrix(n: Node) -> SSAValue:
    to = element_of_onnx(n.int("output_datatype", 1))
    return n.emit(MelWeightMatrixOp, *n.tensors(), to=to)
