"""ge-sweep and ge-scale: a row for each configuration, failed ones too; what is there is kept."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ge.dialects.support.errors import GeError
from ge.lowering.driver.sweep import (
    best_rows,
    configurations,
    neighbors,
    option_name,
    rows_in,
)
from ge.lowering.pipeline.options import Options
from ge.tools.cli.sweep import meshes_of
from ge.tools.commands import ge_scale, ge_sweep

TEXT = """\
func.func @main(%x: tensor<8x64xf32> {graph.name = "x"}) -> (tensor<8x64xf32> {graph.name = "y"}) {
  %w = graph.constant dense<0.5> : tensor<64x64xf32>
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %1 = graph.relu %0 : (tensor<8x64xf32>) -> tensor<8x64xf32>
  func.return %1 : tensor<8x64xf32>
}
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(TEXT)
    return "m.mlir"


def test_a_configuration_that_fails_is_a_row(model: str, capfd: pytest.CaptureFixture[str]):
    # one device is not cut, so that there are two configurations of it
    words = "--target 310p3 --vary mesh  tp=2 --vary shard auto --vary fusion off default --jobs 1"
    assert not ge_sweep([model, *words.split(" "), "-o", "rows.jsonl", "--plot", "p.html"])
    out, err = capfd.readouterr()
    assert out.count("the target states no cluster") == 2
    assert "2 failed" in out
    assert len(rows_in("rows.jsonl")) == 4
    assert err.count(" ms\n") == 2
    assert Path("p.html").read_text().count("<circle") == 2


def test_what_is_there_is_not_computed_again(model: str, capfd: pytest.CaptureFixture[str]):
    words = ["--target", "910b2", "--jobs", "1", "-o", "rows.jsonl", "--vary", "memory"]
    assert not ge_sweep([model, *words, "1"])
    with Path("rows.jsonl").open("a") as file:
        file.write('{"key": "killed while it wro')
    capfd.readouterr()
    assert not ge_sweep([model, *words, "1", "2"])
    out, err = capfd.readouterr()
    assert err.count(" ms\n") == 1
    assert "memory 2" in err
    assert out.count("\n| ") == 3  # with the line under the head
    assert not ge_sweep([model, *words, "1", "2"])
    assert not capfd.readouterr().err
    Path("m.mlir").write_text(TEXT.replace("relu", "neg"))
    assert not ge_sweep([model, *words, "1"])
    assert "memory 1: " in capfd.readouterr().err


def test_processes_make_the_same_rows(model: str):
    pytest.importorskip("joblib")
    words = ["--target", "910b2", "--vary", "memory", "0", "1", "2"]
    for jobs in "12":
        # in a process of its own: the tracker of resources that joblib starts lives as long
        argv = [model, *words, "--jobs", jobs, "-o", f"{jobs}.jsonl"]
        code = f"from ge.tools.commands import ge_sweep; raise SystemExit(ge_sweep({argv!r}))"
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    one, two = (
        {k: {**r, "seconds": 0} for k, r in rows_in(f"{n}.jsonl").items()} for n in "12"
    )  # fmt: skip
    assert one == two


def test_neighbors_are_computed_together(model: str):
    varied = {"target": ["910b2", "910b4", "310p3"], "fusion": ["default", "conservative"]}
    wanted = configurations(model, Options(), varied)
    assert [len(g) for g in neighbors(wanted, 1)] == [2, 2, 2]
    # the last pair comes apart: one process would do both while the other one waits
    groups = neighbors([*wanted, *wanted], 2)
    assert [len(g) for g in groups] == [2, 2, 2, 2, 2, 1, 1]
    assert [c for g in groups for c in g] == [*wanted, *wanted]
    assert [len(g) for g in neighbors(wanted, 2)] == [1] * 6  # too few pairs to be shared out


def test_a_cluster_makes_the_same_rows(model: str):
    distributed = pytest.importorskip("distributed")
    words = [model, "--target", "910b2", "--vary", "memory", "0", "1", "-o"]
    assert not ge_sweep([*words, "here.jsonl", "--jobs", "1"])
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        assert not ge_sweep([*words, "there.jsonl", "--cluster", cluster.scheduler_address])
    here, there = (
        {k: {**r, "seconds": 0} for k, r in rows_in(f"{n}.jsonl").items()}
        for n in ("here", "there")
    )
    assert here == there


def test_a_cluster_without_dask(model: str, monkeypatch: pytest.MonkeyPatch, capfd: Any):
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    assert ge_sweep([model, "--vary", "memory", "0", "--cluster", "tcp://127.0.0.1:1"])
    assert "pip install 'ge-npu[cluster]'" in capfd.readouterr().err


def test_rows_that_no_other_beats():
    rows = [
        {"us": 2.0, "bytes": 8, "db": None}, {"us": 1.0, "bytes": 9, "db": 30.0},
        {"us": 2.0, "bytes": 9, "db": 40.0}, {"error": "not possible"},
    ]  # fmt: skip
    assert best_rows(rows) == rows[:2]


def test_scaling_compares_with_the_first_mesh(model: str, capfd: pytest.CaptureFixture[str]):
    words = ["--mesh", "tp=1..4", "--target", "910b2", "--jobs", "1", "--plot", "p.html"]
    assert not ge_scale([model, *words])
    lines = capfd.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| one device", "| tp=2", "| tp=4"]
    assert "1.00 | 100%" in lines[2]
    assert "<polyline" in Path("p.html").read_text()


@pytest.mark.parametrize(
    ("text", "meshes"),
    [("tp=1..8", ["", "tp=2", "tp=4", "tp=8"]), ("dp=2,tp=3..6", ["dp=2,tp=3", "dp=2,tp=6"])],
)
def test_ranges_of_meshes(text: str, meshes: list[str]):
    assert meshes_of(text) == meshes


@pytest.mark.parametrize("text", ["tp=8..1", "tp=0..4", "tp=a..b", "tp", "tp=0"])
def test_what_is_no_range(text: str):
    with pytest.raises(GeError, match=r"meshes are|a mesh is"):
        meshes_of(text)


def test_names_of_options():
    assert option_name("--memory-limit") == option_name("memory_limit") == "memory_limit"
    with pytest.raises(GeError, match=r"there is no option 'memmory'.*did you mean 'memory'"):
        option_name("memmory")
    with pytest.raises(GeError, match=r"memory is .*, not '9'"):
        configurations("m.mlir", Options(), {"memory": ["9"]})


def test_an_option_is_varied_once(model: str, capfd: pytest.CaptureFixture[str]):
    given = ["--vary", "mesh", "tp=2", "--vary", "mesh", "tp=4", "--jobs", "1"]
    assert ge_sweep([model, *given]) == 1
    assert "'mesh' is varied twice; all values of an option" in capfd.readouterr().err


def test_a_file_that_has_no_rows(model: str):
    Path("rows.jsonl").write_text(json.dumps({"x": 1}) + "\n")
    with pytest.raises(GeError, match=r"line 1 is no row of a sweep"):
        rows_in("rows.jsonl")
