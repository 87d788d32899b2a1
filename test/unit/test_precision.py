"""float32 models in 16-bit floats: what is kept in float32, numbers, options, data and errors."""

import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import f16, f32, i8, i32
from xdsl.ir import Attribute, Block
from xdsl.utils.exceptions import VerifyException

import ge
from ge.dialects.fused_op import RegionOp, YieldOp
from ge.dialects.graph.elementwise import AddOp, CastOp, MinimumOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.normalization import LayerNormOp
from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.graph.shape import ReshapeOp
from ge.dialects.graph.slicing import SliceOp
from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.dialects.support.effort import effort
from ge.dialects.support.types import element_type
from ge.lowering.driver import calibration
from ge.lowering.driver.compiler import compile_file
from ge.lowering.driver.program import Program
from ge.lowering.pipeline.options import Options
from ge.runtime.data.accuracy import decibels, powers
from ge.runtime.data.arrays import Array
from ge.tools.commands import ge_calibrate, ge_compile, ge_run
from ge.transforms.precision import judging
from ge.transforms.precision.modes import MODES, NAMES, NOT_HERE
from ge.transforms.precision.refine_precision import WANTED, Decisions
from ge.transforms.quantization.table import read_table

pytestmark = pytest.mark.usefixtures("without_programs")

D = 32
MODELS = Path(__file__).parents[1] / "models"


def normal(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(dims).astype(np.float32)


def save(
    path: Path, nodes: Sequence[tuple[str, str, str]], weights: Mapping[str, Array],
    shape: Sequence[int] = (2, 8, D),
) -> Path:  # fmt: skip
    """A model from x to y of nodes (op, inputs, output)."""
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in "xy"]
    graph = helper.make_graph(
        [helper.make_node(op, ins.split(), [out], out) for op, ins, out in nodes],
        "net", ports[:1], ports[1:],
        [numpy_helper.from_array(np.asarray(a, np.float32), n) for n, a in weights.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def attention(path: Path, size: float) -> Path:
    """Attention of normed rows whose scores grow with the square of `size`."""
    weights = {f"w{n}": normal(D, D, seed=i) / 6 for i, n in enumerate("qkvo")}
    weights |= {"wq": weights["wq"] * size, "wk": weights["wk"] * size}
    weights |= {"g": np.ones(D), "b": np.zeros(D), "s": np.float32(D**-0.5)}
    nodes = [
        ("LayerNormalization", "x g b", "n"), ("MatMul", "n wq", "q"), ("MatMul", "n wk", "k"),
        ("MatMul", "n wv", "v"), ("Transpose", "k", "kt"), ("MatMul", "q kt", "scores"),
        ("Mul", "scores s", "scaled"), ("Softmax", "scaled", "p"), ("MatMul", "p v", "a"),
        ("MatMul", "a wo", "o"), ("Add", "x o", "y"),
    ]  # fmt: skip
    save(path, nodes, weights)
    model = onnx.load(path)
    model.graph.node[4].attribute.append(helper.make_attribute("perm", [0, 2, 1]))
    onnx.save(model, path)
    return path


def norm(path: Path, size: float, is_bounded: bool = True) -> Path:
    """A norm over rows that grow with `size`, between two layers; if not bounded, also with x."""
    weights = {"w1": normal(D, D, seed=1) * size, "w2": normal(D, D, seed=2) / 6}
    weights |= {"g": 1 + normal(D, seed=3) / 9, "b": normal(D, seed=4)}
    first = [("Tanh", "x", "t")] if is_bounded else []
    t = "t" if is_bounded else "x"
    nodes = [
        *first, ("MatMul", f"{t} w1", "h"), ("Add", f"h {t}", "sum"),
        ("LayerNormalization", "sum g b", "n"), ("MatMul", "n w2", "y"),
    ]  # fmt: skip
    return save(path, nodes, weights)


def outputs(program: "ge.Program", x: Array) -> Array:
    return ge.Session(program.module, program.payload).run({"x": x})["y"]


@cache
def float_program(model: bytes, folder: Path) -> "ge.Program":
    path = folder / "float.onnx"
    path.write_bytes(model)
    return ge.compile(str(path))


def origin(path: Path) -> "ge.Program":
    """What float32 makes of a model, compiled once."""
    return float_program(path.read_bytes(), path.parent.parent)


def error(path: Path, x: Array, **options: object) -> tuple[float, "ge.Program"]:
    """How far the outputs are from those of float32, in parts of the largest."""
    options = {"target": "910_merged", **options}
    program = ge.compile(str(path), **options)  # pyright: ignore[reportArgumentType]
    exact = outputs(origin(path), x)
    return float(np.abs(outputs(program, x) - exact).max() / np.abs(exact).max()), program


def kept(program: "ge.Program") -> dict[str, str]:
    return {k["name"]: k["why"] for k in program.report()["precision"]["kept"]}


def types_of(module: "ge.Program", kind: type[MatmulOp | LayerNormOp]) -> list[Attribute]:
    return [element_type(op.operands[0]) for op in module.module.walk() if isinstance(op, kind)]


# ---- numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "most"), [
    ("fp16", 3e-3), pytest.param("mixed", 3e-3, marks=pytest.mark.soak), ("bf16", 3e-2),
])  # fmt: skip
def test_a_usual_model_is_narrow(tmp_path: Path, mode: str, most: float):
    x = normal(2, 8, D, seed=9)
    for build in (attention, norm):
        path = build(tmp_path / "m.onnx", 1.0)
        wrong, program = error(path, x, precision=mode)
        assert 0 < wrong < most
        assert not kept(program)
        launches = origin(path).report()["ops"]["launches"]
        assert program.report()["ops"]["launches"] <= launches
        assert program.report()["precision"]["ranges"] == "random inputs"


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["fp16", "mixed"])
@pytest.mark.parametrize("name", [
    "sd15_unet.tiny", "llama_7b_prefill.op23.tiny", "gpt2_prefill.noopt.tiny", "bert_base.tiny",
    "resnet50.ts.tiny", "vit_b16.op20.tiny",
])  # fmt: skip
def test_models_stay_within_two_hundredths(name: str, mode: str):
    path = MODELS / f"{name}.onnx"
    arrays = np.load(path.with_suffix(".npz"))
    inputs = {k.removeprefix("in:"): arrays[k] for k in arrays.files if k.startswith("in:")}
    exact, program = (ge.compile(str(path), precision=p) for p in ("origin", mode))
    want, got = (ge.Session(p.module, p.payload).run(inputs) for p in (exact, program))
    for key, array in want.items():
        assert np.abs(got[key] - array).max() <= 2e-2 * np.abs(array).max()
    most = exact.report()["ops"]["launches"] + casts_alone(program)
    assert program.report()["ops"]["launches"] <= most


