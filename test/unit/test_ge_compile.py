"""The default pipeline: pass by pass with ge-opt, dumped after each pass, and from Python."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import ge
from ge.lowering.pipeline.options import FUSION_MODES, MEMORY_LEVELS, Options
from ge.lowering.pipeline.pass_options import (
    build_pipeline,
    pipeline_text,
    read_pipeline,
    text_of,
)
from ge.lowering.pipeline.remedies import Remedies
from ge.lowering.pipeline.stages import pipeline, stages
from ge.lowering.plugins.extensions import universe
from ge.tools.commands import ge_compile, ge_import, ge_opt, ge_run

MODELS = Path(__file__).resolve().parents[1] / "models"
MODEL = MODELS / "if_cond.tiny.onnx"

TIED = """
builtin.module attributes {graph.payload = "w.safetensors"} {
  func.func @main(%x: tensor<8x64xf32> {graph.name = "x"}) -> tensor<8x64xf32> {
    %a = graph.constant #graph.weight<"a"> : tensor<64x64xf32>
    %b = graph.constant #graph.weight<"b"> : tensor<64x64xf32>
    %0 = graph.matmul %x, %a : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
    %1 = graph.relu %0 : (tensor<8x64xf32>) -> tensor<8x64xf32>
    %2 = graph.matmul %1, %b : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
    func.return %2 : tensor<8x64xf32>
  }
}
"""

PLUGIN = """
from xdsl.passes import ModulePass

class CountPass(ModulePass):
    \"\"\"Count the modules that go through.\"\"\"
    name = "count-modules"
    LEVEL = "graph"
    seen = []
    def apply(self, ctx, op):
        self.seen.append(op)
