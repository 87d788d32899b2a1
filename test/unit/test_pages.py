"""What pages show: levels, modules, passes, times; of compilations that fail, too."""

import hashlib
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import onnx
import pytest

import ge.tools.views.make as pages
from ge.runtime.profile.what_if import PARTS
from ge.tools.commands import ge_compile, ge_run, ge_visualizer
from ge.tools.views.data import Noted, plain
from ge.tools.views.make import settle
from ge.tools.views.model import Modules, Sourced, common
from ge.tools.views.verdict import covered

MODELS = Path(__file__).resolve().parents[1] / "models"
BERT = str(MODELS / "bert_base.tiny.onnx")
VENDOR = Path(pages.__file__).parent / "vendor"


TEXT = """\
func.func @main(%x: tensor<8x64xf32> {graph.name = "x"}) -> (tensor<8x16xf32> {graph.name = "y"}) {
  %w = graph.constant #graph.weight<"w"> : tensor<64x32xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<32x16xf32>
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.relu %0 : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %2 = graph.matmul %1, %v : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  func.return %2 : tensor<8x16xf32>
}
"""


@pytest.fixture
def small(tmp_path: Path) -> str:
    """A module of two products."""
    file = tmp_path / "small.mlir"
    file.write_text(TEXT)
    return str(file)


def shown(file: Path) -> dict[str, Any]:
    text = file.read_text("utf-8")
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', text, re.S)
    assert found is not None
    return json.loads(found[1])


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("page") / "bert.html"
    assert ge_visualizer([BERT, "--target", "910_merged", "-o", str(file)]) == 0
    return shown(file)


def level(payload: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return next(one["nodes"] for one in payload["levels"] if one["name"] == name)


def test_levels_and_links(bert: dict[str, Any]):
    names = [one["name"] for one in bert["levels"]]
    assert names == ["model", "graph", "fused", "tasks", "buffers", "program"]
    fused, program = level(bert, "fused"), level(bert, "program")
    launched = [n["task"] for n in fused if "task" in n]
    assert len(launched) == len(set(launched)) == bert["report"]["ops"]["launches"]
    for node in fused:
        if "task" in node:
            assert node["sources"] == program[node["task"]]["sources"]
            assert node.get("module") == program[node["task"]].get("module")
    for node in level(bert, "graph"):
        if "group" in node:
            inside = [n for n in fused if n.get("parent") == node["group"]]
            assert any((n["op"], n["sources"]) == (node["op"], node["sources"]) for n in inside)


def test_operands_lead_to_what_makes_them(bert: dict[str, Any]):
    for one in bert["levels"]:
        for number, node in enumerate(one["nodes"]):
            for _, _, maker in node.get("operands", []):
                assert maker < number or one["nodes"][maker].get("parent") == number


def test_passes_that_touched_an_op(bert: dict[str, Any]):
    steps = [step["name"] for step in bert["steps"]]
    touched = [(steps[t["step"]], t["what"]) for t in bert["history"]["node_linear"]]
    assert ("fuse-linear", "made") in touched
    assert ("lower-to-tasks", "made") in touched  # the launch names all that it computes
    assert ("find-activations", "made") not in touched
    assert steps[bert["history"]["node_Erf_113"][0]["step"]] == "find-activations"


def test_times_add_up(bert: dict[str, Any]):
    time = bert["time"]
    assert sum(t["engine"] == "cube" for t in time["tasks"]) > 0
    last = max(t["start_us"] + t["duration_us"] for t in time["tasks"])
    assert last == pytest.approx(time["latency_us"], rel=1e-5)
    assert len(bert["verdict"]) == 5
    arena = bert["memory"]["segments"][0]
    assert arena["name"] == "arena"
    assert arena["peak_bytes"] == bert["memory"]["figures"]["peak_bytes"]
    parts = {w["change"].partition("=")[0] for w in bert["what_if"]}
    assert parts == set(PARTS)


def test_all_tools_write_the_same_page(tmp_path: Path, small: str):
    seen, run, compiled = (tmp_path / f"{name}.html" for name in ("seen", "run", "compiled"))
    assert ge_visualizer([small, "-o", str(seen)]) == 0
    assert ge_run([small, "--timing-only", "--html", str(run)]) == 0
    assert ge_compile([small, "--html", str(compiled)]) == 0
    for part in ("levels", "history", "memory", "time", "what_if", "verdict"):
        assert shown(run)[part] == shown(compiled)[part] == shown(seen)[part]


def test_a_program_alone(tmp_path: Path, small: str):
    program, file = tmp_path / "p.mlir", tmp_path / "p.html"
    assert ge_compile([small, "-o", str(program)]) == 0
    assert ge_visualizer([str(program), "-o", str(file)]) == 0
    payload = shown(file)
    assert [one["name"] for one in payload["levels"]] == ["program"]
    assert payload["time"]["latency_us"] > 0


def test_a_failed_compile_shows_how_far_it_got(
    tmp_path: Path, small: str, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "failed.html"
    assert ge_compile([small, "--memory-limit", "512", "--html", str(file)]) == 1
    assert f"note: {file} shows how far it got" in capsys.readouterr().err
    payload = shown(file)
    assert payload["failure"]["pass"] == "check-capacity"
    assert "512" in payload["failure"]["message"]
    assert [one["name"] for one in payload["levels"]][:3] == ["model", "graph", "fused"]
    assert "time" not in payload


def test_a_model_that_cannot_be_imported_is_shown_with_the_node(tmp_path: Path):
    x, y = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2, 3]) for n in "xy")
    nodes = [
        onnx.helper.make_node("Relu", ["x"], ["a"], name="fine"),
        onnx.helper.make_node("Det", ["a"], ["y"], name="odd"),
    ]
    model = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [x], [y])), model)
    assert ge_visualizer([str(model), "-o", str(tmp_path / "m.html")]) == 1
    (level,) = shown(tmp_path / "m.html")["levels"]
    assert [n["name"] for n in level["nodes"]] == ["x", "fine", "odd", "y"]
    assert ["broken" in n for n in level["nodes"]] == [False, False, True, False]


