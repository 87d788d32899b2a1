"""The README tells the truth: its commands run, and print what it shows."""

import itertools
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from documents import ROOT, Run, blocks, check_shown, run

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
    ],
)
def test_python_example(
    about: str, prints: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    code = next(body for kind, body in BLOCKS if kind == "python" and about in body)
    monkeypatch.chdir(ROOT)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert prints in capsys.readouterr().out


def test_files_that_are_named_exist():
    for name in re.findall(
        r"`((?:dialects|transforms|lowering|runtime|tools|test)/[\w./]+)`", TEXT
    ):
        assert (ROOT / name).exists(), name


def test_make_targets_exist():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for name in re.findall(r"make (demo|check|docs|soak|machines)", TEXT):
        assert name in targets
