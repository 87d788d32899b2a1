"""Values that users write (`NAME=1x3x224x224`, `NAME=2`, `64M`, names with commas). What reads
one value raises ValueError, which says what is expected."""

import re
from collections.abc import Callable, Sequence

from ge.dialects.support.errors import GeError


def whole(least: int = 0) -> Callable[[str], int]:
    """Reads a whole number of at least so much."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) < 19 and int(text) >= least):
            raise ValueError(f"a whole number of at least {least}")
        return int(text)

    return read


def quantity(text: str) -> int:
    """A number of bytes, or of KiB, MiB or GiB with K, M or G after it."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)([KMG]?)(?:i?B)?", text.strip(), re.I | re.A)
    if match is None or ("." in match[1] and not match[2]):
        raise ValueError("a number of bytes such as 1000000, 512K, 64M or 1.5G")
    unit = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[match[2].upper()]
    return int(float(match[1]) * unit) if "." in match[1] else int(match[1]) * unit


def names(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _split(text: str, flag: str, example: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    if not equals or not name:
        raise GeError(f"{flag} {text}: expected NAME={example}")
    return name, value


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The shape of each input named. `NAME=` is a scalar. Raises GeError for a bad one."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, value = _split(text, "--shape", "1x3x224x224")
        try:
            shapes[name] = tuple(map(whole(), value.split("x") if value else []))
        except ValueError:
            raise GeError(f"--shape {text}: '{value}' is not a shape such as 1x3x224x224") from None
    return shapes


def parse_dims(texts: Sequence[str]) -> dict[str, int]:
    """The value of each symbolic dimension named. Raises GeError for a bad one."""
    dims: dict[str, int] = {}
    for text in texts:
        name, value = _split(text, "--dim", "2")
        try:
            dims[name] = whole()(value)
        except ValueError:
            raise GeError(f"--dim {text}: '{value}' is not a number of elements") from None
    return dims


def did_you_mean(name: str, known: Sequence[str], otherwise: str = "") -> str:
    """`; did you mean 'x'?` for the nearest of the known names, else the given text."""
    from difflib import get_close_matches

    close = get_close_matches(name, known, 1)
    return f"; did you mean '{close[0]}'?" if close else otherwise
