"""ge-bench: what the compiler makes of models, as tables for a report."""

from collections.abc import Sequence

from ge.lowering.cli.command_line import guarded


def main(argv: Sequence[str] | None = None) -> int:
    return guarded("ge-bench", argv, run)


def run(args: list[str]) -> int:
    from ge.lowering.cli import bench

    return bench.run(args)
