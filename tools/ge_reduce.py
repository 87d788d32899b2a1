"""ge-reduce: a small module that is still interesting."""

from collections.abc import Sequence

from ge.lowering.cli.command_line import guarded


def main(argv: Sequence[str] | None = None) -> int:
    return guarded("ge-reduce", argv, run)


def run(args: list[str]) -> int:
    from ge.lowering.cli import reduce

    return reduce.run(args)
