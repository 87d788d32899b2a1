"""`--remarks` of ge-opt and ge-compile: which remarks are told, and in which form.

text      a line for each, as it comes
yaml      as LLVM's compilers write them, for opt-viewer and its like
summary   a line for each rule: how often it was applied and missed, and the microseconds that
          were won and lost
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from ge.dialects.support.diagnostics import (
    Diagnostic,
    RemarkFacts,
    Severity,
    print_diagnostic,
)
from ge.dialects.support.errors import GeError
from ge.dialects.support.patterns import UserPattern
from ge.dialects.support.remark_kinds import RemarkKind
from ge.dialects.text.values import did_you_mean
from ge.runtime.data.files import write_text
from ge.tools.cli.flags import SUMMARY, TEXT, YAML


@dataclass
class Remarks:
    """The remarks that are asked for."""

    form: str = ""  # empty: none
    of: UserPattern | None = None
    kinds: Collection[str] = ()
    text: UserPattern | None = None
    output: str | None = None
    found: list[Diagnostic] = field(default_factory=list[Diagnostic])

    @classmethod
    def asked_for(cls, args: argparse.Namespace, known: Collection[str]) -> "Remarks":
        """From the flags of a tool; `known` are the names of passes and rules. Raises GeError for
        flags that have nothing to do, and for a name that none has."""
        others = {
            "--remarks-pass": args.remarks_pass, "--remarks-kind": args.remarks_kind,
            "--remarks-text": args.remarks_text, "--remarks-output": args.remarks_output,
        }  # fmt: skip
        for flag, value in others.items():
            if value is not None and not args.remarks:
                raise GeError(f"{flag} is of --remarks", hint="add --remarks")
        of: UserPattern | None = args.remarks_pass
        if of is not None and not any(map(of.search, known)):
            hint = did_you_mean(of.pattern, sorted(known)).removeprefix("; ")
            raise GeError(f"no pass or rule has '{of.pattern}' in its name", hint=hint)
        return cls(
            args.remarks or "", of, args.remarks_kind or (), args.remarks_text, args.remarks_output
        )

    def take(self, diagnostic: Diagnostic) -> bool:
        """Tell whether a remark is asked for; it is kept for `finish`."""
        facts = diagnostic.remark or RemarkFacts()
        if not self.form or (self.kinds and facts.kind not in self.kinds):
            return False
        if self.of and not any(map(self.of.search, filter(None, (facts.running, facts.rule)))):
            return False
        if self.text and not self.text.search(str(diagnostic)):
            return False
        self.found.append(diagnostic)
        return True

    def tell(self, diagnostic: Diagnostic, show: Callable[[Diagnostic], object]) -> None:
        """Show what is no remark, or a remark that is asked for; those in another form, and those
        of a file, come at the end."""
        if diagnostic.severity is not Severity.REMARK:
            show(diagnostic)
        elif self.take(diagnostic) and self.form == TEXT and self.output is None:
            show(diagnostic)

    def finish(self, inputs: Collection[str] = ()) -> None:
        """Write what has not been shown. Raises GeError for a file that cannot be written."""
        if not self.form or (self.form == TEXT and self.output is None):
            return
        lines = {TEXT: texts, YAML: yaml_lines, SUMMARY: summary_lines}[self.form](self.found)
        text = "".join(f"{line}\n" for line in lines)
        if self.output is None:
            sys.stderr.write(text)
        else:
            write_text(self.output, text, inputs)


def texts(found: Sequence[Diagnostic]) -> Iterator[str]:
    return map(str, found)


# ---- YAML ------------------------------------------------------------------------------------


def yaml_lines(remarks: Sequence[Diagnostic]) -> Iterator[str]:
    """A document for each remark, with the keys of LLVM's. A place in a text is its DebugLoc, the
    node of a model that has no text an argument: opt-viewer shows remarks with a DebugLoc alone."""
    for diagnostic in remarks:
        facts, place = diagnostic.remark or RemarkFacts(), diagnostic.location
        yield f"--- !{facts.kind.capitalize()}"
        yield f"Pass:            {quoted(facts.running or 'driver')}"
        yield f"Name:            {quoted(facts.rule or facts.running or 'driver')}"
        if place.file and place.line:
            column = max(place.column, 0)
            at = f"File: {quoted(place.file)}, Line: {place.line}, Column: {column}"
            yield f"DebugLoc:        {{ {at} }}"
        yield f"Function:        {quoted(facts.function or '-')}"
        found = list(arguments(facts, place.name))
        yield "Args:" if found else "Args:            []"
        yield from (f"  - {key + ':':16} {quoted(value)}" for key, value in found)
        yield "..."


def arguments(facts: RemarkFacts, node: str) -> Iterator[tuple[str, str]]:
    """Give what a reader shows one behind the other: together they are a sentence."""
    if facts.why:
        yield "String", facts.why
    if node:
        yield "String", " at " if facts.why else "at "
        yield "Node", node
    if facts.us is not None:
        yield "String", ", about " if facts.why or node else "about "
        yield "Microseconds", f"{facts.us:.3f}"
        yield "String", " us won" if facts.kind is RemarkKind.PASSED else " us lost"


WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}  # no strings, in YAML


def quoted(text: str) -> str:
    """A scalar of YAML that is a string: as it is, or as one of JSON, in which all characters that
    are not printed ones of ASCII are numbers."""
    if re.fullmatch(r"[A-Za-z][\w-]*", text, re.ASCII) and text.lower() not in WORDS:
        return text
    plain = json.dumps(text, ensure_ascii=False)
    return re.sub(r"[^ -~]", lambda match: f"\\U{ord(match[0]):08x}", plain)


# ---- the summary -----------------------------------------------------------------------------


@dataclass(slots=True)
class RemarkTotals:
    passed: int = 0
    missed: int = 0
    other: int = 0
    won_us: float = 0.0
    lost_us: float = 0.0

    def add(self, facts: RemarkFacts) -> None:
        us = facts.us or 0.0
        if facts.kind is RemarkKind.PASSED:
            self.passed, self.won_us = self.passed + 1, self.won_us + us
        elif facts.kind is RemarkKind.MISSED:
            self.missed, self.lost_us = self.missed + 1, self.lost_us + us
        else:
            self.other += 1

    def line(self, name: str, of: str) -> str:
        figures = f"{self.passed:7} {self.missed:7} {self.other:6}"
        return f"{name:28} {figures} {self.won_us:11,.1f} {self.lost_us:11,.1f}  {of}".rstrip()


def summary_lines(found: Sequence[Diagnostic]) -> Iterator[str]:
    """A line for each rule, the most microseconds lost first, then the most won; and for all. What
    was missed at one place for one reason by passes that run again counts once."""
    sums: dict[tuple[str, str], RemarkTotals] = {}
    total, seen = RemarkTotals(), set[Hashable]()
    for diagnostic in found:
        facts = diagnostic.remark or RemarkFacts()
        key = facts.rule, facts.function, diagnostic.location, facts.why
        if facts.kind is RemarkKind.MISSED and key in seen:
            continue
        seen.add(key)
        of = facts.running or "driver"
        sums.setdefault((facts.rule or of, of), RemarkTotals()).add(facts)
        total.add(facts)
    yield f"{'rule':28}  passed  missed  other      us won     us lost  pass"
    for (name, of), s in sorted(sums.items(), key=lambda i: (-i[1].lost_us, -i[1].won_us, i[0])):
        yield s.line(name, of)
    yield total.line("all", "")
    yield (
        "note: microseconds are estimates of launches alone; some missed chances exclude "
        "each other, or were taken by another rule"
    )


def printer(remarks: Remarks) -> Callable[[Diagnostic], None]:
    """Prints diagnostics to standard error; remarks as asked for. A warning of a pass that runs in
    several tries is printed once."""
    told: set[str] = set()

    def show(diagnostic: Diagnostic) -> None:
        text = str(diagnostic)
        if diagnostic.severity is Severity.REMARK or text not in told:
            told.add(text)
            print_diagnostic(diagnostic)

    return lambda diagnostic: remarks.tell(diagnostic, show)
