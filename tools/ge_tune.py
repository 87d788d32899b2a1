"""ge-tune: the fastest parameters of a kernel in Python."""

from collections.abc import Sequence

from ge.lowering.cli.command_line import guarded


def main(argv: Sequence[str] | None = None) -> int:
    return guarded("ge-tune", argv, run)


def run(args: list[str]) -> int:
    from ge.lowering.cli import tune

    return tune.run(args)
