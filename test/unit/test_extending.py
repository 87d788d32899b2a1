"""The pages on adding an op and a pass: followed word for word in a copy of the sources. All pages'
code passes ruff, and pyright's strict mode."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from documents import ROOT, blocks, write

from ge.tools.check import FOLDERS, link_tree

IN_THE_TREE = ("add_a_pass", "add_an_op")
PAGES = sorted((ROOT / "docs").glob("*.md"))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the sources, with what is compiled of them (times stay as they are)."""
    for folder in (*FOLDERS, "ge", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    unit = [f"test/unit/{name}.py" for name in ("documents", "follow_pages")]
    for name in ("pyproject.toml", "test/lit.cfg", "test/forklit.py", *unit):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "test/models").symlink_to(ROOT / "test/models")
    link_tree(tmp_path)
    (tmp_path / "a_copy").touch()
    return tmp_path


def in_copy(copy: Path, *command: str) -> None:
    """Run a Python module on the sources of the copy."""
    paths = copy / "build/typecheck", copy / "cubic"  # that of add_a_package.md
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # what is installed takes a second to load
    }
    done = subprocess.run(
        [sys.executable, "-P", "-m", *command],
        cwd=copy, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_following_the_pages(copy: Path):
    in_copy(copy, "pytest", "-q", "-p", "no:cacheprovider", "test/unit/follow_pages.py")


def written(page: Path) -> list[str]:
    """The Python files of a page."""
    files = (block.title.partition(",")[0] for block in blocks(page.read_text("utf-8")))
    return sorted({name for name in files if name.endswith(".py")})


def test_code_of_pages_passes_ruff(copy: Path):
    names: list[str] = []
    for page in PAGES:
        write(page.read_text("utf-8"), copy)
        names += written(page)
    in_copy(copy, "ruff", "check", "-q", *names)
    in_copy(copy, "ruff", "format", "-q", "--check", *names)


@pytest.mark.soak
def test_code_of_pages_passes_the_type_check(copy: Path):
    """Files of the tree where they are, others beside it."""
    places: list[str] = []
    for page in PAGES:
        write(page.read_text("utf-8"), copy)
        tree = "build/typecheck/ge/" if page.stem in IN_THE_TREE else ""
        places += [f"{tree if '/' in name else ''}{name}" for name in written(page)]
    in_copy(copy, "pyright", "--pythonpath", sys.executable, *places)
