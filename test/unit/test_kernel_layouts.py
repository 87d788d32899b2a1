"""The bits of a kernel's results do not depend on how its operands lie in memory: what a pass moves
from one launch to another stays the same."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
import random_builder
from each_op import EACH_OP
from random_builder import Builder, Unsuitable
from random_graphs import op_classes
from random_ops import make

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import TensorOp
from ge.runtime import numbers
from ge.runtime.data.arrays import Array, array_of
from ge.runtime.device.trials import Trials
from ge.transforms.rewriting.passes import BitExact

PLACES = 20
"""Seeds that are tried for an op before it counts as one that cannot be made."""

SEVERAL = 5
"""Cases of an op that adds up; `make soak` takes twice as many, and numbers that are not normal."""


def layouts(a: Array) -> Iterator[Array]:
    """The same elements elsewhere in memory."""
    yield a.copy("F")
    if a.ndim and a.size:
        yield np.repeat(a, 2, -1)[..., ::2]
        yield np.flip(np.flip(a).copy())
        yield np.moveaxis(np.moveaxis(a, 0, -1).copy(), -1, 0)


def executions(module: ModuleOp, seconds: float) -> Iterator[tuple[Operation, list[Array]]]:
    """The ops of the main function with their operands, for each set of inputs."""
    trials = Trials(module, {}, seconds=seconds)
    func = main_function(module)
    assert func is not None
    for trial in trials.trials:
        values: dict[SSAValue, Array] = dict(
            zip(func.body.block.args, trial.inputs.values(), strict=True)
        )
        for op in func.body.block.ops:
            if isinstance(op, ConstantOp):
                given: Any = op.value
                dense = isinstance(given, DenseIntOrFPElementsAttr)
                found = array_of(given) if dense else trials.payload.get(given.data)
                assert found is not None
                values[op.result] = found
            elif not isinstance(op, ReturnOp):
                arrays = [values[v] for v in op.operands]
                yield op, arrays
                results = numbers.evaluate(op, arrays)
                laid_out = (np.ascontiguousarray(r).reshape(r.shape) for r in results)
                values.update(zip(op.results, laid_out, strict=True))


@pytest.mark.parametrize("op", EACH_OP)
def test_layout_does_not_matter(op: type[TensorOp], monkeypatch: pytest.MonkeyPatch):
    """Of normal numbers: the first ones that trials have."""
    check_layouts(op, monkeypatch, SEVERAL, 0)


@pytest.mark.soak
@pytest.mark.parametrize("op", op_classes(), ids=lambda op: op.name)
def test_layout_does_not_matter_to_any_numbers(op: type[TensorOp], monkeypatch: pytest.MonkeyPatch):
    check_layouts(op, monkeypatch, 2 * SEVERAL, 10)


def check_layouts(
    op: type[TensorOp], monkeypatch: pytest.MonkeyPatch, several: int, seconds: float
) -> None:
    monkeypatch.setattr(random_builder, "SIZES", (1, 2, 3, 17, 40))
    done, wanted = 0, 1 if op.ACCESS in numbers.TAKES_VIEWS else several
    for seed in range(PLACES):
        b = Builder(seed)
        try:
            runs = list(executions(b.module(b.add(make(b, op))), seconds))
        except (Unsuitable, GeError):  # no operands, or no inputs found for them
            continue
        for each, arrays in runs:
            check(each, arrays)
        done += 1
        if done == wanted:
            break
    assert done, f"no {op.name} could be made that runs"


def check(op: Operation, arrays: list[Array]) -> None:
    """The op gives the same bits for each layout of its operands."""
    results = numbers.evaluate(op, arrays)
    for other in zip(*map(layouts, arrays), strict=False):
        for before, after in zip(results, numbers.evaluate(op, other), strict=True):
            assert BitExact().difference(before, after) is None, str(op)
