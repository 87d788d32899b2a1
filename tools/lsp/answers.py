"""The answers to an editor's questions about one text."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lsprotocol import types as lsp
from xdsl.context import Context

from ge.tools.lsp.actions import Edit, edits_for, formatted
from ge.tools.lsp.analysis import TextChunk
from ge.tools.lsp.completion import Completer
from ge.tools.lsp.documents import Document, View, near_place
from ge.tools.lsp.hover import Hover, Hovers
from ge.tools.lsp.navigation import (
    definition_at,
    folds_of,
    hints_in,
    references_at,
    sources_at,
    symbols_of,
)
from ge.tools.lsp.positions import Extent, Lines, TextPosition
from ge.tools.lsp.translation import Translation


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
        """(start, part) of those that have been analysed as they are."""
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
        """Where the name at a place is defined; of the name of an op, where the op comes from."""
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
