"""`--verify-diagnostics`: the diagnostics of a run against the `expected-*` comments of its input;
`--verify-roundtrip`: the printed module, in both forms, is read back as the same module.

    // expected-error@+1 {{substring}}    (error, warning, remark, note; @+N, @-N, @below, @above,
    // expected-remark-re {{a {{.*}} z}}   @unknown for no location in this file, no @: this line)
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from xdsl.context import Context
from xdsl.dialects.builtin import UNKNOWN_LOC, ModuleOp
from xdsl.utils.exceptions import ParseError

from ge.dialects.support.diagnostics import Diagnostic, Severity, SourceLocation
from ge.dialects.support.errors import GeError
from ge.dialects.support.patterns import UserPattern, user_pattern
from ge.dialects.text.errors import diagnose
from ge.dialects.text.printing import op_text
from ge.dialects.text.reading import SourceText, parse_module

EXPECTED = re.compile(
    r"expected-(?P<kind>error|warning|remark|note)(?P<re>-re)?"
    r"\s*(?:@(?P<where>[+-]\d+|above|below|unknown))?\s*\{\{(?P<text>.*)\}\}[ \t\r]*$",
    re.MULTILINE,
)


# A comment that is meant to be one
MEANT = re.compile(r"//.*\b(expected-(?:error|warning|remark|note)(?:-re)?)\b\s*(?:@|\{\{)")

ALL, ONLY_EXPECTED = "all", "only-expected"

LEVELS = (ALL, ONLY_EXPECTED)


@dataclass
class Expectation:
    """One comment: what must be said, and about which line (0: no line of this file)."""

    severity: Severity
    pattern: UserPattern
    text: str
    line: int
    location: SourceLocation
    was_produced: bool = False

    def matches(self, diagnostic: Diagnostic, file: str) -> bool:
        """Return whether it is of that line and says that, whatever its severity."""
        location = diagnostic.location
        line = location.line if location.file == file else 0
        return line == self.line and self.pattern.search(diagnostic.message) is not None


def _pattern(text: str, is_regex: bool) -> UserPattern:
    """Literal text; with `-re`, the parts in {{...}} are regular expressions. Raises ValueError
    for one that has no end, and GeError as `user_pattern` does."""
    if not is_regex:
        return user_pattern(re.escape(text))
    parts = re.split(r"\{\{(.*?)\}\}", text)
    if "{{" in parts[-1]:
        raise ValueError("the regular expression that begins with '{{' has no '}}'")
    for part in parts[1::2]:
        user_pattern(part)
    return user_pattern("".join(p if i % 2 else re.escape(p) for i, p in enumerate(parts)))


def expectations(source: SourceText) -> tuple[list[Expectation], list[Diagnostic]]:
    """The expectations in a text, and what is wrong with those that cannot be read."""
    expected: list[Expectation] = []
    wrong: list[Diagnostic] = []
    lines = source.text.split("\n")
    plain = [source.lines_before + i for i, t in enumerate(lines, 1) if not EXPECTED.search(t)]
    for number, text in enumerate(lines, source.lines_before + 1):
        match = EXPECTED.search(text)
        if match is None:
            if meant := MEANT.search(text):
                location = SourceLocation(source.name, number, meant.start(1) + 1)
                message = "this expectation cannot be read: kind@place {{text}} ends its line"
                wrong.append(Diagnostic(Severity.ERROR, message, location))
            continue
        location = SourceLocation(source.name, number, match.start() + 1)
        line = _line_of(match["where"], number, plain)
        try:
            pattern = _pattern(match["text"], match["re"] is not None)
        except (ValueError, GeError) as e:
            text = f"{e.message}; {e.hint}".removesuffix("; ") if isinstance(e, GeError) else str(e)
            wrong.append(Diagnostic(Severity.ERROR, text, location))
            continue
        kind = Severity(match["kind"])
        expected.append(Expectation(kind, pattern, match["text"], line, location))
    return expected, wrong


def _line_of(where: str | None, number: int, plain: Sequence[int]) -> int:
    """The line that a comment on line `number` means; `plain` are those without a comment."""
    match where:
        case None:
            return number
        case "unknown":
            return 0
        case "above":
            return max((n for n in plain if n < number), default=0)
        case "below":
            return min((n for n in plain if n > number), default=0)
        case offset:
            return number + int(offset)


def mismatches(
    source: SourceText, diagnostics: Sequence[Diagnostic], level: str = ALL
) -> list[Diagnostic]:
    """Return diagnostics that were not expected, if the level is `all`, and expectations that no
    diagnostic met."""
    expected, wrong = expectations(source)
    for diagnostic in (d for top in diagnostics for d in (top, *top.notes)):
        matching = [e for e in expected if e.matches(diagnostic, source.name)]
        kind = diagnostic.severity
        alike = [e for e in matching if e.severity is kind]
        for e in alike:
            e.was_produced = True
        if not alike and level == ALL:
            other = f" (a comment expects a {matching[0].severity})" if matching else ""
            message = f"unexpected {kind}{other}: {diagnostic.message}"
            wrong.append(Diagnostic(Severity.ERROR, message, diagnostic.location))
    for e in expected:
        if not e.was_produced:
            message = f'expected {e.severity} "{e.text}" was not produced'
            wrong.append(Diagnostic(Severity.ERROR, message, e.location))
    return wrong


def check_roundtrip(ctx: Context, module: ModuleOp) -> None:
    """Raises GeError where a printed form cannot be read, or gives another module."""
    whole = op_text(module, generic=True, debuginfo=True)
    for form, generic in (("custom", False), ("generic", True)):
        text = op_text(module, generic=generic, debuginfo=True)
        try:
            again = parse_module(ctx, SourceText(f"<{form} form>", text))
        except ParseError as e:
            error = diagnose(e)
            line = text.split("\n")[max(error.location.line - 1, 0)].strip()
            raise GeError(
                f"the {form} form of this module cannot be read back: {error.message}",
                notes=[f"the line is: {line}"],
            ) from e
        for old, new in zip(module.walk(), again.walk(), strict=False):
            if old.location == UNKNOWN_LOC:  # else it is where the new one stands in the text
                new.location = UNKNOWN_LOC
        after = op_text(again, generic=True, debuginfo=True)
        if after != whole:
            lines = zip_longest(whole.split("\n"), after.split("\n"), fillvalue="")
            was, became = next((a, b) for a, b in lines if a != b)
            raise GeError(
                f"the {form} form of this module is read back as another one",
                notes=[f"it was: {was.strip()}", f"it became: {became.strip()}"],
            )
