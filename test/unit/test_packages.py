"""The sample package takes part everywhere."""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ge
from ge import tile
from ge.dialects.graph.elementwise import AbsOp
from ge.dialects.support.packages import looking_again
from ge.dialects.text.kept import package_files
from ge.lowering.driver import cache
from ge.lowering.driver.cache import Request
from ge.lowering.driver.compiler import compile_file
from ge.lowering.pipeline.options import Options
from ge.runtime.library import launch
from ge.tools.commands import ge_check, ge_compile, ge_import, ge_opt, ge_run

sys.path.insert(0, str(Path(__file__).parent))
from packages import install_sample

CLIP = """\
func.func @main(%x: tensor<64x64xf16> {graph.name = "x"})
    -> (tensor<64x64xf16> {graph.name = "y"}) {
  %limit = graph.constant dense<2.0> : tensor<f16>
  %0 = graph.abs %x : (tensor<64x64xf16>) -> tensor<64x64xf16>
  %1 = graph.minimum %0, %limit : (tensor<64x64xf16>, tensor<f16>) -> tensor<64x64xf16>
  func.return %1 : tensor<64x64xf16>
}
"""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the sample package, imported once: what it registers stays."""
    site = tmp_path_factory.mktemp("site")
    install_sample(site)
    sys.path.insert(0, str(site))
    with looking_again():
        yield site
    sys.path.remove(str(site))


@pytest.fixture(scope="module")
def model(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """y = clipped(clipped(2 x, 3) w)"""
    w = onnx.numpy_helper.from_array(np.eye(16, dtype=np.float32) * 3, "w")
    nodes = [
        helper.make_node("Twice", ["x"], ["d"], "twice", domain="com.acme"),
        helper.make_node("Clipped", ["d"], ["c"], "clip", domain="com.acme", limit=3.0),
        helper.make_node("MatMul", ["c", "w"], ["p"], "product"),
        helper.make_node("Clipped", ["p"], ["y"], "last", domain="com.acme"),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 16]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [w])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.acme", 1)]
    path = tmp_path_factory.mktemp("model") / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return str(path)


def printed(tool: ModuleType, capfd: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a tool prints; it succeeds without a warning."""
    status = tool([str(a) for a in arguments])
    out, err = capfd.readouterr()
    assert status == 0, err
    assert "warning" not in err
    return out


# ---- the sample ------------------------------------------------------------------------------


