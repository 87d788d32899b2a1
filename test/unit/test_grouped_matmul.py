"""Mixtures of experts: matmuls by gathered matrices become grouped ones, which store none."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute

import ge
from ge.dialects.graph.linear import GroupedMatmulOp
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.types import DYNAMIC, numel, shape_of
from ge.lowering.driver.compiler import context, lower
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.options import Options
from ge.lowering.text.reading import Source, parse_module
from ge.runtime.data.arrays import Array
from ge.runtime.device.random_inputs import random_array
from ge.transforms.fusion import sort_groups

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import compare

TOKENS, EXPERTS, PICKED, SIZE, INNER = 6, 4, 2, 32, 48


def mixture(path: Path, picking: str) -> None:
    """A layer as transformers exports it, where experts are not sorted: one matrix a token, which
    Gather picks, or GatherND as in exports of `weights[experts]`."""
    rng = np.random.default_rng(0)
    weights = {
        "router": rng.normal(size=(SIZE, EXPERTS)),
        "gate_up": rng.normal(size=(EXPERTS, 2 * INNER, SIZE)) / 8,
        "down": rng.normal(size=(EXPERTS, SIZE, INNER)) / 8,
    }
    ints = {"picked": [PICKED], "flat": [-1], "last": [-1], "three": [TOKENS, PICKED, SIZE]}
    ints |= {"tokens": np.repeat(np.arange(TOKENS), PICKED), "one": [1], "halves": [INNER, INNER]}
    places = "ids" if picking == "Gather" else "vectors"
    nodes = [
        ("MatMul", ["x", "router"], ["scores"], {}),
        ("Softmax", ["scores"], ["shares"], {"axis": -1}),
        ("TopK", ["shares", "picked"], ["share", "expert"], {}),
        ("Reshape", ["expert", "flat"], ["ids"], {}),
        ("Unsqueeze", ["ids", "last"], ["vectors"], {}),
        ("Gather", ["x", "tokens"], ["rows"], {}),
        ("Unsqueeze", ["rows", "last"], ["columns"], {}),
        (picking, ["gate_up", places], ["w1"], {}),
        ("MatMul", ["w1", "columns"], ["h0"], {}),
        ("Squeeze", ["h0", "last"], ["h1"], {}),
        ("Split", ["h1", "halves"], ["gate", "up"], {"axis": 1}),
        ("Sigmoid", ["gate"], ["open"], {}),
        ("Mul", ["gate", "open"], ["silu"], {}),
        ("Mul", ["silu", "up"], ["h2"], {}),
        ("Unsqueeze", ["h2", "one"], ["h3"], {}),
        (picking, ["down", places], ["w2"], {}),
        ("Transpose", ["w2"], ["w2t"], {"perm": [0, 2, 1]}),
        ("MatMul", ["h3", "w2t"], ["h4"], {}),
        ("Reshape", ["h4", "three"], ["h5"], {}),
        ("Unsqueeze", ["share", "last"], ["s"], {}),
        ("Mul", ["h5", "s"], ["h6"], {}),
        ("ReduceSum", ["h6", "one"], ["y"], {"keepdims": 0}),
    ]
    graph = helper.make_graph(
        [helper.make_node(kind, i, o, **given) for kind, i, o, given in nodes],
        "mixture",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (TOKENS, SIZE))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (TOKENS, SIZE))],
        [numpy_helper.from_array(w.astype(np.float32), n) for n, w in weights.items()]
        + [numpy_helper.from_array(np.asarray(a, np.int64), n) for n, a in ints.items()],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


@pytest.mark.parametrize("picking", ["Gather", "GatherND"])
def test_a_layer_of_experts(tmp_path: Path, picking: str) -> None:
    mixture(path := tmp_path / "mixture.onnx", picking)
    x = np.random.default_rng(1).normal(size=(TOKENS, SIZE)).astype(np.float32)
    plain = ge.compile(str(path), fusion="off").session().run({"x": x})["y"]
    program = ge.compile(str(path), target="910b2", tiles=True, tile_cache="off")
    kernels = [op for op in program.module.ops if isinstance(op, KernelOp)]
    grouped = [op for k in kernels for op in k.walk() if isinstance(op, GroupedMatmulOp)]
    assert len(grouped) == 2
    for session in (program.session(), program.session(tiles="all")):
        np.testing.assert_allclose(session.run({"x": x})["y"], plain, rtol=1e-4, atol=1e-5)
    gathered = 4 * TOKENS * PICKED * 2 * INNER * SIZE
    assert program.report()["memory"]["peak_bytes"] < gathered / 4


LARGE = """
func.func @main(%x: tensor<256x4096x1xf16>, %w: tensor<8x28672x4096xf16>, %g: tensor<256xi64>)
    -> tensor<256x28672x1xf16> {
  %0 = graph.gather %w, %g axis 0
    : (tensor<8x28672x4096xf16>, tensor<256xi64>) -> tensor<256x28672x4096xf16>
  %1 = graph.matmul %0, %x
    : (tensor<256x28672x4096xf16>, tensor<256x4096x1xf16>) -> tensor<256x28672x1xf16>
  func.return %1 : tensor<256x28672x1xf16>
}"""


def test_gathered_matrices_are_not_stored() -> None:
    """60 GB of them."""
    module = parse_module(context(), Source("test", LARGE))
    lower(module, Options(target="910b2"), until=Level.TASKS)
    kernels = [op for op in module.ops if isinstance(op, KernelOp)]
    results = [shape_of(r) for k in kernels for op in k.walk() for r in op.results]
    assert max(numel(s) for s in results if DYNAMIC not in s) < 2**24


def of_groups(
    lhs: Sequence[int], rhs: Sequence[int], groups: Sequence[int], turned: bool, element: str
) -> str:
    x, w = ("x".join(map(str, [*s, element])) for s in (lhs, rhs))
    batch = np.broadcast_shapes(tuple(lhs[:-2]), tuple(groups))
    y = "x".join(map(str, [*batch, lhs[-2], rhs[1 if turned else 2], element]))
    g = "x".join(map(str, [*groups, "i64"]))
    flags = " {transpose_rhs = true}" if turned else ""
    return (
        f"func.func @main(%x: tensor<{x}>, %w: tensor<{w}>, %g: tensor<{g}>) -> tensor<{y}> {{\n"
        f"%0 = graph.grouped_matmul %x, %w groups %g{flags} : "
        f"(tensor<{x}>, tensor<{w}>, tensor<{g}>) -> tensor<{y}>\n"
        f"%1 = graph.relu %0 : (tensor<{y}>) -> tensor<{y}>\n"
        f"func.return %1 : tensor<{y}>\n}}"
    )


@pytest.mark.parametrize(
    "case",
    [
        ([5, 1, 64], [4, 64, 96], [5], False, "f16"),
        ([3, 20, 70], [4, 40, 70], [3], True, "f16"),
        ([3, 1, 1, 40], [2, 40, 24], [3, 2], False, "f32"),
        ([1, 33], [3, 33, 17], [4], False, "bf16"),
    ],
)
def test_tiles(case: tuple[Sequence[int], Sequence[int], Sequence[int], bool, str]) -> None:
    """Also numbers of groups that count from the end."""
    experts = case[1][0]

    def make(rng: np.random.Generator, element: Attribute, shape: Sequence[int]) -> Array:
        if element == i64:
            return rng.integers(-experts, experts, shape)
        return random_array(rng, element, shape)

    compare(of_groups(*case), all_lowered=True, make=make, orders=1)


def test_numbers_beyond_the_last_group_are_refused(tmp_path: Path) -> None:
    (path := tmp_path / "groups.mlir").write_text(
        of_groups([2, 1, 8], [3, 8, 4], [2], False, "f32")
    )
    program = ge.compile(str(path))
    given = {"arg0": np.ones((2, 1, 8), np.float32), "arg1": np.ones((3, 8, 4), np.float32)}
    with pytest.raises(ge.GeError, match="index 3"):
        program.session().run(given | {"arg2": np.array([0, 3])})


@pytest.mark.parametrize("case", [([40, 1, 1, 6], [40, 2], "f32"), ([50, 1, 5], [50], "f16")])
def test_rows_of_a_group_stand_together(
    case: tuple[Sequence[int], Sequence[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the numbers are; those of no group are refused as before."""
    monkeypatch.setattr(sort_groups, "LAUNCHES", -1000)  # it always pays
    lhs, groups, element = case
    text = of_groups(lhs, [3, lhs[-1], 4], groups, False, element)
    plain, module = (parse_module(context(), Source("test", text)) for _ in range(2))
    sort_groups.SortGroupsPass("910b2").apply(context(), module)
    assert "graph.scatter_elements" in str(module)
    rng = np.random.default_rng(0)
    x = rng.normal(size=lhs).astype(ELEMENTS[element])
    w = rng.normal(size=(3, lhs[-1], 4)).astype(ELEMENTS[element])
    for m in (plain, module):
        lower(m, Options(fusion="off"))
    sessions = [ge.Session(m) for m in (plain, module)]
    for g in (rng.integers(-3, 3, groups), np.zeros(groups, int), rng.integers(1, 3, groups)):
        want, got = (s.run({"arg0": x, "arg1": w, "arg2": g}) for s in sessions)
        for name in want:
            np.testing.assert_allclose(got[name], want[name], rtol=1e-3, atol=1e-5)
    for session in sessions:
        with pytest.raises(ge.GeError, match="index"):
            session.run({"arg0": x, "arg1": w, "arg2": np.full(groups, 3)})


ELEMENTS = {"f32": np.float32, "f16": np.float16}
