"""Keeps what a page shows of a compilation while its passes run: the ops at each level, and which
passes made, changed or removed what came from each node of the model."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.diagnostics import sources_of
from ge.dialects.support.functions import main_function
from ge.lowering.levels.level import Level, level_of
from ge.lowering.levels.verify_level import VerifyLevelPass
from ge.lowering.pipeline.instrumentation import PassRecord
from ge.lowering.pipeline.pass_manager import Instrumentation
from ge.tools.views.data import LevelGraph, Noted, Touch
from ge.tools.views.levels import Numbers, level_graph
from ge.transforms.rewriting.remarks import Remark

# What of an op a pass changes; which values it reads is not among it, as each replacement of what
# makes them changes that
Looks = tuple[int, tuple[tuple[str, Attribute], ...], tuple[Attribute, ...]]


@dataclass
class Watcher(Instrumentation):
    """Watches one compilation. Where it tries several ways down, levels are those of the last."""

    remarks: list[Remark] = field(default_factory=list[Remark])  # to which passes append
    levels: dict[Level, LevelGraph] = field(default_factory=dict[Level, LevelGraph])
    read: LevelGraph | None = None  # the module before the first pass
    history: dict[str, list[Touch]] = field(default_factory=dict[str, list[Touch]])
    steps: list[PassRecord] = field(default_factory=list[PassRecord])
    tries: dict[Level, int] = field(default_factory=dict[Level, int])
    failed_in: str = ""  # the pass that raised an exception
    stopped: LevelGraph | None = None  # what it left
    noted: list[Noted] = field(default_factory=list[Noted])
    _seen: dict[Operation, Looks] = field(default_factory=dict[Operation, Looks])
    _sources: dict[Operation, list[str]] = field(default_factory=dict[Operation, list[str]])

    def start(self, module: ModuleOp) -> None:
        self._seen = looks_of(module)
        self._sources = {op: sources_of(op) for op in self._seen}
        if self.read is None:
            self.read, _ = level_graph(module, level_of(module))

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        self.note_remarks()
        self.steps.append(PassRecord(p.name, 0.0, 0))
        self.compare(module)
        if isinstance(p, VerifyLevelPass):
            level = Level.named(p.level)
            self.levels[level], _ = level_graph(module, level, len(self.steps))
            self.tries[level] = self.tries.get(level, 0) + 1

    def failed(self, p: ModulePass, module: ModuleOp, why: str) -> None:
        self.note_remarks()
        self.failed_in = p.name
        with suppress(Exception):  # what a pass left half done may be no module
            self.stopped, _ = level_graph(module, level_of(module), len(self.steps))
            self.stopped.name, self.stopped.summary = "stopped", f"as {p.name} left it"

    def note_remarks(self) -> None:
        """Remarks belong to the pass that ran when they were made; each is kept once."""
        known = {(n.rule, n.source, n.why) for n in self.noted}
        for remark in self.remarks:
            source = remark.where.removeprefix('loc("').removesuffix('")')
            if (remark.rule, source, remark.why) not in known:
                known.add((remark.rule, source, remark.why))
                self.noted.append(
                    Noted(
                        remark.rule, remark.applied, remark.op, source, remark.why,
                        len(self.steps), remark.loss_us,
                    )
                )  # fmt: skip
        self.remarks.clear()

    def compare(self, module: ModuleOp) -> None:
        step, seen = len(self.steps) - 1, looks_of(module)
        sources = {op: self._sources.get(op) or sources_of(op) for op in seen}
        for op, looks in seen.items():
            before = self._seen.get(op)
            if before != looks:
                self.touch(sources[op], step, "made" if before is None else "changed")
        here = {name for names in sources.values() for name in names}
        for op, names in self._sources.items():
            if op not in seen:
                gone = [name for name in names if name not in here]
                self.touch(gone, step, "changed" if self.is_part(op, here) else "removed")
        self._seen, self._sources = seen, sources

    def is_part(self, op: Operation, here: set[str]) -> bool:
        """Whether an op was in the body of one that is still there, as another op: of a launch only
        the whole has a name."""
        outer = op.parent_op()
        return outer is not None and any(name in here for name in self._sources.get(outer, ()))

    def touch(self, names: list[str], step: int, what: str) -> None:
        for name in names:
            touches = self.history.setdefault(name, [])
            if not touches or touches[-1].step != step:
                touches.append(Touch(step, what))
            elif what == "made":
                touches[-1].what = what


def settle(noted: Iterable[Noted]) -> None:
    """Mark the missed chances that cost nothing, since their rule found another one."""
    noted = list(noted)
    done = {(n.rule, n.op, n.source) for n in noted if n.applied}
    for n in noted:
        n.settled = True if not n.applied and (n.rule, n.op, n.source) in done else None


def looks_of(module: ModuleOp) -> dict[Operation, Looks]:
    """The ops of @main and of kernels, constants left out, with what passes change of them."""
    main = main_function(module)
    return {
        op: (
            len(op.operands), (*op.properties.items(), *op.attributes.items()),
            tuple(r.type for r in op.results),
        )
        for op in (() if main is None else main.body.block.walk())
        if not isinstance(op, ConstantOp)
    }  # fmt: skip


def final_level(module: ModuleOp, steps: int) -> tuple[LevelGraph, Numbers]:
    return level_graph(module, level_of(module), steps)
