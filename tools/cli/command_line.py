"""What the command lines share: one clear message for an error, and exit status 1; and files of
arguments.

`@FILE` on a command line is read as LLVM's tools read it: words apart by white space, quotes of
both kinds, a backslash before any character, files in files."""

import argparse
import atexit
import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

from ge.dialects.support.environment import is_first_rank, truth, variables
from ge.dialects.support.errors import GeError
from ge.dialects.support.streams import (
    be_quiet,
    drop_output,
    error_stream,
    names_standard_output,
    set_holds_file,
)
from ge.tools.cli.quick_start import compile_methods_late


def guarded(
    tool: str,
    argv: Sequence[str] | None,
    run: Callable[[list[str]], int],
    collects: bool = True,
) -> int:
    """The exit status of a command line tool: what `run` returns, 1 with one clear message for
    any exception. A reader that went away (`| head`) is no error to talk about. Warns about
    variables `GE_*` that no option has. `collects`: whether garbage is collected now and then."""
    args = list(sys.argv[1:] if argv is None else argv)
    if argv is None:  # a process of its own, most of whose objects live until it ends
        compile_methods_late()
        gc.set_threshold(100_000 if collects else 0)
        atexit.register(gc.freeze)  # no last search for garbage: the memory goes with the process
    prepare_streams()
    stderr = sys.stderr
    if {"--quiet", "-quiet"} & set(args):  # before anything is printed
        be_quiet()
    try:
        return guarded_run(tool, args, run)
    finally:
        sys.stderr = stderr


def guarded_run(tool: str, args: list[str], run: Callable[[list[str]], int]) -> int:
    """As `guarded`, within streams that are prepared."""
    if {"--version", "-v"} & set(args):  # before the compiler is imported
        if is_first_rank():
            print(version_text(tool))
        return 0
    if (names := variables()) and is_first_rank():
        from ge.lowering.pipeline.options import unknown_variables

        for line in unknown_variables(names):
            print(f"warning: {line}", file=sys.stderr)
    try:
        status = run(args)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        drop_output()
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=error_stream())
        return 130
    except Exception as error:
        from ge.dialects.text.errors import print_error

        print_error(error, tool, "--debug" in args)
        return 1


def prepare_streams() -> None:
    """Have all three standard streams: one that is closed is the null device, else the next file
    that is opened would take its number. What their encoding does not have is escaped."""
    modes = {"stdin": "r", "stdout": "w", "stderr": "w"}
    for number, (name, mode) in enumerate(modes.items()):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, os.fdopen(number, mode))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def version_text(tool: str) -> str:
    from importlib.metadata import version as version_of

    from ge.dialects.support.distribution import version

    return f"{tool} {version()} (xDSL {version_of('xdsl')})"


class QuietAction(argparse.Action):
    """`--quiet`, also where it is abbreviated or comes from a file."""

    def __call__(self, parser: Any, namespace: Any, *_: Any) -> None:
        setattr(namespace, self.dest, True)
        be_quiet()


class ArgumentParser(argparse.ArgumentParser):
    """The options of a tool. Raises GeError for a command line that it cannot read."""

    more_flags: Iterable[str] = ()  # those that a tool reads by itself

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
        self.add_argument(
            "--quiet", action=QuietAction, nargs=0, default=False,
            help="print nothing on standard error except errors",
        )  # fmt: skip

    def section(self, title: str) -> Callable[..., argparse.Action]:
        known = (g for g in self._action_groups if g.title == title)
        return (next(known, None) or self.add_argument_group(title)).add_argument

    def has_flag(self, flag: str) -> bool:
        return flag in self._option_string_actions

    def spelled(self, word: str) -> list[str]:
        """A word as argparse takes it, of a command line as LLVM's tools do: an option of several
        letters with one dash, a switch with a value."""
        flag, equals, value = word.partition("=")
        flag = f"--{flag.lstrip('-')}"
        if not word.startswith("-") or not self.has_flag(flag):
            return [word]
        action = self._option_string_actions[flag]
        if not equals or action.nargs != 0 or action.const is not True:
            return [f"{flag}{equals}{value}"]
        try:
            return [flag] if truth(value) else []
        except ValueError as e:
            self.error(f"argument {flag}: {e}, not '{value}'")

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, args: Iterable[str] | None = None, namespace: Any = None
    ) -> Any:
        words = [*(sys.argv[1:] if args is None else args)]
        end = words.index("--") if "--" in words else len(words)
        spelled = [s for word in words[:end] for s in self.spelled(word)]
        found, rest = super().parse_known_args([*spelled, *words[end:]], namespace)
        values = vars(found)
        set_holds_file(values.get("output") == "-" or names_standard_output(values.values()))
        return found, rest

    def error(self, message: str) -> NoReturn:
        options = (o for action in self._actions for o in action.option_strings)
        reads = any(not action.option_strings for action in self._actions)
        raise usage_error(self.prog, message, (*options, *self.more_flags), reads)


