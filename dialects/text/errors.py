"""Exception -> diagnostic -> text: one clear message, its location, the source line and a caret."""

import re
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import (
    DiagnosticException,
    MultipleSpansParseError,
    ParseError,
)
from xdsl.utils.lexer import Span

from ge.dialects.support.diagnostics import (
    UNSEEN,
    Diagnostic,
    Severity,
    SourceLocation,
    location_of,
    visible,
)
from ge.dialects.support.environment import debugging
from ge.dialects.support.errors import GeError
from ge.dialects.support.streams import error_stream
from ge.dialects.text.look import When, coloured, plain, wanted
from ge.dialects.text.printing import head_text
from ge.dialects.text.reading import SourceText, describe

# Function -> its local variable that holds the op an exception is about
BLAMED = {
    "verify": "self",
    "verify_": "self",
    "infer": "self",
    "emit_error": "self",
    "match_and_rewrite": "op",
}

LONGEST = 4000  # characters of a line of a message

PLUGIN = "ge_plugin_"  # what the names of the modules of plugin files begin with

# The beginning of the note of an exception that names the file which repeats it
REPRODUCER = "reproducer: "

CONTEXT = re.compile(r"(in|after) pass '.*'")  # the note that says which pass was running

PLACE = re.compile(r"^(?P<file>.*?):(?P<line>\d+)(?::(?P<column>\d+))?$")


class Sources:
    """The texts that diagnostics point into; files that were not given are read when needed."""

    def __init__(self, *sources: SourceText) -> None:
        self._lines: dict[str, list[str]] = {}
        for source in sources:
            self.add(source)

    def add(self, source: SourceText) -> None:
        self._lines[source.name] = source.text.split("\n")

    def line(self, location: SourceLocation) -> str | None:
        """The text of the line at a location, None when the file or the line is not there."""
        if not location.line:
            return None
        if location.file not in self._lines:
            try:
                path = Path(location.file)
                self.add(
                    SourceText(location.file, path.read_text("utf-8") if path.is_file() else "")
                )
            except (OSError, ValueError, MemoryError):
                self._lines[location.file] = []
        lines = self._lines[location.file]
        return lines[location.line - 1].rstrip("\r") if 0 < location.line <= len(lines) else None

    def render(self, diagnostic: Diagnostic, colours: bool = False) -> str:
        """The diagnostic, its notes, and the source lines that they point to."""
        paint = coloured if colours else plain
        lines = [_shortened(visible(line)) for line in diagnostic.message.split("\n")]
        place, kind = str(diagnostic.location), diagnostic.severity
        head = f"{paint(_shortened(visible(place)) + ': ', 'place')}" if place else ""
        message = "\n".join(lines) if kind is Severity.NOTE else paint("\n".join(lines), "message")
        out = [f"{head}{paint(f'{kind}: ', kind)}{message}"]
        location = diagnostic.location
        if location.file and (line := self.line(location)) is not None:
            clean = UNSEEN.sub(lambda m: m[0] if m[0] == "\t" else "\ufffd", line)
            shown, column = _window(clean, location.column)
            blanks = re.sub(r"[^\t]", " ", shown[: max(column - 1, 0)])
            out += [shown, blanks + paint("^", "caret")]
        out += [self.render(note, colours) for note in diagnostic.notes]
        return "\n".join(out)


def _shortened(line: str) -> str:
    half = LONGEST // 2
    return line if len(line) <= LONGEST else f"{line[:half]} ... {line[-half:]}"


