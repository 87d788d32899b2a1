"""Profiling in Python: what ran between `start` and `stop`, and where its time went.

profiler = ge.Profiler()
profiler.start()
session.run(inputs)
profiler.stop()
profiler.report()["runs"]           # one entry for each program
profiler.operator_stats()           # one row for each kind of op, the most time first
"""

from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from ge.dialects.support.context import setting
from ge.dialects.support.errors import GeError

if TYPE_CHECKING:
    from ge.runtime.clock.timeline import Timeline
    from ge.runtime.device.binding import Binding
    from ge.runtime.device.session import Session


@dataclass(slots=True, eq=False)
class Profiled:
    session: "Session | Binding"
    rows: int | None  # that its states had after the run, where they grow
    runs: int = 0
    seconds: float = 0.0  # what the emulation took
    simulated: "Timeline | None" = None

    @property
    def timeline(self) -> "Timeline":
        """The simulated run. Raises GeError for a module that is no program."""
        if self.simulated is None:
            self.simulated = timeline_of(self.session, self.rows)
        return self.simulated


def timeline_of(session: "Session | Binding", rows: int | None = None) -> "Timeline":
    """A simulated run, at the end of which states that grow have so many rows. Raises GeError for a
    module that is no program."""
    from ge.runtime.clock.clock import simulate

    return simulate(session.module, session.target, absent=session.absent, rows=rows)


_listening: ContextVar[list["Profiler"]] = ContextVar("profilers", default=[])  # of all threads


def new_listeners() -> AbstractContextManager[list["Profiler"]]:
    """Within the context, only the profilers that start in it listen."""
    return setting(_listening, list[Profiler]())


class Profiler:
    """Listens to all sessions between `start` and `stop`; also a context manager."""

    def __init__(self) -> None:
        self.programs: dict[tuple[Session | Binding, int | None], Profiled] = {}

    def start(self) -> None:
        """Listen from now on. Raises GeError when it does already."""
        if self in _listening.get():
            raise GeError("the profiler has been started already", hint="stop it first")
        _listening.get().append(self)

    def stop(self) -> None:
        """Listen no more. Raises GeError when it does not."""
        if self not in _listening.get():
            raise GeError("the profiler has not been started", hint="call start() first")
        _listening.get().remove(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def record(self, session: "Session | Binding", seconds: float) -> None:
        rows = session.rows
        entry = self.programs.setdefault((session, rows), Profiled(session, rows))
        entry.runs += 1
        entry.seconds += seconds

    def report(self) -> dict[str, Any]:
        """For each program, and each length of states that grow: how often it ran, what the
        emulation took in seconds, and the `time` part of the report of one run; the simulated time
        of all runs, in microseconds."""
        from ge.runtime.profile import tables as tables

        runs = [
            {"runs": p.runs, "seconds": p.seconds, "time": tables.time_report(p.timeline)}
            for p in self.programs.values()
        ]
        total = sum(p.runs * p.timeline.latency_us for p in self.programs.values())
        return {"runs": runs, "latency_us": total}

    def operator_stats(self) -> list[dict[str, Any]]:
        """The rows of the op statistic over all runs, the most time first."""
        from ge.runtime.profile import tables as tables

        timelines = [p.timeline for p in self.programs.values() for _ in range(p.runs)]
        return tables.op_statistic(timelines, "session")


def observe(session: "Session | Binding", seconds: float) -> None:
    for profiler in _listening.get():
        profiler.record(session, seconds)
