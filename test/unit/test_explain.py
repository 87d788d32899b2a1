"""`ge-run --explain`: what bounds a program, what helps, and that what is claimed is measured."""

import json
import shlex
from pathlib import Path
from typing import Any

import onnx.parser
import pytest

from ge.dialects.targets.target import Target
from ge.lowering.driver.compiler import load, lower
from ge.lowering.driver.variants import Refused, Variant, variants_of
from ge.lowering.pipeline import option_values
from ge.lowering.pipeline.options import Options
from ge.runtime.clock.clock import simulate
from ge.runtime.profile import limits
from ge.tools.commands import ge_compile, ge_run

WIDE = """
<ir_version: 10, opset_import: ["" : 20]>
wide (float[1024, 1024] x, float[1024, 1024] w) => (float[1024, 1024] y) {
  [first] a = MatMul (x, w)
  [second] b = MatMul (a, w)
  [third] y = MatMul (b, w)
}
"""

DECODE = """
<ir_version: 10, opset_import: ["" : 20]>
decode (float16[1, 64] x, float16[4095, 4096] past_0) => (float16[1, 4096] y,
    float16[4096, 4096] present_0) {
  [row] r = Concat <axis = 1> (%s)
  [grown] present_0 = Concat <axis = 0> (past_0, r)
  [read] y = ReduceMax <keepdims = 1> (present_0, axis)
}
"""

BATCHED = """
<ir_version: 10, opset_import: ["" : 20]>
batched (float[batch, 64] x, float[64, 64] w) => (float[batch, 64] y) {
  [first] a = MatMul (x, w)
  y = Relu (a)
}
"""

WEIGHTED = """
<ir_version: 10, opset_import: ["" : 20]>
weighted (float[8, 2] x) => (float[8, 2] y) <float[2, 2] w = {1.5, -2, 3, 4}> { y = MatMul (x, w) }
"""

# Those of a test that is about something else
FEW = ("--explain-variants", "fp16,bf16,share-io,state")

FLAGS = ["--timing-only", "--explain", "3"]


def written(folder: Path, text: str, name: str = "m.onnx") -> str:
    path = folder / name
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    return str(path)


def explained(folder: Path, model: str, *flags: str) -> dict[str, Any]:
    report = folder / "report.json"
    assert not ge_run([model, *FLAGS, *flags, "--report", str(report)])
    return json.loads(report.read_text())["time"]["explained"]


def decode(folder: Path) -> str:
    """A cache that crosses the link both ways, and hardly anything to compute."""
    copies = ", ".join(["x"] * 64)
    text = (
        DECODE.replace("%s", copies)
        .replace("axis)", "a)")
        .replace("[read]", "a = Constant <value_ints = [0]> ()\n  [read]")
    )
    return written(folder, text)


# ---- what bounds it --------------------------------------------------------------------------


def test_what_the_latency_is_made_of_adds_up():
    for source in ("test/models/bert_base.tiny.onnx", "test/runtime/clock.mlir"):
        program = load(source)
        lower(program.module, Options(target="910_merged"))
        timeline = simulate(program.module, Target.load("910_merged"))
        parts = limits.made_of(timeline)
        assert sum(parts.values()) == pytest.approx(timeline.latency_us)
        assert all(us > 0 for us in parts.values())


def test_a_kernel_is_bound_by_the_pipe_that_is_busy_longest(tmp_path: Path):
    found = explained(tmp_path, written(tmp_path, WIDE), "--explain-variants", "none")
    kernel = next(k for k in found["kernels"] if k["kernel"].startswith("@"))
    assert kernel["bound"] == limits.PRODUCTS
    assert kernel["nodes"] == ["first", "second", "third"]
    assert kernel["runs"] == 3
    us = kernel["limits_us"]
    assert us[limits.PRODUCTS] == max(us.values()) <= kernel["total_us"]
    assert found["tried"] == []
    program = load("test/models/bert_base.tiny.onnx")
    lower(program.module, Options(target="910_merged"))
    timeline = simulate(program.module, Target.load("910_merged"))
    launches = [k for k in limits.kernels_of(timeline) if k.name.startswith("@")]
    assert {k.ranked[0][0] for k in launches} == {limits.LAUNCH}  # they are tiny
    assert sum(k.total_us for k in launches) == pytest.approx(
        sum(t.duration_us for t in timeline.tasks if t.kernel is not None)
    )


