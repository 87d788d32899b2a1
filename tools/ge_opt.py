"""ge-opt: run any passes on a module of any level. `ge-opt --help` and `--list-passes` say how."""

import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    args = list(sys.argv[1:] if argv is None else argv)
    if {"--version", "-v"} & set(args):  # before the compiler is imported
        from ge.tools.version import version_text

        print(version_text("ge-opt"))
        return 0
    from ge.dialects.support.errors import DEBUG
    from ge.lowering.cli.command_line import guarded

    if "--debug" in args:
        os.environ[DEBUG] = "1"
        args.remove("--debug")
    return guarded(lambda: run(args), "ge-opt")


def run(args: list[str]) -> int:
    from ge.lowering.cli.opt_main import GeOptMain

    return GeOptMain(args).execute()


if __name__ == "__main__":
    sys.exit(main())
