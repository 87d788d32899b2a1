"""ONNX's normalizations, attention, recurrent layers and quantization: forms of older opsets, of
dynamic shapes, and what is refused. (The node tests of ONNX cover the newest opset.)"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from ge.dialects.support.errors import GeError
from ge.lowering.driver.compiler import lower
from ge.lowering.onnx.importer import Imported, import_model
from ge.lowering.pipeline.options import Options
from ge.runtime.device.session import Session

F32, F16, I64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64


def imported(
    op_type: str,
    inputs: dict[str, tuple[Any, ...]],
    outputs: Sequence[str] = ("y",),
    opset: int = 21,
    constants: dict[str, Any] | None = None,
    **attributes: Any,
) -> Imported:
    """What one node becomes. `inputs` maps a name to element type and shape;
    a name that ends in "-" is an absent input, and only outputs that are named are returned."""
    names = ["" if name.endswith("-") else name for name in inputs]
    node = helper.make_node(op_type, [*names, *(constants or {})], outputs, **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(k, v[0], v[1:]) for k, v in inputs.items() if k in names],
        [helper.make_tensor_value_info(outputs[0], F32, None)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    result = import_model(model)
    result.module.verify()
    return result


def text_of(op_type: str, inputs: dict[str, tuple[Any, ...]], *others: Any, **more: Any) -> str:
    """The imported module's text for one node."""
    return str(imported(op_type, inputs, *others, **more).module)


def test_old_softmax_normalizes_all_axes_from_one_on() -> None:
    text = text_of("Softmax", {"x": (F32, 2, 3, 4)}, opset=11)
    assert "graph.softmax %x axis 1 flatten true" in text
    text = text_of("Softmax", {"x": (F32, 2, 3)}, opset=11)
    assert "graph.softmax %x axis 1 :" in text
    text = text_of("Softmax", {"x": (F32, 2, 3, 4)}, opset=13)
    assert "graph.softmax %x axis 2 :" in text


def test_old_group_norm_has_scale_by_group() -> None:
    inputs = {"x": (F32, 2, 6, 5), "s": (F32, 3), "b": (F32, 3)}
    text = text_of("GroupNormalization", inputs, opset=18, num_groups=3)
    assert "graph.broadcast_to" in text
    assert "(tensor<2x6x5xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6x5xf32>" in text


def test_instance_norm_is_a_group_norm_of_single_channels() -> None:
    inputs = {"x": (F32, 2, 6, 5), "s": (F32, 6), "b": (F32, 6)}
    assert "graph.group_norm %x, %s, %b groups 6" in text_of("InstanceNormalization", inputs)


@pytest.mark.parametrize(
    ("op", "opset", "count", "attributes"),
    [
        ("GroupNormalization", 18, 2, {"num_groups": 2}),
        ("GroupNormalization", 21, 6, {"num_groups": 2}),
        ("InstanceNormalization", 18, 6, {}),
    ],
)
def test_norms_of_channels_whose_number_is_open(
    op: str, opset: int, count: int, attributes: dict[str, int]
) -> None:
    rng = np.random.default_rng(0)
    x, s, b = (rng.standard_normal(d).astype(np.float32) for d in ((2, 6, 5), count, count))
    sizes = (count,) if count == 2 else ("c",)
    inputs = {"x": (F32, 2, "c", "w"), "s": (F32, *sizes), "b": (F32, *sizes)}
    open_, fixed = (
        imported(op, kinds, opset=opset, **attributes)
        for kinds in (inputs, {"x": (F32, *x.shape), "s": (F32, count), "b": (F32, count)})
    )
    got, want = (
        Session(m.module, m.payload).run({"x": x, "s": s, "b": b})["y"] for m in (open_, fixed)
    )
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_old_batch_norm_trains_where_it_names_outputs_of_training() -> None:
    """As its documentation says, and onnxruntime does."""
    inputs: dict[str, tuple[Any, ...]] = {"x": (F32, 2, 6)}
    inputs |= {name: (F32, 6) for name in ("s", "b", "m", "v")}
    text = text_of("BatchNormalization", inputs, ("y", "m1", "v1", "m2", "v2"), opset=9)
    assert "graph.reduce" in text
    text = text_of("BatchNormalization", inputs, ("y",), opset=9)
    assert text.count("graph.") == 1 + 6  # the op, and names of arguments and result
    with pytest.raises(GeError, match="spatial=0"):
        text_of("BatchNormalization", inputs, opset=7, spatial=0)


