"""Dequantize, limits, quantize: one step from integers to integers.

    %0 = graph.dequantize %acc, %s
    %1 = graph.relu %0                         becomes  %2 = graph.requantize %acc, %s / %t
    %2 = graph.quantize %1, %t, %z to i8                       zero_point %z to i8 low z

On one grid of 8-bit integers nothing is left but the limits. Exceptions: codes of 8 bits that would
be rounded to another side in one step; scales that are known only at run time or for blocks, along
two axes, zero points along an axis, sums of 64 bits, and limits where the grid of the result is not
known yet or along an axis.

Functions of codes of 8 bits become tables:

    %0 = graph.dequantize %q, %s, %z
    %1 = graph.gelu %0                         becomes  %2 = graph.lookup %q, %table
    %2 = graph.quantize %1, %t, %y to i8

where %table is what the same ops make of all 256 codes, computed once. Exceptions there: scales
along an axis, values between that something else uses, and numbers that are not known before run
time, or are not one for all.
"""

import math

import numpy as np
from xdsl.dialects.builtin import i8, i64
from xdsl.ir import SSAValue

from ge.dialects import graph as g
from ge.dialects.graph.support.elementwise_bases import Elementwise
from ge.dialects.graph.support.parameters import Number, highest, lowest
from ge.dialects.support.definitions import SEGMENTS
from ge.dialects.support.element_types import bitwidth, ui8
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, shape_of
from ge.runtime.data.arrays import dtype_of
from ge.transforms.graph.canonical.linear_maps import is_prepared
from ge.transforms.graph.canonical.local import Replacement, rule
from ge.transforms.graph.canonical.logic import Interval, interval_of
from ge.transforms.quantization.grids import Grid, as_scale, has_one_element, known, scalar
from ge.transforms.rewriting.building import Make


def limited(value: SSAValue) -> Interval:
    """Return the value that is limited to become a value, and the limits."""
    interval = Interval(value)
    while interval.value.has_one_use():
        inner = interval_of(interval.value.owner)
        if inner is None:
            break
        interval = inner.within(interval.low, interval.high)
    return interval


def on_grid(limit: Number | None, op: g.QuantizeOp, grid: Grid) -> int | None:
    """A limit as an integer of the grid, None where the type limits no less. Raises ValueError if
    the grid is not known."""
    if limit is None or math.isinf(limit):
        return None
    scale, zero = known(grid.scale), grid.zero
    if scale is None or zero is None or grid.axis is not None or not grid.is_positive:
        raise ValueError("the grid is not known")
    kind = np.float32 if scale.dtype.itemsize <= 4 else np.float64
    place = int(np.rint(kind(limit) / kind(scale.reshape(())))) + zero
    return int(min(max(place, lowest(op.to)), highest(op.to)))


@rule(g.QuantizeOp, exact=False)
def requantize(op: g.QuantizeOp, make: Make) -> Replacement:
    """quantize(limit(dequantize x)) = requantize x"""
    interval, target = limited(op.input), Grid.of(op)
    source = interval.value.owner
    if not isinstance(source, g.DequantizeOp) or target is None:
        return None
    if element_type(source.input) == i64:
        return None
    grid = Grid.of(source)
    if grid is None or not (grid.is_prepared and target.is_prepared):
        return None
    if target.axis is not None and (grid.axis not in (None, target.axis) or target.zero != 0):
        return None
    if target.axis is not None and not op.input.has_one_use():
        return None  # `quantize_before_parts` will find it for the other parts
    if not has_one_element(source.scale) and grid.zero != 0:
        return None
    try:
        low, high = (on_grid(limit, op, target) for limit in (interval.low, interval.high))
    except ValueError:
        return None
    low = None if low == lowest(op.to) else low
    high = None if high == highest(op.to) else high
    if element_type(source.input) == op.to and grid.equals(target):
        return clamped(source.input, low, high, make)
    if bitwidth(element_type(source.input)) <= 8 and not same_codes(source, grid, op, target):
        return None
    step = op.scale if target.axis is not None else scalar(make, op.scale)
    scale = make(g.DivOp, as_scale(make, source.scale), as_scale(make, step))
    return make(
        g.RequantizeOp, source.input, scale,
        offset=None if grid.zero == 0 else source.zero_point,
        zero_point=None if target.zero == 0 else op.zero_point,
        to=op.to, axis=grid.axis if target.axis is None else target.axis,
        low=low, high=high, rounding="float32",
    )  # fmt: skip


