"""The modes of precision: in which format what the model has in float32 is computed. Nothing here
imports xDSL: the command lines know the names."""

from dataclasses import dataclass
from difflib import get_close_matches

ORIGIN = "origin"


@dataclass(frozen=True)
class Mode:
    """`format`: the narrow one. `mixed`: for matmuls, convolutions and attention, and what only
    passes their results on; norms, softmax, reductions and sums stay in float32."""

    name: str
    format: str
    mixed: bool = False

    @property
    def has_less_range(self) -> bool:
        """Whether numbers of float32 may be out of range."""
        return self.format == "f16"


_MODES = (
    Mode("fp16", "f16"),
    Mode("bf16", "bf16"),
    Mode("mixed", "f16", mixed=True),
    Mode("mixed_bf16", "bf16", mixed=True),
)
MODES = {mode.name: mode for mode in _MODES}

# What GE's --precision_mode and --precision_mode_v2 call them
NAMES = {
    **{name: name for name in (ORIGIN, *MODES)},
    "force_fp16": "fp16",
    "must_keep_origin_dtype": ORIGIN,
    "allow_fp32_to_fp16": "mixed",
    "allow_mix_precision": "mixed",
    "allow_mix_precision_fp16": "mixed",
    "mixed_float16": "mixed",
    "allow_fp32_to_bf16": "mixed_bf16",
    "allow_mix_precision_bf16": "mixed_bf16",
    "mixed_bfloat16": "mixed_bf16",
}

_ROUNDED = "products of f16 have results of f16 here: take mixed, or origin for products of f32"
_HIF8 = "there is no HiFloat8 here: take fp16, or --quantize int8"
NOT_HERE = {
    "force_fp32": _ROUNDED,
    "cube_fp16in_fp32out": _ROUNDED,
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