def test_layer_norm_alone_is_one_op() -> None:
    inputs = {"x": (F32, "n", 8), "s": (F32, 8)}
    assert "graph.reduce" not in text_of("LayerNormalization", inputs)
    assert "graph.reduce" in text_of("LayerNormalization", inputs, ("y", "mean"))


def test_dropout_drops_nothing_at_inference() -> None:
    assert "return %x" in text_of("Dropout", {"x": (F32, 2, 3)}, opset=11)
    assert "return %x" in text_of("Dropout", {"x": (F32, "n", 3)}, ("y", "mask"), opset=7)
    training = {"ratio": np.float32(0.5), "training": np.True_}
    assert "graph.random_uniform" in text_of("Dropout", {"x": (F32, 2, 3)}, constants=training)
    training["ratio"] = np.float32(0)
    assert "return %x" in text_of("Dropout", {"x": (F32, 2, 3)}, constants=training)


def test_dropout_behind_a_convolution_gains_nothing() -> None:
    """At inference it is no op: there is nothing to fuse, and nothing between the convolution and
    what follows."""
    texts: list[str] = []
    for dropout in (False, True):
        nodes = [
            helper.make_node("Conv", ["x", "w"], ["c"]),
            *([helper.make_node("Dropout", ["c"], ["d"])] if dropout else []),
            helper.make_node("Relu", ["d" if dropout else "c"], ["y"]),
        ]
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", F32, (1, 3, 8, 8))],
            [helper.make_tensor_value_info("y", F32, None)],
            [numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w")],
        )
        module = import_model(helper.make_model(graph)).module
        lower(module, Options(target="910_merged"), until="fused")
        texts.append(str(module))
    assert texts[0] == texts[1]
    assert texts[1].count("fused_op.conv") == 1


def test_lp_norm_takes_only_orders_one_and_two() -> None:
    with pytest.raises(GeError, match="p is 1 or 2, not 3"):
        text_of("LpNormalization", {"x": (F32, 2, 3)}, p=3)


def test_dequantize_to_another_type_than_the_scale() -> None:
    inputs = {"x": (TensorProto.INT8, 4), "s": (F16,)}
    text = text_of("DequantizeLinear", inputs, opset=23, output_dtype=F32)
    assert "graph.dequantize %x, %0 : (tensor<4xi8>, tensor<f32>) -> tensor<4xf32>" in text
    inputs["s"] = (F32,)
    text = text_of("DequantizeLinear", inputs, opset=23, output_dtype=F16)
    assert text.index("graph.dequantize") < text.index("graph.cast")


def test_quantize_to_floats_of_8_bits() -> None:
    inputs = {"x": (F32, 4), "s": (F32,)}
    e4m3 = TensorProto.FLOAT8E4M3FN
    text = text_of("QuantizeLinear", inputs, output_dtype=e4m3)
    assert "graph.quantize %x, %s to f8E4M3FN : " in text
    text = text_of("QuantizeLinear", inputs, output_dtype=e4m3, saturate=0)
    assert "graph.quantize %x, %s to f8E4M3FN saturate false : " in text
    text = text_of("Cast", {"x": (F32, 4)}, to=e4m3)
    assert "graph.cast %x to f8E4M3FN saturate true : " in text
    text = text_of("Cast", {"x": (F32, 4)}, to=TensorProto.FLOAT8E8M0)
    assert "graph.cast %x to f8E8M0FNU saturate true rounding up : " in text


