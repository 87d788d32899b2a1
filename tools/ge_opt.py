"""ge-opt: run any passes on a module of any level. `ge-opt --help` and `--list-passes` say how."""

import sys
from collections.abc import Sequence

from ge.lowering.cli.command_line import guarded


def main(argv: Sequence[str] | None = None) -> int:
    return guarded("ge-opt", argv, run)


def run(args: list[str]) -> int:
    from ge.lowering.cli import opt_main

    return opt_main.run(args)


if __name__ == "__main__":
    sys.exit(main())
