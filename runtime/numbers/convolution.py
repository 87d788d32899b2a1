"""Kernels of convolutions, computed in `correlation.py`, and of their inverses."""

from dataclasses import replace
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from ge.dialects.graph import convolution as g
from ge.dialects.graph.support.window import Window
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import Shape, element_type
from ge.runtime.data.arrays import Array, compute_dtype, dtype_of, rounded
from ge.runtime.numbers import Fn, kernel
from ge.runtime.numbers.correlation import Correlation, Epilogue, Matmul, pad, padded_shape
from ge.runtime.numbers.linear import (
    Converted,
    DerivedArrays,
    even_ends,
    exact_dtype,
    exact_ends,
    exact_matmul,
    exact_terms,
    magnitude,
    whole_dtype,
)
from ge.runtime.numbers.plan import Action, Plan, Scratch


def check_bias(bias: Array | None, channels: int) -> None:
    """Raises GeError for sizes that numpy takes, where they are not known before."""
    if bias is not None and bias.size != channels:
        raise GeError(f"a bias of {bias.size} for {channels} channels")


def add_bias(out: Array, bias: Array | None) -> None:
    check_bias(bias, out.shape[1])
    if bias is not None:
        out += bias.reshape(-1, *[1] * (out.ndim - 2))


# With AVX-512, OpenBLAS does so many multiplications without first copying the matrices and
# clearing the result. Its kernels for other CPUs always copy.
DIRECT_MATMUL = 10**6


def has_avx512() -> bool:
    """True if numpy's build information reports AVX512 as present, which it calls by two names."""
    found = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    return any(name == "X86_V4" or name.startswith("AVX512") for name in found)


MULTIPLIES_IN_PARTS = has_avx512()


