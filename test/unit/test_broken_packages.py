"""What is wrong with a package is told in a line, and the rest works."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ge
from ge.dialects.graph.elementwise import AbsOp
from ge.dialects.support.packages import Installed, installed, looking_again, unmet
from ge.lowering.onnx.registry import find
from ge.runtime import numbers
from ge.tools.commands import ge_compile, ge_opt

sys.path.insert(0, str(Path(__file__).parent))
from packages import install_package, write_metadata

EMPTY = "import ge\nPACKAGE = ge.Package()\n"
PASS = (
    "import ge\nfrom dataclasses import dataclass\nfrom xdsl.passes import ModulePass\n"
    "@dataclass(frozen=True)\nclass P(ModulePass):\n    name = 'p'\n    LEVEL = 'graph'\n{body}\n"
    "PACKAGE = ge.Package(passes={{'p': '{module}:P'}})\n"
)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """A folder for broken packages, which are forgotten afterwards."""
    sys.path.insert(0, str(tmp_path))
    before = set(sys.modules)
    with looking_again():
        yield tmp_path
    sys.path.remove(str(tmp_path))
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


WRONG = [
    ("import nowhere_to_be_found", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
    ("PACKAGE = 1", "broken:PACKAGE is a int, not a ge.Package"),
    ("import ge\nPACKAGE = ge.Package(pases={})", "TypeError: "),
    ("def f(:", "SyntaxError: "),
    ("import sys\nsys.exit(3)", "SystemExit: 3"),
    ("x = 1", "AttributeError: module 'broken' has no attribute 'PACKAGE'"),
    (
        "import ge\nPACKAGE = ge.Package(passes={'infer-shapes': 'a:B'})",
        "a pass named 'infer-shapes' exists already, of ge",
    ),
    (
        "import ge\nPACKAGE = ge.Package(dialects={'arith': 'a:B'})",
        "a dialect named 'arith' exists already, of xdsl",
    ),
    (
        "import ge\nPACKAGE = ge.Package(targets={'910b2': 'a:b.toml'})",
        "a target named '910b2' exists already, of ge",
    ),
]


@pytest.mark.parametrize(("code", "why"), WRONG)
def test_a_package_that_fails_is_left_out(
    code: str, why: str, site: Path, capsys: pytest.CaptureFixture[str]
):
    install_package(site, "broken", code)
    install_package(site, "works", EMPTY)
    assert [p.name for p in installed()] == ["works"]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: package 'broken' is left out: {why}")
    assert line.endswith("; mend or uninstall it, or set GE_PACKAGES_OFF=broken")
    installed()
    assert capsys.readouterr().err == ""


def test_of_two_packages_with_one_name_the_first_stays(
    site: Path, capsys: pytest.CaptureFixture[str]
):
    for name in ("first", "second"):
        install_package(site, name, "import ge\nPACKAGE = ge.Package(passes={'p': 'a:B'})")
    assert [p.name for p in installed()] == ["first"]
    assert "a pass named 'p' exists already, of first" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("requires", "works"),
    [
        ("ge-npu", True),
        ("ge-npu>=0.1", True),
        ("ge-npu>=0.1,<0.2", True),
        ("ge-npu (==0.1.0)", True),
        ("ge-npus>=9", True),
        ("ge-npu>=9", False),
        ("ge-npu[test]<0.1; python_version > '3'", False),
        ("ge-npu!=0.1", False),
        ("ge-npu~=9.0", True),  # left to pip
        ("ge>=9", True),  # another project
    ],
)
def test_versions_of_ge_that_a_package_wants(requires: str, works: bool):
    assert (unmet(["numpy>=1", requires], "0.1.0") == "") is works


def test_a_package_for_another_ge_is_left_out(site: Path, capsys: pytest.CaptureFixture[str]):
    install_package(site, "newer", EMPTY, ("ge-npu>=9.1",))
    assert installed() == []
    error = capsys.readouterr().err
    assert (
        f"package 'newer' is left out: it requires ge-npu >=9.1, and this is {ge.__version__}"
        in error
    )


def test_packages_are_turned_off(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    install_package(site, "broken", "1 / 0")
    install_package(site, "works", EMPTY)
    for off, names in (("broken", ["works"]), ("all", []), ("broken, works", [])):
        monkeypatch.setenv("GE_PACKAGES_OFF", f"{off},{os.environ['GE_PACKAGES_OFF']}")
        with looking_again():
            assert [p.name for p in installed()] == names
    assert ge_opt(["--list-passes=cse"]) == 0
    assert capsys.readouterr().err == ""


LATE = [
    ("    LEVEL = 'grpah'", "pass 'p' states level 'grpah'"),
    ("    BEFORE = 'infer-shaeps'", "pass 'p' states a place beside 'infer-shaeps'"),
    ("    size: int", "pass 'p' states a level: "),
]


@pytest.mark.parametrize(("body", "why"), LATE)
def test_a_pass_without_a_place_is_left_out(
    body: str, why: str, site: Path, capsys: pytest.CaptureFixture[str]
):
    install_package(site, "late", PASS.format(body=body, module="late"))
    assert ge_compile(["--print-pipeline"]) == 0
    out, err = capsys.readouterr()
    assert "infer-shapes" in out
    assert f"warning: pass 'p' is left out: {why}" in err


def test_what_a_package_names_and_does_not_have(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """A dialect, a pass, a target, a host operation: each is an error where it is asked for."""
    install_package(
        site,
        "hollow",
        "import ge\nPACKAGE = ge.Package(dialects={'hollow': 'hollow:Dialect'}, "
        "passes={'hollow-pass': 'hollow.passes:Pass'}, targets={'hollow1': 'hollow:none.toml'}, "
        "operations={'Hollow': 'hollow_host'})",
    )
    file = tmp_path / "x.mlir"
    other = tmp_path / "y.mlir"
    other.write_text("")
    file.write_text("hollow.op")
    for arguments in ([str(file)], ["--hollow-pass", str(other)], ["--list-passes=hollow-pass"]):
        assert ge_opt(arguments) == 1
        error = capsys.readouterr().err
        assert "of package 'hollow' 1.0 cannot be loaded: " in error
        assert "internal error" not in error
    with pytest.raises(ge.GeError, match="'hollow_host' of package 'hollow'"):
        ge.host.create_operation("Hollow")
    with pytest.raises(ge.GeError, match=r"none\.toml|'hollow:none\.toml' of package"):
        ge.Target.load("hollow1")


TYPES = """
import ge
from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from ge.dialects.graph.elementwise import AbsOp

