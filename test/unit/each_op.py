"""All ops as parameters of a test.

sys.path.insert(0, str(Path(__file__).parent))
from each_op import EACH_OP

@pytest.mark.parametrize("op", EACH_OP)
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
from random_graphs import op_classes

from ge.dialects.graph.elementwise import Elementwise
from ge.dialects.support.tensor_op import TensorOp


def in_check(op: type[TensorOp]) -> bool:
    """Whether `make check` tries an op: all, and of elementwise ops, which are lowered and run in
    one way, each fifth."""
    alike = [other for other in op_classes() if issubclass(other, Elementwise)]
    return op not in alike or alike.index(op) % 5 == 0


EACH_OP = [
    pytest.param(op, marks=[] if in_check(op) else pytest.mark.soak, id=op.name)
    for op in op_classes()
]