def casts_alone(program: Program) -> int:
    """Launches that cast a value, or a slice, and do nothing else: vector cores start late in one
    of a small matmul, and a slice that is not cast is read where it lies."""
    launched = [op.callee for op in program.module.walk() if isinstance(op, LaunchOp)]
    kernels = {k.sym_name.data: k for k in program.module.ops if isinstance(k, KernelOp)}
    does = [{type(o) for o in kernels[name].main.walk()} for name in launched]
    around = {RegionOp, YieldOp, ReshapeOp}
    return sum(kinds - around in ({CastOp}, {SliceOp, CastOp}) for kinds in does)


@pytest.mark.parametrize(
    ("mode", "size"),
    [("fp16", 30.0), pytest.param("fp16", 1000.0, marks=pytest.mark.soak), ("bf16", 100.0)],
)
def test_large_scores_keep_attention_and_what_computes_them(tmp_path: Path, mode: str, size: float):
    path = attention(tmp_path / "m.onnx", size)  # scores of 1e4, 1e7 and 1e5
    wrong, program = error(path, normal(2, 8, D, seed=9), precision=mode)
    assert wrong < (2e-2 if mode != "bf16" else 3e-2)
    assert {"q", "k"} <= set(kept(program))
    assert any("exponents reach" in why for why in kept(program).values())


@pytest.mark.parametrize(("size", "what"), [(1000.0, "'h' reaches"), (1e10, "'w1' reaches")])
def test_a_norm_over_large_values_keeps_its_result(tmp_path: Path, size: float, what: str):
    path = norm(tmp_path / "m.onnx", size)
    wrong, program = error(path, normal(2, 8, D, seed=9), precision="fp16")
    assert wrong < 2e-3
    assert what in kept(program)["h"]