class Mine(ModulePass):
    name = "mine"

theirs = Dialect("theirs", [AbsOp])
PACKAGE = ge.Package(
    dialects={"theirs": "types_:theirs", "number": "types_:PACKAGE", "other": "types_:theirs"},
    passes={"yours": "types_:Mine", "nothing": "types_:PACKAGE", "no-pass": "types_:Dialect"},
)
"""


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--list-ops=theirs"], "dialect 'theirs' of {}: its op is named 'graph.abs'"),
        (["--list-ops=number"], "dialect 'number' of {}: it is a Package, not a Dialect"),
        (["--list-ops=other"], "dialect 'other' of {}: its own name is 'theirs'"),
        (["--list-passes=yours"], "pass 'yours' of {}: its own name is 'mine'"),
        (["--list-passes=nothing"], "pass 'nothing' of {}: Package is no ModulePass"),
        (["--list-passes=no-pass"], "pass 'no-pass' of {}: Dialect is no ModulePass"),
    ],
)
def test_what_a_package_names_is_of_another_kind(
    arguments: list[str], why: str, site: Path, capsys: pytest.CaptureFixture[str]
):
    install_package(site, "types_", TYPES)
    assert ge_opt(arguments) == 1
    error = capsys.readouterr().err
    assert why.format("package 'types_' 1.0 cannot be loaded") in error
    assert ge_opt(["--list-ops"]) == 0
    out, err = capsys.readouterr()
    assert "graph.abs" in out
    assert err.count("warning: ") == 3


HANDLERS = """
from ge.lowering.onnx.registry import onnx_op

@onnx_op({names})
def handler(n):
    return n[0]
"""


def test_handlers_of_ops_that_exist(site: Path, capsys: pytest.CaptureFixture[str]):
    """ge's own and those of the package before stay."""
    for name, own in (("one", '"Relu", "OfOne", "OfBoth"'), ("two", '"OfBoth", "OfTwo"')):
        (site / f"{name}_onnx.py").write_text(HANDLERS.format(names=own))
        code = f"import ge\nPACKAGE = ge.Package(onnx={{'': '{name}.{name}_onnx'}})"
        folder = site / name
        folder.mkdir()
        (folder / "__init__.py").write_text(code)
        (site / f"{name}_onnx.py").rename(folder / f"{name}_onnx.py")
        write_metadata(site, name, {name: f"{name}:PACKAGE"})
    (site / "three.py").write_text("import ge\nPACKAGE = ge.Package(onnx={'': 'nowhere'})")
    write_metadata(site, "three", {"three": "three:PACKAGE"})
    modules = {op: getattr(find("", op, 1), "__module__", None) for op in
               ("Relu", "OfOne", "OfBoth", "OfTwo", "OfNone")}  # fmt: skip
    assert str(modules.pop("Relu")).startswith("ge.")
    assert modules == {
        "OfOne": "one.one_onnx", "OfBoth": "one.one_onnx", "OfTwo": "two.two_onnx", "OfNone": None
    }  # fmt: skip
    warnings = capsys.readouterr().err
    assert "ONNX op 'Relu' of package 'one' 1.0 is left out: ge has a handler of it" in warnings
    assert "ONNX op 'OfBoth' of package 'two' 1.0 is left out: package 'one' 1.0 has" in warnings
    assert "module 'nowhere' of package 'three' 1.0 is left out: ModuleNotFoundError" in warnings


def test_a_plain_universe_is_a_package_too(site: Path):
    code = "from xdsl.universe import Universe\nPACKAGE = Universe(all_passes={'p': lambda: None})"
    install_package(site, "plain", code)
    (package,) = installed()
    assert isinstance(package, Installed)
    assert str(package) == "package 'plain' 1.0"
    assert package.adds.targets == {}


def test_a_kernel_of_an_op_of_ge(site: Path):
    """Is refused where the package's kernels are loaded, which names the op of ge."""
    (site / "taking_kernels.py").write_text(
        "from ge.dialects.graph.elementwise import AbsOp\n"
        "from ge.runtime.numbers import array_kernel\n"
        "@array_kernel(AbsOp)\ndef mine(x):\n    return x\n"
    )
    code = "import ge\nPACKAGE = ge.Package(kernels=['taking_kernels'])"
    install_package(site, "taking", code)
    (package,) = installed()
    numbers.find(AbsOp)  # ge's own come first wherever an op is computed
    with pytest.raises(ge.GeError, match=r"a kernel for graph\.abs exists already"):
        package.load("taking_kernels")


def test_a_package_is_no_plugin_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """What it names beyond dialects and passes would be lost without a word."""
    file = tmp_path / "package.py"
    file.write_text(EMPTY)
    assert ge_opt(["--load-plugin", str(file), "--list-targets"]) == 1
    assert f"{file}: error: a ge.Package is found by its entry point" in capsys.readouterr().err
