"""The search for a program that keeps a memory limit, or needs the least memory: the levels
below the graph are lowered again with other `Remedies`, or without those that do not pay."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from ge.dialects.npu_task.attributes import ORDER, RECOMPUTED
from ge.dialects.support.diagnostics import remark
from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import Target
from ge.lowering.driver.program import memory_figures
from ge.lowering.driver.stepper import Path, Stepper
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.remedies import SLOWER, Remedies, TriedRemedy, find_fit
from ge.lowering.pipeline.stages import stages
from ge.runtime.clock.clock import UnknownShapes, simulate
from ge.transforms.memory.check_capacity import OverLimitError
from ge.transforms.memory.order_tasks import PROGRAM
from ge.transforms.memory.recompute_elementwise import COPIES
from ge.transforms.rewriting.counts import RuleCount

# Each remedy with the level at which it is done, in the order in which they are tried
REMEDY_LEVELS = {
    "order": Level.TASKS,
    "fuse": Level.FUSED,
    "recompute": Level.TASKS,
    "spill": Level.BUFFERS,
}

# How many times as long the launches may take, if the program takes too long: side by side, they
# have less room, and data less often in L2
LESS_SLOW = (1.1, 1.05)


@dataclass
class Candidate:
    module: ModuleOp
    rules: dict[str, dict[str, RuleCount]]
    ops: dict[str, int]

    @property
    def peak_bytes(self) -> int:
        return memory_figures(self.module)["peak_bytes"]

    def latency_us(self, target: Target) -> float:
        """Return how long it takes by the clock; 0 if shapes are known only at run time."""
        try:
            return simulate(self.module, target).latency_us
        except UnknownShapes:
            return 0.0


def lower_within_limit(
    module: ModuleOp, levels: Sequence[Level], stepper: Stepper
) -> list[TriedRemedy]:
    """Lower a module through `levels`, the program last, so that it keeps the memory limit; what
    was tried. Raises OverLimitError."""
    options = stepper.options
    above = [level for level in levels if level is Level.GRAPH]
    rest = levels[len(above) :]
    stepper.run(module, above, stages(options))
    search = MemorySearch(stepper, module.clone(), rest)
    try:
        become(module, search.lowered(Remedies(options.memory_limit)))
        best = search.smallest(search.candidate(module))
        stepper.rules, stepper.ops = best.rules, best.ops
        if best.module is not module:
            become(module, best.module)
        return []
    except OverLimitError as error:
        names = [name for name, level in REMEDY_LEVELS.items() if level in rest]
        if options.fusion in ("off", "aggressive") and "fuse" in names:
            names.remove("fuse")

        def attempt(remedies: Remedies) -> int:
            become(module, search.lowered(remedies))
            return memory_figures(module)["peak_bytes"]

        attempts = find_fit(error, Remedies(options.memory_limit), names, attempt)
        if (main := main_function(module)) is not None:
            for remedy in attempts:
                remark(main, f"over the memory limit; {remedy}")
        return attempts


@dataclass
class MemorySearch:
    """Ways from one module, `before` the `levels`, to the program."""

    stepper: Stepper
    before: ModuleOp
    levels: Sequence[Level]
    # The passes to the fused level -> the module that they gave
    fused: dict[tuple[ModulePass, ...], Candidate] = field(
        default_factory=dict[tuple[ModulePass, ...], Candidate]
    )

    def candidate(self, module: ModuleOp) -> Candidate:
        return Candidate(module, dict(self.stepper.rules), dict(self.stepper.ops))

    def lowered(self, remedies: Remedies) -> ModuleOp:
        """A copy of the module, lowered. Fusion takes most of the time, and few remedies change
        it: what the same passes gave is taken again."""
        stepper, path = self.stepper, stages(self.stepper.options, remedies)
        shared = [level for level in self.levels[:1] if level is Level.FUSED]
        start = self.start(shared, path)
        stepper.rules, stepper.ops = dict(start.rules), dict(start.ops)
        module = start.module.clone()
        stepper.run(module, self.levels[len(shared) :], path)
        return module

    def start(self, shared: Sequence[Level], path: Path) -> Candidate:
        passes = tuple(p for level in shared for p in path[level])
        if passes not in self.fused:
            module = self.before.clone()
            self.stepper.run(module, shared, path)
            self.fused[passes] = self.candidate(module)
        return self.fused[passes]

    def within_limit(self, remedies: Remedies) -> list[Candidate]:
        """Return the program with these remedies; none if it does not keep the limit."""
        try:
            return [self.candidate(self.lowered(remedies))]
        except OverLimitError:
            return []

    def smallest(self, first: Candidate) -> Candidate:
        """If launches were reordered or recomputed, also compile without that and keep the smaller
        arena: results in place, and parts written where they belong, are known only later."""
        candidates = [first]
        if is_recomputed(first.module):
            candidates = self.recomputations(first)
        if is_reordered(first.module):
            limit = self.stepper.options.memory_limit
            candidates += self.within_limit(Remedies(limit, order=True, slower=1.0))
        return min(candidates, key=lambda c: c.peak_bytes)

    def recomputations(self, first: Candidate) -> list[Candidate]:
        """Return the program without recomputation, and programs with it that are not much slower:
        with less of it if the `first` one takes too much time, and of launches only. The first one
        alone if no program keeps the limit without."""
        options = self.stepper.options
        target, limit = Target.load(options.target), options.memory_limit

        def programs(slower: float, elementwise: bool = True) -> list[Candidate]:
            return self.within_limit(Remedies(limit, slower=slower, elementwise=elementwise))

        def in_time(candidates: Iterable[Candidate]) -> Candidate:
            return next((c for c in candidates if c.latency_us(target) <= most_us), plain)

        if not (without := programs(1.0)):
            return [first]
        (plain,) = without
        most_us = SLOWER * plain.latency_us(target)
        candidates = [plain, in_time(chain([first], chain.from_iterable(map(programs, LESS_SLOW))))]
        if options.fusion != "off":
            launches = (programs(slower, False) for slower in (SLOWER, *LESS_SLOW))
            candidates.append(in_time(chain.from_iterable(launches)))
        return candidates


def become(module: ModuleOp, other: ModuleOp) -> None:
    """Give a module the body and the attributes of another one, which is of no use any more."""
    module.detach_region(module.body)
    module.add_region(other.detach_region(other.body))
    module.attributes = other.attributes


def is_recomputed(module: ModuleOp) -> bool:
    main = main_function(module)
    return main is not None and any(key in main.attributes for key in (RECOMPUTED, COPIES))


def is_reordered(module: ModuleOp) -> bool:
    main = main_function(module)
    order = None if main is None else main.attributes.get(ORDER)
    return isinstance(order, StringAttr) and order.data != PROGRAM