def usage_error(
    tool: str, message: str, options: Iterable[str], reads_file: bool = True
) -> GeError:
    """Say in one line what argparse complains about, with the option that may be meant."""
    from ge.dialects.support.errors import GeError
    from ge.dialects.text.values import did_you_mean

    kind, _, rest = message.partition(": ")
    if kind != "unrecognized arguments":
        return GeError(message, hint=f"see {tool} --help")
    word = rest.split()[0]
    if not word.startswith("-"):
        if not reads_file:
            return GeError(f"no input file is expected, but '{word}'", hint=f"see {tool} --help")
        return GeError(f"one input file at most, '{word}' is another")
    name = word.lstrip("-").partition("=")[0]
    known = sorted({f"--{o.lstrip('-')}" for o in options})
    hint = did_you_mean(f"--{name}", known, f"; see {tool} --help")
    return GeError(f"unknown option '{word}'{hint}")


MOST_WORDS = 100_000


def expanded(arguments: Sequence[str]) -> list[str]:
    """The arguments with the words of each file in its place. An argument that begins with `@` and
    is the name of a file itself stays, as do those behind `--`. Raises GeError for a file that
    cannot be read, that is in itself, or whose quotes are open."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    words = list(_expanded(arguments[:end], ()))
    return [*words, *arguments[end:]]


def _expanded(arguments: Sequence[str], around: tuple[Path, ...]) -> Iterator[str]:
    count = 0
    for argument in arguments:
        if not argument.startswith("@") or len(argument) == 1 or Path(argument).is_file():
            yield argument
            continue
        path = Path(argument[1:])
        if path.absolute() in around:
            raise GeError(f"'{argument}' is in itself", str(around[-1]))
        for word in _expanded(_words_of(path, around), (*around, path.absolute())):
            count += 1
            if count > MOST_WORDS:
                raise GeError(f"'{argument}' stands for more than {MOST_WORDS} arguments")
            yield word


def _words_of(path: Path, around: Sequence[Path]) -> list[str]:
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as e:
        why = e.strerror if isinstance(e, OSError) else "it is not UTF-8 text"
        raise GeError(
            f"cannot read the arguments in '{path}': {why}", str(around[-1]) if around else ""
        ) from None
    return split(text, str(path))


def split(text: str, name: str) -> list[str]:
    """The words of a text. Raises GeError where a quote is not closed."""
    words: list[str] = []
    word: str | None = None  # None: between words
    quote, opened = "", 0
    characters = enumerate(text)
    for place, c in characters:
        if c == "\\":
            word = (word or "") + next(characters, (0, c))[1]
        elif quote:
            quote, word = ("", word) if c == quote else (quote, (word or "") + c)
        elif c in "\"'":
            quote, opened, word = c, place, word or ""
        elif not c.isspace():
            word = (word or "") + c
        elif word is not None:
            words.append(word)
            word = None
    if quote:
        line = text.count("\n", 0, opened) + 1
        column = opened - text.rfind("\n", 0, opened)
        raise GeError(f"this quote {quote} is not closed", f"{name}:{line}:{column}")
    return words if word is None else [*words, word]
