"""Random numbers as functions of a seed, so that each level, schedule and tiling has the same ones.

    func.func @main(%seed: tensor<2xi64> {graph.name = "seed", graph.seed}) -> ... {
      %0 = graph.random_uniform f32, %seed shape [4] stream 3 : (tensor<2xi64>) -> tensor<4xf32>

A seed is two numbers, that of the session and that of the run; `graph.seed` marks the argument that
the session gives. Each op draws from a stream of its own: element i follows from the seed, `stream`
and i alone, by Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011; see
`runtime/numbers/random.py`). So the ops have no effects, and two of one stream are equal. With
`own`, the attribute `seed` of an ONNX node, this number takes the place of the session's and of
the stream: the numbers of such an op are the same in all sessions, and others in each run.
"""

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, UnrankedTensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.creation import Created
from ge.dialects.graph.support.parameters import (
    TYPES,
    OneResultOp,
    check_scalar,
    parameter,
)
from ge.dialects.support.boxes import Work
from ge.dialects.support.constraints import (
    F64,
    FLOAT,
    INDICES,
    INT,
    INTEGERS,
)
from ge.dialects.support.types import byte_size, tensor

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
        shape, element = self.created_shape(), self.element
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
