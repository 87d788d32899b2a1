"""What the command lines share: one clear line for an error, and exit status 1."""

import os
import sys
from collections.abc import Callable

DEBUG = "GE_DEBUG"
"""Environment variable: show tracebacks."""


def guarded(action: Callable[[], int]) -> int:
    """The status of `action`; an exception is printed as a diagnostic and gives 1.
    GE_DEBUG=1 lets the exception through, with its traceback."""
    try:
        return action()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        from ge.lowering.report import Sources, diagnose

        print(Sources().render(diagnose(error)), file=sys.stderr)
        return 1
