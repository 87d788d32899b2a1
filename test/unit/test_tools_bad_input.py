"""Bad input to any tool: status 1, one line `error:`, no traceback, older outputs untouched."""

import os
import re
import zipfile
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from ge.tools.commands import (
    ge_bench,
    ge_calibrate,
    ge_check,
    ge_compile,
    ge_import,
    ge_opt,
    ge_parser,
    ge_run,
    ge_tune,
    ge_visualizer,
)  # fmt: skip

Main = Callable[[Sequence[str]], int]

MODELS = Path(__file__).resolve().parents[1] / "models"
ONNX = MODELS / "if_cond.tiny.onnx"

TEXT = """\
func.func @main(
    %x: tensor<2x3xf32> {graph.name = "x"}, %n: tensor<4xi64> {graph.name = "n"})
    -> (tensor<2x3xf32> {graph.name = "y"}, tensor<4xi64> {graph.name = "m"}) {
  %0 = graph.relu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %0, %n : tensor<2x3xf32>, tensor<4xi64>
}
"""

OLD = "an older output\n"

TOOLS: dict[str, Main] = {
    "ge-import": ge_import,
    "ge-compile": ge_compile,
    "ge-run": ge_run,
    "ge-opt": ge_opt,
}

OUTPUT = {"ge-import": "-o", "ge-compile": "-o", "ge-run": "--report", "ge-opt": "-o"}
"""The option of each tool that takes an output file."""


