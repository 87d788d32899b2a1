"""Matmuls, convolutions and attention of dequantized values as such of integers.

    %xf = graph.dequantize %x, %sx, %zx                 %0 = graph.matmul %x, %w : (i8, i8) -> i32
    %wf = graph.dequantize %w, %sw axis 1               %1 = graph.add %0, %c
    %0 = graph.matmul %xf, %wf                 becomes  %2 = graph.dequantize %1, %sx * %sw
    %1 = graph.add %0, %b

where %c = round(%b / (%sx * %sw)) - %zx * (the sums of %w) and %sx * %sw are expressions of
constants. A convolution takes %c as its bias, and the zero point as what its padding holds.

A bias that 32 bits may not hold, or that is not known yet, raises the scale of the weight: to
|b| / (sx * 2^30) at least, so that the weight is quantized once more (which changes nothing where
the scale stays).

A scale of the input that is known only at run time, of the tensor or of each row, multiplies what
becomes of the sums, and a bias is added behind it; so it is to sums of 64 bits (i16 times i8).
Cubes multiply 8 bits: codes of 16 bits are two products with the weight, of their high and their
low bytes, whose floats are added.

Exceptions: blocks of scales, scales of weights that are known only at run time, scales along the
summed dimension, or not normal; zero points of weights but 128 of unsigned ones; zero points where
both operands are computed. These layers stay in floats, and a remark says why.

Attention:

    %0 = graph.dequantize %q, %sq
    %1 = graph.dequantize %k, %sk
    %2 = graph.dequantize %v, %sv              becomes
    %3 = graph.attention %0, %1, %2                      %3 = graph.attention %q, %k, %v
           {rounded_weights}                                    {rounded_weights,
                                                                 scale = sq * sk / sqrt(E),
                                                                 value_scale = sv}

Exceptions there: weights that are not rounded, zero points, scales along an axis or known only at
run time. A remark says which.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.dialects.builtin import BoolAttr, FloatAttr, IntegerAttr, f32, f64, i8, i32, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects import graph as g
from ge.dialects.graph.linear import product_element
from ge.dialects.support.definitions import SEGMENTS
from ge.dialects.support.element_types import bitwidth, is_float, is_unsigned, ui8
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import element_type, is_static, numel, rank_of, shape_of, tensor
from ge.dialects.targets.target import Target
from ge.runtime.data.weights import payload_at_hand
from ge.runtime.library.asking import launch_us
from ge.runtime.numbers.constants import Constants
from ge.transforms.graph.canonical.linear_maps import (
    as_type,
    combined_with,
    is_padded,
    is_prepared,
    shaped,
    spread,
)
from ge.transforms.graph.canonical.local import Replacement, rule
from ge.transforms.quantization.grids import (
    Grid,
    Quantized,
    Refused,
    as_scale,
    dequantized,
    has_one_element,
    known,
    scalar,
)
from ge.transforms.quantization.layers import weight_axes
from ge.transforms.quantization.signed_codes import OFFSET, shifted
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.building import Make

MOST_BIAS = 2**30  # so that the sums have as much room again


@dataclass
class LinearLayer:
    """The operands of a linear layer, and which dimensions of its weight are what."""

    x: Quantized
    weight: Quantized
    outputs: int  # dimension of the weight that its scale may be along
    summed: tuple[int, ...]  # dimensions of the weight that products are summed along
    count: int  # outputs
    times: int = 1  # that its products count

    @property
    def sums(self) -> Attribute:
        """The element type of sums of products."""
        return product_element(self.x.values, self.weight.values)

    @property
    def adds_floats(self) -> bool:
        """Return whether a bias is added to floats."""
        return self.sums == i64 or self.x.factor is not None


# ---- bias and zero points ----------------------------------------------------------------------


def is_bias_of(scale: SSAValue, x: Quantized, weight: Quantized) -> bool:
    """Return whether a scale is the product of those of input and weight, as far as floats can say:
    one is that of all channels where their products are equal."""
    of_bias, a, b = (known(v) for v in (scale, x.grid.scale, weight.grid.scale))
    if of_bias is None or a is None or b is None:
        op = scale.owner
        pair = {x.grid.scale, weight.grid.scale}
        return isinstance(op, g.MulOp) and set(op.operands) == pair
    product = a.astype(np.float64) * b.astype(np.float64)
    return bool(np.allclose(of_bias.reshape(-1), product.reshape(-1), rtol=2.0**-20, atol=0))


def fits(bias: SSAValue, x: Quantized, weight: Quantized) -> bool | None:
    """Return whether a bias in units of the sums is surely below `MOST_BIAS`; None if not known
    yet, as without the weights."""
    values = bias, x.grid.scale, weight.grid.scale
    constants = Constants(payload_at_hand())
    if not all(map(is_prepared, values)):
        return None
    try:
        b, sx, sw = map(constants.value, values)
    except GeError:
        return None
    units = b.reshape(-1).astype(np.float64) / (sx.reshape(()) * sw.reshape(-1))
    return bool((np.abs(units) < MOST_BIAS).all())


def bias_in_units(bias: SSAValue | None, x: Quantized, weight: Quantized) -> SSAValue | None:
    """The integers of a bias that is quantized in units of the sums already."""
    op = None if bias is None else bias.owner
    if not isinstance(op, g.DequantizeOp) or element_type(op.input) != i32:
        return None
    grid = Grid.of(op)
    return op.input if grid and grid.zero == 0 and is_bias_of(grid.scale, x, weight) else None


@dataclass(frozen=True, slots=True)
class Terms:
    """The weight's integers, the scale of the sums, and what is added to them."""

    weight: SSAValue
    scale: SSAValue
    added: SSAValue | None


