"""The base of all ops on tensors. An author states operands and properties (IRDL), result types
(`infer`) and the facts below, and adds interfaces for what passes may do with the op beyond that.

An op is added by writing one class (here), one kernel (`runtime/numbers`) and one test.
"""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.traits import ConditionallySpeculatable

from ge.dialects.support.element_types import is_integer
from ge.dialects.support.in_place import InPlaceInterface
from ge.dialects.support.inference import InferenceInterface
from ge.dialects.support.types import element_type, is_static, shape_of


class SpeculatableUnlessItFails(ConditionallySpeculatable):
    """Generic passes may run the op where it did not run before (before a loop that may have no
    iterations) if its kernel refuses no values."""

    @classmethod
    def is_speculatable(cls, op: Operation) -> bool:
        return isinstance(op, TensorOp) and not op.can_fail()


class TensorOp(InferenceInterface, InPlaceInterface):
    """An op on tensors that infers its result types and states its work.

    Of `support/interfaces.py` it has none: rows, splitting, other orders of dimensions.
    """

    # whether an operand has indices of elements; the kernel refuses those out of range
    TAKES_INDICES: ClassVar[bool] = False
    # whether it multiplies matrices, and what follows may join its launch
    IS_MATMUL: ClassVar[bool] = False
    # whether it scales rows by their statistics, and what is around may join its launch
    NORMALIZES: ClassVar[bool] = False
    # how many of the first operands may be narrow floats: the kernel computes with them in float32
    # and rounds its result once
    ROUNDED_ONCE: ClassVar[int] = 0
    # whether the vector unit has no instructions for it: what it runs instead would hold up the
    # cube
    VECTOR_PROGRAM: ClassVar[bool] = False

    def index_operands(self) -> Sequence[SSAValue]:
        """The operands that are indices or numbers of elements, which the kernel refuses where they
        are out of range."""
        others = self.operands[1:] if self.TAKES_INDICES else ()
        return [v for v in others if is_integer(element_type(v))]

    def can_fail(self) -> bool:
        """Whether the kernel may refuse values that are known only at run time. Such an op must
        not run where it did not run before."""
        if self.TAKES_INDICES or any(getattr(self, name) is not None for name in self.PARAMETERS):
            return True
        return not all(
            isinstance(v.type, TensorType) and is_static(shape_of(v))
            for v in (*self.operands, *self.results)
        )
