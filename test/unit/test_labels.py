"""What tasks are called: the node of the model that does the work, in programs of any text."""

import csv
from pathlib import Path

import onnx.parser
import pytest

from ge.dialects.support.diagnostics import location_of
from ge.lowering.driver.compiler import load, lower
from ge.lowering.pipeline.options import Options
from ge.tools.commands import ge_compile, ge_opt, ge_run

MODEL = """
<ir_version: 10, opset_import: ["" : 20]>
seen (float[1, 8, 16, 16] image, float[8, 8, 3, 3] w, float[8] b) => (float[1, 16, 16, 8] rows,
    float[1, 16, 16, 16] both) {
  [conv] c = Conv <pads = [1, 1, 1, 1]> (image, w, b)
  [gate] s = Sigmoid (c)
  [swish] y = Mul (c, s)
  [rows] rows = Transpose <perm = [0, 2, 3, 1]> (y)
  [joined] both = Concat <axis = 1> (y, image)
}
"""
ALONE = """
<ir_version: 10, opset_import: ["" : 20]>
seen (float[1, 8, 16, 16] image, float[8, 8, 3, 3] w, float[8] b) => (float[1, 8, 16, 16] y) {
  [conv] c = Conv <pads = [1, 1, 1, 1]> (image, w, b)
  [gate] s = Sigmoid (c)
  [swish] y = Mul (c, s)
}
"""
DYNAMIC = MODEL.replace("[1, 8, 16, 16]", "[n, 8, 16, 16]")


def model(folder: Path, text: str = MODEL) -> str:
    path = folder / "seen.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    return str(path)


def labels(program: str, folder: Path) -> dict[str, str]:
    """Kind of op -> names of its tasks, of a program that is run from its text."""
    table = folder / "summary.csv"
    assert not ge_run([program, "--timing-only", "--op-summary", str(table)])
    found: dict[str, str] = {}
    for row in csv.DictReader(table.read_text().splitlines()):
        name = found.setdefault(row["OP Type"], "")
        found[row["OP Type"]] = f"{name} {row['Op Name']}".strip()
    return found


@pytest.mark.parametrize("flags", [[], ["--mlir-print-debuginfo"]])
def test_a_launch_is_called_like_the_node_that_does_the_work(tmp_path: Path, flags: list[str]):
    program = str(tmp_path / "p.mlir")
    args = [model(tmp_path, ALONE), "-o", program, "--target", "310p3", *flags]
    assert not ge_compile(args)
    found = labels(program, tmp_path)
    assert found["fused_op.conv"] == "conv"
    assert sorted(found["copy"].split()) == ["b", "image", "w", "y"]


def test_labels_stay_in_programs_that_passes_read(tmp_path: Path):
    program, again = str(tmp_path / "p.mlir"), str(tmp_path / "q.mlir")
    args = [model(tmp_path, ALONE), "-o", program, "--target", "310p3"]
    assert not ge_compile(args)
    assert not ge_opt([program, "-o", again])
    assert labels(again, tmp_path)["fused_op.conv"] == "conv"


def test_where_sizes_are_open_the_kinds_of_ops_decide(tmp_path: Path):
    program = load(model(tmp_path, DYNAMIC))
    lower(program.module, Options(target="310p3"), until="fused")
    fused = [op for op in program.module.walk() if op.name == "fused_op.conv"]
    assert [location_of(op).name for op in fused] == ["conv"]


def test_tasks_of_text_have_the_names_of_kernels(tmp_path: Path):
    source, program = tmp_path / "t.mlir", str(tmp_path / "p.mlir")
    source.write_text(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %0 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>\n"
        "  func.return %0 : tensor<4xf32>\n}\n"
    )
    assert not ge_compile([str(source), "-o", program])
    assert " loc(" not in Path(program).read_text()
    assert labels(program, tmp_path)["graph.exp"] == "exp_0"


def test_the_tables_have_no_figures_that_nobody_knows(tmp_path: Path):
    from ge.runtime.profile.tables import OP_STATISTIC, OP_SUMMARY

    unknown = {"Device_id", "Input Formats", "Output Formats"}
    assert not unknown & {*OP_SUMMARY, *OP_STATISTIC}
