"""The documentation: each page is in the navigation, links lead somewhere, commands and code run
and print what is shown, and the reference says all that the code has."""

import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from pygments.lexers import get_lexer_by_name
from pygments.token import Token

sys.path.insert(0, str(Path(__file__).parent))
from chromium import Browser, chromium
from documents import ROOT, Run, anchors, blocks, check_page, links, put, run

from ge.dialects.targets.target import Target
from ge.dialects.text.printing import op_text
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.onnx.registry import own_handlers
from ge.lowering.plugins.universe import DIALECTS, GE_UNIVERSE
from ge.tools.cli.parsers import PARSERS
from ge.tools.reference.ops import context_of_examples, example_of, examples
from ge.tools.reference.pages import generated_pages

__all__ = ["run"]

WRITTEN = {str(p.relative_to(ROOT / "docs")): p for p in sorted((ROOT / "docs").rglob("*.md"))}

# pages whose commands another test runs, in a copy of the sources or with packages of its own
# (pytorch.md: `test/torch/test_page.py`)
TESTED_ELSEWHERE = {"add_a_package.md", "add_a_pass.md", "add_an_op.md", "pytorch.md"}


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name: p.read_text("utf-8") for name, p in WRITTEN.items()} | generated_pages()


def navigation() -> list[str]:
    config = (ROOT / "mkdocs.yml").read_text("utf-8")
    return re.findall(r"^ +- [^:\n]+: (\S+\.md)$", config.partition("\nnav:\n")[2], re.MULTILINE)


def test_each_page_is_in_the_navigation(pages: dict[str, str]):
    assert sorted(navigation()) == sorted(pages)


def test_links_lead_to_pages_and_headings(pages: dict[str, str]):
    broken: list[str] = []
    for name, text in pages.items():
        for link in links(text):
            path, _, anchor = link.partition("#")
            if re.match(r"\w+:", link):
                continue
            target = normpath(join(dirname(name), path)) if path else name
            if target not in pages or (anchor and anchor not in anchors(pages[target])):
                broken.append(f"{name}: {link}")
    assert broken == []


def test_links_of_the_readme_lead_to_pages(pages: dict[str, str]):
    for link in links((ROOT / "README.md").read_text("utf-8")):
        if not re.match(r"\w+:", link):
            path, _, anchor = link.partition("#")
            assert (ROOT / path).exists(), link
            assert not anchor or anchor in anchors(pages[path.removeprefix("docs/")]), link


def test_files_that_pages_name_exist(pages: dict[str, str]):
    for page, text in pages.items():
        made = {block.title.partition(",")[0] for block in blocks(text)}
        for name in re.findall(
            r"`((?:dialects|transforms|lowering|runtime|tools|test)/[\w./]+\.\w+)`", text
        ):
            assert name in made or (ROOT / name).exists(), f"{page} names {name}"


@pytest.mark.parametrize("page", sorted(set(WRITTEN) - TESTED_ELSEWHERE))
def test_a_page_does_what_it_says(
    page: str, tmp_path: Path, run: Run, capfd: pytest.CaptureFixture[str]
):
    (module,) = (b for b in blocks(WRITTEN["tutorial.md"].read_text("utf-8")) if b.title)
    put(module, tmp_path)
    (tmp_path / "test").mkdir()
    (tmp_path / "test/models").symlink_to(ROOT / "test/models")
    check_page(WRITTEN[page].read_text("utf-8"), tmp_path, run, capfd)


def test_costs_of_the_host_are_those_of_the_target():
    """A row for each key, with the value and the comment of the target file."""
    target = Target.load("910_merged")
    text = (ROOT / "dialects/targets/910_merged.toml").read_text("utf-8")
    lines = re.findall(r"^(host_\w+_us) = (\S+) +# (.*): (.*)$", text, re.MULTILINE)
    want = [f"| `{key}` | {value} | {what} | {source} |" for key, value, source, what in lines]
    assert [
        row
        for row in WRITTEN["host.md"].read_text("utf-8").splitlines()
        if row.startswith("| `host_")
    ] == want
    assert [key for key, *_ in lines] == [
        f.name for f in fields(Target) if f.name.startswith("host_") and f.name.endswith("_us")
    ]
    assert all(float(value) == getattr(target, key) for key, value, *_ in lines)


