"""The structure of the project: who may import whom, what is packaged, how passes are named."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from graphlib import TopologicalSorter
from pathlib import Path
from zipfile import ZipFile

import pytest
from setuptools import Distribution

sys.path.insert(0, str(Path(__file__).parent))
from source_trees import ROOT, statements, tree

FOLDERS = ("dialects", "transforms", "lowering", "runtime", "tools", "ge")

FLOORS: tuple[tuple[str, ...], ...] = (
    ("dialects/support",),
    ("dialects/graph", "dialects/fused_op", "dialects/targets", "dialects/text"),
    ("dialects/npu_task",),
    ("dialects/tile",),
    ("runtime/data", "runtime/check"),
    ("runtime/numbers", "runtime/library"),
    ("runtime/cores",),
    ("runtime/clock",),
    ("runtime/profile",),
    ("runtime/device",),
    ("runtime/host",),
    ("transforms/analysis", "transforms/tiles"),
    ("transforms/rewriting",),
    ("transforms/graph", "transforms/schedule", "transforms/symbols"),
    ("transforms/memory", "transforms/quantization", "transforms/shapes"),
    ("transforms/fusion", "transforms/precision", "transforms/sharding", "transforms/state"),
    ("lowering/building", "lowering/levels", "lowering/onnx", "lowering/steps"),
    ("lowering/plugins",),
    ("lowering/pipeline",),
    ("lowering/driver",),
    ("lowering/torch",),
    ("tools/comparing", "tools/debugging", "tools/reference", "tools/views"),
    ("tools/lsp",),
    ("tools/cli",),
    ("tools", "ge"),
)
"""From the ground up: a room stands on those of the floors below it, and imports nothing else."""

NARROW = {
    "runtime/check": {"dialects"},  # a proof shares no code with what it judges
    "transforms": {"dialects", "transforms", "runtime/data", "runtime/numbers", "runtime/library"},
    "transforms/schedule": {"dialects", "transforms", "runtime/library", "runtime/clock"},
}
"""Rooms, or folders of rooms, that ask fewer of those below them."""

EXTRAS = {"lowering/torch", "runtime/host", "tools/lsp", "tools/views"}
"""Rooms that an installation may leave out: doors alone import them."""

ROOMS = {room: height for height, floor in enumerate(FLOORS) for room in floor}


def room_of(parts: Sequence[str]) -> str:
    """The room of a module below `ge`, given by the parts of its name."""
    room = "/".join(parts[:2])
    return parts[0] if room not in ROOMS and parts[0] in ROOMS else room


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imports(path: Path, only_at_run_time: bool = False) -> list[str]:
    """What a file imports of the package, in functions too."""
    found: list[str] = []
    for node in statements(tree(path).body, for_types=not only_at_run_time):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{a.name}" for a in node.names]
    return [name for name in found if name.startswith("ge.")]


def may_import(room: str, other: str) -> bool:
    """Whether files of a room may import from another one."""
    if room == other or (other in FOLDERS and other not in ROOMS):  # imported for its path alone
        return True
    asked = NARROW.get(room, NARROW.get(room.partition("/")[0]))
    is_known = asked is None or bool({other, other.partition("/")[0]} & asked)
    is_door = room.partition("/")[0] in {"tools", "ge"}
    return is_known and ROOMS[other] < ROOMS[room] and (is_door or other not in EXTRAS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_go_down(folder: str):
    wrong: list[str] = []
    for path in sources(folder):
        room = room_of(path.relative_to(ROOT).with_suffix("").parts)
        for name in imports(path):
            if not may_import(room, room_of(name.split(".")[1:])):
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_what_a_compilation_has_at_hand_has_one_home():
    """Beside it only where a command prints, which no block ends."""
    files = [p for folder in FOLDERS for p in sources(folder) if "ContextVar(" in p.read_text()]
    homes = {f"dialects/support/{name}.py" for name in ("context", "streams")}
    assert {str(p.relative_to(ROOT)) for p in files} == homes


def test_no_circle_of_imports():
    paths = {module_of(path): path for folder in FOLDERS for path in sources(folder)}
    graph = {
        name: {
            other
            for imported in imports(path, only_at_run_time=True)
            for other in (imported, imported.rpartition(".")[0])
            if other in paths and other != name and not paths[other].stem.startswith("__")
        }
        for name, path in paths.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError


INNER = 145
"""Imports within functions that there are at most. What a file always needs, it imports at its top,
where a reader sees it. The others are of what a start must not load for most uses (numpy, onnx, the
dialects, what a flag alone needs), of extras that may be missing, and of rooms that would make a
circle."""


def test_few_imports_are_within_functions():
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for folder in FOLDERS
        for path in sources(folder)
        for node in set(imports_of(ast.walk(tree(path)))) - set(imports_of(at_top(tree(path))))
    ]
    assert len(found) <= INNER, "\n".join(found)


def imports_of(nodes: Iterable[ast.AST]) -> list[ast.stmt]:
    return [n for n in nodes if isinstance(n, ast.Import | ast.ImportFrom)]


def at_top(node: ast.AST) -> Iterator[ast.AST]:
    """What is below a node, but for the insides of functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from at_top(child)


def module_of(path: Path) -> str:
    return ".".join(("ge", *path.relative_to(ROOT).with_suffix("").parts))


def test_dialects_do_not_import_numpy_or_onnx():
    for path in sources("dialects"):
        text = path.read_text("utf-8")
        assert "import numpy" not in text, path
        assert "import onnx" not in text, path


