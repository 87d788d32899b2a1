"""Session: inputs and outputs, every level, weights, poison."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from ge.dialects.npu_task.ops import SlotOp
from ge.dialects.support.errors import GeError
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.options import Options
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session

NETWORK = """
func.func @main(%x: tensor<4x16xf32> {graph.name = "x"})
    -> (tensor<4x16xf32> {graph.name = "y"}, tensor<16x4xf32> {graph.name = "t"}) {
  %w = graph.constant #graph.weight<"w"> : tensor<16x16xf32>
  %wt = graph.transpose %w permutation [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<16xf32>
  %0 = graph.matmul %x, %wt : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  %1 = graph.add %0, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  %2 = graph.relu %1 : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %3 = graph.matmul %2, %w : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  %4 = graph.add %3, %1 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %5 = graph.tanh %4 : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %6 = graph.add %5, %x : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %7 = graph.transpose %6 permutation [1, 0] : (tensor<4x16xf32>) -> tensor<16x4xf32>
  func.return %6, %7 : tensor<4x16xf32>, tensor<16x4xf32>
}
"""


def parse(text: str) -> ModuleOp:
    return parse_module(context(), SourceText("test.mlir", text))


def lowered(text: str, level: str = "program") -> ModuleOp:
    module = parse(text)
    if level != "graph":
        lower(module, Options(), until=level)
    return module


@pytest.fixture
def payload() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {
        "w": rng.standard_normal((16, 16), np.float32),
        "b": rng.standard_normal(16, np.float32),
    }


@pytest.fixture
def x() -> Any:
    return np.random.default_rng(2).standard_normal((4, 16), np.float32)


def expected(x: Any, payload: dict[str, Any]) -> Any:
    h = x @ payload["w"].T + payload["b"]
    return np.tanh(np.maximum(h, 0) @ payload["w"] + h) + x


@pytest.mark.parametrize("level", Level)
def test_every_level_gives_the_same_numbers(level: str, payload: dict[str, Any], x: Any) -> None:
    session = Session(lowered(NETWORK, level), payload, poison=True)
    for _ in range(2):
        outputs = session.run({"x": x})
        np.testing.assert_allclose(outputs["y"], expected(x, payload), atol=1e-5)
        np.testing.assert_array_equal(outputs["t"], outputs["y"].T)


@pytest.mark.parametrize("level", Level)
def test_outputs_and_inputs_are_the_callers(level: str, payload: dict[str, Any], x: Any) -> None:
    """Writing to what a run returned changes neither the input, the other outputs, nor a run."""
    session = Session(lowered(NETWORK, level), payload)
    before = x.copy()
    first = session.run({"x": x})
    kept = first["t"].copy()
    first["y"][...] = 0
    np.testing.assert_array_equal(first["t"], kept)
    second = session.run({"x": x})
    np.testing.assert_array_equal(second["t"], kept)
    np.testing.assert_array_equal(first["y"], 0)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("level", Level)
def test_an_input_that_is_an_output_is_copied(level: str) -> None:
    text = """
    func.func @main(%x: tensor<2xf32> {graph.name = "x"}) -> (tensor<2xf32> {graph.name = "y"}) {
      func.return %x : tensor<2xf32>
    }
    """
    x = np.ones(2, np.float32)
    y = Session(lowered(text, level)).run({"x": x})["y"]
    y[0] = 5
    assert x[0] == 1


def slots(module: ModuleOp) -> list[SlotOp]:
    arena = [op for op in module.walk() if isinstance(op, SlotOp) and op.segment.data == "arena"]
    assert len(arena) > 1
    return arena


def test_a_wrong_plan_gives_wrong_numbers(payload: dict[str, Any], x: Any) -> None:
    """Whichever two slots are moved onto each other, some plan of these must show."""
    wrong = 0
    for i in range(len(slots(lowered(NETWORK)))):
        module = lowered(NETWORK)
        moved = slots(module)[i]
        other = slots(module)[i - 1]
        moved.properties["offset"] = IntegerAttr(other.offset.value.data, i64)
        y = Session(module, payload, poison=True, sanitize=False).run({"x": x})["y"]
        wrong += not np.allclose(y, expected(x, payload), atol=1e-5)
    assert wrong


def test_unwritten_bytes_are_nan(payload: dict[str, Any], x: Any) -> None:
    module = lowered(NETWORK)
    launches = [op for op in module.walk() if op.name == "npu_task.launch"]
    launches[0].detach()
    y = Session(module, payload, poison=True, sanitize=False).run({"x": x})["y"]
    assert np.isnan(y).any()


DYNAMIC = """
func.func @main(
    %x: tensor<?x?xf32> {graph.name = "x", graph.dims = ["batch", "width"]},
    %y: tensor<?x3xf32> {graph.name = "y", graph.dims = ["batch", ""]},
    %n: tensor<i64> {graph.name = "n"}) -> (tensor<?x?xf32> {graph.name = "z"}) {
  %0 = graph.relu %x : (tensor<?x?xf32>) -> tensor<?x?xf32>
  func.return %0 : tensor<?x?xf32>
}
"""


def good() -> dict[str, Any]:
    return {
        "x": np.zeros((2, 5), np.float32),
        "y": np.zeros((2, 3), np.float32),
        "n": np.array(1),
    }


def drop(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda inputs: inputs.pop(name)


def put(name: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda inputs: inputs.update({name: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop("y"), "input 'y' is missing"),
        (put("yy", 1), r"there is no input 'yy' \(did you mean 'y'\?\)"),
        (put("x", np.zeros((2, 5))), "input 'x' is float64, not float32"),
        (put("x", np.zeros(5, np.float32)), r"has shape \[5\], not float32\[batch, width\]"),
        (put("y", np.zeros((2, 4), np.float32)), r"has shape \[2, 4\], not float32\[batch, 3\]"),
        (
            put("y", np.zeros((7, 3), np.float32)),
            "dimension 'batch' is 7 in input 'y', but 2 in 'x'",
        ),
    ],
)
def test_bad_inputs(change: Callable[[dict[str, Any]], Any], message: str) -> None:
    inputs = good()
    change(inputs)
    with pytest.raises(GeError, match=message) as error:
        Session(parse(DYNAMIC)).run(inputs)
    assert "expected inputs: x: float32[batch, width], y: float32[batch, 3], n: int64[]" in str(
        error.value
    )


@pytest.mark.parametrize("level", Level)
def test_dynamic_shapes(level: str) -> None:
    session = Session(lowered(DYNAMIC, level))
    for shape in ((2, 5), (1, 1), (2, 0)):
        inputs = good() | {"x": np.full(shape, -1, np.float32)}
        inputs["y"] = np.zeros((shape[0], 3), np.float32)
        np.testing.assert_array_equal(session.run(inputs)["z"], np.zeros(shape))


def test_any_byte_order_and_layout() -> None:
    session = Session(parse(DYNAMIC))
    x = np.arange(12, dtype=">f4").reshape(2, 6)[:, ::2]
    np.testing.assert_array_equal(session.run(good() | {"x": x})["z"], x)


def test_missing_weight_is_named(payload: dict[str, Any]) -> None:
    del payload["b"]
    with pytest.raises(GeError, match="weight 'b' is not in the payload"):
        Session(lowered(NETWORK), payload)


def test_wrong_weight_is_named(payload: dict[str, Any]) -> None:
    payload["b"] = payload["b"][:3]
    with pytest.raises(GeError, match="tensor<3xf32> where"):
        Session(lowered(NETWORK), payload)


def test_random_inputs_are_seeded_and_fit() -> None:
    module = parse(DYNAMIC)
    a = random_inputs(module, 3, dims={"width": 4}, shapes={"y": (6, 3)})
    b = random_inputs(module, 3, dims={"width": 4}, shapes={"y": (6, 3)})
    assert {n: v.shape for n, v in a.items()} == {"x": (6, 4), "y": (6, 3), "n": ()}
    assert a["n"] in (0, 1)
    assert all(np.array_equal(a[n], b[n]) for n in a)
    with pytest.raises(GeError, match="dimension 'batch'"):
        random_inputs(module, shapes={"x": (5, 2), "y": (6, 3)})


def test_no_main() -> None:
    with pytest.raises(GeError, match="no function @main"):
        Session(parse("func.func private @f()"))


@pytest.mark.parametrize(("setting", "unsafe"), [("1", True), ("0", False)])
def test_the_environment_has_programs_sanitized(
    setting: str, unsafe: bool, payload: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GE_SANITIZE", setting)
    Session(lowered(NETWORK, "buffers"), payload)
    module = lowered(NETWORK)
    Session(module, payload)
    moved, other = slots(module)[:2]
    moved.properties["offset"] = IntegerAttr(other.offset.value.data, i64)
    if unsafe:
        with pytest.raises(GeError, match="the program is not safe"):
            Session(module, payload)
    else:
        Session(module, payload)


def test_the_environment_says_0_or_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GE_SANITIZE", "maybe")
    with pytest.raises(GeError, match="GE_SANITIZE is 0 or 1, not 'maybe'"):
        Session(lowered(NETWORK, "buffers"))
