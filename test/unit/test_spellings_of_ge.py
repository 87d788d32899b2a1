"""What users of GE and of frameworks write: names of ops, modules, commands, dumps, numbers."""

import os
import pickle
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

import ge
from ge.dialects.fused_op import FusedOps
from ge.dialects.graph import Graph
from ge.dialects.graph.support.op_names import framework_names, nearest_name, plain, short_name
from ge.tools.commands import ge_compile, ge_opt, ge_parser, ge_shims, ge_visualizer
from ge.tools.views.model import ge_level
from ge.transforms.fusion.user_rules import op_names

MODULE = """\
func.func @main(%x: tensor<8x64xf32> {graph.name = "x"}) -> (tensor<8x32xf32> {graph.name = "y"}) {
  %w = graph.constant dense<0.5> : tensor<64x32xf32>
  %b = graph.constant dense<[WORDS]> : tensor<32xf32>
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.add %0, %b : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
  %2 = graph.softmax %1 : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %3 = graph.reduce mean %2 axes [1] : (tensor<8x32xf32>) -> tensor<8x1xf32>
  %4 = graph.mul %2, %3 : (tensor<8x32xf32>, tensor<8x1xf32>) -> tensor<8x32xf32>
  func.return %4 : tensor<8x32xf32>
}
""".replace("WORDS", ", ".join(f"{n}.5" for n in range(32)))


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(MODULE)
    return "m.mlir"


# ---- names of ops --------------------------------------------------------------------------------


def test_each_name_is_of_an_op_and_none_is_anothers_own():
    names, own = framework_names(), op_names()
    fused = {plain(op.name.partition(".")[2]) for op in FusedOps.operations}
    assert len({plain(n) for n in names}) == len(names)
    for name, named in names.items():
        op = own[plain(named.op)]
        assert plain(name) not in {*own, *fused}, name
        assert ge.OpType(name).kind is op
        for key, value in named.values.items():
            assert value in op.get_irdl_definition().properties[key].constr.attr.words(), (
                name,
                value,
            )


def test_names_of_values_match_these_alone(module: str):
    found = {}
    ops = {op.name: op for op in ge.load(module).module.walk()}
    for name in ("ReduceMean", "ReduceSum", "reduce"):
        found[name] = ge.OpType(name).match(ops["graph.reduce"], _miss()) is not None
    assert found == {"ReduceMean": True, "ReduceSum": False, "reduce": True}


def _miss():
    from ge.transforms.rewriting.matching import Miss

    return Miss()


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("Conv2dd", "did you mean 'Conv2d' (graph.conv)?"),
        ("sofmax", "did you mean 'graph.softmax'?"),
        ("BatchMatMull", "did you mean 'BatchMatMul' (graph.matmul)?"),
        ("zzzzzz", ""),
    ],
)
def test_the_nearest_name(wrong: str, near: str):
    assert nearest_name(wrong, [op.name for op in Graph.operations]) == near
    with pytest.raises(ge.GeError) as caught:
        ge.OpType(wrong)
    assert caught.value.hint == near
    with pytest.raises(ge.GeError, match="there is no op") as caught:
        ge.set_op_memory_reuse(wrong)
    assert not near or near == caught.value.hint


def test_wherever_ops_are_named(module: str, capsys: pytest.CaptureFixture[str]):
    from ge.lowering.pipeline.options import new_settings

    with new_settings():
        ge.set_op_memory_reuse("BatchMatMul", enabled=False)
        ge.set_op_memory_reuse("Conv2d", enabled=False)
        options = ge.Options.from_environment()
        assert options.no_reuse == ("graph.matmul", "fused_op.conv", "graph.conv")
    apart = [ge.compile(module, no_reuse=(name,)) for name in ("BiasAdd", "graph.add")]
    assert str(apart[0].module) == str(apart[1].module)
    flags = ["-o", os.devnull, "--precision", "fp16", "--keep-dtype"]
    assert ge_compile([module, *flags, "OpType::BatchMatMul"]) == 0
    assert ge_opt(["--list-ops=BatchMatMul"]) == 0
    assert capsys.readouterr().out.startswith("graph.matmul (of ge)")
    assert ge_opt(["--list-ops=BatchMatMull"]) == 1
    assert "did you mean 'BatchMatMul' (graph.matmul)?" in capsys.readouterr().err
    assert short_name("graph.batch_norm") == short_name("BatchNorm2d") == "batchnorm"


# ---- profiles ------------------------------------------------------------------------------------


