"""Options of a printed module: mlir-opt's flags of this kind, for `printing.py` and `looks.py`.

Colours of diagnostics on a terminal, those of LLVM's tools."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TextIO

from ge.dialects.support.environment import may_colour


@dataclass(frozen=True)
class Look:
    """The text of a module. Options after the first five are for `looks.py`."""

    generic: bool = False
    debuginfo: bool = False  # locations
    properties_as_attributes: bool = False
    elide: int | None = None  # constants of more elements are left out
    elide_resources: int | None = None  # those of more characters are left out
    hex_above: int | None = None  # constants of more elements are bytes, -1: none; None: 100
    pretty: bool = False  # locations are for people, and cannot be read again
    skip_regions: bool = False
    unique_ids: bool = False  # one numbering for all functions
    users: bool = False  # comments list the users of a value
    location_names: bool = False  # values are called as their locations are

    @property
    def is_plain(self) -> bool:
        """True if `TextPrinter` does all of it."""
        more = self.skip_regions or self.unique_ids or self.users or self.location_names
        return not more and self.hex_above is None and not (self.pretty and self.debuginfo)


PLAIN = Look()
LOCATED = Look(debuginfo=True)


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
