"""Profiling in Python: what ran between `start` and `stop`, and where its time went.

profiler = ge.Profiler()
profiler.start()
session.run(inputs)
profiler.stop()
for event in profiler.report().timeline_events:
    print(event.name, event.duration)               # in ms
for kind, time in sorted(profiler.operator_stats().items(), key=lambda x: x[1], reverse=True):
    print(f"{kind}: {time:.2f} ms", time.count)     # a number that knows more: mean, share, ...
profiler.report()["per_run"]                        # shapes and time of each run, in order

The times are those of the emulated machine, `seconds` is what the emulation took.

The environment may ask for profiles without a line of code:

ASCEND_PROFILING_ENABLE=1 ASCEND_PROFILING_OPTIONS=op_stats,trace,tensor_dump,output:DIR

- op_stats: `op_statistic.csv` over all runs, and `op_summary_N.csv` for each program
- trace: `trace_N.json` for each program, which Perfetto opens
- tensor_dump: `tensors_N.npz` for each run, with inputs, outputs (`input.NAME`, `output.NAME`) and
  what each op has written (`op.NUMBER.NAME`, that of its node in the model), but for those in
  branches and loops, and of runs on device arrays

A program counts anew at other shapes of its inputs. All sessions of the process are listened to;
the files are written when it ends, tensors at once."""

import atexit
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, cast, overload

import numpy as np
from xdsl.ir import Operation

from ge.dialects.graph.support.op_names import nearest_name, short_name
from ge.dialects.npu_task.ops import LaunchOp
from ge.dialects.support.context import at_hand, having
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.environment import profiling
from ge.dialects.support.errors import GeError
from ge.runtime.clock.clock import UnknownShapes, simulate

if TYPE_CHECKING:
    from ge.runtime.clock.timeline import Timeline
    from ge.runtime.data.arrays import Array
    from ge.runtime.device.binding import Binding
    from ge.runtime.device.session import Session


KINDS = ("op_stats", "trace", "tensor_dump")
OUTPUT = "output"
DEFAULT = "op_stats,trace,output:ascend_profile"


@dataclass
class Files:
    """The files to write, and the runs seen so far."""

    kinds: frozenset[str]
    folder: Path
    profiler: "Profiler"
    tensors: int = 0  # runs whose tensors were written

    def keep(
        self,
        inputs: "Mapping[str, Array]",
        outputs: "Mapping[str, Array]",
        written: "Written | None",
    ) -> None:
        """Write the tensors of a run, if they are asked for."""
        if "tensor_dump" not in self.kinds:
            return

        arrays: dict[str, Any] = {f"input.{n}": a for n, a in inputs.items()}
        arrays |= {} if written is None else written.arrays
        arrays |= {f"output.{n}": np.asarray(a) for n, a in outputs.items()}
        np.savez(self.folder / f"tensors_{self.tensors}.npz", **arrays)
        self.tensors += 1

    def write(self) -> None:
        """Write tables and traces. A module that is no program has none."""
        from ge.runtime.profile import tables
        from ge.runtime.profile.trace import chrome_trace

        programs = list(self.profiler.programs.values())
        for number, program in enumerate(programs):
            try:
                timeline = program.timeline
            except GeError:
                continue
            if "op_stats" in self.kinds:
                rows = tables.op_summary(timeline, "session")
                self._text(f"op_summary_{number}.csv", tables.csv_text(tables.OP_SUMMARY, rows))
            if "trace" in self.kinds:
                self._text(f"trace_{number}.json", json.dumps(chrome_trace(timeline)))
        if "op_stats" in self.kinds and any(p.simulated for p in programs):
            timelines = [p.simulated for p, _ in self.profiler.order if p.simulated is not None]
            rows = tables.op_statistic(timelines, "session")
            self._text("op_statistic.csv", tables.csv_text(tables.OP_STATISTIC, rows))

    def _text(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, "utf-8")


