"""Packages for tests, installed as pip installs them, without the two seconds in which it builds
them."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from shutil import copytree

SAMPLE = Path(__file__).resolve().parents[1] / "sample_package"


def install_sample(folder: Path) -> None:
    install_project(SAMPLE, folder)


def install_project(project: Path, folder: Path) -> None:
    """A folder with a `pyproject.toml`, as `pip install --target FOLDER` leaves it."""
    tables = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))
    for package in tables["tool"]["setuptools"]["packages"]:
        copytree(project / package, folder / package)
    facts = tables["project"]
    entries = facts["entry-points"]["xdsl.universe"]
    write_metadata(folder, facts["name"], entries, facts["version"], facts["dependencies"])


def write_metadata(
    folder: Path,
    name: str,
    universes: Mapping[str, str],
    version: str = "1.0",
    requires: tuple[str, ...] = (),
) -> None:
    beside = os.environ.get("GE_PACKAGES_OFF", "").split(",")  # the environment may have it, too
    os.environ["GE_PACKAGES_OFF"] = ",".join(other for other in beside if other != name)
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (info / "METADATA").write_text(head + "".join(f"Requires-Dist: {r}\n" for r in requires))
    lines = [f"{key} = {place}\n" for key, place in universes.items()]
    (info / "entry_points.txt").write_text("".join(["[xdsl.universe]\n", *lines]))


def install_package(folder: Path, name: str, code: str, requires: tuple[str, ...] = ()) -> None:
    """A package of one module, whose entry point is `PACKAGE`."""
    (folder / f"{name}.py").write_text(code)
    write_metadata(folder, name, {name: f"{name}:PACKAGE"}, requires=requires)
