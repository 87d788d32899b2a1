"""The error that a user can cause: tools print it as one line and exit with status 1."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ge.dialects.support.diagnostics import Diagnostic


class GeError(Exception):
    """`where` is a model node, a file, or file:line:column; `hint` is the way out."""

    def __init__(
        self,
        message: str,
        where: str = "",
        hint: str = "",
        notes: "Sequence[str | Diagnostic]" = (),
    ) -> None:
        super().__init__(message)
        self.message, self.where, self.hint, self.notes = message, where, hint, tuple(notes)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        hint = f"; {self.hint}" if self.hint else ""
        return "\n".join(
            (
                f"{place}error: {self.message}{hint}",
                *(f"note: {n}" if isinstance(n, str) else str(n) for n in self.notes),
            )
        )


class Ended(GeError):
    """What another device has failed at, or that it stays away, which ends the run on this one."""
