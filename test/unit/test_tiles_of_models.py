"""Launches on tile programs: kernels, programs and models, both ways."""

import json
import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import assert_close, compare

from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.lowering.driver.compiler import compile_file, load
from ge.lowering.pipeline.options import Options
from ge.runtime.clock.clock import simulate
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.profile import opened
from ge.runtime.profile.tables import op_summary, time_report
from ge.tools.commands import ge_check, ge_compile, ge_run

RELU = """
func.func @main(%x: tensor<9x511xf32>) -> tensor<9x511xf32> {
  %0 = graph.relu %x : (tensor<9x511xf32>) -> tensor<9x511xf32>
  func.return %0 : tensor<9x511xf32>
}
"""

# one kernel has no program, and another one is launched in a loop
PROGRAM = """
func.func @main(%x: tensor<9x511xf32>, %n: tensor<i64>) -> (tensor<9x511xf32>, tensor<9x1xi64>) {
  %0 = graph.relu %x : (tensor<9x511xf32>) -> tensor<9x511xf32>
  %1 = graph.arg_reduce max %0 axis 1 : (tensor<9x511xf32>) -> tensor<9x1xi64>
  %2 = graph.loop (%i, %go) trip %n : tensor<i64>
    carry (%v : tensor<9x511xf32> = %0 : tensor<9x511xf32>) -> (tensor<9x511xf32>) {
    %3 = graph.neg %v : (tensor<9x511xf32>) -> tensor<9x511xf32>
    graph.yield %go, %3 : tensor<i1>, tensor<9x511xf32>
  }
  func.return %2, %1 : tensor<9x511xf32>, tensor<9x1xi64>
}
"""


def test_a_kernel_of_one_op():
    lowered = compare(RELU, all_lowered=True, exact=True, orders=3)
    assert [k.tiles.data for k, _ in lowered.pairs if k.tiles] == ["relu_0_tiles"]


def compiled(tmp_path: Path, text: str, *flags: str) -> Path:
    (tmp_path / "m.mlir").write_text(text)
    path = tmp_path / "p.mlir"
    options = ["-o", str(path), "--report", str(tmp_path / "r.json"), "--fusion", "off", *flags]
    options += ["--tile-cache", "off"]
    assert not ge_compile.run([str(tmp_path / "m.mlir"), *options])
    return path


def outputs(path: Path, tmp_path: Path, *flags: str) -> dict[str, Any]:
    given = tmp_path / "x.npz"
    x = np.random.default_rng(0).standard_normal((9, 511), "f4")
    np.savez(given, arg0=x, arg1=np.int64(3))
    assert not ge_run.run([str(path), "--inputs", str(given), "--outputs", str(tmp_path / "y.npz"),
                        "--report", str(tmp_path / "run.json"), *flags])  # fmt: skip
    with np.load(tmp_path / "y.npz") as file:
        return dict(file)


