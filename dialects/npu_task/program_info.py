"""What a program states about itself: the attributes of its functions and buffers, by name."""

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation

from ge.dialects.npu_task.attributes import number
from ge.dialects.support.diagnostics import error_at

# of @main
STREAMS, EVENTS = "npu_task.streams", "npu_task.events"
CAP = "npu_task.cap_bytes"
"""Most bytes that are live at one time."""
CERTIFICATE = "npu_task.certificate"
NO_REUSE = "npu_task.no_reuse"
"""Kinds of ops whose results share no memory."""
SPILLED = "npu_task.spilled_bytes"
RECOMPUTED = "npu_task.recomputed"
ORDER = "npu_task.order"

# of buffers
IO = "npu_task.io"
"""The buffer is an input or output of the model."""
PINNED = "npu_task.pinned"
"""The buffer shares no memory with others."""

FIGURES = (
    "streams", "events", "arena_bytes", "lower_bound_bytes", "no_reuse_bytes", "weight_bytes",
    "io_bytes", "alignment",
)  # fmt: skip
"""What every program states: `npu_task.` and one of these."""


def figure(func: Operation, name: str) -> int | None:
    """A number that a function states about itself, None where there is none.
    Raises GeError for an attribute of another type."""
    attr = func.attributes.get(f"npu_task.{name}")
    if attr is None:
        return None
    if not isinstance(attr, IntegerAttr) or attr.type != i64 or attr.value.data < 0:
        raise error_at(func, f"npu_task.{name} is a number of type i64 and at least 0, not {attr}")
    return attr.value.data


def state(func: Operation, **figures: int) -> None:
    """State numbers about a function."""
    for name, value in figures.items():
        func.attributes[f"npu_task.{name}"] = number(value)
