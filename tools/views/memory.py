"""Which bytes of the device a program uses when."""

from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import SlotOp
from ge.dialects.support.diagnostics import sources_of
from ge.dialects.support.types import align_up, byte_size
from ge.lowering.driver.program import memory_figures
from ge.runtime.clock.timeline import Timeline
from ge.runtime.profile.trace import residences
from ge.tools.views.levels import Numbers, ends_of, type_text


@dataclass(slots=True)
class Buffer:
    """A buffer at its place in a segment, in use between two times; `nodes` are those of the
    program level that write or read it, in order, the first one first."""

    name: str
    type: str
    segment: str
    offset: int
    bytes: int
    start_us: float
    end_us: float
    nodes: list[int]


@dataclass(slots=True)
class MemorySegment:
    """`peak_bytes` are the most that are in use at one time, first at `peak_us`; `bytes` what the
    plan takes."""

    name: str
    bytes: int
    peak_bytes: int = 0
    peak_us: float = 0.0


@dataclass(slots=True)
class MemoryView:
    """Segments and buffers of a program, sizes in bytes, and the figures of its plan."""

    segments: list[MemorySegment]
    buffers: list[Buffer]
    figures: dict[str, int] = field(default_factory=dict[str, int])


def memory_view(
    module: ModuleOp, timeline: Timeline, numbers: Numbers, figures: dict[str, Any] | None = None
) -> MemoryView:
    """The buffers of a program over a simulated run; `numbers` are those of its nodes."""
    users: dict[SlotOp, dict[int, None]] = {}
    for task in sorted(timeline.tasks, key=lambda t: t.start_us):
        read, written = ends_of(task.op)
        for value in (*written, *read):
            slot = owner_of(value).owner
            if isinstance(slot, SlotOp) and task.op in numbers:
                users.setdefault(slot, {})[numbers[task.op]] = None
    buffers = [
        Buffer(
            names[-1] if (names := sources_of(r.slot)) else r.slot.result.name_hint or "",
            type_text(r.slot.result.type), r.slot.segment.data, r.slot.offset.value.data, r.bytes,
            r.start_us, r.end_us, list(users.get(r.slot, ())),
        )
        for r in residences(timeline)
    ]  # fmt: skip
    planned = slots_end(module)
    alignment = timeline.target.hbm_alignment
    segments = [
        peak(
            MemorySegment(name, align_up(end, alignment)), [b for b in buffers if b.segment == name]
        )
        for name, end in planned.items()
    ]
    segments.sort(key=lambda s: s.name != "arena")
    return MemoryView(segments, buffers, memory_figures(module))


def slots_end(module: ModuleOp) -> dict[str, int]:
    """Segment -> the byte after its last slot."""
    ends: dict[str, int] = {}
    for op in module.walk():
        if isinstance(op, SlotOp):
            end = op.offset.value.data + byte_size(op.result.type)
            ends[op.segment.data] = max(ends.get(op.segment.data, 0), end)
    return ends


def peak(segment: MemorySegment, buffers: list[Buffer]) -> MemorySegment:
    """With the most bytes that buffers have at one time; of those that share bytes (parts, results
    in place) each byte counts once."""
    events = sorted({b.start_us for b in buffers})
    for when in events:
        live = [b for b in buffers if b.start_us <= when < b.end_us or b.start_us == when]
        size = covered([(b.offset, b.offset + b.bytes) for b in live])
        if size > segment.peak_bytes:
            segment.peak_bytes, segment.peak_us = size, when
    return segment


def covered(spans: list[tuple[int, int]]) -> int:
    """How many bytes are in at least one of the spans."""
    total = end = 0
    for low, high in sorted(spans):
        total += max(high - max(low, end), 0)
        end = max(end, high)
    return total
