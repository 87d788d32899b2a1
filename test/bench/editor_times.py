"""How long ge-lsp takes with a file: from a change to diagnostics, and to answer while one types.

    python test/bench/editor_times.py FILE.mlir [--repeat 5]

Processor time of the server, and wall time as the editor sees it, in seconds (medians).
"""

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable
from pathlib import Path

from lsprotocol import types as lsp
from pytest_lsp.client import LanguageClient, make_test_lsp_client

START = "import sys; from ge.tools.commands import ge_lsp as main; sys.exit(main())"
KEYS = 20  # typed one after the other
BETWEEN = 0.1  # seconds between two of them


class Editor:
    """A client with one file open; its edits are a blank at the start of a line in the middle."""

    def __init__(self, client: LanguageClient, file: Path) -> None:
        self.client, self.text = client, file.read_text("utf-8")
        self.uri, self.version = file.absolute().as_uri(), 1
        self.place = lsp.Position(self.text.count("\n") // 2, 0)

    @property
    def id(self) -> lsp.TextDocumentIdentifier:
        return lsp.TextDocumentIdentifier(self.uri)

    def open(self) -> None:
        item = lsp.TextDocumentItem(self.uri, "mlir", 1, self.text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))

    def type(self, text: str) -> None:
        self.version += 1
        where = lsp.Range(self.place, self.place)
        self.client.text_document_did_change(
            lsp.DidChangeTextDocumentParams(
                lsp.VersionedTextDocumentIdentifier(self.version, self.uri),
                [lsp.TextDocumentContentChangePartial(where, text)],
            )
        )

    def diagnostics(self) -> Awaitable[object]:
        return self.client.protocol.wait_for_notification_async("textDocument/publishDiagnostics")

    def complete(self) -> Awaitable[object]:
        params = lsp.CompletionParams(self.id, self.place)
        return self.client.text_document_completion_async(params)

    def processor_time(self) -> float:
        """Of the server, in seconds."""
        assert self.client._server is not None
        stat = Path(f"/proc/{self.client._server.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


async def timed(editor: Editor, what: Awaitable[object]) -> tuple[float, float]:
    """(processor time, wall time) until the answer is there."""
    processor, wall = editor.processor_time(), time.perf_counter()
    await what
    return editor.processor_time() - processor, time.perf_counter() - wall


async def measure(file: Path, repeat: int) -> None:
    client = make_test_lsp_client()
    await client.start_io(sys.executable, "-c", START)
    await client.initialize_session(lsp.InitializeParams(lsp.ClientCapabilities()))
    editor = Editor(client, file)
    answer = editor.diagnostics()
    editor.open()
    show("from opening to diagnostics", [await timed(editor, answer)])
    times: list[tuple[float, float]] = []
    for _ in range(repeat):
        answer = editor.diagnostics()
        editor.type(" ")
        times.append(await timed(editor, answer))
    show("from a change to diagnostics", times)
    times.clear()
    for _ in range(KEYS):
        editor.type(" ")
        times.append(await timed(editor, editor.complete()))
        await asyncio.sleep(BETWEEN)
    show("completion while typing", times)
    await client.shutdown_session()
    await client.stop()


def show(what: str, times: list[tuple[float, float]]) -> None:
    processor, wall = (statistics.median(column) for column in zip(*times, strict=True))
    print(f"{what}: processor {processor:.2f}, wall {wall:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    asyncio.run(measure(args.file, args.repeat))


if __name__ == "__main__":
    main()
