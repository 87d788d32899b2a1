"""Random graphs at every level in every fusion mode (`test/bench/random_graphs.py` runs more)."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import random_graphs
from each_op import EACH_OP
from random_builder import Builder, Unsuitable
from random_graphs import Graphs, check, count_ops, op_classes
from random_ops import make

from ge.dialects.graph.elementwise import AddOp, ExpOp, SubOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.normalization import SoftmaxOp
from ge.dialects.graph.shape import TransposeOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.text.printing import op_text
from ge.lowering.pipeline.options import FUSION_MODES, Options

PLUGIN = str(Path(__file__).parents[1] / "tools" / "Inputs" / "op_plugin.py")

PLACES = 20
"""Seeds that are tried for an op before it counts as one that cannot be made."""


def alone(op: type[TensorOp], seed: int) -> ModuleOp:
    """A module of this op."""
    b = Builder(seed)
    return b.module(b.add(make(b, op)))


@pytest.mark.parametrize("op", EACH_OP)
def test_every_op(op: type[TensorOp]) -> None:
    for seed in range(PLACES):
        try:
            mismatch = check(alone(op, seed), ("default",))
        except (Unsuitable, GeError):  # no operands, or no inputs found for them
            continue
        assert mismatch is None, str(mismatch)
        return
    pytest.fail(f"no {op.name} could be made that runs: it needs a maker in random_ops.py")


@pytest.mark.parametrize(
    ("first", "modes"),
    [
        (0, ("default", "aggressive")),
        *(pytest.param(first, FUSION_MODES, marks=pytest.mark.soak) for first in (0, 4)),
    ],
)
def test_graphs(first: int, modes: Sequence[str]) -> None:
    """Of four seeds, three give a graph that runs."""
    graphs = 0
    for seed in range(first, first + 4):
        module = Graphs(op_classes()).make(seed)
        try:
            mismatch = None if module is None else check(module, modes)
        except GeError:  # no inputs were found for it
            continue
        assert mismatch is None, str(mismatch)
        graphs += module is not None
    assert graphs >= 3


def test_same_seed_same_graph() -> None:
    """Whatever was made before."""
    texts = [op_text(m) for _ in range(2) if (m := Graphs(op_classes()).make(7)) is not None]
    assert len(texts) == 2
    assert texts[0] == texts[1]


def test_plugin_ops() -> None:
    (op,) = set(op_classes(PLUGIN)) - set(op_classes())
    assert op.name == "acme.halve"
    graphs = Graphs((op, AddOp, SubOp))
    modules = [alone(op, 0), *(m for seed in range(3) if (m := graphs.make(seed)) is not None)]
    for module in modules:
        assert (mismatch := check(module, ("default",))) is None, str(mismatch)
    assert sum(count_ops(m)[op.name] for m in modules) > 2


def test_mismatch_is_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that takes + for - is found out, with the one op that shows it."""
    lower = random_graphs.lower

    def broken(module: ModuleOp, options: Options, **given: Any) -> None:
        for op in list(module.walk()):
            if isinstance(op, AddOp) and op.parent is not None:
                other = SubOp.of(op.lhs, op.rhs)
                op.parent.insert_op_before(other, op)
                op.result.replace_all_uses_with(other.result)
                op.detach()
                op.erase()
        lower(module, options, **given)

    monkeypatch.setattr(random_graphs, "lower", broken)
    graphs = Graphs((AddOp, ExpOp, MatmulOp, SoftmaxOp, TransposeOp))
    modules = map(graphs.make, range(9))
    candidates = [m for m in modules if m and sum(isinstance(o, AddOp) for o in m.walk()) > 1]
    candidates.sort(key=lambda m: sum(1 for _ in m.walk()))  # the small ones are cut down sooner
    mismatch = next(found for m in candidates if (found := check(m, ("default",), seconds=60)))
    ops = [op for op in mismatch.module.walk() if isinstance(op, TensorOp) and op.operands]
    assert [type(op) for op in ops] == [AddOp]
    assert "graph.add" in str(mismatch)
