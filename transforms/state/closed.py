"""Values that follow from the sizes of a function's arguments alone."""

from collections.abc import Callable
from typing import cast

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Operation, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.creation import RangeOp
from ge.dialects.graph.shape import ShapeOfOp
from ge.dialects.graph.support.parameters import elements_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Dense, element_type, shape_of
from ge.runtime.data.arrays import Array, array_of, dtype_of
from ge.runtime.numbers import evaluate


def is_size(op: Operation, value: SSAValue) -> bool:
    """Whether an op has a value for a size: of a result, or of a part."""
    if isinstance(op, RangeOp):
        return value is op.limit and value not in (op.start, op.delta)
    if not isinstance(op, TensorOp):
        return False
    sizes = [name for name in op.PARAMETERS if getattr(op, name) is value]
    return bool(sizes) and sum(v is value for v in op.operands) == len(sizes)


def closed_value(value: SSAValue, follows: Callable[[SSAValue], bool]) -> Array | None:
    """The elements of a value; None where they follow from more than constants and sizes. A number
    that `follows` from a size is taken as a size alone, not as data."""
    op = value.owner
    if not isinstance(op, TensorOp):
        return None
    if isinstance(op, ConstantOp):
        dense = op.value
        is_dense = isinstance(dense, DenseIntOrFPElementsAttr)
        return array_of(cast(Dense, dense)) if is_dense else None
    if isinstance(op, ShapeOfOp):
        known = elements_of(value)
        if known is None or None in known:
            return None
        return np.array(known, dtype_of(element_type(value))).reshape(shape_of(value))
    arrays: list[Array] = []
    for operand in op.operands:
        if follows(operand) and not (is_size(op, operand) or follows(value)):
            return None
        if (array := closed_value(operand, follows)) is None:
            return None
        arrays.append(array)
    return evaluate(op, arrays)[op.results.index(value)]
