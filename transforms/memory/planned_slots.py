"""The buffers of a plan: which slots share bytes of the arena, and when each is live."""

from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ge.dialects.npu_task.ops import SlotOp
from ge.dialects.support.diagnostics import error_at
from ge.transforms.analysis.liveness import Liveness
from ge.transforms.memory.pinning import PINNED


def streams_of(func: FuncOp) -> int:
    """The number of streams of a function. Raises GeError where it states none."""
    streams = func.attributes.get("npu_task.streams")
    if not isinstance(streams, IntegerAttr):
        raise error_at(func, "@main has no streams", "run assign-streams first")
    return streams.value.data


def is_arena_slot(op: Operation) -> bool:
    return isinstance(op, SlotOp) and op.segment.data == "arena"


def lives_of_slots(func: FuncOp) -> Liveness:
    """The lifetimes of the slots of the arena that share bytes."""

    def shares(op: Operation) -> bool:
        return is_arena_slot(op) and PINNED not in op.attributes

    return Liveness(func.body.block, streams_of(func), shares)
