"""Names of values in the text, made of other names."""

import re

from xdsl.ir import SSAValue


def value_name(name: str) -> str | None:
    """Return the name as a value is called in the text, None if it cannot be one."""
    hint = re.sub(r"[^A-Za-z0-9_$.-]", "_", name)
    if hint[:1].isdigit():
        hint = f"_{hint}"
    return hint if SSAValue.is_valid_name(hint) else None


def name_hint(name: str) -> str | None:
    """Return what a value may keep of the name as its hint, None if nothing is left of it."""
    hint = value_name(name)
    return None if hint is None else lasting_hint(hint)


def lasting_hint(hint: str) -> str | None:
    """What stays of a value name. Each time that a value gets one, xDSL takes a number at its end
    off; of "_1_2" it leaves "_1", then "", which it refuses to copy."""
    return re.sub(r"(_\d+)+$", "", hint) or None
