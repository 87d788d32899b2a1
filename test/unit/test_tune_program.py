"""ge-tune P.mlir: cuts of the compiler's own kernels, by time."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ge.dialects.npu_task.ops import KernelOp as Launched
from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target
from ge.dialects.tile.kernel import KernelOp
from ge.lowering.driver.compiler import compile_file
from ge.lowering.driver.program import Program
from ge.lowering.driver.variants import KernelTuning, tune_program
from ge.lowering.pipeline.options import Options
from ge.lowering.steps.kept_programs import KernelTunings, TunedKernel
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.library.launch import Choice, choosing, chosen, in_order
from ge.tools.commands import ge_compile, ge_tune

TEXT = """func.func @main(%x: tensor<64x96xf16>, %y: tensor<96x80xf16>) -> (
    tensor<64x80xf16>, tensor<64x96xf16>) {
  %0 = graph.matmul %x, %y : (tensor<64x96xf16>, tensor<96x80xf16>) -> tensor<64x80xf16>
  %1 = graph.softmax %x axis 1 : (tensor<64x96xf16>) -> tensor<64x96xf16>
  func.return %0, %1 : tensor<64x80xf16>, tensor<64x96xf16>
}"""
TARGET = "910b2"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "m.mlir"
    path.write_text(TEXT)
    return path


def compiled(model: Path, **options: Any) -> Program:
    options = {"target": TARGET, "tile_cache": "off", **options}
    return compile_file(str(model), Options(tiles=True, **options))


@cache
def plain(model: Path) -> Program:
    """Compiled with the cuts that the compiler takes."""
    return compiled(model)


def times(program: Program) -> dict[str, float]:
    """By the name of the launch's kernel."""
    target = Target.load(TARGET)
    tiles = {op.sym_name.data: op for op in program.module.ops if isinstance(op, KernelOp)}
    launched = [op for op in program.module.ops if isinstance(op, Launched)]
    programs = {op.sym_name.data: tiles[op.tiles.data] for op in launched if op.tiles is not None}
    return {n: TileKernel(op, target).time().total_us for n, op in programs.items()}


def write(path: Path, *entries: TunedKernel) -> str:
    path.write_text(json.dumps({"kernels": KernelTunings().merged(entries).rows()}))
    return str(path)


@pytest.fixture(scope="module")
def tunings(model: Path) -> dict[str, KernelTuning]:
    return {t.best.name: t for t in tune_program(plain(model).module, 4)}


def test_what_is_kept_is_what_runs(model: Path, tunings: dict[str, KernelTuning], tmp_path: Path):
    own = times(plain(model))
    for name, tuning in tunings.items():
        assert 0 < tuning.tried <= 4
        assert tuning.best.us <= tuning.best.own_us == own[name]
    file = write(tmp_path / "t.json", *(t.best for t in tunings.values()))
    program = compiled(model, tile_tunings=file)
    assert times(program) == {name: t.best.us for name, t in tunings.items()}


def test_another_cut_computes_the_same(
    model: Path, tunings: dict[str, KernelTuning], tmp_path: Path
):
    entry = next(t.best for t in tunings.values() if t.best.name.startswith("matmul"))
    with choosing(Choice(most=8)) as choice:
        compiled(model)
    assert choice is not None
    other = next(text for text in choice.seen[1:] if text.startswith("MatmulCut("))
    program = compiled(model, tile_tunings=write(tmp_path / "t.json", replace(entry, cut=other)))
    rng = np.random.default_rng(0)
    given = {
        "arg0": rng.standard_normal((64, 96), np.float32).astype(np.float16),
        "arg1": rng.standard_normal((96, 80), np.float32).astype(np.float16),
    }
    wanted = plain(model).session().run(given)
    for name, array in program.session(tiles="all").run(given).items():
        np.testing.assert_allclose(array, wanted[name], rtol=2e-3, atol=2e-3)
    assert str(program.module) != str(plain(model).module)


def test_what_fits_no_kernel_changes_nothing(
    model: Path, tunings: dict[str, KernelTuning], tmp_path: Path
):
    untuned = str(plain(model).module)
    entry = next(iter(tunings.values())).best
    for other in (
        replace(entry, cut="Cut(m=3)"), replace(entry, kernel="0", cut="x"),
        replace(entry, target="910b3", cut="x"),
    ):  # fmt: skip
        file = write(tmp_path / "t.json", other)
        assert str(compiled(model, tile_tunings=file).module) == untuned


def test_kept_programs_are_by_their_cut(model: Path, tmp_path: Path):
    """What the folder keeps of a kernel is not taken for another cut of it."""
    cache, file = str(tmp_path / "c"), tmp_path / "t.json"
    untuned = str(compiled(model, tile_cache=cache).module)
    (first, *_) = tune_program(plain(model).module, 8)
    with choosing(Choice(most=8)) as choice:
        compiled(model)
    assert choice is not None
    write(file, *(replace(first.best, cut=text) for text in choice.seen[-1:]))
    tuned = str(compiled(model, tile_cache=cache, tile_tunings=str(file)).module)
    assert tuned == str(compiled(model, tile_tunings=str(file)).module) != untuned


