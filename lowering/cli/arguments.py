"""Values of command line arguments: `--shape NAME=1x3x224x224`, `--dim NAME=2`, bytes as `64M`."""

import re
from collections.abc import Sequence
from difflib import get_close_matches

from ge.dialects.support.errors import GeError


def _split(text: str, flag: str, example: str) -> tuple[str, str]:
    """NAME and value; a name may contain `=`."""
    name, equals, value = text.rpartition("=")
    if not equals or not name:
        raise GeError(f"{flag} {text}: expected NAME={example}")
    return name, value


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The shape of each input named. `NAME=` is a scalar. Raises GeError for a bad one."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, value = _split(text, "--shape", "1x3x224x224")
        parts = value.split("x") if value else []
        if not all(p.isascii() and p.isdigit() and len(p) < 19 for p in parts):
            raise GeError(f"--shape {text}: '{value}' is not a shape such as 1x3x224x224")
        shapes[name] = tuple(int(p) for p in parts)
    return shapes


def parse_dims(texts: Sequence[str]) -> dict[str, int]:
    """The value of each symbolic dimension named. Raises GeError for a bad one."""
    dims: dict[str, int] = {}
    for text in texts:
        name, value = _split(text, "--dim", "2")
        if not (value.isascii() and value.isdigit() and len(value) < 19):
            raise GeError(f"--dim {text}: '{value}' is not a number of elements")
        dims[name] = int(value)
    return dims


def parse_bytes(text: str, what: str = "--memory-limit") -> int:
    """A number of bytes, or of KiB, MiB or GiB with K, M or G after it. Raises GeError for what is
    none."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)([KMG]?)(?:i?B)?", text.strip(), re.I | re.A)
    if match is None or ("." in match[1] and not match[2]):
        raise GeError(f"{what} {text}: not a number of bytes such as 1000000, 512K, 64M or 1.5G")
    unit = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[match[2].upper()]
    return int(float(match[1]) * unit) if "." in match[1] else int(match[1]) * unit


def parse_names(texts: Sequence[str]) -> tuple[str, ...]:
    """The names in texts that list them with commas."""
    return tuple(name for text in texts for name in text.split(",") if name)


def suggest(name: str, known: Sequence[str]) -> str:
    """A hint for a name that is not known: the closest one, or all of them."""
    close = get_close_matches(name, known, 1)
    if close:
        return f"did you mean '{close[0]}'?"
    if not known:
        return "the model has none"
    return "the model has " + ", ".join(f"'{k}'" for k in known[:20])
