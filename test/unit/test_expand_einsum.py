"""Einstein sums as matmuls: the same numbers, and no einsum is left."""

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, i64

sys.path.insert(0, str(Path(__file__).parent))
from writing import Expr, Tensor, agree, normal, op_names, run, written

from ge.dialects.graph.linear import EinsumOp
from ge.dialects.support.types import DYNAMIC
from ge.lowering.driver.compiler import context
from ge.transforms.graph.expand_einsum import ExpandEinsumPass

SIZES = {"a": 2, "b": 3, "c": 4, "d": 1, "e": 5}


def shape(labels: str) -> tuple[int, ...]:
    return tuple(SIZES[n] for n in labels)


def einsum(equation: str, *shapes: tuple[int, ...]) -> ModuleOp:
    def formula(*values: Expr) -> Expr:
        return values[0].op(EinsumOp, list(values), equation=equation)

    return written(formula, *(Tensor(*s) for s in shapes))


def check(module: ModuleOp, *shapes: tuple[int, ...]) -> list[str]:
    arrays = [normal(*s, seed=i) for i, s in enumerate(shapes)]
    before = run(module, *arrays)
    ExpandEinsumPass().apply(context(), module)
    module.verify()
    agree(before, run(module, *arrays), 1e-5)
    return op_names(module)


@settings(max_examples=2 * settings().max_examples, derandomize=True)
@given(st.data())
def test_any_equation(data: st.DataObject) -> None:
    names = st.lists(st.sampled_from("abcde"), unique=True, max_size=4)
    terms = ["".join(t) for t in data.draw(st.lists(names, min_size=1, max_size=2))]
    known = sorted(set("".join(terms)))
    target = "".join(data.draw(st.lists(st.sampled_from(known), unique=True))) if known else ""
    shapes = [shape(t) for t in terms]
    assert "einsum" not in check(einsum(f"{','.join(terms)}->{target}", *shapes), *shapes)


@pytest.mark.parametrize(
    ("equation", "expected"),
    [
        ("abc,ce->abe", ["matmul"]),
        ("abc,cde->abde", ["reshape", "matmul", "reshape"]),
        ("abcd,cde->abe", ["reshape", "reshape", "matmul"]),
        ("abc,abe->bce", ["transpose", "transpose", "matmul"]),
        ("abc->cb", ["reduce", "transpose"]),
        ("ab,b->ab", ["unsqueeze", "mul"]),
    ],
)
def test_form(equation: str, expected: list[str]) -> None:
    shapes = [shape(t) for t in equation.partition("->")[0].split(",")]
    assert check(einsum(equation, *shapes), *shapes) == expected


def test_dynamic_batch_and_tokens() -> None:
    module = einsum("abc,cde->abde", (DYNAMIC, DYNAMIC, 4), (4, 1, 5))
    assert "einsum" not in check(module, (2, 3, 4), (4, 1, 5))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("aab->ab", [(2, 2, 3)]),
        ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 5)]),
        ("ab,bc->ac", [(2, 1), (3, 4)]),
    ],
)
def test_kept(equation: str, shapes: list[tuple[int, ...]]) -> None:
    """A diagonal, three operands, a label of two sizes."""
    module = einsum(equation, *shapes)
    ExpandEinsumPass().apply(context(), module)
    assert op_names(module) == ["einsum"]


def test_integers_stay() -> None:
    module = written(lambda x: x.op(EinsumOp, [x, x], equation="a,a->"), Tensor(6, element=i64))
    ExpandEinsumPass().apply(context(), module)
    assert op_names(module) == ["einsum"]