@lru_cache(maxsize=256)
def equal_parts(size: int, most: int, least: int) -> int:
    """The least number of equal parts of `least` to `most` elements; 1 where there is none."""
    numbers = range(max(-(-size // max(most, 1)), 1), size // least + 1)
    return next((n for n in numbers if size % n == 0), 1)


def into(a: Array, b: Array, out: Array) -> None:
    """Multiply matrices, in parts where to copy them takes a large part of the time: the columns
    of a few rows, or the rows of sums of few terms."""
    if MULTIPLIES_IN_PARTS and a.ndim == 2 and a.size:
        (rows, terms), columns = a.shape, b.shape[1]
        if rows <= 32 and a.size <= 5000:
            parts = equal_parts(columns, DIRECT_MATMUL // a.size, 64)
            b = b.reshape(terms, parts, columns // parts).swapaxes(0, 1)
            out = out.reshape(rows, parts, columns // parts).swapaxes(0, 1)
        elif terms <= 100:
            parts = equal_parts(rows, DIRECT_MATMUL // max(terms * columns, 1), 8)
            a = a.reshape(parts, rows // parts, terms)
            out = out.reshape(parts, rows // parts, columns)
    np.matmul(a, b, out=out)


def arithmetic(
    x: Array, w: Array, terms: int, dtype: np.dtype[Any], norms: DerivedArrays | None = None
) -> tuple[np.dtype[Any], Matmul, bool]:
    """The dtype of sums of `terms` terms, how to multiply, and whether that gives floats of the
    size of integers of `dtype`. With `norms` the terms are those of the rows of w."""
    if dtype.kind not in "iu":
        return compute_dtype(x), into, False
    bound = magnitude(x) * magnitude(w)
    wide = exact_dtype(bound, terms)
    if wide is None:
        return dtype, into, False
    step = exact_terms(wide, bound)
    ends = even_ends(terms, step)
    if norms is not None:
        ends = exact_ends(w, 1, magnitude(x), terms, wide, norms)
        if len(ends) == 1 and dtype == whole_dtype(wide):
            return wide, into, True

    def multiply(a: Array, b: Array, out: Array) -> None:
        # a band matrix has more terms, most of them zeros, and in another order
        ordered = a.shape[-1] == terms or len(ends) == 1
        exact_matmul(a, b, ends if ordered else even_ends(a.shape[-1], step), out)

    return wide, multiply, False


class ConvolutionKernel:
    def __init__(self, op: g.ConvOp) -> None:
        self.op, self.dtype = op, dtype_of(element_type(op.result))
        self.channel_axis, self.pad_value = op.channel_axis, op.pad_value.value.data
        self.weight, self.derived, self.norms = Converted(), DerivedArrays(), DerivedArrays()
        self.window_of = lru_cache(maxsize=8)(self._window_of)

    def _window_of(self, image: Shape, size: Shape) -> tuple[Window, Shape]:
        window = self.op.window_over(size).resolved(image)
        return window, window.output(image)

    def __call__(
        self,
        x: Array,
        w: Array,
        bias: Array | None = None,
        out: Array | None = None,
        then: Epilogue | None = None,
    ) -> Array:
        x = x if self.channel_axis == 1 else np.moveaxis(x, self.channel_axis, 1)
        window, places = self.window_of(x.shape[2:], w.shape[2:])
        shape = (x.shape[0], w.shape[0], *places)
        check_bias(bias, w.shape[0])
        terms = prod(w.shape[1:])
        wide, product, in_floats = arithmetic(x, w, terms, self.dtype, self.norms)
        exact = self.dtype if self.dtype.kind in "iu" else wide
        direct = out is not None and out.dtype == exact and out.flags.c_contiguous
        target = out if direct else np.empty(shape, exact)
        assert target is not None

        inside = then if exact == self.dtype else None
        x = x if in_floats else x.astype(wide, copy=False)
        if self.pad_value:
            around = np.empty(padded_shape(x, window), x.dtype)
            x = pad(x, window, self.pad_value, around)
            window = replace(window, pads=(0,) * len(window.pads))
        correlation = Correlation(
            x, self.weight.convert(w, wide), window, self.op.groups, product, target,
            bias, inside, in_floats,
        )  # fmt: skip
        correlation.prepare(self.derived).run()
        result = target if direct else rounded(target, self.dtype, out)
        if then is not None and inside is None:
            then(result, result)
        return result

    def bind(
        self,
        scratch: Scratch,
        x: Array,
        w: Array,
        bias: Array | None = None,
        *,
        out: Array,
        then: Epilogue | None = None,
    ) -> Action:
        """See `Bindable`. Weights have to be constants, and floats of the type that is computed
        with: the other steps of a call depend on the elements."""
        arrays = [a for a in (x, w, bias, out) if a is not None]
        of_floats = all(a.dtype == compute_dtype(out) == self.dtype for a in arrays)
        in_place = all(a.flags.c_contiguous for a in arrays)
        constant = not any(a is not None and a.flags.writeable for a in (w, bias))
        is_plain = self.channel_axis == 1 and not self.pad_value
        if not (self.dtype.kind == "f" and of_floats and in_place and constant and is_plain):
            return partial(self, x, w, bias, out=out, then=then)
        window, _ = self.window_of(x.shape[2:], w.shape[2:])
        correlation = Correlation(
            x, w, window, self.op.groups, into, out, bias, then, plan=Plan(scratch)
        )
        return correlation.prepare(self.derived).run


@kernel(g.ConvOp, into=True, blocks=True)
def conv(op: g.ConvOp) -> Fn:
    return ConvolutionKernel(op)


def scatter(columns: Array, window: Window, image: Shape) -> Array:
    """Add overlapping blocks, `columns` [batch, channels, kernel..., positions...], to an image
    with padding, and return its inside."""
    r = window.rank
    sizes = [window.pads[i] + d + window.pads[i + r] for i, d in enumerate(image)]
    total = np.zeros((*columns.shape[:2], *sizes), columns.dtype)
    places = columns.shape[2 + r :]
    for tap in np.ndindex(*window.kernel):
        where = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, s, n in zip(tap, window.dilations, window.strides, places, strict=True)
        )
        total[(..., *where)] += columns[(slice(None), slice(None), *tap)]
    return total[(..., *(slice(p, p + d) for p, d in zip(window.pads, image, strict=False)))]


@kernel(g.ConvTransposeOp)
def conv_transpose(op: g.ConvTransposeOp) -> Fn:
    groups, dtype = op.groups, dtype_of(element_type(op.result))
    weight, channel_axis = Converted(), op.channel_axis

    def run(x: Array, w: Array, bias: Array | None = None) -> Array:
        x = np.moveaxis(x, channel_axis, 1)
        window, extra = op.transposed_window(w.shape[2:]), op.extra()
        image = tuple(
            g.transposed_dim(window, extra, i, size) for i, size in enumerate(x.shape[2:])
        )
        batch, channels = x.shape[:2]
        wide, product, _ = arithmetic(x, w, channels // groups, dtype)
        rows = weight.convert(w, wide).reshape(groups, channels // groups, prod(w.shape[1:]))
        rows, places = rows.swapaxes(1, 2), prod(x.shape[2:])
        points = x.astype(wide, copy=False).reshape(batch, groups, channels // groups, places)
        exact = dtype if dtype.kind in "iu" else wide
        columns = np.empty((batch, groups, rows.shape[1], places), exact)
        product(rows, points, columns)
        blocks = columns.reshape(batch, groups * w.shape[1], *window.kernel, *x.shape[2:])
        result = np.ascontiguousarray(scatter(blocks, window, image))
        add_bias(result, bias)
        return rounded(result, dtype)

    return run


def dimensions(operand: Array | None, known: Shape | None) -> Shape:
    """A shape that is an operand, or else known from a property."""
    if operand is not None:
        return tuple(int(d) for d in operand)
    assert known is not None
    return known


@kernel(g.Col2ImOp)
def col2im(op: g.Col2ImOp) -> Fn:
    image_shape, block_shape = op.ints("image_shape"), op.ints("block_shape")

    def run(x: Array, image: Array | None, block: Array | None) -> Array:
        sizes = dimensions(image, image_shape)
        window = op.window_over(dimensions(block, block_shape))
        channels = x.shape[1] // prod(window.kernel)
        blocks = x.reshape(x.shape[0], channels, *window.kernel, *window.output(sizes))
        wide = blocks.astype(compute_dtype(x), copy=False)
        return rounded(np.ascontiguousarray(scatter(wide, window, sizes)), x.dtype)

    return run


def bilinear(image: Array, y: Array, x: Array) -> Array:
    """The image [channels, height, width] at the positions (y, x), zero outside."""
    height, width = image.shape[1:]
    flat = image.reshape(image.shape[0], height * width)
    top, left = np.floor(y), np.floor(x)
    result = np.zeros((image.shape[0], *y.shape), image.dtype)
    for row, row_weight in ((top, top + 1 - y), (top + 1, y - top)):
        for column, column_weight in ((left, left + 1 - x), (left + 1, x - left)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            index = np.where(inside, row * width + column, 0).astype(np.intp)
            result += np.where(inside, flat[:, index] * (row_weight * column_weight), 0)
    return result


@kernel(g.DeformConvOp)
def deform_conv(op: g.DeformConvOp) -> Fn:
    window = op.window()
    groups, parts = op.group.value.data, op.offset_group.value.data
    places = np.indices(window.kernel).reshape(2, -1, 1, 1)

    def run(
        x: Array, w: Array, offset: Array, bias: Array | None = None, mask: Array | None = None
    ) -> Array:
        wide, sizes = compute_dtype(x), offset.shape[2:]
        resolved = window.resolved(x.shape[2:])
        grid = np.indices(sizes).reshape(2, 1, *sizes)
        start = [
            grid[i] * window.strides[i] - resolved.pads[i] + places[i] * window.dilations[i]
            for i in range(2)
        ]
        taps, terms = places.shape[1], prod(w.shape[1:])
        moves = offset.astype(wide).reshape(x.shape[0], parts, taps, 2, *sizes)
        weights = w.astype(wide).reshape(groups, w.shape[0] // groups, terms)
        result = np.empty((x.shape[0], w.shape[0], *sizes), wide)
        for n, image in enumerate(x.astype(wide)):
            split = image.reshape(parts, x.shape[1] // parts, *image.shape[1:])
            samples = np.stack(
                [
                    bilinear(part, start[0] + moves[n, i, :, 0], start[1] + moves[n, i, :, 1])
                    for i, part in enumerate(split)
                ]
            )
            if mask is not None:
                samples *= mask[n].astype(wide).reshape(parts, 1, taps, *sizes)
            columns = samples.reshape(groups, terms, prod(sizes))
            result[n] = np.matmul(weights, columns).reshape(w.shape[0], *sizes)
        add_bias(result, bias)
        return rounded(result, x.dtype)

    return run
