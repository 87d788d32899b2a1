"""Which nodes of a model keep their element type: what `keep_dtype` names. A type is one that ONNX
nodes of the model have (OpType::Gemm), else one of the graph level by ge's name or a framework's
(OpType::layer_norm, OpType::BatchMatMul); capitals and underscores do not count. Nodes are named as
in the model, so that what several of them become together is found too."""

from collections.abc import Sequence

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.support.op_names import plain, short_name
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.text.values import did_you_mean
from ge.lowering.driver.program import Program
from ge.transforms.quantization.layers import all_names

TYPE = "OpType::"


def kept_names(program: Program, entries: Sequence[str]) -> frozenset[str]:
    """The names of nodes that entries name, themselves or by their type, in a model that was loaded
    and not lowered yet. Raises GeError for an entry that matches nothing."""
    by_type: dict[str, set[str]] = {}
    main = main_function(program.module) if entries else None
    for op in () if main is None else main.walk():
        if isinstance(op, TensorOp) and not isinstance(op, ConstantOp):
            by_type.setdefault(plain(op.name.removeprefix("graph.")), set()).update(all_names(op))
    names = {name for found in by_type.values() for name in found}
    if program.path.endswith(".onnx") and any(e.startswith(TYPE) for e in entries):
        from ge.lowering.onnx.model import node_name, read_model

        nodes: dict[str, set[str]] = {}
        for node in read_model(program.path).graph.node:
            nodes.setdefault(plain(node.op_type), set()).add(node_name(node))
        by_type |= nodes
    kept: set[str] = set()
    for entry in entries:
        kind = entry.removeprefix(TYPE)
        named = plain(kind) if plain(kind) in by_type else short_name(kind)
        if kind != entry and named in by_type:
            kept |= by_type[named]
        elif kind == entry and entry in names:
            kept.add(entry)
        else:
            what = f"nodes of type '{kind}'" if kind != entry else f"node '{entry}'"
            known = sorted(names if kind == entry else by_type)
            hint = did_you_mean(kind if kind == entry else plain(kind), known).removeprefix("; ")
            hint = hint or "give names of nodes, OpType::MatMul, or a file with one on each line"
            raise GeError(f"keep_dtype: the model has no {what}", program.path, hint)
    return frozenset(kept)