def test_large_inputs_of_a_norm_need_no_data(tmp_path: Path):
    nodes = [("LayerNormalization", "x g", "n"), ("MatMul", "n w", "y")]
    path = save(tmp_path / "m.onnx", nodes, {"g": np.ones(D), "w": normal(D, D) / 6})
    wrong, program = error(path, normal(2, 8, D, seed=9) * 1e6, precision="fp16")
    assert wrong < 2e-3
    assert program.report()["precision"]["narrow"] == 1


def test_data_tells_what_random_inputs_do_not(tmp_path: Path):
    path = norm(tmp_path / "m.onnx", 1.0, is_bounded=False)
    x = normal(2, 8, D, seed=9) * 8000
    wrong, program = error(path, x, precision="fp16")
    assert wrong < 2e-3
    assert "nothing is known" in kept(program)["h"]
    np.savez(tmp_path / "x.npz", x=x / 8000)
    assert not kept(ge.compile(str(path), precision="fp16", calibration=tmp_path / "x.npz"))
    np.savez(tmp_path / "x.npz", x=x)
    wrong, program = error(path, x, precision="fp16", calibration=tmp_path / "x.npz")
    assert wrong < 2e-3
    assert "'x' reaches" in kept(program)["h"]
    assert program.report()["precision"]["ranges"] == "calibration"


def test_constants_are_clipped_on_request(tmp_path: Path):
    weights = {"w": normal(D, D) / 6, "c": np.where(np.arange(D) % 2, -3e38, 0)}
    nodes = [("MatMul", "x w", "m"), ("Add", "m c", "s"), ("Relu", "s", "y")]
    path = save(tmp_path / "m.onnx", nodes, weights)
    x = normal(2, 8, D, seed=9)
    wrong, program = error(path, x, precision="fp16")
    assert wrong < 2e-3
    assert kept(program) == {"s": "'c' reaches 3e+38, f16 65504"}
    wrong, program = error(path, x, precision="fp16", precision_clip=True)
    assert wrong < 2e-3
    assert "s" not in kept(program) or "'s' reaches" in kept(program)["s"]


def test_what_is_clipped_for_no_op_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    infer = MinimumOp.infer

    def of_f32(op: MinimumOp) -> Sequence[Attribute]:
        if element_type(op.lhs) != f32:
            raise VerifyException("there is no such kernel")
        return infer(op)

    weights = {"w": normal(D, D) / 6, "c": np.full(D, 1e6), "d": np.full(D, -1e6)}
    nodes = [("MatMul", "x w", "m"), ("Min", "m c", "s"), ("Max", "s d", "y")]
    path = str(save(tmp_path / "m.onnx", nodes, weights, (2, D)))
    options = Options(precision="fp16", precision_clip=True, fusion="off")
    report = compile_file(path, options, until="graph").report()["precision"]
    assert report["clipped"] == {"c": 1e6, "d": 1e6}
    monkeypatch.setattr(MinimumOp, "infer", of_f32)
    report = compile_file(path, options, until="graph").report()["precision"]
    assert report["kept"][0]["why"] == "graph.minimum takes no f16"
    assert report["clipped"] == {"d": 1e6}


# ---- what rounding destroys ------------------------------------------------------------------

W = normal(D, D, seed=1) / 6

# Nodes and weights of models that 16 bits throughout leave below 20 dB, or with numbers that are
# infinite; what is kept in each; and how large its inputs are
LOSING = {
    "difference of near-equal products": (
        [("MatMul", "x w", "a"), ("MatMul", "x w2", "b"), ("Sub", "a b", "y")],
        {"w": W, "w2": W * 1.0005}, {"a", "b"}, 1.0,
    ),
    "norm behind a large mean": (
        [("MatMul", "x w", "h"), ("Add", "h c", "s"), ("LayerNormalization", "s g", "y")],
        {"w": W, "c": np.full(D, 2000), "g": np.ones(D)}, {"h"}, 1.0,
    ),
    "norm of inputs of any size": (
        [("MatMul", "x w", "h"), ("LayerNormalization", "h g", "n"), ("MatMul", "n w", "y")],
        {"w": W, "g": np.ones(D)}, {"h"}, 1e6,
    ),
    "row of the largest": (
        [("MatMul", "x w", "h"), ("ArgMax", "h", "i"), ("Gather", "t i", "y")],
        {"w": np.repeat(W[:, ::2], 2, 1) * (1 + 1e-6 * np.arange(D)), "t": W}, {"h"}, 1.0,
    ),
    "index made of floats": (
        [("MatMul", "x w", "h"), ("Abs", "h", "a"), ("Mul", "a c", "m"), ("Cast", "m", "i"),
         ("Gather", "t i", "y")],
        {"w": W[:, :1] / 9, "c": np.float32(2000), "t": normal(20000, D)}, {"h"}, 1.0,
    ),
    "squares of pixels": (
        [("Mul", "x x", "s"), ("MatMul", "s w", "h"), ("Abs", "h", "a"), ("Sqrt", "a", "y")],
        {"w": np.abs(W)}, {"h"}, 100.0,
    ),
    "logarithm of a softmax": (
        [("MatMul", "x w", "h"), ("Softmax", "h", "p"), ("Log", "p", "y")],
        {"w": W * 20}, {"p"}, 1.0,
    ),
}  # fmt: skip


