"""Modules of the graph and the fused level to look at: as ONNX, in Netron for one
(GE_DUMP_GRAPH_FORMAT=onnx), and in GE's text form (pbtxt).

    fused_op.linear(%x, %w, %b) {matmul, add}     fused_op::linear_0(x, w, b), a function of MatMul
                                                  and Add
    graph.requantize %x, %s                       graph::requantize(x, s), an op that ONNX has no
                                                  form of
    a weight without values                       an input

What ONNX has forms of runs in other runtimes, and computes what the module does.

GE's text form is protobuf text of its messages `ModelDef`, `GraphDef` and `OpDef`, as CANN's graph
engine dumps it (`ge_proto_*.txt`):

    graph { name: "main"
      op { name: "fc" type: "graph.matmul" input: "x:0" input: "w:0"
        output_desc { dtype: DT_FLOAT shape { dim: 8 dim: 32 } } } }
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from onnx import FunctionProto, ModelProto, NodeProto, helper
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import AttrSizedOperandSegments
from xdsl.traits import IsTerminator

from ge.dialects.fused_op import CustomOp, FusedOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.stated import argument_attributes, name_of
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.editing import names_in
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import functions
from ge.dialects.support.types import DYNAMIC
from ge.lowering.onnx.export.exporter import ModelWriter, model_and_weights, numbered, ports
from ge.lowering.onnx.export.table import python
from ge.runtime.data.arrays import Array
from ge.runtime.data.weights import Payload
from ge.runtime.numbers.constants import Constants

GRAPH, FUSED = "graph", "fused_op"  # domains


def dump_model(module: ModuleOp, payload: Payload | None) -> tuple[ModelProto, dict[str, Array]]:
    """The model, checked as ONNX, and its large weights if one file does not hold them. Weights
    that the payload does not have are inputs. Raises GeError for a module that has no @main or
    inputs that ONNX has no form for."""
    held = Prepared(payload, module)
    return model_and_weights(module, held, "main", DumpWriter)


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


# Message -> its fields: a type, `*` where there may be several, and names
MESSAGES = {
    "ShapeDef": {"int64*": "dim"},
    "TensorDescriptor": {"string": "name layout", "DataType": "dtype", "ShapeDef": "shape"},
    "ListValue": {
        "bytes*": "s", "int64*": "i", "float*": "f", "bool*": "b", "ListType": "val_type",
    },
    "AttrDef": {
        "bytes": "s", "int64": "i", "float": "f", "bool": "b", "ListValue": "list",
        "DataType": "dt", "TensorDescriptor": "td",
    },
    "AttrEntry": {"string": "key", "AttrDef": "value"},
    "OpDef": {
        "string": "name type", "string*": "input src_name dst_name subgraph_name",
        "int64": "id stream_id", "AttrEntry*": "attr",
        "TensorDescriptor*": "input_desc output_desc",
    },
    "GraphDef": {"string": "name", "string*": "input output", "OpDef*": "op", "AttrEntry*": "attr"},
    "ModelDef": {
        "string": "name custom_version", "uint32": "version", "GraphDef*": "graph",
        "AttrEntry*": "attr",
    },
}  # fmt: skip

ORIGINAL = "_datadump_original_op_names"  # the attribute with the nodes that an op came from

# GE's name of an element type, by ours; and those that it has besides
TYPES = {
    "f32": "DT_FLOAT", "f16": "DT_FLOAT16", "bf16": "DT_BF16", "f64": "DT_DOUBLE",
    "i8": "DT_INT8", "ui8": "DT_UINT8", "i16": "DT_INT16", "ui16": "DT_UINT16",
    "i32": "DT_INT32", "ui32": "DT_UINT32", "i64": "DT_INT64", "ui64": "DT_UINT64",
    "i1": "DT_BOOL", "i4": "DT_INT4",
}  # fmt: skip

OTHERS = """
    DT_UNDEFINED DT_STRING DT_COMPLEX64 DT_COMPLEX128 DT_QINT8 DT_QINT16 DT_QINT32 DT_QUINT8
    DT_QUINT16 DT_RESOURCE DT_STRING_REF DT_DUAL DT_VARIANT DT_UINT1 DT_INT2 DT_UINT2 DT_COMPLEX32
    DT_DUAL_SUB_INT8 DT_DUAL_SUB_UINT8 DT_HIFLOAT8 DT_FLOAT8_E5M2 DT_FLOAT8_E4M3FN DT_FLOAT8_E8M0
    DT_FLOAT6_E3M2 DT_FLOAT6_E2M3 DT_FLOAT4_E2M1 DT_FLOAT4_E1M2
