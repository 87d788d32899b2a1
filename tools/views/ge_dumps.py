"""The nodes of graphs in GE's text form or in that of ONNX: dumps of CANN, and
those of `GE_DUMP_GRAPH_FORMAT=pbtxt`."""

from pathlib import Path
from typing import Any

from onnx import ModelProto

from ge.dialects.support.errors import GeError
from ge.lowering.onnx.export.dump import NUMBERS, ORIGINAL, TYPES, read_model
from ge.tools.views.data import LevelGraph, LevelNode, LevelOperand
from ge.tools.views.model import LONGEST, graph_of

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
    model = read_model(text, path)
    if isinstance(model, ModelProto):
        return graph_of(model)
    graph = model.graph[0]
    level = LevelGraph("graph", "ops of a dump in GE's text form", 0)
    made: dict[str, int] = {}
    types: dict[str, str] = {}
    for op in graph.op:
        is_input = op.type == "Data"
        results = [type_of(d) for d in op.output_desc]
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


def type_of(descriptor: Any) -> str:
    """Sizes and element type, as `2x16xf32`."""
    sizes = ("?" if d < 0 else str(d) for d in descriptor.shape.dim)
    name = NAMES.get(descriptor.dtype)
    return "x".join((*sizes, name or "?"))


def value_text(value: Any) -> str:
    """The value of an attribute in a line."""
    texts: list[str] = []
    for field, found in value.ListFields():
        if field.name == "list":
            items = [v for f, v in found.ListFields() if f.name != "val_type"]
            texts += [str(list(v)) for v in items]
        else:
            texts.append(found.decode("utf-8", "replace") if field.name == "s" else str(found))
    text = " ".join(" ".join(texts).split())
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."