def test_sizes_that_are_open(tmp_path: Path):
    """Without sizes there is no time, and the page says so; gears have one, and so have sizes."""
    ports = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["b", 64]) for n in "xy"]
    node = onnx.helper.make_node("Relu", ["x"], ["y"], name="relu")
    graph = onnx.helper.make_graph([node], "g", ports[:1], ports[1:])
    model, page = str(tmp_path / "m.onnx"), str(tmp_path / "m.html")
    onnx.save(onnx.helper.make_model(graph), model)
    cases = {(): False, ("--dim", "b=4"): True, ("--dynamic-batch", "1,2"): True}
    for flags, timed in cases.items():
        assert ge_visualizer([model, "-o", page, *flags]) == 0
        payload = shown(Path(page))
        assert ("time" in payload) == timed == ("untimed" not in payload)
    program = str(tmp_path / "p.mlir")
    assert ge_compile([model, "-o", program]) == 0
    assert ge_visualizer([program, "-o", page, "--dim", "b=4"]) == 0
    assert shown(Path(page))["time"]["latency_us"] > 0


def test_nothing_is_written_where_nothing_was_read(tmp_path: Path):
    page = tmp_path / "m.html"
    assert ge_compile([str(tmp_path / "none.onnx"), "--html", str(page)]) == 1
    assert not page.exists()


def test_dumps(tmp_path: Path, small: str, capsys: pytest.CaptureFixture[str]):
    dumps, file = tmp_path / "dumps", tmp_path / "page.html"
    dump = ["--dump-graph", "1", "--dump-path", str(dumps)]
    assert ge_compile([small, *dump]) == 0
    assert ge_visualizer([str(dumps), "-o", str(file)]) == 0
    assert [one["name"] for one in shown(file)["levels"]][-1] == "program"
    assert ge_visualizer([str(MODELS), "-o", str(file)]) == 1
    assert "no dumps (NN-PASS.mlir) in this folder" in capsys.readouterr().err


def test_a_chance_taken_in_another_way_costs_nothing():
    noted = [
        Noted("fuse", True, "graph.add", "a", "", 1),
        Noted("fuse", False, "graph.add", "a", "a cycle", 1, 3.0),
        Noted("fuse", False, "graph.add", "b", "a cycle", 1, 3.0),
        Noted("sort", False, "graph.add", "a", "", 1, 3.0),
    ]
    settle(noted)
    assert [n.settled for n in noted] == [None, True, None, None]


def test_modules_by_scopes_weights_and_neighbours():
    nodes = [
        Sourced("a", ["m.layers.0.norm.weight", "m.layers.0.norm.bias"]),
        Sourced("b"),
        Sourced("c", ["m.layers.0.mlp.up.weight"]),
        Sourced("d", ["m.layers.0.norm.bias", "a.scale"]),  # read by others too, of a node
        Sourced("e", ["m.layers.1.norm.weight"]),
        Sourced("/m/head/Add"),
        Sourced("/m/head/Mul"),
        Sourced("e/Fusion"),  # of no other node
        Sourced("f", ["m.layers.0.norm.bias", "a.scale"], scope="m.head.act"),
    ]
    modules = Modules.of(nodes)
    assert modules.paths == {
        "a": ("layers.0", "norm"),
        "b": ("layers.0",),
        "c": ("layers.0", "mlp", "up"),
        "d": ("layers.0",),  # between two layers: of the first
        "e": ("layers.1", "norm"),
        "/m/head/Add": ("head",),
        "/m/head/Mul": ("head",),
        "e/Fusion": ("head",),
        "f": ("head", "act"),
    }
    assert common([]) == ()
    assert modules.module_of(["b", "c"]) == "layers.0/mlp/up"  # b is a guess
    assert modules.module_of(["a", "c"]) == "layers.0"
    assert modules.module_of(["nobody"]) == ""


def test_bytes_that_share_places_count_once():
    assert covered([(0, 10), (5, 12), (20, 21)]) == 13
    assert covered([]) == 0


def test_what_is_empty_is_left_out():
    assert plain({"a": 1.23456789, "b": (1, [])}) == {"a": 1.234568, "b": [1, []]}


def test_nothing_ends_the_script_that_holds_the_data():
    assert "</script" not in pages.script('{"name": "</script><script>alert(1)"}')
    text = pages.page({"model": "</script>", "levels": []}, "<title>")
    assert "<title>&lt;title&gt;</title>" in text


def test_a_page_asks_for_nothing():
    text = pages.page({"model": "m"}, "m")
    assert "default-src 'none'" in text
    assert not re.search(r'(?:src|href)="?https?:', text)


def test_libraries_are_those_of_the_named_versions():
    table = tomllib.loads((VENDOR / "versions.toml").read_text("utf-8"))
    assert {f"{name}.min.js" for name in table} == set(pages.LIBRARIES)
    for name, row in table.items():
        data = (VENDOR / f"{name}.min.js").read_bytes()
        assert hashlib.sha256(data).hexdigest() == row["sha256"], name
        assert (VENDOR / f"{name}.LICENSE").read_text("utf-8").strip()
    assert sum((VENDOR / name).stat().st_size for name in pages.LIBRARIES) < 1_000_000