@dataclass
class Listening:
    """The profilers that listen, and the files that the environment has asked for, by its text."""

    profilers: "list[Profiler]" = field(default_factory=list["Profiler"])
    files: dict[str, Files] = field(default_factory=dict[str, Files])

    def write(self) -> None:
        for files in self.files.values():
            files.write()


_OF_PROCESS = Listening()


def listening() -> Listening:
    return at_hand(Listening) or _OF_PROCESS


def new_listeners() -> AbstractContextManager[Listening]:
    """Within the context, only the profilers that start in it listen, and files are kept apart:
    `write()` of what it gives writes them."""
    return having(Listening())


def requested_files() -> Files | None:
    """The files that the environment asks for; None if it asks for nothing. The folder is made.
    Raises GeError if it asks for unknown files."""
    if (text := profiling()) is None:
        return None
    known = listening()
    if text not in known.files:
        kinds, folder = parsed(text or DEFAULT)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise GeError(f"ASCEND_PROFILING_OPTIONS: no folder '{folder}': {e.strerror}") from None
        if known is _OF_PROCESS and not known.files:
            atexit.register(known.write)
        known.files[text] = Files(kinds, folder, Profiler())
    return known.files[text]


@dataclass
class Written:
    """The arrays that the ops of a run have written; called for each op."""

    arrays: "dict[str, Array]" = field(default_factory=dict[str, Any])
    ops: int = 0

    def __call__(self, op: Operation, arrays: "Sequence[Array]") -> None:
        """Keep copies: memory of the device is used again."""
        name = location_of(op).name or (op.callee if isinstance(op, LaunchOp) else op.name)
        key = f"op.{self.ops:04d}.{name.strip('/').replace('/', '.')}"
        for i, array in enumerate(arrays):
            self.arrays[f"{key}.{i}" if i else key] = array.copy()
        self.ops += bool(arrays)


def watch_of(files: Files | None) -> Written | None:
    """A recorder of the tensors of a run, if they are asked for; otherwise None."""
    return None if files is None or "tensor_dump" not in files.kinds else Written()


def parsed(text: str) -> tuple[frozenset[str], Path]:
    """The kinds of files, all but tensors if none is named, and their folder. Raises GeError."""
    kinds, folder = set[str](), "ascend_profile"
    for part in (p.strip() for p in text.split(",") if p.strip()):
        name, _, value = part.partition(":")
        if name == OUTPUT and value:
            folder = value
        elif part in KINDS:
            kinds.add(part)
        else:
            near = get_close_matches(part, KINDS, 1)
            known = f"there are {', '.join(KINDS)} and {OUTPUT}:DIR"
            hint = f"did you mean '{near[0]}'?" if near else known
            raise GeError(f"ASCEND_PROFILING_OPTIONS has no '{part}'", hint=hint)
    return frozenset(kinds or {"op_stats", "trace"}), Path(folder)


Shapes = tuple[tuple[int, ...], ...]


@dataclass(slots=True, eq=False)
class Profiled:
    """A program, at one length of states that grow and at shapes of its inputs."""

    session: "Session | Binding"
    rows: int | None  # that its states had after the run, where they grow
    shapes: Shapes | None = None  # of the inputs, None where they are not known
    runs: int = 0
    seconds: float = 0.0  # what the emulation took
    simulated: "Timeline | None" = None

    @property
    def inputs(self) -> dict[str, list[int]]:
        """The shapes of the inputs by name."""
        names = self.session.input_names
        return {n: list(s) for n, s in zip(names, self.shapes or (), strict=False)}

    @property
    def timeline(self) -> "Timeline":
        """The simulated run. Raises GeError for a module that is no program."""
        if self.simulated is None:
            self.simulated = timeline_of(self.session, self.rows, self.inputs)
        return self.simulated


