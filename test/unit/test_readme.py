"""The README tells the truth: its commands run, and print what it shows."""

import itertools
import re
import sys
from dataclasses import fields
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from documents import ROOT, Run, blocks, check_shown, run

from ge.dialects.targets.target import Target

__all__ = ["run"]

TEXT = (ROOT / "README.md").read_text("utf-8")
BLOCKS = [(block.kind, block.body) for block in blocks(TEXT)]


def test_commands_print_what_is_shown(tmp_path: Path, run: Run):
    """Every `sh` block, in order, in one folder; the block after it is an excerpt of its output."""
    source = next(body for kind, body in BLOCKS if kind == "mlir" and body.startswith("func.func"))
    (tmp_path / "two_layers.mlir").write_text(source)
    count = 0
    for (kind, body), (_, shown) in itertools.pairwise(BLOCKS):
        if kind == "sh":
            check_shown(shown, run(body))
            count += 1
    assert count >= 5


def test_filecheck_example(tmp_path: Path, run: Run):
    source = next(body for kind, body in BLOCKS if kind == "mlir" and "// RUN:" in body)
    test = tmp_path / "mine.mlir"
    test.write_text(source)
    match = re.search(r"// RUN: (.*)", source)
    assert match is not None
    run(match[1].replace("%s", str(test)))


@pytest.mark.parametrize(
    ("about", "prints"),
    [
        ("print(session.input_names", "input_ids"),
        ("ge.Graph()", "graph.gelu %2 : (tensor<1x32xf16>)"),
        ("run_many", "in us:"),
        ("tile.kernel", "@softmax: proved, "),
        ("register_operation", ""),
    ],
)
def test_python_example(
    about: str, prints: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    code = next(body for kind, body in BLOCKS if kind == "python" and about in body)
    monkeypatch.chdir(ROOT)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert prints in capsys.readouterr().out


def test_user_rule_example(tmp_path: Path, run: Run):
    """The rule of the section on extending, loaded as a plugin, replaces both products."""
    plugin = tmp_path / "my_rule.py"
    plugin.write_text(next(body for _, body in BLOCKS if "fuse_my_linear" in body))
    source = next(body for kind, body in BLOCKS if kind == "mlir" and body.startswith("func.func"))
    (tmp_path / "two_layers.mlir").write_text(source)
    printed = run(f"ge-opt two_layers.mlir --load-plugin {plugin} -p fuse_my_linear")
    assert printed.count('fused_op.custom "MyLinear"') == 2


def test_pattern_class_example(tmp_path: Path, run: Run):
    """The pattern class of the section on extending, loaded as a plugin, rewrites a sum."""
    (tmp_path / "my_rule.py").write_text(next(body for _, body in BLOCKS if "DoubleSum" in body))
    (tmp_path / "sum.mlir").write_text("""
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = graph.constant dense<2.0> : tensor<f32>
  %0 = graph.mul %two, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.mul %x, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = graph.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}
""")
    printed = run("ge-opt sum.mlir --load-plugin my_rule.py -p double-sums")
    assert "dense<4.0" in printed
    assert "graph.add" not in printed


def test_new_op_example():
    """The op and kernel of the section on extending fold a constant."""
    op, kernel = (body for kind, body in BLOCKS if kind == "python" and "ClipNorm" in body)
    imports = """
from collections.abc import Sequence
import numpy as np
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Attribute
from xdsl.irdl import *
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.support.parameters import GraphOp
from ge.dialects.support.types import tensor_type
from ge.runtime import kernels
from ge.runtime.data.arrays import Array, dense, type_of
from ge.runtime.kernels import Fn, kernel
"""
    use = """
x = np.array([3, 4], np.float32)
constant = ConstantOp.make(dense(x), type_of(x))
op = ClipNormOp.of(constant.result, limit=1.0)
op.verify()
(y,) = kernels.evaluate(op, [x])
assert np.allclose(y, [0.6, 0.8]), y
"""
    exec(compile(imports + op + kernel + use, "README.md", "exec"), {"__name__": "readme"})


def test_costs_of_the_host_are_those_of_the_target():
    """A row for each key, with the value and the comment of the target file."""
    target = Target.load("910_merged")
    text = (ROOT / "dialects/targets/910_merged.toml").read_text("utf-8")
    lines = re.findall(r"^(host_\w+_us) = (\S+) +# (.*): (.*)$", text, re.MULTILINE)
    want = [f"| `{key}` | {value} | {what} | {source} |" for key, value, source, what in lines]
    assert [row for row in TEXT.splitlines() if row.startswith("| `host_")] == want
    assert [key for key, *_ in lines] == [
        f.name for f in fields(Target) if f.name.startswith("host_") and f.name.endswith("_us")
    ]
    assert all(float(value) == getattr(target, key) for key, value, *_ in lines)


def test_files_that_are_named_exist():
    for name in re.findall(
        r"`((?:dialects|transforms|lowering|runtime|tools|test)/[\w./]+)`", TEXT
    ):
        assert (ROOT / name).exists(), name


def test_make_targets_exist():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for name in re.findall(r"make (demo|check|docs|soak)", TEXT):
        assert name in targets