def test_statistics_are_numbers(module: str):
    session, profiler = ge.compile(module, fusion="off").session(), ge.Profiler()
    with profiler:
        session.run({"x": np.ones((8, 64), np.float32)})
    stats = profiler.operator_stats()
    ordered = sorted(stats.items(), key=lambda x: x[1], reverse=True)
    assert ordered == list(stats.items())
    for kind, duration in ordered:
        assert f"{kind}: {duration:.2f}ms" == f"{kind}: {duration.total_time:.2f}ms"
        assert duration == duration.total_time >= duration.max_time >= duration.min_time > 0
        assert duration.avg_time == pytest.approx(duration / duration.count)
        copied = pickle.loads(pickle.dumps(duration))
        assert (copied, vars(copied)) == (duration, vars(duration))
    assert sum(stats.values()) == pytest.approx(sum(d.total_time for d in stats.values()))
    assert stats["BatchMatMul"] == stats["graph.matmul"]
    assert stats["BiasAdd"].count == 1
    assert stats[0]["OP Type"] in stats.keys()
    with pytest.raises(ge.GeError, match="no op 'Conv2d' was launched"):
        stats["Conv2d"]


# ---- commands and dumps --------------------------------------------------------------------------


def test_commands_have_names_of_ge():
    scripts = {s.name: s.value for s in entry_points(group="console_scripts")}
    text = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text()
    for name in ("parser", "visualizer"):
        assert f"scripts.ge_{name} = " in text
        assert scripts.get(f"ge_{name}", "ge_npu:").startswith("ge_npu:")


