"""The device memory of workspaces, in the memory plan of a program.

Launches on one stream come one after the other, so they share one workspace, as large as the
largest; streams have one each. It is no part of the arena: tile programs are written when that is
planned.
"""

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.dialects.support.operation import walk
from ge.dialects.tile.kernel import KernelOp as TileKernelOp


def workspace_bytes(module: ModuleOp) -> int:
    """Bytes of the workspaces of all streams of a program, for the tile programs that its launches
    name."""
    programs = {op.sym_name.data: op for op in module.ops if isinstance(op, TileKernelOp)}
    if not any(program.workspace_bytes for program in programs.values()):
        return 0
    tiles = {
        op.sym_name.data: programs[op.tiles.data].workspace_bytes
        for op in module.ops
        if isinstance(op, KernelOp) and op.tiles is not None and op.tiles.data in programs
    }
    largest: dict[int, int] = {}
    for op in walk(module):
        if isinstance(op, LaunchOp):
            stream = 0 if op.stream is None else op.stream.value.data
            largest[stream] = max(largest.get(stream, 0), tiles.get(op.callee, 0))
    return sum(largest.values())