def test_programs_run_on_tiles(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """Tile programs are part of the text: they are proved there, and they are what runs, in loops
    too. Where a program has none they are written for the run."""
    path = compiled(tmp_path, PROGRAM, "--target", "910b2", "--tiles")
    tiles = json.loads((tmp_path / "r.json").read_text())["tiles"]
    assert tiles["launches"] == 3
    assert tiles["on_tiles"]["launches"] + sum(o["launches"] for o in tiles["others"]) == 3
    assert all(o["reason"] for o in tiles["others"])
    assert not ge_check.run([str(path)])
    assert "@relu_0_tiles: proved" in capfd.readouterr().out
    wanted = outputs(path, tmp_path)
    for flags in (["--tiles"], ["--tiles", "sample:1"], ["--tiles", "--fuzz-schedule", "2"]):
        for name, array in outputs(path, tmp_path, *flags).items():
            assert array.tobytes() == wanted[name].tobytes()
    assert json.loads((tmp_path / "run.json").read_text())["numerics"]["tiles"]["run"] == "all"
    for target in ("910b2", "910_merged"):  # which does not state what instructions take
        path = compiled(tmp_path, PROGRAM, "--target", target, "--no-tiles")
        assert "tile.kernel" not in path.read_text()
        for name, array in outputs(path, tmp_path, "--tiles").items():
            assert array.tobytes() == wanted[name].tobytes()
    assert "tile programs for" in capfd.readouterr().out


FAULTS = {  # another op; a flag that nothing sets; another symbol; a program for other shapes
    ("graph.relu", "graph.neg"): (r"(\d+) of \1 elements that 1 cores store to result 0 differ "
                                  r"on tiles, the first at \[0, 0\]", "sample:1"),
    ("tile.set v -> mte3", "tile.wait v -> mte3"): (
        r"p.mlir:\d+:\d+: error: launch of @relu_0 on tiles: the core stops for ever", "all"),
    ("tile.kernel @relu_0_tiles", "tile.kernel @other"): (
        "there is no tile.kernel @relu_0_tiles", "all"),
    (r"memref<(9x511|4599)xf32>", r"memref<1\1xf32>"): (
        "the tile program of @relu_0 does not take what the kernel does", "all"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_tile_program_is_told(
    fault: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """By its run: no proof comes before it."""
    monkeypatch.setenv("GE_SANITIZE", "0")
    path = compiled(tmp_path, RELU, "--target", "910b2", "--tiles")
    before, start, program = path.read_text().partition("tile.kernel")
    wrong, count = re.subn(*fault, start + program)
    assert count
    path.write_text(before + wrong)
    message, mode = FAULTS[fault]
    with pytest.raises(GeError, match=message):
        ge_run.run([str(path), f"--tiles={mode}"])


MODELS = Path(__file__).parents[1] / "models"


@pytest.mark.parametrize("mode", ["all", pytest.param("sample:2", marks=pytest.mark.soak)])
def test_a_model_agrees(mode: str):
    """With the outputs stored beside it. Most launches have tile programs."""
    name = "bert_base.tiny"
    program = compile_file(
        str(MODELS / f"{name}.onnx"), Options(target="910b2", tiles=True, tile_cache="off")
    )
    assert program.compilation.tiles is not None
    report = program.compilation.tiles.report()
    assert report["on_tiles"]["launches"] > report["launches"] / 2
    with np.load(MODELS / f"{name}.npz") as data:
        given = {k.removeprefix("in:"): data[k] for k in data if k.startswith("in:")}
        outputs = program.session(tiles=mode).run(given)
        for output, array in outputs.items():
            np.testing.assert_allclose(array, data[f"out:{output}"], rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("at_once")
def test_sessions_run_on_tiles(tmp_path: Path):
    program = load(str(compiled(tmp_path, RELU, "--target", "910b2", "--tiles")))
    given = random_inputs(program.module)
    wanted = program.session().run(given)
    session = program.session(tiles="all")
    assert session.tiles is not None
    for name, array in session.run(given).items():
        assert_close(array, wanted[name], exact=True)
    assert [k.sym_name.data for k in session.tiles.prepared] == ["relu_0_tiles"]
    (batch,) = session.run_many([given])
    assert_close(batch["result0"], wanted["result0"], exact=True)
    with pytest.raises(GeError, match="tiles are run as all or sample:N, not 'most'"):
        program.session(tiles="most")


def test_flags_that_do_not_go_together(tmp_path: Path):
    (tmp_path / "m.mlir").write_text(RELU)
    with pytest.raises(GeError, match="--tiles=sample:N needs numbers"):
        ge_run.run([str(tmp_path / "m.mlir"), "--tiles=sample:1", "--timing-only"])


def test_a_program_is_timed_by_its_tile_programs(tmp_path: Path):
    """Its one launch takes what `TileKernel.time` says, and the launch cost."""
    target = Target.load("910b2")
    program = load(str(compiled(tmp_path, RELU, "--no-tiles")))
    estimated = simulate(program.module, target)
    rows = op_summary(estimated, "m")
    said = ["910b2, simulated", "910b2, estimated", "910b2, simulated"]
    assert [row["Clock"] for row in rows] == said
    assert [row["Timed By"] for row in rows] == ["N/A", "estimates", "N/A"]
    assert estimated.machine == "910b2, estimated"
    path = str(compiled(tmp_path, RELU))
    program = load(path)
    (kernel,) = (op for op in program.module.ops if isinstance(op, TileKernelOp))
    tiles = simulate(program.module, target)
    (task,) = (t for t in tiles.tasks if t.engine == "vector")
    assert task.time.total_us == pytest.approx(TileKernel(kernel, target).time().total_us)
    assert time_report(tiles)["timed_by"] == {"tiles": 1, "estimates": 0, "share_of_estimates": 0}
    assert tiles.machine == "910b2, simulated"
    report = str(tmp_path / "t.json")
    faster = ["--what-if", "vector=1x", "--what-if", "kernel_start_us=2x"]
    assert not ge_run.run([path, "--timing-only", "--tiles", "--report", report, *faster])
    time = json.loads(Path(report).read_text("utf-8"))["time"]
    assert time["latency_us"] == pytest.approx(tiles.latency_us)
    starts = target.kernel_start_us["vector"]
    others = [w["latency_us"] - tiles.latency_us for w in time["what_if"]]
    assert others == pytest.approx([0, starts])


def test_tile_programs_time_a_program_on_its_own_target(tmp_path: Path):
    """And on others whose cores can run them; not where they are merged, or too few."""
    compiled(tmp_path, RELU, "--target", "910b2")
    path, report = str(tmp_path / "p.mlir"), str(tmp_path / "t.json")

    def timed_by(*flags: str) -> dict[str, int]:
        assert not ge_run.run([path, "--timing-only", "--report", report, *flags])
        figures = json.loads(Path(report).read_text("utf-8"))["time"]["timed_by"]
        return {key: figures[key] for key in ("tiles", "estimates")}

    tiles, estimates = {"tiles": 1, "estimates": 0}, {"tiles": 0, "estimates": 1}
    assert timed_by() == timed_by("--target", "910b2") == tiles
    assert timed_by("--target", "910b3") == tiles
    assert timed_by("--target", "910_merged") == timed_by("--target", "310p3") == estimates
    few = (files("ge.dialects.targets") / "910b2.toml").read_text("utf-8")
    few = few.replace("vector_cores = 48", "vector_cores = 1").replace(
        "cube_cores = 24", "cube_cores = 1"
    )
    (tmp_path / "few.toml").write_text(few)
    assert timed_by("--target", str(tmp_path / "few.toml")) == estimates
    compiled(tmp_path, RELU, "--target", "910b2", "--no-tiles")
    assert timed_by() == estimates
    assert timed_by("--tiles") == tiles


TWICE = """
func.func @main(%x: tensor<64x2048xf16>, %w: tensor<2048x2048xf16>) -> tensor<64x2048xf16> {
  %0 = graph.matmul %x, %w : (tensor<64x2048xf16>, tensor<2048x2048xf16>) -> tensor<64x2048xf16>
  %1 = graph.matmul %0, %w : (tensor<64x2048xf16>, tensor<2048x2048xf16>) -> tensor<64x2048xf16>
  func.return %1 : tensor<64x2048xf16>
}
"""


def test_what_l2_holds_shortens_the_loads_of_tile_programs(tmp_path: Path):
    """The second product finds both operands in L2."""
    program = load(str(compiled(tmp_path, TWICE, "--target", "910b2", "--tiles")))
    target = Target.load("910b2")
    tiles = simulate(program.module, target)
    first, second = (t.time for t in tiles.tasks if t.kernel is not None)
    rows = [row["Warm Inputs(%)"] for row in op_summary(tiles, "m")]
    assert [share for share in rows if share != "N/A"] == [0, 100]
    assert first.held == (0, 0)
    assert second.held == (1, 1)
    assert first.bytes == 2**18 + 2**23
    assert not second.bytes
    assert 1.1 * second.total_us < first.total_us


def test_a_program_is_opened_down_to_its_pipes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """The instructions of each kernel lie within its first launch; those of no pipe meet."""
    path = compiled(tmp_path, PROGRAM, "--target", "910b2", "--tiles")
    trace, report = tmp_path / "trace.json", tmp_path / "report.json"
    flags = ["--timing-only", "--tiles", "--explain", "1"]
    flags += ["--trace", str(trace), "--report", str(report)]
    assert not ge_run.run([str(path), *flags])
    assert "bound by start" in capfd.readouterr().out
    (kernel,) = json.loads(report.read_text())["time"]["kernels"]
    assert kernel["tiles"]["pipes"]["vector v"]["instructions"] > 0

    def slices(process: int) -> list[dict[str, Any]]:
        events = json.loads(trace.read_text())["traceEvents"]
        return [e for e in events if e["ph"] == "X" and e["pid"] == process]

    ends, launches = dict[int, float](), slices(1)
    for event in sorted(slices(4), key=lambda e: e["ts"]):
        launch = next(e for e in launches if e["name"].startswith(event["args"]["kernel"]))
        end = event["ts"] + event["dur"]
        assert launch["ts"] <= event["ts"]
        assert end <= launch["ts"] + launch["dur"] + 1e-6
        assert ends.get(event["tid"], 0.0) <= event["ts"] + 1e-6
        ends[event["tid"]] = end
    kernels = {e["args"]["kernel"] for e in slices(4)}
    assert kernels >= {"relu_0", "neg_0"}
    monkeypatch.setattr(opened, "MOST_ROWS", 2)
    assert not ge_run.run([str(path), *flags])
    assert any("more instructions" in e["name"] for e in slices(4))
    compiled(tmp_path, PROGRAM, "--target", "910b2", "--no-tiles")
    assert not ge_run.run([str(path), "--timing-only", "--explain", "1"])
    assert "no kernel has a tile program, so pipes are not shown" in capfd.readouterr().out


SCALARS = """
func.func @main(%x: tensor<9x51xf32>, %n: tensor<f32>) -> (tensor<9x51xf32>, tensor<f32>) {
  %0 = graph.add %x, %n : (tensor<9x51xf32>, tensor<f32>) -> tensor<9x51xf32>
  %1 = graph.exp %n : (tensor<f32>) -> tensor<f32>
  func.return %0, %1 : tensor<9x51xf32>, tensor<f32>
}
"""


def test_memrefs_of_no_dimensions(tmp_path: Path):
    program = load(str(compiled(tmp_path, SCALARS, "--target", "910b2", "--tiles")))
    given = random_inputs(program.module)
    wanted = program.session().run(given)
    for mode in ("all", "sample:1"):
        for name, array in program.session(tiles=mode).run(given).items():
            assert_close(array, wanted[name], exact=True)


SHARED_TERMS = """
func.func @main(%x: tensor<1x2048xf32>, %w: tensor<2048x16xf32>) -> tensor<1x16xf32> {
  %0 = graph.matmul %x, %w : (tensor<1x2048xf32>, tensor<2048x16xf32>) -> tensor<1x16xf32>
  func.return %0 : tensor<1x16xf32>
}
"""


def test_cores_that_store_parts_in_a_workspace_are_compared_too(tmp_path: Path):
    path = compiled(tmp_path, SHARED_TERMS, "--target", "310p3", "--tiles")
    assert "workspace" in path.read_text()
    program = load(str(path))
    given = random_inputs(program.module)
    wanted = program.session().run(given)
    for mode in ("all", "sample:1"):
        for name, array in program.session(tiles=mode).run(given).items():
            assert_close(array, wanted[name])
