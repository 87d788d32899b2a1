"""Names that are not ASCII, long, hostile or alike, through every tool."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import ge
from ge.dialects.support.errors import GeError
from ge.runtime.profile.tables import csv_text
from ge.tools.commands import (
    ge_bench,
    ge_calibrate,
    ge_check,
    ge_compile,
    ge_import,
    ge_opt,
    ge_parser,
    ge_run,
    ge_visualizer,
)  # fmt: skip

RNG = np.random.default_rng(0)


def write_model(path: Path, weight: str = "w", output: str = "y", node: str = "n") -> np.ndarray:
    """output = x @ weight. Returns the weight."""
    values = RNG.standard_normal((64, 32)).astype(np.float32)
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", weight], [output], name=node)],
        "g", [info("x", 1, [4, 64])], [info(output, 1, [4, 32])],
        [numpy_helper.from_array(values, weight)],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return values


def run(program: Path, folder: Path) -> dict[str, np.ndarray]:
    x = np.ones((4, 64), np.float32)
    np.savez(folder / "x.npz", x=x)
    arguments = ["--inputs", str(folder / "x.npz"), "--outputs", str(folder / "y.npz")]
    assert ge_run([str(program), *arguments]) == 0
    return dict(np.load(folder / "y.npz"))


@pytest.mark.parametrize(
    "weight",
    ["é", pytest.param("权重", marks=pytest.mark.soak), "a/b c", '"q"\\', "w\x1b[31m"],
)
def test_names_go_through_every_tool(weight: str, tmp_path: Path):
    output = "出力" if weight != "é" else "é"[::-1] + "2"
    values = write_model(tmp_path / "m.onnx", weight, output, "結点")
    graph, program, again = (tmp_path / f"{n}.mlir" for n in ("図", "名", "名-2"))
    assert ge_import([str(tmp_path / "m.onnx"), "-o", str(graph)]) == 0
    debug = "--mlir-print-debuginfo"
    assert ge_compile([str(graph), "-o", str(program), debug]) == 0
    assert (tmp_path / "名.safetensors").exists()
    assert ge_check([str(program)]) == 0
    assert ge_opt([str(program), "--print-debuginfo", "-o", str(again)]) == 0
    want = np.ones((4, 64), np.float32) @ values
    for file in (graph, program, again):
        results = run(file, tmp_path)
        np.testing.assert_allclose(results[output], want, rtol=1e-4, atol=1e-4)
    loaded = ge.load(str(again))
    assert ge.Session(loaded.module, loaded.payload).output_names == [output]


def test_locations_that_are_not_ascii(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    write_model(tmp_path / "m.onnx", node="結点")
    assert ge_import([str(tmp_path / "m.onnx"), "--mlir-print-debuginfo"]) == 0
    text = capfd.readouterr().out
    (tmp_path / "in.mlir").write_text(text)
    assert ge_opt([str(tmp_path / "in.mlir"), "--print-debuginfo"]) == 0
    for printed in (text, capfd.readouterr().out):
        assert "\\E7\\B5\\90\\E7\\82\\B9" in printed


def test_names_with_dots_keep_their_weights_apart(tmp_path: Path):
    programs = [tmp_path / f"net-1.{i}" for i in range(2)]
    values: list[np.ndarray] = []
    for program in programs:
        values.append(write_model(tmp_path / "m.onnx"))
        assert ge_compile([str(tmp_path / "m.onnx"), "-o", str(program)]) == 0
    for program, weights in zip(programs, values, strict=True):
        assert program.with_name(f"{program.name}.safetensors").exists()
        want = np.ones((4, 64), np.float32) @ weights
        np.testing.assert_allclose(run(program, tmp_path)["y"], want, rtol=1e-4, atol=1e-4)


def test_weights_of_another_program_are_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    for name in ("a", "b"):
        write_model(tmp_path / "m.onnx")
        output = str(tmp_path / f"{name}.mlir")
        assert ge_compile([str(tmp_path / "m.onnx"), "-o", output]) == 0
    file = tmp_path / "a.safetensors"
    own = file.read_bytes()
    file.write_bytes((tmp_path / "b.safetensors").read_bytes())
    assert ge_run([str(tmp_path / "a.mlir")]) == 1
    line = capfd.readouterr().err.splitlines()[-1]
    assert f"{file}: error: these weights are not the program's; compile anew" in line
    file.write_bytes(own[:-1] + bytes([own[-1] ^ 1]))  # one bit of the data
    assert ge_run([str(tmp_path / "a.mlir"), "--timing-only"]) == 0
    assert ge_run([str(tmp_path / "a.mlir")]) == 1
    assert "weight 'w' is not what the program was made with" in capfd.readouterr().err
    text = tmp_path / "a.mlir"
    lines = text.read_text().split("graph.payload_hash = ")
    text.write_text(lines[0].rstrip(", ") + lines[1][66:])
    assert ge_run([str(text)]) == 0


def test_a_program_written_through_a_link(tmp_path: Path):
    values = write_model(tmp_path / "m.onnx")
    (tmp_path / "there").mkdir()
    link, real = tmp_path / "link.mlir", tmp_path / "there" / "real.mlir"
    link.symlink_to(real)
    assert ge_compile([str(tmp_path / "m.onnx"), "-o", str(link)]) == 0
    assert sorted(os.listdir(tmp_path / "there")) == ["real.mlir", "real.safetensors"]
    want = np.ones((4, 64), np.float32) @ values
    for program in (link, real):
        np.testing.assert_allclose(run(program, tmp_path)["y"], want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_a_payload_that_is_no_regular_file(
    kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    write_model(tmp_path / "m.onnx")
    assert ge_compile([str(tmp_path / "m.onnx"), "-o", str(tmp_path / "p.mlir")]) == 0
    file = tmp_path / "p.safetensors"
    file.unlink()
    make = {"pipe": os.mkfifo, "device": lambda f: f.symlink_to("/dev/zero"), "folder": Path.mkdir}
    make[kind](file)
    assert ge_run([str(tmp_path / "p.mlir")]) == 1
    assert "cannot read the weights: it is no regular file" in capfd.readouterr().err


def test_outputs_onto_inputs(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    model = tmp_path / "m.onnx"
    write_model(model)
    program, weights = tmp_path / "p.mlir", tmp_path / "p.safetensors"
    assert ge_import([str(model), "-o", str(program)]) == 0
    inputs = tmp_path / "x.npz"
    np.savez(inputs, x=np.ones((4, 64), np.float32))
    before = {f: f.read_bytes() for f in tmp_path.iterdir()}
    m, p, w, x = map(str, (model, program, weights, inputs))
    refused = [
        (ge_import, [m, "-o", m]), (ge_compile, [m, "-o", m]), (ge_compile, [m, "--report", m]),
        (ge_compile, [p, "-o", w]), (ge_compile, [p, "-o", f"{tmp_path}/q.mlir", "--report", w]),
        (ge_run, [p, "--outputs", w]), (ge_run, [p, "--report", p]),
        (ge_run, [p, "--inputs", x, "--outputs", x]), (ge_run, [m, "--trace", m]),
    ]  # fmt: skip
    for tool, arguments in refused:
        assert tool(arguments) == 1, arguments
        assert "it is an input" in capfd.readouterr().err
    assert {f: f.read_bytes() for f in tmp_path.iterdir()} == before
    assert ge_compile([p, "-o", p]) == 0  # a module in place
    assert ge_run([p]) == 0


def test_a_file_name_that_is_not_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    write_model(tmp_path / "m.onnx")
    name = os.fsdecode(os.fsencode(tmp_path) + b"/net-\xff.mlir")  # as in sys.argv
    assert ge_compile([str(tmp_path / "m.onnx"), "-o", name]) == 1
    said = capfd.readouterr().err
    assert "is not UTF-8" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("place", ["node", "kind", "domain", "read", "made", "key", "port"])
def test_a_model_whose_names_are_not_text(
    place: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    """A name of each place where a model has some, with a byte that no text has."""
    info = helper.make_tensor_value_info
    node = helper.make_node(
        "KIND@", ["port@", "read@"], ["made@"], name="node@", domain="domain@", **{"key@": 1}
    )
    graph = helper.make_graph([node], "g", [info("port@", 1, [4])], [info("made@", 1, [4])])
    text = helper.make_model(graph).SerializeToString()
    name = "KIND@" if place == "kind" else f"{place}@"
    path = tmp_path / "m.onnx"
    path.write_bytes(text.replace(name.encode(), name[:-1].encode() + b"\xff"))
    assert ge_compile([str(path)]) == 1
    said = capfd.readouterr().err
    assert f"the name b'{name[:-1]}\\xff' is not UTF-8: the model is damaged" in said


def test_two_outputs_of_one_name(tmp_path: Path):
    text = """
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32> {graph.name = "y"}, tensor<4xf32> {graph.name = "y"}) {
  func.return %x, %x : tensor<4xf32>, tensor<4xf32>
}
"""  # noqa: E501
    (tmp_path / "in.mlir").write_text(text)
    loaded = ge.load(str(tmp_path / "in.mlir"))
    with pytest.raises(GeError, match="two outputs are called 'y'"):
        ge.Session(loaded.module, loaded.payload)


# ---- the terminal ----------------------------------------------------------------------------


BIN = Path(sys.executable).parent


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, check=False,
        timeout=120,
    )  # fmt: skip


RELU = """\
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32> {graph.name = "y"}) {
  %0 = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("ge-opt m.mlir -o p.mlir <&- >&- 2>&-", 0, b""),
        pytest.param("ge-compile m.mlir -o p.mlir <&- >&- 2>&-", 0, b"", marks=pytest.mark.soak),
        ("ge-opt none.mlir <&- >&-", 1, b"cannot open 'none.mlir'"),
        pytest.param("ge-check m.mlir >&-", 1, b"", marks=pytest.mark.soak),
        pytest.param("ge-opt <&-", 1, b"", marks=pytest.mark.soak),
    ],
)
def test_standard_streams_that_are_closed(command: str, status: int, said: bytes, tmp_path: Path):
    (tmp_path / "m.mlir").write_text(RELU)
    done = shell(command, tmp_path)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert b"Traceback" not in done.stderr
    assert b"internal error" not in done.stderr


