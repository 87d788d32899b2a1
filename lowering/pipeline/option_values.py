"""Readers of options whose values have a form of their own: each function raises ValueError that
says what is expected. And values that flags list before anything runs: how times and statistics are
shown, and the changes of options that `ge-run --explain` tries, by name."""

import os
from enum import StrEnum
from typing import Any

from ge.dialects.support import environment
from ge.dialects.support.errors import GeError
from ge.dialects.text.values import did_you_mean, names, whole
from ge.transforms.quantization.accuracy import Accuracy
from ge.transforms.quantization.schemes import RangeMethod
from ge.transforms.sharding.rules import read_mesh, read_pipeline


def memory_level(text: str) -> int:
    return whole()(text.removeprefix("level:"))


def detail(text: str) -> int:
    """A level of detail, 0 to 3, or a switch."""
    try:
        return int(text) if text in ("2", "3") else int(environment.truth(text))
    except ValueError:
        raise ValueError("0, 1, 2 or 3") from None


def ranges(text: str) -> str:
    RangeMethod.parsed(text)
    return text


def several(text: str) -> tuple[str, ...]:
    return tuple(part for piece in text.split(";") if (part := piece.strip()))


def capacity(text: str) -> str:
    """A dimension and its size."""
    from ge.dialects.graph.stated import split_capacity  # not needed for --help

    try:
        split_capacity(text)
    except GeError:
        raise ValueError("a dimension and its size, NAME=2048") from None
    return text


def layout(text: str) -> str:
    """Check the text of a memory layout of state, and return it."""
    from ge.dialects.graph.stated import split_layout  # not needed for --help

    try:
        split_layout(text)
    except GeError:
        raise ValueError("contiguous, or paged:128 (rows of a block)") from None
    return text


def mesh(text: str) -> str:
    read_mesh(text)
    return text


def stages(text: str) -> str:
    read_pipeline(text)
    return text


def bound(text: str) -> str:
    Accuracy.parsed(text)
    return text


def kept(text: str) -> tuple[str, ...]:
    """Names, or the lines of a file."""
    if not os.path.isfile(text):
        return names(text)
    try:
        with open(text, encoding="utf-8") as file:
            return tuple(filter(None, map(str.strip, file)))
    except (OSError, UnicodeDecodeError):
        raise ValueError("a file with a name on each line") from None


class TimeDisplay(StrEnum):
    """In one list by name, or as passes are nested."""

    LIST = "list"
    TREE = "tree"


class TimeFormat(StrEnum):
    """For people or for scripts."""

    TEXT = "text"
    JSON = "json"


class StatisticsDisplay(StrEnum):
    """By the name of a pass, or in the order of the pipeline."""

    LIST = "list"
    PIPELINE = "pipeline"


SAME, FLOATS, INTEGERS = "same", "other floats", "integers"  # what numbers become

# Name -> the options that differ, and what numbers become
FIXED_VARIANTS: dict[str, tuple[dict[str, Any], str]] = {
    "fp16": ({"precision": "fp16"}, FLOATS),
    "bf16": ({"precision": "bf16"}, FLOATS),
    "int8": ({"quantize": "int8"}, INTEGERS),
    "dynamic": ({"quantize": "dynamic"}, INTEGERS),
    "w8a16": ({"quantize": "w8a16"}, INTEGERS),
    "w4a16": ({"quantize": "w4a16"}, INTEGERS),
    "memory3": ({"memory": 3}, SAME),
    "share-io": ({"share_io": True}, SAME),
    "merge-io": ({"merge_io": True}, SAME),
    "pieces": ({"pieces": True}, SAME),
}

STATE, BATCH, TARGETS = "state", "batch", "targets"  # those that follow from the model

VARIANTS = (*FIXED_VARIANTS, STATE, BATCH, TARGETS)

DEFAULT_VARIANTS = tuple(n for n in VARIANTS if n not in ("dynamic", "w4a16", TARGETS))

NONE, ALL = "none", "all"


def variants_named(text: str) -> tuple[str, ...]:
    """The variants that a list names. Raises ValueError for a name that none has."""
    if text in (NONE, ALL, "default"):
        return {NONE: (), ALL: VARIANTS, "default": DEFAULT_VARIANTS}[text]
    names = tuple(part for piece in text.split(",") if (part := piece.strip()))
    for name in names:
        if name not in VARIANTS:
            hint = did_you_mean(name, VARIANTS, f"; there are: {', '.join(VARIANTS)}, all, none")
            raise ValueError(f"names of variants{hint}")
    return names
