"""The table of element types: each row holds at every level, from the text to the device."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from xdsl.dialects.builtin import IntegerType, TensorType, i1
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.test_value import create_ssa_value

import ge
from ge.dialects.graph.elementwise import CastOp, NegOp
from ge.dialects.support.element_types import (
    ELEMENT_TYPES,
    ElementType,
    bitwidth,
    i2,
    i4,
    storage_bytes,
    ui8,
)
from ge.dialects.support.types import byte_size, element_type, tensor
from ge.dialects.targets.target import RATE_KEYS, Target
from ge.runtime.data.arrays import dtype_of, element_of, float_limits, kind_of
from ge.runtime.data.weights import SafetensorsPayload, restored, write_safetensors
from ge.runtime.library.costs.cycles import peak_macs

each_row = pytest.mark.parametrize("row", ELEMENT_TYPES, ids=lambda row: row.name)


def some(row: ElementType, shape: tuple[int, ...] = (3, 5)) -> np.ndarray:
    values = np.arange(np.prod(shape)).reshape(shape) % (2 if row.bits == 2 else 7)
    return values.astype(dtype_of(row.type))


def assert_same(got: np.ndarray, want: np.ndarray) -> None:
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


@each_row
def test_numpy_has_the_type_and_its_figures(row: ElementType):
    dtype = dtype_of(row.type)
    assert element_of(dtype) == row.type
    assert row.storage == (8 if row.type == i1 else row.bits)
    assert dtype.itemsize * 8 == max(row.storage, 8)
    assert kind_of(dtype) == ("b" if row.type == i1 else "f" if row.is_float else row.name[0])
    if row.is_float:
        limits = float_limits(dtype)
        assert (row.precision, row.exponent) == (limits.nmant + 1, limits.nexp)
    else:
        assert row.type == i1 or row.bits == int(row.name.strip("ui"))


@each_row
def test_a_payload_keeps_the_type(row: ElementType, tmp_path: Path):
    path = tmp_path / "w.safetensors"
    with open(path, "wb") as file:
        write_safetensors(file, {"w": some(row)})
    array = restored(SafetensorsPayload(path)["w"], tensor([3, 5], row.type))
    assert_same(array, some(row))


@each_row
def test_a_model_stores_moves_and_casts_the_type(row: ElementType, tmp_path: Path):
    number = getattr(TensorProto, row.onnx)
    array = some(row, (3, 5))
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], name="t"),
        helper.make_node("Concat", ["t", "w"], ["c"], name="c", axis=1),
        helper.make_node("Cast", ["c"], ["f"], name="f", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "f"], ["m"], name="m"),
        helper.make_node("Sqrt", ["m"], ["s"], name="s"),
        helper.make_node("Cast", ["s"], ["y"], name="y", to=number),
    ]
    weight = helper.make_tensor("w", number, [5, 300], np.ones(1500), raw=False)
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", number, [3, 5])],
        [helper.make_tensor_value_info("y", number, [5, 303])],
        [weight],
    )  # fmt: skip
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)]), path)
    program = ge.compile(str(path))
    outputs = ge.Session(program.module, program.payload).run({"x": array})
    expected = np.concatenate([array.T, np.ones((5, 300), array.dtype)], axis=1)
    assert_same(outputs["y"], expected)


@pytest.mark.parametrize("row", [r for r in ELEMENT_TYPES if r.storage_only], ids=lambda r: r.name)
def test_what_is_only_stored_is_not_computed_with(row: ElementType):
    value = create_ssa_value(tensor([4], row.type))
    with pytest.raises(VerifyException, match=f"{row.name} is only stored: cast it to compute"):
        NegOp.of(value)
    assert element_type(CastOp.of(value, to=i1).result) == i1


def test_elements_of_fewer_than_8_bits_are_packed():
    assert [(bitwidth(t), storage_bytes(5, t)) for t in (i1, i2, i4)] == [(8, 5), (2, 2), (4, 3)]
    assert byte_size(TensorType(i4, [3, 5])) == 8


def test_targets_have_rates_of_4_bit_matmuls():
    target = Target.load("910_merged")
    assert {"i4", "i8", "f16", "f32"} <= set(RATE_KEYS)
    assert peak_macs(i4, target) == 2 * peak_macs(ui8, target)


def test_a_type_without_a_row_has_no_size():
    with pytest.raises(VerifyException, match="element type i24 has no storage size"):
        bitwidth(IntegerType(24))
