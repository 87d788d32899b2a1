"""ge-calibrate: what quantization decides for a model from samples of its inputs."""

from collections.abc import Sequence

from ge.lowering.cli.command_line import guarded


def main(argv: Sequence[str] | None = None) -> int:
    return guarded("ge-calibrate", argv, run)


def run(args: list[str]) -> int:
    from ge.lowering.cli import calibrate

    return calibrate.run(args)
