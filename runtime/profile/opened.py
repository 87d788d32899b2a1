"""Launches opened down to the pipes of a core, where their kernels have tile programs.

The times of emulated cores are for the first launch of a kernel, as far as its operands are in L2
where tile programs say the time. In a trace it is opened there: the instructions of its busiest
core, stretched to the time of that launch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.support.diagnostics import visible
from ge.dialects.support.errors import GeError
from ge.dialects.tile.kernel import KernelOp
from ge.runtime.clock.timeline import Task, Timeline
from ge.runtime.cores.kernel import KernelTime, Row, TileKernel
from ge.runtime.cores.report import summary_table, time_report
from ge.runtime.profile.trace import Event, engine_lanes, engine_rows

PIPE_PROCESS = 4
MOST_ROWS = 1000  # instructions of a kernel that are shown one by one


@dataclass(frozen=True, slots=True)
class Opened:
    """The launches of a kernel in a timeline, and its tile program."""

    name: str
    program: KernelOp
    launches: list[Task] = field(default_factory=list[Task])

    @property
    def total_us(self) -> float:
        return sum(t.runs * t.duration_us for t in self.launches)

    @property
    def count(self) -> int:
        return sum(t.runs for t in self.launches)

    def time(self, timeline: Timeline, with_rows: bool = False) -> KernelTime:
        """Raises GeError if the target lacks a fact that it takes."""
        held = self.launches[0].time.held or ()
        return TileKernel(self.program, timeline.target).time(with_rows, held)


def opened(timeline: Timeline, module: ModuleOp) -> list[Opened]:
    """The kernels that have tile programs, the most time first."""
    programs = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
    found: dict[str, Opened] = {}
    for task in sorted(timeline.tasks, key=lambda t: t.start_us):
        if (kernel := task.kernel) is not None and kernel.tiles is not None:
            name, program = kernel.sym_name.data, programs[kernel.tiles.data]
            found.setdefault(name, Opened(name, program)).launches.append(task)
    return sorted(found.values(), key=lambda o: -o.total_us)


# ---- for people and for reports --------------------------------------------------------------


def explained(kernels: Sequence[Opened], timeline: Timeline) -> tuple[str, list[dict[str, Any]]]:
    """Text and report of the pipe that bounds each kernel, and of what its pipes wait for; or the
    reason why that is not known."""
    lines, report = list[str](), list[dict[str, Any]]()
    if not kernels:
        lines.append(
            "no kernel has a tile program, so pipes are not shown (--tiles writes programs)"
        )
    for kernel in kernels:
        try:
            time = kernel.time(timeline)
        except GeError as e:  # what the target states does not suffice
            lines.append(
                f"@{visible(kernel.name)}: its pipes are not shown: {e.where}: {e.message}"
            )
            continue
        part = kernel.total_us / (timeline.latency_us or 1.0)
        lines += [
            f"@{visible(kernel.name)}: {kernel.count} x, {kernel.total_us:,.1f} us, {part:.1%} of "
            "the latency; the first of them:",
            summary_table(time, timeline.target),
        ]
        figures = {"launches": kernel.count, "launches_us": kernel.total_us}
        report.append({"kernel": kernel.name, **figures, "tiles": time_report(time)})
    return "\n".join(lines), report


# ---- traces ----------------------------------------------------------------------------------


def pipe_events(kernels: Sequence[Opened], timeline: Timeline) -> Iterator[Event]:
    """A row for each pipe of a core, for each row of an engine."""
    lanes = engine_lanes(timeline.tasks)
    rows, numbers = engine_rows(lanes), dict[tuple[int, str], int]()
    name = {"ph": "M", "pid": PIPE_PROCESS, "tid": 0}
    yield {**name, "name": "process_name", "args": {"name": "pipes of a core"}}
    for kernel in kernels:
        try:
            time = kernel.time(timeline, with_rows=True)
        except GeError:  # the target does not say what instructions take
            continue
        launch = kernel.launches[0]
        place = launch.engine, lanes[launch]
        for row in shown(time.rows):
            key = rows[place], row.pipe
            if key not in numbers:
                numbers[key] = len(numbers)
                text = f"{place[0]} {place[1] + 1 if place[1] else ''}".rstrip() + f": {row.pipe}"
                yield {**name, "tid": numbers[key], "name": "thread_name", "args": {"name": text}}
            yield {
                "name": row.name,
                "cat": row.pipe,
                "ph": "X",
                **placed(row, time, launch),
                "pid": PIPE_PROCESS,
                "tid": numbers[key],
                "args": {"kernel": kernel.name, "place": row.place},
            }


def placed(row: Row, time: KernelTime, launch: Task) -> dict[str, float]:
    """The time at which an instruction runs: behind the start of its kernel."""
    start = min(time.start_us, launch.duration_us)
    factor = (launch.duration_us - start) / time.core_us if time.core_us else 0.0
    begin = launch.start_us + start + row.start_us * factor
    return {"ts": begin, "dur": (row.end_us - row.start_us) * factor}


def shown(rows: Sequence[Row]) -> Iterator[Row]:
    """The first instructions; of the others how many each pipe has, and until when."""
    rows = sorted(rows, key=lambda r: r.start_us)
    yield from rows[:MOST_ROWS]
    rest: dict[str, list[Row]] = {}
    for row in rows[MOST_ROWS:]:
        rest.setdefault(row.pipe, []).append(row)
    for pipe, others in rest.items():
        end = max(r.end_us for r in others)
        yield Row(pipe, f"{len(others)} more instructions", others[0].start_us, end, "")
