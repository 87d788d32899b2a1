"""`ge.torch.compile`, and inputs of all kinds."""

from typing import Any

import pytest
import torch
from models import difference
from torch import nn

import ge


def ahead(model: Any, *args: Any, **how: Any) -> Any:
    with torch.no_grad():
        return ge.torch.compile(model, args, **how)


def same(model: Any, compiled: Any, *args: Any, **kwargs: Any) -> None:
    with torch.no_grad():
        assert difference(compiled(*args, **kwargs), model(*args, **kwargs)) < 1e-5


def test_dims_have_names_and_ranges():
    net = nn.Linear(16, 300)
    batch = torch.export.Dim("batch", min=1, max=8)
    compiled = ahead(net, torch.randn(4, 16), dynamic_shapes={"input": {0: batch}})
    text = str(compiled.program.module)
    assert 'graph.dims = ["batch", ""]' in text
    assert compiled.program.compilation.unknown["at_most"]["dims"] == {"batch": 8}
    for size in (1, 3, 8):
        same(net, compiled, torch.randn(size, 16))
    with torch.no_grad(), pytest.raises(ge.GeError, match=r"batch|1\.\.8"):
        compiled(torch.randn(9, 16))


def test_parameters_are_shared():
    net = nn.Linear(64, 64)
    compiled = ahead(net, torch.randn(4, 64))
    payload: Any = compiled.program.payload
    assert payload["weight"].ctypes.data == net.weight.data_ptr()
    with torch.no_grad():
        net.weight.add_(1)
        net.bias.copy_(torch.randn(64))
    same(net, compiled, torch.randn(4, 64))


def test_tied_and_constant_tensors():
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(40, 64)
            self.head = nn.Linear(64, 40, bias=False)
            self.head.weight = self.embed.weight
            self.plain = torch.randn(64)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.embed(ids) + self.plain * torch.tensor(2.0))

    net = Tied()
    ids = torch.randint(0, 40, (2, 5))
    compiled = ahead(net, ids)
    same(net, compiled, ids)
    payload: Any = compiled.program.payload
    assert {a.ctypes.data for a in payload.values()} == {net.embed.weight.data_ptr()}


def pick(
    x: torch.Tensor, *more: torch.Tensor, scale: float = 2.0, flag: bool = False, **named: Any
) -> Any:
    total = x * scale
    for tensor in (*more, *(v for v in named.values() if v is not None)):
        total = total + tensor
    return (total if flag else -total), {"first": total, "none": None}


def test_arguments_of_all_kinds():
    x, y = torch.randn(3, 4), torch.randn(4)
    with torch.no_grad():
        compiled = ge.torch.compile(pick, {"x": x, "flag": True, "bias": y, "absent": None})
    same(pick, compiled, x=x, flag=True, bias=y, absent=None)
    same(pick, compiled, x, absent=None, bias=y, flag=True)  # in another order
    for wrong, what in (
        ({"flag": False, "bias": y, "absent": None}, "the example was True"),
        ({"flag": True, "bias": y, "absent": y}, "the example was None"),
        ({"flag": True, "bias": y}, "the arguments are"),
    ):
        with torch.no_grad(), pytest.raises(ge.GeError, match=what):
            compiled(x, **wrong)
    compiled = ahead(pick, x, y, y)
    same(pick, compiled, x, y, y)
    with torch.no_grad(), pytest.raises(ge.GeError, match="does not take these arguments"):
        ge.torch.compile(nn.Linear(2, 2), {"y": x})


def test_wrong_shapes_and_types_are_refused():
    compiled = ahead(nn.Linear(4, 4), torch.randn(3, 4))
    for wrong in (torch.randn(2, 4), torch.randn(3, 4, dtype=torch.float64)):
        with torch.no_grad(), pytest.raises(ge.GeError, match="input"):
            compiled(wrong)


def test_strides_ranks_and_types():
    def forward(x: torch.Tensor, scalar: torch.Tensor, mask: torch.Tensor) -> Any:
        return torch.where(mask, x * scalar, x).sum(), x.T, x.argmax(1), x > 0, x.half()

    x, scalar = torch.randn(8, 6).T[::2], torch.tensor(3.0)
    mask = torch.rand(3, 8) > 0.5
    assert not x.is_contiguous()
    compiled = ahead(forward, x, scalar, mask)
    same(forward, compiled, x, scalar, mask)
    jit = torch.compile(forward, backend="ge")
    same(forward, jit, x, scalar, mask)
    same(forward, jit, x, scalar, torch.randn(3, 1).expand(3, 8) > 0)


def test_outputs_are_new_tensors_but_for_inputs():
    class Views(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 4))

        def forward(self, x: torch.Tensor) -> Any:
            return x, x.detach(), x.view(-1), self.weight, x + 1, x.contiguous()

    net, x = Views(), torch.randn(3, 4)
    for compiled in (ahead(net, x), torch.compile(net, backend="ge")):
        same(net, compiled, x)
        with torch.no_grad():
            got = compiled(x)
            assert got[0] is x
            got[4].zero_()
            same(net, compiled, x)


def test_what_is_elsewhere_is_refused():
    net = nn.Linear(4, 4)
    with torch.no_grad(), pytest.raises(ge.GeError, match=r"on the device meta.*\.cpu\(\)"):
        ge.torch.compile(net, torch.randn(3, 4, device="meta"))
    compiled = ahead(net, torch.randn(3, 4))
    x = torch.randn(3, 4, device="meta")
    with torch.no_grad(), pytest.raises(ge.GeError, match="on the device meta"):
        compiled(x)
    left = torch.compile(nn.Linear(4, 4, device="meta"), backend="ge")
    with torch.no_grad(), pytest.warns(UserWarning, match="to PyTorch: .*on the device meta"):
        assert left(x).device == x.device
    with torch.no_grad(), pytest.raises(ge.GeError, match="sparse_coo"):
        compiled(torch.randn(3, 4).to_sparse())


def test_training_is_refused():
    net, x = nn.Linear(4, 4), torch.randn(3, 4)
    compiled = ahead(net, x)
    with pytest.raises(ge.GeError, match="asks for gradients"):
        compiled(x)
    net.requires_grad_(False)
    assert difference(compiled(x), net(x)) < 1e-6


def test_an_op_that_onnx_has_and_ge_has_not_names_its_line():
    def forward(x: torch.Tensor) -> torch.Tensor:
        values, _ = torch.linalg.slogdet(x)
        return values

    with torch.no_grad(), pytest.raises(ge.GeError) as e:
        ge.torch.compile(forward, torch.randn(2, 3, 3))
    assert "values, _ = torch.linalg.slogdet(x)" in str(e.value)


def test_a_branch_in_the_graph():
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    x = torch.ones(3)
    for compiled in (ahead(forward, x), torch.compile(forward, backend="ge")):
        same(forward, compiled, x)
        same(forward, compiled, -x)


def test_a_state_that_is_written_is_named():
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count += x.sum(0)
            return x * self.count

    with torch.no_grad(), pytest.raises(ge.GeError, match="writes to 'count'"):
        ge.torch.compile(Counter(), torch.randn(3, 4))
