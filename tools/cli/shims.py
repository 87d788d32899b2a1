"""ge-shims: lets scripts for an NPU import ge by other names (`import ascend_npu as npu`): writes a
module of one line for each name beside the installed packages, or removes it."""

import argparse
import sysconfig
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from ge.dialects.support.errors import GeError
from ge.dialects.support.streams import print_result
from ge.dialects.text.values import did_you_mean
from ge.tools.cli.command_line import ArgumentParser

EPILOG = """examples:
  ge-shims install                      (both; then `import ascend_profiling as ap` is ge)
  ge-shims install ascend_npu
  ge-shims remove
"""

NAMES = ("ascend_npu", "ascend_profiling")
MARK = '"""ge by another name: written by `ge-shims install`, and removed by `ge-shims remove`."""'
TEXT = f"""{MARK}

from ge import __getattr__ as __getattr__
"""


def build_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-shims", __doc__, EPILOG)
    parser.add_argument("what", choices=["install", "remove"], help="what to do with the modules")
    parser.add_argument("names", nargs="*", metavar="NAME",
        help=f"which of them (default: {' and '.join(NAMES)})")  # fmt: skip
    parser.add_argument("--folder", metavar="DIR",
        help="where they are (default: the folder of the packages of this Python)")  # fmt: skip
    return parser


def run(arguments: Sequence[str]) -> int:
    args = build_parser().parse_args(arguments)
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
    from ge.runtime.data.files import Outputs

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
    """What has the name of a module already, and is no shim: its distribution, else its file."""
    import sys
    from importlib.metadata import packages_distributions, version

    spec = PathFinder.find_spec(name, [str(folder), *sys.path])
    if spec is None or (spec.origin is not None and is_ours(Path(spec.origin))):
        return None
    for distribution in packages_distributions().get(name, ()):
        return f"{distribution} {version(distribution)}"
    return spec.origin or next(iter(spec.submodule_search_locations or ()), "a module")
