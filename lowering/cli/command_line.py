"""What the command lines share: one clear message for an error, and exit status 1."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from ge.dialects.support.errors import GeError


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
        from ge.lowering.text.errors import print_error

        print_error(error, tool)
        return 1


class ArgumentParser(argparse.ArgumentParser):
    """The options of a tool. Raises GeError for a command line that it cannot read."""

    def __init__(
        self,
        tool: str,
        description: str | None,
        epilog: str,
        add_help: bool = True,
        allow_abbrev: bool = True,
    ) -> None:
        super().__init__(
            tool, description=description, epilog=epilog, add_help=add_help,
            allow_abbrev=allow_abbrev, formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip

    def error(self, message: str) -> NoReturn:
        options = (o for action in self._actions for o in action.option_strings)
        raise usage_error(self.prog, message, options)


def usage_error(tool: str, message: str, options: Iterable[str]) -> "GeError":
    """What argparse complains about in one line, with the option that may be meant."""
    from ge.dialects.support.errors import GeError

    kind, _, rest = message.partition(": ")
    if kind != "unrecognized arguments":
        return GeError(message, hint=f"see {tool} --help")
    word = rest.split()[0]
    if not word.startswith("-"):
        return GeError(f"one input file at most, '{word}' is another")
    name = word.lstrip("-").partition("=")[0]
    near = get_close_matches(name, sorted({o.lstrip("-") for o in options}), 1)
    hint = f"did you mean '--{near[0]}'?" if near else f"see {tool} --help"
    return GeError(f"unknown option '{word}'", hint=hint)


def whole_number(least: int) -> Callable[[str], int]:
    """Reads a whole number of at least so much, for argparse."""

    def read(text: str) -> int:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()) or int(text) < least:
            raise argparse.ArgumentTypeError(f"a whole number of at least {least}, not '{text}'")
        return int(text)

    return read
