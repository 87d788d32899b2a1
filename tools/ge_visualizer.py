"""ge-visualizer: a page that shows a compilation and its run."""

from collections.abc import Sequence

from ge.lowering.cli.command_line import guarded


def main(argv: Sequence[str] | None = None) -> int:
    return guarded("ge-visualizer", argv, run)


def run(args: list[str]) -> int:
    from ge.lowering.cli import visualize

    return visualize.run(args)
