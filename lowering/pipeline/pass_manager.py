"""The pass manager of every tool. Verification, time, dumps, records, progress, validation and
reproducers are instrumentations of it. Python's garbage collector pauses while modules are worked
on."""

import gc
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import ShrinkException

from ge.dialects.support.diagnostics import running
from ge.dialects.text.errors import diagnose
from ge.lowering.levels.dominance import verify
from ge.transforms.rewriting.counts import allows_pass


class Instrumentation:
    """Override the methods that are needed; `module` is the whole program each time."""

    def start(self, module: ModuleOp) -> None:
        """Passes are about to run on a module."""

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        """The pass is about to run."""

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        """The pass has run; instrumentations see this in reverse order."""

    def failed(self, p: ModulePass, module: ModuleOp, why: str) -> None:
        """The pass, or what an instrumentation did after it, raised an exception."""


class PassManager:
    """Runs passes on modules; `context` tells an error report where things were."""

    def __init__(
        self, passes: Sequence[ModulePass], instrumentations: Sequence[Instrumentation] = ()
    ) -> None:
        self.passes, self.instrumentations = tuple(passes), instrumentations
        self.running: ModulePass | None = None
        self.has_run = False

    def run(self, ctx: Context, module: ModuleOp) -> None:
        """Run the passes on a module in place. What one raises has a note that names the pass."""
        self.running, self.has_run = None, False
        try:
            for i in self.instrumentations:
                i.start(module)
            for p in self.passes:
                self.running, self.has_run = p, False
                for i in self.instrumentations:
                    i.before(p, module)
                with running(p.name):
                    if allows_pass(p.name):
                        p.apply(ctx, module)
                self.has_run = True
                for i in reversed(self.instrumentations):
                    i.after(p, module)
            self.running = None
        except ShrinkException:
            raise
        except Exception as error:
            if self.running is not None:
                error.add_note(self.context)
                why = str(diagnose(error, self.context))
                for i in self.instrumentations:
                    i.failed(self.running, module, why)
            raise

    @property
    def context(self) -> str:
        """`in pass 'x'`, `after pass 'x'`, or nothing."""
        if self.running is None:
            return ""
        return f"{'after' if self.has_run else 'in'} pass '{self.running.name}'"


@dataclass
class Verification(Instrumentation):
    """Verifies the input, and the result of each pass if `each`: xDSL's verifiers and dominance."""

    each: bool = True

    def start(self, module: ModuleOp) -> None:
        verify(module)

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        if self.each:
            verify(module)


@contextmanager
def paused_collector() -> Generator[None]:
    """Pause garbage collection inside the block: a module is one large web of live objects, which
    each full collection would visit again (a third of the time at 50,000 ops)."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
