"""The error that a user can cause: tools print it as one line and exit with status 1."""


class GeError(Exception):
    """What is wrong, where, and what to do about it.

    `where` is a model node, a file, or file:line:column; `hint` is the way out.
    """

    def __init__(self, message: str, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message, self.where, self.hint = message, where, hint

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{place}error: {self.message}{hint}"
