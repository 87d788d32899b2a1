"""ge-run: run a module of any level, or a model, on the emulated NPU."""

from collections.abc import Sequence

from ge.lowering.cli.command_line import guarded


def main(argv: Sequence[str] | None = None) -> int:
    return guarded("ge-run", argv, run)


def run(args: list[str]) -> int:
    from ge.lowering.cli import run

    return run.run(args)
