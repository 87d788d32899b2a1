"""Kernels that make a tensor from its shape and a rule."""

import numpy as np

from ge.dialects.graph import creation as g
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import element_type
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.numbers import Fn, kernel
from ge.runtime.numbers.shape import fitting, ints_of, refusing


@kernel(g.RangeOp)
def range_(op: g.RangeOp) -> Fn:
    dtype = dtype_of(element_type(op.start))

    def run(start: Array, limit: Array, delta: Array) -> Array:
        if not delta.any():
            raise GeError("delta is 0")
        numeric = int if dtype.kind in "iu" else float
        first, last, step = (numeric(a.item()) for a in (start, limit, delta))
        count = g.number_of_steps(first, last, step)
        fitting((count,), dtype)
        places: Array = np.arange(count)
        values: Array = first + places * step
        return values.astype(dtype)

    return refusing(run)


@kernel(g.FillOp)
def fill(op: g.FillOp) -> Fn:
    shape_of, value = ints_of(op, "shape"), op.value.value.data
    dtype = dtype_of(op.value.type)

    def run(shape: Array | None) -> Array:
        return np.full(fitting(shape_of(shape), dtype), value, dtype)

    return refusing(run)


@kernel(g.EyeOp)
def eye(op: g.EyeOp) -> Fn:
    shape_of, diagonal = ints_of(op, "shape"), op.diagonal.value.data
    dtype = dtype_of(op.element)

    def run(shape: Array | None) -> Array:
        return np.eye(*fitting(shape_of(shape), dtype), k=diagonal, dtype=dtype)

    return refusing(run)


@kernel(g.TriOp)
def tri(op: g.TriOp) -> Fn:
    triangle, diagonal = np.triu if op.upper.value.data else np.tril, ints_of(op, "k")

    def run(x: Array, k: Array | None) -> Array:
        return triangle(x, *(diagonal(k) or (0,)))

    return run