def test_nothing_else_lies_at_the_top():
    """Tools write into the current folder unless told where to; none of that is committed."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not in a git repository")
    top = {name.partition("/")[0] for name in listed.stdout.splitlines()}
    files = {"LICENSE", "Makefile", "README.md", "mkdocs.yml", "pyproject.toml"}
    doors = {"__init__.py", "ge_npu.py"}
    others = {"docs", "editors", "test"}
    assert {name for name in top if not name.startswith(".")} == {*FOLDERS, *files, *doors, *others}


def test_every_package_is_listed():
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    listed = set(table["tool"]["setuptools"]["packages"])
    found = {"ge"}
    for folder in FOLDERS[:-1]:
        for init in (ROOT / folder).rglob("__init__.py"):
            found.add("ge." + ".".join(init.parent.relative_to(ROOT).parts))
    assert listed == found


def test_a_pass_is_named_like_its_file_and_class():
    from ge.lowering.plugins.universe import GE_UNIVERSE

    for name, load in GE_UNIVERSE.all_passes.items():
        cls = load()
        assert cls.name == name
        assert cls.__name__ == "".join(w.capitalize() for w in name.split("-")) + "Pass"
        assert cls.__module__.rpartition(".")[2] == name.replace("-", "_")
        assert cls.__doc__
        assert sys.modules[cls.__module__].__doc__


def test_a_class_name_has_few_meanings():
    """Two at most; a dialect's op that yields is called so in each, as in xDSL's own."""
    homes = defaultdict[str, list[str]](list)
    for path in (p for folder in FOLDERS for p in sources(folder)):
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(str(path.relative_to(ROOT)))
    many = {name: found for name, found in homes.items() if len(found) > 2}
    assert [*many] == ["YieldOp"], many


def modules() -> list[str]:
    return sorted(
        module_of(path).removesuffix(".__init__").replace("ge.ge", "ge")
        for folder in FOLDERS
        for path in sources(folder)
    )


def test_every_module_and_data_file_is_packaged(monkeypatch: pytest.MonkeyPatch):
    """By the lists from which setuptools builds a wheel."""
    monkeypatch.chdir(ROOT)
    distribution = Distribution({"script_name": "setup.py"})
    distribution.parse_config_files(["pyproject.toml"])
    distribution.include_package_data = False  # the project lists it, without a manifest
    build = distribution.get_command_obj("build_py")
    build.ensure_finalized()
    packaged = {
        f"{package}.{name}".removesuffix(".__init__"): Path(file)
        for package, name, file in build.find_all_modules()
        if package  # `ge_npu`, which is none of ge
    }
    assert sorted(packaged) == modules()
    assert all((ROOT / file).is_file() for file in packaged.values())
    data = {Path(source) / name for _, source, _, names in build.data_files for name in names}
    patterns = "dialects/**/*.toml", "tools/views/page/*", "tools/views/vendor/*"
    wanted = {path.relative_to(ROOT) for pattern in patterns for path in ROOT.glob(pattern)}
    assert len(wanted) > 20
    assert wanted <= {path.relative_to(ROOT) if path.is_absolute() else path for path in data}


@pytest.mark.soak
def test_wheel_has_every_module(tmp_path: Path):
    """Build sdist and wheel, unpack the wheel elsewhere, find every module there."""
    code = (
        f"import os, tarfile; from setuptools import build_meta; out = {str(tmp_path)!r}\n"
        "source = os.path.join(out, build_meta.build_sdist(out))\n"
        "tarfile.open(source).extractall(out, filter='data')\n"
        "os.chdir(source.removesuffix('.tar.gz')); build_meta.build_wheel(out)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    home = tmp_path / "installed"
    with ZipFile(wheel) as archive:
        archive.extractall(home)
    code = (
        f"import sys; sys.path.insert(0, {str(home)!r}); import importlib.util, ge\n"
        f"assert ge.__file__.startswith({str(home)!r}), ge.__file__\n"
        f"assert [m for m in {modules()!r} if importlib.util.find_spec(m) is None] == []\n"
        "import ge.tools.commands, ge.tools.cli.opt, ge.lowering.driver.compiler\n"
        "from ge.dialects.targets.target import Target; Target.load('310p3')\n"
        "from ge.tools.views.make import page; page({}, 'a page')"
    )
    subprocess.run(
        [sys.executable, "-S", "-c", _with_site_packages(code)], check=True, cwd=tmp_path
    )


def _with_site_packages(code: str) -> str:
    """Dependencies from the environment, without its editable hook for ge."""
    paths = [p for p in sys.path if p.endswith("site-packages")]
    return f"import sys; sys.path += {paths!r}\n{code}"


def test_the_page_on_architecture_shows_the_rooms():
    """It has each room, and names only files that there are."""
    section = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    table = [line for line in section.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table]
    rooms, folder = set[str](), ""
    for first, second in (row[:2] for row in rows if len(row) == 3):
        folder = first.partition(",")[0].strip("`/ ") or folder
        rooms |= {f"{folder}/{room.strip('`/ ')}".removesuffix(".py") for room in second.split(",")}
    assert {r for r in ROOMS if "/" in r} <= rooms
    paths = re.findall(
        r"\b(?:dialects|transforms|lowering|runtime|tools|test)/[\w/.]*\w/?", section
    )
    assert len(paths) > 20
    assert [p for p in paths if not (ROOT / p).exists()] == []


def test_files_that_sources_name_exist():
    """As `file.py` or `folder/file.py`, with as much of its folders as the text gives."""
    known = [p for folder in FOLDERS for p in sources(folder)] + [*(ROOT / "test").rglob("*.py")]
    paths = {f"/{p.relative_to(ROOT)}" for p in known}
    ends = {"/".join(p.split("/")[-n:]) for p in paths for n in range(1, p.count("/") + 1)}
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for folder in FOLDERS
        for path in sources(folder)
        for name in re.findall(r"`([\w/]*\w\.py)`", path.read_text("utf-8"))
        if name not in ends
    ]
    assert not wrong
