"""Which results a program's launches write over operands, as its memory plan has it."""

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.runtime.check.memory import span_of
from ge.runtime.check.tile_device import Sharing


def sharings_of(module: ModuleOp) -> dict[str, set[Sharing]]:
    """For each tile program that launches name: which of its arguments share elements, in each
    launch. Others that share bytes are problems of the plan (`memory.py`)."""
    kernels = {k.sym_name.data: k for k in module.ops if isinstance(k, KernelOp)}
    found: dict[str, set[Sharing]] = {}
    for launch in module.walk():
        if isinstance(launch, LaunchOp) and (kernel := kernels.get(launch.callee)) is not None:
            if kernel.tiles is not None:
                found.setdefault(kernel.tiles.data, set()).add(sharing_of(launch, kernel))
    return found


def sharing_of(launch: LaunchOp, kernel: KernelOp) -> Sharing:
    """By the numbers of the tile program's arguments: operands, constants, results."""
    try:
        reads, writes = ([span_of(v) for v in values] for values in (launch.ins, launch.outs))
    except ValueError:  # too scattered: the plan is not proved either
        return frozenset()
    first = len(reads) + len(kernel.constants)
    return frozenset(
        (first + r, i)
        for r, written in enumerate(writes)
        for i, read in enumerate(reads)
        if written.overlaps(read) and written.order == read.order
    )
