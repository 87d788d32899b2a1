"""Analysis of a text: the things in it, their places, and its errors. The parts between `// -----`
are analysed apart, each from line 1 on, so that a part which has not changed need not be again. The
texts that an editor has open are here as they are now and as they were when they made sense."""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, LocationAttr, ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.utils.exceptions import MultipleSpansParseError, ParseError, VerifyException

from ge.dialects.support.diagnostics import Diagnostic, Severity, SourceLocation, warning_handler
from ge.dialects.support.errors import GeError
from ge.dialects.text.errors import blamed_op, diagnose
from ge.dialects.text.reading import RECURSION_LIMIT, SourceText
from ge.lowering.levels.dominance import dominance_errors, raise_redefinition
from ge.tools.lsp.recording import (
    Cancelled,
    Encoding,
    Extent,
    Index,
    Lines,
    Record,
    RecordingParser,
    TextPosition,
)

if TYPE_CHECKING:
    from ge.tools.lsp.facts import ModuleFacts


MOST_PROBLEMS = 100  # that are reported for one part


@dataclass(frozen=True, slots=True)
class Note:
    """A note of a problem and its place: in this part, or elsewhere."""

    message: str
    extent: Extent | None
    location: SourceLocation


@dataclass(frozen=True, slots=True)
class ChunkProblem:
    """A diagnostic about a place in a part."""

    severity: Severity
    message: str
    extent: Extent
    notes: tuple[Note, ...] = ()


@dataclass(eq=False)
class TextChunk:
    """The text between two lines `// -----`. `module` is None where it cannot be parsed."""

    text: str
    record: Record = field(default_factory=Record)
    module: ModuleOp | None = None
    problems: list[ChunkProblem] = field(default_factory=list[ChunkProblem])
    facts: "ModuleFacts | None" = None  # of the module, once somebody has asked for them

    @cached_property
    def index(self) -> Index:
        return Index(self.text, self.record)

    @cached_property
    def lines(self) -> Lines:
        return Lines(self.text)


@dataclass(eq=False)
class Analysis:
    """A whole text: its parts, and where each begins."""

    text: str
    parts: list[TextChunk]
    starts: list[int]

    @cached_property
    def lines(self) -> Lines:
        return Lines(self.text)


def parts_of(text: str) -> Iterator[tuple[int, str]]:
    """(start, text) of the parts of a text."""
    start = 0
    for part in SourceText("", text).split():
        yield start, part.text
        end = text.find("\n", start + len(part.text))  # of the line between
        start = len(text) if end < 0 else end


def analyse(
    text: str,
    name: str,
    ctx: Context,
    before: Analysis | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Analysis:
    """The analysis of a text that is called `name`; `before` is one of an earlier text, of which
    the parts that are the same are kept. Raises Cancelled as soon as `cancelled` says so."""
    known = {} if before is None else {part.text: part for part in before.parts}
    parts, starts = list[TextChunk](), list[int]()
    for start, part in parts_of(text):
        starts.append(start)
        # each part is one of its own, though two may be alike
        parts.append(known.pop(part, None) or analyse_part(part, name, ctx, cancelled))
    return Analysis(text, parts, starts)


def failed(text: str, error: Exception) -> Analysis:
    """Return the analysis shown of a text whose analysis has failed: that it has, at the first
    line."""
    part = TextChunk(text)
    message = diagnose(error, notes=False).message
    extent = Extent(0, max(len(part.lines.line(0)), 1))
    part.problems.append(ChunkProblem(Severity.ERROR, message, extent))
    return Analysis(text, [part], [0])


def analyse_part(
    text: str, name: str, ctx: Context, cancelled: Callable[[], bool] = lambda: False
) -> TextChunk:
    source = SourceText(name, text)
    part = TextChunk(text)
    if not source.has_code:
        return part
    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))
    try:
        parser = RecordingParser(ctx, source, cancelled)
        part.record = parser.record
        part.module = parser.parse_module()
    except ParseError as error:
        part.problems.append(from_parse_error(error))
    except Exception as error:  # a dialect that cannot be loaded
        part.problems.append(Judge(part, name).problem(diagnose(error), None))
    if part.module is not None:
        part.problems += Judge(part, name).problems(part.module, cancelled)
    return part


