"""Functions between a dequantize and a quantize, for all codes of 8 bits: the optimized program
gives the integers of the definition."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from xdsl.dialects.builtin import f16, f32, i8
from xdsl.dialects.test import TestOp as Op

from ge.dialects.graph.quantization import DequantizeOp, LookupOp, QuantizeOp
from ge.dialects.support.types import element_type, tensor
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.lowering.pipeline.options import Options
from ge.runtime.device.session import Session
from ge.runtime.numbers import prepare
from ge.transforms.quantization.narrow_codes import NarrowCodesPass

sys.path.insert(0, str(Path(__file__).parent))
from qdq_models import Qdq
from tile_lowering import compare

KINDS = [np.int8, np.uint8]


def codes(kind: Any) -> Any:
    limits = np.iinfo(kind)
    return np.arange(limits.min, limits.max + 1).astype(kind)


def between(
    name: str, kinds: list[Any], shapes: list[Any], **attributes: Any
) -> tuple[Qdq, list[str], str]:
    """A model that takes codes, computes one function, and quantizes."""
    model = Qdq()
    inputs, floats = [], []
    for i, (kind, shape) in enumerate(zip(kinds, shapes, strict=True)):
        x = model.input(shape, TensorProto.INT8 if kind is np.int8 else TensorProto.UINT8)
        s, z = model.grid((0.05, 0.021)[i], kind(3 + 97 * i))
        inputs.append(x)
        floats.append(model.add("DequantizeLinear", x, s, z))
    y = model.add(name, *floats, **attributes)
    s, z = model.grid(0.04, np.int8(-9))
    y = model.add("QuantizeLinear", y, s, z)
    return model, inputs, model.add("Cast", y, to=TensorProto.FLOAT)


def check(model: Qdq, arrays: dict[str, Any], y: str) -> int:
    """Returns the number of lookups. Tile programs would repeat those of bodies."""
    want = model.lowered([y], Options(fusion="off", tiles=False))[1].run(arrays)[y]
    module, session = model.lowered([y], Options(tiles=False))
    np.testing.assert_array_equal(session.run(arrays)[y], want)
    return sum(isinstance(op, LookupOp) for op in module.walk())


FUNCTIONS: list[tuple[str, dict[str, Any]]] = [
    ("HardSwish", {}), ("Sigmoid", {}), ("Gelu", {}), ("Gelu", {"approximate": "tanh"}),
    ("Erf", {}), ("Tanh", {}), ("LeakyRelu", {"alpha": 0.1}), ("Relu", {}), ("Identity", {}),
    ("HardSigmoid", {}), ("Elu", {}), ("Exp", {}), ("Neg", {}), ("Abs", {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "attributes", "kind"),
    [
        pytest.param(
            *function, kind, marks=[] if i % len(KINDS) == j else pytest.mark.soak, id=f"{i}-{j}"
        )
        for i, function in enumerate(FUNCTIONS)
        for j, kind in enumerate(KINDS)
    ],
)
def test_all_codes(name: str, attributes: dict[str, Any], kind: Any) -> None:
    model, (x,), y = between(name, [kind], [[256]], **attributes)
    assert check(model, {x: codes(kind)}, y) == (name not in ("Relu", "Identity"))


@pytest.mark.parametrize("name", ["Add", "Mul", "Sub", "Max", "Min"])
@pytest.mark.parametrize(
    "kinds",
    [(np.int8, np.uint8), pytest.param((np.uint8, np.uint8), marks=pytest.mark.soak)],
)
def test_all_pairs(name: str, kinds: tuple[Any, Any]) -> None:
    model, (a, b), y = between(name, list(kinds), [[256, 1], [1, 256]])
    check(model, {a: codes(kinds[0]).reshape(256, 1), b: codes(kinds[1]).reshape(1, 256)}, y)


def test_concat_of_all_codes() -> None:
    model, (a, b), y = between("Concat", KINDS, [[256], [256]], axis=0)
    check(model, {a: codes(np.int8), b: codes(np.uint8)}, y)


@pytest.mark.parametrize("name", ["AveragePool", "MaxPool"])
def test_pools_of_all_pairs(name: str) -> None:
    model, (x,), y = between(
        name, [np.int8], [[1, 1, 65536, 2]], kernel_shape=[1, 2], strides=[1, 2]
    )
    a, b = np.meshgrid(codes(np.int8), codes(np.int8))
    check(model, {x: np.stack([a.ravel(), b.ravel()], -1).reshape(1, 1, 65536, 2)}, y)


def test_large_arrays_are_gone_through_in_blocks() -> None:
    """The numbers are those of small arrays."""
    x = np.random.default_rng(0).standard_normal((3, 70_000)).astype("f4")
    x[0, :2] = np.nan, np.inf
    scale, zero = np.float32(0.05).reshape(()), np.int8(-3).reshape(())
    types = tensor(x.shape, f32), tensor((), f32), tensor((), i8)
    values = [Op(result_types=[t]).results[0] for t in types]
    op = QuantizeOp.of(*values, to=i8)
    codes = prepare(op)(x, scale, zero)
    rows = [prepare(op)(x[i : i + 1, :50_000], scale, zero) for i in range(3)]
    np.testing.assert_array_equal(codes[:, :50_000], np.concatenate(rows))
    back = prepare(DequantizeOp.of(op.result, *values[1:]))
    floats = back(codes, scale, zero)
    np.testing.assert_array_equal(floats[:1, :50_000], back(rows[0], scale, zero))


@pytest.mark.parametrize("name", ["gelu", "silu", "sigmoid", "tanh"])
def test_codes_of_all_numbers_of_f16_are_near_those_of_the_definition(name: str) -> None:
    """They are computed in f16 (`narrow-codes`), by the tile program too; a step is at most one."""
    x, codes = "tensor<64x1024xf16>", "tensor<64x1024xi8>"
    text = f"""
func.func @main(%x: {x} {{graph.name = "x"}}) -> ({codes} {{graph.name = "y"}}) {{
  %s = graph.constant dense<0.0178> : tensor<f32>
  %z = graph.constant dense<-111> : tensor<i8>
  %0 = graph.{name} %x : ({x}) -> {x}
  %1 = graph.quantize %0, %s, %z to i8 : ({x}, tensor<f32>, tensor<i8>) -> {codes}
  func.return %1 : {codes}
}}"""
    numbers = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(64, 1024)
    before = parse_module(context(), SourceText(name, text))
    want = Session(before).run({"x": numbers})["y"]
    after = parse_module(context(), SourceText(name, text))
    NarrowCodesPass().apply(context(), after)
    (op,) = (o for o in after.walk() if isinstance(o, QuantizeOp))
    assert element_type(op.input) == f16
    assert not any(o.name == f"graph.{name}" for o in after.walk())
    got = Session(after).run({"x": numbers})["y"]
    assert (abs(got.astype(int) - want) <= 1).all()
    assert (got != want).mean() < 0.02
    compare(str(after), all_lowered=True, exact=True, make=lambda *_: numbers, orders=1)
