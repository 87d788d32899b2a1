"""Memory settings of the process, in the calls that GE's users know. They hold for all that is
compiled after them; arguments of `ge.compile` go before them, and they before the environment.

ge.set_memory_mode("pool", max_memory_gb=16)
ge.set_op_memory_reuse("MatMul", enabled=False)
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from ge.dialects.support.context import at_hand, having
from ge.dialects.support.errors import GeError
from ge.dialects.text.values import did_you_mean

MODES = {
    "pool": "one arena, whose bytes buffers take in turn",
    "separate": "each buffer has bytes of its own",
}
GB = 1 << 30


@dataclass
class Settings:
    """What was set; by the full name of an op whether its results may share bytes."""

    mode: str = ""
    limit: int | None = None  # in bytes
    reuse: dict[str, bool] = field(default_factory=dict[str, bool])

    def applied(self, values: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        """Values of options, those of the environment among them, with what was set; `given` ones
        are the caller's, and stay."""
        new: dict[str, Any] = {}
        if self.mode:
            level = values.get("memory", 1)
            new["memory"] = max(level, 1) if self.mode == "pool" else 0
        if self.limit is not None:
            new["memory_limit"] = self.limit
        if self.reuse:
            apart = dict.fromkeys(full_names(values.get("no_reuse", ())), False) | self.reuse
            new["no_reuse"] = tuple(name for name, shared in apart.items() if not shared)
        return values | new | given


_of_process = Settings()


def settings_at_hand() -> Settings:
    return at_hand(Settings) or _of_process


def new_settings() -> AbstractContextManager[Settings]:
    """Within the context nothing is set at first, and what is set ends with it."""
    return having(Settings())


def set_memory_mode(mode: str, max_memory_gb: float | None = None) -> None:
    """How programs that are compiled from now on hold their activations: "pool" (one arena, whose
    bytes buffers take in turn) or "separate" (each has its own); in at most `max_memory_gb` times
    2**30 bytes (weights, inputs and outputs not counted), or, if that is not given, what the target
    has. Raises GeError for a mode that there is not, and for a limit that is no positive number."""
    if mode not in MODES:
        known = ", ".join(f"'{name}' ({what})" for name, what in MODES.items())
        raise GeError(
            f"no memory mode '{mode}'{did_you_mean(mode, list(MODES))}", hint=f"modes: {known}"
        )
    if max_memory_gb is not None:
        is_number = isinstance(max_memory_gb, int | float)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not is_number or not 0 < max_memory_gb < float("inf"):
            raise GeError(f"max_memory_gb is a number above 0, not {max_memory_gb!r}")
    settings = settings_at_hand()
    settings.mode = mode
    settings.limit = None if max_memory_gb is None else max(int(max_memory_gb * GB), 1)


def set_op_memory_reuse(op: str, enabled: bool = True) -> None:
    """Whether results of launches with an op ("MatMul", "fused_op.conv") may share bytes with other
    buffers, in programs that are compiled from now on. Raises GeError for an op that there is
    not."""
    settings_at_hand().reuse |= dict.fromkeys(full_names([op]), bool(enabled))


def full_names(ops: Any) -> list[str]:
    """The full names of ops. Raises GeError for those that there are not."""
    if not ops:
        return []
    from ge.dialects.fused_op import FusedOps
    from ge.dialects.graph import Graph
    from ge.transforms.memory.assign_offsets import check_kinds

    return check_kinds(ops, (*Graph.operations, *FusedOps.operations))
