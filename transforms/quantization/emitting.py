"""Ops that passes of quantization insert: constants of numbers, and the scales of weights as
expressions of constants."""

from collections.abc import Callable

from xdsl.dialects.builtin import f4E2M1FN, f8E8M0FNU, f16, f32, i8
from xdsl.ir import Attribute, SSAValue

from ge.dialects import graph as g
from ge.dialects.support.element_types import is_float, is_unsigned
from ge.dialects.support.types import element_type, shape_of
from ge.runtime.data.arrays import dtype_of, float_limits, integer_limits
from ge.transforms.rewriting.building import Make

# A channel whose weights are all smaller is as good as zero: products of scales would underflow
LEAST = 1e-30

# The scale of such a channel: a bias is stored in steps of it, so it is not 1
WITHOUT_WEIGHT = 2.0**-20


def pair(
    make: Make, value: SSAValue, scale: SSAValue, zero_point: SSAValue | None, to: Attribute,
    **granularity: int,
) -> SSAValue:  # fmt: skip
    """The value quantized and dequantized."""
    stored = make(g.QuantizeOp, value, scale, zero_point, to=to, **granularity)
    return make(g.DequantizeOp, stored, scale, zero_point, **granularity)


def codes_name(op: g.QuantizeOp) -> str:
    """Return what the table calls codes that are fitted: their element type, with the size of
    groups where that does not say it."""
    block = op.block_size.value.data
    return f"{op.to}x{block}" if block and op.to == i8 else str(op.to)


def code_limits(t: Attribute) -> tuple[float, float]:
    """The least and the most that a type of quantized values holds."""
    dtype = dtype_of(t)
    limits = float_limits(dtype) if is_float(t) else integer_limits(dtype)
    return float(limits.min), float(limits.max)


def at_run_time(
    emit: Make, value: SSAValue, to: Attribute, axis: int | None, depth: int
) -> SSAValue:
    """An activation quantized by its largest magnitude as the program runs, and dequantized: for
    the whole tensor, for each index of an axis, or, with a depth, for each row of so many elements
    along it. There is no zero point: unsigned codes are for elements that have no sign."""
    axes = [axis] if depth else [i for i in range(len(shape_of(value))) if i != axis]
    size = value if is_unsigned(to) else emit(g.AbsOp, value)
    largest = emit(g.ReduceOp, size, None, kind="max", axes=axes, keep_dims=bool(depth))
    scale = emit(g.DivOp, largest, emit.number(code_limits(to)[1], value))
    least = float(float_limits(dtype_of(element_type(value))).smallest_normal)
    scale = emit(g.MaximumOp, scale, emit.number(least, value))
    granularity = {} if axis is None else {"axis": axis, "block_size": depth}
    return pair(emit, value, scale, None, to, **granularity)


def by_channel(emit: Make, weight: SSAValue, axis: int, to: Attribute) -> SSAValue:
    """A weight quantized symmetrically with a scale for each index of `axis`, and dequantized."""
    others = [i for i in range(len(shape_of(weight))) if i != axis]
    largest = emit(
        g.ReduceOp, emit(g.AbsOp, weight), None, kind="max", axes=others, keep_dims=False
    )
    codes = emit.number(code_limits(to)[1], weight)
    scale = _not_zero(emit, emit(g.DivOp, largest, codes))
    return pair(emit, weight, scale, None, to, axis=axis)


def by_group(
    emit: Make,
    weight: SSAValue,
    axis: int,
    size: int,
    to: Attribute,
    symmetric: bool,
    fits: Callable[[SSAValue], bool],
) -> SSAValue:
    """A weight quantized with a scale for each `size` elements along `axis`, and dequantized.
    With `symmetric` there is no zero point, and the element that is farthest from zero has the
    lowest code, so that a scale may be negative. Scales of f32 that `fits` accepts are rounded to
    f16."""
    groups, within = _grouped(emit, weight, axis, size)

    def reduce(kind: str, value: SSAValue) -> SSAValue:
        return emit(g.ReduceOp, value, None, kind=kind, axes=[within], keep_dims=False)

    limits, zero = integer_limits(dtype_of(to)), emit.number(0, weight)
    least, most = (emit.number(int(n), weight) for n in (limits.min, limits.max))
    low = emit(g.MinimumOp, reduce("min", groups), zero)
    high = emit(g.MaximumOp, reduce("max", groups), zero)
    zero_point = None
    if symmetric:
        is_high = emit(g.CompareOp, emit(g.AddOp, low, high), zero, predicate="gt")
        scale = emit(g.DivOp, emit(g.SelectOp, is_high, high, low), least)
    else:
        steps = emit.number(int(limits.max) - int(limits.min), weight)
        scale = emit(g.DivOp, emit(g.SubOp, high, low), steps)
    scale = in_16_bits(emit, _not_zero(emit, scale), fits)
    if not symmetric:
        exact = emit(g.SubOp, least, emit(g.DivOp, low, scale))
        zero_point = emit(g.CastOp, emit(g.ClampOp, emit(g.RoundOp, exact), least, most), to=to)
    return pair(emit, weight, scale, zero_point, to, axis=axis, block_size=size)