def test_a_kernel_that_starts_slowly_is_bound_by_its_launch(tmp_path: Path):
    model = written(tmp_path, WIDE.replace("1024", "64"))
    found = explained(tmp_path, model, "--explain-variants", "none", "--target", "910b2")
    kernel = next(k for k in found["kernels"] if k["kernel"].startswith("@"))
    launch = Target.load("910b2").launch_us
    assert kernel["bound"] == limits.LAUNCH
    assert kernel["limits_us"][limits.LAUNCH] > launch * kernel["runs"]


def test_launches_of_branches_and_loops_are_those_of_the_host():
    program = load("test/models/if_cond.tiny.onnx")
    lower(program.module, Options(target="910_merged"))
    target = Target.load("910_merged")
    timeline = simulate(program.module, target)
    costs = {limits.launch_cost(t, target) for t in timeline.tasks}
    assert costs == {target.launch_us, target.host_launch_us}
    parts = limits.made_of(timeline)
    assert next(iter(parts)) == limits.LAUNCH
    assert parts.get(limits.WAITING, 0.0) < 1.0


# ---- what helps ------------------------------------------------------------------------------


def separately(folder: Path, model: str, flags: str) -> tuple[float, dict[str, int]]:
    """Latency and figures of memory of a program that is compiled with flags and run from its
    text."""
    program, report, compiled = (str(folder / n) for n in ("p.mlir", "p.json", "c.json"))
    assert not ge_compile([model, "-o", program, "--report", compiled, *shlex.split(flags)])
    assert not ge_run([program, "--timing-only", "--report", report])
    memory = json.loads(Path(compiled).read_text())["memory"]
    return json.loads(Path(report).read_text())["time"]["latency_us"], memory


@pytest.mark.parametrize("kind", [pytest.param("wide", marks=pytest.mark.soak), "decode"])
def test_each_gain_is_the_one_measured_when_the_change_is_made(tmp_path: Path, kind: str):
    model = written(tmp_path, WIDE) if kind == "wide" else decode(tmp_path)
    names = {"wide": "fp16,pieces", "decode": "state,share-io,memory3"}[kind]
    found = explained(tmp_path, model, "--explain-variants", names)
    assert {t["name"] for t in found["tried"]} >= set(names.split(","))
    for tried in found["tried"]:
        us, memory = separately(tmp_path, model, tried["flags"])
        assert us == pytest.approx(tried["latency_us"]), tried["flags"]
        keys = ("peak_bytes", "weight_bytes", "io_bytes", "state_bytes", "workspace_bytes")
        assert sum(memory.get(k, 0) for k in keys) == tried["bytes"]
    times = [t["us"] for t in found["tried"]]
    assert times == sorted(times)


