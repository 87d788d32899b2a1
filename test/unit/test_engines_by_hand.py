"""Engines that users choose: the numbers stay, and the report says what that costs."""

import sys
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr

sys.path.insert(0, str(Path(__file__).parent))
from sums import assert_near

import ge
from ge.dialects.fused_op import ENGINE
from ge.dialects.graph.activation import ReluOp
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.diagnostics import Diagnostic, diagnostic_handler
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.lowering.steps.lower_to_tasks import LowerToTasksPass
from ge.tools.commands import ge_check, ge_compile


def model() -> ge.Graph:
    g = ge.Graph()
    rng = np.random.default_rng(0)
    x = g.input("x", (64, 64))
    w, v = (g.weight(n, rng.standard_normal((64, 64)).astype(np.float32)) for n in "wv")
    y = g.relu(g.matmul(x, w, name="fc1"), name="act1")
    g.output("y", g.relu(g.matmul(y, v, name="fc2"), name="act2"))
    return g


def engines(program: ge.Program) -> list[tuple[str, str]]:
    kernels = (op for op in program.module.walk() if isinstance(op, KernelOp))
    return [(k.sym_name.data, str(k.engine.data)) for k in kernels]


@pytest.mark.parametrize("fusion", ["default", "off"])
def test_the_numbers_stay_and_the_cost_is_told(fusion: str):
    x = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
    how = {"fusion": fusion, "target": "910_merged"}
    plain = ge.compile(model(), **how)
    program = ge.compile(model(), engine=("act1=vector",), **how)
    cost = program.report()["engines"]
    assert cost["by_hand"] == ["act1=vector"]
    want, found = (p.session().run({"x": x})["y"] for p in (plain, program))
    assert_near(found, want, 1e-5)
    if fusion == "off":
        assert cost["latency_us"] == cost["without_us"]
        return
    assert cost["latency_us"] > cost["without_us"]
    assert sorted(engines(program)) == [
        ("linear_0", "cube"), ("matmul_0", "cube"), ("relu_0", "vector"),
    ]  # fmt: skip
    assert "engines" not in plain.report()


def test_the_command_line_tells_the_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model().save(tmp_path / "m.mlir")
    out = str(tmp_path / "p.mlir")
    assert ge_compile([str(tmp_path / "m.mlir"), "-o", out, "--engine", "act[12]=vector"]) == 0
    assert "engines by hand: " in capsys.readouterr().err
    assert Path(out).read_text().count(" on vector ") == 1  # one kernel, launched twice
    assert ge_check([out]) == 0


def test_a_mark_that_fusion_has_passed_over_is_told():
    """A fused op that was there before: the launch multiplies, so it runs on the cube."""
    text = """
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = fused_op.linear(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%a: tensor<8x8xf32>):
    %1 = graph.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = graph.relu %1 : (tensor<8x8xf32>) -> tensor<8x8xf32>
    fused_op.yield %2 : tensor<8x8xf32>
  }
  func.return %0 : tensor<8x8xf32>
}
"""
    ctx, told = context(), list[Diagnostic]()
    module = parse_module(ctx, SourceText("m.mlir", text))
    (relu,) = (op for op in module.walk() if isinstance(op, ReluOp))
    relu.attributes[ENGINE] = StringAttr("vector")
    with diagnostic_handler(told.append):
        LowerToTasksPass().apply(ctx, module)
    assert [d.message for d in told] == ["graph.relu runs on the cube, not on the vector"]
