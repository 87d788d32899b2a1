"""Edits of the text of a program: one seeded change each, of the structure (operands, views, slots,
events, streams, loops, kernels, plans, figures) or of the characters.

`edit(program, rng)` gives the name of the change and the text; the text need not be a program
any more. Structural changes are made in a clone of the module, so that most of them can be read
back."""

import random
import re
from collections.abc import Callable

from edited_ops import other_number
from edits_of_kernels import change_engine, change_figure, change_tiling, launch_other
from edits_of_memory import (
    change_segment,
    change_type,
    change_view,
    insert_view,
    move_slot,
    pin,
    replace_operand,
    replace_operand_by_any,
    share_slot,
    swap_operands,
)
from edits_of_tasks import (
    change_event,
    change_flags,
    change_rows,
    change_stream,
    change_trips,
    delete_op,
    drop_event,
    duplicate_op,
    move_op,
)
from xdsl.dialects.builtin import (
    ModuleOp,
)
from xdsl.utils.exceptions import VerifyException

Change = Callable[[ModuleOp, random.Random], bool]
"""Makes a change; False where the module has nothing of the kind."""

CHANGES: dict[str, tuple[int, Change]] = {
    "operand": (4, replace_operand),
    "operand of another type": (1, replace_operand_by_any),
    "operands swapped": (4, swap_operands),
    "view": (3, change_view),
    "view inserted": (4, insert_view),
    "slot moved": (4, move_slot),
    "segment": (1, change_segment),
    "slot shared": (2, share_slot),
    "type": (3, change_type),
    "order of a loop": (1, change_flags),
    "trips": (3, change_trips),
    "scan rows": (1, change_rows),
    "event": (3, change_event),
    "event dropped": (3, drop_event),
    "stream": (3, change_stream),
    "op deleted": (3, delete_op),
    "op moved": (4, move_op),
    "op twice": (3, duplicate_op),
    "kernel": (2, launch_other),
    "engine": (1, change_engine),
    "tiling": (2, change_tiling),
    "figure": (4, change_figure),
    "pinned": (1, pin),
}
"""Name -> how often, relative to the others, and the change."""


# ---- characters ------------------------------------------------------------------------------

MAIN = re.compile(r"^ *func\.func @main", re.M)


def edit_characters(text: str, rng: random.Random) -> str:
    """A number or a name in the text is another one of the text, or a line is missing."""
    lines = text.splitlines()
    i = rng.randrange(1, len(lines) - 1)
    kind = rng.choice(("number", "number", "name", "line", "word"))
    if kind == "line":
        del lines[i]
        return "\n".join(lines)
    pattern = {"number": r"(?<![%@\w])-?\d+", "name": r"[%@]\w+", "word": r"(?<![%@])\b[a-z_]+\b"}
    places = list(re.finditer(pattern[kind], lines[i]))
    if not places:
        return text
    place = rng.choice(places)
    if kind == "number":
        new = str(other_number(rng, int(place[0])))
    else:
        new = rng.choice(re.findall(pattern[kind], text))
    lines[i] = lines[i][: place.start()] + new + lines[i][place.end() :]
    return "\n".join(lines)


def edit(module: ModuleOp, text: str, rng: random.Random) -> tuple[str, str]:
    """The name of a change, and the text with it."""
    while True:
        if rng.random() < 0.1:
            changed = edit_characters(text, rng)
            if changed != text:
                return "characters", changed
            continue
        names = list(CHANGES)
        (name,) = rng.choices(names, [CHANGES[n][0] for n in names])
        clone = module.clone()
        try:
            if CHANGES[name][1](clone, rng) and (changed := str(clone)) != text:
                return name, changed
        except (VerifyException, ValueError):  # an attribute that cannot even be made
            continue
