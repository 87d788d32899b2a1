"""Values that users write (`NAME=1x3x224x224`, `NAME=2`, `64M`, names with commas). The readers of
one value raise ValueError, which says what is expected."""

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from ge.dialects.support.dims import Range, Relation, is_expression, value_of
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


Size = int | Range  # -1: any

Sizes = Mapping[str, Size | Relation]
Shapes = Mapping[str, Sequence[Size]]


def size(text: str) -> Size:
    """`8`, `1..8`, `1~8`, or `-1` for any size."""
    if text == "-1":
        return Range()
    least, dots, most = text.partition(".." if ".." in text else "~")
    if not dots:
        return whole()(text)
    range_ = Range(whole()(least), whole()(most) if most not in ("", "-1") else None)
    if range_.most is not None and range_.most < range_.least:
        hint = f"write it as {range_.most}{dots}{range_.least}"
        raise GeError(f"the range {text} goes from the larger size to the smaller", hint=hint)
    return range_


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[Size, ...]]:
    """The shape of each input named: `NAME=1x3x224x224`, or `NAME:1~10,3,-1`. `NAME=` is a scalar.
    Raises GeError for a bad one."""
    shapes: dict[str, tuple[Size, ...]] = {}
    for text in texts:
        by_commas = "=" not in text and ":" in text
        if by_commas:
            name, _, value = text.rpartition(":")
        else:
            name, value = _split(text, "--shape", "1x3x224x224")
        sizes = value.split("," if by_commas or "," in value else "x")
        try:
            shapes[name.strip()] = tuple(size(s.strip()) for s in sizes if value.strip())
        except ValueError:
            hint = "sizes are numbers, ranges such as 1~10, or -1"
            what = f"--shape {text}: '{value}' is not a shape such as 1x3x224x224 or 1~10,3,-1"
            raise GeError(what, hint=hint) from None
    return shapes


def parse_dims(texts: Sequence[str]) -> dict[str, Size | Relation]:
    """The size of each symbolic dimension named, a range of sizes, or how it follows from others
    (`mask=past+1`). Raises GeError for a bad one, and for two of one dimension."""
    dims: dict[str, Size | Relation] = {}
    for text in texts:
        name, value = _split(text, "--dim", "2")
        try:
            read = size(value)
        except ValueError:
            read = Relation(value.strip())
            if not is_expression(value):
                what = f"--dim {text}: '{value}' is not a number of elements"
                hint = "or a range, as in batch=1..8, or other dimensions, as in mask=past+1"
                raise GeError(what, hint=hint) from None
        if (other := dims.setdefault(name.strip(), read)) != read:
            raise GeError(f"--dim {text} contradicts --dim {name}={other}", hint="drop one")
    return dims


def size_from(name: str, value: Any) -> Size | Relation:
    """The size of a dimension: a number, a pair, or a text. Raises GeError for anything else."""
    match value:
        case Range() | Relation():
            return value
        case (int() as least, int() | None as most):
            text = f"{least}..{-1 if most is None else most}"
        case _:
            text = str(value)
    return parse_dims([f"{name}={text}"])[name]


def shape_from(name: str, value: Any) -> tuple[Size, ...]:
    """The shape of an input: a text, or sizes."""
    if isinstance(value, str):
        return parse_shapes([f"{name}={value}"])[name]
    sizes = [size_from(f"{name}[{i}]", size) for i, size in enumerate(value)]
    known = [size for size in sizes if not isinstance(size, Relation)]
    if len(known) < len(sizes):
        raise GeError(f"the shape of '{name}' is {value}: sizes are numbers or ranges",
                      hint="give how dimensions follow from others as dims")  # fmt: skip
    return tuple(known)


def fixed_shapes(shapes: Shapes) -> dict[str, tuple[int, ...]]:
    """The shapes, with -1 for sizes that are no numbers."""
    return {n: tuple(s if isinstance(s, int) else -1 for s in sizes) for n, sizes in shapes.items()}


def fixed_sizes(sizes: Sizes) -> dict[str, int]:
    """The sizes that are numbers, or follow from these."""
    numbers = {name: size for name, size in sizes.items() if isinstance(size, int)}
    related = relations(sizes)
    for _ in related:  # in any order
        values = {name: value_of(text, numbers) for name, text in related.items()}
        numbers |= {name: value for name, value in values.items() if value is not None}
    return numbers


def relations(sizes: Sizes) -> dict[str, str]:
    """The dimensions that follow from others, as expressions."""
    return {name: size.text for name, size in sizes.items() if isinstance(size, Relation)}


def did_you_mean(name: str, known: Sequence[str], otherwise: str = "") -> str:
    """`; did you mean 'x'?` for the nearest of the known names (first of all the one with letters
    of another case), else the given text."""
    same = [k for k in known if k.lower() == name.lower()]
    close = same or get_close_matches(name, known, 1)
    return f"; did you mean '{close[0]}'?" if close else otherwise