def test_the_reference_has_all_that_there_is(pages: dict[str, str]):
    for name in GE_UNIVERSE.all_passes:
        assert f"\n### {name}\n" in pages["reference/passes.md"]
    for name in Target.presets():
        assert f"\n## {name}\n" in pages["reference/targets.md"]
    for name in PARSERS:
        assert f"\n## {name}\n" in pages["reference/tools.md"]
    for _, name in own_handlers():
        assert f"`{name}`" in pages["reference/onnx.md"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    tools = {name.replace("_", "-") for name in project["scripts"]}  # also by names of GE
    assert sorted(PARSERS) == sorted(tools)


def test_each_pass_shows_what_it_rewrites(pages: dict[str, str]):
    """In its docstring, as code: before and after, or the form that it writes."""
    _, *sections = pages["reference/passes.md"].split("\n### ")
    without = {s.partition("\n")[0] for s in sections if "\n    " not in s and "```" not in s}
    assert {name for name in without if not name.startswith("verify-")} == set()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_op_has_an_example(dialect: str, pages: dict[str, str]):
    """In `docs/examples`: one that has the op, and says in the reference what it is."""
    ops = list(GE_UNIVERSE.all_dialects[dialect]().operations)
    for op in ops:
        example = example_of(op.name)
        assert example is not None, f"docs/examples/{dialect}.mlir has no example of {op.name}"
        assert op.name in {o.name for o in example.module().walk()}, op.name
        assert f"\n### {op.name}\n" in pages[f"reference/{dialect}.md"]
    known = {op.name for op in ops}
    assert [e.op for e in examples(dialect) if e.op and e.op not in known] == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_examples_come_back_as_they_are_printed(dialect: str):
    """In the custom form, and in the generic one of that."""
    for example in examples(dialect):
        module = example.module()
        text = op_text(module)
        for generic in (False, True):
            source = SourceText(example.place, op_text(module, generic=generic))
            module = parse_module(context_of_examples(), source)
        assert op_text(module) == text


def test_examples_of_graph_and_fused_ops_are_run(pages: dict[str, str]):
    for dialect in ("graph", "fused_op"):
        page = pages[f"reference/{dialect}.md"]
        assert page.count("\nIt returns `") == len(examples(dialect)) == page.count("\n### ")


@pytest.mark.soak
def test_the_site_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """By mkdocs, whose own look at links and navigation is strict."""
    pytest.importorskip("mkdocs")
    from ge.tools import docs

    monkeypatch.setattr(sys, "argv", ["docs", "--site-dir", str(tmp_path)])
    assert docs.main() == 0
    assert (tmp_path / "reference/passes.html").exists()


def test_the_colours_of_mlir_text_are_known_everywhere(pages: dict[str, str]):
    """The lexer has a rule for every character of the pages' modules, and ops have their colour."""
    lexer = get_lexer_by_name("mlir")
    texts = [b.body for page in pages.values() for b in blocks(page) if b.kind == "mlir"]
    assert len(texts) > 100
    for text in texts:
        tokens = list(lexer.get_tokens(text))
        assert not [v for kind, v in tokens if kind in (Token.Error, Token.Text) and v.strip()]
    (op,) = [v for kind, v in lexer.get_tokens("%0 = graph.relu %x") if kind is Token.Name.Builtin]
    assert op == "graph.relu"


@pytest.mark.soak
def test_the_site_searches_from_disk_without_a_network(tmp_path: Path):
    pytest.importorskip("mkdocs")
    if (program := chromium()) is None:
        pytest.skip("no Chromium: name one in CHROMIUM")
    from ge.tools import docs

    command = [sys.executable, docs.__file__, "--site-dir", str(tmp_path)]
    assert subprocess.run(command, check=False).returncode == 0
    with Browser(program) as browser:
        browser.load((tmp_path / "reference/options.html").as_uri())
        browser.wait("document.querySelector('.md-search__input').offsetWidth > 0")
        browser.evaluate("document.querySelector('.md-search__input').focus()")
        browser.write_text("bufferize")
        browser.wait("document.querySelectorAll('.md-search-result__item').length > 0")
        broken = (
            "[...document.querySelectorAll('td code')].filter(c => c.getClientRects().length > 1)"
        )
        assert browser.evaluate(f"{broken}.map(c => c.textContent)") == []
        schemes = "document.querySelectorAll('[data-md-color-media]').length"
        assert browser.evaluate(schemes) >= 3
        assert browser.errors == []


@pytest.mark.soak
def test_links_to_other_sites_lead_somewhere(pages: dict[str, str]):
    """Where there is a network."""
    texts = [*pages.values(), (ROOT / "README.md").read_text("utf-8")]
    for link in {link for text in texts for link in links(text) if link.startswith("http")}:
        try:
            with urlopen(Request(link, headers={"User-Agent": "ge"}), timeout=20) as answer:
                assert answer.status == 200, link
        except HTTPError as e:
            pytest.fail(f"{link}: {e}")
        except OSError as e:
            pytest.skip(f"no network: {e}")
