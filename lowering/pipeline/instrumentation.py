"""What can be watched while passes run: time, the IR before and after, a reproducer.

An instrumentation is called around each pass; `instrument` joins several to the one callback that
xDSL's PassPipeline has.
"""

import shlex
import time
from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline

from ge.lowering.pipeline.pass_options import pipeline_text
from ge.lowering.text.files import write_text
from ge.lowering.text.printing import op_text


class Instrumentation(ABC):
    """Override what is needed; `module` is the whole program each time."""

    def start(self) -> None:
        """Another module comes, through the same passes."""

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        """The pass is about to run."""

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        """The pass has run, its result is not verified yet."""

    def failed(self, p: ModulePass, module: ModuleOp, why: str) -> None:
        """The pass, or the verification of its result, raised an exception."""


Verifier = Callable[[ModulePass | None, ModuleOp, ModulePass | None], None]


class PassManager:
    """Runs passes with instrumentation; `running` tells an error report where things were."""

    def __init__(
        self,
        passes: Sequence[ModulePass],
        instrumentations: Sequence[Instrumentation] = (),
        verify: Verifier | None = None,
    ) -> None:
        self.instrumentations, self.verify = instrumentations, verify
        self.running: ModulePass | None = None
        self.verifying = False
        self.pipeline = PassPipeline(tuple(passes), self._between)

    def start(self) -> None:
        """Another module comes."""
        self.running, self.verifying = None, False
        for i in self.instrumentations:
            i.start()

    def _between(
        self, previous: ModulePass | None, module: ModuleOp, following: ModulePass | None
    ) -> None:
        self.verifying = True
        if previous is not None:
            for i in reversed(self.instrumentations):
                i.after(previous, module)
        if self.verify is not None:
            self.verify(previous, module, following)
        self.running, self.verifying = following, False
        if following is not None:
            for i in self.instrumentations:
                i.before(following, module)

    @property
    def context(self) -> str:
        """`in pass 'x'`, `after pass 'x'`, or nothing."""
        if self.running is None:
            return ""
        return f"{'after' if self.verifying else 'in'} pass '{self.running.name}'"

    def report_failure(self, module: ModuleOp, why: str) -> None:
        """Tell the instrumentations that the pass that was running has failed."""
        if self.running is not None:
            for i in self.instrumentations:
                i.failed(self.running, module, why)


def count_ops(module: ModuleOp) -> int:
    """The ops of a module, itself and those in regions included."""
    found, blocks = 1, list(module.body.blocks)
    while blocks:
        for op in blocks.pop().ops:
            found += 1
            if op.regions:
                blocks.extend(block for region in op.regions for block in region.blocks)
    return found


# ---- time ------------------------------------------------------------------------------------


@dataclass
class Timing(Instrumentation):
    """Seconds and number of ops for each pass; `phase` adds what is not a pass."""

    records: list[tuple[str, float, int | None]] = field(
        default_factory=list[tuple[str, float, int | None]]
    )
    _start: float = field(default_factory=time.perf_counter)

    def phase(self, name: str, ops: int | None = None) -> None:
        """What happened since the last record was `name`."""
        now = time.perf_counter()
        self.records.append((name, now - self._start, ops))
        self._start = time.perf_counter()

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        self.phase("(verify)")

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        seconds = time.perf_counter() - self._start
        self.records.append((f"'{p.name}' Pass", seconds, count_ops(module)))
        self._start = time.perf_counter()

    def report(self) -> str:
        """A table as of `mlir-opt --mlir-timing`, with the number of ops after each pass."""
        total = sum(seconds for _, seconds, _ in self.records)
        bar = f"===-{'-' * 73}-==="
        lines = [bar, f"{'... Execution time report ...':^81}".rstrip(), bar]
        lines += [f"  Total Execution Time: {total:.4f} seconds", ""]
        lines += ["  ----Wall Time----  ---Ops---  ----Name----"]
        for name, seconds, ops in [*self.records, ("Total", total, None)]:
            share = 100 * seconds / total if total else 0.0
            count = "" if ops is None else str(ops)
            lines.append(f"  {seconds:8.4f} ({share:5.1f}%)  {count:>9}  {name}")
        return "\n".join(lines)


# ---- IR dumps --------------------------------------------------------------------------------


@dataclass
class IRPrinting(Instrumentation):
    """Prints the module before and after the chosen passes; `*` chooses all."""

    stream: TextIO
    before_passes: frozenset[str] = frozenset()
    after_passes: frozenset[str] = frozenset()
    only_changes: bool = False
    after_failure: bool = False
    elide: int | None = None
    generic: bool = False
    debuginfo: bool = False
    _last: str = ""

    def text(self, module: ModuleOp) -> str:
        return op_text(module, elide=self.elide, generic=self.generic, debuginfo=self.debuginfo)

    def dump(self, when: str, p: ModulePass, text: str) -> None:
        name = type(p).__name__.removesuffix("Pass")
        print(f"// -----// IR Dump {when} {name} ({p.name}) //----- //", file=self.stream)
        print(f"{text}\n", file=self.stream)

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        wanted = bool(self.before_passes & {p.name, "*"})
        if wanted or self.only_changes:
            self._last = self.text(module)
        if wanted:
            self.dump("Before", p, self._last)

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        if self.after_passes & {p.name, "*"}:
            text = self.text(module)
            if not self.only_changes or text != self._last:
                self.dump("After", p, text)

    def failed(self, p: ModulePass, module: ModuleOp, why: str) -> None:
        if self.after_failure:
            self.dump("After Failure of", p, self.text(module))


# ---- reproducer ------------------------------------------------------------------------------

CONFIGURATION = "// configuration:"


@dataclass
class Reproducer(Instrumentation):
    """On failure, writes the module as it was with the passes still to run: a file that
    `ge-opt FILE` runs again. `local` keeps the failing pass only."""

    path: Path
    passes: Sequence[ModulePass]
    verify_each: bool = True
    local: bool = False
    _text: str | None = None

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        if self.local or self._text is None:
            self._text = op_text(module, generic=True, debuginfo=True)

    def start(self) -> None:
        self._text = None

    def failed(self, p: ModulePass, module: ModuleOp, why: str) -> None:
        passes = [p] if self.local else self.passes
        options = [f"--pass-pipeline={pipeline_text(passes)}"]
        if not self.verify_each:
            options.append("--verify-each=false")
        header = [
            f"{CONFIGURATION} {shlex.join(options)}",
            f"// error: {' '.join(why.split())}",
            "// rerun: ge-opt FILE",
        ]
        write_text(self.path, "\n".join([*header, self._text or "", ""]))


def recorded_configuration(text: str) -> list[str] | None:
    """The command line options in the first line of a reproducer, None for any other file.
    Only the pipeline and `--verify-each` are taken: a file never chooses code to load."""
    first = text.partition("\n")[0]
    if not first.startswith(CONFIGURATION):
        return None
    try:
        options = shlex.split(first.removeprefix(CONFIGURATION))
    except ValueError:
        return None
    allowed = ("--pass-pipeline=", "--verify-each=")
    return options if all(o.startswith(allowed) for o in options) else None
