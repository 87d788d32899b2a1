"""Diagnostics: an error, a warning, a remark or a note about a source location.

Passes call `warning` and `remark`; the handler in use (of `ge-opt`, a test, the compiler's log)
decides what happens to it. To fail, raise GeError, or VerifyException / PassFailedException through
`op.emit_error`.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import StrEnum

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    NameLoc,
    StringAttr,
)
from xdsl.ir import Attribute, Operation

from ge.dialects.support.context import at_hand, having
from ge.dialects.support.errors import GeError
from ge.dialects.support.remark_kinds import RemarkKind
from ge.dialects.support.streams import error_stream


class Severity(StrEnum):
    """Only an error fails."""

    ERROR = "error"
    WARNING = "warning"
    REMARK = "remark"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A location in a text file, or the name that a model gives to a node. Lines and columns
    count from 1; 0 stands for unknown."""

    file: str = ""
    line: int = 0
    column: int = 0
    name: str = ""

    def __str__(self) -> str:
        if self.file:
            return ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        return f'loc("{self.name}")' if self.name else ""


@dataclass(frozen=True, slots=True)
class RemarkFacts:
    """Subject of a remark. `us`: microseconds, by an estimate, that were won by what passed, or are
    lost by what was missed; None: there is no estimate. Names are empty where there is none."""

    kind: RemarkKind = RemarkKind.ANALYSIS
    rule: str = ""
    why: str = ""  # without rule, kind and time
    us: float | None = None
    running: str = ""  # the pass
    function: str = ""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A message to the user: `file:1:2: error: message`; `remark` is of remarks alone."""

    severity: Severity
    message: str
    location: SourceLocation = SourceLocation()
    notes: "tuple[Diagnostic, ...]" = ()
    remark: RemarkFacts | None = None

    def __str__(self) -> str:
        location = f"{self.location}: " if str(self.location) else ""
        return f"{location}{self.severity}: {self.message}"


def read_location(location: Attribute) -> SourceLocation | None:
    """The source location that a location attribute states, a file rather than a name; None if
    unknown."""
    match location:
        case FileLineColLoc():
            return SourceLocation(location.filename.data, location.line.data, location.column.data)
        case NameLoc():
            inner = read_location(location.location)
            name = location.desc.data
            if inner is None or not inner.file:
                return SourceLocation(name=name)
            return SourceLocation(inner.file, inner.line, inner.column, name)
        case CallSiteLoc():
            return read_location(location.callee) or read_location(location.caller)
        case FusedLoc(locations=ArrayAttr() as parts):  # pyright: ignore[reportUnknownVariableType]
            locations = [p for part in parts if (p := read_location(part)) is not None]  # pyright: ignore
            return next((p for p in locations if p.file), locations[0] if locations else None)
        case _:
            return None


def location_of(op: Operation) -> SourceLocation:
    """The location of an op, or else of the nearest op around it."""
    current: Operation | None = op
    while current is not None:
        if (location := read_location(current.location)) is not None:
            return location
        current = current.parent_op()
    return SourceLocation()


def sources_of(op: Operation) -> list[str]:
    """The names of the nodes of the model that an op came from, or places in a text."""
    return list(dict.fromkeys(_sources(op.location)))


def _sources(location: Attribute) -> Iterator[str]:
    match location:
        case NameLoc():
            yield location.desc.data
        case FusedLoc(locations=ArrayAttr() as parts):  # pyright: ignore[reportUnknownVariableType]
            for part in parts:
                yield from _sources(part)
        case _:
            if (place := read_location(location)) is not None:
                yield place.name or str(place)


Handler = Callable[[Diagnostic], None]


@dataclass(frozen=True)
class Listeners:
    """Handlers of warnings and remarks, and the name of the pass that runs."""

    warnings: Handler | None = None
    remarks: Handler | None = None
    running: str = ""


NOBODY = Listeners()


def listeners() -> Listeners:
    return at_hand(Listeners) or NOBODY


def diagnostic_handler(handler: Handler) -> AbstractContextManager[Listeners]:
    """Within the context `handler` gets the warnings and remarks."""
    return having(replace(listeners(), warnings=handler, remarks=handler))


def warning_handler(handler: Handler) -> AbstractContextManager[Listeners]:
    """Within the context `handler` gets the warnings. Remarks, which take time, are not made."""
    return having(replace(listeners(), warnings=handler, remarks=None))


def without_remarks() -> AbstractContextManager[Listeners]:
    """Within the context remarks are not made: of work that is done twice."""
    return having(replace(listeners(), remarks=None))


def running(name: str) -> AbstractContextManager[Listeners]:
    """Within the context remarks are of the pass of that name."""
    return having(replace(listeners(), running=name))


def listening() -> bool:
    """True if remarks have a handler: ask before composing a costly one."""
    return listeners().remarks is not None


def emit(severity: Severity, op: Operation, message: str, *notes: Diagnostic) -> None:
    if (handler := listeners().warnings) is not None:
        handler(Diagnostic(severity, message, location_of(op), notes))


def warning(op: Operation, message: str) -> None:
    emit(Severity.WARNING, op, message)


def remark(op: Operation, message: str, about: RemarkFacts | None = None) -> None:
    """Tell of an op; without `about` it is an analysis."""
    found = listeners()
    if found.remarks is not None:
        facts = RemarkFacts(why=message) if about is None else about
        facts = replace(facts, running=found.running, function=function_around(op))
        found.remarks(Diagnostic(Severity.REMARK, message, location_of(op), remark=facts))


def function_around(op: Operation) -> str:
    """The name of the function, or kernel, that an op is in or is; empty where there is none."""
    current: Operation | None = op
    while current is not None:
        name = current.properties.get("sym_name")
        if isinstance(name, StringAttr):
            return name.data
        current = current.parent_op()
    return ""


# controls, marks of direction and other ends of lines
UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """The text on one line; characters that would steer the terminal are escaped."""
    return UNSEEN.sub(lambda m: ascii(m[0])[1:-1], text)


SHOWN = 5


def listing(things: Sequence[object], most: int = SHOWN, between: str = "; ") -> str:
    """The first things of a list, at most so many, and how many more there are."""
    more = [f"and {len(things) - most} more"] if len(things) > most else []
    return between.join([*map(str, things[:most]), *more])


NAMED = 20


def names_text(names: Iterable[str], most: int = NAMED) -> str:
    """Names in quotes, each once, at most so many, and how many more there are."""
    return listing([f"'{name}'" for name in dict.fromkeys(names)], most, ", ") or "none"


def print_diagnostic(diagnostic: Diagnostic) -> None:
    """Print a diagnostic in one line on standard error; with `--quiet`, errors alone."""
    is_error = diagnostic.severity is Severity.ERROR
    print(diagnostic, file=error_stream() if is_error else sys.stderr)


def error_at(op: Operation, message: str, hint: str = "") -> GeError:
    return GeError(message, str(location_of(op)), hint)
