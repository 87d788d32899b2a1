"""Tensors made from their shape and a rule: ranges, one value, diagonals and triangles."""

from abc import ABC
from collections.abc import Sequence
from math import ceil
from typing import ClassVar, cast

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, UnrankedTensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.support.parameters import (
    TYPES,
    Elements,
    Movement,
    OneResultOp,
    ShapeComputation,
    check_same_element,
    check_scalar,
    dims,
    elements_of,
    parameter,
    partial_ints,
    scalar_parameter,
    vector_parameter,
)
from ge.dialects.support.boxes import Access, Box, Work
from ge.dialects.support.constraints import (
    ANY,
    ELEMENT,
    INT,
    INTEGERS,
    INTS,
    NUMBERS,
    SCALAR,
    VALUES,
)
from ge.dialects.support.element_types import is_float
from ge.dialects.support.types import (
    DYNAMIC,
    Shape,
    byte_size,
    constant_value,
    element_type,
    is_static,
    numel,
    shape_of,
    tensor,
)


@irdl_op_definition
class RangeOp(OneResultOp, ShapeComputation):
    """start, start + delta, start + 2 delta, ... before limit: ceil((limit - start) / delta)
    elements, none when that is negative. The operands are scalars."""

    name = "graph.range"
    start = operand_def(NUMBERS)
    limit = operand_def(NUMBERS)
    delta = operand_def(NUMBERS)
    result = result_def(NUMBERS.of_rank(1))
    ACCESS: ClassVar = Access.POINTWISE
    VECTOR_COST: ClassVar = 2
    assembly_format = f"$start `,` $limit `,` $delta {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        for operand, name in zip(self.operands, ("start", "limit", "delta"), strict=True):
            check_scalar(operand, name)
            check_same_element(self.start, operand)
        start, limit, delta = (scalar(o) for o in self.operands)
        if delta == 0:
            raise VerifyException("delta is 0")
        count = DYNAMIC
        if start is not None and limit is not None and delta is not None:
            count = number_of_steps(start, limit, delta)
        return (tensor((count,), element_type(self.start)),)

    def elements(self, steps: int) -> Elements | None:
        known = [elements_of(o, steps) for o in self.operands]
        if any(k is None or None in k for k in known):
            return None
        start, limit, delta = (k[0] or 0 for k in known if k is not None)
        return tuple(range(start, limit, delta)) if delta else None


def number_of_steps(start: float, limit: float, delta: float) -> int:
    if isinstance(start, int) and isinstance(limit, int) and isinstance(delta, int):
        return len(range(start, limit, delta))
    return max(ceil((limit - start) / delta), 0)


def scalar(value: SSAValue) -> float | None:
    if (known := elements_of(value)) is not None:
        return known[0] if known else None
    constant = constant_value(value)
    if constant is None or not is_float(element_type(value)):
        return None
    return cast(float, constant.get_values()[0])


class Created(OneResultOp, ABC):
    """Ops that have a `shape` and no other operand."""

    shape_value = opt_operand_def(INTEGERS.of_rank(1))
    result = result_def(VALUES)
    shape = opt_prop_def(INTS)
    PARAMETERS: ClassVar = {"shape_value": "shape"}

    def created_shape(self) -> Shape | None:
        """The shape of the result; None when the rank is unknown."""
        vector_parameter(self, "shape", "the shape is missing")
        shape = partial_ints(self, "shape")
        if shape is None:
            return None
        if any(d is not None and d < 0 for d in shape):
            raise VerifyException(f"shape {list(shape)} has a negative dimension")
        return dims(shape)

    def static_work(self) -> Work:
        return Work(0, numel(shape_of(self.result)), 0, byte_size(self.result.type))


@irdl_op_definition
class FillOp(Created, ShapeComputation):
    """`value` everywhere."""

    name = "graph.fill"
    value = prop_def(SCALAR)
    assembly_format = f"$value {parameter('shape')} {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        shape, element = self.created_shape(), self.value.type
        return (UnrankedTensorType(element) if shape is None else tensor(shape, element),)

    def elements(self, steps: int) -> Elements | None:
        shape = shape_of(self.result)
        if not isinstance(self.value, IntegerAttr) or not is_static(shape):
            return None
        return (self.value.value.data,) * numel(shape)


@irdl_op_definition
class EyeOp(Created):
    """A matrix with 1 where column = row + `diagonal`, else 0, of element type `element`."""

    name = "graph.eye"
    result = result_def(ANY.of_rank(2))
    element = prop_def(ELEMENT)
    diagonal = prop_def(INT, default_value=IntegerAttr(0, i64))
    assembly_format = f"$element {parameter('shape')} {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        shape = self.created_shape()
        if shape is None:
            shape = (DYNAMIC, DYNAMIC)
        if len(shape) != 2:
            raise VerifyException(f"an identity matrix has 2 dimensions, not {len(shape)}")
        return (tensor(shape, self.element),)


@irdl_op_definition
class TriOp(Movement, OneResultOp):
    """The lower (or `upper`) triangle of each matrix in the last two dimensions, 0 elsewhere;
    diagonal `k` (0 when absent; 1 is the one above the main diagonal) belongs to it."""

    name = "graph.tri"
    input = operand_def(ANY)
    k_value = opt_operand_def(INTEGERS)
    k = opt_prop_def(INT)
    upper = prop_def(BoolAttr)
    PARAMETERS: ClassVar = {"k_value": "k"}
    assembly_format = f"$input {parameter('k')} {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        if len(shape_of(self.input)) < 2:
            raise VerifyException(f"expected one matrix or several, not {self.input.type}")
        scalar_parameter(self, "k")
        return (self.input.type,)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        return None if index else box
