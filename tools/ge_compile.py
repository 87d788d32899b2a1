"""ge-compile: a model or a module, all the way down to a program."""

from collections.abc import Sequence

from ge.lowering.cli.command_line import guarded


def main(argv: Sequence[str] | None = None) -> int:
    # No collection when compiling is over: it would visit all of the module, and find nothing
    return guarded("ge-compile", argv, run, collects=False)


def run(args: list[str]) -> int:
    from ge.lowering.cli import compile

    return compile.run(args)
