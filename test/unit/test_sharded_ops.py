"""Ops on parts: their numbers are those of the whole, and no more is sent than they need."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, load, lower
from ge.lowering.driver.devices import device_figures
from ge.lowering.pipeline.options import Options
from ge.runtime.device.session import Session
from ge.transforms.sharding.partition_spmd import Partition

MODELS = Path(__file__).parents[1] / "models"

MESH = 'graph.mesh @mesh ["tp"=4]'
ROWS, COLUMNS, WHOLE = "[{'tp'}, {}]", "[{}, {'tp'}]", "[{}, {}]"


def tensor(shape: Any, element: str = "f32") -> str:
    return f"tensor<{'x'.join(map(str, [*shape, element]))}>"


def run(body: str, inputs: Mapping[str, tuple[Any, str]], y: str, cut: str) -> int:
    """Return what a device sends; the result %y of a body is the same on 4 devices and on one."""
    found, sent = list[Any](), 0
    for mesh in (True, False):
        own = {n: f", graph.sharding = #graph.sharding<@mesh, {c}>" for n, (_, c) in inputs.items()}
        arguments = ", ".join(
            f"%{n}: {tensor(a.shape, 'i64' if a.dtype == np.int64 else 'f32')} "
            f'{{graph.name = "{n}"{own[n] if mesh else ""}}}'
            for n, (a, _) in inputs.items()
        )
        result = f", graph.sharding = #graph.sharding<@mesh, {cut}>" if mesh else ""
        text = (
            f"{MESH if mesh else ''}\nfunc.func @main({arguments}) -> "
            f'({y} {{graph.name = "y"{result}}}) {{\n{body}\nfunc.return %y : {y}\n}}'
        )
        module = parse_module(context(), SourceText("test.mlir", text.replace("'", '"')))
        lower(module, Options(fusion="conservative"), until="graph")
        feed = {n: a for n, (a, _) in inputs.items()}
        found.append(Session(module, {}, poison=True).run(feed)["y"])
        sent += device_figures(module)["devices"]["sent_bytes"] if mesh else 0
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-5)
    return sent


def numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


IMAGE = "[{}, {}, {'tp'}, {}]"
BATCH = "[{}, {'tp'}, {}]"
CASES: dict[str, tuple[str, dict[str, tuple[Any, str]], str, str, int]] = {
    "copies at the ends": (  # of 32 rows, 12 bytes each, 36 are made: at most 3 from elsewhere
        "%y = graph.pad %x pads [0, 0, 2, 1, 0, 0, 2, 1] mode edge : "
        "(tensor<1x2x32x3xf32>) -> tensor<1x2x36x5xf32>",
        {"x": (numbers(1, 2, 32, 3), IMAGE)}, "tensor<1x2x36x5xf32>", IMAGE, 2 * 3 * 12,
    ),
    "means of neighbors": (
        "%y = graph.resize %x scales [2.0, 2.0] axes [2, 3] mode linear : "
        "(tensor<1x2x32x3xf32>) -> tensor<1x2x64x6xf32>",
        {"x": (numbers(1, 2, 32, 3), IMAGE)}, "tensor<1x2x64x6xf32>", IMAGE, 2 * 2 * 12,
    ),
    "a limit of elements": (
        "%l = graph.constant dense<0.5> : tensor<f32>\n"
        "%y = graph.clamp %x high %l : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>",
        {"x": (numbers(8, 4), ROWS)}, "tensor<8x4xf32>", ROWS, 0,
    ),
    "pieces along a cut axis": (
        "%a, %b = graph.split %x axis 1 sizes [8, 8] : (tensor<2x16xf32>) -> "
        "(tensor<2x8xf32>, tensor<2x8xf32>)\n"
        "%y = graph.mul %a, %b : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>",
        {"x": (numbers(2, 16), COLUMNS)}, "tensor<2x8xf32>", COLUMNS, 64,
    ),
    "elements by indices": (
        "%y = graph.gather_elements %x, %i axis 1 : (tensor<4x32xf32>, tensor<4x1xi64>) -> "
        "tensor<4x1xf32>",
        {"x": (numbers(4, 32), COLUMNS), "i": (np.array([[3], [-1], [17], [8]]), WHOLE)},
        "tensor<4x1xf32>", WHOLE, 24,
    ),
    "a triangle": (
        "%y = graph.tri %x k 1 upper false : (tensor<8x8xf32>) -> tensor<8x8xf32>",
        {"x": (numbers(8, 8), ROWS)}, "tensor<8x8xf32>", ROWS, 0,
    ),
    "a transposed convolution of one row": (  # each row of the result is another part of its steps
        "%y = graph.conv_transpose %x, %w strides [4, 1] : "
        "(tensor<1x2x1x3xf32>, tensor<2x2x4x1xf32>) -> tensor<1x2x4x3xf32>",
        {"x": (numbers(1, 2, 1, 3), "[{}, {}, {}, {}]"),
         "w": (numbers(2, 2, 4, 1), "[{}, {}, {}, {}]")},
        "tensor<1x2x4x3xf32>", IMAGE, 0,
    ),
    "a transposed convolution along rows": (
        "%y = graph.conv_transpose %x, %w strides [2, 1] pads [1, 0, 0, 0] : "
        "(tensor<1x2x8x3xf32>, tensor<2x2x3x1xf32>) -> tensor<1x2x16x3xf32>",
        {"x": (numbers(1, 2, 8, 3), IMAGE), "w": (numbers(2, 2, 3, 1), "[{}, {}, {}, {}]")},
        "tensor<1x2x16x3xf32>", IMAGE, 24,
    ),
    "a convolution along channels": (
        "%y = graph.conv %x, %w bias %b : (tensor<1x8x3x3xf32>, tensor<2x8x2x2xf32>, "
        "tensor<2xf32>) -> tensor<1x2x2x2xf32>",
        {"x": (numbers(1, 8, 3, 3), "[{}, {'tp'}, {}, {}]"),
         "w": (numbers(2, 8, 2, 2), "[{}, {'tp'}, {}, {}]"), "b": (numbers(2), "[{}]")},
        "tensor<1x2x2x2xf32>", "[{}, {}, {}, {}]", 48,
    ),
    "a recurrent layer along its batch": (
        "%s, %h = graph.gru %x, %w, %r : (tensor<3x8x2xf32>, tensor<1x12x2xf32>, "
        "tensor<1x12x4xf32>) -> (tensor<3x1x8x4xf32>, tensor<1x8x4xf32>)\n"
        "%y = graph.neg %h : (tensor<1x8x4xf32>) -> tensor<1x8x4xf32>",
        {"x": (numbers(3, 8, 2), BATCH), "w": (numbers(1, 12, 2), "[{}, {}, {}]"),
         "r": (numbers(1, 12, 4), "[{}, {}, {}]")},
        "tensor<1x8x4xf32>", BATCH, 0,
    ),
    "what is added here and there": (
        "%y = graph.scatter_nd %z, %i, %x reduction add : (tensor<4x2xf32>, tensor<8x1xi64>, "
        "tensor<8x2xf32>) -> tensor<4x2xf32>",
        {"x": (numbers(8, 2), ROWS), "i": (np.arange(8).reshape(8, 1) % 3, ROWS),
         "z": (numbers(4, 2), ROWS)},
        "tensor<4x2xf32>", ROWS, 24,
    ),
    "an image repeated": (
        "%y = graph.resize %x sizes [1, 2, 16, 3] coordinates asymmetric nearest_mode floor : "
        "(tensor<1x2x8x3xf32>) -> tensor<1x2x16x3xf32>",
        {"x": (numbers(1, 2, 8, 3), IMAGE)}, "tensor<1x2x16x3xf32>", IMAGE, 0,
    ),
    "attention over keys that are cut": (
        "%y = graph.attention %q, %k, %k : (tensor<1x2x1x4xf32>, tensor<1x2x16x4xf32>, "
        "tensor<1x2x16x4xf32>) -> tensor<1x2x1x4xf32>",
        {"q": (numbers(1, 2, 1, 4), "[{}, {}, {}, {}]"), "k": (numbers(1, 2, 16, 4), IMAGE)},
        "tensor<1x2x1x4xf32>", "[{}, {}, {}, {}]", 84,
    ),
    "products of heads": (
        "%s = graph.matmul %q, %k transpose_rhs 1 : (tensor<1x4x8x4xf32>, tensor<1x4x8x4xf32>) "
        "-> tensor<1x4x8x8xf32>\n"
        "%y = graph.matmul %s, %v : (tensor<1x4x8x8xf32>, tensor<1x4x8x4xf32>) -> "
        "tensor<1x4x8x4xf32>",
        {n: (numbers(1, 4, 8, 4), IMAGE) for n in "qkv"}, "tensor<1x4x8x4xf32>", IMAGE, 384,
    ),
    "padding along other dimensions": (
        "%y = graph.pad %x pads [0, 2, 0, 1] mode reflect : (tensor<8x4xf32>) -> tensor<8x7xf32>",
        {"x": (numbers(8, 4), ROWS)}, "tensor<8x7xf32>", ROWS, 0,
    ),
    "a product of what a loop carries": (  # all 8 columns count, of which each device has 2
        "%w = graph.constant dense<0.5> : tensor<8x8xf32>\n"
        "%v = graph.loop (%i, %go) trip %n : tensor<i64> carry (%c = %x : tensor<4x8xf32>) -> "
        "(tensor<4x8xf32>) {\n"
        "%t = graph.tanh %c : (tensor<4x8xf32>) -> tensor<4x8xf32>\n"
        "graph.yield %go, %t : tensor<i1>, tensor<4x8xf32>\n}\n"
        "%m = graph.matmul %v, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>\n"
        "%y = graph.relu %m : (tensor<4x8xf32>) -> tensor<4x8xf32>",
        {"x": (numbers(4, 8), COLUMNS), "n": (np.array(2), "[]")}, "tensor<4x8xf32>", COLUMNS, 96,
    ),
    "what follows what a loop carries": (
        "%v = graph.loop (%i, %go) trip %n : tensor<i64> carry (%c = %x : tensor<8x4xf32>) -> "
        "(tensor<8x4xf32>) {\n"
        "%t = graph.tanh %c : (tensor<8x4xf32>) -> tensor<8x4xf32>\n"
        "graph.yield %go, %t : tensor<i1>, tensor<8x4xf32>\n}\n"
        "%s = graph.slice %v starts [3] ends [-100] axes [0] steps [-1] : "
        "(tensor<8x4xf32>) -> tensor<4x4xf32>\n"
        "%y = graph.concat %v, %s axis 0 : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<12x4xf32>",
        {"x": (numbers(8, 4), ROWS), "n": (np.array(2), "[]")}, "tensor<12x4xf32>", ROWS, 96,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_parts_are_parts_of_the_whole(case: str) -> None:
    body, inputs, y, cut, most = CASES[case]
    assert run(body, inputs, y, cut) <= most


def test_what_equal_values_are_cut_from_is_cut_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers use the same rotary tables, each by reshapes of its own (62 parts, not merged)."""
    taken = list[Any]()
    part = Partition.part
    monkeypatch.setattr(Partition, "part", lambda self, *args: taken.append(1) or part(self, *args))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    module = load(str(MODELS / "llama_7b_prefill.structure.onnx")).module
    lower(module, Options(mesh="dp=2,tp=4", shard="auto"), until="graph")
    assert 0 < len(taken) < 16
