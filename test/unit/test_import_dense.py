"""What ONNX's matrix products and windows become: no op more than needed, pads resolved."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import DenseArrayBase, i64

from ge.dialects.support.errors import GeError
from ge.lowering.onnx.importer import import_model

FLOAT = TensorProto.FLOAT


def imported(
    node: str, inputs: dict[str, Any], weights: dict[str, Any] | None = None, **attributes: Any
) -> list[Any]:
    """The ops that one ONNX node becomes. `inputs`: name -> shape, `weights`: name -> array."""
    weights = weights or {}
    nodes = [helper.make_node(node, [*inputs, *weights], ["y"], name="node", **attributes)]
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info(n, FLOAT, s) for n, s in inputs.items()],
            [helper.make_tensor_value_info("y", FLOAT, None)],
            [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()],
        ),
        opset_imports=[helper.make_opsetid("", 20)],
    )
    main: Any = import_model(model).module.body.block.first_op
    return [op for op in main.body.block.ops if op.name not in ("graph.constant", "func.return")]


def names(ops: list[Any]) -> list[str]:
    return [op.name.removeprefix("graph.") for op in ops]


def ints(*values: int) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, values)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, ["matmul", "add"]),
        ({"alpha": 1.0, "beta": 1.0, "transB": 1}, ["matmul", "add"]),
        ({"alpha": 0.5}, ["matmul", "mul", "add"]),
        ({"beta": 2.0}, ["matmul", "mul", "add"]),
    ],
)
def test_gemm(attributes: dict[str, Any], expected: list[str]) -> None:
    ops = imported("Gemm", {"a": [4, 4], "b": [4, 4], "c": [4]}, **attributes)
    assert names(ops) == expected
    assert bool(ops[0].transpose_rhs.value.data) == ("transB" in attributes)


def test_gemm_without_addend_is_one_matmul() -> None:
    assert names(imported("Gemm", {"a": [4, 3], "b": [3, 2]})) == ["matmul"]


def test_conv_without_attributes_has_no_window_properties() -> None:
    (conv,) = imported("Conv", {"x": [1, 3, 8, 8], "w": [4, 3, 3, 3]}, pads=[0] * 4, strides=[1, 1])
    assert (conv.strides, conv.pads, conv.dilations, conv.auto_pad) == (None,) * 4


@pytest.mark.parametrize(
    ("auto_pad", "pads"), [("SAME_UPPER", (0, 0, 1, 1)), ("SAME_LOWER", (1, 1, 0, 0))]
)
def test_auto_pad_is_resolved(auto_pad: str, pads: tuple[int, ...]) -> None:
    shapes = {"x": [1, 3, 8, 8], "w": [4, 3, 3, 3]}
    (conv,) = imported("Conv", shapes, auto_pad=auto_pad, strides=[2, 2])
    assert conv.pads == ints(*pads)
    assert conv.auto_pad is None


@pytest.mark.parametrize(
    ("auto_pad", "pads"), [("SAME_UPPER", (0, 1, 1, 1)), ("SAME_LOWER", (1, 1, 0, 1))]
)
def test_auto_pad_of_an_output_shape_is_resolved(auto_pad: str, pads: tuple[int, ...]) -> None:
    """Of 2 * 7 + 3 rows one is too many, and of 2 * 7 + 4 columns two are: the odd row is that at
    the end, or at the begin."""
    shapes = {"x": [1, 3, 8, 8], "w": [3, 4, 3, 4]}
    attributes = {"auto_pad": auto_pad, "strides": [2, 2], "output_shape": [16, 16]}
    (conv,) = imported("ConvTranspose", shapes, **attributes)
    assert conv.pads == ints(*pads)


def test_auto_pad_of_stride_one_does_not_need_the_size() -> None:
    shapes = {"x": [1, 3, "h", "w"], "w": [4, 3, 3, 5]}
    (conv,) = imported("Conv", shapes, auto_pad="SAME_UPPER")
    assert conv.pads == ints(1, 2, 1, 2)


def test_auto_pad_of_an_unknown_size_stays() -> None:
    shapes = {"x": [1, 3, "h", "w"], "w": [4, 3, 3, 3]}
    (conv,) = imported("Conv", shapes, auto_pad="SAME_UPPER", strides=[2, 2])
    assert conv.auto_pad.data == "same_upper"
    assert conv.pads is None


def test_quantized_matmul_subtracts_only_nonzero_points() -> None:
    a, b = np.ones((2, 3), np.uint8), np.ones((3, 4), np.int8)
    zero, three = np.uint8(0), np.int8(3)
    ops = imported("MatMulInteger", {}, {"a": a, "b": b, "za": zero, "zb": np.int8(0)})
    assert names(ops) == ["matmul"]
    ops = imported("MatMulInteger", {}, {"a": a, "b": b, "za": zero, "zb": three})
    assert names(ops) == ["matmul", "cast", "cast", "reduce", "mul", "sub"]


def test_scales_of_a_quantized_matmul_are_of_rows_and_of_columns() -> None:
    """Square operands would hide the other axis."""
    square = np.ones((3, 3), np.uint8)
    ones, zeros = np.ones(3, np.float32), np.zeros(3, np.uint8)
    points = {"a_scale": ones, "a_zero": zeros, "b": square, "b_scale": ones, "b_zero": zeros}
    result = {"y_scale": np.float32(1), "y_zero": np.uint8(0)}
    rows, columns, *_ = imported("QLinearMatMul", {}, {"a": square, **points, **result})
    assert [op.axis.value.data for op in (rows, columns)] == [0, 1]


def test_constant_scales_become_a_property() -> None:
    weights = {"roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32)}
    (resize,) = imported("Resize", {"x": [1, 3, 4, 4]}, weights)
    assert resize.scale_values() == (1.0, 1.0, 2.0, 2.0)
    assert resize.scales_value is None


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"kernel_shape": [5, 5]}, "kernel_shape [5, 5] is not that of the weight, [3, 3]"),
        ({"auto_pad": "SAME"}, "auto_pad SAME is not known"),
        ({"strides": [0, 1]}, "'strides' are at least 1, got [0, 1]"),
        ({"group": 3}, "input has 3 channels, but a weight"),
    ],
)
def test_errors_name_the_node(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(GeError, match="'node'") as error:
        imported("Conv", {"x": [1, 3, 8, 8], "w": [4, 3, 3, 3]}, **attributes)
    assert message in str(error.value)
