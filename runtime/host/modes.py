"""The ways in which a host can feed a program to the device."""

from dataclasses import dataclass
from difflib import get_close_matches

from ge.dialects.support.errors import GeError


@dataclass(frozen=True, slots=True)
class Mode:
    """How a host feeds the device: on which threads, and what it keeps from call to call."""

    name: str
    what: str
    threads: tuple[str, ...]
    graphs: bool = True  # layers are set up as a whole, not launch by launch
    cached: bool = True  # setups and tilings are kept
    captured: bool = False  # launches are recorded, then replayed as one
    updates: bool = False  # captured tasks are written anew where shapes change


ALL = "all"
SUNK = "sunk"

MODES = {
    mode.name: mode
    for mode in (
        Mode("eager", "op by op, each set up anew, as a framework does", ("host",), False, False),
        Mode("operations", "op by op, setups and tilings kept", ("host",), False),
        Mode("graph", "layer by layer: all setups, then all launches", ("host",)),
        Mode("two-stage", "one thread sets up, one executes", ("setup", "execute")),
        Mode(
            "three-stage", "filling arguments apart as well, into two buffers in turn",
            ("setup", "prelaunch", "launch"),
        ),
        Mode(
            "captured", "recorded once, replayed while shapes stay, else recorded again",
            ("host",), captured=True,
        ),
        Mode(
            "updated", "captured, and tasks whose shapes change are written anew",
            ("host",), captured=True, updates=True,
        ),
        Mode(SUNK, "the program's own tasks wait in the device's queues", ()),
    )
}  # fmt: skip


def modes(name: str) -> list[Mode]:
    """The mode of a name, or all. Raises GeError for an unknown name."""
    if name == ALL:
        return [*MODES.values()]
    if name not in MODES:
        near = get_close_matches(str(name), (*MODES, ALL), 1)
        hint = f"did you mean '{near[0]}'?" if near else f"modes: {', '.join(MODES)}, {ALL}"
        raise GeError(f"there is no dispatch mode '{name}'", hint=hint)
    return [MODES[name]]