@rule(g.QuantizeOp)
def quantize_before_limit(op: g.QuantizeOp, make: Make) -> Replacement:
    """quantize(min(x, limits)) = min(quantize x, quantize limits), where x is dequantized"""
    inner, grid = op.input.owner, Grid.of(op)
    if not isinstance(inner, g.MinimumOp | g.MaximumOp) or not op.input.has_one_use():
        return None
    if grid is None or grid.axis is not None or not grid.is_positive:
        return None
    for value, limits in inner.sides():
        source = limited(value).value.owner
        if not isinstance(source, g.DequantizeOp) or not is_prepared(limits):
            continue
        if is_prepared(value) or shape_of(value) != shape_of(op.result):
            continue
        pair = (make(g.QuantizeOp, v, op.scale, op.zero_point, to=op.to) for v in (value, limits))
        return make(type(inner), *pair)
    return None


def same_codes(source: g.DequantizeOp, grid: Grid, op: g.QuantizeOp, target: Grid) -> bool:
    """Return whether each code becomes the same in one step as in floats; ties may not, where a
    scale is a simple fraction of the other."""
    own, new = known(grid.scale), known(target.scale)
    if own is None or new is None or not own.dtype == new.dtype == np.float32 or new.size > 1:
        return False
    if grid.zero is None or target.zero is None:
        return False
    own = own.reshape(-1, 1)
    first, last = (int(f(element_type(source.input))) for f in (lowest, highest))
    codes = np.arange(first, last + 1).astype(np.float32) - np.float32(grid.zero)
    low, high = (int(f(op.to)) - target.zero for f in (lowest, highest))
    in_floats, at_once = np.rint(codes * own / new), np.rint(codes * (own / new))
    return bool((np.clip(in_floats, low, high) == np.clip(at_once, low, high)).all())


def clamped(value: SSAValue, low: int | None, high: int | None, make: Make) -> SSAValue:
    if low is None and high is None:
        return value
    element = element_type(value)
    limits = (None if n is None else make.splat(n, element) for n in (low, high))
    return make(g.ClampOp, value, *limits)


MOST_OPS = 32

KINDS = (g.DequantizeOp, Elementwise, g.QuantizeOp)


@rule(g.QuantizeOp)
def lookup(op: g.QuantizeOp, make: Make) -> Replacement:
    """quantize(f(dequantize x)) = table[x]"""
    ops = function_of(op)
    if not ops:
        return None
    codes = ops[0].operands[0]
    low, high = (int(limit(element_type(codes))) for limit in (lowest, highest))
    all_codes = np.arange(low, high + 1).astype(dtype_of(element_type(codes)))
    values = {codes: make.constant(all_codes)}
    for o in ops:
        values[o.results[0]] = with_values(o, values, make)
    return make(g.LookupOp, codes, values[op.result])


def with_values(op: TensorOp, values: dict[SSAValue, SSAValue], make: Make) -> SSAValue:
    """An op on other values, and on its own numbers."""
    operands: list[SSAValue | None] = []
    for name, _ in op.get_irdl_definition().operands:
        value: SSAValue | None = getattr(op, name)
        operands.append(None if value is None else values.get(value) or scalar(make, value))
    return make(type(op), *operands, **{k: v for k, v in op.properties.items() if k != SEGMENTS})


def function_of(op: g.QuantizeOp) -> list[TensorOp]:
    """The ops that compute codes from other codes, in order: a dequantize, functions of one value,
    the quantize itself. Empty where there is anything else, or nothing between."""
    ops: dict[TensorOp, None] = {}

    def visit(o: TensorOp, depth: int = 0) -> bool:
        if max(depth, len(ops)) == MOST_OPS or not isinstance(o, KINDS):
            return False
        for value in o.operands:
            owner = value.owner
            if (isinstance(o, g.DequantizeOp) and value is o.input) or owner in ops:
                continue
            if is_prepared(value):
                if not has_one_element(value):
                    return False
            elif not isinstance(owner, TensorOp) or not visit(owner, depth + 1):
                return False
        ops[o] = None
        return True

    if not visit(op) or len(ops) < 3:
        return []
    source, *between, _ = ops
    ends_fit = all(
        isinstance(end, g.DequantizeOp | g.QuantizeOp)
        and (grid := Grid.of(end)) is not None
        and grid.axis is None
        for end in (source, op)
    )
    if not ends_fit or not {element_type(source.operands[0]), op.to} <= {i8, ui8}:
        return []
    if not all(isinstance(o, Elementwise) for o in between):
        return []
    users = (use.operation for o in between for r in o.results for use in r.uses)
    return list(ops) if all(user in ops for user in users) else []
