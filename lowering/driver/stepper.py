"""Runs the passes of some levels on a module, and keeps what there is to report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.support.effort import Progress
from ge.lowering.driver.program import count_layers, count_work
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.instrumentation import PassRecord, Records
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.pass_manager import Instrumentation, PassManager
from ge.lowering.pipeline.stages import closed
from ge.transforms.rewriting.counts import RuleCount, collecting

Path = Mapping[Level, Sequence[ModulePass]]  # the passes of each level


@dataclass
class LevelCounts(Instrumentation):
    """Counts the work of a module after the last pass of each level at which ops are work."""

    # Number of passes that have run -> the levels that are reached
    ends: Mapping[int, Sequence[Level]]
    ops: dict[str, int]
    layers: dict[str, int]
    runs: int = 0

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        self.runs += 1
        for level in self.ends.get(self.runs, ()):
            if level in (Level.GRAPH, Level.FUSED):
                self.ops[level] = count_work(module)
            if level is Level.GRAPH:
                self.layers.update(count_layers(module))


@dataclass
class Stepper:
    """The state of one compilation that may try several ways down."""

    options: Options
    ctx: Context
    instrumentations: Sequence[Instrumentation]
    progress: Progress | None = None
    # All passes that ran, those of ways that were given up included
    records: list[PassRecord] = field(default_factory=list[PassRecord])
    ops: dict[str, int] = field(default_factory=dict[str, int])
    layers: dict[str, int] = field(default_factory=dict[str, int])  # see count_layers
    # The first of the levels that were done in one go -> what the rules did there
    rules: dict[str, dict[str, RuleCount]] = field(default_factory=dict[str, dict[str, RuleCount]])

    def run(self, module: ModuleOp, levels: Sequence[Level], path: Path) -> None:
        """Lower a module in place through `levels`, by the passes that `path` has for each."""
        passes: list[ModulePass] = []
        ends: dict[int, list[Level]] = {}
        for level in levels:
            passes += closed(level, list(path[level]), self.options)
            ends.setdefault(len(passes), []).append(level)
        watching = [
            *self.instrumentations,
            LevelCounts(ends, self.ops, self.layers),
            Records(self.records, len(passes), self.progress),
        ]
        with collecting() as counts:
            PassManager(passes, watching).run(self.ctx, module)
        self.rules["".join(levels[:1])] = counts
