"""The answers to an editor's questions about one text, in the protocol's words: places, ranges,
diagnostics. And the edits that it is offered: for a diagnostic the comment that expects it, or what
may be meant; and the text as the printer would write it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lsprotocol import types as lsp
from pygls.uris import from_fs_path
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ge.dialects.support.diagnostics import Severity
from ge.dialects.text.printing import op_text
from ge.tools.lsp.analysis import (
    Analysis,
    Change,
    ChunkProblem,
    Document,
    Note,
    TextChunk,
    View,
    near_place,
)
from ge.tools.lsp.completion import Completer, Proposal, Sort
from ge.tools.lsp.hover import Hover, Hovers
from ge.tools.lsp.navigation import (
    LineIn,
    Symbol,
    definition_at,
    folds_of,
    hints_in,
    references_at,
    sources_at,
    symbols_of,
)
from ge.tools.lsp.recording import TOKEN, Encoding, Extent, Lines, TextPosition

MEANT = re.compile(r"did you mean '(?P<name>[^']+)'")


class Edit(NamedTuple):
    """New text in place of a part, and what that is good for."""

    title: str
    extent: Extent
    text: str


def edits_for(part: TextChunk, problem: ChunkProblem) -> Iterator[Edit]:
    """The edits for a diagnostic of a part."""
    if (match := MEANT.search(problem.message)) is not None:
        yield Edit(f"Replace by '{match['name']}'", problem.extent, match["name"])
    line = part.text.rfind("\n", 0, problem.extent.start) + 1
    indent = re.match(r"[ \t]*", part.text[line : problem.extent.start])
    blank = "" if indent is None else indent[0]
    kind = problem.severity.value
    comment = f"{blank}// expected-{kind}@+1 {{{{{problem.message}}}}}\n"
    yield Edit(f'Insert "expected-{kind}" for this diagnostic', Extent(line, line), comment)


def formatted(part: TextChunk) -> str | None:
    """A part as the printer writes it; None where it cannot be parsed, or has comments, which no
    module keeps."""
    if part.module is None or any(m[0].startswith("//") for m in TOKEN.finditer(part.text)):
        return None
    if isinstance(part.record.ops[0].op, ModuleOp):
        return op_text(part.module) + "\n"
    return "".join(op_text(op) + "\n" for op in part.module.ops)


SEVERITIES = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.REMARK: lsp.DiagnosticSeverity.Information,
    Severity.NOTE: lsp.DiagnosticSeverity.Information,
}

SORTS = {
    Sort.OP: lsp.CompletionItemKind.Function,
    Sort.DIALECT: lsp.CompletionItemKind.Module,
    Sort.ATTRIBUTE: lsp.CompletionItemKind.Property,
    Sort.WORD: lsp.CompletionItemKind.Keyword,
    Sort.VALUE: lsp.CompletionItemKind.Variable,
    Sort.BLOCK: lsp.CompletionItemKind.Reference,
    Sort.SYMBOL: lsp.CompletionItemKind.Function,
    Sort.TYPE: lsp.CompletionItemKind.TypeParameter,
}

SOURCE = "ge"


def place_of(position: lsp.Position) -> TextPosition:
    return TextPosition(position.line, position.character)


def change_of(change: lsp.TextDocumentContentChangeEvent) -> Change:
    if isinstance(change, lsp.TextDocumentContentChangePartial):
        return Change(change.text, place_of(change.range.start), place_of(change.range.end))
    return Change(change.text)


@dataclass(frozen=True)
class Translation:
    """Into places as a client counts them, and texts as it can show them."""

    encoding: Encoding
    hover: lsp.MarkupKind = lsp.MarkupKind.PlainText
    proposed: lsp.MarkupKind | None = None

    @classmethod
    def of(cls, encoding: str | None, client: lsp.ClientCapabilities) -> "Translation":
        """Return the forms that a client asks for."""
        texts = client.text_document
        hover = None if texts is None or texts.hover is None else texts.hover.content_format
        proposed = None
        if texts is not None and texts.completion is not None:
            item = texts.completion.completion_item
            proposed = None if item is None else item.documentation_format
        item_kind = None if proposed is None else best_of(proposed)
        return cls(Encoding(encoding or Encoding.UTF16), best_of(hover), item_kind)

    def position(self, lines: Lines, offset: int) -> lsp.Position:
        return lsp.Position(*lines.place(offset, self.encoding))

    def range(self, lines: Lines, extent: Extent) -> lsp.Range:
        return lsp.Range(self.position(lines, extent.start), self.position(lines, extent.end))

    # ---- diagnostics -------------------------------------------------------------------------

    def diagnostics(
        self, uri: str, version: int | None, analysis: Analysis
    ) -> lsp.PublishDiagnosticsParams:
        found = [
            self.diagnostic(uri, analysis.lines, start, part, problem)
            for part, start in zip(analysis.parts, analysis.starts, strict=True)
            for problem in part.problems
        ]
        return lsp.PublishDiagnosticsParams(uri, found, version)

    def diagnostic(
        self, uri: str, lines: Lines, start: int, part: TextChunk, problem: ChunkProblem
    ) -> lsp.Diagnostic:
        extent = problem.extent.moved(start)
        return lsp.Diagnostic(
            self.range(lines, extent),
            problem.message,
            SEVERITIES[problem.severity],
            source=SOURCE,
            related_information=[
                self.related(uri, lines, start, note, extent) for note in problem.notes
            ],
        )

    def related(
        self, uri: str, lines: Lines, start: int, note: Note, of: Extent
    ) -> lsp.DiagnosticRelatedInformation:
        """Return a note, at the place of the problem if it has none."""
        if note.extent is None and note.location.file and note.location.line:
            file = LineIn.of(note.location)
            return lsp.DiagnosticRelatedInformation(self.line_in(file), note.message)
        extent = of if note.extent is None else note.extent.moved(start)
        location = lsp.Location(uri, self.range(lines, extent))
        return lsp.DiagnosticRelatedInformation(location, note.message)

    # ---- places ------------------------------------------------------------------------------

    def line_in(self, line: LineIn) -> lsp.Location:
        """A place in another file, whose text is not read: columns count characters."""
        position = lsp.Position(line.line - 1, line.column - 1)
        uri = from_fs_path(str(line.file)) or str(line.file)
        return lsp.Location(uri, lsp.Range(position, position))

    # ---- outline and proposals ---------------------------------------------------------------

    def symbol(self, lines: Lines, start: int, symbol: Symbol) -> lsp.DocumentSymbol:
        kind = lsp.SymbolKind.Namespace if symbol.children else lsp.SymbolKind.Function
        return lsp.DocumentSymbol(
            symbol.name or symbol.detail,
            kind,
            self.range(lines, symbol.extent.moved(start)),
            self.range(lines, symbol.name_extent.moved(start)),
            symbol.detail,
            children=[self.symbol(lines, start, child) for child in symbol.children],
        )

    def documentation(self, text: str) -> lsp.MarkupContent | str | None:
        return text or None if self.proposed is None else lsp.MarkupContent(self.proposed, text)

    def proposal(self, lines: Lines, start: int, proposal: Proposal) -> lsp.CompletionItem:
        return lsp.CompletionItem(
            proposal.text,
            kind=SORTS[proposal.sort],
            detail=proposal.detail or None,
            documentation=self.documentation(proposal.more),
            filter_text=proposal.text,
            text_edit=lsp.TextEdit(self.range(lines, proposal.extent.moved(start)), proposal.text),
        )


def best_of(kinds: Sequence[lsp.MarkupKind] | None) -> lsp.MarkupKind:
    """Markdown, where a client shows it; else it is sent as plain text, which it is, too."""
    shows = kinds is not None and lsp.MarkupKind.Markdown in kinds
    return lsp.MarkupKind.Markdown if shows else lsp.MarkupKind.PlainText


@dataclass
class Answers:
    """Of `document`, in the client's terms. A place in a text that cannot be parsed is looked up in
    the text as it was when it could be."""

    document: Document
    uri: str
    translation: Translation
    ctx: Context
    target: str = ""

    @property
    def lines(self) -> Lines:
        return self.document.lines

    def offset(self, place: TextPosition) -> int:
        return self.lines.offset(place, self.translation.encoding)

    def view(self, place: TextPosition) -> View:
        return self.document.view(self.offset(place))

    def range(self, view: View, extent: Extent) -> lsp.Range:
        return self.translation.range(self.lines, extent.moved(view.start))

    def parts(self) -> Iterator[tuple[int, TextChunk]]:
        """Yield (start, part) of those whose present text has been analysed."""
        analysis = self.document.analysis
        if analysis is not None and self.document.is_analysed:
            yield from zip(analysis.starts, analysis.parts, strict=True)

    # ---- at a place --------------------------------------------------------------------------

    def hover(self, view: View) -> lsp.Hover | None:
        found = self.hovers(view.part).at(view.at)
        if view.part.module is None and view.former is not None and view.former_at is not None:
            before = self.hovers(view.former).at(view.former_at)
            extent = None if before is None else view.from_former(before.extent)
            if before is not None and extent is not None:
                found = Hover(before.text, extent)
        if found is None:
            return None
        text = lsp.MarkupContent(self.translation.hover, found.text)
        return lsp.Hover(text, self.range(view, found.extent))

    def hovers(self, part: TextChunk) -> Hovers:
        return Hovers(part, self.ctx, self.document.name, self.target)

    def definition(self, view: View) -> list[lsp.Location]:
        """Return where the name at a place is defined; of the name of an op, where the op comes
        from."""
        extent = definition_at(view.part, view.at)
        if extent is None and view.former is not None and view.former_at is not None:
            before = definition_at(view.former, view.former_at)
            extent = None if before is None else view.from_former(before)
        if extent is not None:
            return [lsp.Location(self.uri, self.range(view, extent))]
        return self.sources(view)

    def sources(self, view: View) -> list[lsp.Location]:
        """The lines of other files that the op at a place comes from."""
        folder = Path(self.document.name).parent
        lines = sources_at(view.part, view.at, folder)
        if not lines and view.former is not None and view.former_at is not None:
            lines = sources_at(view.former, view.former_at, folder)
        here = Path(self.document.name)
        return [self.translation.line_in(line) for line in lines if line.file != here]

    def references(self, view: View, with_definition: bool) -> list[lsp.Location]:
        found = references_at(view.part, view.at, with_definition)
        return [lsp.Location(self.uri, self.range(view, extent)) for extent in found]

    def highlights(self, view: View) -> list[lsp.DocumentHighlight]:
        found = references_at(view.part, view.at)
        return [lsp.DocumentHighlight(self.range(view, extent)) for extent in found]

    def completion(self, view: View) -> lsp.CompletionList:
        near = 0
        if view.former is not None:
            near = near_place(view.part.text, view.former.text, view.at)
        completer = Completer(view.part, self.ctx, view.former, near)
        items = [
            self.translation.proposal(self.lines, view.start, proposal)
            for proposal in completer.at(view.at)
        ]
        return lsp.CompletionList(False, items)

    # ---- of the whole text -------------------------------------------------------------------

    def symbols(self) -> list[lsp.DocumentSymbol]:
        return [
            self.translation.symbol(self.lines, start, symbol)
            for start, part in self.parts()
            for symbol in symbols_of(part)
        ]

    def folds(self) -> list[lsp.FoldingRange]:
        return [
            lsp.FoldingRange(above + first, above + last)
            for start, part in self.parts()
            for above in [self.document.text.count("\n", 0, start)]
            for first, last in folds_of(part)
        ]

    def hints(self, wanted: lsp.Range) -> list[lsp.InlayHint]:
        first = self.offset(TextPosition(wanted.start.line, wanted.start.character))
        last = self.offset(TextPosition(wanted.end.line, wanted.end.character))
        return [
            lsp.InlayHint(
                self.translation.position(self.lines, start + at),
                text,
                lsp.InlayHintKind.Type,
            )
            for start, part in self.parts()
            for at, text in hints_in(part, Extent(first - start, last - start))
        ]

    def actions(self, wanted: lsp.Range) -> list[lsp.CodeAction]:
        """The edits for the diagnostics that a selection touches."""
        first = self.offset(TextPosition(wanted.start.line, wanted.start.character))
        last = self.offset(TextPosition(wanted.end.line, wanted.end.character))
        return [
            self.action(start, part, number, edit)
            for start, part in self.parts()
            for number, problem in enumerate(part.problems)
            if problem.extent.moved(start).start <= last
            and first <= problem.extent.moved(start).end
            for edit in edits_for(part, problem)
        ]

    def action(self, start: int, part: TextChunk, number: int, edit: Edit) -> lsp.CodeAction:
        change = lsp.TextEdit(
            self.translation.range(self.lines, edit.extent.moved(start)), edit.text
        )
        return lsp.CodeAction(
            edit.title,
            lsp.CodeActionKind.QuickFix,
            [self.translation.diagnostic(self.uri, self.lines, start, part, part.problems[number])],
            edit=lsp.WorkspaceEdit({self.uri: [change]}),
        )

    def formatted(self) -> list[lsp.TextEdit]:
        """The parts as the printer writes them, those left alone that it cannot keep whole."""
        edits = list[lsp.TextEdit]()
        for start, part in self.parts():
            text = formatted(part)
            if text is not None:
                begin = len(part.text) - len(part.text.lstrip())
                extent = Extent(begin, len(part.text)).moved(start)
                if part.text[begin:] != text:
                    edits.append(lsp.TextEdit(self.translation.range(self.lines, extent), text))
        return edits
