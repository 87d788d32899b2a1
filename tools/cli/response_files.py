"""Files of arguments, `@FILE` on a command line, read as LLVM's tools read them: words apart by
white space, quotes of both kinds, a backslash before any character, files in files."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ge.dialects.support.errors import GeError

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