def from_parse_error(error: ParseError) -> ChunkProblem:
    def extent(span_start: int, span_end: int) -> Extent:
        text = str(error.span.input.content)
        if span_start >= len(text.rstrip()):  # the end of the file: its last word
            end = len(text.rstrip())
            return Extent(max(end - 1, 0), end)
        return Extent(span_start, max(span_end, span_start + 1))

    notes = ()
    if isinstance(error, MultipleSpansParseError):
        notes = tuple(
            Note(text or error.ref_text or "", extent(span.start, span.end), SourceLocation())
            for span, text in error.refs
        )
    message = " ".join(error.msg.split())
    return ChunkProblem(Severity.ERROR, message, extent(error.span.start, error.span.end), notes)


@dataclass
class Judge:
    """Verifies a part."""

    part: TextChunk
    name: str

    def problems(self, module: ModuleOp, cancelled: Callable[[], bool]) -> list[ChunkProblem]:
        """Return the problems that all verifiers report. Meanwhile each op has its place in this
        text for a location."""
        stated: list[tuple[Operation, LocationAttr]] = []
        for op in self.part.index.numbers:
            if not self.is_own(op.location):
                stated.append((op, op.location))
                op.location = self.location(op)
        found = list[ChunkProblem]()

        def tell(diagnostic: Diagnostic) -> None:
            found.append(self.problem(diagnostic, None))

        try:
            with warning_handler(tell):
                for error in errors_in(module, cancelled):
                    found.append(self.problem(diagnose(error, notes=False), blamed_op(error)))
                    if len(found) >= MOST_PROBLEMS:
                        break
        finally:
            for op, location in stated:
                op.location = location
        return found

    def is_own(self, location: object) -> bool:
        return isinstance(location, FileLineColLoc) and location.filename.data == self.name

    def location(self, op: Operation) -> FileLineColLoc:
        number = self.part.index.numbers[op]
        start = self.part.index.op_name(number).start
        place = self.part.lines.place(start, Encoding.UTF32)
        return FileLineColLoc(
            StringAttr(self.name), IntAttr(place.line + 1), IntAttr(place.column + 1)
        )

    def problem(self, diagnostic: Diagnostic, op: Operation | None) -> ChunkProblem:
        extent = self.part.index.extent_of(op)
        if extent is None:
            extent = self.extent_at(diagnostic.location) or self.first_line()
        notes = tuple(
            Note(note.message, self.extent_at(note.location), note.location)
            for note in diagnostic.notes
        )
        return ChunkProblem(diagnostic.severity, diagnostic.message, extent, notes)

    def extent_at(self, location: SourceLocation) -> Extent | None:
        """Return the extent at a location of this text, None for one elsewhere."""
        if location.file != self.name or not location.line:
            return None
        place = TextPosition(location.line - 1, max(location.column - 1, 0))
        offset = self.part.lines.offset(place, Encoding.UTF32)
        number = self.part.index.op_number(offset)
        if number >= 0:
            extent = self.part.index.op_name(number)
            if extent.has(offset):
                return extent
        return Extent(offset, offset + 1)

    def first_line(self) -> Extent:
        return Extent(0, len(self.part.lines.line(0)))


def errors_in(module: ModuleOp, cancelled: Callable[[], bool]) -> Iterator[Exception]:
    """Yield what verifiers raise about each op; if all ops are well, what is wrong with
    dominance."""
    count = 0
    for op in module.walk():
        if cancelled():
            raise Cancelled
        empty = (b for region in op.regions for b in region.blocks if b.is_empty)
        try:
            op.verify(verify_nested_ops=False)
            for block in empty:
                block.verify()  # whether it lacks a terminator
        except Exception as error:
            count += 1
            yield named(module, error)
    if not count:
        yield from dominance_errors(module)


def named(module: ModuleOp, error: Exception) -> Exception:
    """The error, or for one about a symbol that is defined twice another one, at its op."""
    if isinstance(error, VerifyException):
        try:
            raise_redefinition(module, error)
        except GeError as better:
            return better
    return error


