"""`--verify-diagnostics`: the diagnostics of a run against the `expected-*` comments of its input.

// expected-error@+1 {{substring}}    (error, warning, remark, note; @+N, @-N, @below, @above,
// expected-remark-re {{a {{.*}} z}}   @unknown for no location in this file, or no @: this line)
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ge.dialects.support.diagnostics import Diagnostic, Severity, SourceLocation
from ge.lowering.text.reading import Source

EXPECTED = re.compile(
    r"expected-(?P<kind>error|warning|remark|note)(?P<re>-re)?"
    r"\s*(?:@(?P<where>[+-]\d+|above|below|unknown))?\s*\{\{(?P<text>.*)\}\}[ \t\r]*$",
    re.MULTILINE,
)


@dataclass
class Expectation:
    """One comment: what must be said, and about which line (0: no line of this file)."""

    severity: Severity
    pattern: re.Pattern[str]
    text: str
    line: int
    location: SourceLocation
    was_produced: bool = False

    def matches(self, diagnostic: Diagnostic, file: str) -> bool:
        location = diagnostic.location
        line = location.line if location.file == file else 0
        return (
            diagnostic.severity == self.severity
            and line == self.line
            and self.pattern.search(diagnostic.message) is not None
        )


def _pattern(text: str, is_regex: bool) -> re.Pattern[str]:
    """Literal text; with `-re`, the parts in {{...}} are regular expressions."""
    if not is_regex:
        return re.compile(re.escape(text))
    parts = re.split(r"\{\{(.*?)\}\}", text)
    return re.compile("".join(p if i % 2 else re.escape(p) for i, p in enumerate(parts)))


def expectations(source: Source) -> list[Expectation]:
    expected: list[Expectation] = []
    lines = source.text.split("\n")
    plain = [source.lines_before + i for i, t in enumerate(lines, 1) if not EXPECTED.search(t)]
    for number, text in enumerate(lines, source.lines_before + 1):
        if (match := EXPECTED.search(text)) is None:
            continue
        match match["where"]:
            case None:
                line = number
            case "unknown":
                line = 0
            case "above":
                line = max((n for n in plain if n < number), default=0)
            case "below":
                line = min((n for n in plain if n > number), default=0)
            case offset:
                line = number + int(offset)
        location = SourceLocation(source.name, number, match.start() + 1)
        pattern = _pattern(match["text"], match["re"] is not None)
        expectation = Expectation(Severity(match["kind"]), pattern, match["text"], line, location)
        expected.append(expectation)
    return expected


def mismatches(source: Source, diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """What was said but not expected, and what was expected but not said."""
    expected = expectations(source)
    wrong: list[Diagnostic] = []
    for diagnostic in (d for top in diagnostics for d in (top, *top.notes)):
        matching = [e for e in expected if e.matches(diagnostic, source.name)]
        for e in matching:
            e.was_produced = True
        if not matching:
            message = f"unexpected {diagnostic.severity}: {diagnostic.message}"
            wrong.append(Diagnostic(Severity.ERROR, message, diagnostic.location))
    for e in expected:
        if not e.was_produced:
            message = f'expected {e.severity} "{e.text}" was not produced'
            wrong.append(Diagnostic(Severity.ERROR, message, e.location))
    return wrong
