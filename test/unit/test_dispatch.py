"""`ge-run --dispatch`: steps of growing size, state that grows, gears, flags that do not fit."""

import json
from pathlib import Path
from typing import Any

import pytest

from ge.dialects.targets.target import Target
from ge.tools.commands import ge_compile as ge_compile_main
from ge.tools.commands import ge_run as ge_run_main

GROWING = """
func.func @main(%x: tensor<?x16xf32> {graph.name = "x", graph.dims = ["n", ""]},
                %y: tensor<?x16xf32> {graph.name = "y", graph.dims = ["n + 1", ""]})
    -> (tensor<?x16xf32> {graph.name = "z"}) {
  %0 = graph.softmax %x axis 0 : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %1 = graph.concat %0, %y axis 0 : (tensor<?x16xf32>, tensor<?x16xf32>)
    -> tensor<?x16xf32>
  %2 = graph.softmax %1 axis 0 : (tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %2 : tensor<?x16xf32>
}
"""


def ge_run(path: Path, *flags: str) -> tuple[int, dict[str, Any]]:
    report = path.with_suffix(".json")
    status = ge_run_main([str(path), "--report", str(report), *flags])
    return status, json.loads(report.read_text()) if report.exists() else {}


def test_steps_of_growing_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source, path = tmp_path / "growing.mlir", tmp_path / "program.mlir"
    source.write_text(GROWING)
    assert ge_compile_main([str(source), "--target", "910_merged", "-o", str(path)]) == 0
    flags = ("--dispatch", "all", "--steps", "4", "--grow", "n", "--dim", "n=4", "--sanitize")
    status, report = ge_run(path, *flags)
    assert status == 0
    steps = report["dispatch"]["steps"]
    launches = report["ops"]["launches"]
    # a concatenation is looked for, too, and becomes a copy
    assert steps["eager"]["tilings"]["miss"] == 4 * (launches + 1)
    for mode in ("operations", "graph", "two-stage", "three-stage"):
        # found in the second step and those after it, written into for another length
        assert steps[mode]["tilings"]["miss"] <= launches + 1
        assert steps[mode]["tilings"]["patched"] >= 3
        assert steps[mode]["tokens_per_s"] > steps["eager"]["tokens_per_s"]
    assert (steps["captured"]["captures"], steps["captured"]["refused"]) == (4, 3)
    assert (steps["updated"]["captures"], steps["updated"]["refused"]) == (1, 3)
    assert steps["updated"]["updates"] > 0
    # a sunk program is bound to each size: that takes as long as what capturing does
    assert (
        steps["sunk"]["host_us"]["setup"] == 4 * launches * Target.load("910_merged").host_setup_us
    )
    assert steps["sunk"]["latency_us"] > sum(steps["sunk"]["host_us"].values()) > 0
    # capturing loses where shapes change
    assert steps["captured"]["tokens_per_s"] < steps["updated"]["tokens_per_s"]
    assert steps["captured"]["tokens_per_s"] < steps["two-stage"]["tokens_per_s"]
    status, _ = ge_run(path, "--dispatch", "graph", "--steps", "2", "--grow", "m", "--dim", "n=4")
    assert status != 0
    assert "--grow: there is no dimension 'm'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--dispatch", "sunken"], "no dispatch mode 'sunken'; did you mean 'sunk'"),
        (["--steps", "3"], "add --dispatch all"),
        (["--calls", "3", "--tiling-ring", "4"], "--calls, --tiling-ring: of a host"),
        (["--prefetch", "2"], "--prefetch needs runs that overlap; add --runs 64"),
        (["--dispatch", "graph", "--calls", "3", "--steps", "2"], "--calls and --steps both say"),
        (["--dispatch", "captured", "--runs", "3"], "--runs is of a program that no host feeds"),
        (["--dispatch", "graph", "--what-if", "cube=2x"], "--what-if is of a program that no host"),
        (
            ["--dispatch", "graph", "--grow", "n", "--steps", "2", "--inputs", "x.npz"],
            "a size for each step",
        ),
        (["--dispatch", "graph", "--grow", "n"], "nothing grows in one call"),
        (["--dispatch", "graph", "--tiling-ring", "0"], "ring blocks: 1 to 1024, not 0"),
    ],
)
def test_bad_flags(flags: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "growing.mlir"
    path.write_text(GROWING)
    assert ge_run(path, "--timing-only", *flags)[0] != 0
    assert said in capsys.readouterr().err


def test_of_gears_the_one_of_the_sizes_is_fed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source, path = tmp_path / "growing.mlir", tmp_path / "program.mlir"
    source.write_text(GROWING)
    flags = ["--dynamic-dims", "2;4;8", "--dynamic-fallback"]
    assert ge_compile_main([str(source), "-o", str(path), *flags]) == 0
    launches: dict[str, int] = {}
    for size in ("4", "8"):
        status, report = ge_run(path, "--timing-only", "--dispatch", "eager", "--dim", f"n={size}")
        assert status == 0
        call = report["dispatch"]["calls"]["eager"][0]
        launches[size] = call["tilings"]["miss"]
        assert call["latency_us"] >= call["host_us"]["setup"] + call["host_us"]["tiling"]
    assert launches["4"] == launches["8"] == 3  # of three gears, with three each
    assert ge_run(path, "--dynamic-dims", "2;4")[0] != 0
    assert "gears are made at the graph level" in capsys.readouterr().err
    assert ge_run(path, "--timing-only", "--dim", "n=9")[0] != 0
    assert "these sizes are of no gear" in capsys.readouterr().err


CACHE = """
func.func @main(%x: tensor<1x4xf32> {graph.name = "x"}, %k: tensor<3x4xf32> {graph.name = "k"})
    -> (tensor<4x4xf32> {graph.name = "y"}, tensor<4x4xf32> {graph.name = "new"}) {
  %0 = graph.concat %k, %x axis 0 : (tensor<3x4xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>
  %1 = graph.exp %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %1, %0 : tensor<4x4xf32>, tensor<4x4xf32>
}
"""


def test_a_cache_that_one_run_fills_begins_each_call_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source, path = tmp_path / "cache.mlir", tmp_path / "program.mlir"
    source.write_text(CACHE)
    assert ge_compile_main([str(source), "-o", str(path), "--state", "k=new"]) == 0
    assert ge_run(path, "--dispatch", "all")[0] == 0
    assert ge_run(path, "--fuzz-schedule", "2")[0] == 0
    assert ge_run_main([str(source), "--save-state", str(tmp_path / "s.npz")]) != 0
    assert "the program keeps no state" in capsys.readouterr().err


DECODER = """
func.func @main(%x: tensor<1x2x1x4xf32> {graph.name = "x"},
                %m: tensor<1x?xf32> {graph.name = "m", graph.dims = ["", "past + 1"]},
                %k: tensor<1x2x?x4xf32> {graph.name = "k", graph.dims = ["", "", "past", ""]})
    -> (tensor<1x2x1x4xf32> {graph.name = "y"}, tensor<1x2x?x4xf32> {graph.name = "new"}) {
  %t = graph.constant dense<[1, 1, 1]> : tensor<3xi64>
  %0 = graph.concat %k, %x axis 2 : (tensor<1x2x?x4xf32>, tensor<1x2x1x4xf32>)
    -> tensor<1x2x?x4xf32>
  %1 = graph.shape_of %m start 1 : (tensor<1x?xf32>) -> tensor<1xi64>
  %2 = graph.concat %t, %1 axis 0 : (tensor<3xi64>, tensor<1xi64>) -> tensor<4xi64>
  %3 = graph.reshape %m shape %2 : (tensor<1x?xf32>, tensor<4xi64>) -> tensor<1x1x1x?xf32>
  %4 = graph.attention %x, %0, %0 mask %3 : (tensor<1x2x1x4xf32>,
    tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>, tensor<1x1x1x?xf32>) -> tensor<1x2x1x4xf32>
  func.return %4, %0 : tensor<1x2x1x4xf32>, tensor<1x2x?x4xf32>
}
"""


@pytest.mark.parametrize("layout", [pytest.param("contiguous", marks=pytest.mark.soak), "paged:2"])
def test_steps_of_state_that_grows(layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source, path = tmp_path / "decoder.mlir", tmp_path / "program.mlir"
    source.write_text(DECODER)
    flags = ["--state", "k=new", "--state-capacity", "past=40", "--state-layout", layout]
    assert ge_compile_main([str(source), "-o", str(path), *flags]) == 0
    status, report = ge_run(path, "--dispatch", "all", "--steps", "4", "--sanitize")
    assert status == 0
    steps = report["dispatch"]["steps"]
    assert (steps["captured"]["captures"], steps["captured"]["replays"]) == (1, 3)
    assert steps["graph"]["setups"] == report["ops"]["launches"]  # of the first step
    if layout == "contiguous":
        _, report = ge_run(path, "--dispatch", "all", "--steps", "40", "--timing-only")
        found = report["dispatch"]["steps"]
        speed = {m: s["tokens_per_s"] for m, s in found.items()}
        assert sum(found["captured"]["host_us"].values()) < sum(found["graph"]["host_us"].values())
        # two launches, which take the device as long as the host: a replay is no faster than they
        for mode in ("graph", "two-stage", "three-stage", "captured"):
            assert speed["eager"] < speed[mode] < speed["sunk"]
            assert 0.95 < speed[mode] / speed["captured"] < 1.05
    assert ge_run(path, "--dispatch", "graph", "--steps", "41", "--timing-only")[0] != 0
    assert "41 calls add 41 rows to the state's 0, it has room for 40" in capsys.readouterr().err
    saved = str(tmp_path / "s.npz")
    assert ge_run(path, "--save-state", saved)[0] == 0
    again = ("--load-state", saved, "--dim", "past=1", "--dispatch", "graph", "--grow", "past")
    assert ge_run(path, *again, "--steps", "3")[0] == 0
    assert ge_run(path, *again, "--steps", "40")[0] != 0
    assert "to the state's 1, it has room for 40" in capsys.readouterr().err
    assert ge_run(path, "--dispatch", "graph", "--steps", "2", "--grow", "m")[0] != 0
    assert "--grow m: the program's state grows along 'past'" in capsys.readouterr().err
