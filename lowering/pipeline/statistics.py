"""What passes did, in numbers: `--mlir-pass-statistics`."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.support.operation import count_ops
from ge.lowering.pipeline.displays import StatisticsDisplay
from ge.lowering.pipeline.nesting import NestedPass
from ge.lowering.pipeline.pass_manager import Instrumentation
from ge.lowering.pipeline.timing import BAR
from ge.transforms.rewriting.counts import RuleCount, collecting, counts_at_hand

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
            for name, counts in sorted(_merged(self.runs).items()):
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


def _merged(runs: Iterable[tuple[str, object, Counts]]) -> dict[str, Counts]:
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
