"""The `npu_task` dialect: launches of kernels, on tensors, on buffers, and on streams."""

from xdsl.ir import Dialect

from ge.dialects.npu_task import attributes, control, ops, pipeline
from ge.dialects.support.definitions import attributes_of, ops_of

FAMILIES = (attributes, control, ops, pipeline)

NpuTask = Dialect("npu_task", ops_of(*FAMILIES), attributes_of(*FAMILIES))