@pytest.mark.parametrize(("zero", "kept"), [(0.0, False), (1.0, True), (None, True)])
def test_a_zero_point_of_floats_counts_unless_it_is_0(zero: float | None, kept: bool) -> None:
    """A 0 states the type alone; what is known only as the model runs may be another number."""
    e4m3 = TensorProto.FLOAT8E4M3FN
    inputs: dict[str, tuple[Any, ...]] = {"x": (F32, 4), "s": (F32,)}
    inputs |= {"z": (e4m3,)} if zero is None else {}
    element = helper.tensor_dtype_to_np_dtype(e4m3)
    constants = {} if zero is None else {"z": np.array(zero, np.float32).astype(element)}
    text = text_of("QuantizeLinear", inputs, constants=constants)
    assert (": (tensor<4xf32>, tensor<f32>, tensor<f8E4M3FN>)" in text) == kept


def test_quantize_to_a_type_that_is_not_supported() -> None:
    with pytest.raises(GeError, match="element type float6e2m3 is not supported"):
        text_of("Cast", {"x": (F32, 4)}, to=TensorProto.FLOAT6E2M3)


def test_attention_after_a_cache_of_unknown_length() -> None:
    inputs: dict[str, tuple[Any, ...]] = {"q": (F32, 1, 4, 32), "k": (F32, 1, 4, 16)}
    inputs |= {"v": (F32, 1, 4, 16), "mask-": ()}
    inputs |= {"pk": (F32, 1, 2, "past", 8), "pv": (F32, 1, 2, "past", 8)}
    outputs = ("y", "present_key", "present_value")
    heads = {"q_num_heads": 4, "kv_num_heads": 2, "is_causal": 1}
    text = text_of("Attention", inputs, outputs, 23, **heads)
    assert "graph.shape_of" in text
    assert "offset %" in text
    assert "-> tensor<1x4x32xf32>" in text
    inputs |= {"pk": (F32, 1, 2, 5, 8), "pv": (F32, 1, 2, 5, 8)}
    assert "offset 5" in text_of("Attention", inputs, outputs, 23, **heads)


def test_attention_needs_the_number_of_heads() -> None:
    inputs = {"q": (F32, 1, 4, 32), "k": (F32, 1, 4, 32), "v": (F32, 1, 4, 32)}
    with pytest.raises(GeError, match="the number of heads is missing"):
        text_of("Attention", inputs, opset=23)


def test_rotary_embedding_checks_its_tables() -> None:
    inputs = {"x": (F32, 1, 2, 3, 8), "cos": (F32, 1, 3, 3), "sin": (F32, 1, 3, 3)}
    with pytest.raises(GeError, match="8 elements to rotate, but 3 cosines"):
        text_of("RotaryEmbedding", inputs, opset=23)


def test_activations_consume_their_parameters_in_order() -> None:
    inputs = {"x": (F32, 5, 3, 4), "w": (F32, 1, 24, 4), "r": (F32, 1, 24, 6)}
    text = text_of(
        "LSTM",
        inputs,
        hidden_size=6,
        activations=["Sigmoid", "HardSigmoid", "LeakyRelu"],
        activation_alpha=[0.25, 0.5],
        activation_beta=[0.75],
    )
    assert "activations [sigmoid, hard_sigmoid, leaky_relu]" in text
    assert "alphas [0.000000e+00, 2.500000e-01, 5.000000e-01]" in text
    assert "betas [0.000000e+00, 7.500000e-01, 0.000000e+00]" in text
    with pytest.raises(GeError, match="activation 'Swish' is not supported"):
        text_of("LSTM", inputs, activations=["Swish"] * 3)


def test_lengths_that_say_nothing_are_dropped() -> None:
    inputs = {"x": (F32, 5, 3, 4), "w": (F32, 1, 6, 4), "r": (F32, 1, 6, 6), "b-": ()}
    same = {"lengths": np.array([5, 5, 5], np.int32)}
    assert "lengths" not in text_of("RNN", inputs, constants=same)
    same["lengths"][0] = 4
    assert "lengths" in text_of("RNN", inputs, constants=same)
