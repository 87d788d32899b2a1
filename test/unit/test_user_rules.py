"""Users' rules: the kernel is called, the check finds wrong ones, names are suggested."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sums import assert_matmul, assert_sums

from ge.dialects.fused_op import UserKernels
from ge.dialects.support.context import having
from ge.dialects.support.errors import GeError
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.building.graph import Graph
from ge.lowering.driver.compiler import context
from ge.runtime.device.session import Session
from ge.transforms.fusion.user_rules import FusedOp, OpType, Pattern
from ge.transforms.rewriting.counts import collecting

TEXT = """
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x4xf32>, %b: tensor<4xf32>) -> tensor<4x4xf32> {
  %0 = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %1 = graph.add %b, %0 : (tensor<4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %1 : tensor<4x4xf32>
}
"""


@pytest.fixture
def graph() -> Iterator[Graph]:
    with having(UserKernels()):
        yield Graph(parse_module(context(), SourceText("test", TEXT)), "my-rule")


LINEAR = Pattern([OpType("MatMul", name="product"), OpType("add")])


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"arg0": (4, 8), "arg1": (8, 4), "arg2": (4,)}
    return {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def test_kernel_is_called(graph: Graph):
    calls: list[int] = []

    def linear(x, w, b):
        calls.append(1)
        return x @ w + b

    with collecting() as counts:
        assert graph.apply_pattern(LINEAR, lambda m: FusedOp("L", kernel=linear, check=1e-5)) == 1
    assert counts["my-rule"].applied == 1
    graph.module.verify()
    calls.clear()
    inputs = arrays()
    (y,) = Session(graph.module).run(inputs).values()
    assert calls
    assert_matmul(y, inputs["arg0"], inputs["arg1"], inputs["arg2"])


def test_inputs_in_the_order_asked_for(graph: Graph):

    def replace(found):
        product = found.op("product", type(found.bound["product"]))
        x, w = product.operands
        (b,) = [o for o in found.root.operands if o.owner is not product]
        kernel = lambda b, w, x: x @ w + b  # noqa: E731
        return FusedOp("R", inputs=[b, w, x], kernel=kernel, check=1e-5)

    assert graph.apply_pattern(LINEAR, replace) == 1
    graph.module.verify()
    inputs = arrays()
    (y,) = Session(graph.module).run(inputs).values()
    assert_matmul(y, inputs["arg0"], inputs["arg1"], inputs["arg2"])


def test_a_wrong_kernel_is_refused(graph: Graph):
    with pytest.raises(GeError, match="differs from the ops it replaces"):
        graph.apply_pattern(
            LINEAR, lambda m: FusedOp("W", kernel=lambda *a: a[0] @ a[1], check=1e-5)
        )


def test_a_match_may_be_left_alone(graph: Graph):
    before = str(graph.module)
    assert graph.apply_pattern(LINEAR, lambda m: None) == 0
    assert str(graph.module) == before


def test_a_value_may_replace_the_chain(graph: Graph):
    product = Pattern([OpType("MatMul"), OpType("add")])
    first = graph.module.body.block.first_op
    assert first is not None
    other = next(iter(graph.operations())).results[0]
    assert graph.apply_pattern(product, lambda m: other) == 1
    graph.module.verify()


def test_unknown_op_is_suggested():
    with pytest.raises(GeError, match=r"did you mean 'graph\.matmul'"):
        OpType("MatMull")


def test_siblings_that_read_each_other():
    """The second of them is the first operand of the concat: it is computed after the other."""
    g = Graph()
    x = g.input("x", (4, 4))
    first = g.matmul(x, x)
    second = g.matmul(first, x)
    g.output("y", g.concat(second, first, axis=0))
    module = g.module
    product = OpType("MatMul", shared=True)
    rules = Graph(module, "siblings")
    pattern = Pattern([product, product, OpType("Concat")])
    assert rules.apply_pattern(pattern, lambda nodes: FusedOp("Both", inputs=nodes[:2])) == 1
    module.verify()
    array = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    (y,) = Session(module).run({"x": array}).values()
    wide, size = array.astype(np.float64), np.abs(array)
    assert_sums(y[4:], wide @ wide, 4, size @ size)
    assert_sums(y[:4], wide @ wide @ wide, 8, size @ size @ size)
