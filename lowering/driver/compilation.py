"""What the compiler did, and the driver behind it: it runs the stages of the pipeline on a module,
those below the graph level again where a program is to need less memory."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.npu_task.ops import LaunchOp
from ge.dialects.npu_task.program_info import figure
from ge.dialects.support.diagnostics import remark
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.targets.target import Target
from ge.lowering.pipeline.instrumentation import Instrumentation
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.pass_options import PassTable
from ge.lowering.pipeline.remedies import SLOWER, Remedies, Tried, find_fit
from ge.lowering.pipeline.stages import PassRecord, Progress, run_passes, stages
from ge.transforms.memory.over_limit import OverLimitError
from ge.transforms.rewriting.counts import RuleCount, collecting

MEMORY_KEYS = (
    "arena_bytes",
    "lower_bound_bytes",
    "no_reuse_bytes",
    "weight_bytes",
    "io_bytes",
)


def count_work(module: ModuleOp) -> int:
    """The ops of the program that compute: graph ops and fused ops, constants not counted."""
    main = main_function(module)
    found = 0
    stack = [] if main is None else [main.body.block]
    while stack:
        for op in stack.pop().ops:
            found += isinstance(op, TensorOp) and not isinstance(op, ConstantOp)
            if not isinstance(op, FusedOp):
                stack.extend(b for r in op.regions for b in r.blocks)
    return found


@dataclass
class Compilation:
    """What `lower` did: time by pass, ops by level, rules of fusion, memory of the program."""

    options: Options
    passes: list[PassRecord] = field(default_factory=list[PassRecord])
    seconds: float = 0.0
    ops: dict[str, int] = field(default_factory=dict[str, int])
    fusion: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    memory: dict[str, int] = field(default_factory=dict[str, int])
    remedies: list[Tried] = field(default_factory=list[Tried])
    """What was done about the memory limit."""

    def report(self, model: str) -> dict[str, Any]:
        """The compiler's part of the report: one JSON object with stable keys."""
        return {
            "model": model,
            "target": self.options.target,
            "options": self.options.as_dict(),
            "compile": {
                "seconds": self.seconds,
                "passes": [asdict(p) for p in self.passes],
            },
            "ops": self.ops,
            "fusion": self.fusion,
            "memory": {**self.memory, **self.remedies_tried()},
        }

    def remedies_tried(self) -> dict[str, Any]:
        """What was done about the memory limit, for the report; empty where nothing had to be."""
        return {"remedies": [asdict(t) for t in self.remedies]} if self.remedies else {}


def memory_figures(module: ModuleOp) -> dict[str, int]:
    """The bytes that the memory plan states on the main function; empty without a plan."""
    main = main_function(module)
    found: dict[str, int] = {}
    for key in MEMORY_KEYS:
        if main is not None and (stated := figure(main, key)) is not None:
            found["peak_bytes" if key == "arena_bytes" else key] = stated
    return found


def count_launches(module: ModuleOp) -> int:
    return sum(isinstance(op, LaunchOp) for op in module.walk())


