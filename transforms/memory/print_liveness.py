"""A table of a plan's buffers with their lifetimes.

    buffer  bytes  offset  stream  producer      first use      last use        live
    %0        512       0       0  copy         1 copy         2 @relu_0        ##
    %1        512     512       1  @relu_0      2 @relu_0      3 @relu_1         #-
    the peak is at step 2, @relu_0: 1024 bytes in 2 buffers; the arena has 1024 bytes

Steps count tasks and barriers (the beginning and end of branches and loops) in the order in which
the host issues them, from 1. The last column draws when a buffer is live, with `#` at the peak.
"""

from collections.abc import Sequence

from xdsl.ir import Operation

from ge.dialects.npu_task.ops import LaunchOp
from ge.dialects.support.diagnostics import location_of
from ge.transforms.analysis.live_profile import LiveProfile
from ge.transforms.analysis.liveness import Lifetime

WIDTH = 40  # characters of the drawing

HEADS = ("buffer", "bytes", "offset", "stream", "producer", "first use", "last use", "live")
RIGHT = {"bytes", "offset", "stream"}


def name_of(op: Operation) -> str:
    """The kernel of a launch, or the name of another op."""
    return f"@{op.callee}" if isinstance(op, LaunchOp) else op.name.partition(".")[2]


def located(op: Operation) -> str:
    """The name of an op, and its source location."""
    location = str(location_of(op))
    return f"{name_of(op)} {location}" if location else name_of(op)


def drawing(life: Lifetime, peak: int, steps: int) -> str:
    width = min(WIDTH, steps)
    first, last, high = ((step - 1) * width // steps for step in (life.start, life.end, peak))
    marks = ["-" if first <= i <= last else " " for i in range(width)]
    if life.start <= peak <= life.end:
        marks[high] = "#"
    return "".join(marks).rstrip()


def liveness_table(lives: Sequence[Lifetime], sizes: Sequence[int], offsets: Sequence[int]) -> str:
    """The table of buffers with their aligned sizes and their offsets."""
    if not lives:
        return "no buffers in the arena"
    steps = max(b.end for b in lives)
    profile = LiveProfile.of(
        ((size, b.start, b.end) for b, size in zip(lives, sizes, strict=True)), steps + 1
    )
    peak = profile.peak_step
    rows: list[tuple[str, ...]] = [HEADS]
    at_peak = 0
    for i, (life, size, offset) in enumerate(zip(lives, sizes, offsets, strict=True)):
        assert life.first_use is not None
        assert life.last_use is not None
        first, last = located(life.first_use), located(life.last_use)
        at_peak += life.start <= peak <= life.end
        name = life.buffer.name_hint or str(i)
        stream = "all" if life.stream >= len(life.uses) else str(life.stream)
        producer = name_of(life.first_use)
        uses = (producer, f"{life.start} {first}", f"{life.end} {last}")
        shown = drawing(life, peak, steps)
        rows.append((f"%{name}", str(size), str(offset), stream, *uses, shown))
    arena = max(o + s for o, s in zip(offsets, sizes, strict=True))
    where = next(located(b.first_use) for b in lives if b.start == peak and b.first_use is not None)
    end = (
        f"the peak is at step {peak}, {where}: {profile.peak} bytes in {at_peak} buffers; "
        f"the arena has {arena} bytes"
    )
    return "\n".join([*aligned_rows(rows), end])


def aligned_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if head in RIGHT else cell.ljust(width)
            for cell, width, head in zip(row, widths, rows[0], strict=True)
        ).rstrip()
        for row in rows
    ]
