"""How long passes take, and what is around them: `--mlir-timing`."""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.support.operation import count_ops
from ge.lowering.pipeline.displays import TimeDisplay, TimeFormat
from ge.lowering.pipeline.nesting import NestedPass
from ge.lowering.pipeline.pass_manager import Instrumentation

BAR = f"===-{'-' * 71}-==="
VERIFY = "(verify)"


@dataclass
class Timer:
    """Seconds of wall time, those of what is in it included, and the number of ops then."""

    name: str
    seconds: float
    ops: int | None = None
    inner: "list[Timer]" = field(default_factory=list["Timer"])


@dataclass
class Timing(Instrumentation):
    """A timer for each pass, and in it one for what was done to its result, which is mostly
    verifying; `phase` adds what is not a pass."""

    timers: list[Timer] = field(default_factory=list[Timer])
    _begin: float = field(default_factory=time.perf_counter)
    _start: float = field(default_factory=time.perf_counter)
    _path: list[Timer] = field(default_factory=list[Timer])  # the last pass, and those around it

    def phase(self, name: str, ops: int | None = None) -> None:
        """What happened since the last timer was `name`."""
        self._between()
        self.timers.append(Timer(name, self._lap(), ops))

    def start(self, module: ModuleOp) -> None:
        self._between()

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        if self._path:
            self._between()
        else:  # the input was verified
            self.timers.append(Timer(VERIFY, self._lap()))

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        seconds, timers = self._lap(), self.timers
        self._path = []
        for anchor in p.anchors if isinstance(p, NestedPass) else ():
            name = f"'{anchor}' Pipeline"
            if not timers or timers[-1].name != name:
                timers.append(Timer(name, 0.0))
            self._path.append(timers[-1])
            timers = timers[-1].inner
        timers.append(Timer(f"'{p.name}' Pass", 0.0, 1 + count_ops(module.body.blocks)))
        self._path.append(timers[-1])
        self._add(seconds)
        self._start = time.perf_counter()

    def _between(self) -> None:
        """What was done since the last pass belongs to it."""
        if self._path:
            seconds = self._lap()
            self._path[-1].inner.append(Timer(VERIFY, seconds))
            self._add(seconds)
            self._path = []

    def _add(self, seconds: float) -> None:
        for timer in self._path:
            timer.seconds += seconds

    def _lap(self) -> float:
        now = time.perf_counter()
        seconds, self._start = now - self._start, now
        return seconds

    def report(self, display: str = TimeDisplay.TREE, form: str = TimeFormat.TEXT) -> str:
        """A table as of `mlir-opt --mlir-timing`, with the number of ops after each pass, or the
        same as JSON."""
        self._between()
        total = time.perf_counter() - self._begin
        rest = total - sum(t.seconds for t in self.timers)
        ends = [Timer("Rest", rest), Timer("Total", total)]
        timers = self.timers if display == TimeDisplay.TREE else _merged(self.timers)
        write = _json if form == TimeFormat.JSON else _text
        return write([*timers, *ends], total)


def _merged(timers: Iterable[Timer]) -> list[Timer]:
    """One timer for each name, the longest first, nothing in any of them."""
    found: dict[str, Timer] = {}
    for _, timer in _walk(timers):
        one = found.setdefault(timer.name, Timer(timer.name, 0.0))
        one.seconds += timer.seconds
    return sorted(found.values(), key=lambda t: -t.seconds)


def _walk(timers: Iterable[Timer], depth: int = 0) -> Iterator[tuple[int, Timer]]:
    for timer in timers:
        yield depth, timer
        yield from _walk(timer.inner, depth + 1)


def _share(seconds: float, total: float) -> float:
    return 100 * seconds / total if total else 0.0


def _text(timers: Iterable[Timer], total: float) -> str:
    lines = [BAR, f"{'... Execution time report ...':>54}", BAR]
    lines += [f"  Total Execution Time: {total:.4f} seconds", ""]
    lines += ["  ----Wall Time----  ---Ops---  ----Name----"]
    for depth, t in _walk(timers):
        count = "" if t.ops is None else str(t.ops)
        head = f"  {t.seconds:8.4f} ({_share(t.seconds, total):5.1f}%)  {count:>9}"
        lines.append(f"{head}  {'  ' * depth}{t.name}")
    return "\n".join(lines)


def _json(timers: Iterable[Timer], total: float) -> str:
    def entry(t: Timer) -> dict[str, Any]:
        wall = {
            "duration": round(t.seconds, 6),
            "percentage": round(_share(t.seconds, total), 1),
        }
        facts: dict[str, Any] = {"wall": wall} | ({} if t.ops is None else {"ops": t.ops})
        return facts | {"name": t.name} | ({"passes": [*map(entry, t.inner)]} if t.inner else {})

    return "[\n" + ",\n".join(json.dumps(entry(t)) for t in timers) + "\n]"
