"""The flags of ge-opt and ge-compile that say which remarks are told (see `remarks.py`)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ge.dialects.support.patterns import user_pattern
from ge.dialects.support.remark_kinds import RemarkKind
from ge.dialects.text.values import did_you_mean, names

TEXT, YAML, SUMMARY = "text", "yaml", "summary"
FORMS = (TEXT, YAML, SUMMARY)

# Flags, for parsers of both tools: metavar, how a value is read, help
FLAGS = {
    "--remarks": (
        "FORM", "print what each rule did, or why it did not; --remarks alone, or --remarks=FORM: "
        "text, yaml (as LLVM writes remarks), or summary (by rule, with microseconds won and lost)"
    ),
    "--remarks-pass": ("REGEX", "only remarks of passes and rules whose names match"),
    "--remarks-kind": ("KIND,...", "remarks of these kinds: passed, missed, analysis"),
    "--remarks-text": ("REGEX", "only remarks whose text or place matches"),
    "--remarks-output": ("FILE", "where remarks go (default: standard error)"),
}  # fmt: skip


def form(text: str) -> str:
    if text not in FORMS:
        raise ValueError(f"one of {', '.join(FORMS)}")
    return text


def kinds(text: str) -> tuple[str, ...]:
    found = names(text)
    for name in found:
        if name not in [*RemarkKind]:
            raise ValueError(f"kinds: {', '.join(RemarkKind)}{did_you_mean(name, [*RemarkKind])}")
    return found


READERS: dict[str, Callable[[str], Any]] = {
    "--remarks": form, "--remarks-kind": kinds,
    **{f: partial(user_pattern, what=f) for f in ("--remarks-pass", "--remarks-text")},
}  # fmt: skip


def with_form(arguments: Sequence[str]) -> list[str]:
    """`--remarks` alone with its default: what follows it may be the input."""
    return [f"{word}={TEXT}" if word == "--remarks" else word for word in arguments]
