"""Attributes of the functions and buffers of a program, by name."""

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from ge.dialects.npu_task.attributes import number
from ge.dialects.support.constraints import INTS
from ge.dialects.support.discardable import (
    FLAG,
    FUNCTION,
    MODULE,
    NUMBER,
    OP,
    TABLE,
    TEXT,
    TEXTS,
    Stated,
)
from ge.dialects.targets.target import TARGET, TARGET_FILE

# of @main
STREAMS = "npu_task.streams"
CAP = "npu_task.cap_bytes"  # most bytes that are live at one time
CERTIFICATE = "npu_task.certificate"
NO_REUSE = "npu_task.no_reuse"  # kinds of ops whose results share no memory
SPILLED = "npu_task.spilled_bytes"
RECOMPUTED = "npu_task.recomputed"
ORDER = "npu_task.order"

# of buffers
IO = "npu_task.io"  # an input or output of the model
PINNED = "npu_task.pinned"  # shares no memory with others
STATE = "npu_task.state"  # the name of what it keeps from run to run
GROWS = "npu_task.grows"  # the axis of a state along which runs append, up to its size
VALID = "npu_task.valid"  # the shape of the part of a state that holds values when a run begins

# of a kernel: why it has no tile program; and of one with sizes that are not known, the names of
# the programs of what it becomes when they are
NO_TILES, OPEN_TILES = "npu_task.no_tiles", "npu_task.open_tiles"

# of tasks
BYTES = "npu_task.bytes"  # of each result on the device whose size is not known (`sizes.py`)
OFFSETS = "npu_task.offsets"  # of these in the "dynamic" segment; -1: the device allocates it

FIGURES = (
    "streams", "events", "arena_bytes", "lower_bound_bytes", "no_reuse_bytes", "weight_bytes",
    "io_bytes", "alignment",
)  # fmt: skip
"""What every program states: `npu_task.` and one of these."""


def is_outside_arena(buffer: Operation) -> bool:
    """Whether an allocation is an input, an output or state of the model."""
    return IO in buffer.attributes or STATE in buffer.attributes


def figure(func: Operation, name: str) -> int | None:
    attr = func.attributes.get(f"npu_task.{name}")
    return attr.value.data if isinstance(attr, IntegerAttr) else None


def state(func: Operation, **figures: int) -> None:
    for name, value in figures.items():
        func.attributes[f"npu_task.{name}"] = number(value)


COUNTS = (
    *(f"npu_task.{name}" for name in (*FIGURES, "state_bytes", "dynamic_bytes")),
    CAP, SPILLED, RECOMPUTED,
)  # fmt: skip

STATED = {
    **dict.fromkeys(COUNTS, Stated(NUMBER, (FUNCTION,))),
    TARGET: Stated(TEXT, (FUNCTION, MODULE)),  # of modules of kernels alone
    TARGET_FILE: Stated(TEXT, (FUNCTION, MODULE)),
    ORDER: Stated(TEXT, (FUNCTION,)),
    CERTIFICATE: Stated(TABLE, (FUNCTION,)),
    NO_REUSE: Stated(TEXTS, (FUNCTION,)),
    IO: Stated(FLAG, (OP,)),
    PINNED: Stated(FLAG, (OP,)),
    STATE: Stated(TEXT, (OP,)),
    GROWS: Stated(NUMBER, (OP,)),
    VALID: Stated(INTS, (OP,)),
    BYTES: Stated(TEXTS, (OP,)),
    OFFSETS: Stated(INTS, (OP,)),
    NO_TILES: Stated(TEXT, (OP,)),
    OPEN_TILES: Stated(TEXTS, (OP,)),
}
