"""Tensors made from their shape and a rule: ranges, one value, diagonals and triangles.

Random numbers as functions of a seed, so that each level, schedule and tiling has the same ones.

    func.func @main(%seed: tensor<2xi64> {graph.name = "seed", graph.seed}) -> ... {
      %0 = graph.random_uniform f32, %seed shape [4] stream 3 : (tensor<2xi64>) -> tensor<4xf32>

A seed is two numbers, that of the session and that of the run; `graph.seed` marks the argument that
the session gives. Each op draws from a stream of its own: element i follows from the seed, `stream`
and i alone, by Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011; see
`runtime/numbers/random.py`). So the ops have no effects, and two of one stream are equal. With
`own`, the attribute `seed` of an ONNX node, this number takes the place of the session's and of
the stream: the numbers of such an op are the same in all sessions, and others in each run."""

from abc import ABC
from collections.abc import Sequence
from math import ceil
from typing import ClassVar, cast

from xdsl.dialects.builtin import BoolAttr, FloatAttr, IntegerAttr, UnrankedTensorType, i64
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
    elements_of,
    parameter,
    scalar_parameter,
    stated_shape,
)
from ge.dialects.support.boxes import Access, Box, Work
from ge.dialects.support.constraints import (
    ANY,
    ELEMENT,
    F64,
    FLOAT,
    INDICES,
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

    def static_work(self) -> Work:
        return Work(0, numel(shape_of(self.result)), 0, byte_size(self.result.type))


@irdl_op_definition
class FillOp(Created, ShapeComputation):
    """`value` everywhere."""

    name = "graph.fill"
    value = prop_def(SCALAR)
    assembly_format = f"$value {parameter('shape')} {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        shape, element = stated_shape(self), self.value.type
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
        shape = stated_shape(self)
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


SEED_TYPE = tensor((2,), i64)
STREAMS = 1 << 32  # how many there are

# Element-operations of Philox for each element: ten rounds for four elements, of two products of 32
# bits by 32 and four exclusive ors. That such a product takes 14 (of 16 bits by 16, shifted and
# added up, its halves apart) is an assumption.
PHILOX_COST = 10 * (2 * 14 + 4) // 4


def check_seed(seed: SSAValue) -> None:
    if seed.type != SEED_TYPE:
        raise VerifyException(f"a seed is {SEED_TYPE}, not {seed.type}")


class RandomOp(Created, ABC):
    """Ops that draw floats of type `element`."""

    seed = operand_def(SEED_TYPE)
    element = prop_def(FLOAT)
    stream = prop_def(INT, default_value=IntegerAttr(0, i64))
    own = opt_prop_def(INT)
    VECTOR_PROGRAM: ClassVar = True
    assembly_format = f"$element `,` $seed {parameter('shape')} {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        check_seed(self.seed)
        if not 0 <= self.stream.value.data < STREAMS:
            raise VerifyException(f"stream {self.stream.value.data} is not in 0 to {STREAMS - 1}")
        shape, element = stated_shape(self), self.element
        return (UnrankedTensorType(element) if shape is None else tensor(shape, element),)

    def static_work(self) -> Work:
        work = super().static_work()
        return Work(0, work.vector * self.VECTOR_COST, byte_size(SEED_TYPE), work.written)


@irdl_op_definition
class RandomUniformOp(RandomOp):
    """Uniformly distributed from `low` up to, but not including, `high` (which rounding to fewer
    bits may give)."""

    name = "graph.random_uniform"
    low = prop_def(F64, default_value=FloatAttr(0.0, 64))
    high = prop_def(F64, default_value=FloatAttr(1.0, 64))
    VECTOR_COST: ClassVar = PHILOX_COST + 4


@irdl_op_definition
class RandomNormalOp(RandomOp):
    """Normally distributed around `mean` with standard deviation `scale`, by the transformation of
    Box and Muller."""

    name = "graph.random_normal"
    mean = prop_def(F64, default_value=FloatAttr(0.0, 64))
    scale = prop_def(F64, default_value=FloatAttr(1.0, 64))
    VECTOR_COST: ClassVar = PHILOX_COST + 4 + 30


@irdl_op_definition
class DeriveSeedOp(OneResultOp):
    """A seed for round `index` of a loop, whose ops draw other numbers in each round:

    %0 = graph.derive_seed %seed, %i : (tensor<2xi64>, tensor<i64>) -> tensor<2xi64>
    """

    name = "graph.derive_seed"
    seed = operand_def(INDICES.of_rank(1))
    index = operand_def(INTEGERS)
    result = result_def(INDICES.of_rank(1))
    VECTOR_PROGRAM: ClassVar = True
    assembly_format = f"$seed `,` $index {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        check_seed(self.seed)
        check_scalar(self.index, "the index")
        return (SEED_TYPE,)

    def static_work(self) -> Work:
        return Work(0, 8 * PHILOX_COST, *self.traffic())
