"""Profiles that the environment asks for, without a line of code:

ASCEND_PROFILING_ENABLE=1 ASCEND_PROFILING_OPTIONS=op_stats,trace,tensor_dump,output:DIR

- op_stats: `op_statistic.csv` over all runs, and `op_summary_N.csv` for each program
- trace: `trace_N.json` for each program, which Perfetto opens
- tensor_dump: `tensors_N.npz` for each run, with inputs, outputs (`input.NAME`, `output.NAME`) and
  what each op has written (`op.NUMBER.NAME`, that of its node in the model), but for those in
  branches and loops, and of runs on device arrays

A program counts anew at other shapes of its inputs. All sessions of the process are listened to;
the files are written when it ends, tensors at once.
"""

import atexit
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from ge.dialects.npu_task.ops import LaunchOp
from ge.dialects.support.context import at_hand, having
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.environment import profiling
from ge.dialects.support.errors import GeError

if TYPE_CHECKING:
    from ge.runtime.data.arrays import Array
    from ge.runtime.device.profiler import Profiler

KINDS = ("op_stats", "trace", "tensor_dump")
OUTPUT = "output"
DEFAULT = "op_stats,trace,output:ascend_profile"


@dataclass
class Files:
    """What is to be written, and what has been seen."""

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
        import numpy as np

        arrays: dict[str, Any] = {f"input.{n}": a for n, a in inputs.items()}
        arrays |= {} if written is None else written.arrays
        arrays |= {f"output.{n}": np.asarray(a) for n, a in outputs.items()}
        np.savez(self.folder / f"tensors_{self.tensors}.npz", **arrays)
        self.tensors += 1

    def write(self) -> None:
        """Write tables and traces. A module that is no program has none."""
        import json

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
class Requests:
    """What the environment has asked for, by its text."""

    files: dict[str, Files] = field(default_factory=dict[str, Files])

    def write(self) -> None:
        for files in self.files.values():
            files.write()


_of_process = Requests()


def new_requests() -> AbstractContextManager[Requests]:
    """Within the context files are kept apart; `write()` of what it gives writes them."""
    return having(Requests())


def requested(profiler: "Callable[[], Profiler]") -> Files | None:
    """What the environment asks for; None: nothing. The folder is made. Raises GeError for what it
    asks that there is not."""
    if (text := profiling()) is None:
        return None
    own = at_hand(Requests)
    requests = _of_process if own is None else own
    if text not in requests.files:
        kinds, folder = parsed(text or DEFAULT)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise GeError(f"ASCEND_PROFILING_OPTIONS: no folder '{folder}': {e.strerror}") from None
        if own is None and not requests.files:
            atexit.register(requests.write)
        requests.files[text] = Files(kinds, folder, profiler())
    return requests.files[text]


@dataclass
class Written:
    """What the ops of a run have written; called for each."""

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
    """What keeps the tensors of a run, where they are asked for."""
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
