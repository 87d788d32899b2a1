"""Kernels of matmuls, all through BLAS.

16-bit floats are computed in float32 and rounded once. Integers are computed in floats as long
as each partial sum is an integer that the float type holds exactly, else by numpy itself (which
is 100 times slower).
"""

from collections.abc import Callable, Hashable, Sequence
from math import prod
from typing import Any
from weakref import ref

import numpy as np

from ge.dialects.graph import linear as g
from ge.dialects.support.element_types import is_float
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import element_type
from ge.runtime.data.arrays import Array, compute_dtype, dtype_of, rounded, widen
from ge.runtime.numbers import Fn, array_kernel, kernel
from ge.runtime.numbers.indexing import as_index
from ge.runtime.numbers.shape import refusing

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


class DerivedArrays:
    """Caches arrays computed from read-only ones for as long as these live: they are weights, and
    come again in the next run. Launches with different weights may share a kernel."""

    def __init__(self) -> None:
        self.results: dict[Hashable, tuple[ref[Array], Array | None, Array]] = {}

    def __call__(
        self, x: Array, form: Hashable, compute: Callable[[], Array], other: Array | None = None
    ) -> Array:
        """`other` is a second array that the result is computed from; it lives as long as x."""
        key = id(x), id(other), form
        if (cached := self.results.get(key)) is not None:
            return cached[2]
        result = compute()
        if not x.flags.writeable and (other is None or not other.flags.writeable):
            result.flags.writeable = False
            self.results[key] = ref(x, lambda _: self.results.pop(key, None)), other, result
        return result


class Converted(DerivedArrays):
    """Contiguous arrays of another dtype, with their matrices transposed if asked for."""

    def __init__(self, transpose: bool = False) -> None:
        super().__init__()
        self.transpose = transpose

    def convert(self, x: Array, dtype: np.dtype[Any]) -> Array:
        turned = x.swapaxes(-1, -2) if self.transpose else x
        if x.dtype == dtype and turned.flags.c_contiguous:
            return turned
        return self(x, dtype, lambda: turned.astype(dtype, order="C"))


def magnitude(x: Array) -> int:
    if x.dtype.itemsize == 1:
        return 255 if x.dtype.kind == "u" else 128
    return max(int(x.max(initial=0)), -int(x.min(initial=0)))


def exact_terms(dtype: np.dtype[Any], bound: int) -> int:
    return 2 ** (24 if dtype == FLOAT32 else 53) // max(bound, 1)


EXACT_TERMS = 128  # sums of so many terms are exact in the float type of `exact_dtype`


def exact_dtype(bound: int, terms: int) -> np.dtype[Any] | None:
    """The float type for exact sums, None when there is none. Sums are split where they get too
    long, but not into tiny chunks."""
    if exact_terms(FLOAT32, bound) >= min(terms, EXACT_TERMS):
        return FLOAT32
    return FLOAT64 if exact_terms(FLOAT64, bound) >= terms else None


def even_ends(terms: int, step: int) -> Sequence[int]:
    return (*range(step, terms, step), terms)


def exact_ends(
    w: Array, axis: int, most: int, terms: int, dtype: np.dtype[Any], norms: DerivedArrays
) -> Sequence[int]:
    """Ends of the parts into which sums of `terms` products are split so that each part is exact,
    for elements of `w`, along an axis of [rows, others], and others up to `most`. For read-only
    arrays, which are weights, the sums of their elements say more than their type."""
    step = exact_terms(dtype, most * magnitude(w))
    if terms <= step or w.flags.writeable or w.dtype.itemsize > 1:
        return even_ends(terms, step)
    block = min(step, NORM_BLOCK)

    def build() -> Array:
        turned = np.moveaxis(w.reshape(len(w), -1), axis, 0)
        parts = (turned[k : k + block].astype(np.int32) for k in range(0, terms, block))
        return np.array([np.abs(part).sum(axis=0).max(initial=0) for part in parts])

    ends, total = list[int](), 0
    for k, norm in enumerate(norms(w, (axis, block), build).tolist()):
        if total + norm > exact_terms(dtype, most):
            ends.append(k * block)
            total = 0
        total += norm
    return (*ends, terms)


NORM_BLOCK = 128  # terms whose magnitudes are added up together


def exact_matmul(a: Array, b: Array, ends: Sequence[int], out: Array) -> None:
    """Multiply floats that hold integers, in parts that end at `ends`, into an integer array; sums
    wrap around as its type does."""
    whole = whole_dtype(a.dtype)
    direct = out.dtype == whole and out.flags.c_contiguous
    start = 0
    for end in ends:
        last = None if end == ends[-1] else end  # there may be more terms that are zeros
        memory = out.view(a.dtype) if direct and not start else None
        part = float_matmul(a[..., start:last], b[..., start:last, :], memory)
        if direct:
            to_integers(part, out, add=start > 0)
        elif start:
            out += part.astype(whole).astype(out.dtype, copy=False)
        elif out.dtype.itemsize >= np.dtype(whole).itemsize:
            np.copyto(out, part, casting="unsafe")
        else:
            out[...] = part.astype(whole)
        start = end


CONVERTED = 1 << 16  # elements that are converted at a time, and stay in the processor's cache