@pytest.mark.parametrize("detail", ["1", "2", "3"])
def test_dumps_of_each_detail(
    detail: str, module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("GE_DUMP_GRAPH", detail)
    monkeypatch.setenv("GE_DUMP_GRAPH_FORMAT", "pbtxt")
    assert ge_compile([module]) == 0
    files = sorted(Path("ge_dump").glob("*.mlir"))
    text = files[0].read_text()
    assert ("dense<" in text) == (detail != "3")
    assert ("__elided__" in text) == (detail != "1")
    numbers = {int(f.stem.removeprefix("graph_")) for f in Path("ge_dump").glob("*.pbtxt")}
    assert numbers == set(range(len(files)))
    capsys.readouterr()
    assert ge_parser(["./ge_dump"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(files)
    last = len(files) - 1
    for a, b in ((files[0], files[-1]), ("ge_dump/graph_0.pbtxt", f"ge_dump/graph_{last}.pbtxt")):
        assert ge_parser(["--diff", str(a), str(a)]) == 0
        assert ge_parser(["--diff", str(a), str(b)]) == 1
    capsys.readouterr()
    for page in ("./ge_dump/", "./ge_dump/graph_0.pbtxt"):
        assert ge_visualizer([page]) == 0
    assert capsys.readouterr().out.split() == ["ge_dump.html", "graph_0.html"]
    assert "graph.softmax" in Path("graph_0.html").read_text()


def test_a_dump_in_the_text_form_of_ge(module: str, capsys: pytest.CaptureFixture[str]):
    dump = ["--dump-graph", "1", "--dump-graph-format", "pbtxt", "--until", "graph"]
    assert ge_compile([module, *dump]) == 0
    level = ge_level("ge_dump/graph_0.pbtxt")
    kinds = [n.op.removeprefix("graph.") for n in level.nodes]
    assert kinds == ["input", "matmul", "add", "softmax", "reduce", "mul", "output"]
    product, total = level.nodes[1], level.nodes[2]
    assert [o.type for o in product.operands] == ["8x64xf32", "64x32xf32"]
    assert total.operands[0].node == 1
    assert level.nodes[4].attributes["kind"] == "mean"
    capsys.readouterr()
    assert ge_parser(["./ge_dump/graph_0.pbtxt"]) == 0
    assert "graph: 5 nodes: 1 graph.matmul" in capsys.readouterr().out


OF_CANN = """\
name: "ge_default" version: 1
graph {
  name: "g" input: "x:0" output: "relu:0" a_field_of_another_version: 3
  op { name: "x" type: "Data" output_desc { dtype: DT_FLOAT16 shape { dim: -1 dim: 8 } } }
  op { name: "w" type: "Const" output_desc { dtype: DT_FLOAT16 shape { dim: 8 dim: 8 } } }
  op { name: "fc" type: "MatMulV2" input: "x:0" input: "w:0" input: "x:-1"
       attr { key: "transpose_x1" value { b: false } }
       attr { key: "axes" value { list { val_type: VT_LIST_INT i: 1 i: 2 } } }
       output_desc { name: "y" dtype: DT_FLOAT16 layout: "ND" shape { dim: -1 dim: 8 } } }
  op { name: "relu" type: "Relu" input: "fc:0" output_desc { dtype: DT_FLOAT16 } }
}
"""


def test_dumps_of_cann_are_read(module: str, capsys: pytest.CaptureFixture[str]):
    Path("ge_proto_00000001_graph_1_Build.txt").write_text(OF_CANN)
    level = ge_level("ge_proto_00000001_graph_1_Build.txt")
    assert [n.op for n in level.nodes] == ["input", "MatMulV2", "Relu", "output"]
    assert level.nodes[1].results == ["?x8xf16"]
    assert level.nodes[1].attributes == {"transpose_x1": "False", "axes": "[1, 2]"}
    assert [o.name for o in level.nodes[1].operands] == ["x", "w"]
    Path("part.pbtxt").write_text(OF_CANN.split("graph {", 1)[1].rsplit("}", 1)[0])
    assert len(ge_level("part.pbtxt").nodes) == len(level.nodes)
    assert ge_parser(["./ge_dump/graph_0.pbtxt"]) == 1
    assert "GE_DUMP_GRAPH_FORMAT=pbtxt ge-compile MODEL writes" in capsys.readouterr().err
    for text in ("nothing", "op {", "", "graph { name: 'g' }"):
        Path("bad.pbtxt").write_text(text)
        for tool in (ge_parser, ge_visualizer):
            assert tool(["bad.pbtxt"]) == 1
            said = capsys.readouterr().err
            assert "bad.pbtxt: error: " in said
            assert "internal" not in said


# ---- modules of other names ----------------------------------------------------------------------


def test_shims(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = ["--folder", str(tmp_path)]
    assert ge_shims(["install", *folder]) == 0
    code = (
        "import ascend_profiling as ap, ascend_npu as npu, ge\n"
        "from ascend_npu import Session\n"
        "assert ap.Profiler is ge.Profiler and npu.compile is ge.compile and Session is ge.Session"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=tmp_path)
    assert ge_shims(["install", "ascend_npu", *folder]) == 0
    capsys.readouterr()
    assert ge_shims(["remove", *folder]) == 0
    assert capsys.readouterr().out.count("removed") == 2
    assert not [*tmp_path.glob("*.py")]
    assert ge_shims(["remove", *folder]) == 1
    assert ge_shims(["install", "ascend_np", *folder]) == 1
    assert "did you mean 'ascend_npu'?" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["module", "package", "distribution"])
def test_a_shim_takes_no_real_packages_place(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    real = tmp_path / "site"
    file = real / "ascend_npu.py" if form == "module" else real / "ascend_npu" / "__init__.py"
    file.parent.mkdir(parents=True)
    file.write_text("# a real one\n")
    owner = str(file)
    if form == "distribution":
        info = real / "ascend_npu-2.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ascend-npu\nVersion: 2.1\n")
        (info / "top_level.txt").write_text("ascend_npu\n")
        owner = "ascend-npu 2.1"
    monkeypatch.syspath_prepend(str(real))
    (target := tmp_path / "shims").mkdir()
    assert ge_shims(["install", "--folder", str(target)]) == 1
    said = capsys.readouterr().err
    assert f"a package has the name 'ascend_npu': {owner}" in said
    assert "ge-shims install ascend_profiling" in said
    assert not [*target.iterdir()]
    assert file.read_text() == "# a real one\n"
    assert ge_shims(["install", "ascend_profiling", "--folder", str(target)]) == 0


# ---- gears ---------------------------------------------------------------------------------------

OPEN = """\
func.func @main(%x: tensor<?x?x8xf32> {graph.name = "x", graph.dims = ["b", "s", ""]})
    -> (tensor<?x?x8xf32> {graph.name = "y"}) {
  %0 = graph.relu %x : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  func.return %0 : tensor<?x?x8xf32>
}
"""


@pytest.mark.parametrize("dims", ["1,256;1,512", "-1,256;-1,512", "256;512"])
def test_dims_with_a_placeholder_for_the_batch(dims: str, tmp_path: Path):
    (tmp_path / "m.mlir").write_text(OPEN)
    program = ge.compile(str(tmp_path / "m.mlir"), dynamic_batch="1,2,4", dynamic_dims=dims)
    gears = [tuple(g["sizes"].values()) for g in program.report()["gears"]]
    assert gears == [(b, s) for b in (1, 2, 4) for s in (256, 512)]
    assert program.session().run({"x": np.ones((2, 512, 8), np.float32)})["y"].shape == (2, 512, 8)


@pytest.mark.parametrize(
    ("dims", "error"),
    [
        ("2,256;1,512", "both size 'b'"),
        ("1,-1;1,512", "E10038: gear 1 of --dynamic-dims has -1"),
        ("-1,256;2,512", "E10038: gear 1 of --dynamic-dims has -1"),
        ("1,256;1,256", "E10039"),
    ],
)
def test_what_is_no_placeholder(dims: str, error: str, tmp_path: Path):
    (tmp_path / "m.mlir").write_text(OPEN)
    with pytest.raises(ge.GeError, match=error):
        ge.compile(str(tmp_path / "m.mlir"), dynamic_batch="1,2,4", dynamic_dims=dims)
