"""Unsigned codes of 8 bits that are computed, as signed ones: cubes multiply signed integers.

    %q = graph.quantize %x, %s, %z to ui8               %q = graph.quantize %x, %s, %z - 128 to i8
    %0 = graph.dequantize %q, %s, %z           becomes  %0 = graph.dequantize %q, %s, %z - 128

Rounding, limits and what is dequantized stay bit for bit. Codes that something else gives are
shifted where a layer takes them. Exceptions: scales of blocks, and what is known only at run time.
"""

from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as g
from ge.dialects.graph.convolution import Convolution
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.quantization import DequantizeOp, QuantizeOp
from ge.dialects.support.element_types import ui8
from ge.dialects.support.types import element_type, is_static, shape_of
from ge.transforms.graph.canonical.linear_maps import as_type, is_prepared
from ge.transforms.graph.canonical.local import Make, Replacement, rule

OFFSET = 128


@rule(DequantizeOp)
def signed_codes(op: DequantizeOp, make: Make) -> Replacement:
    """dequantize(x, z) = dequantize(x - 128, z - 128)"""
    if element_type(op.input) != ui8 or is_prepared(op.input) or not can_shift(op):
        return None
    source = op.input.owner
    if isinstance(source, QuantizeOp) and can_shift(source) and is_read_by_dequantize(source):
        zero = shifted_zero(source, make)
        params = {**source.properties, "to": i8}
        values = make(QuantizeOp, source.input, source.scale, zero, **params)
    elif any(isinstance(use.operation, MatmulOp | Convolution) for use in op.result.uses):
        values = shifted(op.input, make)
    else:
        return None
    return make(DequantizeOp, values, op.scale, shifted_zero(op, make), **op.properties)


def can_shift(op: QuantizeOp | DequantizeOp) -> bool:
    if op.block_size.value.data or not is_prepared(op.scale):
        return False
    if op.zero_point is None:
        return is_static(shape_of(op.scale))
    return is_prepared(op.zero_point)


def is_read_by_dequantize(op: QuantizeOp) -> bool:
    """Whether codes are turned into floats by all that reads them, in a way that can be shifted."""
    users = [use.operation for use in op.result.uses]
    return all(isinstance(u, DequantizeOp) and can_shift(u) for u in users)


def shifted_zero(op: QuantizeOp | DequantizeOp, make: Make) -> SSAValue:
    if op.zero_point is None:
        return make.constant(-OFFSET, i8, shape_of(op.scale))
    return shifted(op.zero_point, make)


def shifted(codes: SSAValue, make: Make) -> SSAValue:
    wide = as_type(make, codes, i32)
    return as_type(make, make(g.SubOp, wide, make.constant(OFFSET, i32)), i8)