def losing(path: Path, name: str) -> Path:
    nodes, weights, _, _ = LOSING[name]
    model = onnx.load(save(path, nodes, weights))
    for node in model.graph.node:
        if node.op_type == "ArgMax":
            node.attribute.extend([helper.make_attribute(k, v) for k, v in
                                   (("axis", -1), ("keepdims", 0))])  # fmt: skip
        if node.op_type == "Cast":
            node.attribute.append(helper.make_attribute("to", TensorProto.INT64))
    if name == "index made of floats":  # of rows of one column
        model.graph.output[0].type.tensor_type.shape.dim[2].dim_value = 1
        model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = D
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("mode", ["fp16", "bf16", "mixed"])
@pytest.mark.parametrize("name", LOSING)
def test_what_rounding_destroys_is_kept(tmp_path: Path, name: str, mode: str):
    path = losing(tmp_path / "m.onnx", name)
    size = LOSING[name][3]
    x = normal(2, 8, D, seed=9) * np.float32(size)
    np.savez(tmp_path / "x.npz", x=x)
    exact = outputs(origin(path), x)
    for data in ("", tmp_path / "x.npz"):
        program = ge.compile(str(path), precision=mode, calibration=data)
        got = outputs(program, x)
        assert decibels(*powers(exact, got)) >= (30 if mode == "bf16" else 40)
        if mode == "fp16":
            assert LOSING[name][2] <= set(kept(program))
        if data and (left := program.report()["precision"].get("left_db")):
            assert left["y"] == pytest.approx(decibels(*powers(exact, got)), abs=3)


@pytest.mark.parametrize("name", LOSING)
def test_after_the_time_limit_outputs_are_floats_as_far_as_they_have_to_be(
    tmp_path: Path, name: str
):
    path = losing(tmp_path / "m.onnx", name)
    np.savez(tmp_path / "x.npz", x=(x := normal(2, 8, D, seed=9) * np.float32(LOSING[name][3])))
    with effort(1e-9) as known:
        program = ge.compile(str(path), precision="fp16", calibration=tmp_path / "x.npz")
    assert decibels(*powers(outputs(origin(path), x), outputs(program, x))) >= 40
    assert len(known.undone) <= 1


