"""The page on adding a package, followed word for word; and what pip makes of packages."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest

from ge.dialects.support.packages import looking_again

sys.path.insert(0, str(Path(__file__).parent))
from documents import ROOT, Run, check_page, run
from packages import SAMPLE, install_project

__all__ = ["run"]

INSTALL = "pip install --no-deps ./cubic\n"
PAGE = (ROOT / "docs" / "add_a_package.md").read_text("utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for packages, which this process and those that it starts look into."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "cubic_npu"]:
        del sys.modules[name]


def test_following_the_page(
    site: Path, tmp_path: Path, run: Run, capfd: pytest.CaptureFixture[str]
):
    """Pip, which takes seconds, is left out: its command does what it does to files."""

    def installing(commands: str) -> str:
        if commands.startswith(INSTALL):
            install_project(tmp_path / "cubic", site)
        return run(commands.removeprefix(INSTALL))

    assert PAGE.count(INSTALL) == 1
    with looking_again():
        assert check_page(PAGE, tmp_path, installing, capfd) == 4


@pytest.mark.soak
@pytest.mark.parametrize("project", ["page", "sample"])
def test_pip_installs_it(
    project: str, site: Path, tmp_path: Path, run: Run, capfd: pytest.CaptureFixture[str]
):
    """In a build of its own, with the setuptools that are here."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]

    def install(folder: Path) -> None:
        command = [*pip, "--target", str(site), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def installing(commands: str) -> str:
        if commands.startswith(INSTALL):
            install(tmp_path / "cubic")
        return run(commands.removeprefix(INSTALL))

    with looking_again():
        if project == "page":
            assert check_page(PAGE, tmp_path, installing, capfd) == 4
            return
        install(copytree(SAMPLE, tmp_path / "sample"))  # pip builds where the sources are
    listed = subprocess.run(
        [str(Path(sys.executable).with_name("ge-opt")), "--list-targets"],
        capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": str(site)},
    )  # fmt: skip
    assert "acme1" in listed.stdout
