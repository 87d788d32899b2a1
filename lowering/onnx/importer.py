"""ONNX model -> one module at the graph level, and the payload of its weights."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects.errors import GeError
from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.dialects.interfaces import name_loc
from ge.dialects.types import DYNAMIC, AnyTensor, tensor
from ge.lowering.onnx.registry import Node, Unsupported, Value, find
from ge.runtime.arrays import Array, dense, element_of

INLINE_BYTES = 1024
"""Constants up to this size stand in the text; larger ones are keyed into the payload."""


@dataclass
class Imported:
    """A module at the graph level, and its weights by key (absent ones are not in the dict)."""

    module: ModuleOp
    payload: dict[str, Array] = field(default_factory=dict[str, Array])


class Scope:
    """The names visible in one ONNX graph, and the block that its ops go to."""

    def __init__(self, importer: "Importer", block: Block, parent: "Scope | None" = None) -> None:
        self.importer, self.block, self.parent = importer, block, parent
        self.values: dict[str, Value] = {}
        self.failed: set[str] = set()

    def lookup(self, name: str) -> Value:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.parent
        raise KeyError(name)

    def has_failed(self, name: str) -> bool:
        return name in self.failed or (self.parent is not None and self.parent.has_failed(name))

    def known(self, value: SSAValue) -> Array | None:
        """The elements of a weight whose payload is at hand, else None."""
        owner = value.owner
        if isinstance(owner, ConstantOp) and owner.key is not None:
            return self.importer.payload.get(owner.key)
        return None

    def add_constant(self, name: str, array: Array) -> None:
        """Bind `name` to a constant: in the text if small, else a weight with that key."""
        if array.nbytes <= INLINE_BYTES:
            op = ConstantOp.make(dense(array), tensor(array.shape, element_of(array.dtype)))
        else:
            key = self.importer.unique_key(name)
            self.importer.payload[key] = array
            op = ConstantOp.make(WeightAttr(key), tensor(array.shape, element_of(array.dtype)))
        op.location = name_loc(name)
        self.block.add_op(op)
        self.values[name] = op.result

    def import_graph(self, graph: GraphProto, skip_inputs: bool = False) -> list[Value]:
        """Add the graph's initializers and nodes to the block; returns its output values."""
        for init in graph.initializer:
            self.importer.add_initializer(self, init)
        for node in graph.node:
            self.import_node(node)
        return [self.lookup(o.name) for o in graph.output if not self.has_failed(o.name)]

    def import_node(self, proto: NodeProto) -> None:
        outputs = [o for o in proto.output if o]
        if any(self.has_failed(i) for i in proto.input if i):
            self.failed.update(outputs)
            return
        try:
            inputs = [self.lookup(i) if i else None for i in proto.input]
            handler = find(proto.domain, proto.op_type)
            if handler is None:
                raise Unsupported("no such op in ge")
            opset = self.importer.opsets.get(proto.domain, 1)
            node = Node(proto, inputs, opset, self.block, self)
            if proto.op_type == "Constant" and "value" in node.attributes:
                self.importer.add_initializer(self, node.attributes["value"].t, proto.output[0])
                return
            result = handler(node)
        except (Unsupported, VerifyException) as e:
            self.importer.problems.append((proto, str(e)))
            self.failed.update(outputs)
            return
        values = (result,) if isinstance(result, SSAValue) or result is None else tuple(result)
        if len(proto.output) == 1 and isinstance(result, tuple) and len(values) != 1:
            values = (result,)  # one output that is a sequence
        for name, value in zip(proto.output, values, strict=False):
            if name:
                self.values[name] = value


class Importer:
    """Imports one model. `shapes` fixes the shapes of inputs by name, `dims` symbolic dims."""

    def __init__(
        self,
        model: ModelProto,
        shapes: Mapping[str, Sequence[int]] | None = None,
        dims: Mapping[str, int] | None = None,
    ) -> None:
        self.model = model
        self.shapes, self.dims = dict(shapes or {}), dict(dims or {})
        self.payload: dict[str, Array] = {}
        self.keys: set[str] = set()
        self.opsets = {("" if o.domain == "ai.onnx" else o.domain): o.version for o in model.opset_import}
        self.problems: list[tuple[NodeProto, str]] = []

    def unique_key(self, name: str) -> str:
        key, n = name, 1
        while key in self.keys:
            key, n = f"{name}.{n}", n + 1
        self.keys.add(key)
        return key

    def add_initializer(self, scope: Scope, init: TensorProto, name: str | None = None) -> None:
        if init.data_location == TensorProto.EXTERNAL:
            element = element_of(onnx.helper.tensor_dtype_to_np_dtype(init.data_type))
            key = self.unique_key(name or init.name)
            op = ConstantOp.make(WeightAttr(key), tensor(init.dims, element))
            op.location = name_loc(key)
            scope.block.add_op(op)
            scope.values[name or init.name] = op.result
            return
        scope.add_constant(name or init.name, numpy_helper.to_array(init))

    def input_type(self, info: ValueInfoProto) -> AnyTensor:
        t = info.type.tensor_type
        element = element_of(onnx.helper.tensor_dtype_to_np_dtype(t.elem_type))
        if info.name in self.shapes:
            return tensor(self.shapes[info.name], element)
        dims = [
            d.dim_value if d.HasField("dim_value") else self.dims.get(d.dim_param, DYNAMIC)
            for d in t.shape.dim
        ]
        return tensor(dims, element)

    def run(self) -> Imported:
        graph = self.model.graph
        initialized = {i.name for i in graph.initializer}
        inputs = [i for i in graph.input if i.name not in initialized]
        block = Block(arg_types=[self.input_type(i) for i in inputs])
        scope = Scope(self, block)
        for info, arg in zip(inputs, block.args, strict=True):
            scope.values[info.name] = arg
        outputs = scope.import_graph(graph)
        if self.problems:
            lines = [f"{p.op_type} '{p.name or p.output[0]}': {why}" for p, why in self.problems]
            raise GeError(f"{len(lines)} nodes are not supported:\n  " + "\n  ".join(lines))
        results = [v for v in outputs if isinstance(v, SSAValue)]
        block.add_op(ReturnOp(*results))
        names = [i.name for i in inputs], [o.name for o in graph.output]
        func = FuncOp(
            "main",
            ([a.type for a in block.args], [v.type for v in results]),
            Region(block),
            arg_attrs=_names(names[0]),
            res_attrs=_names(names[1]),
        )
        return Imported(ModuleOp([func]), self.payload)


def _names(names: Sequence[str]) -> Any:
    return ArrayAttr([DictionaryAttr({"graph.name": StringAttr(n)}) for n in names])


def import_model(model: ModelProto, **options: Any) -> Imported:
    """Import a model proto. Raises GeError naming every unsupported node."""
    return Importer(model, **options).run()