def test_an_infinite_output_is_an_error_that_names_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Where nothing that overflows may be kept."""
    monkeypatch.setattr(judging, "ROUNDS", 1)
    monkeypatch.setattr(Decisions, "_misfit", lambda *_: "")
    nodes = [("MatMul", "x w", "h"), ("Mul", "h h", "s"), ("MatMul", "s v", "y")]
    path = save(tmp_path / "m.onnx", nodes, {"w": W * 1000, "v": W / 1e6})
    np.savez(tmp_path / "x.npz", x=normal(2, 8, D, seed=9))
    what = r"fp16 makes output 'y' infinite or nan, which float32 does not: first in 's'"
    with pytest.raises(ge.GeError, match=f"{what}.*--keep-dtype FILE with 's' in it"):
        ge.compile(str(path), precision="fp16", calibration=tmp_path / "x.npz")
    monkeypatch.undo()
    assert "s" in kept(ge.compile(str(path), precision="fp16", calibration=tmp_path / "x.npz"))


def test_an_accuracy_is_that_of_an_output(tmp_path: Path):
    path, x = attention(tmp_path / "m.onnx", 1.0), normal(2, 8, D, seed=9)
    np.savez(tmp_path / "x.npz", x=x)
    exact = outputs(origin(path), x)
    for bound, least in (("snr>=45", 45.0), ("snr(y)>=75", 75.0), ("cos>=0.99999999", 75.0)):
        program = ge.compile(
            str(path), precision="fp16", calibration=tmp_path / "x.npz", accuracy=bound
        )
        assert decibels(*powers(exact, outputs(program, x))) >= least
        assert bool(kept(program)) == (least > 70)
    with pytest.raises(ge.GeError, match=r"the model has no output 'z'"):
        ge.compile(
            str(path), precision="fp16", calibration=tmp_path / "x.npz", accuracy="snr(z)>=30"
        )


def test_matmuls_whose_results_are_not_rounded(tmp_path: Path):
    path, x = norm(tmp_path / "m.onnx", 1.0), normal(2, 8, D, seed=9)
    wrong, _ = error(path, x, precision="cube_fp16in_fp32out")
    assert 0 < wrong < 2e-3
    graph = compile_file(str(path), Options(precision="cube_fp16in_fp32out"), until="graph")
    products = [op for op in graph.module.walk() if isinstance(op, MatmulOp)]
    assert [element_type(op.lhs) for op in products] == [f16, f16]
    assert [element_type(op.result) for op in products] == [f32, f32]


def test_a_table_says_what_is_kept(tmp_path: Path):
    path = losing(tmp_path / "m.onnx", "norm behind a large mean")
    np.savez(tmp_path / "x.npz", x=normal(2, 8, D, seed=9))
    table = tmp_path / "t.toml"
    arguments = [str(path), "--data", str(tmp_path / "x.npz"), "-o", str(table)]
    assert ge_calibrate([*arguments, "--precision", "fp16"]) == 0
    assert read_table(table).vectors["refine-precision-faults"]["y"][0] < 20
    program = ge.compile(str(path), precision="fp16", calibration=table)
    assert "an operand of 'y', where its result has" in kept(program)["h"]


# ---- with quantization -------------------------------------------------------------------------


def test_stored_weights_are_dequantized_to_the_format(tmp_path: Path):
    path = str(norm(tmp_path / "m.onnx", 1.0))
    options = Options(quantize="w8a16", precision="fp16")
    program = compile_file(path, options, until="graph")
    stored = [op for op in program.module.walk() if isinstance(op, DequantizeOp)]
    assert [element_type(op.input) for op in stored] == [i8, i8]
    assert types_of(program, MatmulOp) == [f16, f16]


def test_integer_products_hand_on_the_format(tmp_path: Path):
    path = norm(tmp_path / "m.onnx", 1.0)
    np.savez(tmp_path / "x.npz", x=normal(8, 8, D, seed=5))
    for mode, want in (("fp16", f16), ("mixed", f32), ("origin", f32)):
        options = Options(quantize="int8", precision=mode, calibration=str(tmp_path / "x.npz"))
        program = compile_file(str(path), options, until="graph")
        assert types_of(program, MatmulOp) == [i8, i8]
        assert types_of(program, LayerNormOp) == [want]


def test_layers_that_stay_float_follow_the_precision(tmp_path: Path):
    path = norm(tmp_path / "m.onnx", 1.0)
    np.savez(tmp_path / "x.npz", x=normal(8, 8, D, seed=5))
    options = Options(
        quantize="int8", precision="fp16", quantize_skip=("y",),
        calibration=str(tmp_path / "x.npz"),
    )  # fmt: skip
    program = compile_file(str(path), options, until="graph")
    assert types_of(program, MatmulOp) == [i8, f16]


def test_codes_that_move_are_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Rounding moves some codes by a step, so that outputs differ by more than is allowed, and are
    as near to those of floats as before."""
    nodes, weights, shown = list[tuple[str, str, str]](), dict[str, Array](), "x"
    for i in range(6):
        weights[f"w{i}"] = normal(D, D, seed=i) / np.float32(D**0.5)
        nodes += [
            ("MatMul", f"{shown} w{i}", f"m{i}"),
            ("Relu", f"m{i}", f"r{i}"),
            ("Add", f"{shown} r{i}", "y" if i == 5 else f"y{i}"),
        ]
        shown = f"y{i}"
    path = save(tmp_path / "m.onnx", nodes, weights)
    np.savez(tmp_path / "x.npz", x=normal(8, 8, D, seed=5))
    found, run = list[float](), judging.RoundingJudge.run

    def seen(judge: judging.RoundingJudge, *how: Any) -> Any:
        faults, twins = run(judge, *how)
        found.extend(map(twins.decibels, judge.wanted))
        return faults, twins

    monkeypatch.setattr(judging.RoundingJudge, "run", seen)
    monkeypatch.setitem(WANTED, "f16", 60.0)
    options = Options(quantize="int8", precision="fp16", calibration=str(tmp_path / "x.npz"))
    program = compile_file(str(path), options, until="graph")
    assert max(found) < 60
    assert {*types_of(program, AddOp)} == {i32, f16}


