"""ge-lsp: a language server for .mlir files."""

from collections.abc import Sequence

from ge.lowering.cli.command_line import guarded


def main(argv: Sequence[str] | None = None) -> int:
    return guarded("ge-lsp", argv, run)


def run(args: list[str]) -> int:
    from ge.lowering.cli import lsp

    return lsp.run(args)
