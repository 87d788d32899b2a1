"""ge-bench: figures are those of the other tools, tables are complete, bad input is told."""

import json
from pathlib import Path

import onnx.parser
import pytest

from ge.dialects.support.functions import main_function
from ge.lowering.driver.compiler import load
from ge.lowering.driver.variants import Bench, Figures, measured, unit_of
from ge.lowering.pipeline.options import Options
from ge.tools.cli.bench import CLAIMS
from ge.tools.commands import ge_bench, ge_compile, ge_run

MODEL = """
<ir_version: 10, opset_import: ["" : 20]>
small (float[4, 64] x, float[64, 64] w, float[64] b) => (float[4, 64] y) {
  [first] a = MatMul (x, w)
  [second] c = Add (a, b)
  [third] s = Sigmoid (c)
  [fourth] m = Mul (c, s)
  [fifth] y = MatMul (m, w)
}
"""
OPEN = MODEL.replace("float[4, 64] x", "float[n, 64] x").replace("float[4, 64] y", "float[n, 64] y")


def written(folder: Path, name: str, text: str = MODEL) -> str:
    path = folder / name
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    return str(path)


def test_figures_are_those_of_the_compiler_and_the_clock(tmp_path: Path):
    model = written(tmp_path, "small.onnx")
    bench = measured(model, Options())
    for fusion, figures in (("off", bench.off), ("default", bench.default)):
        program, report = str(tmp_path / "p.mlir"), str(tmp_path / "r.json")
        flags = ["-o", program, "--report", report, "--fusion", fusion]
        assert not ge_compile([model, *flags])
        compiled = json.loads(Path(report).read_text())
        assert compiled["ops"]["launches"] == figures.launches
        assert compiled["memory"]["peak_bytes"] == figures.arena
        assert not ge_run([program, "--timing-only", "--report", report])
        time = json.loads(Path(report).read_text())["time"]
        assert time["latency_us"] == pytest.approx(figures.latency_us)
        assert time["engines"]["cube"]["utilization"] == pytest.approx(figures.busy["cube"])
    assert bench.off.launches == 5 > bench.default.launches
    assert list(bench.levels) == [0, 1, 2, 3]
    assert bench.levels[1] == bench.default
    assert bench.levels[0].arena >= bench.levels[1].arena >= bench.levels[1].bound
    assert bench.rate == pytest.approx(4e6 / bench.default.latency_us)
    assert measured(model, Options(memory=3)).default == bench.levels[3]


def test_what_is_counted():
    def unit(path: str) -> tuple[int, str]:
        main = main_function(load(path).module)
        assert main is not None
        return unit_of(main)

    assert unit("test/models/bert_base.tiny.onnx")[1] == "tokens"
    assert unit("test/models/resnet50.ts.tiny.onnx") == (1, "images")
    assert unit("test/models/sd15_unet.tiny.onnx")[1] == "samples"


def test_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    models = [written(tmp_path, name) for name in ("small.onnx", "my_unet.onnx")]
    assert not ge_bench([*models, "--precision", "fp16"])
    told = capsys.readouterr().out
    speed, memory, claims = (part.splitlines() for part in told.strip().split("\n\n"))
    for rows in (speed, memory, claims):
        assert len({line.count("|") for line in rows}) == 1
    assert [line.split("|")[1].strip() for line in speed[2:]] == ["small", "my_unet"]
    assert all(line.startswith("| my_unet |") for line in claims[2:])
    assert "127" in claims[2]
    assert "launches less" in claims[2]

    out, report = tmp_path / "t.md", tmp_path / "r.json"
    assert not ge_bench([models[0], "-o", str(out), "--report", str(report)])
    assert capsys.readouterr().out == ""
    (entry,) = json.loads(report.read_text())
    assert entry["claims"] == []
    assert f"{entry['rate']:,.0f} samples" in out.read_text()


def test_each_claim_has_a_source_or_says_that_it_has_none():
    figures = Figures(5, 10.0, "t, simulated", {"cube": 0.5, "vector": 0.1}, 10, 5, 20)
    bench = Bench("m", "t", 1, "tokens", figures, figures, {0: figures, 1: figures})
    for claim in CLAIMS:
        assert claim.source
        assert claim.models
        assert claim.ours(bench)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("no.onnx", "cannot read"),
        ("p.mlir", "fusion is compared at the graph level"),
        ("open.onnx", "shapes that are known only at run time"),
        ("small.onnx --target tpu", "unknown target 'tpu'"),
        ("small.onnx --dim n=3", "has no"),
        ("small.onnx -o small.onnx", "small.onnx"),
        ("small.onnx --zzz", "unknown option '--zzz'"),
    ],
)
def test_bad_input_is_told_in_a_line(
    source: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "small.onnx")
    written(tmp_path, "open.onnx", OPEN)
    if source == "p.mlir":
        assert not ge_compile(["small.onnx", "-o", "p.mlir"])
    capsys.readouterr()
    assert ge_bench(source.split()) == 1
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert text in told.strip().splitlines()[-1]
