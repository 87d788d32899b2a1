"""The schemes of quantization: which bits activations and weights of layers have."""

from dataclasses import dataclass

from ge.dialects.support.errors import GeError

INT8 = "int8"


@dataclass(frozen=True)
class Scheme:
    """How layers are quantized. `activation_bits`: 0 for float activations. `block`: weights of a
    matmul along its input channels that share a scale, 0 for a scale for each output (which
    convolutions always have)."""

    name: str
    activation_bits: int = 0
    weight_bits: int = 8
    block: int = 0


_SCHEMES = (
    Scheme(INT8, activation_bits=8),
    Scheme("w8a16"),
    Scheme("w4a16", weight_bits=4, block=32),
)
SCHEMES = {scheme.name: scheme for scheme in _SCHEMES}


def scheme_of(name: str) -> Scheme:
    """Raises GeError for a name that no scheme has."""
    if name not in SCHEMES:
        raise GeError(f"scheme is one of {', '.join(SCHEMES)}, not '{name}'")
    return SCHEMES[name]
