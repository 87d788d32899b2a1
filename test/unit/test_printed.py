"""Standard output has what a command was asked for, standard error what it says by itself, and with
`--quiet` errors alone."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ge.tools import commands
from ge.tools.cli.parsers import PARSERS

MODULE = """\
func.func @main(%x: tensor<8x64xf32> {graph.name = "x"}) -> (tensor<8x32xf32> {graph.name = "y"}) {
  %w = graph.constant dense<0.5> : tensor<64x32xf32>
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.relu %0 : (tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %1 : tensor<8x32xf32>
}
"""

ONNX = Path(__file__).resolve().parents[1] / "models" / "if_cond.tiny.onnx"

Run = Callable[[str], tuple[str, str]]  # what a command prints: standard output and error

TIMES = re.compile(r"\d+\.\d+ ?(s|ms)\b")  # of this machine

# command -> what is in a line of standard output, and of standard error; none: nothing is there
SAID = {
    "ge-bench m.mlir": ("| model |", "[1 of 1] m.mlir"),
    "ge-bench m.mlir -o t.md": ("", "[1 of 1] m.mlir"),
    "ge-calibrate m.mlir --data x.npz": ("[ranges]", ""),
    "ge-calibrate m.mlir --data x.npz --sensitivity": ("[ranges]", "matmul"),
    "ge-calibrate m.mlir --data x.npz --sensitivity -o t.toml": ("matmul", ""),
    "ge-check p.mlir": ("p.mlir: ", ""),
    "ge-compile m.mlir": ("m.mlir: ", ""),
    "ge-compile m.mlir -o q.mlir": ("", "m.mlir: "),
    "ge-compile m.mlir -o -": ("npu_task.launch", "m.mlir: "),
    "ge-compile m.mlir --print-pipeline": ("lower-to-tasks", ""),
    "ge-compile m.mlir -o q.mlir --remarks": ("", "remark: "),
    f"ge-import {ONNX}": ("func.func @main", ""),
    "ge-opt m.mlir -p fuse-linear{target=310p3}": ("fused_op.linear", ""),
    "ge-opt m.mlir -p fuse-linear{target=310p3} --remarks": ("fused_op.linear", "remark: "),
    "ge-opt --list-rules": ("|-x| = |x|", ""),
    "ge-opt m.mlir -p fuse-linear --bisect": ("no pass does harm", ""),
    "ge-parser p.mlir": ("critical path", ""),
    "ge-reduce m.mlir --test ./always.sh": ("builtin.module", "warning: "),
    "ge-run m.mlir": ("y: float32", ""),
    "ge-run m.mlir --timing-only": ("latency", ""),
    "ge-run m.mlir --timing-only --dispatch all": ("three-stage", ""),
    "ge-run m.mlir --timing-only --runs 4": ("4 runs", ""),
    "ge-run m.mlir --explain 1 --explain-variants share-io": ("what helps most", "[1 of 1]"),
    "ge-run m.mlir --timing-only --what-if launch_us=2x": ("launch_us=2x", "note: "),
    "ge-run p.mlir --sanitize --fuzz-schedule 2": ("2 random timings", ""),
    "ge-run m.mlir --timing-only --tiles --target 910b2": ("latency", ""),
    "ge-scale m.mlir --mesh tp=1..2 --target 910b2 --jobs 1": ("| tp=2 |", "mesh tp=2, shard"),
    "ge-sweep m.mlir --vary fusion off default --jobs 1": ("| fusion |", "fusion off: "),
    "ge-shims install --folder .": ("import ascend_npu is import ge", ""),
    "ge-tune tiled.mlir --limit 2": ("kernels are faster", ""),
    "ge-visualizer m.mlir -o p.html": ("", "m.mlir: "),
}  # fmt: skip


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(MODULE)
    np.savez("x.npz", x=np.linspace(-1, 1, 512, dtype=np.float32).reshape(8, 64))
    Path("always.sh").write_text("#!/bin/sh\nexit 1\n")
    Path("always.sh").chmod(0o755)

    def one(command: str) -> tuple[str, str]:
        tool, *args = shlex.split(command)
        capfd.readouterr()
        assert getattr(commands, tool.replace("-", "_"))(args) == 0
        out, err = capfd.readouterr()
        return TIMES.sub("T", out), err

    return one


def make(command: str, run: Run) -> None:
    """Make the files that a command reads."""
    if " p.mlir" in command:
        run("ge-compile m.mlir -o p.mlir")
    if "tiled.mlir" in command:
        run("ge-compile m.mlir -o tiled.mlir --tiles --target 910b2")


@pytest.mark.parametrize("command", SAID)
def test_each_stream_has_its_own(command: str, run: Run, monkeypatch: pytest.MonkeyPatch):
    make(command, run)
    out, err = run(command)
    for text, stream in zip(SAID[command], (out, err), strict=True):
        assert text in stream if text else not stream
    monkeypatch.setenv("GE_TARGTE", "910b2")
    assert run(f"{command} --quiet") == (out, "")


def test_no_command_is_left_out():
    assert {command.split()[0] for command in SAID} | {"ge-lsp"} == set(PARSERS)


@pytest.mark.parametrize("tool", PARSERS)
def test_quiet_commands_print_errors(tool: str, capfd: pytest.CaptureFixture[str]):
    assert getattr(commands, tool.replace("-", "_"))(["--quiet", "--no-such-flag"])
    out, err = capfd.readouterr()
    assert not out
    assert err.startswith(f"{tool}: error: ")


def test_errors_of_a_text_are_errors(run: Run, capfd: pytest.CaptureFixture[str]):
    from ge.tools.commands import ge_check, ge_opt

    run("ge-compile m.mlir -o p.mlir")
    text = Path("p.mlir").read_text()
    Path("p.mlir").write_text(text.replace("npu_task.wait %event on 0", ""))
    assert ge_check(["p.mlir", "--quiet"]) == 1
    assert "error: " in capfd.readouterr().err
    Path("m.mlir").write_text(MODULE.replace("8x32", "8x33"))
    assert ge_opt(["m.mlir", "--quiet"]) == 1
    assert "error: " in capfd.readouterr().err


@pytest.mark.parametrize("flag", ["--report", "--trace"])
def test_a_file_on_standard_output_is_alone_there(flag: str, run: Run):
    out, err = run(f"ge-run m.mlir {flag} /dev/stdout")
    assert isinstance(json.loads(out), dict)
    assert "y: float32" in err


def test_a_reader_that_goes_away(run: Run):
    """Before anything is printed: the files are written all the same."""
    module = "import sys; from ge.tools import commands; sys.exit(commands.{}())"
    for tool, words in (("ge_run", "--timing-only --report r.json"), ("ge_opt", "--cse")):
        python = shlex.join([sys.executable, "-c", module.format(tool)])
        shell = ["bash", "-c", f"{python} m.mlir {words} | true"]
        assert subprocess.run(shell, capture_output=True, check=True).stderr == b""
    assert json.loads(Path("r.json").read_text())["time"]
