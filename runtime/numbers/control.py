"""Kernels of graph.assert, and of programs with a body for each of several sizes; branches and
loops have none."""

import numpy as np

from ge.dialects.graph import control as g
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import DYNAMIC, array_ints, shape_text
from ge.runtime.data.arrays import Array
from ge.runtime.numbers import Fn, kernel


@kernel(g.AssertOp)
def asserted(op: g.AssertOp) -> Fn:
    message = op.message.data

    def run(x: Array, condition: Array) -> Array:
        if not condition.all():
            raise GeError(message)
        return np.array(x)

    return run


@kernel(g.MapIndexOp)
def map_index(op: g.MapIndexOp) -> Fn:
    return lambda *arrays: np.array(op.row_of([a.shape for a in arrays]), np.int64)


@kernel(g.AssumeShapeOp)
def assume_shape(op: g.AssumeShapeOp) -> Fn:
    shape = array_ints(op.shape)

    def run(x: Array) -> Array:
        if any(d not in (DYNAMIC, n) for d, n in zip(shape, x.shape, strict=True)):
            raise GeError(f"a value of shape {shape_text(x.shape)} is assumed to be {list(shape)}")
        return x

    return run
