"""A simulated run as a Chrome trace, for chrome://tracing and Perfetto.

Three processes: *engines* has a row for each engine (more where several tasks run on its cores at
the same time: viewers drop slices that overlap), and one for each compute engine with the causes of
its idle gaps; *streams* one for each stream, and for each host thread that feeds the device, with
an arrow for each event that a task waits for; *memory* a group of tracks for each memory segment,
in which a buffer stands from the start of the first task that touches it to the end of the last
one. Two counters run along: the bytes of HBM traffic a second, and the bytes in use in each
segment.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import SlotOp
from ge.dialects.support.types import byte_size
from ge.runtime.clock.timeline import COMM, COMPUTE, ENGINES, IdleGap, Task, Timeline
from ge.runtime.profile.limits import NEARLY

ENGINE_PROCESS, STREAM_PROCESS, MEMORY_PROCESS = 1, 2, 3

Event = dict[str, Any]


def chrome_trace(timeline: Timeline) -> dict[str, Any]:
    """The trace, a JSON object. Times are in microseconds."""
    names = ("engines", "streams", "memory")
    events: list[Event] = [_name("process_name", i, 0, n) for i, n in enumerate(names, 1)]
    lanes = engine_lanes(timeline.tasks)
    rows = engine_rows(lanes)
    for place, ((engine, lane), row) in enumerate(rows.items()):
        text = f"{engine} {lane + 1}" if lane else engine
        events.append(_name("thread_name", ENGINE_PROCESS, row, text))
        events.append(_sort_index(ENGINE_PROCESS, row, place))
    for stream in sorted({t.stream for t in timeline.tasks}):
        text = f"stream {stream}" if stream >= 0 else f"host: {timeline.host_threads[-1 - stream]}"
        events.append(_name("thread_name", STREAM_PROCESS, stream, text))
    for task in timeline.tasks:
        events += _rows(task, rows[task.engine, lanes[task]])
    events += (_idle(gap, rows[_idle_row(gap.engine), 0]) for gap in timeline.gaps)
    events += _arrows(timeline)
    buffers = list(residences(timeline))
    events += _buffers(buffers)
    events += _bytes_live(buffers)
    events += _bandwidth(timeline)
    return {"traceEvents": events, "displayTimeUnit": "ns"}


# ---- tasks -----------------------------------------------------------------------------------


def engine_lanes(tasks: Iterable[Task]) -> dict[Task, int]:
    """For each task a number that no other one of its engine has that runs at the same time; the
    least ones in the order of start."""
    busy: dict[str, list[float]] = defaultdict(list)
    lanes: dict[Task, int] = {}
    for task in sorted(tasks, key=lambda t: t.start_us):
        ends = busy[task.engine]
        free = (i for i, end in enumerate(ends) if end <= task.start_us + NEARLY)
        lane = lanes[task] = next(free, len(ends))
        ends[lane : lane + 1] = [task.end_us]
    return lanes


def engine_rows(lanes: Mapping[Task, int]) -> dict[tuple[str, int], int]:
    """Engine and lane -> number of the row, in the order in which they are shown. The first rows of
    engines have the same numbers in all traces."""
    sends = any(task.engine == COMM for task in lanes)
    first = (*(e for e in ENGINES if e != COMM), *map(_idle_row, COMPUTE), *[COMM] * sends)
    numbers = {(name, 0): i for i, name in enumerate(first)}
    more = sorted({(t.engine, lane) for t, lane in lanes.items() if lane})
    numbers |= {key: len(first) + i for i, key in enumerate(more)}
    return dict(sorted(numbers.items(), key=lambda n: (first.index(n[0][0]), n[0][1])))


def _idle_row(engine: str) -> str:
    return f"{engine} idle"


def _rows(task: Task, engine_row: int) -> Iterator[Event]:
    for process, row in ((ENGINE_PROCESS, engine_row), (STREAM_PROCESS, task.stream)):
        event = _slice(task.name, task.engine, task.start_us, task.duration_us, process, row)
        yield {**event, "args": _details(task)}


def _idle(gap: IdleGap, row: int) -> Event:
    duration = gap.end_us - gap.start_us
    return _slice(gap.cause, "idle", gap.start_us, duration, ENGINE_PROCESS, row)


def _slice(name: str, category: str, start: float, us: float, process: int, row: int) -> Event:
    where = {"pid": process, "tid": row}
    return {"name": name, "cat": category, "ph": "X", "ts": start, "dur": us, **where}


def _details(task: Task) -> dict[str, Any]:
    time = task.time
    return {
        "kernel": task.kind,
        "stream": task.stream,
        "run": task.run,
        "wait_us": task.wait_us,
        "cores": dict(task.cores),
        "bytes": time.bytes,
        "warm": time.warm,
        "cube_us": time.cube_us,
        "vector_us": time.vector_us,
        "in_us": time.in_us,
        "out_us": time.out_us,
    }


def _arrows(timeline: Timeline) -> Iterator[Event]:
    """Arrows from the end of the task that an event stands for to the start of the one that waits.
    An arrow belongs to the slice around its end: so it leaves a nanosecond before that is over."""
    number = 0
    for task in timeline.tasks:
        for before in task.events:
            number += 1
            leaves = max(before.end_us - 1e-3, before.start_us)
            ends = (("s", before.stream, leaves), ("f", task.stream, task.start_us))
            for phase, stream, when in ends:
                yield {
                    "name": "event",
                    "cat": "event",
                    "ph": phase,
                    "bp": "e",
                    "id": number,
                    "ts": when,
                    "pid": STREAM_PROCESS,
                    "tid": stream,
                }


def _name(kind: str, process: int, row: int, text: str) -> Event:
    return {"name": kind, "ph": "M", "pid": process, "tid": row, "args": {"name": text}}


def _sort_index(process: int, row: int, place: int) -> Event:
    args = {"sort_index": place}
    return {"name": "thread_sort_index", "ph": "M", "pid": process, "tid": row, "args": args}


# ---- memory ----------------------------------------------------------------------------------


@dataclass(slots=True)
class Residence:
    slot: SlotOp
    bytes: int
    start_us: float
    end_us: float


def residences(timeline: Timeline) -> Iterator[Residence]:
    """The buffers that have a place in a segment, of each run. One that is used in several
    iterations of a loop is in use from the first to the last."""
    known: dict[tuple[SlotOp, int], Residence] = {}
    for task in timeline.tasks:
        for value in (*task.op.operands, *task.op.results):
            slot = owner_of(value).owner
            if not isinstance(slot, SlotOp):
                continue
            size = byte_size(slot.result.type)
            use = known.setdefault(
                (slot, task.run), Residence(slot, size, task.start_us, task.end_us)
            )
            use.start_us = min(use.start_us, task.start_us)
            use.end_us = max(use.end_us, task.end_us)
    yield from known.values()


def _buffers(buffers: Iterable[Residence]) -> Iterator[Event]:
    for number, r in enumerate(buffers):
        segment, offset = r.slot.segment.data, r.slot.offset.value.data
        hint = r.slot.result.name_hint
        shared = {
            "name": f"%{hint}" if hint else f"{segment} + {offset}",
            "cat": segment,
            "id": number,
            "pid": MEMORY_PROCESS,
            "tid": 0,
        }
        args = {"segment": segment, "offset": offset, "bytes": r.bytes}
        yield {**shared, "ph": "b", "ts": r.start_us, "args": args}
        yield {**shared, "ph": "e", "ts": r.end_us}


def _bytes_live(buffers: Iterable[Residence]) -> Iterator[Event]:
    changes: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for r in buffers:
        changes[r.slot.segment.data] += [(r.start_us, r.bytes), (r.end_us, -r.bytes)]
    for segment, steps in changes.items():
        for when, total in _sums(steps):
            yield _counter(f"bytes live: {segment}", when, {"bytes": round(total)})


def _bandwidth(timeline: Timeline) -> Iterator[Event]:
    """Events of the rate at which HBM is read and written: each task's bytes, evenly over its
    time."""
    steps: list[tuple[float, float]] = []
    for task in timeline.tasks:
        if task.duration_us > 0 and task.time.bytes:
            rate = task.time.bytes / task.duration_us * 1e-3
            steps += [(task.start_us, rate), (task.end_us, -rate)]
    for when, total in _sums(steps):
        yield _counter("HBM traffic", when, {"GB/s": round(max(total, 0.0), 3)})


def _sums(steps: list[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    total = 0.0
    steps.sort()
    for i, (when, change) in enumerate(steps):
        total += change
        if i + 1 == len(steps) or steps[i + 1][0] > when:
            yield when, total


def _counter(name: str, when: float, values: dict[str, float]) -> Event:
    return {"name": name, "ph": "C", "ts": when, "pid": MEMORY_PROCESS, "tid": 0, "args": values}
