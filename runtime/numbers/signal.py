"""Kernels of signal processing: numpy's FFT, in float32 for 16-bit floats."""

import numpy as np
from xdsl.dialects.builtin import IntegerAttr

from ge.dialects.graph.signal import DftOp, MelWeightMatrixOp, StftOp
from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import Array, dtype_of, widen
from ge.runtime.numbers import Fn, kernel


def as_complex(x: Array) -> Array:
    wide = widen(x)
    if x.shape[-1] == 1:
        return wide[..., 0]
    return wide[..., 0] + 1j * wide[..., 1]


def as_parts(x: Array, like: Array) -> Array:
    return np.stack((np.real(x), np.imag(x)), axis=-1).astype(like.dtype, copy=False)


@kernel(DftOp)
def dft(op: DftOp) -> Fn:
    inverse, onesided = bool(op.inverse.value.data), bool(op.onesided.value.data)

    def run(x: Array, length_value: Array | None, axis_value: Array | None) -> Array:
        n = scalar(length_value, op.length)
        axis = scalar(axis_value, op.axis)
        assert axis is not None
        axis = axis + x.ndim if axis < 0 else axis
        signal = as_complex(x)
        if inverse and onesided:
            return np.fft.irfft(signal, n, axis)[..., None].astype(x.dtype, copy=False)
        if inverse:
            return as_parts(np.fft.ifft(signal, n, axis), x)
        transform = np.fft.rfft if onesided else np.fft.fft
        return as_parts(transform(signal, n, axis), x)

    return run


def scalar(value: Array | None, constant: IntegerAttr | None) -> int | None:
    if value is not None:
        return int(value.item())
    return None if constant is None else constant.value.data


@kernel(StftOp)
def stft(op: StftOp) -> Fn:
    transform = np.fft.rfft if op.onesided.value.data else np.fft.fft

    def run(
        x: Array, window: Array | None, step_value: Array | None, length_value: Array | None
    ) -> Array:
        step = scalar(step_value, op.frame_step)
        length = scalar(length_value, op.frame_length)
        if length is None:
            length = x.shape[1] if window is None else window.shape[0]
        if length > x.shape[1]:
            raise GeError(f"a frame of {length} is longer than the signal of {x.shape[1]}")
        frames = np.lib.stride_tricks.sliding_window_view(as_complex(x), length, 1)[:, ::step]
        return as_parts(transform(frames if window is None else frames * window, axis=-1), x)

    return run


@kernel(MelWeightMatrixOp)
def mel_weight_matrix(op: MelWeightMatrixOp) -> Fn:
    to = dtype_of(op.to)

    def run(mels: Array, length: Array, rate: Array, lower: Array, upper: Array) -> Array:
        edges = filter_edges(int(mels.item()), lower.item(), upper.item())
        edges = np.floor((int(length.item()) + 1) * edges / int(rate.item()))
        return triangles(edges, int(length.item()) // 2 + 1).astype(to)

    return run


def filter_edges(mels: int, lower: float, upper: float) -> Array:
    """Frequencies where triangles begin, peak and end: `mels` + 2 steps in mel."""
    low, high = (2595 * np.log10(1 + hertz / 700) for hertz in (lower, upper))
    steps = np.arange(mels + 2) * ((high - low) / (mels + 2)) + low
    return 700 * (10 ** (steps / 2595) - 1)


def triangles(edges: Array, count: int) -> Array:
    """Column i rises from 0 at edges[i] to 1 at edges[i + 1] and falls to 0 at edges[i + 2]."""
    left, center, right = edges[:-2], edges[1:-1], edges[2:]
    bins = np.arange(count, dtype=np.float64)[:, None]
    rising = np.where(bins <= center, (bins - left) / (center - left), -1)
    falling = np.where(bins > center, (right - bins) / (right - center), -1)
    weights = np.maximum(np.maximum(rising, falling), 0)
    return np.where(bins == center, 1, weights)
