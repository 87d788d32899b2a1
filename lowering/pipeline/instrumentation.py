"""What is kept of passes that run, for reports and folders of dumps; see also `ir_printing.py`,
`timing.py`, `statistics.py` and `reproducer.py`."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import count_ops
from ge.dialects.text.printing import dump_text, op_text
from ge.lowering.levels.level import Level, level_of
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.pass_manager import Instrumentation
from ge.runtime.data.files import Outputs, write_text

ONNX, PBTXT = "onnx", "pbtxt"  # forms of dumps


# ---- records ---------------------------------------------------------------------------------


@dataclass
class PassRecord:
    """What one pass did: wall time, and the number of ops after it."""

    name: str
    seconds: float
    ops: int


# Called before each pass with its name, its number and the number of passes
Progress = Callable[[str, int, int], None]


@dataclass
class Records(Instrumentation):
    """Adds a record of each pass, and tells how far things are."""

    records: list[PassRecord]
    total: int
    progress: Progress | None = None
    _done: int = 0
    _start: float = 0.0

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        if self.progress is not None:
            self.progress(p.name, self._done, self.total)
        self._start = time.perf_counter()

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        seconds = time.perf_counter() - self._start
        self.records.append(PassRecord(p.name, seconds, 1 + count_ops(module.body.blocks)))
        self._done += 1


# ---- what xdsl-opt prints -------------------------------------------------------------------


@dataclass
class Between(Instrumentation):
    """What xdsl-opt prints between passes: seconds, and the IR."""

    times: bool
    ir: bool
    _previous: str = ""
    _start: float = 0.0

    def start(self, module: ModuleOp) -> None:
        self._previous = ""

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        if self.ir and self._previous:
            print(f"IR after {self._previous}:\n{op_text(module)}\n\n\n")
        self._start = time.perf_counter()

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        self._previous = p.name
        if self.times:
            print(f"Pass {p.name} took {time.perf_counter() - self._start} seconds")


@dataclass
class Dumps(Instrumentation):
    """Writes the module after each pass to a file of its own, `NUMBER-PASS.mlir`, or, at the graph
    and the fused level where `form` is onnx, `NUMBER-PASS.onnx`; where it is pbtxt, beside the
    module `graph_NUMBER.pbtxt`, in GE's text form. Raises GeError where that cannot be done."""

    folder: Path
    detail: int  # see `Options.dump_graph`
    form: str = "mlir"
    number: int = 0

    def __post_init__(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            what = f"cannot write to '{self.folder}': {e.strerror}"
            raise GeError(what, hint="see GE_DUMP_PATH") from e

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        stem = f"{self.number:02d}-{p.name}"
        self.number += 1
        if self.form == ONNX and level_of(module) in (Level.GRAPH, Level.FUSED):
            self._write_onnx(stem, module)
        else:
            write_text(self.folder / f"{stem}.mlir", dump_text(module, self.detail))
        if self.form == PBTXT:
            from ge.lowering.onnx.export.dump import proto_text

            file = self.folder / f"graph_{self.number - 1}.pbtxt"
            write_text(file, proto_text(module, stem))

    def _write_onnx(self, stem: str, module: ModuleOp) -> None:
        from ge.lowering.onnx.export.dump import dump_model
        from ge.lowering.onnx.export.exporter import write_model
        from ge.runtime.data.weights import payload_at_hand

        payload = payload_at_hand() if self.detail == 1 else None
        model, weights = dump_model(module, payload, "main")
        with Outputs(()) as out:
            write_model(out, str(self.folder / f"{stem}.onnx"), model, weights)


def dumps_for(options: Options) -> list[Dumps]:
    """What writes the dumps that options ask for."""
    if not options.dump_graph:
        return []
    return [Dumps(Path(options.dump_path), options.dump_graph, options.dump_graph_format)]
