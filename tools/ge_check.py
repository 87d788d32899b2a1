"""ge-check: prove a program: its memory plan, schedule and certificate."""

from collections.abc import Sequence

from ge.lowering.cli.command_line import guarded


def main(argv: Sequence[str] | None = None) -> int:
    return guarded("ge-check", argv, run)


def run(args: list[str]) -> int:
    from ge.lowering.cli import check

    return check.run(args)
