"""A norm, the matmuls that read it, and what joins those."""

import ge


@ge.register_pass("fuse_projections")
def fuse_projections(graph: ge.Graph) -> None:
    row = ["Softmax", "MatMul", "MatMul", "Concat"]
    pattern = ge.Pattern([ge.OpType(name) for name in row])
    graph.apply_pattern(pattern, lambda nodes: ge.FusedOp("Projections", inputs=nodes[:3]))
