"""The schemes of quantization: which bits activations and weights of layers have."""

from dataclasses import dataclass

from ge.dialects.support.errors import GeError

INT8, INT16, W8A16 = "int8", "int16", "w8a16"
GROUPS = "w8a16g32"  # in which w8a16 has matmuls that gain by it
CACHE_TYPES = ("int8", "fp8")  # what keys and values are kept in
FLOAT = "float"  # of a layer that is not quantized


@dataclass(frozen=True)
class Scheme:
    """A way to quantize layers. `activation_bits`: 0 for float activations. `block`: weights of a
    matmul along its input channels that share a scale, 0 for a scale for each output (which
    convolutions always have). `table_bits`: of embedding tables, 0 where these stay float. `rate`:
    the element type that the target must have a rate for. `is_dynamic`: scales of activations are
    computed as the program runs. `is_float`: weights, and activations that are quantized, are
    floats; `scale`: the element type that scales of blocks are rounded to."""

    name: str
    activation_bits: int = 0
    weight_bits: int = 8
    block: int = 0
    table_bits: int = 0
    rate: str = ""
    is_dynamic: bool = False
    is_float: bool = False
    scale: str = ""

    @property
    def is_calibrated(self) -> bool:
        """Return whether ranges of activations must be known."""
        return self.activation_bits > 0 and not self.is_dynamic

    @property
    def is_symmetric(self) -> bool:
        """Return whether activations have no zero point: floats and 16 bits need no codes for
        it."""
        return self.is_float or self.activation_bits > 8


@dataclass(frozen=True)
class RangeMethod:
    """A way to choose the range of an activation from samples: `search` (min-max times the factor
    that layers are most exact with), `minmax`, or, where layers are no less exact with it,
    `average` (of the samples' ranges), `kl` or `percentile`."""

    name: str
    percent: float = 100.0

    def __str__(self) -> str:
        return f"{self.name}:{self.percent:g}" if self.name == "percentile" else self.name

    @classmethod
    def parsed(cls, text: str) -> "RangeMethod":
        """Return the range method of a text. Raises ValueError, which says what is expected."""
        name, colon, number = text.partition(":")
        if name == "percentile" and colon and number.replace(".", "", 1).isdecimal():
            if 50 < float(number) <= 100:
                return cls(name, float(number))
            raise ValueError("a percentile above 50 and at most 100, as in percentile:99.99")
        if text not in RANGE_METHODS:
            raise ValueError(f"one of {', '.join(RANGE_METHODS)}, percentile:99.99")
        return cls(text)


F4 = "f4E2M1FN"
SEARCH, MINMAX = "search", "minmax"
RANGE_METHODS = (SEARCH, MINMAX, "average", "kl")

_SCHEMES = (
    Scheme(INT8, activation_bits=8, table_bits=8, rate="i8"),
    Scheme(INT16, activation_bits=16, table_bits=16, rate="i16"),
    Scheme("dynamic", activation_bits=8, table_bits=8, rate="i8", is_dynamic=True),
    Scheme("fp8", activation_bits=8, rate="f8E4M3FN", is_float=True),
    Scheme(W8A16, table_bits=8),
    Scheme(GROUPS, block=32, table_bits=8),
    Scheme("w4a16", weight_bits=4, block=32, table_bits=8),
    Scheme("mxfp4", 0, 4, 32, table_bits=8, rate=F4, is_float=True, scale="f8E8M0FNU"),
    Scheme("nvfp4", 0, 4, 16, table_bits=8, rate=F4, is_float=True, scale="f8E4M3FN"),
)
SCHEMES = {scheme.name: scheme for scheme in _SCHEMES}


def scheme_of(name: str) -> Scheme:
    """Return the scheme of a name. Raises GeError for a name that no scheme has."""
    if name not in SCHEMES:
        raise GeError(f"scheme is one of {', '.join(SCHEMES)}, not '{name}'")
    return SCHEMES[name]


def range_method_of(text: str) -> RangeMethod:
    """Return the range method of a text. Raises GeError for a text that names none."""
    try:
        return RangeMethod.parsed(text)
    except ValueError as e:
        raise GeError(f"ranges are {e}, not '{text}'") from None
