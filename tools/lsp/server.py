"""The language server: pygls's protocol around the documents, which requests it answers and how,
and a thread that analyses the documents.

A change cancels the analysis of the text before it and starts another one after a pause. Requests
wait for the analysis of the text as it is, but not long; then they are answered from the last
one."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, default_converter, lsp_method
from pygls.uris import to_fs_path
from xdsl.context import Context

from ge.dialects.support.distribution import version
from ge.lowering.driver.context import context
from ge.tools.lsp.analysis import Analysis, Document, View, analyse, failed
from ge.tools.lsp.answers import Answers, Translation, change_of, place_of
from ge.tools.lsp.recording import Cancelled

Result = TypeVar("Result")

STACK = 256 << 20  # bytes of a thread's stack: texts may be nested deeply

PATIENCE = 5.0  # seconds that a request waits for the analysis of the newest text

LESS_PATIENCE = 0.3  # while somebody types

SHORT = 0.1  # seconds; a text that was analysed in less time is so at once after a change


@dataclass(frozen=True)
class Settings:
    """Settings of a server: plug-in files, a target instead of those that modules name, seconds
    between the last change of a text and its analysis, and whether unknown ops are accepted."""

    plugins: tuple[str, ...] = ()
    target: str = ""
    pause: float = 0.2
    allow_unregistered: bool = False

    def context(self) -> Context:
        ctx = context(self.plugins)
        ctx.allow_unregistered = self.allow_unregistered
        return ctx


class AtPlace(Protocol):
    """The parameters of a request about a place in a text."""

    text_document: lsp.TextDocumentIdentifier
    position: lsp.Position


class ServerProtocol(LanguageServerProtocol):
    """pygls's, but for its own copies of the texts: those are the server's."""

    def _feature(self, name: str, params: object) -> Any:
        features = cast(dict[str, Any], self.fm.features)  # pyright: ignore[reportUnknownMemberType]
        return features[name], (params,), None

    @lsp_method(lsp.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: lsp.DidOpenTextDocumentParams) -> Any:
        yield self._feature(lsp.TEXT_DOCUMENT_DID_OPEN, params)

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: lsp.DidChangeTextDocumentParams) -> Any:
        yield self._feature(lsp.TEXT_DOCUMENT_DID_CHANGE, params)

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: lsp.DidCloseTextDocumentParams) -> Any:
        yield self._feature(lsp.TEXT_DOCUMENT_DID_CLOSE, params)


class Server(LanguageServer):
    """One client, and the texts that it has open."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            "ge-lsp",
            version(),
            protocol_cls=ServerProtocol,
            converter_factory=default_converter,
        )
        self.settings = settings
        self.documents: dict[str, Document] = {}
        self.was_shut_down = False
        self._analysed: dict[str, asyncio.Event] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._seconds: dict[str, float] = {}  # that the last analysis took
        threading.stack_size(STACK)
        # Two threads, each with dialects of its own: a question need not wait for an analysis.
        self._analyst, self._clerk = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._analyst_ctx, self.clerk_ctx = settings.context(), settings.context()

    @property
    def translation(self) -> Translation:
        """Into what the client asks for."""
        return Translation.of(self.workspace.position_encoding, self.client_capabilities)

    # ---- texts -------------------------------------------------------------------------------

    def open(self, document: lsp.TextDocumentItem) -> None:
        self.close(document.uri)  # a client that opens a text twice means the newer one
        name = to_fs_path(document.uri) or document.uri
        self.documents[document.uri] = Document(name, document.version, document.text)
        self._analysed[document.uri] = asyncio.Event()
        self.analyse_later(document.uri, 0)

    def change(self, params: lsp.DidChangeTextDocumentParams) -> None:
        """Changes of a text that is not open, or of an earlier version, are left out."""
        uri, number = params.text_document.uri, params.text_document.version
        document = self.documents.get(uri)
        if document is None or (document.version is not None and number < document.version):
            return
        changes = map(change_of, params.content_changes)
        document.change(changes, self.translation.encoding, number)
        self._analysed[uri].clear()
        is_short = self._seconds.get(uri, SHORT) < SHORT
        self.analyse_later(uri, 0 if is_short else self.settings.pause)

    def close(self, uri: str) -> None:
        if (document := self.documents.pop(uri, None)) is not None:
            document.generation += 1
            self._analysed.pop(uri).set()
            self._timers.pop(uri).cancel()
            self._seconds.pop(uri, None)
            nothing = lsp.PublishDiagnosticsParams(uri, [])
            self.text_document_publish_diagnostics(nothing)

    def stop(self) -> None:
        """Give up the analyses under way."""
        for document in self.documents.values():
            document.generation += 1
        self._analyst.shutdown(wait=False, cancel_futures=True)
        self._clerk.shutdown(wait=False, cancel_futures=True)

    # ---- analysis ----------------------------------------------------------------------------

    def analyse_later(self, uri: str, seconds: float) -> None:
        if (timer := self._timers.get(uri)) is not None:
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._timers[uri] = loop.call_later(seconds, self._start_analysis, uri)

    def _start_analysis(self, uri: str) -> None:
        document = self.documents[uri]
        outdated, loop = document.outdated(), asyncio.get_running_loop()
        text, before, started = document.text, document.analysis, loop.time()

        def work() -> Analysis | None:
            try:
                return analyse(text, document.name, self._analyst_ctx, before, outdated)
            except Cancelled:
                return None
            except Exception as error:  # a bug of ours, or of a plugin
                logging.getLogger("ge-lsp").exception("%s cannot be analysed", document.name)
                return failed(text, error)

        def done(future: "asyncio.Future[Analysis | None]") -> None:
            if outdated() or future.cancelled() or (analysis := future.result()) is None:
                return
            self._seconds[uri] = loop.time() - started
            document.accept(analysis)
            self._analysed[uri].set()
            self.text_document_publish_diagnostics(
                self.translation.diagnostics(uri, document.version, analysis)
            )

        loop.run_in_executor(self._analyst, work).add_done_callback(done)

    # ---- questions ---------------------------------------------------------------------------

    async def ask(
        self,
        uri: str,
        question: Callable[[Answers], Result],
        patience: float = PATIENCE,
    ) -> Result | None:
        """Answer a question about a text; None if it is not open. A question with little patience
        does not wait if the last analysis took longer."""
        document = self.documents.get(uri)
        if document is None:
            return None
        if patience < PATIENCE and self._seconds.get(uri, 0) > patience:
            patience = 0
        try:
            await asyncio.wait_for(self._analysed[uri].wait(), patience)
        except TimeoutError:
            pass  # what was known before has to do
        as_it_is = copy(document)  # it may change while the other thread looks at it
        answers = Answers(as_it_is, uri, self.translation, self.clerk_ctx, self.settings.target)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._clerk, question, answers)

    async def ask_at(
        self,
        params: AtPlace,
        question: Callable[[Answers, View], Result],
        patience: float = PATIENCE,
    ) -> Result | None:
        """The same of a place in the text."""
        place = place_of(params.position)
        uri = params.text_document.uri
        return await self.ask(uri, lambda a: question(a, a.view(place)), patience)


