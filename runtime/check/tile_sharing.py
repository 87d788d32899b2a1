"""What a program says of the arguments of its tile programs: which are results, and which of these
its launches write over operands, as its memory plan has it."""

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.npu_task.attributes import data_type, is_dynamic
from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.operation import walk
from ge.dialects.support.types import byte_size
from ge.runtime.check.memory import span_of
from ge.runtime.check.tile_device import Sharing


def sharings_of(module: ModuleOp) -> dict[str, set[Sharing]]:
    """For each tile program that launches name: which of its arguments share elements, in each
    launch. Others that share bytes are problems of the plan (`memory.py`)."""
    kernels = {k.sym_name.data: k for k in module.ops if isinstance(k, KernelOp)}
    found: dict[str, set[Sharing]] = {}
    for launch in walk(module):
        if isinstance(launch, LaunchOp) and (kernel := kernels.get(launch.callee)) is not None:
            if kernel.tiles is not None:
                found.setdefault(kernel.tiles.data, set()).add(sharing_of(launch, kernel))
    return found


def results_of(module: ModuleOp) -> dict[str, frozenset[int]]:
    """For each tile program that kernels name: which of its arguments are results."""
    found: dict[str, frozenset[int]] = {}
    for kernel in module.ops:
        if isinstance(kernel, KernelOp) and kernel.tiles is not None:
            first = len(kernel.input_types) + len(kernel.constants)
            own = frozenset(range(first, first + len(kernel.output_types)))
            found[kernel.tiles.data] = found.get(kernel.tiles.data, own) | own
    return found


def in_part_of(module: ModuleOp) -> dict[str, dict[int, int]]:
    """For each tile program: `stored_in_part` of its kernel."""
    kernels = [k for k in module.ops if isinstance(k, KernelOp)]
    return {k.tiles.data: stored_in_part(k) for k in kernels if k.tiles is not None}


def stored_in_part(kernel: KernelOp) -> dict[int, int]:
    """Results of which a launch stores only so many elements, where they lie over an operand (what
    is appended to a cache): by the numbers of the tile program's arguments."""
    first, found = len(kernel.input_types) + len(kernel.constants), dict[int, int]()
    for r, t in enumerate(kernel.output_types):
        if not is_dynamic(t) and (size := kernel.bytes_written()[r]) < byte_size(t):
            found[first + r] = 8 * size // bitwidth(data_type(t)[0])
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
