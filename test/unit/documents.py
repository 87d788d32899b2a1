"""Reading documents: blocks of code, commands and what they print, links."""

import itertools
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from forklit import call

from ge.tools.cli.parsers import PARSERS
from ge.tools.reference.markdown import anchor

ROOT = Path(__file__).resolve().parents[2]

BLOCK = re.compile(
    r'^```(?P<kind>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<body>.*?)^```$', re.MULTILINE | re.DOTALL
)

# a line, or several with a text for the command
COMMAND = re.compile(r"^[^\n]*<<'(\w+)'\n.*?^\1$|^[^\n]+$", re.MULTILINE | re.DOTALL)

LOOP = re.compile(r"^for (\w+) in \$\(seq (\d+) (\d+)\); do\n(.*?)^done$", re.MULTILINE | re.DOTALL)

# commands that run in this process, where the line has nothing that needs a shell
PYTHON = {*PARSERS, "filecheck"}
CAT = ["cat"]  # at the end of a pipe: the status of what is before it does not count
SHELL = {">", "<", "&&", "||", ";", "2>&1", "<<'END'"}

# what ge-run prints of the elements of an array, which depends on the order of sums
FIGURES = re.compile(r"(?<=\b(?:min|max) )-?\d[-+.\de]*(?=,)|(?<=, mean )-?\d[-+.\de]*")
# figures of times, in blocks that say where these come from: a better tile program changes them
TIMES = re.compile(r"\b\d[\d,]*\.\d+\b|(?<=\()\d+(?=%)")
SOURCED = re.compile(r", (simulated|estimated)\b")
NUMBER = "\0"  # stands for a figure

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
    monkeypatch.syspath_prepend(str(tmp_path))

    def one(command: str) -> str:
        fails = command.startswith("! ")
        settings, plain = environment_of(command.removeprefix("! "))
        stages = [shlex.split(stage) for stage in plain.split(" | ")]
        if stages[0][0] == "lit":  # here, where nothing has to be imported again
            return "".join(one(line) for path in stages[0][2:] for line in run_lines(path))
        if all(s == CAT or (s[0] in PYTHON and not SHELL & set(s)) for s in stages):
            with monkeypatch.context() as patch:
                for name, value in settings:
                    patch.setenv(name, value)
                return pipe(stages, command, capfd, fails)
        status = subprocess.run(["bash", "-euc", command], check=False).returncode
        return checked(status, command, capfd)

    return lambda commands: "".join(
        one(match[0]) for match in COMMAND.finditer(LOOP.sub(unrolled, commands))
    )


def unrolled(loop: re.Match[str]) -> str:
    """The commands of a loop over numbers, which then run in this process."""
    name, first, last, body = loop.groups()
    lines = [line.strip() for line in body.splitlines()]
    numbers = range(int(first), int(last) + 1)
    return "\n".join(line.replace(f"${name}", str(i)) for i in numbers for line in lines)


@contextmanager
def own_process() -> Iterator[None]:
    """What plug-ins register ends with a command."""
    # imported here: pages may change the sources of these before
    from ge.dialects.fused_op import UserKernels
    from ge.dialects.support.context import having
    from ge.lowering.plugins.extensions import new_registry

    with having(UserKernels()), new_registry():
        yield


def checked(status: int, command: str, capfd: pytest.CaptureFixture[str]) -> str:
    out, err = capfd.readouterr()
    assert status == 0, f"{command}\n{out}\n{err}"
    return err + out


def environment_of(command: str) -> tuple[list[tuple[str, str]], str]:
    """The variables that a command begins with, and the rest."""
    settings: list[tuple[str, str]] = []
    while match := re.match(r"([A-Z_]+)=(\S+) ", command):
        settings.append((match[1], match[2]))
        command = command[match.end() :]
    return settings, command


def run_lines(path: str) -> list[str]:
    """The commands of a FileCheck test, as lit.cfg has them substituted."""
    lines = re.findall(r"^// RUN: (.*)$", Path(path).read_text("utf-8"), re.MULTILINE)
    roundtrip = "ge-opt %s --print-op-generic -o generic.mlir; ge-opt generic.mlir"
    lines = [part for line in lines for part in line.replace("%roundtrip", roundtrip).split("; ")]
    return [line.replace("%s", path).replace("%S", str(Path(path).parent)) for line in lines]


