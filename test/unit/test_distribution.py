"""The package by its name: beside a clone of the sources, inside it, and beside another project's
package of this name."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ge.dialects.support.distribution import NAME, stranger, version
from ge.dialects.support.packages import installed, looking_again
from ge.tools import commands

sys.path.insert(0, str(Path(__file__).parent))
from packages import write_metadata
from source_trees import ROOT

SITE = str(Path(pytest.__file__).parents[1])
WORKS = "import ge; print(ge.compile.__name__, ge.GeError.__name__, ge.__version__)"
ALL = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def python(
    *args: str, folder: Path, paths: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment},
    )


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of the sources that is called `ge`, in a folder of its own."""
    (tmp_path / "ge").symlink_to(ROOT, target_is_directory=True)
    (tmp_path / "script.py").write_text(WORKS)
    return tmp_path / "ge"


@pytest.mark.parametrize("flags", [(), ("-S",)], ids=["installed", "not installed"])
@pytest.mark.parametrize("where", ["script", "beside", "inside"])
def test_beside_a_clone(clone: Path, where: str, flags: tuple[str, ...]):
    """Without site (`-S`) the sources are not on Python's path, except by the current folder."""
    how = {
        "script": (str(clone.parent / "script.py"),),
        "beside": ("-c", WORKS),
        "inside": ("-c", WORKS),
    }[where]
    folder = {"script": ROOT.parent, "beside": clone.parent, "inside": clone}[where]
    done = python(*flags, *how, folder=folder, paths=(SITE,) if flags else ())
    assert done.stderr == ""
    assert done.stdout == f"compile_model GeError {version()}\n"


def test_the_version_without_metadata(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ge.dialects.support.distribution.NAME", "no-such-distribution")
    assert version() == ALL["version"]


def test_doors_say_that_another_package_hides_this_one(tmp_path: Path):
    (tmp_path / "ge.py").write_text("")
    for name, place in ALL["scripts"].items():
        assert place == f"ge_npu:{name.replace('-', '_')}"
        assert getattr(commands, name.replace("-", "_")).tool == name.replace("_", "-")
    for name in ("ge-compile", "ge-opt"):
        tool = name.replace("-", "_")
        code = f"import sys; from ge_npu import {tool}; sys.exit({tool}())"
        done = python("-c", code, folder=tmp_path, paths=(str(tmp_path),))
        assert done.returncode == 1
        assert done.stderr.startswith(f"{name}: error: No module named 'ge.tools'; ")
        assert f"the package 'ge' at {tmp_path / 'ge.py'} is not that of" in done.stderr
        assert "pip uninstall ge" in done.stderr
        assert "Traceback" not in done.stderr
    code = "from ge_npu import ge_backend"  # by which torch.compile loads it
    done = python("-c", code, folder=tmp_path, paths=(str(tmp_path),))
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: No module named 'ge.lowering'; ")
    assert f"the package 'ge' at {tmp_path / 'ge.py'} is not that of" in last


def test_another_distribution_of_the_name_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Where its files are overwritten by ours, or beside them."""
    assert stranger() == ""
    write_metadata(tmp_path, "ge", {}, version="0.1.18")
    monkeypatch.syspath_prepend(tmp_path)
    with looking_again():
        installed()
        installed()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: the distribution 'ge' 0.1.18 is another project")
    assert "pip uninstall ge" in line


def test_no_page_and_no_message_names_the_distribution_of_another_project():
    """`pip install 'ge[torch]'` would install that."""
    wrong = re.compile(r"pip install\s+(?:-\S+\s+)*['\"]?ge(?![\w-])|\bversion\(['\"]ge['\"]\)")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.splitlines()
    texts = [p for p in listed if Path(p).suffix in {".py", ".md", ".js", ".json", ".toml", ".yml"}]
    found = [p for p in texts if wrong.search((ROOT / p).read_text("utf-8", "replace"))]
    assert [p for p in found if p != "test/unit/test_distribution.py"] == []
    assert ALL["name"] == NAME