def whole_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The integers of the size of a float type."""
    return np.dtype(np.int32 if dtype == FLOAT32 else np.int64)


def to_integers(x: Array, out: Array, add: bool = False) -> None:
    """Convert contiguous floats that hold integers, which may be in the memory of `out`, or add
    them to it."""
    x, out = x.reshape(-1), out.reshape(-1)
    for start in range(0, x.size, CONVERTED):
        some = slice(start, start + CONVERTED)
        if add:
            out[some] += x[some].astype(out.dtype)
        else:
            np.copyto(out[some], x[some], casting="unsafe")


def float_matmul(a: Array, b: Array, out: Array | None = None) -> Array:
    """np.matmul of contiguous arrays (BLAS rounds by how matrices lie in memory); one large matmul
    for all batches where the right-hand side is one matrix."""
    if b.ndim > 2 or a.ndim == 2:
        return np.matmul(a, b, out=out)
    shape = (*a.shape[:-1], b.shape[-1])
    flat = a.reshape(prod(a.shape[:-1]), a.shape[-1])
    if out is None:
        return np.matmul(flat, b).reshape(shape)
    if out.flags.c_contiguous:
        np.matmul(flat, b, out=out.reshape(len(flat), shape[-1]))
    else:
        out[...] = np.matmul(flat, b).reshape(shape)
    return out


@kernel(g.MatmulOp, into=True)
def matmul(op: g.MatmulOp) -> Fn:
    lhs, rhs = (Converted(bool(t.value.data)) for t in (op.transpose_lhs, op.transpose_rhs))
    dtype, norms = dtype_of(element_type(op.result)), DerivedArrays()

    def of_floats(a: Array, b: Array, out: Array | None = None) -> Array:
        wide = compute_dtype(a)
        left, right = lhs.convert(a, wide), rhs.convert(b, wide)
        if wide == a.dtype:
            return float_matmul(left, right, out)
        return rounded(float_matmul(left, right), dtype, out)

    def of_integers(a: Array, b: Array, out: Array | None = None) -> Array:
        bound, terms = magnitude(a) * magnitude(b), a.shape[-2 if lhs.transpose else -1]
        wide = exact_dtype(bound, terms)
        left, right = lhs.convert(a, wide or dtype), rhs.convert(b, wide or dtype)
        if wide is None:
            return np.matmul(left, right, out=out)
        if out is None:
            batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
            out = np.empty((*batch, left.shape[-2], right.shape[-1]), dtype)
        if b.ndim == 2:
            ends = exact_ends(b, int(rhs.transpose), magnitude(a), terms, wide, norms)
        else:
            ends = even_ends(terms, exact_terms(wide, bound))
        exact_matmul(left, right, ends, out)
        return out

    return of_floats if is_float(element_type(op.lhs)) else of_integers


@kernel(g.GroupedMatmulOp)
def grouped_matmul(op: g.GroupedMatmulOp) -> Fn:
    turned, sizes = bool(op.transpose_rhs.value.data), op.ints("rows")
    by_offsets = op.given.data == "offsets"

    def multiplied(rows: Array, one: Array) -> Array:
        wide = compute_dtype(rows)
        one = (one.T if turned else one).astype(wide, order="C")
        return float_matmul(rows.astype(wide), one)

    def run(lhs: Array, rhs: Array, groups: Array | None) -> Array:
        """The matmuls of each group together."""
        n = rhs.shape[1 if turned else 2]
        if groups is None:
            return in_order(lhs, rhs, sizes or (), n)
        if op.in_order:
            if by_offsets and groups[:1].tolist() != [0]:
                raise GeError(f"the first group begins at row {groups[0]}, not at 0")
            return in_order(lhs, rhs, (np.diff(groups) if by_offsets else groups).tolist(), n)
        batch, (m, k) = np.broadcast_shapes(lhs.shape[:-2], groups.shape), lhs.shape[-2:]
        rows = np.broadcast_to(lhs, (*batch, m, k)).reshape(-1, m, k)
        mine = np.broadcast_to(as_index(groups), batch).reshape(-1)
        mine = np.arange(len(rhs))[mine]  # as numpy counts, and refuses
        result = np.empty((len(mine), m, n), lhs.dtype)
        for number in np.unique(mine):
            result[mine == number] = multiplied(rows[mine == number], rhs[number])
        return result.reshape(*batch, m, n)

    def in_order(lhs: Array, rhs: Array, sizes: Sequence[int], n: int) -> Array:
        g.check_group_rows(sizes, len(lhs))
        result, first = np.empty((len(lhs), n), lhs.dtype), 0
        for one, size in zip(rhs, sizes, strict=True):
            result[first : first + size] = multiplied(lhs[first : first + size], one)
            first += size
        return result

    return refusing(run)


@kernel(g.EinsumOp)
def einsum(op: g.EinsumOp) -> Fn:
    equation, dtype = op.equation.data, dtype_of(element_type(op.result))

    def run(*arrays: Array) -> Array:
        wide = list(map(widen, arrays))
        return rounded(np.asarray(np.einsum(equation, *wide, optimize=len(wide) > 1)), dtype)

    return run


@array_kernel(g.DetOp)
def det(x: Array) -> Array:
    return rounded(np.asarray(np.linalg.det(widen(x))), x.dtype)
