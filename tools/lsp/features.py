"""Which requests the server answers, and how."""

from lsprotocol import types as lsp

from ge.tools.lsp.answers import Answers
from ge.tools.lsp.server import LESS_PATIENCE, Server, Settings

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
