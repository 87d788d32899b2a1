"""What GE's users copy runs, word for word."""

import numpy as np
import pytest

import ge
from ge.dialects.fused_op import USER_KERNELS, CustomOp, UserKernels
from ge.lowering.plugins.extensions import new_registry

SIBLINGS = """
func.func @main(%x: tensor<8x64xf32> {graph.name = "x"}, %u: tensor<64x32xf32> {graph.name = "u"})
    -> (tensor<8x96xf32> {graph.name = "y"}) {
  %w = graph.constant dense<0.5> : tensor<64x32xf32>
  %e = graph.exp %u : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.matmul %x, %e : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %2 = graph.matmul %x, %u : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %3 = graph.concat %0, %1, %2 axis 1
    : (tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x96xf32>
  func.return %3 : tensor<8x96xf32>
}
"""


@pytest.fixture(autouse=True)
def own_registry():
    """What a snippet registers ends with its test."""
    token = USER_KERNELS.set(UserKernels())
    with new_registry():
        yield
    USER_KERNELS.reset(token)


@pytest.fixture
def siblings(tmp_path):
    path = tmp_path / "siblings.mlir"
    path.write_text(SIBLINGS)
    return str(path)


def test_register_pass(siblings: str):
    from ge import OpType

    @ge.register_pass("fuse_custom_attention")
    def fuse_custom_attention(graph):
        pattern = ge.Pattern(
            [OpType("MatMul"), OpType("MatMul"), OpType("MatMul"), OpType("Concat")]
        )

        def replace_fn(matched_nodes):
            fused_op = ge.FusedOp("CustomGroupedGemm", inputs=matched_nodes[:3])
            return fused_op

        graph.apply_pattern(pattern, replace_fn)

    program = ge.compile(siblings)
    (launched,) = (op for op in program.module.walk() if isinstance(op, CustomOp))
    assert launched.kind.data == "CustomGroupedGemm"
    rng = np.random.default_rng(0)
    x, u = (rng.standard_normal(s).astype(np.float32) for s in ((8, 64), (64, 32)))
    (y,) = ge.Session(program.module, program.payload).run({"x": x, "u": u}).values()
    w = np.full((64, 32), 0.5, np.float32)
    np.testing.assert_allclose(y, np.concatenate([x @ w, x @ np.exp(u), x @ u], 1), rtol=1e-4)


def test_kernel_gets_the_operands_of_the_nodes(siblings: str):
    seen = []

    def grouped(x, w, e, u):
        seen.append([a.shape for a in (x, w, e, u)])
        return np.concatenate([x @ w, x @ e, x @ u], 1)

    @ge.register_pass("grouped")
    def fuse(graph: ge.Graph) -> None:
        names = ["MatMul", "MatMul", "MatMul", "Concat"]
        pattern = ge.Pattern([ge.OpType(name) for name in names])

        def replace_fn(nodes):
            assert [node.name for node in nodes] == [f"graph.{n.lower()}" for n in names]
            assert nodes[-1].name == "graph.concat"
            assert len(nodes) == 4
            return ge.FusedOp("Grouped", inputs=nodes[:3], kernel=grouped, check=1e-5)

        assert graph.apply_pattern(pattern, replace_fn) == 1

    ge.compile(siblings)
    assert seen == [[(8, 64), (64, 32), (64, 32), (64, 32)]]


@pytest.mark.parametrize(
    ("kernel", "error"),
    [
        (lambda x, w, e, u: x @ w, r"'Grouped' gives \(8, 32\); what it replaces has \(8, 96\)"),
        (lambda x, w: x @ w, "'Grouped' fails on .* takes 2 positional arguments"),
    ],
)
def test_kernel_of_another_shape(siblings: str, kernel, error: str):
    @ge.register_pass("grouped")
    def fuse(graph: ge.Graph) -> None:
        names = ["MatMul", "MatMul", "MatMul", "Concat"]
        pattern = ge.Pattern([ge.OpType(name) for name in names])
        graph.apply_pattern(pattern, lambda nodes: ge.FusedOp("Grouped", nodes[:3], kernel))

    with pytest.raises(ge.GeError, match=error):
        ge.compile(siblings)


def test_value_of_another_type(siblings: str):
    @ge.register_pass("shorter")
    def fuse(graph: ge.Graph) -> None:
        pattern = ge.Pattern([ge.OpType("MatMul"), ge.OpType("Concat")])
        graph.apply_pattern(pattern, lambda nodes: nodes[0].results[0])

    with pytest.raises(ge.GeError, match="tensor<8x32xf32> cannot take the place of tensor<8x96"):
        ge.compile(siblings)
