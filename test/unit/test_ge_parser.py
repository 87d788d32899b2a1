"""ge-parser: figures of modules at every level, and what became of ops, whatever the lines."""

import json
from pathlib import Path
from typing import Any

import pytest

import ge
from ge.tools.commands import ge_compile, ge_opt, ge_parser
from ge.tools.views.data import LevelGraph, LevelNode
from ge.tools.views.difference import difference

MODELS = Path(__file__).resolve().parents[1] / "models"
BERT = str(MODELS / "bert_base.tiny.onnx")


@pytest.fixture
def built(tmp_path: Path) -> str:
    """Two layers whose ops have names."""
    g = ge.Graph()
    x = g.input("x", (16, 64))
    y = g.matmul(x, g.weight("w", (64, 32), "f32"), name="first")
    y = g.relu(y, name="act")
    g.output("y", g.matmul(y, g.weight("v", (32, 16), "f32"), name="second"))
    g.save(tmp_path / "m.mlir")
    return str(tmp_path / "m.mlir")


def parsed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert ge_parser([*arguments, "--json"]) in (0, 1)
    return json.loads(capsys.readouterr().out)


def test_figures_of_a_graph(built: str, capsys: pytest.CaptureFixture[str]):
    facts = parsed(capsys, built)["facts"]
    assert facts["level"] == "graph"
    assert facts["ops"] == 3
    assert (facts["inputs"], facts["outputs"]) == ({"x": "16x64xf32"}, {"y": "16x16xf32"})
    assert facts["parameters"] == 64 * 32 + 32 * 16
    assert facts["weight_bytes"] == 4 * facts["parameters"]
    rows = {row["op"]: row for row in facts["kinds"]}
    assert rows["graph.matmul"]["macs"] == 16 * 64 * 32 + 16 * 32 * 16
    assert rows["graph.relu"]["vector"] == 16 * 32
    assert rows["graph.relu"]["bytes"] == 2 * 4 * 16 * 32
    assert facts["memory"] == {"live_bytes": 2 * 4 * 16 * 32}  # the relu's operand and result
    assert [step["name"] for step in facts["chain"]] == ["first", "act", "second"]


