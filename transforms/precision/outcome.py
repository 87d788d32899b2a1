"""What became of the float32 values of a model, for the report of a compilation."""

from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any

from ge.dialects.support.context import at_hand, having


@dataclass(frozen=True)
class Kept:
    """An op that stays in float32."""

    op: str
    name: str
    why: str


@dataclass
class Outcome:
    """`ranges`: where they come from; `narrow`: how many ops are computed in `format`; `clipped`:
    how large the largest elements of clipped constants were."""

    mode: str = ""
    format: str = ""
    ranges: str = ""
    narrow: int = 0
    kept: list[Kept] = field(default_factory=list[Kept])
    clipped: dict[str, float] = field(default_factory=dict[str, float])

    def report(self) -> dict[str, Any]:
        return asdict(self) if self.mode else {}


def collecting() -> AbstractContextManager[Outcome]:
    """Collect what passes say of precision inside the `with` block."""
    return having(Outcome())


def current() -> Outcome:
    """What is collected, as it was before the pass: one run of it replaces another."""
    outcome = at_hand(Outcome)
    if outcome is None:
        return Outcome()
    vars(outcome).update(vars(Outcome()))
    return outcome
