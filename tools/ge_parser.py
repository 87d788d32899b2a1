"""ge-parser: what is in a module, a model or a program, and what differs between two."""

from collections.abc import Sequence

from ge.lowering.cli.command_line import guarded


def main(argv: Sequence[str] | None = None) -> int:
    return guarded("ge-parser", argv, run)


def run(args: list[str]) -> int:
    from ge.lowering.cli import parse

    return parse.run(args)
