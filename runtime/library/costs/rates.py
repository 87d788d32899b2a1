"""Rates of a core, by element types and shapes."""

from functools import lru_cache

from xdsl.ir import Attribute

from ge.dialects.support.element_types import bitwidth, row_of
from ge.dialects.support.types import Shape
from ge.dialects.targets.target import Target

# Share of the full rate at which rows are loaded, whose stride is a multiple of so many bytes
# (catlass, which has elements of 16 bits and counts them; that bytes are what matters for others is
# an assumption, as the memory's blocks of 512 bytes are the cause).
STRIDES = ((512, 1.0), (256, 0.8), (128, 0.5), (32, 0.4), (1, 0.3))
MOST_STRIDE = 65535  # elements from one row of an operand of the cube to the next: official


@lru_cache(256)
def peak_macs(element: Attribute, target: Target) -> float:
    """Multiply-accumulates a cycle of a cube core. A type that the target does not list is scaled
    from f16 by the square of its width, which is the area of a multiplier."""
    row = row_of(element)
    if row is not None and row.rate_key in target.macs_per_cycle:
        return float(target.macs_per_cycle[row.rate_key])
    return target.macs_per_cycle["f16"] * (16 / max(bitwidth(element), 16)) ** 2


@lru_cache(4096)
def share_of(stride: int, element: Attribute) -> float:
    """Share of the full rate of loading rows that lie so many elements apart."""
    size = stride * bitwidth(element) // 8
    return next(share for unit, share in STRIDES if size % unit == 0)


@lru_cache(1024)
def window_rate(kernel: Shape, strides: Shape, dilations: Shape, target: Target) -> float:
    """Bytes a cycle of windows from L1 to L0A (official): less where they have several rows, or
    strides; an eighth where they are dilated."""
    rows = kernel[-2] if len(kernel) > 1 else 1
    if max(kernel[-2:]) == 1:
        return target.l1_to_l0a_rate
    if any(k > 1 and d > 1 for k, d in zip(kernel, dilations, strict=True)):
        return target.l1_to_l0a_rate / 8
    slower = 2 * max(strides[-2:]) + (rows if rows > 1 else 0)
    return 2 * target.l1_to_l0a_rate / slower