def test_a_kept_model_is_by_what_its_tunings_say(model: Path, tmp_path: Path):
    with choosing(Choice(most=8)) as choice:
        compiled(model)
    assert choice is not None
    (entry, *_) = (t.best for t in tune_program(plain(model).module, 1))
    file, texts = tmp_path / "t.json", list[str]()
    arguments = [str(model), "--tiles", "--target", TARGET, "--tile-tunings", str(file)]
    arguments += ["--cache-dir", str(tmp_path / "c"), "-o", str(tmp_path / "p.mlir")]
    for cut in ("", choice.seen[-1], ""):
        write(file, replace(entry, cut=cut))
        assert ge_compile(arguments) == 0
        texts.append((tmp_path / "p.mlir").read_text())
    assert texts[0] == texts[2] != texts[1]


def test_the_tool(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    program, file = str(tmp_path / "p.mlir"), tmp_path / "t.json"
    arguments = [str(model), "--tiles", "--target", TARGET, "--tile-cache", "off"]
    assert ge_compile([*arguments, "-o", program]) == 0
    file.write_text(json.dumps({"tunings": []}))
    assert ge_tune([program, "-o", str(file), "--limit", "4"]) == 0
    out = capsys.readouterr().out
    assert "@matmul_0: " in out
    assert "of 2 kernels are faster with other cuts" in out
    assert set(json.loads(file.read_text())) == {"tunings", "kernels"}
    assert ge_compile([*arguments, "--tile-tunings", str(file)]) == 0


def test_a_program_without_tile_programs(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert ge_tune([str(model)]) == 1
    assert "no kernel of it has a tile program" in capsys.readouterr().err
    assert ge_tune([str(model), "M=2"]) == 1
    assert "a program says for which target its kernels are" in capsys.readouterr().err


def test_what_is_no_file_of_tunings(model: Path, tmp_path: Path):
    entry = {"name": "x", "kernel": "0", "target": "910b2", "cut": 5, "us": 1, "own_us": 1.0}
    for text, why in (
        ("[]", "it has no list 'kernels'"),
        ("{", "Expecting property name"),
        ('{"kernels": "x"}', "it has no list 'kernels'"),
        ('{"kernels": [{"name": "x"}]}', "entry 0 of 'kernels' has not the keys name, kernel,"),
        (json.dumps({"kernels": [entry]}), "'cut' of entry 0 of 'kernels' is no text: 5"),
    ):
        (tmp_path / "t.json").write_text(text)
        with pytest.raises(GeError, match=f"no file of tunings: {why}"):
            compiled(model, tile_tunings=str(tmp_path / "t.json"))
    with pytest.raises(GeError, match="cannot read the tunings: No such file"):
        compiled(model, tile_tunings=str(tmp_path / "missing.json"))


def test_the_order_of_candidates():
    assert list(in_order([3, 1, 2])) == [3, 1, 2]
    with choosing(Choice("1", most=2)) as choice:
        assert list(in_order([3, 1, 2])) == [1, 3, 1, 2]
        assert chosen(lambda: [5, 4], lambda n, most: n) == 4
        assert chosen(lambda: [], lambda n, most: n) is None
    assert choice is not None
    assert choice.seen == ["3", "1"]
    assert chosen(lambda: [5, 4, 6], lambda n, most: n) == 4


@pytest.mark.parametrize("cache", ["off", "c"])
def test_a_cut_that_no_longer_fits_is_said(
    model: Path, tmp_path: Path, cache: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Cold and warm; the program is the kernel's own."""
    folder = cache if cache == "off" else str(tmp_path / cache)
    plain, file = tmp_path / "p.mlir", tmp_path / "t.json"
    assert ge_compile([str(model), "-o", str(plain), "--tile-cache", folder]) == 0
    assert ge_tune([str(plain), "--limit", "2", "-o", str(file)]) == 0
    rows = json.loads(file.read_text())
    for row in rows["kernels"]:
        row["cut"] = "Cut(m=1, n=1, k=1, part=1, sums=9)"
    file.write_text(json.dumps(rows))
    for _ in range(2):
        flags = [
            "--tile-tunings",
            str(file),
            "--tile-cache",
            folder,
            "-o",
            str(tmp_path / "q.mlir"),
        ]
        capfd.readouterr()
        assert ge_compile([str(model), *flags]) == 0
        text = capfd.readouterr().err
        assert text.count("has no cut Cut(m=1, n=1, k=1, part=1, sums=9) that fits") == len(
            rows["kernels"]
        )
        assert (tmp_path / "q.mlir").read_text() == plain.read_text()
