"""A plug-in for tests: an op that folds, and comes with a canonicalization pattern of xDSL's."""

from collections.abc import Sequence

from xdsl.dialects.builtin import FloatAttr
from xdsl.interfaces import HasCanonicalizationPatternsInterface, HasFolderInterface
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ge.dialects.graph.support.parameters import TYPES, OneResultOp
from ge.dialects.support.constraints import FLOATS
from ge.runtime.numbers import Fn, kernel


@irdl_op_definition
class GainOp(OneResultOp, HasFolderInterface, HasCanonicalizationPatternsInterface):
    """x louder by `decibels`"""

    name = "loud.gain"
    input = operand_def(FLOATS)
    decibels = prop_def(FloatAttr)
    assembly_format = f"$input {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        return (self.input.type,)

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        return (self.input,) if self.decibels.value.data == 0 else None

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return (GainOfGain(),)


class GainOfGain(RewritePattern):
    """Two gains are one of the sum."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GainOp, rewriter: PatternRewriter, /) -> None:
        inner = op.input.owner
        if isinstance(inner, GainOp):
            both = op.decibels.value.data + inner.decibels.value.data
            rewriter.replace(op, GainOp.of(inner.input, decibels=FloatAttr(both, 64)))


@kernel(GainOp)
def gain(op: GainOp) -> Fn:
    factor = 10 ** (op.decibels.value.data / 20)
    return lambda x: x * x.dtype.type(factor)


Loud = Dialect("loud", [GainOp])
