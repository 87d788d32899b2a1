"""ge-lsp; `parsers.py` says what it is for."""

import argparse
import logging
import os
import sys
from typing import TYPE_CHECKING

from ge.dialects.support.distribution import lacking
from ge.lowering.pipeline.options import Options

if TYPE_CHECKING:
    from ge.tools.lsp.server import Settings


def run(args: argparse.Namespace) -> int:
    """The exit status: 0 if the client has asked for the end before it went away."""
    try:
        import pygls  # pyright: ignore[reportUnusedImport]  # noqa: F401
    except ImportError as e:
        raise lacking(f"ge-lsp needs package {e.name}", "lsp") from None
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
