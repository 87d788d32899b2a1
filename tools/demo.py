"""A model goes down every level, runs, and is compared with its reference outputs:

python -m ge.tools.demo MODEL.onnx
"""

import sys
from collections.abc import Sequence

from ge.lowering.cli.command_line import guarded


def main(argv: Sequence[str] | None = None) -> int:
    return guarded("demo", argv, run)


def run(args: list[str]) -> int:
    from ge.lowering.cli import demo

    return demo.run(args)


if __name__ == "__main__":
    sys.exit(main())
