"""The changes of options that `ge-run --explain` tries, by name (see `variants.py`)."""

from typing import Any

from ge.dialects.text.values import did_you_mean

SAME, FLOATS, INTEGERS = "same", "other floats", "integers"  # what numbers become

# Name -> the options that differ, and what numbers become
FIXED: dict[str, tuple[dict[str, Any], str]] = {
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
NAMES = (*FIXED, STATE, BATCH, TARGETS)
DEFAULT = tuple(n for n in NAMES if n not in ("dynamic", "w4a16", TARGETS))
NONE, ALL = "none", "all"


def chosen(text: str) -> tuple[str, ...]:
    """The variants that a list names. Raises ValueError for a name that none has."""
    if text in (NONE, ALL, "default"):
        return {NONE: (), ALL: NAMES, "default": DEFAULT}[text]
    names = tuple(part for piece in text.split(",") if (part := piece.strip()))
    for name in names:
        if name not in NAMES:
            hint = did_you_mean(name, NAMES, f"; there are: {', '.join(NAMES)}, all, none")
            raise ValueError(f"names of variants{hint}")
    return names