"""


def test_each_pass_of_the_pipeline_is_a_flag(tmp_path: Path):
    graph, program, passes = (str(tmp_path / f"{n}.mlir") for n in ("g", "program", "passes"))
    assert ge_import([str(MODEL), "-o", graph]) == 0
    assert ge_compile([graph, "-o", program]) == 0
    flags: list[str] = []
    for text in map(text_of, pipeline(Options())):
        options = str(text).removeprefix(text.name).strip("{}")
        flags.append(f"--{text.name}={options}" if options else f"--{text.name}")
    assert ge_opt([graph, *flags, "-o", passes]) == 0
    expected = Path(program).read_text().replace("program.safetensors", "g.safetensors")
    assert Path(passes).read_text().strip() == expected.strip()
    data = np.load(MODEL.with_suffix(".npz"))
    inputs, results = str(tmp_path / "x.npz"), str(tmp_path / "y.npz")
    np.savez(inputs, **{k[3:]: data[k] for k in data.files if k.startswith("in:")})
    assert ge_run([passes, "--inputs", inputs, "--outputs", results]) == 0
    for name, array in np.load(results).items():
        np.testing.assert_allclose(array, data[f"out:{name}"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fusion", FUSION_MODES)
@pytest.mark.parametrize("memory", MEMORY_LEVELS)
def test_the_printed_pipeline_is_what_runs(fusion: str, memory: int):
    """The text of a pipeline gives equal passes when it is read back."""
    options = Options(
        "310p3", fusion, memory=memory, memory_limit=4096, no_reuse=("graph.add", "conv"),
        share_io=True, outputs=("a b", "c,d"), pieces=True, drop_unused_inputs=True,
        print_liveness=True,
    )  # fmt: skip
    remedies = Remedies(99, order=True, fuse=True, recompute=5, spill=7, slower=1.1)
    limited = [p for passes in stages(options, remedies).values() for p in passes]
    for passes in (pipeline(options), limited):
        text = pipeline_text(passes)
        assert list(build_pipeline(read_pipeline(text), universe().all_passes)) == passes


@pytest.mark.parametrize("flags", [[], ["--target=310p3", "--memory=0", "--fusion=off"]])
def test_the_printed_pipeline_does_the_same(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source = str(MODELS.parent / "tools" / "print_pipeline.mlir")
    compiled, by_passes = tmp_path / "compiled.mlir", tmp_path / "by_passes.mlir"
    assert ge_compile([source, *flags, "-o", str(compiled)]) == 0
    assert ge_compile([*flags, "--print-pipeline"]) == 0
    line = capsys.readouterr().out.strip()
    assert ge_opt([source, "-p", line, "-o", str(by_passes)]) == 0
    assert by_passes.read_text().strip() == compiled.read_text().strip()


def test_equal_weights_are_shared_by_every_tool(tmp_path: Path):
    weights = {k: np.ones((64, 64), np.float32) for k in "ab"}
    save_file(weights, tmp_path / "w.safetensors")
    module = tmp_path / "m.mlir"
    module.write_text(TIED)
    program, report = (str(tmp_path / n) for n in ("p.mlir", "r.json"))
    ge_compile([str(module), "-o", program, "--report", report])
    compiled = json.loads(Path(report).read_text())["memory"]
    ge_run([str(module), "--level", "program", "--report", report])
    assert compiled["weight_bytes"] == 64 * 64 * 4
    assert json.loads(Path(report).read_text())["memory"] == compiled
    line = ",".join(map(str, map(text_of, pipeline(Options()))))
    by_passes = str(tmp_path / "q.mlir")
    assert ge_opt([str(module), "-p", line, "-o", by_passes]) == 0
    assert Path(by_passes).read_text().count('weight<"b">') == 0


def test_dumps_are_in_the_order_of_the_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    dump, output = tmp_path / "dump", tmp_path / "out.mlir"
    monkeypatch.setenv("GE_DUMP_GRAPH", "1")
    monkeypatch.setenv("GE_DUMP_PATH", str(dump))
    assert ge_compile([str(MODEL), "-o", str(output), "--mlir-print-debuginfo"]) == 0
    files = sorted(dump.iterdir())
    names = [p.name for p in pipeline(Options())]
    assert [f.name for f in files] == [f"{i:02d}-{name}.mlir" for i, name in enumerate(names)]
    assert [f.stat().st_mtime_ns for f in files] == sorted(f.stat().st_mtime_ns for f in files)
    last = files[-1].read_text().strip().partition("\n")[2]
    assert last == output.read_text().strip().partition("\n")[2]  # but for the name of the weights
    different = {file.read_text().partition("\n")[2]: file for file in files}
    assert 1 < len(different) < len(files)  # many passes change nothing
    for file in different.values():
        assert ge_opt([str(file), "-o", os.devnull]) == 0
    assert "graph.if" in files[0].read_text()
    assert "npu_task.launch" in files[names.index("lower-to-tasks")].read_text()


def test_no_dumps_unless_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GE_DUMP_GRAPH", "0")
    monkeypatch.setenv("GE_DUMP_PATH", str(tmp_path / "dump"))
    assert ge_compile([str(MODEL), "-o", str(tmp_path / "out.mlir")]) == 0
    assert not (tmp_path / "dump").exists()


def test_a_folder_for_dumps_that_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GE_DUMP_GRAPH", "1")
    monkeypatch.setenv("GE_DUMP_PATH", str(tmp_path / "file"))
    assert ge_compile([str(MODEL), "-o", str(tmp_path / "out.mlir")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"ge-compile: error: cannot write to '{tmp_path / 'file'}': File exists")
    assert not (tmp_path / "out.mlir").exists()


def test_a_plugin_runs_from_python_too(tmp_path: Path):
    plugin = tmp_path / "plugin.py"
    plugin.write_text(PLUGIN)
    program = ge.compile(str(MODEL), custom_pass=str(plugin))
    assert "count-modules" in [p.name for p in program.compilation.passes]
    assert "count-modules" not in [p.name for p in ge.compile(str(MODEL)).compilation.passes]
