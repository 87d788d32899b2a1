"""Grids that values are rounded to by a quantize and a dequantize after it."""

from dataclasses import dataclass
from math import inf
from typing import cast

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, f64
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph.quantization import DequantizeOp, Granular, QuantizeOp
from ge.dialects.support.types import numel, shape_of
from ge.transforms.analysis.splats import number_of


@dataclass(frozen=True)
class IntegerGrid:
    """Scale and zero point of the integers of type `to` between a value and what it becomes."""

    source: SSAValue
    scale: float
    zero: int
    to: IntegerType

    @staticmethod
    def of(op: DequantizeOp) -> "IntegerGrid | None":
        """None for what is no quantize and dequantize by the same two numbers."""
        before = op.input.owner
        if not isinstance(before, QuantizeOp) or not op.input.has_one_use():
            return None
        scales, zeros = zip(*(numbers_of(o) for o in (before, op)), strict=True)
        scale, zero = scales[0], zeros[0]
        if None in (scale, zero) or scales[0] != scales[1] or zeros[0] != zeros[1]:
            return None
        if scale is None or not 0 < scale < inf or before.input.type != op.result.type:
            return None
        integers = before.to
        if not isinstance(integers, IntegerType):
            return None
        return IntegerGrid(before.input, scale, int(zero or 0), cast(IntegerType, integers))

    def params(self, name: str, factor: float = 1.0) -> dict[str, Attribute]:
        scale, zero = FloatAttr(self.scale * factor, f64), IntegerAttr(self.zero, self.to)
        return {f"{name}_scale": scale, f"{name}_zero_point": zero}


def numbers_of(op: Granular) -> tuple[float | None, float | None]:
    """Scale and zero point, None where it is no number that is known."""
    scale, zero = op.scale, op.zero_point
    single = numel(shape_of(scale)) == 1 and not op.block_size.value.data
    return number_of(scale) if single else None, 0.0 if zero is None else number_of(zero)


def dequantized_again(op: QuantizeOp) -> DequantizeOp | None:
    """The only user of a quantize, if that is a dequantize."""
    use = op.result.first_use
    after = None if use is None or not op.result.has_one_use() else use.operation
    return after if isinstance(after, DequantizeOp) else None
