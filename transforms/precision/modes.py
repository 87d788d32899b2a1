"""The modes of precision: in which format what the model has in float32 is computed; and what
became of it, for the report of a compilation. Nothing here imports xDSL: the command lines know the
names.
"""

from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from typing import Any

from ge.dialects.support.context import at_hand, having

ORIGIN = "origin"


@dataclass(frozen=True)
class Mode:
    """`format`: the narrow one. `mixed`: for matmuls, convolutions and attention, and what only
    passes their results on; norms, softmax, reductions and sums stay in float32. `wide`: nothing
    passes them on either, and those of matmuls are not rounded (others are, once)."""

    name: str
    format: str
    mixed: bool = False
    wide: bool = False

    @property
    def has_less_range(self) -> bool:
        """Return whether numbers of float32 may be out of range."""
        return self.format == "f16"


_MODES = (
    Mode("fp16", "f16"),
    Mode("bf16", "bf16"),
    Mode("mixed", "f16", mixed=True),
    Mode("mixed_bf16", "bf16", mixed=True),
    Mode("cube_fp16in_fp32out", "f16", mixed=True, wide=True),
)

MODES = {mode.name: mode for mode in _MODES}

# What GE's --precision_mode and --precision_mode_v2 call them
NAMES = {
    **{name: name for name in (ORIGIN, *MODES)},
    "force_fp16": "fp16",
    "force_fp32": ORIGIN,
    "must_keep_origin_dtype": ORIGIN,
    "allow_fp32_to_fp16": "mixed",
    "allow_mix_precision": "mixed",
    "allow_mix_precision_fp16": "mixed",
    "mixed_float16": "mixed",
    "allow_fp32_to_bf16": "mixed_bf16",
    "allow_mix_precision_bf16": "mixed_bf16",
    "mixed_bfloat16": "mixed_bf16",
}

_HIF8 = "there is no HiFloat8 here: take fp16, or --quantize int8"

NOT_HERE = {
    "cube_hif8": _HIF8,
    "mixed_hif8": _HIF8,
}


def mode_name(text: str) -> str:
    """The name of a mode, given that or GE's. Raises ValueError, which says what is expected."""
    if text in NAMES:
        return NAMES[text]
    near = get_close_matches(text, NAMES, 1)
    hint = NOT_HERE.get(text) or (f"did you mean {near[0]}?" if near else "")
    raise ValueError(f"one of {ORIGIN}, {', '.join(MODES)}{hint and f' ({hint})'}")


@dataclass(frozen=True)
class Kept:
    """An op that stays in float32."""

    op: str
    name: str
    why: str


@dataclass
class Outcome:
    """`ranges`: where they come from; `narrow`: how many ops are computed in `format`; `clipped`:
    how large the largest elements of clipped constants were; `left_db`: signal to noise of outputs
    that are not exact, on samples or random inputs."""

    mode: str = ""
    format: str = ""
    ranges: str = ""
    narrow: int = 0
    kept: list[Kept] = field(default_factory=list[Kept])
    clipped: dict[str, float] = field(default_factory=dict[str, float])
    left_db: dict[str, float] = field(default_factory=dict[str, float])

    def report(self) -> dict[str, Any]:
        if not self.mode:
            return {}
        facts = asdict(self)
        return facts if self.left_db else {k: v for k, v in facts.items() if k != "left_db"}


def collecting() -> AbstractContextManager[Outcome]:
    """Collect what passes say of precision inside the `with` block."""
    return having(Outcome())


def current() -> Outcome:
    """Return the collected outcome, emptied: one run of the pass replaces another."""
    outcome = at_hand(Outcome)
    if outcome is None:
        return Outcome()
    vars(outcome).update(vars(Outcome()))
    return outcome
