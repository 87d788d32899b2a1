"""Follow the pages on adding an op and a pass. `test_extending.py` runs this in a copy of the
sources, which it changes."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from documents import ROOT, Run, follow, run, write

__all__ = ["run"]

# in an order in which nothing is imported before it is changed
PAGES = ("add_a_pass", "add_an_op")


def test_following_the_pages(
    run: Run, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    assert (ROOT / "a_copy").exists(), "this test changes the sources"
    monkeypatch.chdir(ROOT)
    texts = [(ROOT / "docs" / f"{page}.md").read_text("utf-8") for page in PAGES]
    for text in texts:
        write(text, ROOT)
    for text in texts:
        assert follow(text, run, capfd) >= 2
