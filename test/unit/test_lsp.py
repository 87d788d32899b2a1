"""ge-lsp as an editor sees it: a client over standard input and output. One server answers all
tests of this file."""

import re
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types as lsp
from pytest_lsp import ClientServerConfig, LanguageClient

START = "import sys; from ge.tools.commands import ge_lsp as main; sys.exit(main())"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_lsp.fixture(
    scope="module", config=ClientServerConfig(server_command=[sys.executable, "-c", START])
)
async def client(lsp_client: LanguageClient) -> AsyncGenerator[None]:
    hover = lsp.HoverClientCapabilities(content_format=[lsp.MarkupKind.Markdown])
    capabilities = lsp.ClientCapabilities(
        text_document=lsp.TextDocumentClientCapabilities(hover=hover)
    )
    await lsp_client.initialize_session(lsp.InitializeParams(capabilities))
    yield
    await lsp_client.shutdown_session()


class Text:
    """A text that a client has open; columns are those of UTF-16, the default of the protocol."""

    def __init__(self, client: LanguageClient, name: str, text: str) -> None:
        self.client, self.text, self.version = client, text, 1
        self.uri = f"file:///{name}"
        item = lsp.TextDocumentItem(self.uri, "mlir", 1, text)
        client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))

    @property
    def id(self) -> lsp.TextDocumentIdentifier:
        return lsp.TextDocumentIdentifier(self.uri)

    def place(self, word: str, number: int = 0, behind: bool = False) -> lsp.Position:
        """Where a word stands for the n-th time."""
        match = list(re.finditer(re.escape(word), self.text))[number]
        before = self.text[: match.end() if behind else match.start()]
        line = before.rpartition("\n")[2]
        return lsp.Position(before.count("\n"), len(line.encode("utf-16-le")) // 2)

    def range(self, word: str, number: int = 0) -> lsp.Range:
        return lsp.Range(self.place(word, number), self.place(word, number, behind=True))

    def replace(self, old: str, new: str, number: int = 0) -> None:
        change = lsp.TextDocumentContentChangePartial(self.range(old, number), new)
        at = list(re.finditer(re.escape(old), self.text))[number].start()
        self.text = self.text[:at] + new + self.text[at + len(old) :]
        self.version += 1
        self.client.text_document_did_change(
            lsp.DidChangeTextDocumentParams(
                lsp.VersionedTextDocumentIdentifier(self.version, self.uri), [change]
            )
        )

    async def diagnostics(self) -> list[lsp.Diagnostic]:
        """Of the text as it is now, which a question waits for."""
        await self.symbols()
        return list(self.client.diagnostics[self.uri])

    async def symbols(self) -> list[lsp.DocumentSymbol]:
        params = lsp.DocumentSymbolParams(self.id)
        found = await self.client.text_document_document_symbol_async(params)
        return [s for s in found or () if isinstance(s, lsp.DocumentSymbol)]

    async def hover(self, word: str, number: int = 0) -> str:
        params = lsp.HoverParams(self.id, self.place(word, number))
        found = await self.client.text_document_hover_async(params)
        if found is None:
            return ""
        assert isinstance(found.contents, lsp.MarkupContent)
        assert found.contents.kind is lsp.MarkupKind.Markdown
        return found.contents.value

    async def completion(self, position: lsp.Position) -> list[str]:
        params = lsp.CompletionParams(self.id, position)
        found = await self.client.text_document_completion_async(params)
        assert isinstance(found, lsp.CompletionList)
        return [item.label for item in found.items]

    async def definition(self, word: str, number: int = 0) -> list[lsp.Range]:
        params = lsp.DefinitionParams(self.id, self.place(word, number))
        found = await self.client.text_document_definition_async(params)
        assert isinstance(found, list)
        return [location.range for location in found if isinstance(location, lsp.Location)]

    async def references(self, word: str, number: int = 0) -> list[lsp.Range]:
        context = lsp.ReferenceContext(include_declaration=True)
        params = lsp.ReferenceParams(context, self.id, self.place(word, number))
        return [r.range for r in await self.client.text_document_references_async(params) or ()]


TWO_LAYERS = """\
func.func @main(%x: tensor<8x64xf32> {graph.name = "é𝄞"}, %w: tensor<64x32xf32>)
    -> tensor<8x32xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.relu %0 : (tensor<8x32xf32>) -> tensor<8x32xf32> loc("nöde")
  func.return %1 : tensor<8x32xf32>
}
"""


async def test_hover_tells_of_a_value(client: LanguageClient):
    text = Text(client, "value.mlir", TWO_LAYERS)
    said = await text.hover("%1")
    assert "`%1` : `tensor<8x32xf32>`, of `graph.relu`" in said
    assert "1,024 bytes" in said
    assert "live from op 2 to op 3 of the 3 in its block" in said
    assert "us alone, with its launch, on 910b2, estimated" in said
    assert "from `nöde`" in said
    argument = await text.hover("%w", 1)
    assert "`%w` : `tensor<64x32xf32>`, an argument" in argument
    assert "live from op 0 to op 1" in argument


async def test_hover_tells_what_type_follows(client: LanguageClient):
    """Where it is not the one that is written."""
    wrong = TWO_LAYERS.replace("-> tensor<8x32xf32> loc", "-> tensor<8x31xf32> loc")
    text = Text(client, "type.mlir", wrong.replace("%1 : tensor<8x32", "%1 : tensor<8x31"))
    assert "`tensor<8x32xf32>` follows from the operands" in await text.hover("%1")
    assert "follows" not in await text.hover("%0")


async def test_hover_tells_of_ops_types_and_attributes(client: LanguageClient):
    text = Text(client, "op.mlir", TWO_LAYERS)
    said = await text.hover("graph.matmul")
    assert "Matmul of the last two dimensions" in said
    assert "| `lhs` | tensor of numbers that are multiplied | one |" in said
    assert "| `transpose_lhs` | true or false | `false` |" in said
    assert "$lhs `,` $rhs" in said
    said = await text.hover("64x32")
    assert said.startswith("`tensor<64x32xf32>`\n\n2,048 elements, 8,192 bytes")
    assert await text.hover("func.func")
    assert await text.hover("-> ") == ""


HBM, HOST = 'memref<8x64xf32, "hbm">', 'memref<8x64xf32, "host">'
PROGRAM = f"""\
npu_task.kernel @relu_0 on vector tiling <[512] blocks 1 buffers 1> {{
^bb0(%0: tensor<8x64xf32>):
  %1 = graph.relu %0 : (tensor<8x64xf32>) -> tensor<8x64xf32>
  npu_task.return %1 : tensor<8x64xf32>
}}
func.func @main(%x: {HOST} {{graph.name = "x"}}) -> ({HOST} {{graph.name = "y"}}) attributes {{
    npu_task.target = "910b2", npu_task.streams = 1 : i64, npu_task.events = 0 : i64,
    npu_task.arena_bytes = 2048 : i64}} {{
  %a = npu_task.slot io 0 : {HBM}
  npu_task.copy %x to %a on 0 : {HOST} to {HBM}
  %b = npu_task.slot arena 512 : {HBM}
  npu_task.launch @relu_0 on 0 ins(%a : {HBM}) outs(%b : {HBM}) loc("/net/Relu")
  %y = memref.alloc() : {HOST}
  npu_task.copy %b to %y on 0 : {HBM} to {HOST}
  func.return %y : {HOST}
}}
"""


async def test_hover_tells_of_a_program(client: LanguageClient):
    text = Text(client, "program.mlir", PROGRAM)
    assert await text.diagnostics() == []
    said = await text.hover("%b")
    assert 'in segment "arena", bytes 512 to 2,560' in said
    assert re.search(r"in use from [\d.]+ to [\d.]+ us of a run on 910b2", said)
    said = await text.hover("npu_task.launch")
    assert re.search(r"[\d.]+ us on vector, from [\d.]+ us, on 910b2, estimated", said)
    assert "from `/net/Relu`" in said
    assert "**npu_task.kernel**" in await text.hover("@relu_0", 1)


async def test_definition_and_references(client: LanguageClient):
    text = Text(client, "names.mlir", PROGRAM)
    assert await text.definition("%b", 1) == [text.range("%b")]
    assert await text.definition("%1", 1) == [text.range("%1")]
    assert await text.definition("%x", 1) == [text.range("%x")]
    assert await text.definition("@relu_0", 1) == [text.range("@relu_0")]
    assert await text.references("%b") == [text.range("%b", n) for n in range(3)]
    assert await text.references("graph.relu") == [text.range("%1", n) for n in range(2)]
    assert await text.references("@relu_0", 1) == [text.range("@relu_0", n) for n in range(2)]


BLOCKS = """\
func.func @f(%c: i1) -> i1 {
  cf.cond_br %c, ^then, ^else
^then:
  cf.br ^end(%c : i1)
^else:
  cf.br ^end(%c : i1)
^end(%r: i1):
  func.return %r : i1
}
"""


async def test_blocks_have_names_too(client: LanguageClient):
    text = Text(client, "blocks.mlir", BLOCKS)
    assert await text.definition("^end") == [text.range("^end", 2)]
    assert await text.references("^end") == [text.range("^end", n) for n in (2, 0, 1)]
    assert "2 ops may go to" in await text.hover("^end")
    assert "live from op 0 to the end of the 1 in its block, and in other" in await text.hover("%c")
    assert await text.completion(text.place("^else", behind=True)) == ["^then", "^else", "^end"]


async def test_diagnostics_have_ranges_and_notes(client: LanguageClient):
    """Of what does not verify all is told, behind characters of several code units too."""
    text = Text(
        client,
        "wrong.mlir",
        TWO_LAYERS.replace("-> tensor<8x32xf32> loc", "-> tensor<8x31xf32> loc").replace(
            "%1 : tensor<8x32xf32>", "%1 : tensor<8x31xf32>"
        ),
    )
    first, second = await text.diagnostics()
    assert first.range == text.range("graph.relu")
    assert "'graph.relu' op result 0 has type tensor<8x31xf32>" in first.message
    assert second.range == text.range("func.return")
    text.replace("tensor<8x31xf32>", "tensor<8x32xf32>")
    text.replace("tensor<8x31xf32>", "tensor<8x32xf32>")
    assert await text.diagnostics() == []
    text.replace("%x, %w", "%1, %w")
    (problem,) = await text.diagnostics()
    assert problem.range == text.range("%1", 1)


async def test_a_note_leads_to_where_it_belongs(client: LanguageClient):
    text = Text(
        client,
        "order.mlir",
        """\
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  /* "é𝄞" */ %1 = graph.relu %0 : (tensor<8xf32>) -> tensor<8xf32>
  %0 = graph.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  func.return %1 : tensor<8xf32>
}
""".replace('/* "é𝄞" */ ', ""),
    )
    (problem,) = await text.diagnostics()
    assert problem.message == "operand #0 does not dominate this use"
    assert problem.range == text.range("graph.relu")
    (note,) = problem.related_information or ()
    assert note.message == "operand defined here (op in the same block)"
    assert note.location.range == text.range("graph.relu", 1)


async def test_parts_are_read_apart(client: LanguageClient):
    text = Text(
        client, "parts.mlir", TWO_LAYERS + "// -----\n" + TWO_LAYERS + "// -----\nfunc.fun\n"
    )
    (problem,) = await text.diagnostics()
    assert problem.range == text.range("func.fun", 2)
    assert "did you mean 'func.func'?" in problem.message
    assert [s.name for s in await text.symbols()] == ["main", "main"]
    assert await text.definition("%0", 3) == [text.range("%0", 2)]
    params = lsp.CodeActionParams(text.id, problem.range, lsp.CodeActionContext([problem]))
    replace, expect = await client.text_document_code_action_async(params) or ()
    assert isinstance(replace, lsp.CodeAction)
    assert isinstance(expect, lsp.CodeAction)
    assert replace.title == "Replace by 'func.func'"
    assert expect.edit is not None
    (edit,) = (expect.edit.changes or {})[text.uri]
    assert edit.new_text == f"// expected-error@+1 {{{{{problem.message}}}}}\n"
    assert edit.range.start == edit.range.end == lsp.Position(problem.range.start.line, 0)


async def test_a_text_that_is_being_written(client: LanguageClient):
    """What stood in it when it could be parsed last is still known."""
    text = Text(client, "half.mlir", TWO_LAYERS)
    assert await text.diagnostics() == []
    text.replace("  func.return", "  %2 = graph.mat\n  func.return")
    (problem,) = await text.diagnostics()
    assert problem.range == text.range("graph.mat", 1)
    assert "graph.matmul" in await text.completion(text.place("graph.mat", 1, behind=True))
    assert "`%1` : `tensor<8x32xf32>`" in await text.hover("%1", 1)
    assert await text.definition("%1", 1) == [text.range("%1")]
    text.replace("graph.mat\n", "graph.matmul %\n")
    properties = ["transpose_lhs ", "transpose_rhs ", "to "]
    assert await text.completion(text.place("%\n", behind=False)) == properties
    place = text.place("graph.matmul %", 1, behind=True)
    assert await text.completion(place) == ["%x", "%w", "%0", "%1"]
    text.replace("graph.matmul %\n", "graph.matmul %x, %w t\n")
    assert await text.completion(text.place("%w t", behind=True)) == properties
    text.replace("%w t", '%w transpose_lhs true {my.note = "a // b"} ')
    assert await text.completion(text.place('b"} ', behind=True)) == ["transpose_rhs ", "to "]
    text.replace('b"} ', 'b"} // ')
    assert await text.completion(text.place('b"} // ', behind=True)) == []
    text.replace('b"} // ', 'b"}')
    text.replace("graph.matmul %x", "graph.pool ")
    assert {"max", "average", "lp"} <= {
        *await text.completion(text.place("graph.pool ", behind=True))
    }
    text.replace("graph.pool ", "graph.pool max %x auto_pad ")
    offered = await text.completion(text.place("auto_pad ", behind=True))
    assert offered == ["same_upper", "same_lower"]


async def test_completion_of_dialects_types_and_symbols(client: LanguageClient):
    text = Text(client, "types.mlir", PROGRAM)
    await text.diagnostics()
    text.replace("  func.return", "  \n  npu_task.launch @\n  %z = graph.relu %y : \n  func.return")
    line = text.place("npu_task.launch @\n").line
    assert "npu_task." in await text.completion(lsp.Position(line - 1, 2))
    assert await text.completion(lsp.Position(line, 19)) == ["@relu_0", "@main"]
    text.replace("npu_task.launch @\n", "npu_task.kernel @k on \n")
    words = await text.completion(text.place("@k on ", behind=True))
    assert {"cube", "vector", "tiling"} <= set(words)
    types = await text.completion(text.place("%y : ", behind=True))
    assert HOST in types
    assert "tensor<" in types


async def test_symbols_folds_hints_and_formatting(client: LanguageClient):
    text = Text(client, "outline.mlir", PROGRAM.replace("  npu_task.copy", "     npu_task.copy"))
    kernel, main = await text.symbols()
    assert (kernel.name, kernel.detail, main.name) == ("relu_0", "npu_task.kernel", "main")
    assert kernel.selection_range == lsp.Range(lsp.Position(0, 0), lsp.Position(0, 15))
    folds = await client.text_document_folding_range_async(lsp.FoldingRangeParams(text.id)) or ()
    assert [(f.start_line, f.end_line) for f in folds] == [(0, 3), (7, 14)]
    options = lsp.FormattingOptions(2, True)
    edits = await client.text_document_formatting_async(
        lsp.DocumentFormattingParams(text.id, options)
    )
    (edit,) = edits or ()
    assert "\n  npu_task.copy %x to %a on 0" in edit.new_text
    assert edit.range.start == lsp.Position(0, 0)
    hints = lsp.InlayHintParams(text.id, lsp.Range(lsp.Position(0, 0), lsp.Position(99, 0)))
    assert not await client.text_document_inlay_hint_async(hints)
    short = Text(client, "hints.mlir", "%0 = arith.constant true\n")
    hints = lsp.InlayHintParams(short.id, hints.range)
    (hint,) = await client.text_document_inlay_hint_async(hints) or ()
    assert (hint.label, hint.position) == (": i1", lsp.Position(0, 2))


async def test_the_source_of_an_op(client: LanguageClient, tmp_path: Path):
    """The line that its location names, or that has the node of its name."""
    above = tmp_path / "above.mlir"
    above.write_text("\n" + TWO_LAYERS, "utf-8")
    below = TWO_LAYERS.replace('loc("nöde")', 'loc("above.mlir":5:8)')
    text = Text(client, f"{tmp_path}/below.mlir".lstrip("/"), below)
    for request in (client.text_document_declaration_async, client.text_document_definition_async):
        found = await request(lsp.DeclarationParams(text.id, text.place("graph.relu")))  # pyright: ignore
        (location,) = found or ()
        assert isinstance(location, lsp.Location)
        assert location.uri == above.as_uri()
        assert location.range.start == lsp.Position(4, 7)
    named = Text(
        client, f"{tmp_path}/program.mlir".lstrip("/"), PROGRAM.replace("/net/Relu", "nöde")
    )
    params = lsp.DeclarationParams(named.id, named.place("npu_task.launch"))
    (location,) = await client.text_document_declaration_async(params) or ()
    assert isinstance(location, lsp.Location)
    assert location.range.start == lsp.Position(4, 2)


async def test_what_a_client_should_not_send(client: LanguageClient):
    nowhere = lsp.TextDocumentIdentifier("file:///never_opened.mlir")
    at = lsp.Position(0, 0)
    assert await client.text_document_hover_async(lsp.HoverParams(nowhere, at)) is None
    never = lsp.VersionedTextDocumentIdentifier(7, nowhere.uri)
    whole = lsp.TextDocumentContentChangeWholeDocument("x")
    client.text_document_did_change(lsp.DidChangeTextDocumentParams(never, [whole]))
    client.text_document_did_close(lsp.DidCloseTextDocumentParams(nowhere))
    Text(client, "odd.mlir", "func.fun")
    text = Text(client, "odd.mlir", TWO_LAYERS)
    for line, column in ((0, 10**9), (10**9, 0), (3, 500)):
        params = lsp.HoverParams(text.id, lsp.Position(line, column))
        await client.text_document_hover_async(params)
    stale = lsp.VersionedTextDocumentIdentifier(0, text.uri)
    client.text_document_did_change(lsp.DidChangeTextDocumentParams(stale, [whole]))
    assert await text.diagnostics() == []
    far = lsp.Range(lsp.Position(10**6, 3), lsp.Position(10**6, 9))
    behind = lsp.TextDocumentContentChangePartial(far, "func.fun")
    newer = lsp.VersionedTextDocumentIdentifier(2, text.uri)
    client.text_document_did_change(lsp.DidChangeTextDocumentParams(newer, [behind]))
    (problem,) = await text.diagnostics()
    assert problem.range.start == lsp.Position(6, 0)
    assert client.messages == []
