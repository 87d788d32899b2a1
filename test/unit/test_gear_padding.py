"""Sizes between gears: padded where no valid element depends on padding, refused elsewhere."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block

import ge
from ge.dialects.graph.elementwise import AddOp
from ge.dialects.graph.gears import AssumeShapeOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import shape_of
from ge.lowering.debugging.validation import Validation
from ge.lowering.driver.compiler import context
from ge.lowering.pipeline.pass_manager import PassManager
from ge.runtime.device.session import Session
from ge.runtime.device.trials import Trials
from ge.transforms.shapes import expand_gears
from ge.transforms.shapes.expand_gears import ExpandGearsPass
from ge.transforms.shapes.gears import Gears

HEAD = """
func.func @main(%x: tensor<?x?x8xf32> {graph.name = "x", graph.dims = ["batch", "length", ""]},
                %m: tensor<?x?xi64> {graph.name = "m", graph.dims = ["batch", "length"]})
    -> (tensor<OUTxf32> {graph.name = "y"}) {
"""
T = "tensor<?x?x8xf32>"
Q = "tensor<?x1x?x8xf32>"

# The mask is 0 for padded tokens: they have no weight
ATTENTION = (HEAD + """
  %low = graph.constant dense<LOW> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %w = graph.constant dense<0.25> : tensor<8x8xf32>
  %0 = graph.cast %m to i1 : (tensor<?x?xi64>) -> tensor<?x?xi1>
  %1 = graph.unsqueeze %0 axes [1, 2] : tensor<?x?xi1> -> tensor<?x1x1x?xi1>
  %2 = graph.select %1, SIDES : (tensor<?x1x1x?xi1>, tensor<f32>, tensor<f32>)
      -> tensor<?x1x1x?xf32>
  %3 = graph.matmul %x, %w : (T, tensor<8x8xf32>) -> T
  %4 = graph.unsqueeze %3 axes [1] : T -> Q
  %5 = graph.attention %4, %4, %4 mask %2 : tensor<?x1x1x?xf32> : Q, Q, Q -> Q
  %6 = graph.squeeze %5 axes [1] : Q -> T
  %7 = graph.add %6, %x : (T, T) -> T
  func.return %7 : T
}
""").replace("OUT", "?x?x8").replace("T", T).replace("Q", Q).replace(T + "E", "TE")  # fmt: skip


def attention(sides: str = "%zero, %low", low: str = "-3.0e38") -> str:
    return ATTENTION.replace("SIDES", sides).replace("LOW", low)


def body(text: str, out: str = "?x?x8") -> str:
    return HEAD.replace("OUT", out) + text.replace(" T", f" {T}").replace("(T", f"({T}") + "}\n"


def session(text: str, folder: Path) -> Session:
    (folder / "m.mlir").write_text(text)
    program = ge.compile(str(folder / "m.mlir"), dynamic_dims="2,4;4,9")
    return Session(program.module, program.payload)


def inputs(batch: int, length: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    mask = rng.integers(0, 2, (batch, length))
    mask[:, 0] = 1
    return {"x": rng.standard_normal((batch, length, 8)).astype(np.float32), "m": mask}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Session, Session]:
    """A program with gears, and the graph, which has any size."""
    folder = tmp_path_factory.mktemp("gears")
    gears = session(attention(), folder)
    return gears, Session(ge.load(str(folder / "m.mlir")).module)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(1, 9), st.integers(0, 99))
def test_padded_inputs_have_the_numbers_of_their_own_size(
    both: tuple[Session, Session], batch: int, length: int, seed: int
):
    gears, plain = both
    values = inputs(batch, length, seed)
    got, want = gears.run(values)["y"], plain.run(values)["y"]
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def test_the_smallest_gear_takes_a_size_and_arrays_are_filled(both: tuple[Session, Session]):
    gears, plain = both
    assert gears.gears is not None
    assert gears.gears.row_for((1, 3)) == (2, 4)
    assert gears.gears.row_for((3, 3)) == (4, 9)
    values, place = inputs(3, 5), np.empty((3, 5, 8), np.float32)
    assert gears.run(values, {"y": place})["y"] is place
    np.testing.assert_allclose(place, plain.run(values)["y"], rtol=2e-5, atol=2e-5)
    gears.fuzz_schedule(values, 2)
    with pytest.raises(GeError, match="no gear is for batch=5, length=3"):
        gears.run(inputs(5, 3))


@pytest.mark.parametrize(("sides", "low"), [("%low, %zero", "-3.0e38"), ("%zero, %low", "-1.0")])
def test_a_wrong_mask_is_refused_and_would_be_found(sides: str, low: str, tmp_path: Path):
    """A mask that hides the valid tokens, or hides too little."""
    gears = session(attention(sides, low), tmp_path)
    assert gears.gears is not None
    assert isinstance(gears.gears.padding["batch"], dict)
    reason = gears.gears.padding["length"]
    assert isinstance(reason, str)
    assert reason.startswith("graph.attention")
    with pytest.raises(GeError, match=r"'length' cannot be padded: graph\.attention"):
        gears.run(inputs(2, 3))
    padding = {**gears.gears.padding, "length": {"y": (1,)}}  # as if it had been found safe
    object.__setattr__(gears.gears, "padding", padding)
    values = inputs(2, 3)
    want = Session(ge.load(str(tmp_path / "m.mlir")).module).run(values)["y"]
    assert np.abs(gears.run(values)["y"] - want).max() > 1e-3


def validated(text: str, folder: Path, dims: str = "2,4;4,9") -> None:
    """Expand gears under `--validate`. Raises GeError for what it finds."""
    (folder / "m.mlir").write_text(text)
    module = ge.load(str(folder / "m.mlir")).module
    validation = Validation(Trials, context(), {}, str(folder / "t.mlir"), seconds=0.0)
    PassManager([ExpandGearsPass(dims=dims)], [validation]).run(context(), module)


def plant(monkeypatch: pytest.MonkeyPatch, found: dict[str, Any]) -> None:
    def paddings(func: FuncOp, gears: Gears) -> dict[str, Any]:
        return found

    monkeypatch.setattr(expand_gears, "paddings", paddings)


def test_validation_runs_gears_and_sizes_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It finds a mask that hides too little, a cut along no axis, a fault in one gear alone."""
    validated(attention(), tmp_path)
    validated(attention("%low, %zero"), tmp_path)  # cannot be padded: nothing is
    plant(monkeypatch, {"batch": [(0, 0)], "length": [(0, 1)]})
    for text in (attention("%low, %zero"), attention(low="-1.0"), body(UNSAFE["graph.reduce"])):
        with pytest.raises(GeError, match=r"'expand-gears' declares bit-exact.*padded inputs"):
            validated(text, tmp_path)
    plant(monkeypatch, {"batch": [], "length": "mixes"})
    with pytest.raises(GeError, match=r"padded inputs: output 'y': float32\[1, 4, 8\] became"):
        validated(attention(), tmp_path)
    monkeypatch.undo()
    settle = expand_gears.settle

    def wrong(block: Block) -> None:
        settle(block)
        assumed = block.first_op
        assert isinstance(assumed, AssumeShapeOp)
        if shape_of(assumed.result)[0] == 4:
            (add,) = (op for op in block.ops if isinstance(op, AddOp))
            add.operands = [add.operands[0], add.operands[0]]

    monkeypatch.setattr(expand_gears, "settle", wrong)
    with pytest.raises(GeError, match="normal inputs: output 'y'"):
        validated(attention(), tmp_path)