def terms_of(op: Operation, layer: LinearLayer, bias: SSAValue | None, make: Make) -> Terms:
    x, weight = layer.x, layer.weight
    scale, integers = as_scale(make, weight.grid.scale), weight.symmetric(make)
    if layer.times > 1:
        scale = make(g.MulOp, scale, make.splat(float(layer.times), element_type(scale)))
    if x.factor is not None:
        zeros = zero_term(layer, integers, make)
        return Terms(integers, scale, None if zeros is None else make(g.NegOp, zeros))
    scale_x = as_scale(make, scalar(make, x.grid.scale))
    units = bias_in_units(bias, x, weight)
    if bias is not None and units is None:
        bias = as_type(make, bias, element_type(scale))
        if not (fitting := fits(bias, x, weight)):
            if fitting is False:
                why = "the weight's scale is raised: its bias does not fit 32 bits"
                remarks.applied("lower-quantization", op, why)
            least = raised_scale(scale, scale_x, bias, make)
            integers = regridded(make, integers, scale, least, layer.outputs)
            scale = least
    product = make(g.MulOp, scale, scale_x)
    if bias is not None and units is None:
        vector = spread(make, bias, layer.count)
        units = make(g.QuantizeOp, vector, product, to=i32, axis=axis_of(product, 0))
    zeros = zero_term(layer, integers, make)
    if zeros is None:
        return Terms(integers, product, units)
    added = make(g.NegOp, zeros) if units is None else make(g.SubOp, units, zeros)
    return Terms(integers, product, added)


def signed(layer: LinearLayer, make: Make) -> LinearLayer:
    """Return the layer with signed codes of 8 bits, where the scale of unsigned ones is known only
    at run time: the others are shifted already (`signed_codes.py`)."""
    x = layer.x
    if x.factor is None or element_type(x.values) != ui8:
        return layer
    grid = Grid(x.grid.scale, make.splat(-OFFSET, i8), None)
    return replace(layer, x=replace(x, values=shifted(x.values, make), grid=grid))


