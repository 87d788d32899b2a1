"""Kernels of caches."""

import numpy as np

from ge.dialects.graph.cache import AppendOp
from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import Array
from ge.runtime.numbers import Fn, kernel


def in_blocks(table: Array, size: int, rows: range) -> Array:
    """Where rows lie of `size` ones in blocks, of which a table says where they are."""
    block = max(size // max(len(table), 1), 1)
    numbers: Array = np.arange(rows.start, rows.stop)
    found: Array = table[numbers // block]
    if not np.all((found >= 0) & (found < len(table))):
        raise GeError(f"rows up to {rows.stop} lie in no block: the table is {table.tolist()}")
    return found * block + numbers % block


@kernel(AppendOp, into=True)
def append(op: AppendOp) -> Fn:
    axis = op.axis.value.data

    def run(
        cache: Array, rows: Array, length: Array, table: Array | None = None,
        out: Array | None = None,
    ) -> Array:  # fmt: skip
        end, size = int(length.item()), cache.shape[axis]
        if not rows.shape[axis] <= end <= size:
            raise GeError(f"{rows.shape[axis]} rows do not end at row {end} of {size}")
        result = np.empty_like(cache, order="C") if out is None else out
        if result.ctypes.data != cache.ctypes.data:
            np.copyto(result, cache)
        where = (slice(None),) * (axis % cache.ndim)
        first = end - rows.shape[axis]
        place = slice(first, end) if table is None else in_blocks(table, size, range(first, end))
        result[(*where, place)] = rows
        return result

    return run
