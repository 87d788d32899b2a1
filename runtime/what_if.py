"""The time of a program on a target that is better, or worse, in one respect.

    ge-run model.onnx --timing-only --what-if hbm_bandwidth=2x --what-if launch_us=0.5

A change names a field of the target (`clock_ghz`, `ub_out_rate`, ...) or one of `PARTS`, and
gives a factor (`2x`) or, for a field, a value. The program stays as it was compiled: its tilings
are those for the target as it is.
"""

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.errors import GeError
from ge.dialects.target import Target
from ge.runtime.clock import simulate

PARTS: dict[str, tuple[str, ...]] = {
    "hbm_bandwidth": ("hbm_rate",),
    "l2_bandwidth": ("l2_read_rate", "l2_write_rate"),
    "cube": ("macs_per_cycle",),
    "vector": ("vector_lanes",),
    "host_link": ("host_link_gbs",),
    "launch": ("launch_us", "host_launch_us"),
}
"""Part of a target -> the fields that a factor changes."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The latency with a change, and as a part of the latency without."""

    change: str
    latency_us: float
    ratio: float

    def __str__(self) -> str:
        return f"what if {self.change}: {self.latency_us:,.1f} us, {self.ratio:.3f} of the time"


def changed(target: Target, change: str) -> Target:
    """The target with a change, `name=2x` or `field=value`. Raises GeError for one that cannot be
    read, and for a name that the target does not have."""
    match = re.fullmatch(r"(\w+)=([0-9.eE+-]+)(x?)", change.replace(" ", ""))
    if match is None:
        raise GeError(f"cannot read the change '{change}'", hint="write name=2x or field=value")
    name, number, factor = match[1], _number(change, match[2]), bool(match[3])
    known = {f.name: getattr(target, f.name) for f in dataclasses.fields(target)}
    numeric = [n for n, v in known.items() if isinstance(v, int | float | dict)]
    if name not in PARTS and name not in numeric:
        near = get_close_matches(name, [*PARTS, *numeric], 1)
        hint = f"did you mean {near[0]}?" if near else f"parts: {', '.join(PARTS)}"
        raise GeError(f"target {target.name} has no '{name}'", hint=hint)
    if not factor and (name in PARTS or isinstance(known[name], dict)):
        raise GeError(f"'{name}' takes a factor", hint=f"write {name}=2x")
    fields = PARTS.get(name, (name,))
    new: dict[str, Any] = {f: _scaled(known[f], number) if factor else number for f in fields}
    return dataclasses.replace(target, name=f"{target.name} with {change}", **new)


def _number(change: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise GeError(f"'{text}' in '{change}' is no positive number")
    return number


def _scaled(value: Any, factor: float) -> Any:
    if isinstance(value, dict):
        return {key: v * factor for key, v in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value * factor


def what_if(
    module: ModuleOp, target: Target, latency_us: float, changes: Sequence[str]
) -> list[WhatIf]:
    """The times with each of the changes alone. `latency_us` is the time without them."""
    found: list[WhatIf] = []
    for change in changes:
        latency = simulate(module, changed(target, change)).latency_us
        found.append(WhatIf(change, latency, latency / latency_us if latency_us else 1.0))
    return found
