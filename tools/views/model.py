"""The nodes of an ONNX model as it stands in the file, of graphs in GE's text form or in that of
ONNX (dumps of CANN, and those of `GE_DUMP_GRAPH_FORMAT=pbtxt`), and which part of a model each
belongs to: a path of modules (`encoder/layer.0/attention`).

    node names with slashes        /m/encoder/layer.0/attention/Add    the path, without the last
                                   (where several nodes begin so)
    names of weights               m.encoder.layer.0.query.bias        the node that reads it
    scopes that exporters write    m.encoder.layer.0                   as they are
    all other nodes                what the nodes before and after have in common

Weights that several nodes read say nothing: exporters keep one of several equal ones. Nodes are
in the order of the model, which exporters write in the order of execution. That a node between
two of one module belongs to it, and one between two layers to the first, is an assumption."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto, helper

from ge.dialects.support.diagnostics import listing
from ge.dialects.support.errors import GeError
from ge.lowering.onnx.export.dump import NUMBERS, ORIGINAL, TYPES, read_ge_text
from ge.lowering.onnx.model import read_model
from ge.tools.views.data import LevelGraph, LevelNode, LevelOperand

ModulePath = tuple[str, ...]


@dataclass(slots=True)
class Sourced:
    """A node as far as its module depends on it."""

    name: str
    weights: list[str] = field(default_factory=list[str])
    scope: str = ""


@dataclass(slots=True)
class Modules:
    """The module of each node, by name, without the modules that all of them are in; the nodes of
    which something says it."""

    paths: dict[str, ModulePath]
    stated: set[str] = field(default_factory=set[str])

    @classmethod
    def of(cls, nodes: Sequence[Sourced]) -> "Modules":
        readers = Counter(weight for node in nodes for weight in node.weights)
        names = {node.name for node in nodes}
        own = {w for w, count in readers.items() if count == 1 and w.split(".")[0] not in names}
        counts = Counter(folder_of(node.name) for node in nodes)
        folders = {f for f, count in counts.items() if f and count > 1}
        stated = [stated_path(node, own, folders) for node in nodes]
        shared = _shared_prefix([path for path in stated if path])
        found = cls({}, {node.name for node, path in zip(nodes, stated, strict=True) if path})
        for node, path in zip(nodes, between(stated), strict=True):
            found.paths[node.name] = numbered(path[shared:])
        return found

    def module_of(self, sources: Sequence[str]) -> str:
        """The module of an op that came from these nodes; those of which something says it count,
        if there are any."""
        known = [s for s in sources if s in self.stated] or sources
        return "/".join(common([self.paths[s] for s in known if s in self.paths]))


def folder_of(name: str) -> str:
    """The first part of a name with slashes; of others, none."""
    return name.lstrip("/").partition("/")[0] if "/" in name else ""


def stated_path(node: Sourced, own: Collection[str], folders: Collection[str]) -> ModulePath | None:
    """The module that a node names, in one of `folders`, or whose weights, of those in `own`, it
    reads; None where nothing says it."""
    if node.scope:
        return tuple(node.scope.split("."))
    if folder_of(node.name) in folders:
        return tuple(part for part in node.name.split("/")[:-1] if part)
    for weight in (w for w in node.weights if w in own):
        *path, last = weight.split(".")
        if path and not last.isdigit() and "::" not in weight:
            return tuple(path)
    return None


def between(stated: Sequence[ModulePath | None]) -> list[ModulePath]:
    """The paths, with those of the other nodes by what is before and after them."""
    following: list[ModulePath | None] = [None] * len(stated)
    after: ModulePath | None = None
    for i in reversed(range(len(stated))):
        after = following[i] = stated[i] if stated[i] is not None else after
    found: list[ModulePath] = []
    before: ModulePath | None = None
    for own, after in zip(stated, following, strict=True):
        if own is not None:
            before = own
        found.append(own if own is not None else common([p for p in (before, after) if p]))
    return found


def common(paths: Sequence[ModulePath]) -> ModulePath:
    """Return the common beginning of the paths; where they go on in two numbered modules (layers 3
    and 4), with the one of the first."""
    if not paths:
        return ()
    end = _shared_prefix(paths)
    first = paths[0]
    parts = {path[end] if end < len(path) else "" for path in paths}
    if len(parts) > 1 and all(ends_in_number(part) for part in parts):
        end += 1
    return first[:end]


def ends_in_number(part: str) -> bool:
    return part.rpartition(".")[2].isdigit()


def numbered(path: ModulePath) -> ModulePath:
    """The path with numbers behind the names that they are of: `layers.3`."""
    parts: list[str] = []
    for part in path:
        if part.isdigit() and parts and not ends_in_number(parts[-1]):
            parts[-1] += f".{part}"
        else:
            parts.append(part)
    return tuple(parts)


def _shared_prefix(paths: Sequence[ModulePath]) -> int:
    """Return how many parts all of the paths begin with."""
    least, most = min(paths, default=()), max(paths, default=())
    count = 0
    for one, other in zip(least, most, strict=False):
        if one != other:
            break
        count += 1
    return count


SCOPES = ("pkg.torch.onnx.name_scopes", "namespace")  # metadata of nodes that exporters write

LONGEST = 160  # characters of an attribute that are shown


def model_level(path: str) -> tuple[LevelGraph, list[Sourced]]:
    """Return the nodes of the main graph, and the facts that say which modules they are of. Raises
    GeError for a file that is no ONNX model."""
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
    """Return the names that a node reads, its graphs included: there, those that they do not make
    themselves."""
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
    return f"graph of {len(graph.node)} nodes ({listing(list(kinds), 5, ', ')})"


ENDS = (".pbtxt", ".txt")

NAMES = {NUMBERS[name]: ours for ours, name in TYPES.items()}

HIDDEN = ("Const", "Constant", "graph.constant", "npu_task.constant", "NetOutput")


def is_ge_text(path: str) -> bool:
    return path.endswith(ENDS)


def ge_level(path: str) -> LevelGraph:
    """The ops of the first graph of a file. Raises GeError for another file."""
    try:
        text = Path(path).read_text("utf-8")
    except FileNotFoundError:
        hint = "GE_DUMP_GRAPH=1 GE_DUMP_GRAPH_FORMAT=pbtxt ge-compile MODEL writes graph_N.pbtxt"
        raise GeError("there is no such dump", path, hint) from None
    except UnicodeDecodeError:
        raise GeError("this is no text", path, "give a .pbtxt in GE's text form") from None
    model = read_ge_text(text, path)
    if isinstance(model, ModelProto):
        return graph_of(model)
    graph = model.graph[0]
    level = LevelGraph("graph", "ops of a dump in GE's text form", 0)
    made: dict[str, int] = {}
    types: dict[str, str] = {}
    for op in graph.op:
        is_input = op.type == "Data"
        results = [described_type(d) for d in op.output_desc]
        types |= {f"{op.name}:{i}": t for i, t in enumerate(results)}
        if op.type in HIDDEN:
            continue
        operands = [
            LevelOperand(name.rpartition(":")[0], types.get(name, ""), made.get(name, -1))
            for name in op.input
            if name and not name.endswith(":-1")  # of edges that order ops alone
        ]
        made |= {f"{op.name}:{i}": len(level.nodes) for i in range(len(results))}
        attributes = {e.key: value_text(e.value) for e in op.attr if e.key != ORIGINAL}
        kind, sources = ("input", []) if is_input else (op.type, sources_of(op))
        level.nodes.append(LevelNode(op.name, kind, sources, operands, results, attributes))
    for name in graph.output:
        read = [LevelOperand(name, types.get(name, ""), made.get(name, -1))]
        level.nodes.append(LevelNode(name.rpartition(":")[0], "output", [], read))
    return level


def sources_of(op: Any) -> list[str]:
    """The nodes of the model that an op came from; itself where nothing is stated."""
    named = [e.value.list.s for e in op.attr if e.key == ORIGINAL]
    return [name.decode("utf-8", "replace") for names in named for name in names] or [op.name]


def described_type(descriptor: Any) -> str:
    """Sizes and element type, as `2x16xf32`."""
    sizes = ("?" if d < 0 else str(d) for d in descriptor.shape.dim)
    name = NAMES.get(descriptor.dtype)
    return "x".join((*sizes, name or "?"))


def value_text(value: Any) -> str:
    """The value of an attribute in a line."""
    texts: list[str] = []
    for member, found in value.ListFields():
        if member.name == "list":
            items = [v for f, v in found.ListFields() if f.name != "val_type"]
            texts += [str(list(v)) for v in items]
        else:
            texts.append(found.decode("utf-8", "replace") if member.name == "s" else str(found))
    text = " ".join(" ".join(texts).split())
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."
