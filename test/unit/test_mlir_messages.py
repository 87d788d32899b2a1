"""docs/mlir_messages.md says what ge-opt says, and what mlir-opt 19 says."""

import sys
from pathlib import Path

import pytest

from ge.tools.commands import ge_opt

sys.path.insert(0, str(Path(__file__).parent))
from mlir_messages import MISTAKES, MLIR_OPT, PAGE, Mistake, of_process, said, without_notes


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.title)
def test_ge_opt_says_so(
    mistake: Mistake,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)

    def run(arguments: list[str]) -> str:
        assert ge_opt(arguments) == 1
        return capfd.readouterr().err

    text = said(mistake, run, tmp_path)
    section = PAGE.read_text().partition(f"## {mistake.title}\n")[2].partition("\n## ")[0]
    assert section.endswith(f"ge-opt:\n\n```text\n{text}\n```\n") or section.endswith(
        f"ge-opt:\n\n```text\n{text}\n```"
    )


@pytest.mark.soak
@pytest.mark.skipif(MLIR_OPT is None, reason="mlir-opt is not installed (mlir-19-tools)")
def test_mlir_opt_says_so(tmp_path: Path):
    text = PAGE.read_text()
    for mistake in MISTAKES:
        theirs = without_notes(said(mistake, of_process(str(MLIR_OPT), tmp_path), tmp_path))
        assert f"```text\n{theirs}\n```" in text
