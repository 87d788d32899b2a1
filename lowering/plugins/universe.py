"""What ge adds to xDSL: its dialects and passes, none of them imported before it is used.

`xdsl-opt`, `ge-opt` and every other xDSL tool load this through the `xdsl.universe` entry point;
a package of somebody else adds its own in the same way.
"""

from xdsl.universe import Universe

from ge.lowering.pipeline.pass_table import ge_passes, lazy

GE_UNIVERSE = Universe(
    all_dialects={
        "graph": lazy("ge.dialects.graph", "Graph"),
        "fused_op": lazy("ge.dialects.fused_op", "FusedOps"),
        "npu_task": lazy("ge.dialects.npu_task.ops", "NpuTask"),
    },
    all_passes=ge_passes(),
)
