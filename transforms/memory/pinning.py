"""Buffers that share bytes with nothing, because of the ops that write them (`no_reuse`)."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Operation

from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp


def plain(name: str) -> str:
    """`MatMul`, `matmul` and `mat_mul` are the same."""
    return name.lower().replace("_", "")


def check_kinds(kinds: Collection[str], ops: Iterable[type[Operation]]) -> list[str]:
    """The full names of the ops of these kinds (`MatMul`, `matmul` or `graph.matmul`). Raises
    GeError for a kind of none of `ops`."""
    full = sorted({op.name for op in ops if issubclass(op, TensorOp)})
    names: list[str] = []
    for kind in kinds:
        same = [n for n in full if plain(kind) in (plain(n), plain(n.partition(".")[2]))]
        if not same:
            near = get_close_matches(kind, [*full, *(n.partition(".")[2] for n in full)], 1)
            hint = f"did you mean '{near[0]}'?" if near else "kinds are names as in graph.matmul"
            raise GeError(f"there is no op '{kind}' whose results could be kept apart", hint=hint)
        names += same
    return list(dict.fromkeys(names))


def pinned_buffers(module: ModuleOp, main: FuncOp, kinds: Collection[str]) -> list[AllocOp]:
    """The allocations that launches with an op of these kinds write, also where it is fused."""
    if not kinds:
        return []
    names = set(map(plain, kinds))
    kernels = {
        op.sym_name.data
        for op in module.ops
        if isinstance(op, KernelOp)
        and any({plain(o.name), plain(o.name.partition(".")[2])} & names for o in op.walk())
    }
    launches = (op for op in main.walk() if isinstance(op, LaunchOp) and op.callee in kernels)
    owners = (owner_of(value).owner for op in launches for value in op.outs)
    return list(dict.fromkeys(owner for owner in owners if isinstance(owner, AllocOp)))
