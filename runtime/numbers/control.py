"""The kernel of graph.assert; branches and loops have none."""

import numpy as np

from ge.dialects.graph.control import AssertOp
from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import Array
from ge.runtime.numbers import Fn, kernel


@kernel(AssertOp)
def asserted(op: AssertOp) -> Fn:
    message = op.message.data

    def run(x: Array, condition: Array) -> Array:
        if not condition.all():
            raise GeError(message)
        return np.array(x)

    return run
