"""The time of a program on a target that is better, or worse, in one respect.

    ge-run model.onnx --timing-only --what-if hbm_bandwidth=2x --what-if launch_us=0.5

A change names a field of the target (`clock_ghz`, `cluster.server.latency_us`, ...), one of `PARTS`
or `links`, those between devices of all levels. It gives a factor (`2x`) or, for a field, a value;
several, with commas between them, are made at once. The program stays as it was compiled: its
tilings and its schedule are those for the unchanged target.
So the fields that they were made for (`COMPILED_FOR`) cannot change; and as the order is fixed, a
program may get a little slower where its tasks get faster, because they meet others than before
(Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 17, 1969). With
`--what-if-recompile` the model is compiled for the other target too, which may differ in any field.
"""

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target, stated_facts
from ge.runtime.clock.clock import simulate

# Part of a target -> the fields that a factor changes
PARTS: dict[str, tuple[str, ...]] = {
    "hbm_bandwidth": ("hbm_rate",),
    "l2_bandwidth": ("l2_rate", "l2_read_rate", "l2_write_rate"),
    "cube": ("macs_per_cycle",),
    "vector": ("vector_lanes", "vector_cycles"),
    "host_link": ("host_link_gbs",),
    "launch": ("launch_us", "host_launch_us", "kernel_start_us"),
}

# Fields from which tilings, plans and schedules are made: their effect is not in the time of a
# program that was made for other values
COMPILED_FOR = {
    *("cube_cores", "vector_cores"),
    *("hbm_bytes", "l1_bytes", "l0a_bytes", "l0b_bytes", "l0c_bytes", "ub_bytes"),
    *("hbm_alignment", "core_alignment", "max_streams", "max_events"),
}


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The latency with a change, and as a part of the latency without."""

    change: str
    latency_us: float
    ratio: float
    machine: str  # which is changed, and where the time comes from

    def __str__(self) -> str:
        took = f"{self.latency_us:,.1f} us, {self.ratio:.3f} of the time"
        return f"what if {self.change}: {took}, on {self.machine}"


KEPT = (
    "the program is kept as it was compiled, with its tilings and its schedule; "
    "--what-if-recompile compiles it anew"
)


def changes_of(text: str) -> list[str]:
    """The changes that are made at once."""
    return [part for piece in text.split(",") if (part := piece.strip())]


def needs_compiling(text: str) -> bool:
    """True if a program depends on the fields that the changes are of."""
    return any(change.partition("=")[0].strip() in COMPILED_FOR for change in changes_of(text))


def changed(target: Target, text: str, anew: bool = False) -> Target:
    """The target with changes, `name=2x` or `field=value`, with commas between them. Raises GeError
    for one that cannot be read, for a name that the target does not have, for a target that cannot
    be, and, unless programs are compiled anew, for what they are compiled for."""
    fields, names = dict[str, Any](), list[str]()
    for change in changes_of(text) or [text]:
        name, new = _change(target, change, anew)
        if twice := fields.keys() & new.keys():
            raise GeError(f"'{min(twice)}' is changed twice in '{text}'")
        fields |= new
        names.append(change)
    for field, value in fields.items():
        if field.endswith(("_efficiency", ".efficiency")) and value > 1:
            raise GeError(f"'{field}' is a share, at most 1, not {value:g}")
    numbers = {key: fields.pop(key) for key in [*fields] if key.startswith("cluster.")}
    if numbers and target.cluster is not None:
        cluster = target.cluster.changed(numbers)
        fields["cluster"] = cluster.table() if anew else cluster
    name = f"{target.name} with {', '.join(names)}"
    if not anew:
        return dataclasses.replace(target, name=name, **fields)
    return Target.of(stated_facts(target) | fields | {"name": name}, f"what if {text}")


def _change(target: Target, change: str, anew: bool) -> tuple[str, dict[str, Any]]:
    """The part that a change is of, and the fields of the target that it changes."""
    match = re.fullmatch(r"([\w.]+)=([0-9.eE+-]+)(x?)", change.replace(" ", ""))
    if match is None:
        raise GeError(f"cannot read the change '{change}'", hint="write name=2x or field=value")
    name, number, factor = match[1], _number(change, match[2]), bool(match[3])
    known = {f.name: getattr(target, f.name) for f in dataclasses.fields(target)}
    known |= (cluster := {} if target.cluster is None else target.cluster.numbers())
    links = tuple(key for key in cluster if key.endswith(".link_gbs"))
    parts = PARTS | ({"links": links} if links else {})
    numeric = [n for n, v in known.items() if isinstance(v, int | float | dict)]
    if name not in parts and name not in numeric:
        near = get_close_matches(name, [*parts, *numeric], 1)
        hint = f"did you mean {near[0]}?" if near else f"parts: {', '.join(parts)}"
        raise GeError(f"target {target.name} has no '{name}'", hint=hint)
    if name in COMPILED_FOR and not anew:
        hint = "--what-if-recompile compiles the model for another one"
        raise GeError(f"the program was made for the '{name}' that its target has", hint=hint)
    if not factor and (name in parts or isinstance(known[name], dict)):
        raise GeError(f"'{name}' takes a factor", hint=f"write {name}=2x")
    fields = [f for f in parts.get(name, ()) if known[f]] or [name]  # those that it states
    new: dict[str, Any] = {f: _scaled(known[f], number) if factor else number for f in fields}
    if name == "vector":  # cycles of a faster part are fewer
        new["vector_cycles"] = _scaled(known["vector_cycles"], 1 / number)
    if anew:  # a target's file has whole numbers where it asks for them
        new = {f: _like(known[f], v) for f, v in new.items()}
    return name, new


def _like(old: Any, new: Any) -> Any:
    """A number, whole where the old one is and this one can be."""
    whole = isinstance(old, int) and not isinstance(old, bool) and float(new).is_integer()
    return int(new) if whole else new


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
    module: ModuleOp, target: Target, latency_us: float, changes: Sequence[str],
    rows: int | None = None,
) -> list[WhatIf]:  # fmt: skip
    """The times with each of the changes alone. `latency_us` is the time without them, `rows` are
    as in `simulate`."""
    found: list[WhatIf] = []
    for change in changes:
        other = changed(target, change)
        timeline = simulate(module, other, rows=rows)
        us, machine = timeline.latency_us, target.timed(*timeline.estimated)
        found.append(WhatIf(change, us, us / latency_us if latency_us else 1.0, machine))
    return found
