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
from ge.dialects.graph.transfers import received_bytes
from ge.dialects.npu_task.attributes import Engine, data_type, state
from ge.dialects.npu_task.ops import KernelOp, LaunchOp, ReturnOp, kernels_of
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import all_ops, block_of, created, operands_of
from ge.dialects.support.types import tensor


class AcknowledgeCollectivesPass(ModulePass):
    """Add a launch after each collective, which ends when other devices need its memory no more,
    and state the bytes that collectives bring a device."""

    name = "acknowledge-collectives"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        add_acknowledgements(op)


def add_acknowledgements(module: ModuleOp) -> None:
    """Add a launch after each collective of @main that has none, and state what collectives bring,
    as the pass does."""
    main, mesh = main_function(module), mesh_of(module)
    if main is None or mesh is None:
        return
    kernels, known = kernels_of(module), dict[tuple[Attribute, ...], KernelOp]()
    received, brought = 0, dict[Collective, int]()
    for launch in list(all_ops(main.body.blocks)):
        after, met = launch.next_op, met_in(launch, kernels)
        if not isinstance(met, Collective):
            continue
        if met not in brought:  # many launches have one kernel
            brought[met] = received_bytes(met, mesh)
        received += brought[met]
        if isinstance(met_in(after, kernels), AcknowledgeOp):
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
    state(main, received_bytes=received)


def met_in(op: Operation | None, kernels: Mapping[str, KernelOp]) -> Operation | None:
    """Return the op of the kernel that an op launches."""
    kernel = kernels.get(op.callee) if isinstance(op, LaunchOp) else None
    return None if kernel is None else kernel.main


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
