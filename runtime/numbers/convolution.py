"""Kernels of convolutions and of their inverses. The ways in which a convolution is computed:

- A window of one element is a matmul of the image itself.
- A depthwise convolution multiplies and adds (below).
- All others copy the windows out as columns of a matrix (im2col), in blocks that stay in the
  processor's cache, for a matmul.

Of depthwise convolutions one call of einsum multiplies by all elements of the windows, and adds
up, for a block of channels. Its innermost loop takes long only where few elements lie side by side;
so images are copied first, among the zeros around them:

- With many channels and few positions, the channels of a pixel lie side by side.
- With few channels and many positions, the elements that one column of the window meets
  are a plane, in which all positions lie side by side. Its rows follow from each other where those
  of the window meet rows a whole number of strides apart; else each row of the window has its own
  plane, too.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ge.dialects.graph import convolution as g
from ge.dialects.graph.support.window import Window
from ge.dialects.support.types import Shape, element_type
from ge.runtime.data.arrays import Array, compute_dtype, dtype_of, rounded
from ge.runtime.numbers import Fn, kernel
from ge.runtime.numbers.linear import (
    EXACT_TERMS,
    Converted,
    DerivedArrays,
    even_ends,
    exact_dtype,
    exact_ends,
    exact_matmul,
    exact_terms,
    magnitude,
    to_integers,
    whole_dtype,
)
from ge.runtime.numbers.plan import Action, Plan, Scratch, scratch


def padded_shape(x: Array, window: Window) -> Shape:
    begins, ends = window.pads[: window.rank], window.pads[window.rank :]
    return (
        *x.shape[:2],
        *(b + d + e for b, d, e in zip(begins, x.shape[2:], ends, strict=True)),
    )


def pad(x: Array, window: Window, value: int, result: Array) -> Array:
    """Write x, with `value` around its spatial dimensions, to an array of the padded shape."""
    inside: list[slice] = []
    for i, size in enumerate(x.shape[2:]):
        before, begin = (slice(None),) * (2 + i), window.pads[i]
        result[(*before, slice(0, begin))] = value
        result[(*before, slice(begin + size, None))] = value
        inside.append(slice(begin, begin + size))
    result[(..., *inside)] = x
    return result


def windows(x: Array, window: Window, positions: Shape) -> Array:
    """The view [batch, channels, kernel..., positions...] of a padded input."""
    spatial = x.strides[2:]
    by_kernel = [s * d for s, d in zip(spatial, window.dilations, strict=True)]
    by_position = [s * d for s, d in zip(spatial, window.strides, strict=True)]
    return as_strided(
        x,
        (*x.shape[:2], *window.kernel, *positions),
        (*x.strides[:2], *by_kernel, *by_position),
        writeable=False,
    )


def tap_range(window: Window, i: int, tap: int, size: int, positions: int) -> tuple[slice, slice]:
    """For one element of the window along dimension i: the positions at which it is inside the
    input, and the input elements that it then meets."""
    offset = tap * window.dilations[i] - window.pads[i]
    return range_inside(offset, window.strides[i], size, positions)


def range_inside(offset: int, stride: int, size: int, positions: int) -> tuple[slice, slice]:
    """Position p meets the element of number offset + p * stride: the positions that meet one of
    the `size` elements there are, and these elements."""
    first = max(0, -(offset // stride))
    last = min(positions, (size - 1 - offset) // stride + 1)
    if first >= last:
        return slice(0, 0), slice(0, 0)
    start = first * stride + offset
    return slice(first, last), slice(start, start + (last - first - 1) * stride + 1, stride)


LINE_BYTES = 64  # of a cache
POSITIONS = 2  # for each channel, up to which the channels of a pixel lie side by side


def covered(window: Window, places: Shape) -> list[int]:
    """The elements along each dimension of a padded image, up to the last that a window meets."""
    return [(n - 1) * window.strides[i] + window.extent(i) for i, n in enumerate(places)]


def sums_by_pixels(plan: Plan, x: Array, weight: Array, window: Window, places: Shape) -> Array:
    """The sums [channels, outputs, height, width], valid until the next ones, of images [channels,
    height, width] and a weight [outputs, kernel height, kernel width, channels]."""
    channels, dtype = len(x), weight.dtype
    layout = (window, x.shape)
    pixels = plan.scratch.with_zeros(layout, (*covered(window, places), channels), dtype)
    inside = pixels[window.pads[0] :, window.pads[1] :][: x.shape[1], : x.shape[2]]
    met_part = x[:, : inside.shape[0], : inside.shape[1]]
    plan.add(np.copyto, inside, met_part.transpose(1, 2, 0))
    by_tap = [s * d for s, d in zip(pixels.strides[:2], window.dilations, strict=True)]
    by_place = [s * d for s, d in zip(pixels.strides[:2], window.strides, strict=True)]
    met = np.ndarray(
        (*window.kernel, *places, channels), dtype, pixels, 0,
        (*by_tap, *by_place, dtype.itemsize),
    )  # fmt: skip
    # An odd number of lines apart, so that one channel of all pixels has the whole cache
    lines = -(-channels * dtype.itemsize // LINE_BYTES) | 1
    pitch = lines * LINE_BYTES // dtype.itemsize
    sums = plan.scratch("sums", (len(weight), *places, pitch), dtype)[..., :channels]
    plan.add(np.einsum, "mabc,abijc->mijc", weight, met, out=sums)
    return sums.transpose(3, 0, 1, 2)


@dataclass(frozen=True, slots=True)
class Planes:
    """The elements of images that a window meets, [channels, columns of the window, groups, rows,
    places]. A group has one row of the window, or all: then two of them meet rows `step` apart."""

    window: Window
    places: Shape

    @property
    def step(self) -> int:
        """0 where each row of the window has its own group."""
        apart, rest = divmod(self.window.dilations[0], self.window.strides[0])
        return 0 if rest else apart

    @property
    def shape(self) -> Shape:
        """Shape for one channel."""
        (kernel_rows, columns), (height, width) = self.window.kernel, self.places
        if not self.step:
            return (columns, kernel_rows, height, width)
        return (columns, 1, height + (kernel_rows - 1) * self.step, width)

    @property
    def elements(self) -> int:
        return prod(self.shape)

    def met(self, planes: Array) -> Array:
        """The view [channels, columns, rows of the window, places]."""
        by_channel, by_column, by_group, by_line, by_element = planes.strides
        by_row = self.step * by_line or by_group
        return np.ndarray(
            (len(planes), *reversed(self.window.kernel), prod(self.places)),
            planes.dtype, planes, 0, (by_channel, by_column, by_row, by_element),
        )  # fmt: skip


def fill_planes(plan: Plan, x: Array, planes: Array, layout: Planes) -> None:
    """Copy images [channels, height, width] among the zeros of their planes."""
    window, (_, width) = layout.window, layout.places
    flat = set(window.strides) == {1} and width == x.shape[2] and x.flags.c_contiguous
    for column, group in np.ndindex(*planes.shape[1:3]):
        plane = planes[:, column, group]
        right = column * window.dilations[1] - window.pads[1]
        down = group * window.dilations[0] - window.pads[0]
        rows, from_rows = range_inside(down, window.strides[0], x.shape[1], plane.shape[1])
        columns, from_columns = range_inside(right, window.strides[1], x.shape[2], width)
        target = plane[:, rows, columns]
        if not flat:
            plan.add(np.copyto, target, x[:, from_rows, from_columns])
        elif target.size:
            copy_shifted(plan, x[:, from_rows], plane[:, rows], right)
            for outside in (plane[:, rows, : columns.start], plane[:, rows, columns.stop :]):
                if outside.size:
                    plan.add(outside.fill, 0)


def copy_shifted(plan: Plan, x: Array, plane: Array, right: int) -> None:
    """Copy rows as one run of memory, so that a place meets the element so far to its right; beside
    the image that is one of another row."""
    source, target = (a.reshape(len(a), -1) for a in (x, plane))
    count = source.shape[1] - abs(right)
    first, last = max(0, -right), max(0, right)
    plan.add(np.copyto, target[:, first : first + count], source[:, last : last + count])


def sums_by_images(
    plan: Plan, x: Array, weight: Array, window: Window, places: Shape, sums: Array
) -> None:
    """Write the sums [channels, outputs, places], in the type of the weight, of images [channels,
    height, width] and a weight [channels, outputs, kernel height, kernel width]."""
    layout = Planes(window, places)
    key = (window, x.shape[1:], "planes")
    planes = plan.scratch.with_zeros(key, (len(x), *layout.shape), weight.dtype)
    fill_planes(plan, x, planes, layout)
    # Strides have numpy go over the places first, then over the window
    plan.add(np.einsum, "cmba,cabi->cmi", weight, layout.met(planes), out=sums)


Matmul = Callable[[Array, Array, Array], object]  # multiplies the first two arrays into the third

# Computes the second array, which may be the first, from a block of the result.
Epilogue = Callable[[Array, Array], object]

BLOCK_BYTES = 1 << 20  # a block of a result, or of the columns for it


@dataclass(slots=True)
class Correlation:
    """The convolution of x [batch, channels, spatial...] with a weight, into a contiguous `out`. If
    that has integers, the matmul writes floats of their size that hold them where `in_floats`; x
    may then be of another type than the weight."""

    x: Array
    weight: Array
    window: Window
    groups: int
    matmul: Matmul
    out: Array
    bias: Array | None = None
    epilogue: Epilogue | None = None
    in_floats: bool = False
    plan: Plan = field(default_factory=lambda: Plan(scratch))

    @property
    def is_float(self) -> bool:
        return self.out.dtype.kind == "f"

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.weight.shape[1] == 1 and self.window.rank == 2

    @property
    def is_exact(self) -> bool:
        """True if the type of the weight holds whole sums."""
        is_wide = self.is_float or self.in_floats or self.weight.dtype == self.out.dtype
        return is_wide or prod(self.window.kernel) <= EXACT_TERMS

    @property
    def sums(self) -> Array:
        """The result, as the matmul writes it."""
        return self.out.view(self.weight.dtype) if self.in_floats else self.out

    def prepare(self, derived: DerivedArrays) -> Plan:
        """The calls that compute it. `derived` holds arrays that follow from the weight from run to
        run."""
        window = self.window
        if prod(window.kernel) == 1 and set(window.strides) == {1} and not any(window.pads):
            self.by_points(derived)
        elif self.is_depthwise and self.is_exact and self.x.size:
            self.by_channels(derived)
        else:
            self.by_columns(derived)
        return self.plan

    def converted(self, x: Array) -> Array:
        """A part of x in the type of the weight."""
        if x.dtype == self.weight.dtype:
            return x
        result = self.plan.scratch("converted", x.shape, self.weight.dtype)
        self.plan.add(np.copyto, result, x)
        return result

    def padded(self) -> Array:
        """x in the type of the weight, with zeros around it."""
        if not any(self.window.pads):
            return self.converted(self.x)
        shape = padded_shape(self.x, self.window)
        around = self.plan.scratch("padded", shape, self.weight.dtype)
        self.plan.add(pad, self.x, self.window, 0, around)
        return around

    def multiply(
        self, rows: Array, columns: Array, first: int, target: Array, bias: Array | None
    ) -> None:
        """A block of the result, which starts with channel `first`. The matmul gets memory of its
        own where the result's is not contiguous, as that is slower to go over twice."""
        once = bias is None and self.epilogue is None and not self.in_floats
        direct = target.flags.c_contiguous or once
        block = target if direct else self.plan.scratch("block", target.shape, target.dtype)
        self.plan.add(self.matmul, rows, columns, block)
        self.finish(block, first, target, bias)

    def finish(self, block: Array, first: int, target: Array, bias: Array | None) -> None:
        if self.in_floats:
            copied = block is not target and bias is None and self.epilogue is None
            floats, block, target = block, block.view(self.out.dtype), target.view(self.out.dtype)
            self.plan.add(to_integers, floats, block)
            if copied:
                self.plan.add(np.copyto, target, block)
        if bias is not None:
            terms = bias[first : first + len(block)].reshape(-1, *[1] * (block.ndim - 1))
            self.plan.add(np.add, block, terms, out=target if self.epilogue is None else block)
        if self.epilogue is not None:
            self.plan.add(self.epilogue, block, target)

    def with_bias(self, rows: Array, derived: DerivedArrays) -> tuple[Array, Array | None]:
        """The weight [groups, outputs, terms] with the bias as one more term, if the matmul gives
        floats and both are constants; the bias that is still to be added."""
        bias, constant = self.bias, not self.weight.flags.writeable
        in_floats = self.is_float or (self.in_floats and self.x.dtype.itemsize == 1)
        if bias is None or bias.flags.writeable or not constant or not in_floats:
            return rows, bias

        def build() -> Array:
            if not self.is_float:
                most = int(np.abs(rows).sum(axis=2).max(initial=0)) * magnitude(self.x)
                if most + magnitude(bias) > exact_terms(rows.dtype, 1):
                    return np.empty(0, rows.dtype)
            terms = bias.astype(rows.dtype).reshape(*rows.shape[:2], 1)
            # A matmul takes up to a quarter less time where the outputs of a term lie side by side
            whole = np.concatenate([rows.swapaxes(1, 2), terms.swapaxes(1, 2)], axis=1)
            return whole.swapaxes(1, 2)

        whole = derived(self.weight, "bias", build, bias)
        return (whole, None) if whole.size else (rows, bias)

    def by_points(self, derived: DerivedArrays) -> None:
        batch, groups, count = len(self.x), self.groups, prod(self.out.shape[2:])
        outputs, terms = len(self.weight) // groups, self.weight.shape[1]
        rows, bias = self.weight.reshape(groups, outputs, terms), self.bias
        result = self.sums.reshape(batch, groups, outputs, count)
        if outputs >= terms:  # a copy of the image costs less than to add the bias
            rows, bias = self.with_bias(rows, derived)
        is_copied = rows.shape[2] > terms
        x = self.x if is_copied else self.converted(self.x)
        points = x.reshape(batch, groups, terms, count)
        for image in range(batch):
            for group in range(groups):
                columns = points[image, group]
                if is_copied:
                    columns = self.plan.scratch("columns", (terms + 1, count), rows.dtype)
                    self.plan.add(np.copyto, columns[:terms], points[image, group])
                    self.plan.add(columns[terms].fill, 1)
                target = result[image, group]
                self.multiply(rows[group], columns, group * outputs, target, bias)

    def by_columns(self, derived: DerivedArrays) -> None:
        x, window, groups = self.padded(), self.window, self.groups
        rows = self.weight.reshape(groups, len(self.weight) // groups, prod(self.weight.shape[1:]))
        positions, terms = self.out.shape[2:], rows.shape[2]
        result = self.sums.reshape(len(x), groups, rows.shape[1], prod(positions))
        view = windows(x, window, positions)
        line = prod(positions[1:])
        line_bytes = x.shape[1] * prod(window.kernel) * line * x.itemsize
        step = max(1, 4 * BLOCK_BYTES // max(line_bytes, 1))
        before = (slice(None),) * (1 + window.rank)  # the dimensions before an image's positions
        bias = self.bias
        if groups == 1 and 4 * terms < prod(positions):  # no second copy of many weights
            rows, bias = self.with_bias(rows, derived)
        for image in range(len(x)):
            for start in range(0, positions[0], step):
                chunk = view[image][(*before, slice(start, start + step))]
                shape = (groups, rows.shape[2], chunk.size // max(groups * terms, 1))
                columns = self.plan.scratch("columns", shape, x.dtype)
                self.plan.add(np.copyto, columns[:, :terms].reshape(chunk.shape), chunk)
                if shape[1] > terms:
                    self.plan.add(columns[:, terms:].fill, 1)
                part = result[image, :, :, start * line : (start + step) * line]
                for group in range(groups):
                    first = group * rows.shape[1]
                    self.multiply(rows[group], columns[group], first, part[group], bias)

    def by_channels(self, derived: DerivedArrays) -> None:
        window, places, groups = self.window, self.out.shape[2:], self.groups
        outputs, result = len(self.weight) // groups, self.sums
        weight = self.weight.reshape(groups, outputs, *window.kernel)
        by_pixels = prod(places) <= POSITIONS * groups
        elements = Planes(window, places).elements
        if by_pixels:
            turned = weight.transpose(1, 2, 3, 0)
            weight = derived(self.weight, "pixels", lambda: np.ascontiguousarray(turned))
            elements = prod(covered(window, places))
        elements += outputs * prod(places)
        parts = elements * groups * weight.itemsize // BLOCK_BYTES
        step = -(-groups // max(1, min(groups, parts)))
        for image in range(len(self.x)):
            for start in range(0, groups, step):
                some, first = slice(start, start + step), start * outputs
                x = self.x[image, some]
                target = result[image, first : first + len(x) * outputs]
                if by_pixels:
                    taps = weight[..., some]
                    sums = sums_by_pixels(self.plan, x, taps, window, places)
                else:
                    sums = self.sums_by_images(x, weight[some], target)
                self.finish_sums(sums, first, target)

    def sums_by_images(self, x: Array, weight: Array, target: Array) -> Array:
        """The sums of some channels, in the memory of the result if that has their type."""
        shape, dtype = (*weight.shape[:2], *self.out.shape[2:]), weight.dtype
        direct = target.dtype == dtype
        sums = target.reshape(shape) if direct else self.plan.scratch("sums", shape, dtype)
        flat, places = sums.reshape(*shape[:2], -1), self.out.shape[2:]
        sums_by_images(self.plan, x, weight, self.window, places, flat)
        return target if direct else sums

    def finish_sums(self, sums: Array, first: int, target: Array) -> None:
        """Finish the sums of some channels [channels, outputs of each, positions...], which may be
        the target itself."""
        bias = self.bias
        if sums is not target:
            block = target.reshape(sums.shape)
            if self.is_float and bias is None and self.epilogue is not None:
                self.plan.add(self.epilogue, sums, block)
                return
            if self.is_float and bias is not None:
                terms = bias[first : first + len(target)]
                self.plan.add(np.add, sums, terms.reshape(*sums.shape[:2], 1, 1), out=block)
                bias = None
            elif sums.dtype.kind == block.dtype.kind:
                self.plan.add(np.copyto, block, sums)
            else:
                self.plan.add(copy_whole, sums, block)
        self.finish(target, first, target, bias)


def copy_whole(floats: Array, target: Array) -> None:
    """Copy floats that hold integers to integers of any size."""
    target[...] = floats.astype(whole_dtype(floats.dtype))


def add_bias(out: Array, bias: Array | None) -> None:
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
