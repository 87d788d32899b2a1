"""Kinds of remarks."""

from enum import StrEnum


class RemarkKind(StrEnum):
    """Kinds of remarks, those of LLVM: an optimization was made, nearly made, or there is
    something to know."""

    PASSED = "passed"
    MISSED = "missed"
    ANALYSIS = "analysis"
