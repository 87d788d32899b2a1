"""Colours of diagnostics on a terminal, those of LLVM's tools."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TextIO

from ge.dialects.support.environment import may_colour


class When(StrEnum):
    """Auto: on a terminal that has colours, if NO_COLOR is not set."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


# Parts of a diagnostic -> the code that is switched on
CODES: Mapping[str, str] = {
    "error": "1;31",
    "warning": "1;35",
    "note": "1;36",
    "remark": "1;34",
    "place": "1",
    "message": "1",
    "caret": "1;32",
}


def read(text: str) -> When:
    """Raises ValueError for no value of When."""
    if text not in [*When]:
        raise ValueError("auto, always or never")
    return When(text)


def wanted(when: When, stream: TextIO) -> bool:
    """True if output to the stream is coloured."""
    if when is not When.AUTO:
        return when is When.ALWAYS
    return stream.isatty() and may_colour()


def coloured(text: str, part: str) -> str:
    return f"\x1b[{CODES[part]}m{text}\x1b[0m" if text else ""


def plain(text: str, part: str) -> str:
    return text
