"""Options of a printed module: mlir-opt's flags of this kind, for `printing.py` and `looks.py`."""

from dataclasses import dataclass


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
