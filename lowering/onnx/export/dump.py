"""Modules of the graph and the fused level as ONNX to look at, in Netron for one
(GE_DUMP_GRAPH_FORMAT=onnx).

    fused_op.linear(%x, %w, %b) {matmul, add}     fused_op::linear_0(x, w, b), a function of MatMul
                                                  and Add
    graph.requantize %x, %s                       graph::requantize(x, s), an op that ONNX has no
                                                  form of
    a weight without values                       an input

What ONNX has forms of runs in other runtimes, and computes what the module does.
"""

from collections.abc import Sequence
from typing import Any

from onnx import FunctionProto, ModelProto, NodeProto, helper
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import AttrSizedOperandSegments

from ge.dialects.fused_op import CustomOp, FusedOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.ports import name_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import functions
from ge.lowering.onnx.export.exporter import model_and_weights, ports
from ge.lowering.onnx.export.table import python
from ge.lowering.onnx.export.writer import ModelWriter, numbered
from ge.runtime.data.arrays import Array
from ge.runtime.data.weights import Payload
from ge.runtime.numbers.constants import Constants

GRAPH, FUSED = "graph", "fused_op"  # domains


def dump_model(
    module: ModuleOp, payload: Payload | None, name: str
) -> tuple[ModelProto, dict[str, Array]]:
    """The model, checked as ONNX, and its large weights if one file does not hold them. Weights
    that the payload does not have are inputs. Raises GeError for a module that has no @main or
    inputs that ONNX has no form for."""
    held = Prepared(payload, module)
    return model_and_weights(module, held, name, DumpWriter)


class Prepared:
    """A payload with what @prepare computes from it."""

    def __init__(self, payload: Payload | None, module: ModuleOp) -> None:
        self.payload, self.constants = payload, Constants(payload)
        self.values: dict[str, SSAValue] = {}
        if (prepare := functions(module).get("prepare")) is not None:
            end = prepare.body.block.last_op
            values = () if end is None else end.operands
            tables = ports(prepare.res_attrs, len(values))
            self.values = {name_of(t) or "": v for t, v in zip(tables, values, strict=True)}

    def get(self, key: str, /) -> Array | None:
        if key not in self.values:
            return None if self.payload is None else self.payload.get(key)
        try:
            return self.constants.value(self.values[key])
        except GeError:
            return None  # of a weight that is not there


class DumpWriter(ModelWriter):
    """Writes any module of these levels."""

    WHOLE = False

    def __init__(
        self, payload: Payload | None, reserved: Sequence[str], inside: bool = False
    ) -> None:
        super().__init__(payload, reserved)
        self.inside = inside  # of a function: its names say nothing of the model
        self._names: dict[str, int] = {}

    def write(self, op: Operation) -> None:
        if isinstance(op, ConstantOp) and op.key is not None and self.is_absent(op.key):
            name = self.argument(op.result, op.key)
            self.inputs.append(self.info(op.result, name))
            return
        before = len(self.nodes), len(self.initializers)
        try:
            if isinstance(op, FusedOp):
                self._call(op)
            else:
                super().write(op)
        except GeError:
            del self.nodes[before[0] :]
            self.forget_initializers(before[1])
            self._opaque(op)

    def label(self, op: Operation) -> str:
        return op.name.partition(".")[2] if self.inside else super().label(op)

    def is_absent(self, key: str) -> bool:
        return self.constants.payload is None or self.constants.payload.get(key) is None

    def _call(self, op: FusedOp) -> None:
        """A node of a function with the ops inside; equal bodies are one function."""
        names = [f"in{i}" for i in range(len(op.inputs))]
        inner = DumpWriter(None, names, inside=True)
        inner.values.update(zip(op.block.args, names, strict=True))
        nodes = inner.block(op.block)
        if inner.inputs or inner.functions:
            raise GeError("weights and functions in a body")
        results = [inner.name(v) for v in op.yielded]
        constants = [
            helper.make_node("Constant", [], [t.name], value=t) for t in inner.constants_written()
        ]
        body = [*constants, *nodes]
        for number, node in enumerate(body):
            node.name = f"{node.op_type}_{number}"
        self.opset, self.ir_version = max(self.opset, inner.opset), max(9, inner.ir_version)
        self.domains |= inner.domains | {FUSED}
        function = self._function(op, names, results, body, inner)
        self._add(op, function.name, FUSED, {})

    def _function(
        self,
        op: FusedOp,
        names: Sequence[str],
        results: Sequence[str],
        body: Sequence[NodeProto],
        inner: "DumpWriter",
    ) -> FunctionProto:
        kind = op.kind.data if isinstance(op, CustomOp) else op.name.partition(".")[2]
        domains = [helper.make_opsetid(d, 1) for d in sorted(inner.domains)]
        opsets = [helper.make_opsetid("", inner.opset), *domains]
        new = helper.make_function(FUSED, kind, names, results, body, opsets)
        key = new.SerializeToString()
        if key not in self.functions:
            number = self._names[kind] = self._names.get(kind, -1) + 1
            new.name = f"{kind}_{number}"
            self.functions[key] = new
        return self.functions[key]

    def _opaque(self, op: Operation) -> None:
        """A node of the op itself, with its properties; those that ONNX has no form of as text."""
        values = {
            name: text if (text := python(value)) is not None else str(value)
            for name, value in op.properties.items()
            if name != AttrSizedOperandSegments.attribute_name
        }
        values = {n: v for n, v in values.items() if v != []}
        for number, region in enumerate(op.regions):
            values[f"body{number}"] = self.graph(region.block)
        domain, _, kind = op.name.partition(".")
        self.domains.add(domain)
        self._add(op, kind, domain, values)

    def _add(self, op: Operation, kind: str, domain: str, attributes: dict[str, Any]) -> None:
        name = numbered(self.label(op), self.node_names)
        outputs = [self.unique(f"{self.label(op)}_output_{i}") for i in range(len(op.results))]
        inputs = [self.name(v) for v in op.operands]
        node = helper.make_node(kind, inputs, outputs, name, domain=domain, **attributes)
        self.nodes.append(node)
        self.values.update(zip(op.results, outputs, strict=True))
