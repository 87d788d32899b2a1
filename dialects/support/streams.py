"""Output streams of a command. Standard output has the results asked for: a module, or the tables
and figures that flags ask for. Standard error has messages that nobody asked for (progress,
remarks, warnings) and errors; `--quiet` leaves errors alone there. Where a file that was asked for
goes to standard output (`-o -`, `--report /dev/stdout`), nothing else does: tables go to standard
error."""

import os
import sys
from collections.abc import Iterable
from contextvars import ContextVar
from io import TextIOBase
from typing import TextIO, cast

STANDARD_OUTPUT = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")

_holds_file = ContextVar("holds_file", default=False)  # whether standard output holds a file


def set_holds_file(holds: bool) -> None:
    """Say whether a file that the command was asked for goes to standard output."""
    _holds_file.set(holds)


def names_standard_output(values: Iterable[object]) -> bool:
    """True if one of the values of flags is a path of standard output."""
    return any(value in STANDARD_OUTPUT for value in values if isinstance(value, str))


def print_result(*lines: object) -> None:
    """Print results that a flag asks for, each on a line of its own. A reader that went away (`|
    head`) does not end the command: files that it is to write are still written."""
    if _holds_file.get():
        print(*lines, sep="\n", file=sys.stderr)
        return
    try:
        print(*lines, sep="\n", flush=True)
    except BrokenPipeError:
        drop_output()


def drop_output() -> None:
    """Let nothing more go to standard output, whose reader went away."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


class Quiet(TextIOBase):
    """A standard error that drops what is printed to it, except errors."""

    def __init__(self, behind: TextIO) -> None:
        super().__init__()
        self.behind = behind

    def write(self, text: str, /) -> int:
        return len(text)


def be_quiet() -> None:
    """Let nothing except errors go to standard error, until `sys.stderr` is set back."""
    if not isinstance(sys.stderr, Quiet):
        sys.stderr = cast(TextIO, Quiet(sys.stderr))


def error_stream() -> TextIO:
    """The stream of errors: standard error, also of a command that is quiet."""
    return sys.stderr.behind if isinstance(sys.stderr, Quiet) else sys.stderr
