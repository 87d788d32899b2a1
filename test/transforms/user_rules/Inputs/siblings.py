"""A user's rule as GE's users write it: three matmuls that one concat joins become one launch."""

import ge
from ge import OpType


@ge.register_pass("fuse_custom_attention")
def fuse_custom_attention(graph):
    pattern = ge.Pattern([OpType("MatMul"), OpType("MatMul"), OpType("MatMul"), OpType("Concat")])

    def replace_fn(matched_nodes):
        return ge.FusedOp("CustomGroupedGemm", inputs=matched_nodes[:3])

    graph.apply_pattern(pattern, replace_fn)
