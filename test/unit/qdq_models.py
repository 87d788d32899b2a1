"""ONNX models in QDQ form, written node by node, and what tests ask of them."""

from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp, i32

from ge.dialects.graph.convolution import Convolution
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.support.types import element_type
from ge.lowering.driver.compiler import lower
from ge.lowering.onnx.importer import import_model
from ge.lowering.pipeline.options import Options
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session

OFF = Options(fusion_disable=("lower-quantization",))
TYPES = {np.int8: TensorProto.INT8, np.uint8: TensorProto.UINT8}


class Qdq:
    """An ONNX model in QDQ form, written node by node."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.inputs: list[Any] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def input(self, shape: Any, kind: int = TensorProto.FLOAT) -> str:
        name = self.name()
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, array: Any) -> str:
        name = self.name()
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = self.name()
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def grid(self, scale: Any, zero: Any) -> tuple[str, str]:
        return self.constant(np.asarray(scale, np.float32)), self.constant(zero)

    def pair(self, value: str, scale: Any, zero: Any) -> str:
        s, z = self.grid(scale, zero)
        return self.add("DequantizeLinear", self.add("QuantizeLinear", value, s, z), s, z)

    def weight(self, array: Array, scale: Any, zero: Any, axis: int = 0) -> str:
        s, z = self.grid(scale, zero)
        return self.add("DequantizeLinear", self.constant(array), s, z, axis=axis)

    def lowered(self, outputs: list[str], options: Options) -> tuple[ModuleOp, Session]:
        """The program, and what runs the bodies of its kernels: it has no tile programs, which
        `test_lower_quantized.py` is about."""
        infos = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs]
        graph = helper.make_graph(self.nodes, "g", self.inputs, infos, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
        imported = import_model(model)
        lower(imported.module, replace(options, tiles=False))
        return imported.module, Session(imported.module, imported.payload)


def layers(module: ModuleOp) -> list[Any]:
    return [op for op in module.walk() if isinstance(op, MatmulOp | Convolution)]


def is_integer_form(module: ModuleOp) -> bool:
    return all(element_type(op.result) == i32 for op in layers(module))
