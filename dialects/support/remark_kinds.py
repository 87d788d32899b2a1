"""Kinds of remarks."""

from enum import StrEnum


class RemarkKind(StrEnum):
    """As LLVM has them: an optimization was made, nearly made, or there is something to know."""

    PASSED = "passed"
    MISSED = "missed"
    ANALYSIS = "analysis"