def test_from_a_model_to_its_program(model: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """ONNX handlers, a step down, kernels, a fusion with a kernel of its own, and the target."""
    imported, program = tmp_path / "m.mlir", tmp_path / "p.mlir"
    printed(ge_import, capfd, model, "-o", imported)
    assert "acme.twice %x" in imported.read_text()
    assert "acme.clipped" in imported.read_text()
    assert ge_compile([model, "-o", str(program), "--target", "acme1"]) == 0
    assert "registered for acme.clipped is not used in @region_0" in capfd.readouterr().err
    text = program.read_text()
    assert "acme.twice" not in text
    assert "acme.clipped" in text
    assert 'fused_op.custom "AcmeClippedMatmul"' in text
    assert 'npu_task.target = "acme1"' in text
    assert "proved" in printed(ge_check, capfd, program)
    x = np.linspace(-4, 4, 64, dtype=np.float32).reshape(4, 16)
    np.savez(tmp_path / "x.npz", x=x)
    wanted = np.minimum(np.minimum(np.abs(2 * x), 3) * 3, 6)
    for module in (imported, program):
        outputs = tmp_path / "y.npz"
        printed(ge_run, capfd, module, "--inputs", tmp_path / "x.npz", "--outputs", outputs)
        np.testing.assert_array_equal(np.load(outputs)["y"], wanted)
    compiled = ge.compile(model)
    y = ge.Session(compiled.module, compiled.payload).run({"x": x})["y"]
    np.testing.assert_array_equal(y, wanted)


def test_an_op_stays_a_kernel_with_a_tile_program(
    sample: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    source, program = tmp_path / "c.mlir", tmp_path / "p.mlir"
    source.write_text(CLIP)
    printed(ge_compile, capfd, source, "-o", program, "--tiles", "--target", "910b2")
    assert "tile.kernel @clipped_0_tiles" in program.read_text()
    assert "@clipped_0_tiles: proved" in printed(ge_check, capfd, program)
    x = np.linspace(-4, 4, 4096, dtype=np.float16).reshape(64, 64)
    np.savez(tmp_path / "x.npz", x=x)
    files = ["--inputs", tmp_path / "x.npz", "--outputs", tmp_path / "y.npz"]
    table = tmp_path / "kinds.csv"
    printed(ge_run, capfd, program, "--tiles", *files, "--op-statistic", table)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npz")["y"], np.minimum(np.abs(x), 2))
    assert ",acme.clipped,AI_VECTOR_CORE,1," in table.read_text()


def test_passes_have_their_place_in_the_pipeline(
    sample: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    text = printed(ge_compile, capfd, "--print-pipeline")
    assert "infer-shapes,relate-dims,acme-lower-twice,fold-constants,acme-find-clipped," in text
    assert "verify-level{level=graph},acme-fuse-clipped,keep-channels-last" in text
    off = "acme-lower-twice,acme-fuse-clipped"
    assert "acme-fuse" not in printed(
        ge_compile, capfd, "--print-pipeline", "--fusion-disable", off
    )
    source = tmp_path / "c.mlir"
    source.write_text(CLIP)
    assert "acme.clipped" in printed(ge_opt, capfd, source, "--acme-find-clipped")


def test_rules_are_counted_and_left_out_by_name(
    sample: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    source = tmp_path / "c.mlir"
    source.write_text(CLIP)
    assert ge_compile([str(source), "--remarks=summary"]) == 0
    assert "acme-find-clipped                  1       0" in capfd.readouterr().err
    text = printed(ge_compile, capfd, source, "-o", "-", "--fusion-disable", "acme-find-clipped")
    assert "acme.clipped" not in text


def test_an_operation_of_the_host(sample: Path):
    operation, context = ge.host.create_operation("AcmeTwice"), ge.host.Context()
    x, y = np.ones(8, np.float32), np.empty(8, np.float32)
    pack = ge.host.VariantPack([x], [y])
    operation.execute(pack, context.workspace(operation.setup(pack)), context)
    np.testing.assert_array_equal(y, 2 * x)
    with pytest.raises(ge.GeError, match="no operation 'AcmeThrice'") as error:
        ge.host.create_operation("AcmeThrice")
    assert "AcmeTwice" in error.value.hint


def test_a_target_is_known_by_its_name(sample: Path):
    assert ge.Target.load("acme1").cube_cores == 4
    with pytest.raises(ge.GeError, match="unknown target 'acme2'") as error:
        ge.Target.load("acme2")
    assert "'acme1'" in error.value.hint


def test_lists_name_the_package(sample: Path, capfd: pytest.CaptureFixture[str]):
    ops = printed(ge_opt, capfd, "--list-ops=acme").splitlines()
    assert ops[1] == "acme.twice    acme-npu  x + x"
    text = printed(ge_opt, capfd, "--list-ops=acme.clipped")
    assert text.startswith("acme.clipped (of acme-npu)\n    min(|x|, limit)")
    assert "\n    limit: number (6.000000e+00)\n" in text
    for flag, name in (
        ("--list-rules", "acme-find-clipped "),
        ("--list-targets", "acme1 "),
        ("--list-dialects", "acme "),
    ):
        lines = printed(ge_opt, capfd, flag).splitlines()
        assert any(line.startswith(name) and " acme-npu" in line for line in lines)
        assert lines == sorted(lines)
    help = printed(ge_opt, capfd, "--list-passes=acme-lower-twice")
    assert help.startswith("acme-lower-twice (of acme-npu)\n")


def test_a_reproducer_names_the_package(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source, file = tmp_path / "c.mlir", tmp_path / "again.mlir"
    source.write_text(CLIP)
    flags = ["-p", "acme-find-clipped,verify-level{level=tasks}"]
    flags.append(f"--mlir-pass-pipeline-crash-reproducer={file}")
    assert ge_opt([str(source), *flags]) == 1
    text = file.read_text()
    assert "\n// packages: acme-npu 1.0\n" in text
    capsys.readouterr()
    assert ge_opt([str(file)]) == 1
    assert "warning" not in capsys.readouterr().err
    file.write_text(text.replace("acme-npu 1.0", "acme-npu 1.0, other 2.1"))
    ge_opt([str(file)])
    assert "warning: written with package other 2.1, which is not here" in capsys.readouterr().err


def test_a_rule_of_floats_leaves_integers_alone(
    sample: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    source = tmp_path / "c.mlir"
    source.write_text(CLIP.replace("f16", "i32").replace("2.0", "2"))
    text = printed(ge_opt, capfd, source, "--acme-find-clipped")
    assert "graph.minimum" in text
    assert "acme.clipped" not in text


def test_a_plugin_that_takes_a_name_of_a_package(
    sample: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    file = tmp_path / "plugin.py"
    file.write_text("from xdsl.ir import Dialect\nMine = Dialect('acme', [])\n")
    assert ge_opt(["--list-passes", "--load-plugin", str(file)]) == 1
    what = "a dialect named 'acme' exists already, of acme-npu"
    assert f"{what}; rename it, or set GE_PACKAGES_OFF=acme-npu" in capfd.readouterr().err


def test_programs_in_memory_are_kept_with_a_package_that_has_tile_programs(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its files are known. What is registered outside of a package is known to a process alone."""
    import_module("acme_npu.tiles")
    programs = {op: author for op, author in launch._PROGRAMS.items() if op.name == "acme.clipped"}
    monkeypatch.setattr(launch, "_PROGRAMS", programs)
    compiled: list[str] = []

    def counted(path: str, *more: Any) -> Any:
        compiled.append(path)
        return compile_file(path, *more)

    monkeypatch.setattr(cache, "compile_file", counted)

    def run() -> None:
        ge.compile(model, cache_dir=str(tmp_path / "cache"), fusion="off")

    run()
    run()
    assert compiled == [model]
    monkeypatch.setitem(programs, AbsOp, lambda op: tile.kernel(len).returning(len))
    run()
    assert compiled == [model, model]


def test_the_cache_knows_a_package_and_its_files(
    model: str, sample: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    ((name, version, files),) = package_files()
    assert (name, version) == ("acme-npu", "1.0")
    assert any(file == "acme1.toml" for file, *_ in files)

    def run() -> str:
        # fused, the op would be warned about: its own tile program is not used then
        options = Options(cache_dir=str(tmp_path / "cache"), fusion="off")
        return Request(model, options, str(tmp_path / "p.mlir")).run()

    (tmp_path / "cache").mkdir(mode=0o700)
    assert "from the cache" not in run()
    assert "from the cache" in run()
    kernels, before = sample / "acme_npu" / "kernels.py", package_files()
    kernels.write_text(kernels.read_text() + "\n")
    assert package_files() != before  # one that is worked on has the same version
