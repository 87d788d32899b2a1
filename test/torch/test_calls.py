"""The calls of the table agree with eager, or are refused by a message that names the op."""

import ast
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from calls import CALLS, REFUSED, TENSORS
from torch.utils import _pytree as pytree

import ge

TOGETHER = 20  # calls that one program makes, for tracing takes most of the time
LINES = [line for text in CALLS.values() for line in text.split("\n") if line]


def function(calls: Sequence[str]) -> tuple[Callable[..., Any], dict[str, torch.Tensor]]:
    """A function that returns what calls return, of the tensors that they name."""
    nodes = (node for call in calls for node in ast.walk(ast.parse(call)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)} & TENSORS.keys()
    given = {name: TENSORS[name].clone() for name in TENSORS if name in names}
    text = f"lambda {', '.join(given)}: [{', '.join(f'({call})' for call in calls)}]"
    return eval(text, {"torch": torch, "F": F}), given


def difference(got: Any, want: Any) -> str:
    """What is not the same of two leaves; empty if they agree."""
    if not isinstance(want, torch.Tensor):
        return "" if got == want else f"{got} for {want}"
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype} {[*got.shape]} for {want.dtype} {[*want.shape]}"
    if not want.dtype.is_floating_point:
        return "" if torch.equal(got, want) else f"{got} for {want}"
    finite = want[want.isfinite()]
    largest = max(float(finite.abs().max()), 1.0) if finite.numel() else 1.0
    unit = {torch.float16: 2e-3, torch.bfloat16: 1e-2}.get(want.dtype, 2e-5)
    close = torch.allclose(got, want, rtol=5 * unit, atol=unit * largest, equal_nan=True)
    return "" if close else f"{got} for {want}"


def wrong(calls: Sequence[str]) -> list[str]:
    call, given = function(calls)
    with torch.no_grad():
        wants = call(**given)
        gots = ge.torch.compile(call, given)(**given)
    found: list[str] = []
    for text, got, want in zip(calls, gots, wants, strict=True):
        leaves, spec = pytree.tree_flatten(want)
        assert pytree.tree_structure(got) == spec, text
        found += [
            f"{text}: {how}"
            for pair in zip(pytree.tree_leaves(got), leaves, strict=True)
            if (how := difference(*pair))
        ]
    return found


def parts(subject: str) -> list[list[str]]:
    calls = [line for line in CALLS[subject].split("\n") if line and line not in REFUSED]
    return [calls[i : i + TOGETHER] for i in range(0, len(calls), TOGETHER)]


@pytest.mark.parametrize(
    ("subject", "part"), [(s, i) for s in CALLS for i in range(len(parts(s)))], ids=str
)
def test_calls_agree(subject: str, part: int):
    calls = parts(subject)[part]
    try:
        found = wrong(calls)
    except Exception:  # which of them?
        if len(calls) == 1:
            raise
        found = []
        for call in calls:
            try:
                found += wrong([call])
            except Exception as e:
                found.append(f"{call}: {e}")
    assert found == []


@pytest.mark.parametrize("call", REFUSED)
def test_calls_that_are_refused_name_the_op(call: str):
    assert call in LINES
    one, given = function([call])
    with torch.no_grad(), pytest.raises(ge.GeError) as e:
        ge.torch.compile(one, given)
    assert REFUSED[call] in e.value.message
