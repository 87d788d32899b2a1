"""A plug-in for tests: an op with an integer of any width in its syntax."""

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Dialect
from xdsl.irdl import irdl_op_definition, operand_def, prop_def

from ge.dialects.graph.support.parameters import TYPES, OneResultOp


@irdl_op_definition
class TakeOp(OneResultOp):
    """Every `group`-th element"""

    name = "my.take"
    input = operand_def()
    group = prop_def(IntegerAttr)
    assembly_format = f"$input `group` $group {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        return (self.input.type,)


My = Dialect("my", [TakeOp])
