"""ge-shims; `parsers.py` says what it is for."""

import argparse
import sys
import sysconfig
from collections.abc import Sequence
from importlib.machinery import PathFinder
from importlib.metadata import packages_distributions, version
from pathlib import Path

from ge.dialects.support.errors import GeError
from ge.dialects.support.streams import print_result
from ge.dialects.text.values import did_you_mean
from ge.runtime.data.files import Outputs
from ge.tools.cli.parsers import NAMES

MARK = '"""ge by another name: written by `ge-shims install`, and removed by `ge-shims remove`."""'
TEXT = f"""{MARK}

from ge import __getattr__ as __getattr__
"""


def run(args: argparse.Namespace) -> int:
    folder = Path(args.folder or sysconfig.get_path("purelib"))
    if not folder.is_dir():
        raise GeError("there is no such folder", str(folder), "give another --folder")
    names: Sequence[str] = args.names or NAMES
    for name in names:
        if name not in NAMES:
            hint = did_you_mean(name, NAMES).removeprefix("; ") or f"shims: {', '.join(NAMES)}"
            raise GeError(f"ge has no shim '{name}'", hint=hint)
    act = install if args.what == "install" else remove
    act(folder, names, args)
    return 0


def install(folder: Path, names: Sequence[str], args: argparse.Namespace) -> None:
    """Write the modules. Raises GeError, and writes none, where a real package has such a name."""
    for name in names:
        if (owner := owner_of(name, folder)) is not None:
            given = [n for n in names if n != name]
            hint = f"uninstall it, or install the others: ge-shims install {' '.join(given)}"
            raise GeError(
                f"a package has the name '{name}': {owner}", hint=hint if given else "uninstall it"
            )
    with Outputs() as out:
        for name in names:
            out.text(folder / f"{name}.py", TEXT)
    print_result(*(f"{folder / f'{name}.py'}: import {name} is import ge" for name in names))


def remove(folder: Path, names: Sequence[str], args: argparse.Namespace) -> None:
    """Remove those of the modules that are there. Raises GeError where none is."""
    files = [f for name in names if is_ours(f := folder / f"{name}.py")]
    if not files:
        raise GeError(
            f"there is no shim {' or '.join(names)}", str(folder), "nothing is to be done"
        )
    for file in files:
        file.unlink()
        print_result(f"{file}: removed")


def is_ours(file: Path) -> bool:
    try:
        return file.read_text("utf-8", "replace").startswith(MARK)
    except OSError:
        return False


def owner_of(name: str, folder: Path) -> str | None:
    """Find what has the name of a module and is no shim: its distribution, else its file."""
    spec = PathFinder.find_spec(name, [str(folder), *sys.path])
    if spec is None or (spec.origin is not None and is_ours(Path(spec.origin))):
        return None
    for distribution in packages_distributions().get(name, ()):
        return f"{distribution} {version(distribution)}"
    return spec.origin or next(iter(spec.submodule_search_locations or ()), "a module")