def _window(line: str, column: int, width: int = 160) -> tuple[str, int]:
    """The part of a long line around a column, and the column in it."""
    if len(line) <= width:
        return line, column
    start = max(0, min(column - width // 2, len(line) - width))
    left, right = ("..." if start else ""), ("..." if start + width < len(line) else "")
    return f"{left}{line[start : start + width]}{right}", column - start + len(left)


def _frames(error: BaseException) -> Iterator[FrameType]:
    frames = list[FrameType]()
    entry = error.__traceback__
    while entry is not None:
        frames.append(entry.tb_frame)
        entry = entry.tb_next
    return reversed(frames)


def blamed_op(error: BaseException) -> Operation | None:
    """The op that was verified, inferred or rewritten when the exception arose."""
    for frame in _frames(error):
        variable = BLAMED.get(frame.f_code.co_name)
        op = frame.f_locals.get(variable) if variable is not None else None
        if isinstance(op, Operation):
            return op
    return None


def _root(error: BaseException) -> BaseException:
    """The verifier's exception, where printing the module around it failed in its turn."""
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, DiagnosticException):
            return current
        current = current.__context__
    return error


def _location_of_span(span: "Span[str] | Span[bytes]") -> SourceLocation:
    text = span.input.content
    if span.start >= len(text):
        end = len(text.rstrip())
        span = Span(end, end, span.input)  # pyright: ignore[reportArgumentType, reportAssignmentType]
    return SourceLocation(*span.get_location())


def _from_parse_error(error: ParseError) -> Diagnostic:
    notes = ()
    if isinstance(error, MultipleSpansParseError):
        notes = tuple(
            Diagnostic(Severity.NOTE, text or error.ref_text or "", _location_of_span(span))
            for span, text in error.refs
        )
    message = " ".join(error.msg.split("\n")).strip()
    return Diagnostic(Severity.ERROR, message, _location_of_span(error.span), notes)


def _from_ge_error(error: GeError, context: str) -> Diagnostic:
    message = f"{error.message}; {error.hint}" if error.hint else error.message
    notes = tuple(
        n if isinstance(n, Diagnostic) else Diagnostic(Severity.NOTE, n) for n in error.notes
    )
    op = blamed_op(error)
    if context and (not error.where or context.startswith("after")):
        message = f"{message} ({context})"
    if not error.where:
        location = location_of(op) if op is not None else SourceLocation()
        return Diagnostic(Severity.ERROR, message, location, notes)
    if (match := PLACE.match(error.where)) is not None:
        location = SourceLocation(match["file"], int(match["line"]), int(match["column"] or 0))
    else:
        location = SourceLocation(error.where)
    return Diagnostic(Severity.ERROR, message, location, notes)


def is_internal(error: BaseException) -> bool:
    """True if the exception is a bug of ours (or of a plugin) rather than the user's error. An
    error that a verifier raises about an op is the user's, if it says so: ValueError, as xDSL
    does."""
    known = GeError | ParseError | DiagnosticException | OSError | RecursionError | MemoryError
    root = _root(error)
    return not isinstance(root, known) and not (isinstance(root, ValueError) and _in_verifier(root))


def _in_verifier(error: BaseException) -> bool:
    return any(f.f_code.co_name in ("verify", "verify_") for f in _frames(error))


def plugin_location(error: BaseException) -> SourceLocation | None:
    """The innermost line of a plugin that an exception went through."""
    entry, location = error.__traceback__, None
    while entry is not None:
        if str(entry.tb_frame.f_globals.get("__name__", "")).startswith(PLUGIN):
            location = SourceLocation(entry.tb_frame.f_code.co_filename, entry.tb_lineno)
        entry = entry.tb_next
    return location


def diagnose(error: BaseException, context: str = "", notes: bool = True) -> Diagnostic:
    """The diagnostic for any exception. `context` says what was going on: `in pass 'x'`; by default
    the text of a note of the exception."""
    if isinstance(error, ParseError):
        return _from_parse_error(error)
    said_before: list[str] = getattr(error, "__notes__", [])
    context = context or next((n for n in said_before if CONTEXT.fullmatch(n)), "")
    if isinstance(error, GeError):
        return _from_ge_error(error, context)
    if isinstance(error, OSError):
        name = f"'{error.filename}': " if error.filename else ""
        return Diagnostic(Severity.ERROR, f"{name}{error.strerror or error}")
    internal = is_internal(error)
    error = _root(error)
    op = blamed_op(error)
    message = describe(error)
    if internal:
        message = " ".join(f"internal error: {type(error).__name__}: {error}".split())
    elif op is not None and not isinstance(op, ModuleOp):
        message = f"'{op.name}' op {message.removeprefix(f'Operation {op.name} ')}"
    if context:
        message = f"{message} ({context})"
    location = location_of(op) if op is not None else SourceLocation()
    file = next((n for n in said_before if n.startswith(REPRODUCER)), "").removeprefix(REPRODUCER)
    said = _notes(op if context else None, internal, file) if notes else ()
    if notes and internal and (line := plugin_location(error)) is not None:
        said = (*said, Diagnostic(Severity.NOTE, "raised by this line of a plugin", line))
    return Diagnostic(Severity.ERROR, message, location, said)


SEE = "see current operation: "


def with_op(diagnostic: Diagnostic, error: BaseException, wanted: bool | None) -> Diagnostic:
    """The diagnostic of an exception with a note that shows the op in its present state (`wanted`
    is true), or without it (false); None leaves the diagnostic as `diagnose` made it."""
    if wanted is None:
        return diagnostic
    notes = [n for n in diagnostic.notes if not n.message.startswith(SEE)]
    return replace(diagnostic, notes=(*(_see(blamed_op(error)) if wanted else ()), *notes))


def _see(op: Operation | None) -> tuple[Diagnostic, ...]:
    if op is None or isinstance(op, ModuleOp):
        return ()
    try:
        return (Diagnostic(Severity.NOTE, f"{SEE}{head_text(op)}"),)
    except Exception:  # an op that does not verify may not print either
        return ()


def _notes(op: Operation | None, internal: bool, reproducer: str) -> tuple[Diagnostic, ...]:
    """Notes that show the op in its present state (after a pass the source line shows another one)
    and say how to go on."""
    notes: list[str] = []
    if internal:
        again = (
            "ge-opt --mlir-pass-pipeline-crash-reproducer=FILE saves what is needed to repeat it"
        )
        if reproducer:
            again = f"please report it with {reproducer}, which repeats it (ge-opt {reproducer})"
        notes.append(
            "this is a bug in the compiler or a plugin, not in the model: GE_DEBUG=1 prints where, "
            f"and {again}"
        )
    return (*_see(op), *(Diagnostic(Severity.NOTE, text) for text in notes))


def show_traceback(error: BaseException, debug: bool = False) -> None:
    if debug or debugging():
        traceback.print_exception(error, file=error_stream())


def print_error(error: BaseException, tool: str = "", debug: bool = False) -> None:
    """Print an error for people on stderr; `tool: ` before one without a location."""
    show_traceback(error, debug)
    diagnostic = diagnose(error)
    sources = Sources()
    if isinstance(error, ParseError):
        sources.add(SourceText(error.span.input.name, str(error.span.input.content)))
    prefix = f"{tool}: " if tool and not str(diagnostic.location) else ""
    try:
        text = sources.render(diagnostic, wanted(When.AUTO, error_stream()))
    except MemoryError:
        text = f"error: {describe(error)}"
    print(prefix + text, file=error_stream())
