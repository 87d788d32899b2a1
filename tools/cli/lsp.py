"""ge-lsp: a language server for .mlir files, over standard input and output. An editor starts it;
it tells what is wrong while one types, and answers what a name is, where it is defined and used,
and what may come next."""

import logging
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ge.dialects.text.values import whole
from ge.tools.cli.arguments import argument
from ge.tools.cli.command_line import ArgumentParser

if TYPE_CHECKING:
    from ge.tools.lsp.server import Settings

EPILOG = """examples:
  ge-lsp                        (started by an editor, with `ge-lsp` as the command of the server)
  ge-lsp --load-plugin ops.py --target 910b2
"""


def build_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-lsp", __doc__, EPILOG)
    parser.add_argument("--stdio", action="store_true",
        help="for editors that pass it; standard input and output are always used")  # fmt: skip
    parser.add_argument("--load-plugin", action="append", default=[], metavar="FILE.py",
        help="dialects of a file, beside those of packages and of GE_CUSTOM_PASS")  # fmt: skip
    parser.add_argument("--target", default="", metavar="NAME|FILE.toml",
        help="times are of this target instead of the one that a module names")  # fmt: skip
    parser.add_argument("--pause", type=argument(whole()), default=200, metavar="MILLISECONDS",
        help="after the last change of a text, before it is analysed again; short ones are at "
        "once (default 200)")  # fmt: skip
    parser.add_argument("--allow-unregistered-dialect", action="store_true",
        help="accept ops of dialects that nobody knows, in generic form")  # fmt: skip
    return parser


def run(arguments: Sequence[str]) -> int:
    """The exit status: 0 if the client has asked for the end before it went away."""
    args = build_parser().parse_args(arguments)
    from ge.dialects.support.distribution import lacking

    try:
        import pygls  # pyright: ignore[reportUnusedImport]  # noqa: F401
    except ImportError as e:
        raise lacking(f"ge-lsp needs package {e.name}", "lsp") from None
    from ge.lowering.pipeline.options import Options
    from ge.tools.lsp.server import Settings

    plugins = (*args.load_plugin, *Options.from_environment().plugins)
    return serve(Settings(plugins, args.target, args.pause / 1000, args.allow_unregistered_dialect))


def serve(settings: "Settings") -> int:
    """Answer a client until it ends. The protocol has standard output alone: what else is printed
    goes to standard error."""
    from ge.tools.lsp.server import make_server

    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    log_in_lines()
    server = make_server(settings)
    try:
        server.start_io(sys.stdin.buffer, output)
    finally:
        server.stop()
    return 0 if server.was_shut_down else 1


class OneLine(logging.Formatter):
    """Without traceback: what a client sends is no fault of ours."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        why = f": {type(error).__name__}: {error}" if error is not None else ""
        return " ".join(f"ge-lsp: {record.getMessage()}{why}".split())


def log_in_lines() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine())
    logging.basicConfig(level=logging.ERROR, handlers=[handler])
