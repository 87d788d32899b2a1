"""Programs that work on the caller's arrays: same numbers, no copies, bad arrays refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from ge.dialects.npu_task.ops import CopyOp
from ge.dialects.support.errors import GeError
from ge.lowering.driver.compiler import load, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.memory import check_plan
from ge.runtime.data.weights import Payload
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session

MODELS = Path(__file__).parents[1] / "models"

TEXT = """
func.func @main(%x: tensor<2x8xf32> {graph.name = "x"})
    -> (tensor<2x8xf32> {graph.name = "y"}, tensor<16xf32> {graph.name = "flat"},
        tensor<2x8xf32> {graph.name = "x_again"}, tensor<2x8xf32> {graph.name = "y_again"},
        tensor<8xf32> {graph.name = "row"}) {
  %0 = graph.exp %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = graph.tanh %0 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %2 = graph.reshape %1 shape [16] : (tensor<2x8xf32>) -> tensor<16xf32>
  %3 = graph.slice %0 starts [1] ends [2] axes [0] : (tensor<2x8xf32>) -> tensor<1x8xf32>
  %4 = graph.reshape %3 shape [8] : (tensor<1x8xf32>) -> tensor<8xf32>
  func.return %0, %2, %x, %0, %4
    : tensor<2x8xf32>, tensor<16xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<8xf32>
}
"""


def compiled(path: Path, share_io: bool) -> tuple[ModuleOp, Payload]:
    loaded = load(str(path))
    lower(loaded.module, Options(share_io=share_io))
    assert check_plan(loaded.module) == []
    return loaded.module, loaded.payload


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.mlir"
    path.write_text(TEXT)
    return path


def same(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert np.array_equal(a[name], b[name], equal_nan=True), name


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("llama_7b_decode.fp16.tiny.onnx", marks=pytest.mark.soak),
        "loop_rnn.tiny.onnx",
        "",
    ],
)
def test_same_numbers(name: str, text: Path):
    path = MODELS / name if name else text
    plain = compiled(path, share_io=False)
    shared = compiled(path, share_io=True)
    inputs = random_inputs(plain[0])
    want = Session(*plain).run(inputs)
    same(want, Session(*shared, poison=True).run(inputs))
    outputs = {n: np.empty_like(y) for n, y in want.items()}
    for program in (plain, shared):
        got = Session(*program, poison=True).run(inputs, outputs)
        same(want, got)
        assert all(got[n] is outputs[n] for n in outputs)


def test_outputs_are_computed_where_they_belong(text: Path):
    """Nothing is copied but what is no buffer of its own: the input, and part of another output."""
    module, payload = compiled(text, share_io=True)
    assert sum(isinstance(op, CopyOp) for op in module.walk()) == 2
    session = Session(module, payload)
    x = np.ones((2, 8), np.float32)
    first, second = session.run({"x": x}), session.run({"x": 2 * x})
    assert not np.array_equal(first["y"], second["y"])
    y = np.zeros((2, 8), np.float32)
    assert session.run({"x": x}, {"y": y})["y"] is y
    assert np.array_equal(y, first["y"])


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"z": np.empty(3, np.float32)}, "there is no output 'z'"),
        ({"y": np.empty((2, 8), np.float64)}, "output 'y' is float64"),
        ({"y": np.empty((8, 2), np.float32)}, "output 'y' has shape"),
        ({"y": np.empty((8, 2), np.float32).T}, "not contiguous"),
    ],
)
def test_wrong_arrays_are_refused(text: Path, outputs: dict[str, Any], message: str):
    session = Session(*compiled(text, share_io=True))
    with pytest.raises(GeError, match=message):
        session.run({"x": np.ones((2, 8), np.float32)}, outputs)


def test_shared_memory_is_refused(text: Path):
    session = Session(*compiled(text, share_io=True))
    x = np.ones((2, 8), np.float32)
    with pytest.raises(GeError, match="shares memory"):
        session.run({"x": x}, {"y": x})
