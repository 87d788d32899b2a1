"""What the ops compute, in numpy: folding, every interpreter and the emulated NPU use it."""

import numpy as np

from acme_npu.ops import ClippedOp, TwiceOp
from ge.runtime.data.arrays import Array
from ge.runtime.numbers import Fn, array_kernel, kernel


@kernel(ClippedOp)
def clipped(op: ClippedOp) -> Fn:
    limit = op.limit.value.data

    def run(x: Array) -> Array:
        return np.minimum(np.abs(x), limit).astype(x.dtype)

    return run


@array_kernel(TwiceOp)
def twice(x: Array) -> Array:
    return x + x