def test_more_noise_than_codes_have_is_a_fault():
    """Clearly, and not by chance: in most parts of an output."""
    output = Block(arg_types=[f32]).args[0]
    observer = cast(judging.Observer, None)

    def is_as_good(*pairs: tuple[float, float]) -> bool:
        return judging.Twins(observer, f16, {}, ends={output: list(pairs)}).is_as_good(output)

    assert is_as_good((1, 1.05), (1, 1.05), (1, 1.05))
    assert not is_as_good((1, 1.2), (1, 1.2), (1, 1.2))
    assert is_as_good((1, 0.6), (1, 2.4), (1, 0.7))
    assert not is_as_good((1, 2), (1, 3), (1, 2.5))
    assert not is_as_good((1, np.inf))
    assert not judging.Twins(observer, f16, {}).is_as_good(output)


# ---- the table ---------------------------------------------------------------------------------


def test_a_table_stands_for_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = norm(tmp_path / "m.onnx", 1000.0)
    np.savez(tmp_path / "x.npz", x=normal(2, 8, D, seed=5))
    table = tmp_path / "t.toml"
    arguments = [str(path), "--data", str(tmp_path / "x.npz"), "-o", str(table)]
    assert ge_calibrate([*arguments, "--precision", "fp16"]) == 0
    assert read_table(table).vectors["refine-precision"]["h"][0] > 2000
    texts: list[str] = []
    for file in (tmp_path / "x.npz", table):
        options = Options(precision="fp16", calibration=str(file))
        texts.append(str(compile_file(str(path), options, until="graph").module))
    assert texts[0] == texts[1]
    table.write_text(table.read_text("utf-8").replace('"h" =', '"hh" ='), "utf-8")
    arguments = [str(path), "--precision", "fp16", "--calibration", str(table)]
    assert ge_compile(arguments) == 1
    assert "nothing named 'hh'" in capsys.readouterr().err


# ---- the surface -------------------------------------------------------------------------------


