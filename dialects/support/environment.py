"""The environment, read here and nowhere else: the variables that begin with `GE_`."""

import os

from ge.dialects.support.errors import GeError

PREFIX = "GE_"


def variables() -> dict[str, str]:
    """The variables of ge that are set; an empty one counts as not set."""
    return {name: text for name, text in os.environ.items() if name.startswith(PREFIX) and text}


def truth(text: str) -> bool:
    """Also `true`, `on`, `false` and `off`. Raises ValueError, which says what is expected."""
    try:
        return {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}[
            text.lower()
        ]
    except KeyError:
        raise ValueError("0 or 1") from None


def switch(name: str) -> bool:
    """Whether a variable switches something on. Raises GeError for one that cannot be read."""
    try:
        return truth(os.environ.get(name) or "0")
    except ValueError as e:
        raise GeError(f"{name} is {e}, not '{os.environ[name]}'") from None


def debugging() -> bool:
    """Whether tracebacks are wanted; a value that cannot be read is the command line's to tell."""
    try:
        return switch("GE_DEBUG")
    except GeError:
        return False
