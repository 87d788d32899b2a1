"""Mixtures of experts: matmuls by gathered matrices become grouped ones, which store none."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper, save
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

import ge
from ge.dialects.graph.linear import GroupedMatmulOp
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.types import DYNAMIC, numel, shape_of
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.options import Options
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.data.arrays import Array
from ge.runtime.device.random_inputs import random_array
from ge.transforms.fusion import sort_groups

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import compare, lowered

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
    module = parse_module(context(), SourceText("test", LARGE))
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
    flags = " transpose_rhs true" if turned else ""
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
        ([4, 33], [1, 33, 17], [4], False, "f16"),  # of which nothing reads the numbers
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
    inputs = {"arg0": np.ones((2, 1, 8), np.float32), "arg1": np.ones((3, 8, 4), np.float32)}
    with pytest.raises(ge.GeError, match="index 3"):
        program.session().run(inputs | {"arg2": np.array([0, 3])})


@pytest.mark.parametrize("case", [([40, 1, 1, 6], [40, 2], "f32"), ([50, 1, 5], [50], "f16")])
def test_rows_of_a_group_stand_together(
    case: tuple[Sequence[int], Sequence[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the numbers are; those of no group are refused as before."""
    monkeypatch.setattr(sort_groups, "LAUNCHES", -1000)  # it always pays
    lhs, groups, element = case
    text = of_groups(lhs, [3, lhs[-1], 4], groups, False, element)
    plain, module = (parse_module(context(), SourceText("test", text)) for _ in range(2))
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


def by_rows(sizes: Sequence[int], k: int, n: int, turned: bool, element: str, end: str) -> str:
    """Rows that stand group after group; `end`: what follows, gated halves or nothing."""
    x, w = f"{sum(sizes)}x{k}", f"{len(sizes)}x{n}x{k}" if turned else f"{len(sizes)}x{k}x{n}"
    x, w, y = (f"tensor<{s}x{element}>" for s in (x, w, f"{sum(sizes)}x{n}"))
    half = f"tensor<{sum(sizes)}x{n // 2}x{element}>"
    flag = " transpose_rhs true" if turned else ""
    gated = (
        f"%a, %b = graph.split %0 sizes [{n // 2}, {n // 2}] axis -1 : ({y}) -> ({half}, {half})\n"
        f"%c = graph.silu %a : ({half}) -> {half}\n"
        f"%1 = graph.mul %c, %b : ({half}, {half}) -> {half}\nfunc.return %1 : {half}\n}}"
    )
    return (
        f"func.func @main(%x: {x}, %w: {w}) -> {half if end else y} {{\n"
        f"%0 = graph.grouped_matmul %x, %w rows {[*sizes]}{flag} : ({x}, {w}) -> {y}\n"
    ) + (gated if end else f"func.return %0 : {y}\n}}")


@settings(max_examples=settings().max_examples // 4, deadline=None)
@given(
    st.lists(st.one_of(st.integers(0, 40), st.integers(100, 300)), min_size=1, max_size=6),
    st.sampled_from([(40, 64), (64, 96), (96, 544)]),
    st.booleans(),
    st.sampled_from(["f16", "bf16", "f32"]),
    st.sampled_from(["", "gated"]),
    st.sampled_from(["910b2", "310p3"]),
)
def test_groups_by_rows(
    sizes: list[int], matrix: tuple[int, int], turned: bool, element: str, end: str, target: str
) -> None:
    """Of any sizes, in one kernel; no block writes rows of the next group."""
    if sum(sizes) > 1:
        compare(by_rows(sizes, *matrix, turned, element, end), target, all_lowered=True, orders=2)


@pytest.mark.parametrize("numbers", [[0, 0, 2, 2, 2, 3], [2, -4, 0, 2, 3, 2]])
def test_numbers_that_are_known_are_rows_of_groups(numbers: list[int]) -> None:
    groups = ", ".join(map(str, numbers))
    text = of_groups([6, 1, 8], [4, 8, 16], [6], False, "f32").replace(
        "%g: tensor<6xi64>", "%other: tensor<6xi64>"
    )
    text = text.replace("%0 =", f"%g = graph.constant dense<[{groups}]> : tensor<6xi64>\n%0 =")
    plain, module = (parse_module(context(), SourceText("test", text)) for _ in range(2))
    sort_groups.SortGroupsPass("910b2").apply(context(), module)
    assert "rows [" in str(module)
    for m in (plain, module):
        lower(m, Options(fusion="off"))
    rng = np.random.default_rng(0)
    inputs = {
        "arg0": rng.normal(size=(6, 1, 8)).astype(np.float32),
        "arg1": rng.normal(size=(4, 8, 16)).astype(np.float32),
        "arg2": np.zeros(6, np.int64),
    }
    want, got = (ge.Session(m).run(inputs) for m in (plain, module))
    for name in want:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-5, atol=1e-6)