def by_float_group(
    emit: Make, weight: SSAValue, axis: int, size: int, to: Attribute,
    fits: Callable[[SSAValue], bool],
) -> SSAValue:  # fmt: skip
    """A weight in floats of 4 bits with a scale for each `size` elements along `axis`, and
    dequantized. The scale is a power of two where `to` is f8E8M0FNU (MXFP4, OCP Microscaling
    Formats 1.0, rounded up so that no element is cut off); else a float of 8 bits times a number
    for the tensor (NVFP4), which is a power of two here, so that f16 holds the product. Scales of
    f32 that `fits` accepts are cast to f16."""
    groups, within = _grouped(emit, weight, axis, size)
    element, most = element_type(weight), code_limits(f4E2M1FN)[1]
    largest = emit(
        g.ReduceOp, emit(g.AbsOp, groups), None, kind="max", axes=[within], keep_dims=False
    )

    def power_of_two(value: SSAValue, divisor: float, rounding: str) -> SSAValue:
        part = emit(g.MaximumOp, emit(g.DivOp, value, emit.number(divisor, value)), least)
        return emit(g.CastOp, emit(g.CastOp, part, to=f8E8M0FNU, rounding=rounding), to=element)

    least = emit.number(2.0**-24, weight)  # that f16 holds
    if to == f8E8M0FNU:
        scale = power_of_two(largest, most, "up")
    else:
        axes = [*range(len(shape_of(largest)))]
        top = emit(g.ReduceOp, largest, None, kind="max", axes=axes, keep_dims=False)
        whole = power_of_two(top, most * code_limits(to)[1], "up")
        exact = emit(g.DivOp, emit(g.DivOp, largest, emit.number(most, weight)), whole)
        part = emit(g.CastOp, emit(g.CastOp, exact, to=to), to=element)
        scale = emit(g.MulOp, emit(g.MaximumOp, part, emit.number(2.0**-9, weight)), whole)
    return pair(
        emit, weight, in_16_bits(emit, scale, fits), None, f4E2M1FN, axis=axis, block_size=size
    )


def in_16_bits(emit: Make, scale: SSAValue, fits: Callable[[SSAValue], bool]) -> SSAValue:
    """Return a scale of f32 rounded to f16, if that `fits`."""
    if element_type(scale) != f32 or not fits(scale):
        return scale
    return emit(g.CastOp, emit(g.CastOp, scale, to=f16), to=f32)


def _grouped(emit: Make, weight: SSAValue, axis: int, size: int) -> tuple[SSAValue, int]:
    """Return the weight with `axis` split in two, groups and their elements; and the axis of the
    latter."""
    shape = shape_of(weight)
    if missing := -shape[axis] % size:
        weight = emit(g.PadOp, weight, pads=[0, missing], axes=[axis])
    count = -(-shape[axis] // size)
    target = (*shape[:axis], count, size, *shape[axis + 1 :])
    return emit(g.ReshapeOp, weight, None, shape=target), axis + 1


def _not_zero(emit: Make, scale: SSAValue) -> SSAValue:
    """Return the scale, another one where it is as good as zero."""
    smallest = float(float_limits(dtype_of(element_type(scale))).smallest_subnormal)
    least = emit.number(max(LEAST, smallest / 2), scale)
    is_some = emit(g.CompareOp, emit(g.AbsOp, scale), least, predicate="gt")
    return emit(g.SelectOp, is_some, scale, emit.number(WITHOUT_WEIGHT, scale))
