"""ge-opt: run any passes on a module of any level. `ge-opt --help` and `--list-passes` say how."""

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    args = list(sys.argv[1:] if argv is None else argv)
    if "--version" in args:  # before the compiler is imported
        from ge.tools.version import version_text

        print(version_text("ge-opt"))
        return 0
    if "--debug" in args:
        import os

        from ge.lowering.report import DEBUG

        os.environ[DEBUG] = "1"
        args.remove("--debug")
    from ge.lowering.report import guarded
    from ge.tools.opt_main import GeOptMain

    return guarded(lambda: GeOptMain(args).execute(), "ge-opt")


if __name__ == "__main__":
    sys.exit(main())
