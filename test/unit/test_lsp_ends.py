"""How ge-lsp ends: whatever its client does, in time and without a traceback."""

import json
import subprocess
import sys
from typing import Any

import pytest

START = "import sys; from ge.tools.commands import ge_lsp as main; sys.exit(main())"
TEXT = 'func.func @f(%x: i32) {\n  "é𝄞.op"(%x) : (i32) -> ()\n' + "  func.return\n" * 20_000


def message(method: str, params: dict[str, Any], number: int | None = None) -> bytes:
    content = {"jsonrpc": "2.0", "method": method, "params": params}
    content |= {} if number is None else {"id": number}
    body = json.dumps(content).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


HELLO = message(
    "initialize", {"capabilities": {"general": {"positionEncodings": ["utf-8"]}}}, 1
) + message("initialized", {})
NO_JSON = b"Content-Length: 4\r\n\r\n{{}}"
OPEN = message(
    "textDocument/didOpen",
    {"textDocument": {"uri": "file:///a.mlir", "languageId": "mlir", "version": 1, "text": TEXT}},
)
SHUTDOWN, EXIT = message("shutdown", {}, 2), message("exit", {})


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(HELLO + NO_JSON + OPEN + OPEN[:-9], 1, id="half a message, while it works"),
        pytest.param(HELLO + NO_JSON + SHUTDOWN + EXIT, 0, id="no JSON", marks=pytest.mark.soak),
    ],
)
def test_a_server_ends_with_its_client(sent: bytes, status: int):
    command = [sys.executable, "-c", START]
    done = subprocess.run(command, input=sent, capture_output=True, timeout=60)
    assert done.returncode == status
    assert b"Traceback" not in done.stderr
    assert b'"positionEncoding": "utf-8"' in done.stdout
    assert all(line.startswith(b"ge-lsp: ") for line in done.stderr.splitlines())


def test_without_pygls_it_says_what_to_install():
    code = START.replace("import sys;", "import sys; sys.modules['pygls'] = None;")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "ge-lsp: error: ge-lsp needs package pygls; pip install 'ge-npu[lsp]'\n"