def test_names_on_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Neither an encoding without them nor what steers a terminal is in the way."""
    write_model(tmp_path / "m.onnx", output="出\x1b[31m\n力\u202e")
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    assert ge_run([str(tmp_path / "m.onnx")]) == 0
    sys.stdout.flush()
    (line,) = written.getvalue().splitlines()
    assert line.startswith(rb"\u51fa\x1b[31m\n\u529b\u202e: float32[4, 32]")


def test_messages_are_short(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    name = "x" * 1_000_000
    text = f'"test.op"() {{sym_name = @"{name}"}} : (index) -> ()\nfunc.call @"{name}"() : () -> ()'
    (tmp_path / "in.mlir").write_text(text)
    assert ge_opt([str(tmp_path / "in.mlir")]) == 1
    assert len(capfd.readouterr().err) < 10_000


def test_cells_of_tables_are_no_formulas():
    rows = [{"Op Name": "=cmd|'/c calc'!A1", "Count": -3}]
    text = csv_text(("Op Name", "Count"), rows)
    assert text == "Op Name,Count\n'=cmd|'/c calc'!A1,-3\n"


def test_aliases_of_aliases(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    lines = ["#a0 = [1, 1]", *(f"#a{i + 1} = [#a{i}, #a{i}]" for i in range(39))]
    (tmp_path / "in.mlir").write_text(
        "\n".join([*lines, "builtin.module attributes {x = #a39} {}"])
    )
    assert ge_opt([str(tmp_path / "in.mlir")]) == 1
    assert "stands for" in capfd.readouterr().err


def test_a_plugin_that_exits(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    (tmp_path / "p.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "in.mlir").write_text("builtin.module {}")
    assert ge_opt([str(tmp_path / "in.mlir"), "--load-plugin", str(tmp_path / "p.py")]) == 1
    assert "p.py:2: error: cannot load plugin: SystemExit: 3" in capfd.readouterr().err


# ---- names that are no value names of the text -------------------------------------------------

NAMES = ("0", "12", "_0", "%5", "_1_2", "%", "1.0", "_", "é", "0:1", "x_0", "x_1")
PARTS = ("a", "b", "past", "w", "v", "shift", "product", "sum", "scores", "y", "z", "kept")


def named_model(path: Path, rotated: int | None, dynamic: bool) -> dict[str, str]:
    """A layer, a softmax, a second layer and a state, of which all values, nodes and dimensions
    have names of `NAMES`, turned by so many; plain ones with None. Returns the name of each."""
    order = PARTS if rotated is None else (*NAMES[rotated:], *NAMES[:rotated])
    name = dict(zip(PARTS, order, strict=True))
    rows, length = ("0", "_0") if dynamic else (4, 3)
    info, node = helper.make_tensor_value_info, helper.make_node
    rng = np.random.default_rng(1)

    def weight(part: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.normal(0, 0.1, shape).astype(np.float32), name[part])

    wires = [
        ("MatMul", ("a", "w"), "product"), ("Add", ("product", "shift"), "sum"),
        ("Softmax", ("sum",), "scores"), ("MatMul", ("scores", "v"), "y"),
        ("Add", ("y", "b"), "z"), ("Concat", ("past", "a"), "kept"),
    ]  # fmt: skip
    graph = helper.make_graph(
        [
            node(op, [name[i] for i in ins], [name[out]], name=name[out],
                 **({"axis": 0} if op == "Concat" else {}))
            for op, ins, out in wires
        ],
        "0",
        [info(name["a"], 1, [rows, 64]), info(name["b"], 1, [64]),
         info(name["past"], 1, [length, 64])],
        [info(name["z"], 1, [rows, 64]), info(name["scores"], 1, [rows, 32]),
         info(name["kept"], 1, None)],
        [weight("w", 64, 32), weight("v", 32, 64), weight("shift", 32)],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, ir_version=10), path)
    return name


def outputs_of(model: Path, name: dict[str, str], *flags: str) -> list[np.ndarray]:
    """What `ge-run` computes, with all that it can tell of the run."""
    folder = model.parent
    rng = np.random.default_rng(2)
    shapes = {"a": (4, 64), "b": (64,), "past": (3, 64)}
    arrays = {name[k]: rng.normal(0, 1, s).astype(np.float32) for k, s in shapes.items()}
    np.savez(folder / "in.npz", **arrays)
    flags = (*flags, "--inputs", str(folder / "in.npz"), "--outputs", str(folder / "out.npz"))
    tables = ["--trace", f"{folder}/t.json", "--op-summary", f"{folder}/s.csv", "--explain", "3"]
    assert ge_run([str(model), *flags, *tables]) == 0
    with np.load(folder / "out.npz") as file:
        return [file[name[k]] for k in ("z", "scores", "kept")]


STATIC = [
    "--quantize int8 --calibration IN --export-qdq q.onnx", "--state PAST=KEPT",
    "--memory-limit 4K", "", "--until=fused", "--memory 3 --pieces", "--quantize w8a16",
    "--quantize dynamic --accuracy snr>=20 --calibration IN", "--precision fp16 --calibration IN",
    "--tiles", "--print-liveness --validate",
    "--html page.html --mlir-use-nameloc-as-prefix", "--share-io --merge-io --no-reuse MatMul",
    "--dump-graph 2 --dump-path dumps", "--keep-outputs SCORES",
]  # fmt: skip
DYNAMIC = [
    "", "--dynamic-dims 4,3;8,3", "--dim 0=4 --dim _0=3", "--dim 0=1..8",
    "--state PAST=KEPT --state-capacity _0=16 --dim 0=1",
]  # fmt: skip
OTHERS = [
    (ge_bench, "--report bench.json"), (ge_calibrate, "--data IN -o c.toml"),
    (ge_visualizer, "-o v.html"), (ge_parser, ""), (ge_import, "-o i.mlir"),
]  # fmt: skip


def arguments(flags: str, name: dict[str, str], folder: Path) -> list[str]:
    """The flags, with files in the folder and the names of this model."""
    text = flags
    for part in ("past", "kept", "scores"):
        text = text.replace(part.upper(), re.escape(name[part]) if part == "past" else name[part])
    found = text.replace("IN", "in.npz").split()
    return [str(folder / a) if re.search(r"\.(npz|onnx|html|json|toml|mlir)$|^dumps", a) else a
            for a in found]  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("rotated", "modes"),
    [(0, 3), *(pytest.param(i, 99, marks=pytest.mark.soak) for i in (0, 4, 8))],
)
def test_names_that_text_has_no_names_for(
    dynamic: bool, rotated: int, modes: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Every command and mode takes them, and computes what it does with plain names."""
    plain, odd = tmp_path / "plain.onnx", tmp_path / "odd.onnx"
    names = named_model(plain, None, dynamic), named_model(odd, rotated, dynamic)
    wanted = outputs_of(plain, names[0])

    def check_numbers(model: Path) -> None:
        for got, expected in zip(outputs_of(model, names[1]), wanted, strict=True):
            np.testing.assert_array_equal(got, expected)

    check_numbers(odd)
    program = tmp_path / "program.mlir"
    for flags in (DYNAMIC if dynamic else STATIC)[:modes]:
        given = arguments(flags, names[1], tmp_path)
        status = ge_compile([str(odd), "-o", str(program), *given])
        assert status == 0, (flags, capfd.readouterr().err)
        if "--until" not in flags:
            assert ge_check([str(program)]) == 0, flags
        if not flags:
            check_numbers(program)
    for main, flags in OTHERS[: 0 if dynamic else modes // 2]:
        given = arguments(flags, names[1], tmp_path)
        assert main([str(odd), *given]) == 0, (flags, capfd.readouterr().err)
