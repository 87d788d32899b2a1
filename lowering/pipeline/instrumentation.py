"""Records of passes that run, and what is printed about them: records for reports and folders of
dumps, the IR before and after passes (on a stream, or in a tree of files), how long they take
(`--mlir-timing`), and what they did in numbers (`--mlir-pass-statistics`). See also
`reproducer.py`."""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ge.dialects.support.effort import Progress
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import count_ops
from ge.dialects.text.look import Look
from ge.dialects.text.printing import dump_text, op_text
from ge.lowering.levels.level import Level, level_of
from ge.lowering.pipeline.option_values import StatisticsDisplay, TimeDisplay, TimeFormat
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.pass_manager import Instrumentation
from ge.lowering.pipeline.pass_options import NestedPass, innermost, targets
from ge.runtime.data.files import Outputs, write_text
from ge.transforms.rewriting.counts import RuleCount, collecting, counts_at_hand

ONNX, PBTXT = "onnx", "pbtxt"  # forms of dumps


# ---- records ---------------------------------------------------------------------------------


@dataclass
class PassRecord:
    """Wall time of one pass."""

    name: str
    seconds: float


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
        self.records.append(PassRecord(p.name, seconds))
        self._done += 1


# ---- what xdsl-opt prints -------------------------------------------------------------------


@dataclass
class Between(Instrumentation):
    """Print what xdsl-opt prints between passes: seconds, and the IR."""

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
        model, weights = dump_model(module, payload)
        with Outputs(()) as out:
            write_model(out, str(self.folder / f"{stem}.onnx"), model, weights)


def dumps_for(options: Options) -> list[Dumps]:
    """Return the instrumentations that write the dumps that options ask for."""
    if not options.dump_graph:
        return []
    return [Dumps(Path(options.dump_path), options.dump_graph, options.dump_graph_format)]


ALL = frozenset({"*"})


@dataclass
class IRPrinting(Instrumentation):
    """Prints the ops that passes run on, before and after the chosen ones; `*` chooses all. Of a
    nested pass an op is shown as it is once the pass has run on all. With `folder` each text is a
    file, `builtin_module_NAME/NUMBER_PASS.mlir` as mlir-opt has them.

    Raises GeError for a file that cannot be written."""

    before_passes: frozenset[str] = frozenset()
    after_passes: frozenset[str] = frozenset()
    only_changes: bool = False
    after_failure: bool = False  # these alone
    module_scope: bool = False  # the whole module, whatever the pass runs on
    folder: str = ""
    look: Look = field(default_factory=Look)
    _last: dict[int, str] = field(default_factory=dict[int, str])  # by the id of an op
    _numbers: dict[Path, int] = field(default_factory=dict[Path, int])

    def text(self, op: Operation) -> str:
        return op_text([*_around(op)][-1] if self.module_scope else op, self.look)

    def dump(self, when: str, p: ModulePass, op: Operation, text: str, failed: str = "") -> None:
        name = f"{type(innermost(p)).__name__.removesuffix('Pass')}{failed} ({p.name})"
        part = f" ('{op.name}' operation: {_symbol(op, '@')})" if op.parent is not None else ""
        where = part if self.module_scope else ""
        said = f"// -----// IR Dump {when} {name}{where} //----- //\n{text}\n"
        if not self.folder:
            print(said, file=sys.stderr)
            return
        place = self._place(op, p.name)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            what = f"cannot write to '{place.parent}': {e.strerror}"
            raise GeError(what, hint="see --mlir-print-ir-tree-dir") from e
        write_text(place, said)

    def _place(self, op: Operation, name: str) -> Path:
        """A file for a text of an op: a folder for each op around it, and the number of the last
        text of each of these, as mlir-opt counts them: an op whose parts came first begins at 1."""
        folder, numbers = Path(self.folder), list[int]()
        for outer in [*_around(op)][::-1]:
            folder /= f"{outer.name.replace('.', '_')}_{_symbol(outer) or 'no-symbol-name'}"
            before = self._numbers.setdefault(folder, -1 if outer is op else 0)
            self._numbers[folder] = before + (outer is op)
            numbers.append(self._numbers[folder])
        return folder / f"{'_'.join(map(str, numbers))}_{name}.mlir"

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        wanted = bool(self.before_passes & {p.name, "*"})
        if not wanted and not self.only_changes:
            return
        texts = [(op, self.text(op)) for op in targets(p, module)]
        self._last = {id(op): text for op, text in texts}
        for op, text in texts if wanted else ():
            self.dump("Before", p, op, text)

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        if not self.after_passes & {p.name, "*"} or self.after_failure:
            return
        for op in targets(p, module):
            text = self.text(op)
            if not self.only_changes or text != self._last.get(id(op)):
                self.dump("After", p, op, text)

    def failed(self, p: ModulePass, module: ModuleOp, why: str) -> None:
        if self.after_failure or self.after_passes & {p.name, "*"}:
            self.dump("After", p, module, self.text(module), " Failed")