def test_figures_of_the_other_levels(
    built: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for until in ("fused", "tasks", "buffers", "program"):
        out = str(tmp_path / f"{until}.mlir")
        assert ge_compile([built, "--target", "310p3", "--until", until, "-o", out]) == 0
        capsys.readouterr()
        facts = parsed(capsys, out)["facts"]
        assert facts["level"] == until
        rows = {row["op"]: row for row in facts["kinds"]}
        assert rows["fused_op.linear"]["count"] == 1
        assert sum(row.get("macs", 0) for row in rows.values()) == 16 * 64 * 32 + 16 * 32 * 16
        assert facts["inside"] == 2
        assert facts["weights"] == 2
    assert facts["memory"]["peak_bytes"] > 0
    from ge.lowering.driver.compiler import load

    program = load(out)
    from ge.dialects.targets.target import target_for
    from ge.runtime.clock.clock import simulate

    timeline = simulate(program.module, target_for(next(iter(program.module.ops))))
    path = sum(step["us"] for step in facts["chain"])
    assert 0 < path <= timeline.latency_us


def test_text_for_people(capsys: pytest.CaptureFixture[str]):
    assert ge_parser([BERT, "--most", "3"]) == 0
    out = capsys.readouterr().out
    assert "ONNX: 92 nodes: 22 Add, 16 MatMul, 12 Reshape, and 14 more\n" in out
    assert "graph level: 93 ops\n" in out
    assert "more kinds" in out
    assert "shorter ones" in out


def test_what_passes_did(built: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Fused ops are found by their sources, at every level and in dumps as ONNX."""
    for until in ("fused", "program"):
        out = str(tmp_path / f"{until}.mlir")
        flags = ["--target", "310p3", "--until", until, "-o", out, "--mlir-print-debuginfo"]
        assert ge_compile([built, *flags]) == 0
        capsys.readouterr()
        found = parsed(capsys, "--diff", built, out)
        joined = next(c for c in found["changes"] if c["kind"] == "joined")
        assert [n["name"] for n in joined["before"]] == ["first", "act"]
        assert joined["after"][0]["name"] == "first"
        assert found["by"] == "source"
    assert ge_parser(["--diff", built, built]) == 0
    assert "3 ops are the same; nothing differs" in capsys.readouterr().out


def test_dumps_of_both_forms(
    built: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GE_DUMP_GRAPH", "1")
    for form in ("mlir", "onnx"):
        folder = tmp_path / form
        monkeypatch.setenv("GE_DUMP_PATH", str(folder))
        monkeypatch.setenv("GE_DUMP_GRAPH_FORMAT", form)
        flags = ["-p", "infer-shapes,fuse-linear{target=310p3}", "-o", str(tmp_path / "out.mlir")]
        assert ge_opt([built, *flags]) == 0
        assert ge_parser([str(folder)]) == 0
        listed = capsys.readouterr().out.splitlines()
        assert listed[0].split() == ["3", "ops", "graph", f"00-infer-shapes.{form}"]
        files = [str(folder / f"{stem}.{form}") for stem in ("00-infer-shapes", "01-fuse-linear")]
        assert ge_parser(["--diff", *files]) == 1
        assert "first" in capsys.readouterr().out
    plain, onnx = (str(tmp_path / form / f"00-infer-shapes.{form}") for form in ("mlir", "onnx"))
    assert ge_parser(["--diff", plain, onnx]) == 0


def test_texts_without_locations(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Ops are matched in order; a place in the file itself is no source."""
    text = """
func.func @main(%x: tensor<4xf32> {graph.name = "x"}) -> tensor<4xf32> {
  %0 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.elu %0 alpha 0.5 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
"""
    (tmp_path / "a.mlir").write_text(text)
    other = text.replace("0.5", "0.7").replace("  %1", "\n\n  %2 = graph.neg %x : "
        "(tensor<4xf32>) -> tensor<4xf32>\n  %1")  # fmt: skip
    (tmp_path / "b.mlir").write_text(other)
    assert ge_parser(["--diff", str(tmp_path / "a.mlir"), str(tmp_path / "b.mlir")]) == 1
    first, *changes = capsys.readouterr().out.splitlines()
    assert first.startswith("1 ops are the same; ")
    assert first.endswith("(matched by kind and type, in order)")
    assert any(c.startswith("~ elu: alpha") and "-> 7.0" in c for c in changes), changes
    assert "+ graph.neg" in changes


def graph_of(*nodes: LevelNode) -> LevelGraph:
    return LevelGraph("graph", "", 0, list(nodes))


def test_all_kinds_of_changes():
    a, b, c, d, e = (LevelNode(n, "graph.exp", [n], results=["4xf32"]) for n in "abcde")
    wide = LevelNode("a", "graph.exp", ["a"], results=["4xf16"])
    parts = [LevelNode(f"b{i}", "graph.exp", ["b"], results=["2xf32"]) for i in range(2)]
    fused = LevelNode("c", "fused_op.region", ["c", "d"], results=["4xf32"])
    new = LevelNode("new", "graph.exp", ["f"], results=["4xf32"])
    found = difference(graph_of(a, b, c, d, e), graph_of(wide, *parts, fused, new))
    assert [str(change) for change in found.changes] == [
        "~ a: 4xf32 -> 4xf16",
        "< graph.exp b -> graph.exp b0, graph.exp b1",
        "> graph.exp c, graph.exp d -> fused_op.region c",
        "- graph.exp e",
        "+ graph.exp new",
    ]
    assert found.same == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["--diff", BERT, "{models}/resnet50.ts.tiny.onnx"],
            "of different models: their inputs are",
        ),
        (["{empty}"], "no dumps (NN-PASS.mlir) in this folder"),
        (["{missing}"], "cannot open"),
        ([], "a file is missing"),
        (["--diff", BERT, BERT, BERT], "--diff A B takes two files"),
    ],
)
def test_bad_input(
    arguments: list[str], error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "empty").mkdir()
    places = {"empty": tmp_path / "empty", "missing": tmp_path / "no.mlir", "models": MODELS}
    assert ge_parser([a.format(**places) for a in arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert error in line


def test_models_that_share_no_node():
    nodes = [LevelNode(n, "graph.exp", [n]) for n in "abcdefghijkl"]
    others = [LevelNode(n, "graph.exp", [n.upper()]) for n in "abcdefghijkl"]
    with pytest.raises(ge.GeError, match="share 0 of 12 and 12 nodes"):
        difference(graph_of(*nodes), graph_of(*others))


def test_pictures(built: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any):
    """SVG is what graphviz's dot makes of the text; without it that is an error."""
    flags = [built, "-o", str(tmp_path / "out.mlir"), f"--view-op-graph=file={tmp_path / 'x.svg'}"]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ge_opt(flags) == 1
    assert "install graphviz, or write a .dot file" in capsys.readouterr().err
    tool = tmp_path / "dot"
    tool.write_text('#!/bin/sh\n[ "$1" = -Tsvg ] && echo "<svg>" && exec /bin/cat\n')
    tool.chmod(0o755)
    assert ge_opt(flags) == 0
    picture = (tmp_path / "x.svg").read_text()
    assert picture.startswith("<svg>\ndigraph")
    assert "first" in picture
