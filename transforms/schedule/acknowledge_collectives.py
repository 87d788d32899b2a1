"""After each collective a launch that ends when its memory is free.

    npu_task.launch @all_reduce_0 ins(%0 : ...) outs(%1 : memref<64xf32>)
becomes
    npu_task.launch @all_reduce_0 ins(%0 : ...) outs(%1 : memref<64xf32>)
    npu_task.launch @acknowledge_0 ins(%0, %1 : memref<64xf32>, memref<64xf32>)

Other devices read what this one has brought, maybe longer than until its own result is there (see
`dialects/graph/acknowledge.py`). The second launch reads the memory of both until they have
acknowledged that they are done: so what takes that memory waits for it, by the same dependencies as
for other tasks. It comes after all passes that choose other memory for an operand: it is of the
very buffers that the collective is on."""

from collections.abc import Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass

from ge.dialects.graph.acknowledge import AcknowledgeOp
from ge.dialects.graph.collectives import Collective
from ge.dialects.graph.sharding import mesh_of
from ge.dialects.npu_task.attributes import Engine, data_type
from ge.dialects.npu_task.ops import KernelOp, LaunchOp, ReturnOp, kernels_of
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import all_ops, block_of, created, operands_of
from ge.dialects.support.types import tensor


class AcknowledgeCollectivesPass(ModulePass):
    """Add a launch after each collective, which ends when other devices need its memory no more."""

    name = "acknowledge-collectives"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        add_acknowledgements(op)


def add_acknowledgements(module: ModuleOp) -> None:
    """Add a launch after each collective of @main that has none, as the pass does."""
    if (main := main_function(module)) is None or mesh_of(module) is None:
        return
    kernels, known = kernels_of(module), dict[tuple[Attribute, ...], KernelOp]()
    for launch in list(all_ops(main.body.blocks)):
        after = launch.next_op
        if not is_of(launch, Collective, kernels) or is_of(after, AcknowledgeOp, kernels):
            continue
        values = list(dict.fromkeys((*operands_of(launch), *launch.results)))
        types = tuple(tensor(shape, e) for e, shape in (data_type(v.type) for v in values))
        if (kernel := known.get(types)) is None:
            kernel = known[types] = acknowledging(types, new_name(module))
            module.body.block.insert_op_before(kernel, main)
        new = LaunchOp(kernel.sym_name.data, values, ())
        new.location = kernel.location = launch.location
        assert launch.parent is not None
        launch.parent.insert_op_after(new, launch)


def is_of(op: Operation | None, kind: type[Operation], kernels: Mapping[str, KernelOp]) -> bool:
    """Return whether an op is the launch of a kernel for such an op."""
    if not isinstance(op, LaunchOp):
        return False
    kernel = kernels.get(op.callee)
    return kernel is not None and isinstance(kernel.main, kind)


def new_name(module: ModuleOp) -> str:
    taken, number = kernels_of(module), 0
    while f"acknowledge_{number}" in taken:
        number += 1
    return f"acknowledge_{number}"


def acknowledging(types: tuple[Attribute, ...], name: str) -> KernelOp:
    """Make the kernel for values of these types."""
    block = block_of(types)
    block.add_ops([AcknowledgeOp.of(list(block.args)), created(ReturnOp, ())])
    return KernelOp(name, Engine.COMM, block)