def test_products_in_f32_are_told_of_f16(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    found = explained(tmp_path, written(tmp_path, WIDE), "--target", "910_merged", *FEW)
    told, progress = capfd.readouterr()
    assert "with other floats: --precision" in told
    assert "[1 of " in progress
    kernel = told.rpartition("@matmul_0")[2].partition("fastest with ")[2]
    assert kernel.startswith("--precision ")
    assert "the model is not in f32" not in found["not_tried"].values()


def test_copies_of_a_cache_are_told_of_state(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    found = explained(tmp_path, decode(tmp_path), *FEW)
    assert next(iter(found["made_of_us"])) == limits.LINK
    told = capfd.readouterr().out
    assert "with the same numbers: --state 'past_(.*)=present_\\1'" in told
    assert found["not_tried"]["fp16"] == "the model is not in f32"
    together = next(t for t in found["tried"] if t["name"] == "all that help")
    assert "--state" in together["flags"]
    assert together["numbers"] == "same"


def test_more_samples_at_a_time(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    model = written(tmp_path, BATCHED)
    flags = ("--explain-variants", "batch")
    found = explained(tmp_path, model, "--dim", "batch=2", *flags)
    assert [t["samples"] for t in found["tried"]] == [8, 4, 2]
    for tried in found["tried"]:
        assert tried["us"] == tried["latency_us"] / tried["samples"]
        assert tried["flags"] == f"--dim batch={2 * tried['samples']}"
    assert "in place of" in capfd.readouterr().out
    found = explained(tmp_path, written(tmp_path, WIDE), *flags)
    assert "symbolic first dimension" in found["not_tried"]["batch"]


def test_integers_need_samples_where_there_are_weights(tmp_path: Path):
    model = written(tmp_path, WEIGHTED)
    flags = ("--explain-variants", "int8,w8a16")
    found = explained(tmp_path, model, *flags)
    assert "int8 needs calibration" in found["not_tried"]["int8"]
    assert [t["name"] for t in found["tried"]] == ["w8a16"]


def test_all_names_stand_for_something():
    model = load("test/models/bert_base.tiny.onnx")
    found = list(variants_of(option_values.VARIANTS, model, Options()))
    whole = {v.name: v.flags for v in found if isinstance(v, Variant)}
    assert whole["target 310p3"] == "--target 310p3"
    assert f"target {Options.target}" not in whole
    refused = {r.name for r in found if isinstance(r, Refused)}
    assert refused == {"state", "batch"}
    assert set(option_values.FIXED_VARIANTS) <= whole.keys()
    again = list(variants_of(("fp16", "int8"), model, Options(precision="bf16", quantize="int8")))
    assert all(isinstance(r, Refused) for r in again)


# ---- of a program ----------------------------------------------------------------------------


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = str(tmp_path / "p.mlir")
    model = written(tmp_path, WIDE)
    assert not ge_compile([model, "-o", path, "--precision", "bf16"])
    return path


def test_a_program_alone_has_no_changes_to_try(tmp_path: Path, program: str):
    found = explained(tmp_path, program)
    assert found["tried"] == []
    assert "--model" in found["not_tried"]["all changes"]


def test_with_its_model_a_program_is_compared(tmp_path: Path, program: str):
    model = str(tmp_path / "m.onnx")
    found = explained(tmp_path, program, "--model", model, "--explain-variants", "bf16")
    by_name = {t["name"]: t["us"] for t in found["tried"]}
    us = json.loads((tmp_path / "report.json").read_text())["time"]["latency_us"]
    assert by_name["bf16"] == pytest.approx(us)
    assert by_name["compiled anew"] > us


def refusal(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a tool refuses with."""
    capfd.readouterr()
    assert ge_run(list(arguments)) == 1
    told = capfd.readouterr().err
    assert "Traceback" not in told
    return told.strip().splitlines()[-1]


def test_what_cannot_be_explained_is_told_in_a_line(
    tmp_path: Path, program: str, capfd: pytest.CaptureFixture[str]
):
    model, other = str(tmp_path / "m.onnx"), written(tmp_path, BATCHED, "other.onnx")
    smaller = written(tmp_path, WIDE.replace("1024", "64"), "smaller.onnx")
    line = refusal(capfd, program, *FLAGS, "--model", other)
    assert "the program is of another model" in line
    line = refusal(capfd, program, *FLAGS, "--model", smaller)
    assert "or of other sizes: its input is x: float32[1024, 1024]" in line
    assert "this is a model" in refusal(capfd, model, *FLAGS, "--model", model)
    assert "no model at the graph level" in refusal(capfd, program, *FLAGS, "--model", program)
    assert "cannot read" in refusal(capfd, program, *FLAGS, "--model", str(tmp_path / "no.onnx"))
    line = refusal(capfd, model, *FLAGS, "--explain-variants", "fp17")
    assert "did you mean 'fp16'?" in line
    assert "needs --explain" in refusal(capfd, model, "--explain-variants", "fp16")
    assert "needs --explain" in refusal(capfd, program, "--model", model)
    assert "drop --dispatch" in refusal(capfd, model, *FLAGS, "--dispatch", "eager")
    assert "at least 1" in refusal(capfd, model, "--timing-only", "--explain=0")


def test_numbers_are_computed_only_where_they_are_asked_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    model = "test/models/bert_base.structure.onnx"  # without weights
    assert not ge_run([model, "--explain", "--explain-variants", "none"])
    assert "along the critical path" in capfd.readouterr().out
    small, out = written(tmp_path, WEIGHTED), tmp_path / "y.npz"
    flags = ["--explain", "--explain-variants", "none", "--outputs", str(out)]
    assert not ge_run([small, *flags])
    assert out.exists()


def test_the_input_may_follow_the_flag(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    model = written(tmp_path, BATCHED.replace("batch,", "2,"))
    assert not ge_run(["--explain", model, "--timing-only", "--explain-variants", "none"])
    assert "along the critical path" in capfd.readouterr().out
