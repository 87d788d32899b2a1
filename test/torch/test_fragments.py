"""Pieces of code that no program can be made of, or for which there is nothing to compute: through
`torch.compile(backend="ge")` they do what they do without it."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import ge

X = torch.arange(6.0).reshape(2, 3) - 2.5
COMPLEX = torch.tensor([1 + 2j, -3j])
LAYER = nn.Linear(3, 2).requires_grad_(False)


def asserts(x: torch.Tensor) -> torch.Tensor:
    assert (x[:, 0] < 1e9).all()
    torch._dynamo.graph_break()
    return x + 1


def writes_to_a_view(x: torch.Tensor) -> torch.Tensor:
    y = x.view(-1)
    torch._dynamo.graph_break()
    return y.add_(1)


def sets(x: torch.Tensor) -> torch.Tensor:
    x[0, 0] = 5
    return x


def doubles(x: torch.Tensor) -> None:
    x.mul_(2)


# Nothing of it is computed by a program, and nobody is warned
NOTHING: dict[str, tuple[Any, ...]] = {
    "an assertion": (asserts, X),
    "no tensor": (lambda x: None, X),
    "the input": (lambda x: (x, [x]), X),
    "a cast to the same type": (lambda x: x.to(torch.float32), X),
    "a view": (lambda x: x.view(-1), X),
    "views": (lambda x: (x.t(), x[:0], x.unbind(), x.expand(4, 2, 3), x.detach()), X),
    "a view that is written": (writes_to_a_view, X),
    "a view of a weight": (lambda x: (LAYER.weight.t(), LAYER.bias), X),
    "a view of complex numbers": (torch.view_as_real, COMPLEX),
    "a number": (lambda x: x.size(0) * 2 + 1, X),
    "a shape": (lambda x: (x.shape, x.numel(), "a", 2.5), X),
}
# A program computes it
COMPUTED: dict[str, tuple[Any, ...]] = {
    "views and more": (lambda x: (x.view(-1), x * 2, x, x.shape[1] + 1), X),
    "a weight and more": (lambda x: (LAYER.weight, LAYER(x)), X),
    "nothing but constants": (lambda: (torch.arange(4) * 2, torch.zeros(2, 2)),),
    "an empty tensor": (lambda x: x[:0] * 2, X),
    "one tensor twice": (lambda x: (lambda y: (y, [y], y))(x * 2), X),
    "complex numbers inside": (lambda x: torch.fft.irfft(torch.fft.rfft(x)), X),
}
# Eager PyTorch does it, after one warning
LEFT: dict[str, tuple[Any, ...]] = {
    "a write to an input": (lambda x: x.add_(1) * 2, X),
    "complex results": (lambda x: torch.fft.fft(x), X),
    "complex inputs": (lambda x: x * 2, COMPLEX),
    "an op without translation": (lambda x: torch.linalg.svdvals(x), X),
    "a quantized result": (lambda x: torch.fft.fft(x).abs() + torch.linalg.svdvals(x)[0], X),
}
# Dynamo takes some of it, or nothing
EITHER: dict[str, tuple[Any, ...]] = {
    "an item that is set": (sets, X),
    "a write without a result": (doubles, X),
    "a sparse input": (lambda x: torch.sparse.mm(x, torch.ones(3, 2)), torch.eye(3).to_sparse()),
    "sizes that follow from data": (lambda x: x[x > 0], X),
    "a number of data": (lambda x: (x.sum().item() + 1) * x, X),
}


def own(args: Any) -> Any:
    return [copy.deepcopy(a) for a in args]


def check(dynamic: bool, function: Callable[..., Any], *args: Any) -> list[str]:
    """What ge warns of. Results, their types and what becomes of the inputs are as in eager."""
    compiled = torch.compile(function, backend="ge", dynamic=dynamic)
    with torch.no_grad(), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            before, after = own(args), own(args)
            want, got = function(*before), compiled(*after)
            for a, b in zip(*map(pytree.tree_leaves, ((got, after), (want, before))), strict=True):
                assert type(a) is type(b)
                if isinstance(a, torch.Tensor):
                    torch.testing.assert_close(a, b)
                else:
                    assert a == b
    return [str(w.message) for w in seen if "ge leaves" in str(w.message)]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", NOTHING)
def test_fragments_without_work(name: str, dynamic: bool):
    assert check(dynamic, *NOTHING[name]) == []


@pytest.mark.parametrize("name", COMPUTED)
def test_fragments_that_are_computed(name: str):
    assert check(False, *COMPUTED[name]) == []


@pytest.mark.parametrize("name", LEFT)
def test_fragments_that_are_left_to_pytorch(name: str):
    (warning,) = check(False, *LEFT[name])
    assert "to PyTorch: " in warning
    function, *args = LEFT[name]
    with torch.no_grad(), pytest.raises(ge.GeError):
        ge.torch.compile(function, tuple(own(args)))


@pytest.mark.parametrize("name", EITHER)
def test_fragments_of_which_dynamo_takes_a_part(name: str):
    assert len(check(False, *EITHER[name])) <= 1


def test_an_internal_error_is_none_of_the_users(monkeypatch: pytest.MonkeyPatch):
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError("a slip")

    monkeypatch.setattr("ge.lowering.torch.backend.translate", broken)
    (warning,) = check(False, lambda x: x * 2, X)
    assert "ZeroDivisionError: a slip" in warning
