"""Write the table of options into the README: `make docs`."""

import sys
from pathlib import Path

from ge.lowering.cli.arguments import documentation

README = Path(__file__).resolve().parent.parent / "README.md"


def main() -> int:
    head, begin, rest = README.read_text("utf-8").partition("| argument |")
    _, end, tail = rest.partition("\n\n")
    README.write_text(head + documentation() + end + tail, "utf-8")
    return 0 if begin else 1


if __name__ == "__main__":
    sys.exit(main())