def _around(op: Operation) -> Iterator[Operation]:
    """An op and those around it, from the inside."""
    current: Operation | None = op
    while current is not None:
        yield current
        current = current.parent_op()


def _symbol(op: Operation, before: str = "") -> str:
    name = op.properties.get("sym_name") or op.attributes.get("sym_name")
    return f"{before}{name.data}".replace("/", "_") if isinstance(name, StringAttr) else ""


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
        """Record the time since the last timer as `name`."""
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
        """Count the time since the last pass as part of it."""
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
        timers = self.timers if display == TimeDisplay.TREE else _timers_by_name(self.timers)
        write = _json if form == TimeFormat.JSON else _text
        return write([*timers, *ends], total)


def _timers_by_name(timers: Iterable[Timer]) -> list[Timer]:
    """Return one timer for each name, the longest first, nothing in any of them."""
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


ADDED, REMOVED = "ops-added", "ops-removed"

MEANINGS = {ADDED: "Ops more than before", REMOVED: "Ops fewer than before"}

Counts = dict[str, int]  # by the name of a statistic


@dataclass
class Statistics(Instrumentation):
    """Per pass: by how much the number of ops changed, and how often each rule matched and was
    applied. Rules are counted where `collecting` their counts."""

    # Of each pass its name, the ops around those that it ran on, and what is known of it
    runs: list[tuple[str, tuple[str, ...], Counts]] = field(
        default_factory=list[tuple[str, tuple[str, ...], Counts]]
    )
    _ops: int = 0
    _rules: Counts = field(default_factory=Counts)

    @staticmethod
    def counting() -> AbstractContextManager[dict[str, RuleCount]]:
        return collecting()

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        self._ops, self._rules = count_ops(module.body.blocks), dict(_of_rules())

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        change = count_ops(module.body.blocks) - self._ops
        counts = {ADDED: max(change, 0), REMOVED: max(-change, 0)}
        for name, number in _of_rules():
            if more := number - self._rules.get(name, 0):
                counts[name] = more
        anchors = p.anchors if isinstance(p, NestedPass) else ()
        self.runs.append((p.name, anchors, counts))

    def report(self, display: str = StatisticsDisplay.PIPELINE) -> str:
        """Statistics as mlir-opt prints them: of the pipeline, or of each pass by name."""
        lines = [BAR, f"{'... Pass statistics report ...':>55}", BAR]
        if display == StatisticsDisplay.LIST:
            for name, counts in sorted(_counts_by_name(self.runs).items()):
                lines += [name, *_lines(counts, "  ")]
        else:
            lines += ["'builtin.module' Pipeline"] if self.runs else []
            around: tuple[str, ...] = ()
            for name, anchors, counts in self.runs:
                shared = len(anchors) if anchors == around else 0
                for depth, anchor in enumerate(anchors[shared:], 1 + shared):
                    lines.append(f"{'  ' * depth}'{anchor}' Pipeline")
                around, indent = anchors, "  " * (len(anchors) + 1)
                lines += [f"{indent}{name}", *_lines(counts, f"{indent}  ")]
        return "\n".join([*lines, ""])


def _of_rules() -> Iterator[tuple[str, int]]:
    for rule, found in counts_at_hand().items():
        yield f"applied-{rule}", found.applied
        yield f"refused-{rule}", found.matched - found.applied


def _counts_by_name(runs: Iterable[tuple[str, object, Counts]]) -> dict[str, Counts]:
    found: dict[str, Counts] = {}
    for name, _, counts in runs:
        sums = found.setdefault(name, {})
        for key, number in counts.items():
            sums[key] = sums.get(key, 0) + number
    return found


def _lines(counts: Counts, indent: str) -> Iterator[str]:
    width = max(len(str(number)) for number in counts.values())
    for name, number in counts.items():
        verb, _, rule = name.partition("-")
        meaning = MEANINGS.get(name) or f"How often {rule} was {verb}"
        yield f"{indent}(S) {number:{width}} {name} - {meaning}"
