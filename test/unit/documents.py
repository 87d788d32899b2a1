"""Reading documents: blocks of code, commands and what they print, links."""

import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

from ge.lowering.reference.markdown import anchor

ROOT = Path(__file__).resolve().parents[2]

BLOCK = re.compile(
    r'^```(?P<kind>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<body>.*?)^```$', re.MULTILINE | re.DOTALL
)

# a line, or several with a text for the command
COMMAND = re.compile(r"^[^\n]*<<'(\w+)'\n.*?^\1$|^[^\n]+$", re.MULTILINE | re.DOTALL)

Run = Callable[[str], str]


@dataclass(frozen=True)
class Block:
    """A block of code: its language, the file that it is (or none), its text."""

    kind: str
    title: str
    body: str


def blocks(text: str) -> list[Block]:
    return [Block(m["kind"], m["title"] or "", m["body"]) for m in BLOCK.finditer(text)]


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """What commands print, run in a folder; they must succeed. One of ge's tools alone runs in this
    process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")

    def one(command: str) -> str:
        tool, *arguments = shlex.split(command)
        if tool.startswith("ge-") and not {"|", ">", "&&", ";"} & set(arguments):
            status = import_module(f"ge.tools.{tool.replace('-', '_')}").main(arguments)
        else:
            status = subprocess.run(["bash", "-euc", command], check=False).returncode
        out, err = capfd.readouterr()
        assert status == 0, f"{command}\n{err}"
        return err + out

    return lambda commands: "".join(one(match[0]) for match in COMMAND.finditer(commands))


def check_shown(shown: str, printed: str) -> None:
    """Each line shown is printed, in this order; `...` stands for what is left out."""
    lines = iter(printed.splitlines())
    for want in shown.splitlines():
        want = want.rstrip()
        if want.strip() == "...":
            continue
        if want.endswith("..."):
            found = any(line.startswith(want[:-3].rstrip()) for line in lines)
        else:
            found = any(line.rstrip() == want for line in lines)
        assert found, f"a line is shown that is not printed there:\n{want}\n---\n{printed}"


def check_page(text: str, folder: Path, run: Run, capfd: pytest.CaptureFixture[str]) -> int:
    """Follow a page from top to bottom in a folder: a block with a title is that file, `sh` is run,
    `python` without a title too, and a `text` or `mlir` block without one behind these is an
    excerpt of what they print. Returns how many blocks were run."""
    count, nothing = 0, Block("", "", "")
    for block, after in itertools.pairwise([*blocks(text), nothing]):
        if block.title:
            place = folder / block.title
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(block.body, "utf-8")
            continue
        if block.kind == "sh":
            printed = run(block.body)
        elif block.kind == "python":
            exec(compile(block.body, "page", "exec"), {"__name__": "page"})
            printed = capfd.readouterr().out
        else:
            continue
        count += 1
        if after.kind in ("text", "mlir") and not after.title:
            check_shown(after.body, printed)
    return count


# ---- links ---------------------------------------------------------------------------------------


def prose(text: str) -> str:
    """A page without its code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page, as mkdocs makes them."""
    found: set[str] = set()
    for title in re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M
    ):
        slug, number = anchor(title), 0
        while slug in found:
            number += 1
            slug = f"{anchor(title)}_{number}"
        found.add(slug)
    return found


def links(text: str) -> Iterator[str]:
    """What a page links to."""
    for match in re.finditer(r"\]\(([^)\s]+)\)", prose(text)):
        yield match[1]
