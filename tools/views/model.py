"""The nodes of an ONNX model as it stands in the file."""

from collections.abc import Iterable

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto, helper

from ge.lowering.onnx.model import read_model
from ge.tools.views.data import LevelGraph, LevelNode, LevelOperand
from ge.tools.views.modules import Sourced

SCOPES = ("pkg.torch.onnx.name_scopes", "namespace")  # metadata of nodes that exporters write
LONGEST = 160  # characters of an attribute that are shown


def model_level(path: str) -> tuple[LevelGraph, list[Sourced]]:
    """The nodes of the main graph, and what says which modules they are of. Raises GeError for what
    is no ONNX model."""
    model = read_model(path)
    return graph_of(model), sourced(model)


def graph_of(model: ModelProto) -> LevelGraph:
    """The nodes of the main graph of a model."""
    graph, level = model.graph, LevelGraph("model", "nodes of the ONNX file", 0)
    weights = {i.name for i in graph.initializer}
    types = {v.name: type_of(v) for v in (*graph.input, *graph.output, *graph.value_info)}
    types |= {
        i.name: "x".join((*map(str, i.dims), element(i.data_type))) for i in graph.initializer
    }
    made: dict[str, int] = {}
    for value in graph.input:
        if value.name not in weights:
            made[value.name] = len(level.nodes)
            level.nodes.append(LevelNode(value.name, "input", [], results=[types[value.name]]))
    for node in graph.node:
        name = name_of(node)
        read = [LevelOperand(i, types.get(i, ""), made.get(i, -1)) for i in read_by(node) if i]
        attributes = {a.name: text_of(a) for a in node.attribute}
        results = [types.get(o, "") for o in node.output if o]
        made |= dict.fromkeys(node.output, len(level.nodes))
        level.nodes.append(LevelNode(name, op_type(node), [name], read, results, attributes))
    for value in graph.output:
        read = [LevelOperand(value.name, types[value.name], made.get(value.name, -1))]
        level.nodes.append(LevelNode(value.name, "output", [], read))
    return level


def name_of(node: NodeProto) -> str:
    return node.name or next(iter(node.output), node.op_type)


def op_type(node: NodeProto) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type


def read_by(node: NodeProto) -> list[str]:
    """What a node reads, its graphs included: there, what they do not make themselves."""
    found = dict.fromkeys(node.input)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            inner = (i for n in graph.node for i in read_by(n))
            own = {*(o for n in graph.node for o in n.output), *(v.name for v in graph.input)}
            own |= {i.name for i in graph.initializer}
            found |= dict.fromkeys(i for i in inner if i not in own)
    return list(found)


def sourced(model: ModelProto) -> list[Sourced]:
    weights = {i.name for i in model.graph.initializer}
    return [
        Sourced(name_of(n), [i for i in n.input if i in weights], scope_of(n))
        for n in model.graph.node
    ]


def scope_of(node: NodeProto) -> str:
    """The module that PyTorch's exporter names: `['', 'm', 'm.encoder', 'linear']` or
    `: bert.Model/m.encoder: bert.Encoder/linear: aten.linear`."""
    table = {p.key: p.value for p in node.metadata_props}
    if listed := table.get(SCOPES[0]):
        parts = [part.strip(" '\"") for part in listed.strip("[]").split(",")]
        return parts[-2] if len(parts) > 1 else ""
    if (space := table.get(SCOPES[1])) and ": " in space:
        parts = [part.partition(":")[0].strip() for part in space.split("/")]
        return parts[-2] if len(parts) > 1 else ""
    return ""


def element(number: int) -> str:
    return helper.tensor_dtype_to_string(number).rpartition(".")[2].lower() if number else "?"


def type_of(value: ValueInfoProto) -> str:
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        return value.type.WhichOneof("value") or ""
    sizes = [
        str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?"
        for d in tensor.shape.dim
    ]
    return "x".join((*sizes, element(tensor.elem_type)))


def text_of(attribute: AttributeProto) -> str:
    if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
        return ", ".join(described(g) for g in (attribute.g, *attribute.graphs) if g.node)
    if attribute.type == AttributeProto.TENSOR:
        sizes = "x".join(map(str, attribute.t.dims))
        return f"tensor {sizes or 'scalar'} {element(attribute.t.data_type)}"
    value = helper.get_attribute_value(attribute)
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."


def described(graph: GraphProto) -> str:
    kinds: Iterable[str] = dict.fromkeys(n.op_type for n in graph.node)
    return f"graph of {len(graph.node)} nodes ({', '.join(list(kinds)[:5])})"
