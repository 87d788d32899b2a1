"""Regular expressions of users: in options, in calls, and in comments of test files.

An expression that can match one text in many ways tries them one after the other: `(a|aa)+$` takes
years for 100 letters that it does not match. The library `regex` (with the syntax of `re`) leaves
out many such ways, and ends a search after a given time.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from time import thread_time
from typing import Any

from ge.dialects.support.errors import GeError

PATIENCE = 2.0  # seconds of the processor for all slow searches by one expression
SLOW = 1e-3  # seconds of a search: those that take less are not counted


@dataclass(eq=False)
class UserPattern:
    """An expression with the methods of `re.Pattern` that ge uses. They raise GeError where the
    expression takes more than `PATIENCE`."""

    pattern: str
    named: str  # in errors: what it belongs to, and the text
    compiled: Any = field(repr=False)
    left: float = PATIENCE  # seconds

    def fullmatch(self, text: str) -> "re.Match[str] | None":
        return self.timed(self.compiled.fullmatch, text)

    def search(self, text: str) -> "re.Match[str] | None":
        return self.timed(self.compiled.search, text)

    def timed(self, method: Any, text: str) -> Any:
        start = thread_time()
        try:
            found = method(text, timeout=max(self.left, SLOW))
        except TimeoutError:
            self.left = 0.0
            raise GeError(
                f"{self.named} takes more than {PATIENCE:g} s, as on '{text[:60]}': it can match a "
                "text in many ways",
                hint="write it with fewer of * + ? {} |",
            ) from None
        if (taken := thread_time() - start) > SLOW:
            self.left -= taken
        return found


def expanded(match: "re.Match[str]", template: str) -> str:
    """The template with the groups of a match in it. Raises ValueError for one that refers to no
    group of the expression."""
    import regex

    try:
        return match.expand(template)
    except (regex.error, IndexError) as e:
        raise ValueError(str(e)) from None


@lru_cache(maxsize=256)
def user_pattern(text: str, what: str = "") -> UserPattern:
    """The compiled expression; `what` it belongs to stands before it in errors. Raises GeError for
    a text that is no expression."""
    import regex  # here, as it takes longer than all that few commands need it for

    named = f"{what} '{text}'".lstrip()
    try:
        re.compile(text)  # whose errors are those that users know
        compiled: Any = regex.compile(text)
    except (re.error, regex.error, RecursionError, OverflowError) as e:
        raise GeError(f"{named} is no regular expression: {e}") from None
    return UserPattern(text, named if what else f"the regular expression {named}", compiled)
