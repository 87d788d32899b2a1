"""Kernels of caches."""

import numpy as np

from ge.dialects.graph.cache import AppendOp
from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import Array
from ge.runtime.kernels import Fn, kernel


@kernel(AppendOp, into=True)
def append(op: AppendOp) -> Fn:
    axis = op.axis.value.data

    def run(cache: Array, rows: Array, length: Array, out: Array | None = None) -> Array:
        end, size = int(length.item()), cache.shape[axis]
        if not rows.shape[axis] <= end <= size:
            raise GeError(f"{rows.shape[axis]} rows do not end at row {end} of {size}")
        result = np.empty_like(cache, order="C") if out is None else out
        if result.ctypes.data != cache.ctypes.data:
            np.copyto(result, cache)
        where = (slice(None),) * (axis % cache.ndim)
        result[(*where, slice(end - rows.shape[axis], end))] = rows
        return result

    return run
