"""ge-opt: run any passes on a module of any level."""

from collections.abc import Sequence

from ge.lowering.cli.command_line import guarded


def main(argv: Sequence[str] | None = None) -> int:
    return guarded("ge-opt", argv, run)


def run(args: list[str]) -> int:
    from ge.lowering.cli import opt

    return opt.run(args)
