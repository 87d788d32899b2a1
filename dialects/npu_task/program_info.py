"""Attributes of the functions and buffers of a program, by name."""

from collections.abc import Iterator
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, Operation

from ge.dialects.npu_task.attributes import number
from ge.dialects.targets.target import TARGET

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

# of tasks
BYTES = "npu_task.bytes"  # of each result on the device whose size is not known (`sizes.py`)
OFFSETS = "npu_task.offsets"  # of these in the "dynamic" segment; -1: the device allocates it

FIGURES = (
    "streams", "events", "arena_bytes", "lower_bound_bytes", "no_reuse_bytes", "weight_bytes",
    "io_bytes", "alignment",
)  # fmt: skip
"""What every program states: `npu_task.` and one of these."""

NAMED = {TARGET: "a target", ORDER: "an order"}


def is_outside_arena(buffer: Operation) -> bool:
    """Whether an allocation is an input, an output or state of the model."""
    return IO in buffer.attributes or STATE in buffer.attributes


def figure(func: Operation, name: str) -> int | None:
    attr = func.attributes.get(f"npu_task.{name}")
    return attr.value.data if isinstance(attr, IntegerAttr) else None


def state(func: Operation, **figures: int) -> None:
    for name, value in figures.items():
        func.attributes[f"npu_task.{name}"] = number(value)


def type_errors(func: Operation) -> Iterator[str]:
    """One message for each attribute of a function that is of the wrong type."""
    counts = (
        *(f"npu_task.{name}" for name in (*FIGURES, "state_bytes", "dynamic_bytes")),
        CAP,
        SPILLED,
        RECOMPUTED,
    )
    for name, attr in func.attributes.items():
        if name in counts:
            if not _is_count(attr):
                yield f"{name} is a number of type i64 and at least 0, not {attr}"
        elif name in NAMED and not isinstance(attr, StringAttr):
            yield f"{name} is the name of {NAMED[name]}, not {attr}"
        elif name == CERTIFICATE and not isinstance(attr, DictionaryAttr):
            yield f"{CERTIFICATE} is a dictionary, not {attr}"
        elif name == NO_REUSE and not _is_names(attr):
            yield f"{NO_REUSE} is a list of names of ops, not {attr}"


def _is_count(attr: Attribute) -> bool:
    if not isinstance(attr, IntegerAttr):
        return False
    count = cast("IntegerAttr[Any]", attr)
    return count.type == i64 and count.value.data >= 0


def _is_names(attr: Attribute) -> bool:
    if not isinstance(attr, ArrayAttr):
        return False
    return all(isinstance(name, StringAttr) for name in cast("ArrayAttr[Attribute]", attr))
