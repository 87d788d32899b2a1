"""`ge-opt --bisect`: the pass, and of its applications of rules the one, that makes a module wrong.

Wrong is what a pass fails on, what does not verify, and what gives other numbers than before the
pass by more than the pass declares (as for `--validate`); or what a script says is wrong (status 1,
as for ge-reduce). Passes run one by one; the last good number of applications in the pass that does
harm is found by bisection, with a counter that leaves out what comes after it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.support.diagnostics import Diagnostic, Severity, SourceLocation
from ge.dialects.text.errors import diagnose
from ge.lowering.levels.dominance import verify
from ge.lowering.pipeline.pass_options import pipeline_text
from ge.transforms.rewriting.debug_counters import (
    APPLICATIONS,
    Counters,
    DebugCounter,
    counting,
)

# What is wrong with a module that a pass made of another one; empty: nothing
Judge = Callable[[ModulePass, ModuleOp, ModuleOp], str]

NOWHERE = SourceLocation()


@dataclass(frozen=True)
class Culprit:
    """The pass that does harm, by its place; the application of a rule in it, counted from 1 among
    those of all passes (0: none by itself)."""

    place: int
    why: str
    application: int = 0
    rule: str = ""
    location: SourceLocation = NOWHERE


@dataclass
class Bisection:
    """The search for the first of `passes`, and of the rules that it applies, after which `judge`
    says that something is wrong (see the top of this file)."""

    ctx: Context
    passes: Sequence[ModulePass]
    judge: Judge

    def find(self, module: ModuleOp) -> Culprit | None:
        """The first that does harm, None where nothing does."""
        before = 0
        for place, p in enumerate(self.passes):
            after, why, counter = self.run(p, module)
            if why:
                return self.application(place, module, why, counter.seen, before)
            assert after is not None
            module, before = after, before + counter.seen
        return None

    def run(
        self, p: ModulePass, module: ModuleOp, count: int | None = None
    ) -> tuple[ModuleOp | None, str, DebugCounter]:
        """What a pass makes of a module with so many applications of rules, and what is wrong."""
        counters = Counters()
        counters[APPLICATIONS] = counter = DebugCounter(count=count)
        after = module.clone()
        try:
            with counting(counters):
                p.apply(self.ctx, after)
            verify(after)
            return after, self.judge(p, module, after), counter
        except Exception as e:
            return None, diagnose(e).message, counter

    def application(
        self, place: int, module: ModuleOp, why: str, total: int, before: int
    ) -> Culprit:
        """The application in a pass before which all is well."""
        p = self.passes[place]
        if not total or self.run(p, module, 0)[1]:
            return Culprit(place, why)
        good, bad = 0, total
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (good, middle) if self.run(p, module, middle)[1] else (middle, bad)
        _, why_there, counter = self.run(p, module, bad)
        rule, location = counter.last
        return Culprit(place, why_there or why, before + bad, rule, location)


def told(culprit: Culprit, passes: Sequence[ModulePass]) -> Diagnostic:
    """The finding, and the command line that stops right behind what does harm."""
    p = passes[culprit.place]
    what = f"pass '{p.name}' (number {culprit.place + 1} of {len(passes)}) does harm: {culprit.why}"
    again = f"-p '{pipeline_text(passes[: culprit.place + 1])}'"
    if not culprit.application:
        note = "not by an application of a rule that is counted; up to this pass it is"
        return Diagnostic(
            Severity.ERROR, what, notes=(Diagnostic(Severity.NOTE, f"{note} ge-opt {again}"),)
        )
    flag = f"--mlir-debug-counter={APPLICATIONS}-count={culprit.application}"
    notes = (
        Diagnostic(
            Severity.NOTE, f"by this application of rule '{culprit.rule}'", culprit.location
        ),
        Diagnostic(Severity.NOTE, f"up to it, it is ge-opt {again} {flag}"),
    )
    return Diagnostic(Severity.ERROR, what, notes=notes)
