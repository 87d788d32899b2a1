"""All ops as parameters of a test.

sys.path.insert(0, str(Path(__file__).parent))
from each_op import EACH_OP

@pytest.mark.parametrize("op", EACH_OP)
"""

import sys
from pathlib import Path

import pytest
from xdsl.ir import Attribute
from xdsl.irdl import VerificationContext
from xdsl.utils.exceptions import VerifyException

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
from random_graphs import op_classes

from ge.dialects.graph.elementwise import Elementwise
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import tensor


def takes(op: type[TensorOp], element: Attribute) -> bool:
    """Whether the first operand of an op may be a tensor of these elements."""
    _, definition = op.get_irdl_definition().operands[0]
    try:
        definition.constr.verify((tensor((), element),), VerificationContext())
    except VerifyException:
        return False
    return True


def in_check(op: type[TensorOp]) -> bool:
    """Whether `make check` tries an op: all, and of elementwise ops, which are lowered and run in
    one way, each fifth."""
    alike = [other for other in op_classes() if issubclass(other, Elementwise)]
    return op not in alike or alike.index(op) % 5 == 0


EACH_OP = [
    pytest.param(op, marks=[] if in_check(op) else pytest.mark.soak, id=op.name)
    for op in op_classes()
]
