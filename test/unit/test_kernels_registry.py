"""Each op of the graph dialect says what it computes and has a kernel that computes it."""

import inspect

import pytest
from xdsl.irdl import IRDLOperation
from xdsl.traits import ConstantLike, IsTerminator, SymbolOpInterface

from ge.dialects.graph import Graph
from ge.dialects.support.tensor_op import TensorOp
from ge.runtime import numbers

OPS = [op for op in Graph.operations if issubclass(op, IRDLOperation)]


def is_structure(op: type[IRDLOperation]) -> bool:
    """Whether an op holds others or values instead of computing."""
    holds_ops = bool(op.get_irdl_definition().regions) or op.has_trait(SymbolOpInterface)
    return holds_ops or op.has_trait(ConstantLike) or op.has_trait(IsTerminator)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_op_is_documented(op: type[IRDLOperation]):
    assert inspect.cleandoc(vars(op).get("__doc__") or ""), f"{op.name} has no docstring"


@pytest.mark.parametrize("op", [op for op in OPS if not is_structure(op)], ids=lambda op: op.name)
def test_op_has_a_kernel(op: type[IRDLOperation]):
    assert numbers.find(op) is not None, f"{op.name} has no kernel"
    assert issubclass(op, TensorOp)


def test_parameters_name_operands_and_properties():
    for op in OPS:
        if issubclass(op, TensorOp):
            definition = op.get_irdl_definition()
            operands = {name for name, _ in definition.operands}
            for operand, prop in op.PARAMETERS.items():
                assert operand in operands, op.name
                assert prop in definition.properties, op.name


def test_kernels_are_for_ops_of_the_dialect():
    numbers.find(OPS[0])  # imports all kernel modules
    registered = set(numbers._KERNELS)  # pyright: ignore[reportPrivateUsage]
    assert {op.name for op in registered if op.__module__.startswith("ge.dialects.graph")} <= {
        o.name for o in OPS
    }
