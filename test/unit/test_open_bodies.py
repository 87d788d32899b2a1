"""What the library says of launches of unknown shapes, asked before they are made."""

from pathlib import Path
from typing import cast

import pytest

from ge.dialects.fused_op import Body, FusedOp
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.options import Options
from ge.runtime.library.asking import Answers, answers_in
from ge.transforms.shapes import open_kernels
from ge.transforms.shapes.open_kernels import OpenBodies

# Patches of images become rows, as in a vision transformer: there are no tiles of a convolution
# that are turned
PATCHES = """func.func @main(
    %x: tensor<?x3x8x8xf32> {graph.name = "x", graph.dims = ["n", "", "", ""]},
    %w: tensor<32x3x2x2xf32> {graph.name = "w"}, %v: tensor<32x32xf32> {graph.name = "v"})
    -> (tensor<16x?x32xf32> {graph.name = "y"}) {
  %32 = graph.constant dense<32> : tensor<1xi64>
  %16 = graph.constant dense<16> : tensor<1xi64>
  %n = graph.shape_of %x end 1 : (tensor<?x3x8x8xf32>) -> tensor<1xi64>
  %s = graph.concat %n, %32, %16 axis 0
      : (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<3xi64>
  %0 = graph.conv %x, %w strides [2, 2]
      : (tensor<?x3x8x8xf32>, tensor<32x3x2x2xf32>) -> tensor<?x32x4x4xf32>
  %1 = graph.reshape %0 shape %s : (tensor<?x32x4x4xf32>, tensor<3xi64>) -> tensor<?x32x16xf32>
  %2 = graph.transpose %1 permutation [0, 2, 1] : (tensor<?x32x16xf32>) -> tensor<?x16x32xf32>
  %3 = graph.matmul %2, %v : (tensor<?x16x32xf32>, tensor<32x32xf32>) -> tensor<?x16x32xf32>
  %4 = graph.transpose %3 permutation [1, 0, 2] : (tensor<?x16x32xf32>) -> tensor<16x?x32xf32>
  func.return %4 : tensor<16x?x32xf32>
}"""


def test_what_the_library_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Of a body of several ops, and one whose sizes data decide; what it said is kept."""
    lines = """%i = graph.nonzero %w : (tensor<32x3x2x2xf32>) -> tensor<4x?xi64>
      %j = graph.neg %i : (tensor<4x?xi64>) -> tensor<4x?xi64>
      func.return"""
    module = parse_module(context(), SourceText("test", PATCHES.replace("func.return", lines)))
    main, target = main_function(module), Target.load("910b2")
    assert main is not None
    bodies = OpenBodies.of(main)
    ops = [op for op in main.body.block.ops if isinstance(op, TensorOp)]

    def refusal(*names: str) -> str | None:
        some = [next(op for op in ops if op.name == f"graph.{name}") for name in names]
        inside = {r for op in some for r in op.results}
        inputs = dict.fromkeys(v for op in some for v in op.operands if v not in inside)
        return bodies.refusal(Body(some, [*inputs], some[-1].results), target)

    turned = "there are no tiles for graph.reshape after graph.conv"
    answers = str(tmp_path / "answers.json")
    with answers_in(answers):
        assert refusal("conv") == refusal("reshape", "transpose") == ""
        assert refusal("conv", "reshape", "transpose") == turned
        assert refusal("neg") is None
    assert OpenBodies.of(main) is bodies
    monkeypatch.setattr(open_kernels, "ask", None)
    Answers.at.cache_clear()
    with answers_in(answers):
        assert refusal("conv", "reshape", "transpose") == turned


@pytest.mark.parametrize("target", ["910b2", "310p3"])
def test_a_weight_is_no_launch(target: str):
    """What a launch is made of at some sizes are its ops: not the weights that they read."""
    weight = '%w = graph.constant #graph.weight<"w"> : tensor<32x3x2x2xf32>'
    text = PATCHES.replace('%w: tensor<32x3x2x2xf32> {graph.name = "w"}, ', "")
    text = text.replace("%32 =", f"{weight}\n%32 =", 1)
    module = parse_module(context(), SourceText("test", text))
    main, machine = main_function(module), Target.load(target)
    assert main is not None
    conv = next(op for op in main.body.block.ops if op.name == "graph.conv")
    body, asked = Body.of(cast(TensorOp, conv)), list[list[str]]()
    assert OpenBodies.of(main).refusal(body, machine) == ""

    def question(body: Body, target: Target) -> float:
        asked.append([op.name for op in body.ops])
        return 1.0

    assert OpenBodies.of(main).us(question, body, machine) == 1.0
    assert asked == [["graph.conv"]]


def fused_ops(text: str, target: str) -> list[str]:
    """The names of fused ops that become of a function."""
    module = parse_module(context(), SourceText("test", text))
    lower(module, Options(target=target, tile_cache="off"), until=Level.FUSED)
    return [op.name for op in module.walk() if isinstance(op, FusedOp)]


@pytest.mark.parametrize(("name", "target", "pays"), [
    ("tanh", "910b2", False),  # its cores start later where both kinds work
    ("tanh", "310p3", True),
    ("relu", "910b2", True),  # on the way out
    ("relu", "310p3", True),
])  # fmt: skip
def test_what_does_not_pay_at_known_sizes_does_not_at_open_ones(name: str, target: str, pays: bool):
    """Launches of open sizes are judged at those for which their programs are cut."""
    fused = ["fused_op.linear"] if pays else []
    for n in ("?", 64):
        text = f"""func.func @main(%x: tensor<{n}x768xf16> {{graph.name = "x",
          graph.dims = ["n", ""]}}, %w: tensor<768x3072xf16>) -> tensor<{n}x3072xf16> {{
      %0 = graph.matmul %x, %w
          : (tensor<{n}x768xf16>, tensor<768x3072xf16>) -> tensor<{n}x3072xf16>
      %1 = graph.{name} %0 : (tensor<{n}x3072xf16>) -> tensor<{n}x3072xf16>
      func.return %1 : tensor<{n}x3072xf16> }}"""
        assert fused_ops(text, target) == fused
