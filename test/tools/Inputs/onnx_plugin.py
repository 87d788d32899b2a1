"""A plugin for tests: an ONNX op of a domain of its own, and a fusion whose kernel is a lambda."""

import ge
from ge.dialects.graph.elementwise import AddOp
from ge.lowering.onnx.registry import Node, onnx_op


@onnx_op("Twice", domain="acme")
def twice(n: Node):
    return n.emit(AddOp, n[0], n[0])


@ge.register_pass("fuse-acme")
def fuse_acme(graph: ge.Graph) -> None:
    pattern = ge.Pattern([ge.OpType("MatMul")])
    graph.apply_pattern(pattern, lambda found: ge.FusedOp("AcmeMatmul", kernel=lambda x, w: x @ w))