class Change(NamedTuple):
    """New text in place of a part of the old one; of all of it where no places are given."""

    text: str
    start: TextPosition | None = None
    end: TextPosition | None = None


@dataclass(frozen=True, slots=True)
class View:
    """A part of a text, where it begins there, and a place in it. `former` is the part when it
    could be parsed last, if it cannot be now, and `former_at` the same place there."""

    part: TextChunk
    start: int
    at: int
    former: TextChunk | None = None
    former_at: int | None = None  # None in what has been changed

    def from_former(self, extent: Extent) -> Extent | None:
        """Return where something of the former part stands now; None for what has been changed."""
        if self.former is None:
            return None
        start = same_place(self.former.text, self.part.text, extent.start)
        end = same_place(self.former.text, self.part.text, extent.end)
        return None if start is None or end is None else Extent(start, end)


@dataclass(eq=False)
class Document:
    """A text by the name of its file. `generation` counts its changes: an analysis of an earlier
    one is of no use."""

    name: str
    version: int | None
    text: str
    generation: int = 0
    analysis: Analysis | None = None  # the newest, maybe of an earlier text
    formers: dict[int, TextChunk] = field(default_factory=dict[int, TextChunk])
    """Of each part, by its number, how it was when it could be parsed last."""
    lines: Lines = field(init=False)

    def __post_init__(self) -> None:
        self.lines = Lines(self.text)

    def change(self, changes: Iterable[Change], encoding: Encoding, version: int | None) -> None:
        """Apply changes one after the other. Places outside of the text are its nearest ones."""
        for change in changes:
            if change.start is None or change.end is None:
                self.text = change.text
            else:
                start = self.lines.offset(change.start, encoding)
                end = max(start, self.lines.offset(change.end, encoding))
                self.text = self.text[:start] + change.text + self.text[end:]
            self.lines = Lines(self.text)
        self.version = version
        self.generation += 1

    def outdated(self) -> Callable[[], bool]:
        """Return a function that says whether the text has changed since now."""
        generation = self.generation
        return lambda: self.generation != generation

    def accept(self, analysis: Analysis) -> None:
        """Keep an analysis, and of it what could be parsed."""
        self.analysis = analysis
        for number, part in enumerate(analysis.parts):
            if part.module is not None:
                self.formers[number] = part
        for number in [n for n in self.formers if n >= len(analysis.parts)]:
            del self.formers[number]

    @property
    def is_analysed(self) -> bool:
        return self.analysis is not None and self.analysis.text is self.text

    def view(self, offset: int) -> View:
        """The part at an offset. Where the analysis is of an earlier text, it knows the text
        alone."""
        if self.analysis is not None and self.is_analysed:
            starts, parts = self.analysis.starts, self.analysis.parts
        else:
            pieces = list(parts_of(self.text))
            starts, parts = [s for s, _ in pieces], [TextChunk(t) for _, t in pieces]
        number = max((i for i, start in enumerate(starts) if start <= offset), default=0)
        part, start = parts[number], starts[number]
        former = self.formers.get(number)
        if former is None or former is part:
            return View(part, start, offset - start)
        at = same_place(part.text, former.text, offset - start)
        return View(part, start, offset - start, former, at)


def same_place(text: str, other: str, offset: int) -> int | None:
    """Return where an offset of a text is in another one that is mostly the same: counted from the
    start if it stands before what differs, from the end behind it; None in between."""
    prefix = common_prefix(text, other)
    if offset <= prefix:
        return offset
    rest = min(len(text), len(other)) - prefix
    suffix = common_prefix(text[: -rest - 1 : -1], other[: -rest - 1 : -1]) if rest else 0
    return offset - len(text) + len(other) if offset >= len(text) - suffix else None


def near_place(text: str, other: str, offset: int) -> int:
    """The same, and in between where the other text begins to differ."""
    place = same_place(text, other, offset)
    return common_prefix(text, other) if place is None else place


def common_prefix(one: str, other: str) -> int:
    """The length of what two texts begin with alike, by bisection: comparing slices is fast."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