""".split()

LISTS = """NONE STRING INT FLOAT BOOL BYTES TENSOR_DESC TENSOR GRAPH NAMED_ATTRS DATA_TYPE
    LIST_LIST_INT LIST_LIST_FLOAT""".split()
# Enumeration -> its values, with numbers of this description alone: in a text they are names
ENUMS = {
    "DataType": [*OTHERS, *TYPES.values()],
    "ListType": [f"VT_LIST_{name}" for name in LISTS],
}

NUMBERS = {name: number for number, name in enumerate(ENUMS["DataType"])}


def message(name: str) -> Any:
    return messages()[name]


@cache
def messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="ge_text.proto", package="ge_text")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, values in ENUMS.items():
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    for name, fields in MESSAGES.items():
        made = file.message_type.add(name=name)
        pairs = [(kind, f) for kind, listed in fields.items() for f in listed.split()]
        for number, (kind, title) in enumerate(pairs, 1):
            label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
            plain = kind.rstrip("*")
            one = made.field.add(name=title, number=number, label=label)
            if plain in MESSAGES or plain in ENUMS:
                one.type_name = f".ge_text.{plain}"
                one.type = kinds.TYPE_ENUM if plain in ENUMS else kinds.TYPE_MESSAGE
            else:
                one.type = getattr(kinds, f"TYPE_{plain.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {name: pool.FindMessageTypeByName(f"ge_text.{name}") for name in MESSAGES}
    return {name: message_factory.GetMessageClass(kind) for name, kind in found.items()}


def read_ge_text(text: str, path: str) -> Any:
    """The `ModelDef` of a text, which may be a `GraphDef` alone, or the ONNX model of a text that
    is one (`ge_onnx_*.pbtxt`). Raises GeError for another text."""

    def parsed(kind: Any) -> Any:
        return text_format.Parse(text, kind(), allow_unknown_field=True)

    try:
        if "ir_version" in text[:1000]:
            return parsed(ModelProto)
        model = parsed(message("ModelDef"))
        if not model.graph:
            model.graph.append(parsed(message("GraphDef")))
    except text_format.ParseError as e:
        hint = "what GE_DUMP_GRAPH_FORMAT=pbtxt writes, and CANN (ge_proto_*.txt), can be read"
        raise GeError(f"this is no graph in GE's text form: {e}", path, hint) from None
    if not any(graph.op for graph in model.graph):
        raise GeError("there are no ops in this text", path, "is it a graph in GE's text form?")
    return model


# ---- writing -----------------------------------------------------------------------------------


def proto_text(module: ModuleOp, name: str) -> str:
    """The functions of a module as graphs, @main first, without the elements of constants; the
    ops in the regions of an op are a graph of their own."""
    model = message("ModelDef")(name=name, version=1)
    for func in sorted(functions(module).values(), key=lambda f: f.sym_name.data != "main"):
        titles = [name_of(argument_attributes(func, i)) for i in range(len(func.args))]
        GraphWriter(model, {}).write(func.body.block, func.sym_name.data, titles)
    return text_format.MessageToString(model, as_utf8=True)


@dataclass
class GraphWriter:
    """Adds the graph of a block to a model; `made` has the name and number of the result that a
    value outside of the block is."""

    model: Any
    made: dict[SSAValue, str]
    taken: Counter[str] = field(default_factory=Counter[str])

    def write(self, block: Block, name: str, titles: Sequence[str | None] = ()) -> None:
        """Add the ops of a block, whose arguments have these names."""
        graph, inner = self.model.graph.add(name=name), list[tuple[Block, str]]()
        for i, argument in enumerate(block.args):
            title = (titles[i] if i < len(titles) else None) or argument.name_hint or f"arg{i}"
            self.add(graph, title, "Data", [argument])
            graph.input.append(self.made[argument])
        for op in block.ops:
            if op.has_trait(IsTerminator):
                graph.output.extend(self.made.get(v, "") for v in op.operands)
                continue
            names = list(names_in(op.location))
            new = self.add(graph, next(iter(names), op.name), op.name, op.results)
            for value in op.operands:
                new.input.append(self.made.get(value, ""))
                describe(new.input_desc.add(), value.type)
            for key, value in op.properties.items():
                fill(new.attr.add(key=key).value, value)
            if names:
                texts = [n.encode() for n in names]
                new.attr.add(key=ORIGINAL).value.list.s.extend(texts)
            blocks = [b for region in op.regions for b in region.blocks]
            inner += [(b, f"{new.name}/{i}") for i, b in enumerate(blocks)]
            new.subgraph_name.extend(title for b, title in inner if b in blocks)
        for body, title in inner:
            GraphWriter(self.model, dict(self.made)).write(body, title)

    def add(self, graph: Any, title: str, kind: str, results: Sequence[SSAValue]) -> Any:
        """Add an op with a name that no other one of the graph has."""
        count = self.taken[title]
        self.taken[title] += 1
        op = graph.op.add(name=f"{title}_{count}" if count else title, type=kind, id=len(graph.op))
        for i, value in enumerate(results):
            self.made[value] = f"{op.name}:{i}"
            describe(op.output_desc.add(), value.type)
        return op


def describe(descriptor: Any, t: Attribute) -> None:
    """State element type and sizes of a value, if it is a tensor."""
    try:
        element, shape = data_type(t)
    except (GeError, AttributeError, AssertionError, TypeError, ValueError):
        return
    descriptor.dtype = NUMBERS[TYPES.get(str(element), "DT_UNDEFINED")]
    descriptor.layout = "ND"
    descriptor.shape.dim.extend(-1 if size == DYNAMIC else size for size in shape)


def fill(attribute: Any, value: Attribute) -> None:
    """State a property: numbers, texts and lists of whole numbers as they are, all else as text."""
    match found := python(value):
        case bool():
            attribute.b = found
        case int():
            attribute.i = found
        case float():
            attribute.f = found
        case list() if found and all(isinstance(v, int) for v in cast("list[Any]", found)):
            attribute.list.i.extend(found)
        case _ if isinstance(value, DenseIntOrFPElementsAttr):
            count = len(cast("DenseIntOrFPElementsAttr[Any]", value))
            attribute.s = f"dense of {count} elements".encode()
        case _:
            attribute.s = (found if isinstance(found, str) else str(value)).encode()
