"""The sizes of a host's caches and rings; the defaults are ATB's."""

from dataclasses import dataclass, fields
from typing import Any

from ge.dialects.support.errors import GeError

MOST_SLOTS = 1024


@dataclass(frozen=True, slots=True)
class HostOptions:
    """Raises GeError for sizes that a host cannot have."""

    local_slots: int = 1
    global_slots: int = 5
    ring_blocks: int = 128
    sanitize: bool = False  # prove what the threads do (`runtime/check/host_queues.py`)

    def __post_init__(self) -> None:
        for name, least in (("local_slots", 0), ("global_slots", 0), ("ring_blocks", 1)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= MOST_SLOTS:
                text = f"{name.replace('_', ' ')}: {least} to {MOST_SLOTS}"
                raise GeError(f"{text}, not {value}")

    @classmethod
    def of(cls, given: dict[str, Any]) -> "HostOptions":
        """Raises GeError for an unknown one."""
        known = [f.name for f in fields(cls)]
        if unknown := [name for name in given if name not in known]:
            hint = f"options: {', '.join(known)}"
            raise GeError(f"a host has no option '{unknown[0]}'", hint=hint)
        return cls(**given)


DEFAULTS = HostOptions()
