"""A page in a browser: it loads, finds, opens, closes and zooms without an error."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ge.tools import ge_visualizer

sys.path.insert(0, str(Path(__file__).parent))
from chromium import Browser, chromium

MODEL = Path(__file__).resolve().parents[1] / "models" / "bert_base.tiny.onnx"
PROGRAM = chromium()

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium: name one in CHROMIUM")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "bert.html"
    assert ge_visualizer.main([str(MODEL), "-o", str(file)]) == 0
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert PROGRAM is not None
    with Browser(PROGRAM) as found:
        yield found


def test_a_page_draws_finds_opens_and_zooms(page: Path, browser: Browser):
    browser.open(page)
    assert browser.evaluate("document.querySelectorAll('.verdict li').length") == 3
    views = "[...document.querySelectorAll('nav button')].map(b => b.disabled ? '' : b.id.slice(4))"
    for view in browser.evaluate(views):
        assert view, "a view has nothing to show"
        browser.click(f"#tab-{view}")
        assert browser.evaluate("document.getElementById('view').childElementCount") == 1

    browser.click("#tab-graph")
    browser.key("/")
    browser.write_text("gelu_1")
    browser.wait("document.querySelectorAll('#hits [role=option]').length > 0")
    browser.key("Enter")
    assert "gelu_1" in browser.evaluate("document.getElementById('inspector').textContent")
    assert (
        browser.evaluate("document.querySelectorAll('.node.chosen, .cluster.chosen').length") == 1
    )
    browser.key("Escape")
    assert browser.evaluate("document.getElementById('inspector').hidden")

    boxes = "document.querySelectorAll('.graph .node').length"
    browser.evaluate(
        "[...document.querySelectorAll('.act')].find(b => /Close/.test(b.textContent)).click()"
    )
    closed = browser.evaluate(boxes)
    browser.click("[data-id='m:encoder']")
    opened = browser.evaluate(boxes)
    assert opened > closed
    browser.click("[data-id='m:encoder'] text")
    assert browser.evaluate(boxes) == closed

    scale = browser.evaluate("app.graph.transform.k")
    x, y = browser.center(".canvas")
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-240)
    browser.wait(f"app.graph.transform.k > {scale}")
    assert browser.errors == []


def test_light_and_dark(page: Path, browser: Browser):
    browser.open(page)
    color = "getComputedStyle(document.body).backgroundColor"
    before = browser.evaluate(color)
    browser.click("#theme")
    assert browser.evaluate(color) != before
    assert browser.errors == []
