"""Programs with a body for each of several sizes, the gears: which one the inputs have, and values
of the sizes of one of them."""

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import NoMemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.support.parameters import TYPES
from ge.dialects.support.boxes import Box, Work
from ge.dialects.support.constraints import (
    ANY,
    INDICES,
    INTS,
)
from ge.dialects.support.tensor_op import IndexMap, SpeculatableUnlessItFails, TensorOp, table_of
from ge.dialects.support.types import (
    DYNAMIC,
    array_ints,
    element_type,
    shape_of,
    shape_text,
    tensor,
)


@irdl_op_definition
class MapIndexOp(IndexMap, TensorOp):
    """The gear that the inputs have the sizes of.

    %gear = graph.map_index %x, %y axes [0, 1] table [array<i64: 1, 256>, array<i64: 1, 512>]
        : (tensor<?x64xf32>, tensor<1x?xf32>) -> tensor<i64>
    """

    name = "graph.map_index"
    result = result_def(INDICES.of_rank(0))
    traits = traits_def(Pure())
    assembly_format = f"$inputs {TYPES}"

    @classmethod
    def make(
        cls, inputs: Sequence[SSAValue], axes: Sequence[int], rows: Sequence[Sequence[int]]
    ) -> "MapIndexOp":
        return cls(
            operands=[inputs],
            result_types=[tensor((), i64)],
            properties={"axes": DenseArrayBase.from_list(i64, axes), "table": table_of(rows)},
        )

    def infer(self) -> Sequence[Attribute]:
        self.check()
        return (tensor((), i64),)

    def static_work(self) -> Work:
        return Work()


@irdl_op_definition
class AssumeShapeOp(TensorOp):
    """The input, of which `shape` is known where this runs (-1: any size): an error where it is
    another one.

    %y = graph.assume_shape %x shape [1, 256] : (tensor<?x?xi64>) -> tensor<1x256xi64>
    """

    name = "graph.assume_shape"
    input = operand_def(ANY)
    shape = prop_def(INTS)
    result = result_def(ANY)
    traits = traits_def(NoMemoryEffect(), SpeculatableUnlessItFails())
    assembly_format = f"$input {TYPES}"

    @classmethod
    def at(cls, value: SSAValue, shape: Sequence[int]) -> "AssumeShapeOp":
        return cls(
            operands=[value],
            result_types=[tensor(shape, element_type(value))],
            properties={"shape": DenseArrayBase.from_list(i64, shape)},
        )

    def infer(self) -> Sequence[Attribute]:
        shape, known = array_ints(self.shape), shape_of(self.input)
        fits = len(shape) == len(known) and all(
            k in (d, DYNAMIC) for d, k in zip(shape, known, strict=True)
        )
        if not fits:
            raise VerifyException(f"{self.input.type} has no shape {shape_text(shape)}")
        return (tensor(shape, element_type(self.input)),)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        return box

    def static_work(self) -> Work:
        return Work()

    def can_fail(self) -> bool:
        return True
