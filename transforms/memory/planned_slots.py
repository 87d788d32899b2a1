"""The slots of the arena that share bytes, and their lifetimes."""

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ge.dialects.npu_task.ops import SlotOp
from ge.dialects.npu_task.program_info import PINNED, figure
from ge.dialects.support.diagnostics import error_at
from ge.transforms.analysis.liveness import Liveness


def streams_of(func: FuncOp) -> int:
    """The number of streams of a function. Raises GeError where it states none."""
    if (streams := figure(func, "streams")) is None:
        raise error_at(func, "@main has no streams", "run assign-streams first")
    return streams


def is_arena_slot(op: Operation) -> bool:
    return isinstance(op, SlotOp) and op.segment.data == "arena"


def lives_of_slots(func: FuncOp) -> Liveness:
    def shares(op: Operation) -> bool:
        return is_arena_slot(op) and PINNED not in op.attributes

    return Liveness(func.body.block, streams_of(func), shares)
