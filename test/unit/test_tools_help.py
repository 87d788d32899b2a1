"""The command lines explain themselves: help for each option, one line for a wrong one."""

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ge.tools.cli.parsers import PARSERS
from ge.tools.commands import (
    ge_bench,
    ge_calibrate,
    ge_check,
    ge_compile,
    ge_import,
    ge_lsp,
    ge_opt,
    ge_parser,
    ge_reduce,
    ge_run,
    ge_scale,
    ge_shims,
    ge_sweep,
    ge_tune,
    ge_visualizer,
)

Main = Callable[[Sequence[str]], int]

TOOLS: dict[str, Main] = {
    "ge-bench": ge_bench,
    "ge-calibrate": ge_calibrate,
    "ge-check": ge_check,
    "ge-compile": ge_compile,
    "ge-import": ge_import,
    "ge-reduce": ge_reduce,
    "ge-run": ge_run,
    "ge-lsp": ge_lsp,
    "ge-opt": ge_opt,
    "ge-parser": ge_parser,
    "ge-scale": ge_scale,
    "ge-shims": ge_shims,
    "ge-sweep": ge_sweep,
    "ge-tune": ge_tune,
    "ge-visualizer": ge_visualizer,
}

TEXT = """\
func.func @main(%x: tensor<4xf32> {graph.name = "x"}) -> (tensor<4xf32> {graph.name = "y"}) {
  %0 = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""


def unexplained(parser: argparse.ArgumentParser) -> list[str]:
    return [a.dest for a in parser._actions if not a.help]


@pytest.mark.parametrize("tool", PARSERS)
def test_each_option_is_explained(tool: str):
    assert not unexplained(PARSERS[tool]())


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ge-check", "arguments are required: program; see ge-check --help"),
        ("ge-check in.mlir more", "one input file at most, 'more' is another"),
        (
            "ge-compile in.mlir --memory x",
            "--memory: a whole number of at least 0, not 'x'; see",
        ),
        ("ge-compile in.mlir --reprot r", "unknown option '--reprot'; did you mean '--report'?"),
        ("ge-compile in.mlir --memory 7", "--memory: one of 0, 1, 2, 3, not '7'"),
        ("ge-compile in.mlir --fusion none", "--fusion: one of off, conservative, default"),
        ("ge-run in.mlir --memory-limit 5X", "--memory-limit: a number of bytes such as 1000000"),
        ("ge-compile in.mlir --until nowhere", "--until: invalid choice: 'nowhere'"),
        ("ge-compile in.mlir -o p.mlir --report p.mlir", "two outputs go to 'p.mlir'"),
        ("ge-compile --print-pipeline --target tpu", "unknown target 'tpu'"),
        ("ge-import", "arguments are required: model"),
        ("ge-import in.onnx --dims n=2 --zzz", "unknown option '--dims'; did you mean '--dim'?"),
        ("ge-lsp --pause soon", "--pause: a whole number of at least 0, not 'soon'; see ge-lsp"),
        ("ge-lsp in.mlir", "no input file is expected, but 'in.mlir'; see ge-lsp"),
        ("ge-opt in.mlir --load-plugin", "--load-plugin: expected one argument; see ge-opt"),
        ("ge-run in.mlir --seed -1", "--seed: a whole number of at least 0, not '-1'"),
        ("ge-run in.mlir --seed 1.5", "--seed: a whole number of at least 0, not '1.5'"),
        ("ge-run in.mlir --fuzz-schedule 0", "a whole number of at least 1, not '0'"),
        ("ge-run in.mlir --fuzz-schedule x", "a whole number of at least 1, not 'x'"),
        ("ge-run in.mlir --timing-only --what-if foo=2x", "target 910b2 has no 'foo'"),
        ("ge-run in.mlir --timing-only --what-if cube", "cannot read the change 'cube'"),
        ("ge-run in.mlir --timing-only --outputs y.npz", "--outputs needs numbers"),
        ("ge-run in.mlir --timing-only --sanitize", "--sanitize needs numbers"),
        ("ge-run in.mlir --timing-only --fuzz-schedule 2", "--fuzz-schedule needs numbers"),
        ("ge-run in.mlir --outputs r --report r", "two outputs go to 'r'"),
    ],
)
def test_wrong_command_lines(
    command: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.mlir").write_text(TEXT)
    tool, *args = command.split()
    assert TOOLS[tool](args) == 1
    said = capfd.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith(f"{tool}: error: ")
    assert expected in line
    assert [p.name for p in tmp_path.iterdir()] == ["in.mlir"]


def test_help_does_not_import_the_compiler():
    """One process for all tools but ge-opt, whose passes are flags."""
    code = (
        "import sys\n"
        "from ge.tools import commands\n"
        "from ge.tools.cli.parsers import PARSERS\n"
        "for tool in {*PARSERS} - {'ge-opt'}:\n"
        "    command = getattr(commands, tool.replace('-', '_'))\n"
        "    for word in ('--help', '--nonsense'):\n"
        "        try: command.run([word])\n"
        "        except SystemExit: pass\n"
        "        except Exception as e: assert type(e).__name__ == 'GeError', e\n"
        "    assert {'xdsl.ir', 'numpy', 'onnx'}.isdisjoint(sys.modules), tool\n"
        "print([], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stderr == "[]\n"


def test_compiling_does_not_import_what_runs_programs(tmp_path: Path):
    (tmp_path / "m.mlir").write_text("func.func @main() {\n  func.return\n}\n")
    rooms = (
        "ge.tools.debugging.validation", "ge.runtime.check",
        "ge.runtime.device.session", "ge.runtime.cores", "onnx",
    )  # fmt: skip
    code = (
        "import sys; from ge.tools.commands import ge_compile as main\n"
        f"assert main([{str(tmp_path / 'm.mlir')!r}, '--report', '/dev/null']) == 0\n"
        f"print([m for m in {rooms} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"
