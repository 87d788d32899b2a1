"""Embedding tables in 8 bits: launches, bytes, numbers, and what people say about them."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import ge
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.proof import check_program
from ge.runtime.data.arrays import Array
from ge.transforms.quantization.schemes import GROUPS

from .test_quantize import decibels, normal

TOKENS = np.random.default_rng(0).integers(0, 50, (40, 6))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    weights = {
        "tokens": normal(50, 32, seed=1), "positions": normal(1, 6, 32, seed=2),
        "gain": normal(32, seed=3), "bias": normal(32, seed=4), "w": normal(32, 8, seed=5),
    }  # fmt: skip
    nodes = [
        helper.make_node("Gather", ["tokens", "x"], ["t"], "embed"),
        helper.make_node("Add", ["t", "positions"], ["s"], "place"),
        helper.make_node("LayerNormalization", ["s", "gain", "bias"], ["n"], "norm"),
        helper.make_node("MatMul", ["n", "w"], ["y"], "head"),
    ]
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info("x", TensorProto.INT64, ["N", 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 6, 8])],
        [numpy_helper.from_array(a, name) for name, a in weights.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17)]
    folder = tmp_path_factory.mktemp("model")
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    np.savez(folder / "x.npz", x=TOKENS)
    return str(path)


def compiled(model: str, **options: Any) -> "ge.Program":
    if "quantize" in options:
        options.setdefault("calibration", str(Path(model).with_name("x.npz")))
    return ge.compile(model, dims={"N": 40}, **options)


@cache
def floats_of(model: str) -> "ge.Program":
    return compiled(model)


def outputs(program: "ge.Program") -> Array:
    return next(iter(ge.Session(program.module, program.payload).run({"x": TOKENS}).values()))


def scheme_of(program: "ge.Program", name: str) -> str:
    layers = program.report()["quantization"]["layers"]
    return next(layer["scheme"] for layer in layers if layer["name"] == name)


@pytest.mark.parametrize(("scheme", "least"), [("int8", 34), ("dynamic", 34), ("w8a16", 40)])
def test_tables_take_a_quarter_and_no_launch(model: str, scheme: str, least: float):
    kinds = {}, {"quantize": scheme}
    floats, program = (compiled(model, target="910_merged", **kind) for kind in kinds)
    before, after = floats.report(), program.report()
    assert after["ops"]["launches"] <= before["ops"]["launches"] + (scheme == "dynamic")
    assert "tensor<50x32xf32>" not in str(program.module.body.block.first_op)
    assert after["memory"]["weight_bytes"] < before["memory"]["weight_bytes"] / 2
    assert decibels(outputs(floats), outputs(program)) > least
    assert [scheme_of(program, n) for n in ("embed", "place")] == [scheme, scheme]


def test_tables_stay_floats_or_take_half(model: str, tmp_path: Path):
    left = compiled(model, quantize="w8a16", quantize_skip="positions,embed")
    assert [scheme_of(left, n) for n in ("embed", "place", "head")] == ["float", "float", GROUPS]
    exact = compiled(model, quantize="int16")
    assert [scheme_of(exact, n) for n in ("embed", "head")] == ["int16", "int16"]
    assert "tensor<50x32xi16>" in str(exact.module.body.block.first_op)
    table = tmp_path / "t.toml"
    table.write_text('[layers]\nembed = "float"\n')
    edited = compiled(model, quantize="w8a16", calibration=str(table))
    assert [scheme_of(edited, n) for n in ("embed", "place")] == ["float", "w8a16"]


def test_an_accuracy_takes_tables_back_to_floats(model: str):
    noisy = outputs(compiled(model, quantize="w8a16"))
    exact = outputs(floats_of(model))
    bound = decibels(exact, noisy) + 3
    program = compiled(model, quantize="w8a16", accuracy=f"snr>={bound}")
    assert decibels(exact, outputs(program)) > bound - 0.5
    found = [scheme_of(program, n) for n in ("embed", "place", "head")]
    assert "float" in found
    assert "w8a16" in found


def test_tables_are_exported(model: str, tmp_path: Path):
    path = str(tmp_path / "q.onnx")
    program = compiled(model, quantize="int8", export_qdq=path)
    stored = {i.name: i.data_type for i in onnx.load(path).graph.initializer}
    assert list(stored.values()).count(TensorProto.INT8) >= 3
    again = ge.compile(path)
    weights, launches = (
        [p.report()[part][key] for p in (program, again)]
        for part, key in (("memory", "weight_bytes"), ("ops", "launches"))
    )
    assert weights[1] <= weights[0]
    assert launches[0] == launches[1]
    assert np.array_equal(outputs(program), outputs(again))


SIZES = st.sampled_from([1, 3, 16, 64, 100])


@settings(max_examples=settings().max_examples // 16)  # each is a compile
@given(
    *(SIZES, SIZES, SIZES, st.sampled_from([16, 48, 100])),
    *(st.booleans(), st.booleans(), st.sampled_from(["910_merged", "910b2"])),
)
def test_plans_are_proved(
    batch: int, rows: int, k: int, n: int, multiplied: bool, turned: bool, target: str
):
    """A table behind a matmul, or an input; its scales along columns, or rows. Where cubes and
    vector units are cores of their own, a product this small and the addition stay apart."""
    x, y = f"tensor<{batch}x{rows}x{k if multiplied else n}xf32>", f"tensor<{batch}x{rows}x{n}xf32>"
    axis, scale = (1, f"tensor<{rows}xf32>") if turned else (2, f"tensor<{n}xf32>")
    table = f"tensor<1x{rows}x{n}x"
    matmul = f"%0 = graph.matmul %x, %w : ({x}, tensor<{k}x{n}xf32>) -> {y}"
    source = f"""
func.func @main(%x: {x}) -> {y} {{
  %w = graph.constant #graph.weight<"w"> : tensor<{k}x{n}xf32>
  %p = graph.constant #graph.weight<"p"> : {table}i8>
  %s = graph.constant #graph.weight<"s"> : {scale}
  {matmul if multiplied else ""}
  %1 = graph.dequantize %p, %s axis {axis} : ({table}i8>, {scale}) -> {table}f32>
  %2 = graph.add {"%0" if multiplied else "%x"}, %1 : ({y}, {table}f32>) -> {y}
  %3 = graph.relu %2 : ({y}) -> {y}
  func.return %3 : {y}
}}
"""
    module = parse_module(context(), SourceText("t.mlir", source))
    report = lower(module, Options(tiles=False, target=target), until="program")
    assert report.ops["launches"] == 1 + (multiplied and target == "910b2")
    assert [str(p) for p in check_program(module).problems] == []