def test_the_tools_take_a_precision(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path, report = norm(tmp_path / "m.onnx", 1000.0), tmp_path / "r.json"
    arguments = [str(path), "--precision", "force_fp16", "--report", str(report), "--remarks"]
    assert ge_compile(arguments) == 0
    err = capsys.readouterr().err
    assert "refine-precision missed: 'h' stays f32: 'h' reaches" in err
    assert "ranges are those of random inputs: give samples with --calibration" in err
    told = json.loads(report.read_text("utf-8"))["precision"]
    assert (told["mode"], told["format"]) == ("fp16", "f16")
    assert ge_run([str(path), "--precision", "bf16", "--report", str(report)]) == 0
    assert json.loads(report.read_text("utf-8"))["precision"]["format"] == "bf16"


def test_the_cache_keeps_what_was_told(tmp_path: Path):
    path = norm(tmp_path / "m.onnx", 1.0)
    first, second = (
        ge.compile(str(path), precision="fp16", cache_dir=tmp_path / "cache").report()
        for _ in range(2)
    )
    assert first["precision"] == second["precision"]
    assert first["precision"]["narrow"] == 4


def test_names_of_ge():
    assert set(NAMES.values()) == {"origin", *MODES}
    assert Options(precision="allow_fp32_to_fp16") == Options(precision="mixed")
    assert Options.from_environment({"GE_PRECISION": "mixed_bfloat16"}).precision == "mixed_bf16"
    for name in NOT_HERE:
        with pytest.raises(ge.GeError, match=r"one of origin, fp16, .*take fp16"):
            Options(precision=name)
    with pytest.raises(ge.GeError, match=r"did you mean force_fp16\?"):
        Options(precision="force_fp61")


def test_without_weights_all_is_taken_to_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "m.mlir"
    path.write_text(
        """func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<4x4xf32>
  %0 = graph.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  func.return %0 : tensor<2x4xf32>
}""",
        "utf-8",
    )
    out = tmp_path / "p.mlir"
    assert ge_compile([str(path), "--precision", "fp16", "-o", str(out)]) == 0
    assert "all values are taken to fit f16" in capsys.readouterr().err
    assert ge_compile([str(out), "--precision", "fp16", "-o", "-"]) == 1
    assert "precision of a model is chosen at the graph level" in capsys.readouterr().err
    assert ge_run([str(out), "--precision", "fp16", "--timing-only"]) == 1
    assert "this is at program: compile the model with --precision" in capsys.readouterr().err


def test_a_model_that_random_inputs_do_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "m.mlir"
    path.write_text(
        """func.func @main(%x: tensor<2x4xf32>, %i: tensor<1xi64>) -> tensor<1x4xf32> {
  %three = graph.constant dense<3> : tensor<1xi64>
  %w = graph.constant dense<1.0> : tensor<4x4xf32>
  %0 = graph.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %j = graph.add %i, %three : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  %1 = graph.gather %0, %j axis 0 : (tensor<2x4xf32>, tensor<1xi64>) -> tensor<1x4xf32>
  %2 = graph.relu %1 : (tensor<1x4xf32>) -> tensor<1x4xf32>
  func.return %2 : tensor<1x4xf32>
}""",
        "utf-8",
    )
    assert ge_compile([str(path), "--precision", "fp16", "-o", "-"]) == 0
    assert "cannot be run on random inputs" in capsys.readouterr().err


def test_images_of_open_size_are_random_ones_that_the_model_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Of which a window and its strides leave something."""
    window = {"kernel_shape": [4, 4], "strides": [4, 4]}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a"], **window),
        helper.make_node("MaxPool", ["a"], ["b"], **window),
        helper.make_node("Conv", ["b", "w"], ["y"]),
    ]
    infos = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 3, "H", "W"]) for n in ("x", "y")
    ]
    w = numpy_helper.from_array(normal(8, 3, 1, 1), "w")
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], [w])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    assert ge_compile([str(path), "--precision", "fp16", "-o", "-"]) == 0
    assert "cannot be run on random inputs" not in capsys.readouterr().err


def test_a_large_model_is_not_run_on_random_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(calibration, "MOST_MACS", 1000)
    path = norm(tmp_path / "m.onnx", 1000.0)
    assert ge_compile([str(path), "--precision", "fp16", "--remarks"]) == 0
    err = capsys.readouterr().err
    assert "on random inputs: error: that would take minutes; give --calibration" in err
    assert "no ranges are known: give samples with --calibration" in err


def test_origin_changes_nothing(tmp_path: Path):
    path = str(norm(tmp_path / "m.onnx", 1.0))
    program = compile_file(path, Options(precision="must_keep_origin_dtype"), until="graph")
    assert types_of(program, MatmulOp) == [f32, f32]
    assert "precision" not in program.report()


def calls_on(path: Path, count: int) -> int:
    """How often functions that decide are called, for a chain of so many sines of large angles."""
    nodes = [
        node
        for i in range(count)
        for node in (("Mul", f"y{i} f", f"z{i}"), ("Sin", f"z{i}", f"y{i + 1}"))
    ]
    weights = {"w": normal(D, D), "f": np.array(100, np.float32)}
    save(path, [("MatMul", "x w", "y0"), *nodes, ("Neg", f"y{count}", "y")], weights)
    calls = 0

    def counting(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.endswith("refine_precision.py")

    sys.setprofile(counting)
    try:
        compile_file(str(path), Options(precision="fp16"), until="graph")
    finally:
        sys.setprofile(None)
    return calls


def test_three_times_the_sines_take_three_times_the_calls(tmp_path: Path) -> None:
    few = calls_on(tmp_path / "few.onnx", 5)
    assert calls_on(tmp_path / "many.onnx", 15) < 3.5 * few