def test_time_depends_on_the_sizes_of_groups() -> None:
    """Groups of uneven sizes take about as long as even ones of as many rows, and groups without
    rows nothing."""
    sizes = [307, 30, 30, 29, 29, 29, 29, 526]
    grouped = work_us(by_rows(sizes, 1024, 1024, True, "f16", ""))
    even = work_us(by_rows([128] * 8, 1024, 1024, True, "f16", ""))
    few = work_us(by_rows([128, 0, 0, 0, 0, 0, 0, 0], 1024, 1024, True, "f16", ""))
    assert grouped < 1.5 * even
    assert few < even / 2


@settings(max_examples=settings().max_examples // 4, deadline=None)
@given(
    st.lists(st.one_of(st.integers(0, 40), st.integers(100, 300)), min_size=1, max_size=5),
    st.sampled_from([(40, 64), (96, 544)]),
    st.sampled_from(["f16", "bf16", "f32"]),
    st.sampled_from(["", "gated"]),
    st.sampled_from(["910b2", "310p3"]),
)
def test_groups_by_offsets(
    sizes: list[int], matrix: tuple[int, int], element: str, end: str, target: str
) -> None:
    """As a router gives them, read by the one kernel; proved for all numbers."""
    if sum(sizes) < 2:
        return
    offsets = f"tensor<{len(sizes) + 1}xi32>"
    text = by_rows(sizes, *matrix, False, element, end)
    text = text.replace(") ->", f", %g: {offsets}) ->", 1)
    text = text.replace(f"rows {[*sizes]}", "groups %g given offsets")
    text = re.sub(r"(grouped_matmul .*: \(.*?)\) ->", rf"\1, {offsets}) ->", text)

    def make(rng: np.random.Generator, element: Attribute, shape: Sequence[int]) -> Array:
        if element == i32:
            return np.cumsum([0, *sizes]).astype(np.int32)
        return random_array(rng, element, shape)

    compare(text, target, all_lowered=True, make=make, orders=2)


def test_sizes_of_groups_become_offsets_that_a_kernel_reads() -> None:
    """Known ones become rows."""
    text = by_rows([2, 0, 3], 8, 16, False, "f32", "").replace(") ->", ", %g: tensor<3xi64>) ->", 1)
    text = text.replace("rows [2, 0, 3]", "groups %g given sizes")
    text = re.sub(r"(grouped_matmul .*: \(.*?)\) ->", r"\1, tensor<3xi64>) ->", text)
    known = text.replace("%g: tensor<3xi64>", "%other: tensor<3xi64>")
    known = known.replace("%0 =", "%g = graph.constant dense<[2, 0, 3]> : tensor<3xi64>\n%0 =")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 8)).astype(np.float32)
    w = rng.normal(size=(3, 8, 16)).astype(np.float32)
    want = np.concatenate([x[:2] @ w[0], x[2:] @ w[2]])
    for source, says in ((text, "offsets"), (known, "rows [2, 0, 3]")):
        module = parse_module(context(), SourceText("test", source))
        lower(module, Options(target="910b2"), until=Level.GRAPH)
        sort_groups.SortGroupsPass("910b2").apply(context(), module)
        assert says in str(module)
        lower(module, Options(target="910b2"))
        session = ge.Session(module)
        inputs = {"arg0": x, "arg1": w, "arg2": np.array([2, 0, 3])}
        (got,) = session.run(inputs).values()
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
        if says == "offsets":
            for wrong in ([2, 0, 2], [2, -1, 4]):
                with pytest.raises(ge.GeError, match=r"are 4 in all|negative"):
                    session.run(inputs | {"arg2": np.array(wrong)})


def work_us(text: str) -> float:
    """Of the simulated program of the one kernel, without its start."""
    module = lowered(text)
    ((_, program),) = module.pairs
    time = TileKernel(program, module.target).time()
    return max(time.core_us, time.hbm_us)


def test_sizes_that_do_not_fit_are_refused() -> None:
    for sizes in ([3, 4], [-1, 3]):
        text = by_rows([2, 3], 8, 16, False, "f32", "").replace("[2, 3]", str(sizes))
        with pytest.raises(VerifyException, match=r"are 7 in all, not 5|negative"):
            parse_module(context(), SourceText("test", text)).verify()


ELEMENTS = {"f32": np.float32, "f16": np.float16}