def contents(folder: Path) -> dict[Path, bytes]:
    files = (p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    return {p: p.read_bytes() for p in files}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in.mlir").write_text(TEXT)
    (tmp_path / "model.onnx").write_bytes(ONNX.read_bytes())
    (tmp_path / "out").write_text(OLD)
    (tmp_path / "out.safetensors").write_text(OLD)
    return tmp_path


@pytest.fixture
def fails(folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Runs a tool in the folder and checks how it fails; returns the line of the error."""
    monkeypatch.chdir(folder)

    def run(tool: str, *args: str) -> str:
        before = contents(folder)
        assert TOOLS[tool](args) == 1
        captured = capfd.readouterr()
        assert "Traceback" not in captured.err + captured.out
        lines = captured.err.splitlines()
        errors = [line for line in lines if "error:" in line]
        assert len(errors) == 1, captured.err
        assert "internal error" not in errors[0], captured.err
        assert captured.out == ""
        # besides the error there may be the source line that it is about, with a caret, and
        # notes of that form
        if len(lines) > 1:
            assert len(lines) % 3 == 0, captured.err
            assert {line.strip() for line in lines[2::3]} == {"^"}, captured.err
            assert all(": note: " in line for line in lines[3::3]), captured.err
        assert contents(folder) == before
        return errors[0]

    return run


Fails = Callable[..., str]


def source(tool: str) -> str:
    """A good input of a tool."""
    return "model.onnx" if tool == "ge-import" else "in.mlir"


# ---- input files ---------------------------------------------------------------------------------

BAD_FILES: dict[str, Callable[[Path], object]] = {
    "missing": lambda file: None,
    "folder": lambda file: file.mkdir(),
    "empty": lambda file: file.write_bytes(b""),
    "blanks": lambda file: file.write_bytes(b" \n\n"),
    "garbage": lambda file: file.write_bytes(np.random.default_rng(0).bytes(5000)),
    "truncated": lambda file: file.write_bytes(
        (ONNX.read_bytes() if file.suffix == ".onnx" else TEXT.encode())[:-70]
    ),
    "text": lambda file: file.write_bytes(b"hello\n"),
    "other": lambda file: file.write_bytes(
        TEXT.encode() if file.suffix == ".onnx" else ONNX.read_bytes()
    ),
    "no permission": lambda file: file.symlink_to("/proc/1/mem"),
    "loop of links": lambda file: file.symlink_to(file.name),
}


READS = [
    ("ge-import", "bad.onnx"), ("ge-compile", "bad.onnx"), ("ge-run", "bad.onnx"),
    ("ge-compile", "bad.mlir"), ("ge-run", "bad.mlir"), ("ge-opt", "bad.mlir"),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "name"), READS)
@pytest.mark.parametrize("kind", BAD_FILES)
def test_input_files(tool: str, kind: str, name: str, folder: Path, fails: Fails):
    BAD_FILES[kind](folder / name)
    assert name in fails(tool, name, OUTPUT[tool], "out")


@pytest.mark.parametrize("name", ["bad.onnx", "bad.mlir"])
@pytest.mark.parametrize("tool", ["ge-import", "ge-opt"])
def test_the_wrong_kind_of_file(tool: str, name: str, folder: Path, fails: Fails):
    (folder / name).write_bytes(TEXT.encode() if tool == "ge-import" else ONNX.read_bytes())
    assert name in fails(tool, name, "-o", "out")


def test_every_cut_of_a_module(folder: Path, fails: Fails):
    for end in range(7, len(TEXT) - 3, 13):
        (folder / "cut.mlir").write_text(TEXT[:end])
        fails("ge-compile", "cut.mlir", "-o", "out")


# ---- output files --------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", TOOLS)
def test_a_folder_that_is_not_there(tool: str, fails: Fails):
    line = fails(tool, source(tool), OUTPUT[tool], "none/out")
    assert re.search(r"cannot write 'none/out(.safetensors)?': No such file or directory", line)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_folder_as_output(tool: str, folder: Path, fails: Fails):
    (folder / "sub").mkdir()
    assert "cannot write 'sub'" in fails(tool, source(tool), OUTPUT[tool], "sub")


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_not_ours(tool: str, folder: Path, fails: Fails):
    (folder / "sub").mkdir(mode=0o500)
    assert "Permission denied" in fails(tool, source(tool), OUTPUT[tool], "sub/out")


@pytest.mark.parametrize("tool", TOOLS)
def test_a_file_system_without_files(tool: str, fails: Fails):
    assert "cannot write '/proc/ge/out" in fails(tool, source(tool), OUTPUT[tool], "/proc/ge/out")


@pytest.mark.parametrize("tool", TOOLS)
def test_a_full_disk(tool: str, fails: Fails):
    line = fails(tool, source(tool), OUTPUT[tool], "/dev/full")
    assert "cannot write '/dev/full': No space left on device" in line


@pytest.mark.parametrize("option", ["--outputs", "--trace", "--op-summary", "--op-statistic"])
@pytest.mark.parametrize("file", ["none/out", "/dev/full"])
def test_outputs_of_a_run(option: str, file: str, fails: Fails):
    assert f"cannot write '{file}'" in fails("ge-run", "in.mlir", option, file, "--report", "out")


@pytest.mark.parametrize("file", ["none/out", "/dev/full"])
def test_the_report_of_a_compilation(file: str, fails: Fails):
    # the program is not written either
    line = fails("ge-compile", "in.mlir", "-o", "out", "--report", file)
    assert f"cannot write '{file}'" in line


# ---- arrays --------------------------------------------------------------------------------------

GOOD = {"x": np.ones((2, 3), np.float32), "n": np.arange(4)}


def archive(**changes: np.ndarray | None) -> Callable[[Path], object]:
    def write(file: Path) -> None:
        arrays = {k: a for k, a in (GOOD | changes).items() if a is not None}
        np.savez(file, **arrays)

    return write


def test_the_good_arrays_are_good(folder: Path):
    archive()(folder / "x.npz")
    assert ge_run([str(folder / "in.mlir"), "--inputs", str(folder / "x.npz")]) == 0


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda file: None, "cannot open 'x.npz': No such file"),
        (lambda file: file.mkdir(), "'x.npz'"),
        (lambda file: file.write_bytes(b""), "'x.npz' is no .npz file"),
        (lambda file: file.write_bytes(b"PK\3\4 no zip"), "'x.npz' is no .npz file"),
        (lambda file: file.write_text(TEXT), "'x.npz' is no .npz file"),
        (lambda file: np.save(file.open("wb"), GOOD["x"]), "one array without a name"),
        (archive(x=None), "input 'x' is missing; expected inputs: x: float32[2, 3], n: int64[4]"),
        (archive(z=np.zeros(1)), "there is no input 'z'"),
        (archive(xx=np.zeros(1)), "there is no input 'xx' (did you mean 'x'?)"),
        (archive(x=np.ones((2, 3))), "input 'x' is float64, not float32"),
        (archive(n=np.arange(4, dtype=np.int32)), "input 'n' is int32, not int64"),
        (archive(x=np.ones((3, 2), np.float32)), "input 'x' has shape [3, 2], not float32[2, 3]"),
        (archive(x=np.ones(6, np.float32)), "input 'x' has shape [6]"),
        (archive(x=np.array(1, np.float32)), "input 'x' has shape []"),
        (archive(x=np.array(["a"])), "input 'x' is <U1, not float32"),
        (archive(x=np.array([{}])), "array 'x' cannot be read"),
    ],
)  # fmt: skip
def test_inputs(make: Callable[[Path], object], expected: str, folder: Path, fails: Fails):
    make(folder / "x.npz")
    line = fails("ge-run", "in.mlir", "--inputs", "x.npz", "--report", "out")
    assert expected in line


# ---- arguments -----------------------------------------------------------------------------------

SHAPES = ["x", "x=", "=2x3", "x=2x", "x=axb", "x=-1x3", "x=2,3", "x=1e3", "x=" + "9" * 30, "z=2x3"]


RANGE = "or a range, as in batch=1..8, or other dimensions, as in mask=past+1"
MISFIT = "model.onnx: error: input 'x' is [4, 16], so the shape"


def expected_shape(text: str) -> str:
    name, _, shape = text.partition("=")
    hint = "sizes are numbers, ranges such as 1~10, or -1"
    wrong = f"'{shape}' is not a shape such as 1x3x224x224 or 1~10,3,-1; {hint}"
    return wrong if name and shape else "expected NAME=1x3x224x224"


@pytest.mark.parametrize("tool", ["ge-import", "ge-compile", "ge-run"])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(tool: str, shape: str, fails: Fails):
    line = fails(tool, "model.onnx", "--shape", shape, OUTPUT[tool], "out")
    assert line.endswith(
        {
            "x=-1x3": f"{MISFIT} [?, 3] does not fit: a dimension is 16",
            "x=2,3": f"{MISFIT} [2, 3] does not fit: a dimension is 4",
            "x=": "model.onnx: error: input 'x' has rank 2 ([4, 16]), but the shape [] is given",
            "z=2x3": "model.onnx: error: there is no input 'z'; the model has 'x'",
        }.get(shape, f"{tool}: error: --shape {shape}: {expected_shape(shape)}")
    )


@pytest.mark.parametrize("tool", ["ge-import", "ge-compile", "ge-run"])
@pytest.mark.parametrize(
    ("dim", "expected"),
    [
        ("n", "--dim n: expected NAME=2"),
        ("=2", "--dim =2: expected NAME=2"),
        ("n=", f"--dim n=: '' is not a number of elements; {RANGE}"),
        ("n=two", "there is no dimension 'n'; the model has none"),  # two: another dimension
        ("n=-2", f"--dim n=-2: '-2' is not a number of elements; {RANGE}"),
        ("n=2.5", f"--dim n=2.5: '2.5' is not a number of elements; {RANGE}"),
        ("none=2", "there is no dimension 'none'; the model has none"),
    ],
)
def test_dims(tool: str, dim: str, expected: str, fails: Fails):
    line = fails(tool, "model.onnx", "--dim", dim, OUTPUT[tool], "out")
    assert line.endswith(f"error: {expected}")


@pytest.mark.parametrize("tool", ["ge-compile", "ge-run"])
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("910b", "did you mean '910b"),
        ("tpu", "910_merged"),
        ("none.toml", "none.toml"),
        ("bad.toml", "bad.toml"),
        ("unknown.toml", "did you mean 'clock_ghz'?"),
        ("sub", "sub"),
    ],
)
def test_targets(tool: str, target: str, expected: str, folder: Path, fails: Fails):
    (folder / "sub").mkdir()
    (folder / "bad.toml").write_text("name = [")
    (folder / "unknown.toml").write_text('name = "n"\nclock_gz = 1.0\n')
    level = ["--level", "program"] if tool == "ge-run" else []
    assert expected in fails(tool, "in.mlir", *level, "--target", target, OUTPUT[tool], "out")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--fuse-lienar"], "did you mean '--fuse-linear'?"),
        (["-p", "fuse-lienar"], "did you mean 'fuse-linear'?"),
        (["-p", "plan-memory{alignmnet=1}"], "did you mean 'alignment'?"),
        (["-p", "plan-memory{alignment=x}"], "expects int, got x"),
        (["--plan-memory=alignment=3"], "alignment is a power of two, not 3"),
        (["--plan-memory=no-reuse=matmull"], "did you mean 'graph.matmul'?"),
        (
            ["-p", "fuse-conv{disable=fuse-gat}"],
            "no rule 'fuse-gat'; it has fuse-activation, fuse-b",
        ),
        (["-p", "verify-level{"], "the '{' of these options is not closed"),
        (["-p", "verify-level{level=nowhere}"], "there is no level 'nowhere'"),
        (["-t", "nothing"], "nothing"),
    ],
)
def test_passes(arguments: list[str], expected: str, fails: Fails):
    assert expected in fails("ge-opt", "in.mlir", *arguments, "-o", "out")


def test_a_rule_that_there_is_not(fails: Fails):
    told = fails("ge-compile", "in.mlir", "--fusion-disable", "fuse-gat", "-o", "out")
    assert "there is no rule 'fuse-gat' to leave out; did you mean fuse-gate?" in told
    assert "fuse-gate, fuse-input, fuse-loads" in told  # and all others


@pytest.mark.parametrize("name", ["bufferize-tasks", "lower-to-tasks", "plan-memory"])
def test_a_pass_that_cannot_be_left_out(name: str, fails: Fails):
    told = fails("ge-compile", "in.mlir", "--fusion-disable", f"fuse-gate,{name}", "-o", "out")
    assert f"pass '{name}' cannot be left out: programs need it" in told


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GE_GRAPH_FUSION", "some"),
        ("GE_MEMORY_OPTIMIZE", "much"),
        ("GE_MEMORY_OPTIMIZE", "7"),
        ("GE_STATIC_SHAPE", "perhaps"),
        ("GE_DUMP_GRAPH", "all"),
        ("GE_DUMP_GRAPH", "7"),
        ("GE_SANITIZE", "zz"),
        ("GE_DEBUG", "maybe"),
        ("GE_MEMORY_LIMIT", "1e9"),
        ("GE_CUSTOM_PASS", "none.py"),
        ("GE_TARGET", "tpu"),
    ],
)
def test_the_environment(variable: str, value: str, fails: Fails, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(variable, value)
    assert value in fails("ge-compile", "in.mlir", "-o", "out")


@pytest.mark.parametrize("tool", ["ge-compile", "ge-run", "ge-opt"])
def test_what_is_no_file_is_not_read(tool: str, fails: Fails, folder: Path):
    os.mkfifo(folder / "pipe")
    for name in ("pipe", "/dev/zero", "."):
        assert "this is not a file; - reads standard input" in fails(
            tool, name, OUTPUT[tool], "out"
        )


def test_no_input(fails: Fails):
    assert "give a .onnx or .mlir file" in fails("ge-compile", "-o", "out")


# ---- texts that xDSL's verifiers let pass -------------------------------------------------------

LATE = {
    "graph": """\
func.func @main(%x: tensor<4xf32> {graph.name = "x"}) -> (tensor<4xf32> {graph.name = "y"}) {
  %1 = graph.relu %0 : (tensor<4xf32>) -> tensor<4xf32>
  %0 = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
""",
    "tile": """\
tile.kernel @k(%in0: memref<512xf32>, %out0: memref<512xf32>) cores 1 {
  tile.vector {
    %ub = tile.alloc at [0] : !tile.tile<1x512xf32, ub>
    %0 = tile.view %in0[%c0] sizes [512] : memref<512xf32> -> !tile.box<1x512xf32>
    tile.load %0 to %ub
    %c0 = arith.constant 0 : index
    %1 = tile.view %out0[%c0] sizes [512] : memref<512xf32> -> !tile.box<1x512xf32>
    tile.store %ub to %1
  }
}
""",
}
READERS: dict[str, Callable[[str], int]] = {
    "ge-compile": lambda file: ge_compile([file, "-o", "o.mlir"]),
    "ge-run": lambda file: ge_run([file]),
    "ge-opt": lambda file: ge_opt([file]),
    "ge-check": lambda file: ge_check([file]),
    "ge-tune": lambda file: ge_tune([file]),
    "ge-bench": lambda file: ge_bench([file]),
    "ge-parser": lambda file: ge_parser([file]),
    "ge-visualizer": lambda file: ge_visualizer([file, "-o", "o.html"]),
    "ge-calibrate": lambda file: ge_calibrate([file, "--data", "in.npz", "-o", "o.toml"]),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("level", LATE)
def test_a_use_before_its_definition(
    level: str, reader: str, folder: Path, capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(folder)
    np.savez("in.npz", x=np.zeros(4, np.float32))
    Path("late.mlir").write_text(LATE[level])
    assert READERS[reader]("late.mlir") == 1
    assert "does not dominate this use" in capfd.readouterr().err


# ---- what is small and stands for what is large --------------------------------------------------

LARGE = {
    "tensor<i17179869184>": "integers have at most 16,777,215 bits",
    "tensor<4xi4294967296>": "integers have at most 16,777,215 bits",
    f"tensor<{'1x' * 100_000}f32>": "a shape has at most 64 dimensions",
    f"memref<{'?x' * 65}f32>": "a shape has at most 64 dimensions",
}


@pytest.mark.parametrize("tool", ["ge-compile", "ge-run", "ge-opt"])
@pytest.mark.parametrize("kind", LARGE, ids=[k[:24] for k in LARGE])
def test_types_that_no_memory_holds(kind: str, tool: str, fails: Fails) -> None:
    """The type is refused before anybody asks for its numbers."""
    for text in (
        f"func.func private @f({kind})",
        f"func.func private @f() attributes {{a = {kind}}}",
    ):
        Path("large.mlir").write_text(text)
        assert LARGE[kind] in fails(tool, "large.mlir", OUTPUT[tool], "out")


def packed(path: str, shape: tuple[int, ...], held: int) -> None:
    """An array of zeros with this shape in its header, and so many bytes behind it."""
    header = BytesIO()
    named = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, named)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(held))


@pytest.mark.parametrize(
    ("shape", "held", "expected"),
    [
        ((1 << 20, 3), 12 << 20, "input 'x' has shape [1048576, 3], not float32[2, 3]"),
        ((2, 3), 12 << 20, "[2, 3] of float32 are 24 bytes, and it has 12,582,912"),
        ((1 << 40, 3), 24, "are 13,194,139,533,312 bytes, and it has 24"),
    ],
)
def test_arrays_that_are_more_than_they_should_be(
    shape: tuple[int, ...], held: int, expected: str, fails: Fails,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """They are refused by what they declare: none is read."""
    packed("x.npz", shape, held)
    monkeypatch.setattr(np.lib.format, "read_array", lambda *a, **k: pytest.fail("it was read"))
    assert expected in fails("ge-run", "in.mlir", "--inputs", "x.npz")
    told = fails(
        "ge-compile", "in.mlir", "-o", "out", "--quantize", "int8", "--calibration", "x.npz"
    )
    assert expected.partition(", not")[0] in told
