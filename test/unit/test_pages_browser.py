"""A page in a browser: it loads, finds, opens, closes and zooms without an error."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ge.tools.commands import ge_visualizer

sys.path.insert(0, str(Path(__file__).parent))
from chromium import Browser, chromium

MODELS = Path(__file__).resolve().parents[1] / "models"
MODEL, LARGE = MODELS / "bert_base.tiny.onnx", MODELS / "llama_7b_prefill.structure.onnx"
PROGRAM = chromium()

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium: name one in CHROMIUM")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "bert.html"
    assert ge_visualizer([str(MODEL), "--target", "910_merged", "-o", str(file)]) == 0
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert PROGRAM is not None
    with Browser(PROGRAM) as found:
        yield found


def test_a_page_draws_finds_opens_and_zooms(page: Path, browser: Browser):
    browser.open(page)
    assert browser.evaluate("document.querySelectorAll('.verdict li').length") == 5
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


def test_keys_alone(page: Path, browser: Browser):
    browser.open(page)
    chosen = "document.getElementById('inspector').querySelector('h2')?.textContent"
    browser.key("2")
    browser.evaluate("document.querySelector('.canvas').focus()")
    browser.key("ArrowDown")
    assert browser.evaluate(chosen)
    browser.key("Escape")
    browser.key("3")
    browser.evaluate("document.querySelector('.canvas').focus()")
    browser.key("ArrowRight")
    browser.key("ArrowRight")
    assert browser.evaluate("app.tab.view.plot.chosen.number") == 1
    assert browser.evaluate(chosen)
    browser.key("4")
    assert browser.evaluate("app.tab.id") == "memory"
    browser.key("?")
    assert browser.evaluate("document.getElementById('keys').open")
    browser.key("Escape")
    assert browser.errors == []


# Titles of containers, and those that the line of an edge crosses (its points 5 pixels apart)
CROSSED = """(() => {
  const texts = [...document.querySelectorAll('.cluster > text')];
  const titles = texts.map(t => t.getBoundingClientRect());
  const inside = (t, p) => p.x > t.left && p.x < t.right && p.y > t.top && p.y < t.bottom;
  let crossed = 0;
  for (const edge of document.querySelectorAll('path.edge')) {
    const box = edge.getBoundingClientRect();
    const near = t => t.left < box.right && box.left < t.right && t.top < box.bottom
      && box.top < t.bottom;
    const those = titles.filter(near);
    if (!those.length) continue;  // to ask for points takes time
    const matrix = edge.getScreenCTM();
    for (let at = 0; at < edge.getTotalLength(); at += 5) {
      const p = edge.getPointAtLength(at).matrixTransform(matrix);
      crossed += those.some(t => inside(t, p));
    }
  }
  return [titles.length, crossed];
})()"""


WHOLE = "app.graph.svg.call(app.graph.zoom.transform, d3.zoomIdentity)"


def test_edges_do_not_cross_titles(page: Path, browser: Browser):
    browser.open(page)
    browser.click("#tab-graph")
    for level in range(browser.evaluate("app.model.levels.length")):
        browser.evaluate(f"app.graph.setLevel({level}); app.graph.openAll(); {WHOLE}")
        titles, crossed = browser.evaluate(CROSSED)
        assert titles
        assert crossed == 0, level


def test_what_a_search_finds_is_in_the_middle(page: Path, browser: Browser):
    off_middle = """(() => {
      const box = name => document.querySelector(name).getBoundingClientRect();
      const a = box('.canvas'), b = box('.chosen');
      const away = (from, size) => a[from] + a[size] / 2 - b[from] - b[size] / 2;
      return Math.hypot(away('x', 'width'), away('y', 'height'));
    })()"""
    for view in ("overview", "graph", "timeline"):
        browser.open(page, f"#{view}")
        for text in ("gelu", "layer.1 linear", "pooler"):
            browser.key("/")
            browser.evaluate("document.getElementById('search').value = ''")
            browser.write_text(text)
            browser.wait("document.querySelectorAll('#hits [role=option]').length > 0")
            browser.key("Enter")
            assert browser.evaluate(off_middle) < 4, (view, text)


def test_controls_stay_in_a_row(page: Path, browser: Browser):
    """At 1280 pixels, without details and with them."""
    browser.open(page)
    rows = """(() => {
      const shown = [...document.querySelectorAll('.tools > *')].filter(e => e.offsetWidth);
      const boxes = shown.map(e => e.getBoundingClientRect());
      const middles = boxes.map(b => Math.round(b.top + b.height / 2));
      const right = document.querySelector('.tools').getBoundingClientRect().right;
      return Math.max(...middles) - Math.min(...middles) < 6 && boxes.every(b => b.right <= right);
    })()"""
    for view in ("graph", "timeline", "memory", "roofline"):
        browser.evaluate("app.select(null)")
        browser.click(f"#tab-{view}")
        assert browser.evaluate(rows), view
        browser.evaluate("app.select({level: app.model.program, node: 3}, false)")
        assert browser.evaluate(rows), view


def test_the_width_is_used(page: Path, browser: Browser):
    browser.open(page)
    for view in ("overview", "layers", "fusion", "changes"):
        browser.click(f"#tab-{view}")
        cards = "[...document.querySelectorAll('.card')].map(c => c.getBoundingClientRect().right)"
        assert browser.evaluate(f"innerWidth - Math.max(...{cards})") < 40, view


def test_a_narrow_task_has_its_name_beside_it_or_at_the_pointer(page: Path, browser: Browser):
    browser.open(page, "#timeline")
    narrow = "app.tab.view.plot.spots.filter(s => s.item.name && s.x1 - s.x0 < 8)"
    x, y, name = browser.evaluate(
        f"(() => {{ const s = {narrow}[0];"
        "const b = document.querySelector('.canvas').getBoundingClientRect();"
        "return [b.x + s.x1 + 3, b.y + (s.y0 + s.y1) / 2, s.item.name]; })()"
    )
    browser.mouse("mouseMoved", x, y)
    assert name in browser.evaluate("document.getElementById('tip').textContent")
    drawn = "app.tab.view.plot"
    browser.evaluate(
        f"globalThis.texts = []; const c = {drawn}.context, draw = c.fillText.bind(c);"
        f"c.fillText = (t, ...at) => {{ texts.push(t); draw(t, ...at); }}; {drawn}.draw()"
    )
    before = browser.evaluate("new Set(texts).size")
    browser.evaluate("app.tab.view.longest()")
    longest = browser.evaluate(f"{drawn}.chosen.name")
    assert before > 15
    assert longest in browser.evaluate("texts")


def test_a_place_in_the_address_is_shown(page: Path, browser: Browser):
    browser.open(page, "#graph/program/6")
    assert browser.evaluate("app.model.levels[app.chosen.level].name") == "program"
    assert browser.evaluate("document.querySelectorAll('.node.chosen').length") == 1
    assert browser.errors == []


@pytest.mark.soak
def test_a_large_model_opens_and_reacts_in_two_seconds(tmp_path: Path, browser: Browser):
    """Times are of a machine that does nothing else."""
    file = tmp_path / "llama.html"
    assert ge_visualizer([str(LARGE), "-o", str(file)]) == 0
    assert file.stat().st_size < 8 << 20
    assert browser.open(file) < 2
    for action in (
        "app.show('graph')",
        "app.search.find('matmul layers.7')",
        "app.goto({level: 2, node: 200})",
        "app.graph.openAll()",
        "app.show('timeline')",
        "app.show('memory')",
    ):
        start = time.perf_counter()
        browser.evaluate(f"{action}; new Promise(requestAnimationFrame)")
        assert time.perf_counter() - start < 2, action
    assert browser.errors == []


def test_light_and_dark(page: Path, browser: Browser):
    browser.open(page)
    color = "getComputedStyle(document.body).backgroundColor"
    before = browser.evaluate(color)
    browser.click("#theme")
    assert browser.evaluate(color) != before
    assert browser.errors == []
