"""Fourier transforms as products with constant matrices, on the cube: `expand_layers.py` says why.

CANN's `Stft` takes such a matrix, its `plan`, too. A matrix of n elements costs n^2: longer
transforms than `MOST` elements of a matrix stay as they are.
"""

from math import gcd, pi

import numpy as np
from xdsl.dialects.builtin import f32

from ge.dialects.graph import elementwise as g
from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.shape import TransposeOp
from ge.dialects.graph.signal import DftOp, StftOp
from ge.dialects.graph.slicing import SliceOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import element_type, is_static, normalize_axis, numel, shape_of
from ge.runtime.data.arrays import Array, dense, dtype_of
from ge.transforms.graph.canonical.linear_maps import as_type, shaped
from ge.transforms.graph.canonical.local import Make, Replacement, rule

MOST = 1 << 24  # elements of a matrix: 64 MB of f32


def real(matrix: Array, ins: int, outs: int) -> Array:
    """A complex matrix [n, m] on real and imaginary parts, [n, ins, m, outs], of which signals and
    results have so many."""
    re, im = np.real(matrix), np.imag(matrix)
    parts = np.array([[re, im], [-im, re]])
    return parts[:ins, :outs].transpose(2, 0, 3, 1)


def fourier(given: int, length: int, bins: int, sign: int) -> Array:
    """exp(sign 2 pi i n k / length) for the elements below `given` and the frequencies below
    `bins`; elements from `length` on are left out."""
    turns = np.arange(given)[:, None] * np.arange(bins) % length
    return np.exp(sign * 2j * pi / length * turns) * (np.arange(given)[:, None] < length)


def inverse_onesided(given: int, length: int) -> Array:
    """The real signal of the first frequencies: those between the ends stand for two."""
    twice = np.where((np.arange(given) == 0) | (2 * np.arange(given) == length), 1, 2)
    there = np.arange(given) <= length // 2
    return fourier(length, length, given, 1).T * (twice * there)[:, None] / length


@rule(DftOp, exact=False)
def dft_by_matmul(op: DftOp, make: Make) -> Replacement:
    """A product with a constant matrix, on real and imaginary parts"""
    shape, result, axis = shape_of(op.input), shape_of(op.result), op.ints("axis")
    if (
        axis is None
        or op.length_value is not None
        or not is_static((*shape, *result))
        or not numel(shape)
    ):
        return None
    at, rank, element = normalize_axis(axis[0], len(shape)), len(shape), element_type(op.input)
    given, count, ins, outs = shape[at], result[at], shape[-1], result[-1]
    inverse, onesided = bool(op.inverse.value.data), bool(op.onesided.value.data)
    if not numel(shape) or given * ins * count * outs > MOST:
        return None
    if inverse and onesided:
        matrix = inverse_onesided(given, count)
    elif inverse:
        matrix = fourier(given, count, count, 1) / count
    else:
        length = given if op.length is None else op.length.value.data
        matrix = fourier(given, length, count, -1)
    own = f32 if bitwidth(element) < 32 else element
    weight = real(matrix, ins, outs).reshape(given * ins, count * outs)
    order = [i for i in range(rank - 1) if i != at] + [at, rank - 1]
    rows = make(TransposeOp, as_type(make, op.input, own), permutation=order)
    lines = [shape[i] for i in order[:-2]]
    rows = shaped(make, rows, (numel(tuple(lines)), given * ins))
    y = make(MatmulOp, rows, make.dense(dense(weight.astype(dtype_of(own)))))
    y = shaped(make, as_type(make, y, element), (*lines, count, outs))
    return make(TransposeOp, y, permutation=np.argsort(order).tolist())


@rule(StftOp, exact=False)
def stft_by_conv(op: StftOp, make: Make) -> Replacement:
    """A convolution whose filters are the frequencies, of lines as long as frames and steps have in
    common; they are multiplied by the window"""
    shape, result, step = shape_of(op.signal), shape_of(op.result), op.ints("frame_step")
    if step is None or op.frame_length_value is not None or not is_static((*shape, *result)):
        return None
    (batch, _, parts), (_, frames, bins, _), length = shape, result, op.frame()
    if not numel(result) or length * parts * bins * 2 > MOST:
        return None
    element = element_type(op.signal)
    own = f32 if bitwidth(element) < 32 else element
    line = gcd(step[0], length)
    used = (frames - 1) * step[0] + length
    x = make(SliceOp, as_type(make, op.signal, own), starts=[0], ends=[used], axes=[1])
    x = shaped(make, x, (batch, used // line, line * parts))
    x = make(TransposeOp, x, permutation=[0, 2, 1])
    filters = real(fourier(length, length, bins, -1), parts, 2)
    filters = filters.reshape(length // line, line, parts, bins * 2).transpose(3, 1, 2, 0)
    weight = make.dense(dense(np.ascontiguousarray(filters, dtype_of(own))))
    if op.window is not None:
        window = shaped(make, as_type(make, op.window, own), (length // line, line))
        window = make(TransposeOp, window, permutation=[1, 0])
        weight = make(g.MulOp, weight, shaped(make, window, (line, 1, length // line)))
    weight = shaped(make, weight, (bins * 2, line * parts, length // line))
    y = make(ConvOp, x, weight, None, strides=[step[0] // line])
    y = make(TransposeOp, y, permutation=[0, 2, 1])
    return shaped(make, as_type(make, y, element), result)
