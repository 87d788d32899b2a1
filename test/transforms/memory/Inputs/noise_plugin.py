"""A plugin for tests: an op whose result is another one each time. It is not `Pure`."""

from collections.abc import Sequence

from xdsl.ir import Attribute, Dialect
from xdsl.irdl import irdl_op_definition, operand_def, result_def

from ge.dialects.support.tensor_op import TensorOp


@irdl_op_definition
class NoisyOp(TensorOp):
    """x with random noise"""

    name = "acme.noisy"
    input = operand_def()
    result = result_def()
    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"

    def infer(self) -> Sequence[Attribute]:
        return (self.input.type,)


Acme = Dialect("acme", [NoisyOp])
