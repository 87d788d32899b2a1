"""Branches and loops as ONNX nodes."""

from ge.dialects.graph.control import IfOp, LoopOp
from ge.lowering.onnx.export.writer import ModelWriter, writes


@writes(IfOp)
def branch(op: IfOp, w: ModelWriter) -> list[str]:
    then, other = w.graph(op.then_region.block), w.graph(op.else_region.block)
    count = len(op.results)
    return w.nodes_of(
        "If", w.scalar(op.condition), results=count, then_branch=then, else_branch=other
    )


@writes(LoopOp)
def loop(op: LoopOp, w: ModelWriter) -> list[str]:
    first = (w.scalar(op.trip_count), w.scalar(op.condition), *op.carried)
    return w.nodes_of("Loop", *first, results=len(op.results), body=w.graph(op.body.block))
