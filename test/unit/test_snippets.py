"""What GE's users copy runs, word for word."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sums import assert_matmul

import ge
from ge.dialects.fused_op import CustomOp, UserKernels
from ge.dialects.support.context import having
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
    with having(UserKernels()), new_registry():
        yield


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
    assert_matmul(y, x, np.concatenate([w, np.exp(u), u], 1))


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


def test_graph_in_python():
    rng = np.random.default_rng(0)
    w, b = (rng.standard_normal(s).astype(np.float16) for s in ((64, 32), (32,)))

    g = ge.Graph(); x = g.input("x", (1, 64), "f16"); y = g.gelu(x @ w + b)  # fmt: skip  # noqa: E702

    text = str(g)
    assert '%x: tensor<1x64xf16> {graph.name = "x"}' in text
    assert "graph.gelu %2 : (tensor<1x32xf16>) -> tensor<1x32xf16>" in text
    assert y.shape == (1, 32)
    assert y.dtype == "f16"
    array = rng.standard_normal((1, 64)).astype(np.float16)
    want = ge.Session(g.module, g.payload).run({"x": array})["result0"]
    (found,) = ge.compile(g).session().run({"x": array}).values()
    np.testing.assert_allclose(found, want, rtol=1e-2, atol=1e-3)


@pytest.fixture
def session(siblings: str):
    return ge.compile(siblings).session()


def inputs() -> dict[str, np.ndarray]:
    return {"x": np.ones((8, 64), np.float32), "u": np.zeros((64, 32), np.float32)}


def test_profiler(session, capsys: pytest.CaptureFixture[str]):
    from ge import Profiler

    profiler = Profiler()
    profiler.start()
    session.run(inputs())
    profiler.stop()

    report = profiler.report()
    for event in report.timeline_events:
        print(f"{event.name}: {event.duration} ms")
    op_stats = profiler.operator_stats()
    for op, stats in op_stats.items():
        print(f"{op}: {stats}")

    events = report.timeline_events
    assert max(e.start + e.duration for e in events) == pytest.approx(report["latency_us"] / 1e3)
    times = [stats.total_time for _, stats in op_stats.items()]
    assert times == sorted(times, reverse=True)
    assert sum(times) == pytest.approx(sum(e.duration for e in events), abs=1e-3 * len(events))
    assert sum(stats.ratio for stats in op_stats.values()) == pytest.approx(1)
    assert "copy: OperatorStats(count=3" in capsys.readouterr().out


def test_memory_settings(siblings: str):
    from ge.lowering.pipeline.options import new_settings

    with new_settings():
        ge.set_memory_mode("pool", max_memory_gb=16)
        ge.set_op_memory_reuse("MatMul", enabled=True)

        options = ge.compile(siblings).report()["options"]
        assert options["memory_limit"] == 16 << 30
        assert "no_reuse" not in options
        ge.set_op_memory_reuse("MatMul", enabled=False)
        ge.set_op_memory_reuse("concat", enabled=False)
        assert ge.Options.from_environment().no_reuse == ("graph.matmul", "graph.concat")
        ge.set_op_memory_reuse("graph.concat")
        variables = {"GE_NO_REUSE": "Conv,Softmax", "GE_MEMORY_OPTIMIZE": "0"}
        options = ge.Options.from_environment(variables)
        assert set(options.no_reuse) == {
            "graph.conv", "fused_op.conv", "graph.softmax", "graph.matmul",
        }  # fmt: skip
        assert options.memory == 1
        assert ge.Options.from_environment(variables, no_reuse=(), memory=3).memory == 3
        ge.set_memory_mode("separate")
        assert ge.Options.from_environment().memory == 0
        assert ge.Options.from_environment().memory_limit == 0
        with pytest.raises(ge.GeError, match=r"no memory mode 'pol'.*pool.*separate"):
            ge.set_memory_mode("pol")
        with pytest.raises(ge.GeError, match="max_memory_gb is a number above 0, not -1"):
            ge.set_memory_mode("pool", max_memory_gb=-1)
        with pytest.raises(ge.GeError, match=r"no op 'MatMull'.*'graph.matmul'"):
            ge.set_op_memory_reuse("MatMull")


def test_profiles_that_the_environment_asks_for(
    siblings: str, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    from ge.runtime.device.profiler import new_listeners

    monkeypatch.setenv("ASCEND_PROFILING_ENABLE", "1")
    folder = tmp_path / "profile"
    options = f"op_stats,trace,tensor_dump,output:{folder}"
    monkeypatch.setenv("ASCEND_PROFILING_OPTIONS", options)
    with new_listeners() as requests:
        session = ge.compile(siblings).session()
        outputs = session.run(inputs())
        session.run(inputs())
        assert requests is not None
        requests.write()
    names = {file.name for file in folder.iterdir()}
    assert names == {
        "op_statistic.csv", "op_summary_0.csv", "trace_0.json", "tensors_0.npz", "tensors_1.npz",
    }  # fmt: skip
    rows = (folder / "op_statistic.csv").read_text().splitlines()
    assert any(",graph.concat," in row or ",copy," in row for row in rows)
    with np.load(folder / "tensors_1.npz") as tensors:
        assert {"input.x", "input.u", "output.y"} < set(tensors)
        np.testing.assert_array_equal(tensors["output.y"], outputs["y"])
        ops = [name for name in tensors if name.startswith("op.")]
        assert [name[:8] for name in ops] == [f"op.{i:04d}." for i in range(len(ops))]
        exp = next(tensors[name] for name in ops if "exp" in name)
        np.testing.assert_array_equal(exp, np.ones((64, 32), np.float32))


@pytest.mark.parametrize(
    ("enable", "options", "error"),
    [
        ("1", "op_stat", "ASCEND_PROFILING_OPTIONS has no 'op_stat'; did you mean 'op_stats'"),
        ("1", "output:/dev/null/x", "no folder '/dev/null/x'"),
        ("perhaps", "", "ASCEND_PROFILING_ENABLE is 0 or 1, not 'perhaps'"),
    ],
)
def test_profiles_that_there_are_not(
    siblings: str, enable: str, options: str, error: str, monkeypatch: pytest.MonkeyPatch
):
    program = ge.compile(siblings)
    monkeypatch.setenv("ASCEND_PROFILING_ENABLE", enable)
    monkeypatch.setenv("ASCEND_PROFILING_OPTIONS", options)
    with pytest.raises(ge.GeError, match=error):
        program.session()


def test_a_pattern_that_matches_nothing_says_its_nearest_miss(siblings: str):
    @ge.register_pass("nothing")
    def fuse(graph):
        pattern = ge.Pattern([ge.OpType("exp"), ge.OpType("MatMul"), ge.OpType("MatMul")])
        graph.apply_pattern(pattern, lambda nodes: ge.FusedOp("Nothing"))

    says = "nothing matches exp, MatMul, MatMul: at the nearest miss 1 of 3 ops match, then"
    with pytest.warns(UserWarning, match=says):
        ge.compile(siblings)


def test_a_type_that_there_is_not_has_a_nearest_name():
    with pytest.raises(ge.GeError, match=r"no graph op 'MatMull'; did you mean 'graph\.matmul"):
        ge.Pattern([ge.OpType("MatMull")])
