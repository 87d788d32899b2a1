"""`torch.compile(model, backend="ge")`."""

import copy
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from models import difference
from torch import nn

import ge
from ge.lowering.torch.compiled import CompiledGraph, Loaded


class Net(nn.Module):
    def __init__(self, size: int = 32) -> None:
        super().__init__()
        self.fc = nn.Linear(size, size)
        self.norm = nn.LayerNorm(size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.fc(x)).relu()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Loaded]:
    """The programs that are compiled."""
    found: list[Loaded] = []
    compiled = CompiledGraph.compiled

    def noted(self: CompiledGraph, weights: Any) -> Any:
        found.append(compiled(self, weights))
        return found[-1]

    monkeypatch.setattr(CompiledGraph, "compiled", noted)
    return found


def agrees(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Compile, run twice, compare with eager; returns what is compiled."""
    compiled = torch.compile(model, backend="ge")
    with torch.no_grad():
        want = model(*args, **kwargs)
        for _ in range(2):
            assert difference(compiled(*args, **kwargs), want) < 1e-5
    return compiled


def test_a_graph_is_compiled_once(made: list[Loaded]):
    compiled = agrees(Net().eval(), torch.randn(4, 32))
    assert len(made) == 1
    with torch.inference_mode():  # dynamo traces anew, for another mode
        compiled(torch.randn(4, 32))
        compiled(torch.randn(4, 32))
    assert len(made) == 2


def test_options_are_those_of_ge_compile(made: list[Loaded]):
    options = {"target": "310p3", "fusion": "off"}
    with torch.no_grad():
        torch.compile(Net(), backend="ge", options=options)(torch.randn(4, 32))
    (program,) = made
    assert program.compilation.options.target == "310p3"
    assert program.compilation.options.fusion == "off"
    wrong = torch.compile(Net(), backend="ge", options={"fusion": "most"})
    with torch.no_grad(), pytest.raises(Exception, match="fusion"):
        wrong(torch.randn(4, 32))


def test_a_graph_break_falls_back(made: list[Loaded]):
    net, seen = Net().eval(), list[float]()

    def forward(x: torch.Tensor) -> torch.Tensor:
        y = net(x)
        seen.append(y.sum().item())  # a number that Python wants: no graph has it
        print("between")
        return net.fc(y) * 2

    agrees(forward, torch.randn(4, 32))
    assert len(made) >= 2
    assert len(seen) == 3


def test_a_branch_on_data_makes_several_graphs(made: list[Loaded]):
    net = Net().eval()

    def forward(x: torch.Tensor) -> torch.Tensor:
        y = net(x)
        return net.fc(y) if y.sum() > 0 else y - 1

    compiled = agrees(forward, torch.randn(4, 32))
    before = len(made)
    with torch.no_grad():
        net.norm.bias.fill_(-10.0)
        compiled(torch.randn(4, 32))
    assert len(made) > before


def test_layers_that_share_a_graph_have_their_own_weights(made: list[Loaded]):
    """One graph, called with the parameters of one layer after the other."""
    layers = nn.ModuleList(Net() for _ in range(3)).eval()
    x = torch.randn(4, 32)
    with torch.no_grad():
        want = x
        for layer in layers:
            want = layer(want)
        for layer in layers:
            layer.compile(backend="ge")
        for _ in range(2):
            got = x
            for layer in layers:
                got = layer(got)
            assert difference(got, want) < 1e-5
    assert len(made) == 3


def test_parameters_are_shared_and_changes_are_seen(made: list[Loaded]):
    net = Net(64).eval()
    compiled = agrees(net, torch.randn(4, 64))
    payload = made[0].payload
    assert payload["fc.weight"].ctypes.data == net.fc.weight.data_ptr()
    assert not payload["fc.weight"].flags.writeable
    x = torch.randn(4, 64)
    with torch.no_grad():
        net.fc.weight.mul_(-1.5)
        assert difference(compiled(x), net(x)) < 1e-5
        net.load_state_dict(Net(64).state_dict())
        assert difference(compiled(x), net(x)) < 1e-5
        net.fc.weight = nn.Parameter(torch.randn(64, 64))
        assert difference(compiled(x), net(x)) < 1e-5


def test_sizes_become_symbols(made: list[Loaded]):
    net = Net().eval()
    compiled = torch.compile(net, backend="ge")
    with torch.no_grad():
        for batch in (4, 5, 6, 9):  # dynamo takes the second size for one of many
            x = torch.randn(batch, 32)
            assert difference(compiled(x), net(x)) < 1e-5
    assert len(made) == 2


def test_numbers_and_sizes_are_inputs_and_outputs():
    def forward(x: torch.Tensor, n: int) -> dict[str, Any]:
        y = x.reshape(-1, n) + x.shape[0]
        return {"y": y, "rows": y.shape[0], "none": None, "text": "a", "x": x, "same": (y, [y])}

    compiled = torch.compile(forward, backend="ge", dynamic=True)
    with torch.no_grad():
        for rows, n in ((6, 4), (9, 3), (8, 6)):
            x = torch.randn(rows, 12)
            got, want = compiled(x, n), forward(x, n)
            assert difference(got, want) < 1e-6
            assert {k: got[k] for k in ("rows", "none", "text")} == {
                k: want[k] for k in ("rows", "none", "text")
            }
            assert got["x"] is x
            assert got["same"][0] is got["y"]


def test_floats_are_part_of_what_is_compiled(made: list[Loaded]):
    """Those that dynamo takes for dynamic, too."""

    def forward(x: torch.Tensor, scale: float) -> torch.Tensor:
        return torch.nn.functional.leaky_relu(x, scale) / scale

    compiled = torch.compile(forward, backend="ge", dynamic=True)
    x = torch.randn(3, 4)
    with torch.no_grad():
        for scale in (0.5, 0.25, 0.5):
            assert difference(compiled(x, scale), forward(x, scale)) < 1e-6
    assert len(made) == 2


def test_sizes_that_are_the_same_share_a_symbol(made: list[Loaded]):
    def forward(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x + y, y]) * 2

    compiled = torch.compile(forward, backend="ge", dynamic=True)
    with torch.no_grad():
        for rows in (3, 5):
            x, y = torch.randn(2, rows, 4)
            assert difference(compiled(x, y), forward(x, y)) < 1e-6
    (program,) = made
    names = set(re.findall(r'graph\.dims = \["(\w+)"', str(program.module)))
    assert len(names) == 1


@pytest.mark.parametrize("way", ["parameters", "inputs"])
def test_training_is_left_to_pytorch(way: str):
    net, x = Net(), torch.randn(4, 32)
    compiled = torch.compile(net, backend="ge")
    if way == "inputs":
        net.requires_grad_(False)
        x.requires_grad_(True)
    with pytest.warns(UserWarning, match=r"asks for gradients.*torch\.no_grad"):
        compiled(x).sum().backward()
    grown = x if way == "inputs" else net.fc.weight
    assert grown.grad is not None
    with torch.no_grad():
        assert difference(compiled(x), net(x)) < 1e-5


def test_what_is_written_is_left_to_pytorch():
    norm = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
    same = copy.deepcopy(norm)
    x = torch.randn(2, 3, 4, 4)
    with torch.no_grad(), pytest.warns(UserWarning, match=r"writes to .*'1.running_mean'.*eval"):
        got = torch.compile(norm, backend="ge")(x)
    with torch.no_grad():
        assert difference(got, same(x)) < 1e-5
    assert torch.equal(norm[1].running_mean, same[1].running_mean)
    with torch.no_grad(), pytest.raises(ge.GeError, match=r"writes to .*'running_mean'.*eval"):
        ge.torch.compile(norm[1], x.expand(2, 3, 4, 4)[:, [0, 0, 0, 0]])


def strange_op() -> Any:
    @torch.library.custom_op("ge_test::strange", mutates_args=())
    def strange(x: torch.Tensor) -> torch.Tensor:
        return x.flip(0)

    strange.register_fake(torch.empty_like)
    return strange


def test_an_op_without_translation_is_named_with_its_line():
    strange = strange_op()

    def forward(x: torch.Tensor) -> torch.Tensor:
        return strange(x.relu()) + 1

    x = torch.randn(3, 2)
    with torch.no_grad(), pytest.raises(ge.GeError) as e:
        ge.torch.compile(forward, x)
    assert "ge_test.strange" in e.value.message
    assert "test_backend.py" in e.value.where
    assert "return strange(x.relu()) + 1" in e.value.where
    assert "custom_translation_table" in e.value.hint
    compiled = torch.compile(forward, backend="ge")
    why = r"ge leaves .*return strange\(x.relu\(\)\) \+ 1.*ge_test.strange"
    with torch.no_grad(), pytest.warns(UserWarning, match=why):
        assert torch.equal(compiled(x), forward(x))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(compiled(x), forward(x))


def test_a_translation_of_an_own_op():
    from onnxscript import opset18

    @torch.library.custom_op("ge_test::shifted", mutates_args=())
    def shifted(x: torch.Tensor) -> torch.Tensor:
        return x + x.abs()

    shifted.register_fake(torch.empty_like)
    table = {
        torch.ops.ge_test.shifted.default: lambda x: opset18.Add(x, opset18.Abs(x)),
    }

    def forward(x: torch.Tensor) -> torch.Tensor:
        return shifted(x) * 2

    x = torch.randn(3, 2)
    with torch.no_grad():
        options = {"custom_translation_table": table}
        got = torch.compile(forward, backend="ge", options=options)(x)
    assert difference(got, forward(x)) < 1e-6
