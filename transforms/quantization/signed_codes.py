"""Unsigned codes of 8 bits that are computed, as signed ones: cubes multiply signed integers.

    %q = graph.quantize %x, %s, %z to ui8               %q = graph.quantize %x, %s, %z - 128 to i8
    %0 = graph.dequantize %q, %s, %z           becomes  %0 = graph.dequantize %q, %s, %z - 128

Rounding, limits and dequantized values stay bit for bit. Codes of other ops are shifted where a
layer takes them. Exceptions: scales of blocks, and what is known only at run time.

Products of integers that no dequantize stands before are shifted as well:

    %y = graph.matmul %x, %w : (ui8, i8) -> i32         %0 = graph.matmul %x - 128, %w
                                               becomes  %y = graph.add %0, 128 * (the sums of %w)
"""

from xdsl.dialects.builtin import IntegerAttr, i8, i32, i64
from xdsl.ir import SSAValue

from ge.dialects import graph as g
from ge.dialects.support.element_types import ui8
from ge.dialects.support.types import DYNAMIC, element_type, is_static, rank_of, shape_of
from ge.transforms.graph.canonical.linear_maps import as_type, is_padded, is_prepared
from ge.transforms.graph.canonical.local import Replacement, rule
from ge.transforms.rewriting.building import Make

OFFSET = 128


@rule(g.DequantizeOp)
def signed_codes(op: g.DequantizeOp, make: Make) -> Replacement:
    """dequantize(x, z) = dequantize(x - 128, z - 128)"""
    if element_type(op.input) != ui8 or is_prepared(op.input) or not can_shift(op):
        return None
    source = op.input.owner
    if isinstance(source, g.QuantizeOp) and can_shift(source) and is_read_by_dequantize(source):
        zero = shifted_zero(source, make)
        params = {**source.properties, "to": i8}
        values = make(g.QuantizeOp, source.input, source.scale, zero, **params)
    elif any(isinstance(use.operation, g.MatmulOp | g.Convolution) for use in op.result.uses):
        values = shifted(op.input, make)
    else:
        return None
    return make(g.DequantizeOp, values, op.scale, shifted_zero(op, make), **op.properties)


@rule(g.MatmulOp)
def signed_matmul(op: g.MatmulOp, make: Make) -> Replacement:
    """x w = (x - 128) w + 128 (sums of w), and the same for unsigned w"""
    kinds = [element_type(v) for v in op.operands]
    ranks = [rank_of(v) for v in op.operands]
    turned = bool(op.transpose_lhs.value.data), bool(op.transpose_rhs.value.data)
    if ui8 not in kinds or not {*kinds} <= {i8, ui8} or min(ranks) < 2:
        return None
    terms = shape_of(op.lhs)[-2 if turned[0] else -1]
    if kinds == [ui8, ui8] and terms == DYNAMIC:
        return None
    pair = [shifted(v, make) if k == ui8 else v for v, k in zip(op.operands, kinds, strict=True)]
    result = make(g.MatmulOp, *pair, **op.properties)
    summed = ranks[0] - (2 if turned[0] else 1), ranks[1] - (1 if turned[1] else 2)
    for kind, other, axis, along in zip(kinds, pair[::-1], summed[::-1], (-2, -1), strict=True):
        if kind == ui8:
            sums = make(g.UnsqueezeOp, sums_of(other, [axis], make), axes=[along])
            result = make(g.AddOp, result, sums)
    if kinds == [ui8, ui8]:
        result = make(g.AddOp, result, make.splat(terms * OFFSET**2, i32))
    return result


@rule(g.ConvOp)
def signed_convolution(op: g.ConvOp, make: Make) -> Replacement:
    """The same for the input, whose padding is shifted too"""
    if element_type(op.input) != ui8 or element_type(op.weight) != i8:
        return None
    added = sums_of(op.weight, list(range(1, rank_of(op.weight))), make)
    bias = added if op.bias is None else make(g.AddOp, op.bias, added)
    params = dict(op.properties)
    if is_padded(op):
        params["pad_value"] = IntegerAttr(op.pad_value.value.data - OFFSET, i64)
    return make(g.ConvOp, shifted(op.input, make), op.weight, bias, **params)


def sums_of(codes: SSAValue, axes: list[int], make: Make) -> SSAValue:
    """128 times the sums, as one launch of vector cores: few numbers alone would be the host's."""
    wide = make(g.MulOp, as_type(make, codes, i32), make.splat(OFFSET, i32))
    return make(g.ReduceOp, wide, kind="sum", axes=axes, keep_dims=False)


def can_shift(op: g.QuantizeOp | g.DequantizeOp) -> bool:
    if op.block_size.value.data or not is_prepared(op.scale):
        return False
    if op.zero_point is None:
        return is_static(shape_of(op.scale))
    return is_prepared(op.zero_point)


def is_read_by_dequantize(op: g.QuantizeOp) -> bool:
    """Return whether codes are turned into floats by all their readers, in a way that can be
    shifted."""
    users = [use.operation for use in op.result.uses]
    return all(isinstance(u, g.DequantizeOp) and can_shift(u) for u in users)


def shifted_zero(op: g.QuantizeOp | g.DequantizeOp, make: Make) -> SSAValue:
    if op.zero_point is None:
        return make.splat(-OFFSET, i8, shape_of(op.scale))
    return shifted(op.zero_point, make)


def shifted(codes: SSAValue, make: Make) -> SSAValue:
    wide = as_type(make, codes, i32)
    return as_type(make, make(g.SubOp, wide, make.splat(OFFSET, i32)), i8)
