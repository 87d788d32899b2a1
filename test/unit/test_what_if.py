"""What-if: several changes at once, and models that are compiled anew for the other target."""

import json
from pathlib import Path
from typing import Any

import onnx.parser
import pytest

from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target, toml_text
from ge.runtime.profile.what_if import changed, needs_compiling
from ge.tools.commands import ge_compile, ge_run

MODEL = """
<ir_version: 10, opset_import: ["" : 20]>
m (float[512, 512] x, float[512, 512] w) => (float[512, 512] y) {
  [first] a = MatMul (x, w)
  [second] y = Relu (a)
}
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx.parser.parse_model(MODEL).SerializeToString())
    return str(path)


def run(folder: Path, source: str, *flags: str) -> dict[str, Any]:
    report = folder / "report.json"
    assert not ge_run([source, "--timing-only", *flags, "--report", str(report)])
    return json.loads(report.read_text())["time"]


@pytest.mark.parametrize("name", Target.presets())
def test_a_target_is_read_as_it_is_written(name: str, tmp_path: Path):
    path = tmp_path / "t.toml"
    path.write_text(toml_text(Target.load(name)))
    assert Target.load(str(path)) == Target.load(name)


def test_several_changes_at_once():
    target = changed(Target.load(), "launch_us=0.5, cube=2x,clock_ghz=1")
    assert (target.launch_us, target.clock_ghz) == (0.5, 1.0)
    assert target.macs_per_cycle["f16"] == 2 * Target.load().macs_per_cycle["f16"]
    assert target.name.endswith("with launch_us=0.5, cube=2x, clock_ghz=1")
    with pytest.raises(GeError, match="'macs_per_cycle' is changed twice"):
        changed(Target.load(), "cube=2x,macs_per_cycle=3x")
    with pytest.raises(GeError, match="cannot read the change ','"):
        changed(Target.load(), ",")


def test_sizes_may_change_where_programs_are_compiled_anew():
    assert needs_compiling("launch_us=1,cube_cores=2x")
    assert not needs_compiling("launch_us=1")
    target = changed(Target.load(), "cube_cores=0.5x,hbm_bytes=2x", anew=True)
    assert target.cube_cores == Target.load().cube_cores / 2
    with pytest.raises(GeError, match=r"'cube_cores' is an integer, not 2\.5"):
        changed(Target.load(), "cube_cores=2.5", anew=True)
    with pytest.raises(GeError, match="--what-if-recompile compiles the model"):
        changed(Target.load(), "cube_cores=2x")


def test_what_is_compiled_anew_takes_as_long_as_when_it_is(
    tmp_path: Path, model: str, capfd: pytest.CaptureFixture[str]
):
    flags = ["--what-if", "launch_us=0.5,hbm_bandwidth=2x", "--what-if", "cube_cores=0.25x"]
    time = run(tmp_path, model, *flags, "--what-if-recompile")
    assert [w["change"] for w in time["what_if"]] == ["launch_us=0.5,hbm_bandwidth=2x"]
    told, notes = capfd.readouterr()
    assert "is kept as it was compiled" not in notes
    for compiled in time["what_if_compiled"]:
        target, program = tmp_path / "t.toml", str(tmp_path / "p.mlir")
        target.write_text(toml_text(changed(Target.load(), compiled["change"], anew=True)))
        assert not ge_compile([model, "-o", program, "--target", str(target)])
        assert run(tmp_path, program)["latency_us"] == pytest.approx(compiled["latency_us"])
        assert f"compiled for {compiled['change']}: " in told
    program = str(tmp_path / "q.mlir")
    assert not ge_compile([model, "-o", program])
    again = run(tmp_path, program, *flags, "--what-if-recompile", "--model", model)
    assert again["what_if_compiled"] == time["what_if_compiled"]


def test_a_kept_program_is_told_of(tmp_path: Path, model: str, capfd: pytest.CaptureFixture[str]):
    run(tmp_path, model, "--what-if", "cube=2x")
    told = capfd.readouterr().err
    assert "note: the program is kept as it was compiled, with its tilings" in told


def test_changes_that_cannot_be_tried_are_told_in_a_line(
    tmp_path: Path, model: str, capfd: pytest.CaptureFixture[str]
):
    program = str(tmp_path / "p.mlir")
    assert not ge_compile([model, "-o", program])
    for arguments, text in (
        ([model, "--what-if-recompile"], "--what-if-recompile needs --what-if"),
        ([program, "--what-if", "cube=2x", "--what-if-recompile"], "give --model MODEL"),
        ([model, "--what-if", "cube=2x,cubes=2x"], "has no 'cubes'; did you mean cube?"),
        ([model, "--what-if", "l1_bytes=2x"], "--what-if-recompile compiles the model"),
    ):
        capfd.readouterr()
        assert ge_run([*arguments, "--timing-only"]) == 1
        lines = capfd.readouterr().err.strip().splitlines()
        assert len(lines) == 1
        assert text in lines[0]
    too_small = ["--what-if", "hbm_bytes=1e-9x", "--what-if-recompile"]
    assert ge_run([model, "--timing-only", *too_small]) == 1
    time = run(tmp_path, model, "--what-if", "hbm_bytes=1000", "--what-if-recompile")
    assert "not possible" in capfd.readouterr().out
    assert "why" in time["what_if_compiled"][0]