def timeline_of(
    session: "Session | Binding",
    rows: int | None = None,
    inputs: Mapping[str, Sequence[int]] | None = None,
) -> "Timeline":
    """A simulated run, at the end of which states that grow have so many rows; at these shapes of
    inputs where the program has gears, or leaves them open. Raises GeError for a module that is no
    program."""
    gears = session.gears
    taken = gears.chosen(dict(inputs), {}) if gears is not None and inputs else None
    try:
        return simulate(session.module, session.target, taken, absent=session.absent, rows=rows)
    except UnknownShapes:
        if session.module_at is None or not inputs:
            raise
    timeline = simulate(session.module_at(inputs), session.target, rows=rows)
    timeline.notes.append("timed as a program that is planned for the shapes of this run")
    return timeline


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """A task of a run. Times are in milliseconds, from the start of the first run; runs follow each
    other without a gap."""

    name: str
    op_type: str
    engine: str
    stream: int
    start: float
    duration: float
    run: int


class OperatorStats(float):
    """The time of all launches of one kind of op in milliseconds, as a number, and what else is
    known of them: how many there are, mean, least and most time, and the share of the time of all
    ops, 0 to 1."""

    count: int
    total_time: float
    avg_time: float
    min_time: float
    max_time: float
    ratio: float

    def __new__(cls, count: int, total: float, least: float, most: float, ratio: float) -> Self:
        new = super().__new__(cls, total)
        new.count, new.total_time, new.avg_time = count, total, total / count
        new.min_time, new.max_time, new.ratio = least, most, ratio
        return new

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.count, self.total_time, self.min_time, self.max_time, self.ratio

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"OperatorStats({values})"


class StatsTable(list[dict[str, Any]]):
    """The rows of the op statistic (msprof's columns, one for each kind of op and engine), the most
    time first; `items()` has one `OperatorStats` for each kind of op, and so has an index that is
    a name of one: `stats["MatMul"]`, "fused_op.linear" or "BatchMatMul"."""

    @cached_property
    def kinds(self) -> dict[str, OperatorStats]:
        total = sum(row["Total Time(us)"] for row in self) or 1.0
        groups = {
            row["OP Type"]: [r for r in self if r["OP Type"] == row["OP Type"]] for row in self
        }
        stats = {kind: _stats(rows, total) for kind, rows in groups.items()}
        return dict(sorted(stats.items(), key=lambda item: -item[1].total_time))

    @overload
    def __getitem__(self, key: SupportsIndex) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, key: slice) -> list[dict[str, Any]]: ...

    @overload
    def __getitem__(self, key: str) -> OperatorStats: ...

    def __getitem__(self, key: Any) -> Any:
        """Raises GeError for a name of an op that was not launched."""
        if not isinstance(key, str):
            return cast("Any", super().__getitem__(key))
        if key in self.kinds:
            return self.kinds[key]
        short = short_name(key)
        rows = [row for row in self if short_name(row["OP Type"]) == short]
        if not rows:
            near = nearest_name(key, self.kinds)
            raise GeError(
                f"no op '{key}' was launched", hint=near or f"ops: {', '.join(self.kinds)}"
            )
        return _stats(rows, sum(row["Total Time(us)"] for row in self) or 1.0)

    def items(self) -> Sequence[tuple[str, OperatorStats]]:
        return list(self.kinds.items())

    def keys(self) -> Sequence[str]:
        return list(self.kinds)

    def values(self) -> Sequence[OperatorStats]:
        return list(self.kinds.values())


def _stats(rows: Sequence[Mapping[str, Any]], total_us: float) -> OperatorStats:
    count, us = sum(r["Count"] for r in rows), sum(r["Total Time(us)"] for r in rows)
    least, most = min(r["Min Time(us)"] for r in rows), max(r["Max Time(us)"] for r in rows)
    return OperatorStats(count, us / 1e3, least / 1e3, most / 1e3, us / total_us)


