"""What texts stand for, of options whose values have a form of their own. Each function raises
ValueError that says what is expected."""

import os

from ge.dialects.support import environment
from ge.dialects.support.errors import GeError
from ge.dialects.text.values import names, whole
from ge.transforms.quantization.accuracy import Accuracy
from ge.transforms.quantization.schemes import RangeMethod


def memory_level(text: str) -> int:
    return whole()(text.removeprefix("level:"))


def detail(text: str) -> int:
    """A level of detail, 0 to 3, or a switch."""
    try:
        return int(text) if text in ("2", "3") else int(environment.truth(text))
    except ValueError:
        raise ValueError("0, 1, 2 or 3") from None


def ranges(text: str) -> str:
    RangeMethod.parsed(text)
    return text


def several(text: str) -> tuple[str, ...]:
    return tuple(part for piece in text.split(";") if (part := piece.strip()))


def capacity(text: str) -> str:
    """A dimension and its size."""
    from ge.dialects.graph.state import split_capacity  # not needed for --help

    try:
        split_capacity(text)
    except GeError:
        raise ValueError("a dimension and its size, NAME=2048") from None
    return text


def layout(text: str) -> str:
    """How state lies in memory."""
    from ge.dialects.graph.state import split_layout  # not needed for --help

    try:
        split_layout(text)
    except GeError:
        raise ValueError("contiguous, or paged:128 (rows of a block)") from None
    return text


def bound(text: str) -> str:
    Accuracy.parsed(text)
    return text


def kept(text: str) -> tuple[str, ...]:
    """Names, or the lines of a file."""
    if not os.path.isfile(text):
        return names(text)
    try:
        with open(text, encoding="utf-8") as file:
            return tuple(filter(None, map(str.strip, file)))
    except (OSError, UnicodeDecodeError):
        raise ValueError("a file with a name on each line") from None
