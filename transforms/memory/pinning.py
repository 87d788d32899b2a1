"""Buffers that share bytes with nothing, because of the ops that write them (`no_reuse`)."""

from collections.abc import Collection, Iterable

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Operation

from ge.dialects.graph.support.op_names import nearest_name, plain, short_name
from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp


def check_kinds(kinds: Collection[str], ops: Iterable[type[Operation]]) -> list[str]:
    """The full names of the ops of these kinds (`MatMul`, `matmul`, `graph.matmul`, or a name of a
    framework: `BatchMatMul`). Raises GeError for a kind of none of `ops`."""
    full = sorted({op.name for op in ops if issubclass(op, TensorOp)})
    names: list[str] = []
    for kind in kinds:
        same = [n for n in full if is_of(n, kind)]
        if not same:
            hint = nearest_name(kind, full) or "kinds are names as in graph.matmul"
            raise GeError(f"there is no op '{kind}' whose results could be kept apart", hint=hint)
        names += same
    return list(dict.fromkeys(names))


def is_of(op: str, kind: str) -> bool:
    """Whether an op with this full name is of a kind: of the op itself, or of all with its name."""
    return plain(op) == plain(kind) or ("." not in kind and short_name(op) == short_name(kind))


def pinned_buffers(module: ModuleOp, main: FuncOp, kinds: Collection[str]) -> list[AllocOp]:
    """The allocations that launches with an op of these kinds write, also where it is fused."""
    if not kinds:
        return []
    kernels = {
        op.sym_name.data
        for op in module.ops
        if isinstance(op, KernelOp) and any(is_of(o.name, k) for o in op.walk() for k in kinds)
    }
    launches = (op for op in main.walk() if isinstance(op, LaunchOp) and op.callee in kernels)
    owners = (owner_of(value).owner for op in launches for value in op.outs)
    return list(dict.fromkeys(owner for owner in owners if isinstance(owner, AllocOp)))