class Report(dict[str, Any]):
    """The record of a profiler: `runs` has an entry for each program, and for each length of states
    and each shape of inputs, `per_run` one for each run, in order."""

    def __init__(self, order: Sequence[tuple[Profiled, float]]) -> None:
        from ge.runtime.profile import tables

        self._order = order
        programs = dict.fromkeys(p for p, _ in order)
        runs: list[dict[str, Any]] = [
            {"inputs": p.inputs, "runs": p.runs, "seconds": p.seconds}
            | {"time": tables.time_report(p.timeline)}
            for p in programs
        ]
        per_run: list[dict[str, Any]] = [
            {"inputs": p.inputs, "latency_us": p.timeline.latency_us, "seconds": seconds}
            | {"machine": p.timeline.machine}
            for p, seconds in order
        ]
        total = sum(r["latency_us"] for r in per_run)
        super().__init__(runs=runs, per_run=per_run, latency_us=total)

    @cached_property
    def timeline_events(self) -> list[TimelineEvent]:
        """The tasks of all runs by their start."""
        return list(self._events())

    def _events(self) -> Iterator[TimelineEvent]:
        from ge.runtime.profile import tables

        begin = 0.0
        for number, (entry, _) in enumerate(self._order):
            for task in sorted(entry.timeline.tasks, key=lambda t: t.start_us):
                yield TimelineEvent(
                    task.name, tables.op_type(task), task.engine, task.stream,
                    (begin + task.start_us) / 1e3, task.duration_us / 1e3, number,
                )  # fmt: skip
            begin += entry.timeline.latency_us


class Profiler:
    """Listens to all sessions between `start` and `stop`; also a context manager."""

    def __init__(self) -> None:
        self.programs: dict[tuple[Session | Binding, int | None, Shapes | None], Profiled] = {}
        self.order: list[tuple[Profiled, float]] = []  # the runs, and what the emulation took

    def start(self) -> None:
        """Listen from now on. Raises GeError when it does already."""
        if self in listening().profilers:
            raise GeError("the profiler has been started already", hint="stop it first")
        listening().profilers.append(self)

    def stop(self) -> None:
        """Listen no more. Raises GeError when it does not."""
        if self not in listening().profilers:
            raise GeError("the profiler has not been started", hint="call start() first")
        listening().profilers.remove(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def record(
        self, session: "Session | Binding", seconds: float, shapes: Shapes | None = None
    ) -> None:
        rows = session.rows
        key = session, rows, shapes
        entry = self.programs.setdefault(key, Profiled(session, rows, shapes))
        entry.runs += 1
        entry.seconds += seconds
        self.order.append((entry, seconds))

    def report(self) -> Report:
        """The report of each program, and of each length of states that grow: its number of runs,
        the seconds that the emulation took, and the `time` part of the report of one run; shapes
        and time of each run; the simulated time of all, in microseconds; `timeline_events`."""
        return Report(list(self.order))

    def operator_stats(self) -> StatsTable:
        """The op statistic over all runs, the most time first."""
        from ge.runtime.profile import tables

        timelines = [p.timeline for p, _ in self.order]
        return StatsTable(tables.op_statistic(timelines, "session"))


def observe(
    session: "Session | Binding",
    seconds: float,
    inputs: "Sequence[Array] | None" = None,
    outputs: "Mapping[str, Array] | None" = None,
    written: Written | None = None,
) -> None:
    """Notify listeners of a run: of the time that the emulation took, of its arrays if the caller
    has them at hand, and of the arrays that its ops have written if these were asked for."""
    files, listeners = requested_files(), listening().profilers
    if files is None and not listeners:
        return
    shapes = None if inputs is None else tuple(a.shape for a in inputs)
    for profiler in listeners:
        profiler.record(session, seconds, shapes)
    if files is not None:
        files.profiler.record(session, seconds, shapes)
        given = dict(zip(session.input_names, inputs or (), strict=False))
        files.keep(given, outputs or {}, written)