TRIGGERS = [".", "%", "@", "^", "!", "#", "{", '"', "<", ":", ","]


def make_server(settings: Settings) -> Server:
    """A server that has not been started."""
    server = Server(settings)
    add_text_synchronization(server)
    add_questions_at_places(server)
    add_questions_of_texts(server)
    return server


def add_text_synchronization(server: Server) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        server.open(params.text_document)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        server.change(params)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        server.close(params.text_document.uri)

    @server.feature(lsp.SHUTDOWN)
    def shut_down(params: None) -> None:
        server.was_shut_down = True
        server.stop()


def add_questions_at_places(server: Server) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        return await server.ask_at(params, Answers.hover)

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    async def definition(params: lsp.DefinitionParams) -> list[lsp.Location] | None:
        return await server.ask_at(params, Answers.definition)

    @server.feature(lsp.TEXT_DOCUMENT_DECLARATION)
    async def source(params: lsp.DeclarationParams) -> list[lsp.Location] | None:
        return await server.ask_at(params, Answers.sources)

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    async def references(params: lsp.ReferenceParams) -> list[lsp.Location] | None:
        declared = params.context.include_declaration
        return await server.ask_at(params, lambda a, view: a.references(view, declared))

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    async def highlight(params: lsp.DocumentHighlightParams) -> list[lsp.DocumentHighlight] | None:
        return await server.ask_at(params, Answers.highlights)

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(TRIGGERS))
    async def completion(params: lsp.CompletionParams) -> lsp.CompletionList | None:
        return await server.ask_at(params, Answers.completion, LESS_PATIENCE)


def add_questions_of_texts(server: Server) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    async def symbols(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol] | None:
        return await server.ask(params.text_document.uri, Answers.symbols)

    @server.feature(lsp.TEXT_DOCUMENT_FOLDING_RANGE)
    async def folds(params: lsp.FoldingRangeParams) -> list[lsp.FoldingRange] | None:
        return await server.ask(params.text_document.uri, Answers.folds)

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    async def hints(params: lsp.InlayHintParams) -> list[lsp.InlayHint] | None:
        return await server.ask(params.text_document.uri, lambda a: a.hints(params.range))

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION)
    async def actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction] | None:
        return await server.ask(params.text_document.uri, lambda a: a.actions(params.range))

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    async def formatting(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit] | None:
        return await server.ask(params.text_document.uri, Answers.formatted)