@dataclass
class Lowering:
    """Runs the stages of the pipeline on a module, and keeps what there is to report."""

    result: Compilation
    context: Context
    passes: PassTable
    progress: Progress | None
    after: Callable[[str, ModuleOp], None] | None
    instrumentations: Sequence[Instrumentation]
    rules: dict[str, dict[str, RuleCount]] = field(default_factory=dict[str, dict[str, RuleCount]])
    """The first of the levels that were done in one go -> what the rules did there."""
    fused: dict[tuple[str, ...], "Trial"] = field(default_factory=dict[tuple[str, ...], "Trial"])
    """The passes to the fused level -> the module that they gave (see `lowered`)."""

    def run(
        self, module: ModuleOp, levels: Sequence[str], path: Mapping[str, Sequence[str]]
    ) -> None:
        """Lower a module in place through `levels`, by the passes that `path` has for each."""
        todo: list[str] = []
        marks: dict[int, list[str]] = {}
        for level in levels:
            todo += path[level]
            marks.setdefault(len(todo), []).append(level)
            if self.result.options.verify:
                todo.append(f"verify-level{{level={level}}}")
        done = 0

        def observe(name: str, current: ModuleOp) -> None:
            nonlocal done
            done += 1
            for level in marks.get(done, ()):
                if level in ("graph", "fused"):
                    self.result.ops[level] = count_work(current)
            if self.after is not None:
                self.after(name, current)

        with collecting() as counts:
            self.result.passes += run_passes(
                module, todo, self.context, self.passes, self.progress, observe,
                self.instrumentations,
            )  # fmt: skip
        self.rules["".join(levels[:1])] = counts

    def to_program(self, module: ModuleOp, levels: Sequence[str]) -> None:
        """Lower a module to a program that keeps the memory limit. What comes after the graph
        level is done again with remedies where it does not, and without recomputation, or another
        order of the launches, where that does not pay. Raises OverLimitError."""
        options = self.result.options
        done = [level for level in levels if level == "graph"]
        rest = levels[len(done) :]
        self.run(module, done, stages(options))
        kept = module.clone()
        limit = options.memory_limit

        def attempt(remedies: Remedies) -> int:
            become(module, self.lowered(kept, rest, stages(options, remedies)))
            return memory_figures(module)["peak_bytes"]

        try:
            become(module, self.lowered(kept, rest, stages(options)))
            self.weigh(module, kept, rest)
        except OverLimitError as e:
            names = [name for name, level in REMEDY_LEVELS.items() if level in rest]
            if options.fusion in ("off", "aggressive") and "fuse" in names:
                names.remove("fuse")
            self.result.remedies = find_fit(e, Remedies(limit), names, attempt)
            if (main := main_function(module)) is not None:
                for tried in self.result.remedies:
                    remark(main, f"over the memory limit; {tried}")

    def weigh(self, module: ModuleOp, before: ModuleOp, levels: Sequence[str]) -> None:
        """Where launches have another order than in the module `before` the `levels`, or compute
        values again, make the program without that as well, and take the one that needs the least
        memory: results in place, and parts written where they belong, are known only later."""
        options, first = self.result.options, self.trial(module)
        found = [first]
        if is_recomputed(module):
            found = self.recomputations(first, before, levels)
        if is_reordered(module):
            given = Remedies(options.memory_limit, order=True, slower=1.0)
            found += self.made(before, levels, given)
        chosen = min(found, key=lambda t: t.peak_bytes)
        self.rules, self.result.ops = chosen.rules, chosen.ops
        if chosen is not first:
            become(module, chosen.module)

    def recomputations(
        self, first: "Trial", before: ModuleOp, levels: Sequence[str]
    ) -> list["Trial"]:
        """The program without recomputation, and those with it that are not much slower: with less
        of it where the `first` one takes too much time, and of launches only. The first one alone
        where no other keeps the limit without."""
        options, target = self.result.options, Target.load(self.result.options.target)

        def made(slower: float, elementwise: bool = True) -> list[Trial]:
            remedies = Remedies(options.memory_limit, slower=slower, elementwise=elementwise)
            return self.made(before, levels, remedies)

        def in_time(trials: Iterable[Trial]) -> Trial:
            return next((t for t in trials if t.latency_us(target) <= most_us), plain)

        if not (without := made(1.0)):
            return [first]
        (plain,) = without
        most_us = SLOWER * plain.latency_us(target)
        found = [plain, in_time(chain([first], chain.from_iterable(map(made, LESS_SLOW))))]
        if options.fusion != "off":
            launches = (made(slower, False) for slower in (SLOWER, *LESS_SLOW))
            found.append(in_time(chain.from_iterable(launches)))
        return found

    def made(self, before: ModuleOp, levels: Sequence[str], remedies: Remedies) -> list["Trial"]:
        """The program with these remedies, of the module `before` the `levels`; none where it does
        not keep the limit."""
        try:
            trial = self.lowered(before, levels, stages(self.result.options, remedies))
        except OverLimitError:
            return []
        return [self.trial(trial)]

    def lowered(
        self, before: ModuleOp, levels: Sequence[str], path: Mapping[str, Sequence[str]]
    ) -> ModuleOp:
        """A copy of the module `before`, the same one at each call, lowered through `levels`.
        Fusion takes most of the time, and few remedies change it: what the same passes gave is
        taken again."""
        shared = [level for level in levels[:1] if level == "fused"]
        passes = tuple(name for level in shared for name in path[level])
        if passes not in self.fused:
            module = before.clone()
            self.run(module, shared, path)
            self.fused[passes] = self.trial(module)
        start = self.fused[passes]
        self.rules, self.result.ops = dict(start.rules), dict(start.ops)
        module = start.module.clone()
        self.run(module, levels[len(shared) :], path)
        return module

    def trial(self, module: ModuleOp) -> "Trial":
        """A program that was made just now."""
        return Trial(module, dict(self.rules), dict(self.result.ops))


@dataclass
class Trial:
    """A program, and what the report says about how it was made."""

    module: ModuleOp
    rules: dict[str, dict[str, RuleCount]]
    ops: dict[str, int]

    @property
    def peak_bytes(self) -> int:
        return memory_figures(self.module)["peak_bytes"]

    def latency_us(self, target: Target) -> float:
        """How long it takes by the clock; 0 where shapes are known only at run time."""
        from ge.runtime.clock.clock import simulate

        try:
            return simulate(self.module, target).latency_us
        except GeError:
            return 0.0


REMEDY_LEVELS = {"order": "tasks", "fuse": "fused", "recompute": "tasks", "spill": "buffers"}
"""Each remedy with the level at which it is done, in the order in which they are tried."""

LESS_SLOW = (1.1, 1.05)
"""How many times as long the launches may take, if the program takes too long: side by side, they
have less room, and data less often in L2."""


def become(module: ModuleOp, other: ModuleOp) -> None:
    """Give a module the body and the attributes of another one, which is of no use any more."""
    module.detach_region(module.body)
    module.add_region(other.detach_region(other.body))
    module.attributes = other.attributes


def is_recomputed(module: ModuleOp) -> bool:
    """Whether a program computes values again to need less memory."""
    from ge.dialects.npu_task.program_info import RECOMPUTED
    from ge.transforms.memory.recompute_elementwise import COPIES

    main = main_function(module)
    return main is not None and any(key in main.attributes for key in (RECOMPUTED, COPIES))


def is_reordered(module: ModuleOp) -> bool:
    """Whether the launches of a program have another order than they were written in."""
    from ge.dialects.npu_task.program_info import ORDER
    from ge.transforms.memory.order_tasks import PROGRAM

    main = main_function(module)
    order = None if main is None else main.attributes.get(ORDER)
    return isinstance(order, StringAttr) and order.data != PROGRAM