def in_bytes(layer: LinearLayer, make: Make) -> tuple[LinearLayer, LinearLayer] | None:
    """Layers of the high and the low bytes of codes of 16 bits, 256 high + low + 128, both signed;
    None for other codes, for a zero point that is not known yet, and where both operands are
    computed."""
    x, zero, element = layer.x, layer.x.grid.zero, element_type(layer.x.values)
    if bitwidth(element) != 16 or zero is None or not layer.weight.is_weight:
        return None
    first = OFFSET if is_unsigned(element) else 0  # of the high byte
    codes = as_type(make, x.values, f32)
    high = make(g.FloorOp, make(g.MulOp, codes, make.splat(1 / 256, f32)))
    inner = make(g.SubOp, codes, make(g.MulOp, high, make.splat(256.0, f32)))
    if first:
        high = make(g.SubOp, high, make.splat(float(first), f32))
    low = make(g.SubOp, inner, make.splat(float(OFFSET), f32))
    zeros, times = (zero // 256 - first, zero % 256 - OFFSET), (256, 1)
    high, low = (
        replace(
            layer,
            x=replace(
                x,
                values=as_type(make, part, i8),
                grid=Grid(x.grid.scale, make.splat(number, i8), None),
            ),
            times=factor,
        )
        for part, number, factor in zip((high, low), zeros, times, strict=True)
    )
    return high, low


def axis_of(scale: SSAValue, axis: int) -> int | None:
    return None if has_one_element(scale) else axis


def raised_scale(scale: SSAValue, scale_x: SSAValue, bias: SSAValue, make: Make) -> SSAValue:
    """max(|scale|, |bias| / (scale_x * 2^30)) with the sign of the scale, one for each output."""
    most = make(g.MulOp, scale_x, make.splat(float(MOST_BIAS), element_type(scale_x)))
    least = make(g.AbsOp, make(g.DivOp, bias, most))
    scale, least = (shaped(make, v, (numel(shape_of(v)),)) for v in (scale, least))
    raised = make(g.MaximumOp, make(g.AbsOp, scale), least)
    turned = make(g.CompareOp, scale, make.splat(0.0, element_type(scale)), predicate="lt")
    return make(g.SelectOp, turned, make(g.NegOp, raised), raised)


def regridded(make: Make, integers: SSAValue, old: SSAValue, new: SSAValue, axis: int) -> SSAValue:
    """Integers on a grid of another scale."""
    floats = make(g.DequantizeOp, integers, old, axis=axis_of(old, axis))
    return make(g.QuantizeOp, floats, new, to=element_type(integers), axis=axis_of(new, axis))


def zero_term(layer: LinearLayer, integers: SSAValue, make: Make) -> SSAValue | None:
    """The zero point of the input times the sums of the weight, for each output."""
    grid = layer.x.grid
    if grid.zero_point is None or grid.zero == 0:
        return None
    wide = as_type(make, integers, layer.sums)
    sums = make(g.ReduceOp, wide, kind="sum", axes=list(layer.summed), keep_dims=False)
    return make(g.MulOp, sums, as_type(make, scalar(make, grid.zero_point), layer.sums))


# ---- matmuls -----------------------------------------------------------------------------------


def matmul_layer(op: g.MatmulOp, floats: bool = False) -> LinearLayer:
    """Raises Refused."""
    lhs = Quantized.of(op.lhs, "left operand", floats)
    rhs = Quantized.of(op.rhs, "right operand", floats)
    if lhs.is_weight and not rhs.is_weight:
        x, weight = rhs, lhs
    else:
        x, weight = lhs, rhs
    outputs, summed = weight_axes(op, int(weight is rhs))
    if x.grid.axis is not None:
        raise Refused("its input has a scale for each channel")
    if weight.factor is not None:
        raise Refused("the scale of its weight is known only at run time")
    if x.factor is not None and not has_one_element(x.factor):
        if not x.has_rows or x is rhs or op.transpose_lhs.value.data:
            raise Refused("its input has scales that differ within a row")
    if weight.grid.axis not in (None, outputs):
        raise Refused("its weight has scales along the summed dimension")
    weight.check_symmetric("weight")
    if not weight.is_weight and (x.grid.zero != 0 or weight.grid.zero):
        raise Refused("both operands are computed, and one has a zero point")
    if not is_static((shape_of(weight.values)[outputs],)) and x.grid.zero != 0:
        raise Refused("the size of its weight is not known")
    return LinearLayer(x, weight, outputs, (summed,), shape_of(weight.values)[outputs])


def integer_matmul_of(op: g.MatmulOp, bias: SSAValue | None, make: Make) -> SSAValue:
    """Raises Refused."""
    layer = matmul_layer(op)
    if bias is not None and layer.adds_floats:
        return make(g.AddOp, integer_matmul_of(op, None, make), bias)
    if (parts := in_bytes(layer, make)) is not None:
        sums = (matmul_of(op, part, None, wide(op), make) for part in parts)
        return as_type(make, make(g.AddOp, *sums), element_type(op.result))
    return matmul_of(op, signed(layer, make), bias, element_type(op.result), make)


def wide(op: g.MatmulOp | g.Convolution) -> Attribute:
    """The element type that parts of a result are added in."""
    element = element_type(op.result)
    return f32 if bitwidth(element) < 32 else element


def matmul_of(
    op: g.MatmulOp, layer: LinearLayer, bias: SSAValue | None, element: Attribute, make: Make
) -> SSAValue:
    """Floats of this element type. Raises Refused."""
    on_the_right = layer.x.op.result is op.lhs
    rank = rank_of(layer.weight.values)
    if bias is not None and not (on_the_right and rank == 2):
        raise Refused("its bias is not along the columns of a matrix")
    terms = terms_of(op, layer, bias, make)
    pair = (layer.x.values, terms.weight) if on_the_right else (terms.weight, layer.x.values)
    sums = make(g.MatmulOp, *pair, **op.properties)
    axis = rank_of(sums) - (1 if on_the_right else 2)
    if terms.added is not None:
        added = terms.added
        if not on_the_right or rank > 2:
            batch, one = shape_of(added)[:-1], (1,)
            column = (layer.count, *one) if not on_the_right else (*one, layer.count)
            added = shaped(make, added, (*batch, *column))
        sums = make(g.AddOp, sums, added)
    return dequantized(make, sums, terms.scale, axis, element, layer.x.factor)


def biased(op: g.AddOp) -> tuple[g.MatmulOp, SSAValue] | None:
    """The matmul and the bias of a sum, if the matmul has no other user."""
    for value, bias in combined_with(op, (g.AddOp,)):
        if isinstance(value.owner, g.MatmulOp) and value.has_one_use():
            return value.owner, bias
    return None


@rule(g.MatmulOp, exact=False)
def integer_matmul(op: g.MatmulOp, make: Make) -> Replacement:
    """The sums of integers times the product of the scales"""
    use = op.result.get_user_of_unique_use()
    try:
        if isinstance(use, g.AddOp) and biased(use) is not None:
            matmul_layer(op)
            if rank_of(op.rhs) == 2 and not is_prepared(op.lhs):
                return None  # `integer_matmul_with_bias` will take both
        return integer_matmul_of(op, None, make)
    except Refused:
        return None


@rule(g.AddOp, exact=False)
def integer_matmul_with_bias(op: g.AddOp, make: Make) -> Replacement:
    """The same with a bias in units of the sums"""
    if (pair := biased(op)) is None:
        return None
    try:
        return integer_matmul_of(*pair, make)
    except Refused:
        return None


# ---- convolutions ------------------------------------------------------------------------------


def conv_layer(op: g.Convolution, floats: bool = False) -> LinearLayer:
    """Raises Refused."""
    x = Quantized.of(op.input, "input", floats)
    weight = Quantized.of(op.weight, "weight", floats)
    rank, transposed = rank_of(op.weight), isinstance(op, g.ConvTransposeOp)
    outputs, count = int(transposed), shape_of(op.result)[1]
    if x.grid.axis is not None:
        raise Refused("its input has a scale for each channel")
    if weight.factor is not None or (x.factor is not None and x.has_rows):
        raise Refused("the scales of its weight, or of each row, are known only at run time")
    if weight.grid.axis not in (None, outputs) or (
        transposed and op.groups > 1 and weight.grid.axis is not None
    ):
        raise Refused("its weight has scales along the summed dimension")
    if not weight.is_weight or not is_static(shape_of(op.weight)):
        raise Refused("its weight is computed")
    weight.check_symmetric("weight")
    if op.bias is not None and not is_prepared(op.bias):
        raise Refused("its bias is computed")
    if x.grid.zero is None and is_padded(op):
        raise Refused("the zero point of its input is not known")
    if transposed and (x.grid.zero != 0 or (op.bias is not None and op.groups > 1)):
        raise Refused("it is transposed, and its input has a zero point")
    summed = tuple(i for i in range(rank) if i != outputs)
    return LinearLayer(x, weight, outputs, summed, count)


@rule(g.ConvOp, g.ConvTransposeOp, exact=False)
def integer_convolution(op: g.ConvOp | g.ConvTransposeOp, make: Make) -> Replacement:
    """The sums of integers, with the zero point of the input as padding"""
    try:
        layer = conv_layer(op)
    except Refused:
        return None
    bias, later = (None, op.bias) if layer.adds_floats else (op.bias, None)
    element, is_plain = element_type(op.result), isinstance(op, g.ConvOp)
    if is_plain and (parts := in_bytes(layer, make)) is not None:
        sums = (convolution_of(op, part, None, wide(op), make) for part in parts)
        result = as_type(make, make(g.AddOp, *sums), element)
    else:
        layer = signed(layer, make) if is_plain else layer
        result = convolution_of(op, layer, bias, element, make)
    if later is None:
        return result
    return make(g.AddOp, result, shaped(make, later, (layer.count, *[1] * (rank_of(result) - 2))))


def convolution_of(
    op: g.ConvOp | g.ConvTransposeOp,
    layer: LinearLayer,
    bias: SSAValue | None,
    element: Attribute,
    make: Make,
) -> SSAValue:
    """Floats of this element type."""
    terms = terms_of(op, layer, bias, make)
    params = dict(op.properties)
    if isinstance(op, g.ConvOp) and is_padded(op):
        params["pad_value"] = IntegerAttr(layer.x.grid.zero or 0, i64)
    sums = make(type(op), layer.x.values, terms.weight, terms.added, **params)
    if (factor := layer.x.factor) is not None and not has_one_element(factor):
        factor = make(g.UnsqueezeOp, factor, axes=list(range(1, rank_of(sums))))
    return dequantized(make, sums, terms.scale, 1, element, factor)


# ---- weights -----------------------------------------------------------------------------------


@rule(g.DequantizeOp)
def scales_of_groups(op: g.DequantizeOp, make: Make) -> Replacement:
    """Scales of groups of a weight are stored in the fewer bits that they were rounded to."""
    cast = op.scale.owner
    if not isinstance(cast, g.CastOp) or not op.block_size.value.data or op.to is not None:
        return None
    narrow = element_type(cast.input)
    if not is_float(narrow) or bitwidth(narrow) != 16 or not is_prepared(op.input):
        return None
    if not is_prepared(cast.input):
        return None
    params = {**op.properties, "to": element_type(op.result)}
    return make(g.DequantizeOp, op.input, cast.input, op.zero_point, **params)


@rule(g.MulOp, g.DivOp, exact=False)
def scale_of_weight(op: g.MulOp | g.DivOp, make: Make) -> Replacement:
    """A factor for each output of a quantized weight goes into its scale."""
    for value, factor in op.sides():
        inner = value.owner
        if not isinstance(inner, g.DequantizeOp) or not is_prepared(inner.input):
            continue
        grid, shape = Grid.of(inner), shape_of(value)
        axes = [i for i, d in enumerate(padded_shape(factor, len(shape))) if d != 1]
        if grid is None or not is_prepared(factor) or shape != shape_of(op.result):
            continue
        if not grid.is_prepared or len(axes) > 1 or grid.axis not in (None, *axes):
            continue
        if not (axes or has_one_element(factor)):
            continue
        factor = shaped(make, factor, (numel(shape_of(factor)),))
        scale = shaped(make, grid.scale, (numel(shape_of(grid.scale)),))
        scale = make(type(op), scale, as_type(make, factor, element_type(scale)))
        axis = grid.axis if not axes else axes[0]
        zero = grid.zero_point
        if zero is not None and not has_one_element(scale):
            zero = spread(make, zero, numel(shape_of(scale)))
        return make(g.DequantizeOp, inner.input, scale, zero, axis=axis_of(scale, axis or 0))
    return None


def padded_shape(value: SSAValue, rank: int) -> tuple[int, ...]:
    own = shape_of(value)
    return (1,) * (rank - len(own)) + own


# ---- remarks -----------------------------------------------------------------------------------


def remark_refused(op: Operation) -> None:
    """Remark why a layer, or attention, of quantized operands stays in floats."""
    if isinstance(op, g.AttentionOp):
        if op.is_integer or not op.rounded_weights.value.data:
            return
    elif not any(isinstance(v.owner, g.DequantizeOp) for v in op.operands[:2]):
        return
    try:
        if isinstance(op, g.AttentionOp):
            integer_operands(op)
        elif isinstance(op, g.MatmulOp):
            matmul_layer(op)
        elif isinstance(op, g.ConvOp | g.ConvTransposeOp):
            conv_layer(op)
    except Refused as why:
        remarks.missed("lower-quantization", op, str(why))


BITS = 8  # of query, key and value


def scale_of(operand: Quantized, what: str) -> float:
    """Raises Refused."""
    scale, grid = known(operand.grid.scale), operand.grid
    if element_type(operand.values) != i8:
        raise Refused(f"its {what} is quantized to {element_type(operand.values)}")
    if grid.axis is not None or scale is None:
        raise Refused(f"the scale of its {what} is not one number that is known")
    if grid.zero != 0:
        raise Refused(f"its {what} has a zero point")
    return float(scale.reshape(()))


def integer_operands(op: g.AttentionOp) -> tuple[list[Quantized], list[float]]:
    """Query, key and value as integers, and their scales. Raises Refused."""
    names = ("query", "key", "value")
    operands = [Quantized.of(v, n) for n, v in zip(names, op.operands[:3], strict=True)]
    if not op.rounded_weights.value.data:
        raise Refused("its weights are not quantized")
    return operands, [scale_of(o, n) for n, o in zip(names, operands, strict=True)]


def of_integers(
    op: g.AttentionOp, factors: Sequence[SSAValue], scales: Sequence[float], make: Make
) -> g.AttentionOp:
    """Attention of integers in place of query, key and value."""
    own = 1 / math.sqrt(max(op.sizes("query")[3], 1)) if op.scale is None else op.scale.value.data
    params: dict[str, Attribute] = {n: a for n, a in op.properties.items() if n != SEGMENTS}
    params["scale"] = FloatAttr(own * scales[0] * scales[1], f64)
    params["value_scale"] = FloatAttr(scales[2], f64)
    params["rounded_weights"] = BoolAttr.from_bool(True)
    others = op.key_lengths, op.offset_value, op.length, op.table
    return make.op(g.AttentionOp, *factors, [*op.masks], *others, **params)


@rule(g.AttentionOp, exact=False)
def integer_attention(op: g.AttentionOp, make: Make) -> Replacement:
    """The scores of integers times the product of the scales"""
    try:
        operands, scales = integer_operands(op)
    except Refused:
        return None
    new = of_integers(op, [o.values for o in operands], scales, make)
    return as_type(make, new.result, element_type(op.result))


def integers_us(op: g.AttentionOp, target: Target) -> float | None:
    """Time of a launch of integers; None while a shape is dynamic."""
    make = Make()
    block = Block(arg_types=[tensor(shape_of(v), i8) for v in op.operands[:3]])
    us = launch_us(of_integers(op, block.args, (1.0, 1.0, 1.0), make), target)
    make.discard()
    return us


def recurrent_us(op: g.Recurrent, element: Attribute, target: Target) -> float | None:
    """Time of the matmuls of a recurrent layer of this element type, integers with their quantize
    of the input; None while a shape is dynamic."""
    (steps, batch, size), hidden, count = shape_of(op.input), op.hidden, op.GATES * op.hidden
    if not is_static((steps, batch)):
        return None
    block, total = Block(arg_types=[op.input.type, tensor((), f32)]), 0.0
    for times, rows, columns in ((1, steps * batch, size), (steps, batch, hidden)):
        types = [tensor((n, columns), element) for n in (rows, count)]
        pair = Block(arg_types=types).args
        us = launch_us(g.MatmulOp.of(*pair, transpose_rhs=True), target)
        total += op.directions * times * (us or 0.0)
    if not is_float(element):
        total += launch_us(g.QuantizeOp.of(*block.args, to=element), target) or 0.0
    return total


def lost_in_steps_us(op: g.Recurrent, target: Target) -> float | None:
    """Return how much longer a recurrent layer would take in integers; None if that is not known:
    small matmuls take as long in floats."""
    before, after = (recurrent_us(op, t, target) for t in (element_type(op.input), i8))
    return None if before is None or after is None else after - before


def lost_us(op: g.AttentionOp, target: Target) -> float:
    """Return how much longer a launch of integers would take than one of floats: softmax takes the
    vector unit longer, which is what 16-bit attention waits for."""
    before, after = launch_us(op, target), integers_us(op, target)
    return 0.0 if before is None or after is None else after - before
