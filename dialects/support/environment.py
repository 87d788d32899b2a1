"""The environment, read here and nowhere else: the variables that begin with `GE_`, those that ask
for profiles, what a terminal shows, and where the user's caches are."""

import os

from ge.dialects.support.errors import GeError

PREFIX = "GE_"


def variables() -> dict[str, str]:
    """An empty variable counts as not set."""
    return {name: text for name, text in os.environ.items() if name.startswith(PREFIX) and text}


def cache_folder() -> str:
    """The user's folder for what may be lost."""
    return os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")


def truth(text: str) -> bool:
    """Raises ValueError that names what is expected."""
    try:
        return {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}[
            text.lower()
        ]
    except KeyError:
        raise ValueError("0 or 1") from None


def switch(name: str) -> bool:
    """Raises GeError for a variable that is no truth value."""
    try:
        return truth(os.environ.get(name) or "0")
    except ValueError as e:
        raise GeError(f"{name} is {e}, not '{os.environ[name]}'") from None


def debugging() -> bool:
    """Whether tracebacks are wanted. The command line reports a value that cannot be read."""
    try:
        return switch("GE_DEBUG")
    except GeError:
        return False


def may_colour() -> bool:
    """Whether a terminal may get colours. NO_COLOR counts if it is not empty
    (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def packages_off() -> tuple[str, ...]:
    """The installed packages that take no part (`GE_PACKAGES_OFF`), by name; `all` is all."""
    text = os.environ.get("GE_PACKAGES_OFF") or ""
    return tuple(name for part in text.split(",") if (name := part.strip()))


PROFILING = "ASCEND_PROFILING_ENABLE"


def profiling() -> str | None:
    """What profiles are asked for, in `ASCEND_PROFILING_OPTIONS`; None: `ASCEND_PROFILING_ENABLE`
    does not ask for any. Raises GeError where that is no truth value."""
    return os.environ.get("ASCEND_PROFILING_OPTIONS", "") if switch(PROFILING) else None