def pipe(
    stages: list[list[str]], command: str, capfd: pytest.CaptureFixture[str], fails: bool = False
) -> str:
    """Run tools of ge and filecheck, each on what the one before it printed."""
    printed, text = "", ""
    for argv in stages:
        if argv == CAT:
            continue
        if argv[0] == "filecheck":
            status = call(argv, text.encode())
        else:
            assert not text, "a tool that reads a pipe is a process"
            with own_process():
                from ge.tools import commands

                status = getattr(commands, argv[0].replace("-", "_"))(argv[1:])
        out, err = capfd.readouterr()
        assert (status != 0) == fails or stages[-1] == CAT, f"{command}\n{out}\n{err}"
        printed, text = printed + err, out
    return printed + text


def check_shown(shown: str, printed: str) -> None:
    """Each line shown is printed, in this order; `...` stands for what is left out. The figures of
    an array are equal within 1e-5 of its largest element, as processors round differently; those of
    times, where the block says where these come from, within a tenth; all others as text."""
    lines = iter(printed.splitlines())
    times = TIMES if SOURCED.search(shown) else re.compile(r"(?!)")
    for want in shown.splitlines():
        want = want.rstrip()
        if want.strip() == "...":
            continue
        parts = re.split(r" ?\.\.\. ?", times.sub(NUMBER, FIGURES.sub(NUMBER, want)))
        pattern = re.compile(".*".join(map(shown_as, parts)))
        figures = figures_of(want)
        found = any(
            pattern.fullmatch(line)
            and nearly(figures, figures_of(line))
            and alike(times.findall(want), times.findall(line))
            for line in map(str.rstrip, lines)
        )
        assert found, f"a line is shown that is not printed there:\n{want}\n---\n{printed}"


def shown_as(part: str) -> str:
    """The pattern of a part of a line, in which any number stands for a figure."""
    return re.escape(part).replace(NUMBER, r"[-+.\w]+")


def figures_of(line: str) -> list[float]:
    return [float(m[0]) for m in FIGURES.finditer(line)]


def nearly(shown: list[float], printed: list[float]) -> bool:
    most = max(map(abs, shown), default=0.0)
    pairs = zip(shown, printed, strict=False)  # what `...` leaves out comes last
    return all(a == b or abs(a - b) <= 1e-5 * most for a, b in pairs)


def alike(shown: list[str], printed: list[str]) -> bool:
    """Whether times are the same within a tenth."""
    numbers = [[float(text.replace(",", "")) for text in texts] for texts in (shown, printed)]
    pairs = zip(*numbers, strict=False)  # what `...` leaves out comes last
    return all(abs(a - b) <= 0.1 * max(a, b) for a, b in pairs)


def put(block: Block, folder: Path) -> None:
    """Write the file that a block is, or add it at the end of one."""
    name, _, where = block.title.partition(", ")
    place = folder / name
    if where == "at the end":
        gap = "\n\n" if place.suffix == ".py" else "\n"
        place.write_text(place.read_text("utf-8") + gap + block.body, "utf-8")
    else:
        assert not where, f"where is '{where}'?"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(block.body, "utf-8")


def check_page(text: str, folder: Path, run: Run, capfd: pytest.CaptureFixture[str]) -> int:
    """Follow a page in a folder: blocks with a title are files, and written first; then, in their
    order, `sh` is run, `python` without a title too (the blocks of a page are one program), and a
    `text` or `mlir` block without one behind these is an excerpt of what they print. Returns how
    many blocks were run."""
    write(text, folder)
    return follow(text, run, capfd)


def write(text: str, folder: Path) -> None:
    for block in blocks(text):
        if block.title:
            put(block, folder)


def follow(text: str, run: Run, capfd: pytest.CaptureFixture[str]) -> int:
    """Run the commands of a page whose files are written."""
    count, nothing = 0, Block("", "", "")
    names: dict[str, object] = {"__name__": "page"}
    for block, after in itertools.pairwise([*blocks(text), nothing]):
        if block.title:
            continue
        if block.kind == "sh":
            printed = run(block.body)
        elif block.kind == "python":
            with own_process():
                exec(compile(block.body, "page", "exec"), names)
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
