"""Ops and values keep their attributes side by side, as Python does until something asks an object
for its dictionary, or gives it an attribute that the first objects of its class did not have. With
a dictionary each takes a quarter more memory, and each attribute several times as long."""

import gc
import platform
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from writing import Expr, Tensor, written
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.support.operation import count_ops
from ge.lowering.driver.compiler import lower
from ge.lowering.pipeline.options import Options

MANY = 40  # objects, more than Python takes to learn the attributes of a class


def model() -> ModuleOp:
    def formula(x: Expr) -> Expr:
        w = x.lift(np.eye(16, dtype=np.float32) * 0.5)
        for i in range(MANY):
            x = (x @ w + 0.25 * i).tanh()
        return x

    return written(formula, Tensor(16, 16))


def has_dictionary(thing: Operation | SSAValue) -> bool:
    own = "_operands" if isinstance(thing, Operation) else "_type"
    return any(type(r) is dict and own in r for r in gc.get_referents(thing))


def values_of(owner: Operation | Block) -> Sequence[SSAValue]:
    return owner.args if isinstance(owner, Block) else owner.results


@pytest.mark.skipif(platform.python_implementation() != "CPython", reason="about CPython's objects")
@pytest.mark.parametrize("level", ["graph", "fused", "tasks", "program"])
def test_no_op_or_value_has_a_dictionary(level: str) -> None:
    module = model()
    lower(module, Options(tiles=False), until=level)
    assert count_ops(module.body.blocks) > MANY
    ops = list(module.walk())
    blocks = [b for op in ops for r in op.regions for b in r.blocks]
    values = [v for owner in (*ops, *blocks) for v in values_of(owner)]
    found = Counter(type(t).__name__ for t in (*ops, *values) if has_dictionary(t))
    assert found.keys() <= {"KernelOp"}  # which hold what was verified
