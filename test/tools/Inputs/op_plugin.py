"""A plugin for tests: an op of its own, with its kernel."""

from collections.abc import Sequence

from xdsl.ir import Attribute, Dialect
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from ge.dialects.support.tensor_op import TensorOp
from ge.runtime.numbers import Fn, kernel


@irdl_op_definition
class HalveOp(TensorOp):
    """x / 2"""

    name = "acme.halve"
    input = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"

    def infer(self) -> Sequence[Attribute]:
        return (self.input.type,)


@kernel(HalveOp)
def halve(op: HalveOp) -> Fn:
    return lambda x: (x / 2).astype(x.dtype)


Acme = Dialect("acme", [HalveOp])
