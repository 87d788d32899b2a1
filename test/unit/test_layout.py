"""The structure of the project: who may import whom, what is packaged, how passes are named."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("dialects", "transforms", "lowering", "runtime", "tools", "ge")

ALLOWED: dict[str, set[str]] = {
    "dialects": {"dialects"},
    "transforms": {"dialects", "transforms", "runtime"},
    "lowering": {"dialects", "transforms", "lowering", "runtime"},
    "runtime": {"dialects", "runtime"},
    "tools": {"dialects", "transforms", "lowering", "runtime", "tools"},
    "ge": {"dialects", "transforms", "lowering", "runtime"},
}
"""Folder -> the folders of ge that it may import."""

COMPILE_TIME_RUNTIME = {
    *("kernels", "cost", "tiling", "arrays", "weights", "sanitizer", "replay", "clock", "timeline")
}
"""What the compiler may use of the runtime: kernels to fold with, one cost model, the arrays and
weights that both are about, the checker that proves plans, the clock that compares schedules."""


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imports(path: Path) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{a.name}" for a in node.names]
    return [name for name in found if name.startswith("ge.")]


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_run_one_way(folder: str):
    wrong: list[str] = []
    for path in sources(folder):
        for name in imports(path):
            parts = name.split(".")
            ok = parts[1] in ALLOWED[folder]
            if ok and parts[1] == "runtime" and folder in ("transforms", "lowering"):
                ok = len(parts) == 2 or parts[2] in COMPILE_TIME_RUNTIME
            if not ok:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_dialects_do_not_import_numpy_or_onnx():
    for path in sources("dialects"):
        text = path.read_text("utf-8")
        assert "import numpy" not in text, path
        assert "import onnx" not in text, path


def test_every_package_is_listed():
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    listed = set(table["tool"]["setuptools"]["packages"])
    found = {"ge"}
    for folder in FOLDERS[:-1]:
        for init in (ROOT / folder).rglob("__init__.py"):
            found.add("ge." + ".".join(init.parent.relative_to(ROOT).parts))
    assert listed == found


def test_a_pass_is_named_like_its_file_and_class():
    from ge.lowering.pass_table import ge_passes

    for name, load in ge_passes().items():
        cls = load()
        assert cls.name == name
        assert cls.__name__ == "".join(w.capitalize() for w in name.split("-")) + "Pass"
        assert cls.__module__.rpartition(".")[2] == name.replace("-", "_")
        assert cls.__doc__
        assert sys.modules[cls.__module__].__doc__


def test_wheel_has_every_module(tmp_path: Path):
    """Build sdist and wheel, install the wheel elsewhere, import every module from there."""
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    home = tmp_path / "installed"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, "--target", str(home), str(wheel)], check=True)
    modules = sorted(
        ("ge." if folder != "ge" else "")
        + ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for folder in FOLDERS
        for path in sources(folder)
    )
    code = (
        f"import sys; sys.path.insert(0, {str(home)!r}); import importlib, ge\n"
        f"assert ge.__file__.startswith({str(home)!r}), ge.__file__\n"
        f"for m in {modules!r}: importlib.import_module(m)\n"
        "from ge.dialects.target import Target; Target.load('310p3')"
    )
    subprocess.run(
        [sys.executable, "-S", "-c", _with_site_packages(code)], check=True, cwd=tmp_path
    )


def _with_site_packages(code: str) -> str:
    """Dependencies from the environment, without its editable hook for ge."""
    paths = [p for p in sys.path if p.endswith("site-packages")]
    return f"import sys; sys.path += {paths!r}\n{code}"
