"""Kernels that make a tensor from its shape and a rule."""

import numpy as np

from ge.dialects.errors import GeError
from ge.dialects.graph import creation as g
from ge.dialects.types import element_type
from ge.runtime.arrays import Array, dtype_of
from ge.runtime.kernels import Fn, kernel
from ge.runtime.kernels.shape import ints_of, refusing


@kernel(g.RangeOp)
def range_(op: g.RangeOp) -> Fn:
    dtype = dtype_of(element_type(op.start))

    def run(start: Array, limit: Array, delta: Array) -> Array:
        if not delta.any():
            raise GeError("delta is 0")
        if dtype.kind in "iu":
            return np.array(range(*(int(a.item()) for a in (start, limit, delta))), dtype)
        first, last, step = (float(a.item()) for a in (start, limit, delta))
        places: Array = np.arange(g.number_of_steps(first, last, step))
        values: Array = first + places * step
        return values.astype(dtype)

    return refusing(run)


@kernel(g.FillOp)
def fill(op: g.FillOp) -> Fn:
    shape_of, value = ints_of(op, "shape"), op.value.value.data
    dtype = dtype_of(op.value.type)

    def run(shape: Array | None) -> Array:
        dims: tuple[int, ...] = shape_of(shape)
        return np.full(dims, value, dtype)

    return refusing(run)


@kernel(g.EyeOp)
def eye(op: g.EyeOp) -> Fn:
    shape_of, diagonal = ints_of(op, "shape"), op.diagonal.value.data
    dtype = dtype_of(op.element)

    def run(shape: Array | None) -> Array:
        return np.eye(*shape_of(shape), k=diagonal, dtype=dtype)

    return refusing(run)


@kernel(g.TriOp)
def tri(op: g.TriOp) -> Fn:
    triangle, diagonal = np.triu if op.upper.value.data else np.tril, ints_of(op, "k")

    def run(x: Array, k: Array | None) -> Array:
        return triangle(x, *(diagonal(k) or (0,)))

    return run
