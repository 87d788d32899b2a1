"""What the command lines share: one clear message for an error, and exit status 1."""

import os
import sys
from collections.abc import Callable

DEBUG = "GE_DEBUG"
"""Environment variable: show tracebacks."""


def guarded(run: Callable[[], int], tool: str = "") -> int:
    """The exit status of a command line tool: what `run` returns, 1 with one clear message for
    any exception. A reader that went away (`| head`) is no error to talk about."""
    try:
        status = run()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        from ge.lowering.report import print_error

        print_error(error, tool)
        return 1
