"""A model goes down every level, runs, and is compared with its reference outputs:

python -m ge.tools.demo MODEL.onnx
"""

import sys
from collections.abc import Sequence

from ge.tools.cli.command_line import guarded


def main(argv: Sequence[str] | None = None) -> int:
    return guarded("demo", argv, run)


def run(args: list[str]) -> int:
    from ge.tools.cli import demo

    return demo.run(args)


if __name__ == "__main__":
    sys.exit(main())
