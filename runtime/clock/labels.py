"""Names of tasks: the node of the model that does the work of a launch, the input or output that a
copy between host and device is of."""

from collections.abc import Sequence

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from ge.dialects.graph.ports import argument_attributes, name_of
from ge.dialects.npu_task.attributes import HOST
from ge.dialects.npu_task.ops import BatchCopyOp, CopyOp
from ge.dialects.support.diagnostics import location_of


def label(op: Operation, otherwise: str) -> str:
    """The name of a task; `otherwise` where the program knows none."""
    if isinstance(op, CopyOp):
        ports = host_ports([op.source, op.target])
    else:
        ports = host_ports(op.operands) if isinstance(op, BatchCopyOp) else []
    if ports:
        more = f" and {len(ports) - 1} more" if len(ports) > 1 else ""
        return ports[0] + more
    return location_of(op).name or otherwise


def host_ports(values: Sequence[SSAValue]) -> list[str]:
    """The names of those inputs and outputs of the program that are among buffers of the host."""
    names: list[str] = []
    for value in values:
        if getattr(value.type, "memory_space", None) == HOST:
            names += [name] if (name := port_name(value)) else []
    return names


def port_name(value: SSAValue) -> str | None:
    """The name that the model has for an argument of a function, or for its result."""
    if isinstance(value, BlockArgument):
        owner = value.block.parent_op()
        is_input = isinstance(owner, FuncOp)
        return name_of(argument_attributes(owner, value.index)) if is_input else None
    returned = (u for u in value.uses if isinstance(u.operation, ReturnOp))
    if (use := next(returned, None)) is None:
        return None
    main = use.operation.parent_op()
    if not isinstance(main, FuncOp) or main.res_attrs is None:
        return None
    return name_of(main.res_attrs.data[use.index].data)
