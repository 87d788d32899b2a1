"""Between the protocol's words and ours: places, ranges, diagnostics."""

from collections.abc import Sequence
from dataclasses import dataclass

from lsprotocol import types as lsp
from pygls.uris import from_fs_path

from ge.dialects.support.diagnostics import Severity
from ge.tools.lsp.analysis import Analysis, ChunkProblem, Note, TextChunk
from ge.tools.lsp.completion import Proposal, Sort
from ge.tools.lsp.documents import Change
from ge.tools.lsp.navigation import LineIn, Symbol
from ge.tools.lsp.positions import Encoding, Extent, Lines, TextPosition

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


def uri_of(path: str) -> str:
    return from_fs_path(path) or path


@dataclass(frozen=True)
class Translation:
    """Into places as a client counts them, and texts as it can show them."""

    encoding: Encoding
    hover: lsp.MarkupKind = lsp.MarkupKind.PlainText
    proposed: lsp.MarkupKind | None = None

    @classmethod
    def of(cls, encoding: str | None, client: lsp.ClientCapabilities) -> "Translation":
        """What a client asks for."""
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
        """A note, at the place of the problem where it has none."""
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
        return lsp.Location(uri_of(str(line.file)), lsp.Range(position, position))

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
