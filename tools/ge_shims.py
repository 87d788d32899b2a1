"""ge-shims: ge under the names of modules that scripts for an NPU import."""

from collections.abc import Sequence

from ge.lowering.cli.command_line import guarded


def main(argv: Sequence[str] | None = None) -> int:
    return guarded("ge-shims", argv, run)


def run(args: list[str]) -> int:
    from ge.lowering.cli import shims

    return shims.run(args)
