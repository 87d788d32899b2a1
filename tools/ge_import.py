"""ge-import: an ONNX model to the graph level."""

from collections.abc import Sequence

from ge.lowering.cli.command_line import guarded


def main(argv: Sequence[str] | None = None) -> int:
    return guarded("ge-import", argv, run)


def run(args: list[str]) -> int:
    from ge.lowering.cli import import_model

    return import_model.run(args)
