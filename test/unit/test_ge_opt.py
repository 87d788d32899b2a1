"""ge-opt as a program: cost of its start, what it imports, packages of others, hostile input."""

import os
import re
import resource
import subprocess
import sys
from importlib import import_module
from inspect import isabstract
from pathlib import Path

import pytest
from xdsl.passes import ModulePass
from xdsl.universe import XDSL_UNIVERSE, Universe

from ge.lowering.plugins.universe import GE_UNIVERSE
from ge.tools.commands import ge_opt as main

sys.path.insert(0, str(Path(__file__).parent))
from packages import install_sample

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent

CLIPPED = """\
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %limit = graph.constant dense<3.0> : tensor<f32>
  %0 = graph.abs %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.minimum %0, %limit : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
"""
ABS = """\
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.abs %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""


def run(*command: str, text: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


def cpu_seconds(*command: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def test_version_is_cheap():
    assert any(cpu_seconds(str(BIN / "ge-opt"), "--version") < 0.25 for _ in range(3))


def imported(text: str) -> list[str]:
    """The modules that a process of ge-opt has after it read a text."""
    code = (
        "import sys; from ge.tools.commands import ge_opt as main; main([]);"
        "print(*sys.modules, file=sys.stderr)"
    )
    return run(sys.executable, "-c", code, text=text).stderr.split()


def test_only_what_the_input_needs_is_imported():
    assert {"ge.dialects.npu_task.ops", "numpy", "onnx"}.isdisjoint(imported(ABS))


# Where the modules of ge stand that ge-opt imports before it knows what to do
AT_START = (
    "ge.dialects.support", "ge.dialects.targets", "ge.tools.cli", "ge.tools.debugging",
    "ge.lowering.levels", "ge.lowering.pipeline", "ge.lowering.plugins", "ge.dialects.text",
    "ge.runtime.data.files", "ge.tools.commands", "ge.transforms.precision",
    "ge.transforms.quantization", "ge.transforms.rewriting", "ge.transforms.sharding.rules",
)  # fmt: skip
# and of these rooms what is for some flags alone
FOR_FLAGS = (
    "ge.dialects.targets.target", "ge.tools.debugging.validation",
    "ge.lowering.pipeline.stages", "ge.dialects.text.looks",
)  # fmt: skip


def test_start_up_imports_no_more_than_is_needed():
    everything = imported("func.func private @f() -> ()")
    assert {"ge.dialects.graph", "ge.dialects.npu_task.ops", "numpy"}.isdisjoint(everything)
    modules = [m for m in everything if m.startswith("ge.")]
    rooms = {".".join(r.split(".")[:n]) for r in AT_START for n in range(2, 5)}
    assert [m for m in modules if m not in rooms and not m.startswith(AT_START)] == []
    assert {*FOR_FLAGS}.isdisjoint(modules)
    assert len(modules) < 100


def test_no_name_of_xdsl_is_reused():
    assert not set(GE_UNIVERSE.all_passes) & set(XDSL_UNIVERSE.all_passes)
    everything = Universe.get_multiverse()  # raises where names clash
    assert {"graph", "fused_op", "npu_task", "arith"} <= set(everything.all_dialects)


def test_every_pass_class_is_in_the_table():
    known = {load() for load in GE_UNIVERSE.all_passes.values()}
    for folder in ("transforms", "lowering"):
        for file in (ROOT / folder).rglob("*.py"):
            place = file.relative_to(ROOT).with_suffix("").parts
            if "torch" in place:  # needs the extra of that name
                assert "ModulePass" not in file.read_text()
                continue
            module = import_module(".".join(("ge", *place)).removesuffix(".__init__"))
            for cls in vars(module).values():
                if (
                    isinstance(cls, type)
                    and issubclass(cls, ModulePass)
                    and cls.__module__ == module.__name__
                    # the base of several passes has none, what wraps a pass has that of the pass
                    and isinstance(getattr(cls, "name", None), str)
                    and not isabstract(cls)
                ):
                    assert cls in known, f"{cls} is not in PASSES of lowering/plugins/universe.py"


def test_lowering_works_where_the_package_metadata_is_hidden():
    code = (
        "import importlib.metadata as m; m.entry_points = lambda **_: ();"
        "from ge.tools.commands import ge_opt as main; main(['-p', 'infer-shapes'])"
    )
    done = run(sys.executable, "-c", code, text=ABS)
    assert "graph.abs" in done.stdout, done.stderr


# ---- a package of somebody else --------------------------------------------------------------


def test_both_tools_see_an_installed_package(tmp_path: Path):
    site, file = tmp_path / "site", tmp_path / "x.mlir"
    install_sample(site)
    text = ""
    for number, tool in enumerate(("xdsl-opt", "ge-opt")):
        file.write_text(
            text + CLIPPED.replace("@f", f"@f{number}")
        )  # with what the other one wrote
        done = run(str(BIN / tool), str(file), "-p", "acme-find-clipped", PYTHONPATH=str(site))
        assert done.stderr == ""
        text = done.stdout.strip().removeprefix("builtin.module {").removesuffix("}")
        assert text.count("acme.clipped %x limit 3.000000e+00 : f64") == number + 1


# ---- hostile input ---------------------------------------------------------------------------


def check_error(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> str:
    """Run ge-opt: it succeeds, or says in one clear line what is wrong. Returns that line."""
    status = main([str(path), *options])
    error = capsys.readouterr().err
    assert status in (0, 1)
    assert "Traceback" not in error
    assert "internal error" not in error
    if status == 1:
        assert re.match(rf"(ge-opt|{re.escape(str(path))}(:\d+:\d+)?|loc\(.*\)): error: .", error)
    return error.partition("\n")[0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "there is no operation"),
        (b"\0" * 1000, r"Unexpected character: \x00"),
        (bytes(range(128, 256)), "byte 0x80 is not UTF-8 text"),
        (b'"test.op"() ({' * 20_000, "nested too deeply"),
        (b'"test.op"() {a = ' + b"[" * 100_000, "nested too deeply"),
        (b'"test.op"() : () -> ' + b"tuple<" * 100_000, "nested too deeply"),
        (b'"test.op"() {a = "' + b"x" * 100_000, "End of file reached before closing string"),
        (b'"test.op"() {a = dense<0> : tensor<9999999x9999999xi8>} : () -> ()', "are too many"),
        (b'"test.op"() {a = ' + b"9" * 5000 + b"} : () -> ()", "4300 digits"),
        (b'"test.op"() {a = array<i64: 99999999999999999999>} : () -> ()', "out of range"),
    ],
)
def test_absurd_input(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, data: bytes, message: str
):
    file = tmp_path / "x.mlir"
    file.write_bytes(data)
    assert message in check_error(capsys, file)


def test_a_closed_pipe_is_no_error_to_talk_about(tmp_path: Path):
    file = tmp_path / "x.mlir"
    text = "".join(ABS.replace("@f", f"@f{i}") for i in range(20))
    file.write_text(text, encoding="utf-8")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [BIN / "ge-opt", file], stdout=write, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")