def test_inputs_that_are_not_finite_are_not_padded(tmp_path: Path):
    gears = session(attention(), tmp_path)
    values = inputs(2, 3)
    values["x"][0, 0, 0] = np.inf
    with pytest.raises(GeError, match="input 'x' has elements that are infinite or nan: it cannot"):
        gears.run(values)
    assert gears.run({**inputs(2, 4), "x": np.full((2, 4, 8), np.nan, np.float32)})["y"].size
    program = ge.compile(str(tmp_path / "m.mlir"), dynamic_dims="2,4;4,9", dynamic_fallback=True)
    got = Session(program.module, program.payload).run(values)["y"]
    want = Session(ge.load(str(tmp_path / "m.mlir")).module).run(values)["y"]
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


SAFE = {
    "rows stay apart": "  %0 = graph.softmax %x : (T) -> T\n  func.return %0 : T\n",
    "a sum of zeros": """
  %0 = graph.reduce "sum" %x axes [1] : T -> tensor<?x1x8xf32>
  %1 = graph.add %x, %0 : (T, tensor<?x1x8xf32>) -> T
  func.return %1 : T
""",
    "a product of zeros": """
  %0 = graph.matmul %x, %x {transpose_rhs = true} : (T, T) -> tensor<?x?x?xf32>
  %1 = graph.matmul %0, %x : (tensor<?x?x?xf32>, T) -> T
  func.return %1 : T
""",
}
UNSAFE = {
    "graph.reduce": """
  %0 = graph.reduce "mean" %x axes [1] : T -> tensor<?x1x8xf32>
  %1 = graph.add %x, %0 : (T, tensor<?x1x8xf32>) -> T
  func.return %1 : T
""",
    "graph.softmax": """
  %0 = graph.softmax %x {axis = 1 : i64} : (T) -> T
  func.return %0 : T
""",
    "graph.matmul": """
  %0 = graph.cos %x : (T) -> T
  %1 = graph.matmul %0, %0 {transpose_lhs = true} : (T, T) -> tensor<?x8x8xf32>
  %2 = graph.matmul %x, %1 : (T, tensor<?x8x8xf32>) -> T
  func.return %2 : T
""",
    "graph.gather": """
  %i = graph.constant dense<-1> : tensor<1xi64>
  %0 = graph.gather %x, %i axis 1 : (T, tensor<1xi64>) -> tensor<?x1x8xf32>
  %1 = graph.add %x, %0 : (T, tensor<?x1x8xf32>) -> T
  func.return %1 : T
""",
    "graph.cumulative": """
  %0 = graph.cumulative "sum" %x axis 1 {reverse = true} : T -> T
  func.return %0 : T
""",
    "graph.cast": """
  %0 = graph.shape_of %x start 1 end 2 : T -> tensor<1xi64>
  %1 = graph.cast %0 to f32 : (tensor<1xi64>) -> tensor<1xf32>
  %2 = graph.div %x, %1 : (T, tensor<1xf32>) -> T
  func.return %2 : T
""",
}


@pytest.mark.parametrize("text", SAFE.values(), ids=list(SAFE))
def test_what_does_not_mix_is_padded(text: str, tmp_path: Path):
    gears = session(body(text), tmp_path)
    values = inputs(3, 5)
    want = Session(ge.load(str(tmp_path / "m.mlir")).module).run(values)["y"]
    np.testing.assert_allclose(gears.run(values)["y"], want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", UNSAFE)
def test_what_mixes_is_refused_by_name(name: str, tmp_path: Path):
    gears = session(body(UNSAFE[name]), tmp_path)
    assert gears.run(inputs(4, 9))["y"].shape == (4, 9, 8)
    with pytest.raises(GeError, match=f"'length' cannot be padded: {re.escape(name)}"):
        gears.run(inputs(4, 5))
