"""Buffers of tile programs get their places in the memories of a core.

    %a = tile.alloc : !tile.ring<2 x 128x64xf16, l1>
    %b = tile.alloc : !tile.tile<64x128xf16, l1>
becomes
    %a = tile.alloc at [0, 16384] : !tile.ring<2 x 128x64xf16, l1>
    %b = tile.alloc at [32768] : !tile.tile<64x128xf16, l1>

Each buffer has its bytes for the whole program, in the order of the program. Buffers that have
offsets keep them; others come behind those of their memory. More bytes than the memory has are an
error.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.support.diagnostics import error_at, listing, location_of
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import align_up, int_array
from ge.dialects.targets.target import Target, target_for
from ge.dialects.tile.buffers import ALIGNMENT, AllocOp
from ge.dialects.tile.kernel import KernelOp, ProgramOp
from ge.dialects.tile.types import BLOCK, Memory


def place_buffers(
    program: ProgramOp, memory: Memory, allocs: Sequence[AllocOp], target: Target
) -> None:
    """Give places to the buffers of a memory. Raises GeError for more bytes than the memory has."""
    sizes = {op: op.copy_bytes for op in allocs}
    top = max((max(op.offsets) + sizes[op] for op in allocs if op.offsets is not None), default=0)
    top = align_up(top, ALIGNMENT.get(memory, BLOCK))
    for op in allocs:
        if op.offsets is None:
            op.at = int_array(tuple(top + i * sizes[op] for i in range(op.copies)))
            top += op.copies * sizes[op]
    if top > (room := target.core_memories[memory]):
        largest = max(allocs, key=lambda op: op.copies * op.copy_bytes)
        raise error_at(
            largest,
            f"{memory} of {target.name} has {room} bytes, the program needs {top}: "
            + needs(allocs),
            "smaller tiles or rings of fewer copies take less",
        )


def needs(allocs: Sequence[AllocOp]) -> str:
    """Say which buffers take the bytes, the largest first."""
    largest = sorted(allocs, key=lambda op: -op.copies * op.copy_bytes)
    return listing([f"%{op.result.name_hint or '?'} {_size(op)}" for op in largest])


def _size(op: AllocOp) -> str:
    times = f"{op.copies} x " if op.copies > 1 else ""
    text = f"{times}{op.tile.text()} = {op.copies * op.copy_bytes}"
    return f"{text} (line {line})" if (line := location_of(op).line) else text


@dataclass(frozen=True)
class TilePlanPass(ModulePass):
    """Give the buffers of tile programs offsets in the memories of a core."""

    name = "tile-plan"

    target: str = ""
    """Preset name, or path of a target file."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_for(main_function(op) or op, self.target)
        for kernel in op.ops:
            if isinstance(kernel, KernelOp):
                for program in kernel.programs:
                    by_memory: dict[Memory, list[AllocOp]] = {memory: [] for memory in Memory}
                    for alloc in program.allocs:
                        by_memory[alloc.tile.space].append(alloc)
                    for memory, allocs in by_memory.items():
                        place_buffers(program, memory, allocs, target)
