"""The page of the documentation does what it says."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from documents import ROOT, Run, check_page, run

__all__ = ["run"]


def test_page(
    tmp_path: Path, run: Run, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "pytorch.md").read_text("utf-8")
    assert check_page(text, tmp_path, run, capfd) == 5
