"""ONNX's processing of signals and images: Fourier transforms (the window functions are ONNX
functions, whose bodies serve), resampling, NonMaxSuppression."""

from xdsl.ir import SSAValue

from ge.dialects.graph.image import GridSampleOp, ResizeOp
from ge.dialects.graph.shape import UnsqueezeOp
from ge.dialects.graph.signal import DftOp, MelWeightMatrixOp, StftOp
from ge.dialects.support.tensor_op import Operand, Param
from ge.lowering.onnx.model import element_of_onnx
from ge.lowering.onnx.registry import Node, Unsupported, onnx_op, scalar_parameter


@onnx_op("DFT")
def dft(n: Node) -> SSAValue:
    length_value, length = scalar_parameter(n, 1)
    axis_value, axis = (None, n.int("axis", 1)) if n.opset < 20 else scalar_parameter(n, 2)
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
    step_value, step = scalar_parameter(n, 1)
    length_value, length = scalar_parameter(n, 3)
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


def floats(n: Node, index: int) -> list[float] | None:
    array = n.constant(index)
    return None if array is None else [float(v) for v in array.reshape(-1)]


def nonempty(n: Node, index: int) -> SSAValue | None:
    value = n.get(index)
    return None if value is None or n.shape(index) == (0,) else value


def target(n: Node, scales: int, sizes: int) -> dict[str, Param | Operand]:
    """The operand or property that tells the size: constants become properties."""
    by_scale, by_size = nonempty(n, scales), nonempty(n, sizes)
    if by_size is not None:
        known = n.constant_ints(sizes)
        return {"sizes_value": by_size} if known is None else {"sizes": known}
    if by_scale is None:
        raise Unsupported("neither scales nor sizes are given")
    factors = floats(n, scales)
    return {"scales_value": by_scale} if factors is None else {"scales": factors}


@onnx_op("Resize")
def resize(n: Node) -> SSAValue:
    if n.opset < 11:
        return simple(n)
    params = target(n, 2, 3)
    if "axes" in n.attributes:
        params["axes"] = n.ints("axes")
    coordinates = n.str("coordinate_transformation_mode", "half_pixel")
    return n.emit(
        ResizeOp,
        n[0],
        nonempty(n, 1) if coordinates == "tf_crop_and_resize" else None,
        mode=n.str("mode", "nearest"),
        coordinates=coordinates,
        nearest_mode=n.str("nearest_mode", "round_prefer_floor"),
        cubic_coeff_a=n.float("cubic_coeff_a", -0.75),
        exclude_outside=bool(n.int("exclude_outside")),
        antialias=bool(n.int("antialias")),
        extrapolation_value=n.float("extrapolation_value"),
        keep_aspect_ratio_policy=n.str("keep_aspect_ratio_policy", "stretch"),
        **params,
    )


@onnx_op("Upsample")
def simple(n: Node) -> SSAValue:
    """Upsample, and Resize as it was up to opset 10."""
    if "scales" in n.attributes:
        params = {"scales": [float(s) for s in n.attribute("scales")]}
    else:
        params = target(n, 1, 2)
    mode = n.str("mode", "nearest")
    return n.emit(
        ResizeOp,
        n[0],
        mode="linear" if mode == "bilinear" else mode,
        coordinates="asymmetric",
        nearest_mode="floor",
        **params,
    )


@onnx_op("GridSample")
def grid_sample(n: Node) -> SSAValue:
    mode = n.str("mode", "linear")
    return n.emit(
        GridSampleOp,
        n[0],
        n[1],
        mode={"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode),
        padding_mode=n.str("padding_mode", "zeros"),
        align_corners=bool(n.int("align_corners")),
    )
