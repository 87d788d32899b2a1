"""`ge-opt --bisect`: the pass that makes a module wrong, and its application of a rule that does
so; and scripts that say whether a file is interesting, for ge-reduce too.

Wrong is what a pass fails on, what does not verify, and what gives other numbers than before the
pass by more than the pass declares (as for `--validate`); or what a script says is wrong. Passes
run one by one; the last good number of applications in the pass that does harm is found by
bisection, with a counter that leaves out what comes after it.

A script gets its arguments and then the name of the file, as one of mlir-reduce. Status 0: the
file is not interesting; any other up to 125: it is. (llvm-reduce has it the other way round.) A
script that cannot be run, that is ended by a signal, or whose shell finds no command (126, 127)
says nothing of the file: that is an error."""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.support.diagnostics import Diagnostic, Severity, SourceLocation
from ge.dialects.support.errors import GeError
from ge.dialects.text.errors import diagnose
from ge.dialects.text.printing import op_text
from ge.lowering.levels.dominance import verify
from ge.lowering.pipeline.pass_options import pipeline_text
from ge.runtime.data.files import Outputs, write_module
from ge.runtime.data.weights import Payload
from ge.transforms.rewriting.counts import APPLICATIONS, Counters, DebugCounter, counting

# What is wrong with a module that a pass made of another one; empty: nothing
Diagnosis = Callable[[ModulePass, ModuleOp, ModuleOp], str]

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
    judge: Diagnosis

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
        """Return what a pass makes of a module with so many applications of rules, and what is
        wrong."""
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


NOT_FOUND = (126, 127)  # statuses of a shell: no command that can be run, no command


class TookTooLongError(Exception):
    """The script was ended after its time."""


@dataclass
class Script:
    """`command`: the script and its arguments; `seconds`: how long one run may take."""

    command: Sequence[str]
    seconds: float
    runs: int = 0
    late: int = 0  # runs that were ended

    @classmethod
    def of(cls, text: str, arguments: Sequence[str], seconds: float) -> "Script":
        """The script of a command line: the name of a file, or a command with arguments. Raises
        GeError for what cannot be run."""
        words = [text] if Path(text).is_file() else _words(text)
        name = words[0] if words else ""
        path = shutil.which(name)
        if path is None and Path(name).is_file():
            raise GeError(f"the test script '{name}' cannot be run", hint=f"chmod +x {name}")
        if path is None:
            raise GeError(f"there is no test script '{name}'")
        return cls((str(Path(path).absolute()), *words[1:], *arguments), seconds)

    def is_interesting(self, file: Path) -> bool:
        """Return whether the script says that a file is interesting. Raises GeError if it says
        nothing of the file, TookTooLongError if it was ended."""
        self.runs += 1
        try:
            process = subprocess.Popen(
                (*self.command, str(file)),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True,  # what it starts is ended with it
            )  # fmt: skip
        except OSError as e:
            what = f"the test script '{self.command[0]}' cannot be run: {e.strerror}"
            raise GeError(
                what, hint="its first line names the program that runs it: #!/bin/sh"
            ) from e
        try:
            status = process.wait(self.seconds)
        except subprocess.TimeoutExpired:
            self.late += 1
            raise TookTooLongError from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if status < 0:
            name = signal.Signals(-status).name
            raise GeError(f"the test script was ended by {name}: it says nothing of {file}")
        if status in NOT_FOUND:
            raise GeError(
                f"the test script ended with status {status}: a command in it cannot be run",
                hint=f"try {shlex.join(self.command)} FILE",
            )
        return status != 0


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as e:
        raise GeError(f"the test '{text}' cannot be read: {e}") from None


@dataclass
class Judge:
    """A test of modules: one is interesting if it is valid and the script says so of it as a file.
    Answers are remembered; after `end` (of `time.monotonic`) no module is interesting any more."""

    script: Script
    payload: Payload
    end: float
    _known: dict[str, bool] = field(default_factory=dict[str, bool])

    def __call__(self, module: ModuleOp) -> bool:
        if time.monotonic() > self.end:
            return False
        try:
            verify(module)
            text = op_text(module)
        except Exception:  # a candidate may be wrong in any way
            return False
        if text not in self._known:
            try:
                self._known[text] = self.ask(module)
            except TookTooLongError:
                self._known[text] = False
        return self._known[text]

    def ask(self, module: ModuleOp) -> bool:
        """Ask the script about a module. Raises as the script does."""
        with tempfile.TemporaryDirectory(prefix="ge-reduce-") as folder:
            path = Path(folder) / "candidate.mlir"
            with Outputs() as out:
                write_module(out, path, module, self.payload)
            return self.script.is_interesting(path)
