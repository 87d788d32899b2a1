"""Linear ops are folded into weights: normalization with given statistics, factors and offsets by
channel, and linear maps of linear maps. Each becomes an expression of weights, which
`prepare-weights` evaluates once.

A convolution's channels are dimension 1 of its result, a matmul's columns the last one. Neither the
linear map nor its weight may have another user: a weight that others need as well would be stored
twice.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import f32, f64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects import graph
from ge.dialects.graph import elementwise as g
from ge.dialects.support.element_types import bitwidth, is_float
from ge.dialects.support.operation import operands_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, element_type, is_static, numel, rank_of, shape_of
from ge.transforms.graph.canonical.local import Replacement, rule
from ge.transforms.rewriting.building import Make

MOST_OPS = 64  # ops of an expression of weights that are looked at


# ---- expressions of weights --------------------------------------------------------------------


def is_prepared(value: SSAValue) -> bool:
    """Return whether a value depends on constants alone."""
    todo, seen = [value.owner], set[Operation]()
    while todo:
        op = todo.pop()
        if op in seen:
            continue
        if not isinstance(op, TensorOp) or op.regions or len(seen) == MOST_OPS:
            return False
        operands = operands_of(op)
        if not operands and not isinstance(op, graph.ConstantOp):
            return False
        seen.add(op)
        todo += [v.owner for v in operands]
    return True


def is_own(value: SSAValue) -> bool:
    """Return whether a value depends on constants alone and has one user besides other expressions
    of weights."""
    if not is_prepared(value):
        return False
    running = 0
    for count, use in enumerate(value.uses):
        running += not all(is_prepared(v) for v in use.operation.operands)
        if running > 1 or count == MOST_OPS:
            return False
    return True


def as_type(make: Make, value: SSAValue, element: Attribute) -> SSAValue:
    return value if element_type(value) == element else make(g.CastOp, value, to=element)


def wide(element: Attribute) -> Attribute:
    """The element type that floats are computed in."""
    return f32 if bitwidth(element) < 32 else element


def widened(make: Make, value: SSAValue) -> SSAValue:
    return as_type(make, value, wide(element_type(value)))


def shaped(make: Make, value: SSAValue, shape: Sequence[int]) -> SSAValue:
    if shape_of(value) == tuple(shape):
        return value
    return make(graph.ReshapeOp, value, shape=list(shape))


def spread(make: Make, value: SSAValue, count: int) -> SSAValue:
    """A vector of `count` elements: the value's own, or its one element repeated."""
    if numel(shape_of(value)) == count:
        return shaped(make, value, (count,))
    return make(graph.BroadcastToOp, shaped(make, value, (1,)), shape=(count,))


def vector_along(value: SSAValue, shape: Shape, axis: int) -> bool:
    """Return whether a value of constants has one element, or one for each index of `axis`, and
    broadcasts to this shape."""
    own = shape_of(value)
    if not is_static(own) or shape[axis] < 0 or len(own) > len(shape):
        return False
    wanted = [1] * len(shape)
    if numel(own) != 1:
        wanted[axis] = shape[axis]
    fits = list(own) == wanted[len(shape) - len(own) :] and numel(own) in (1, shape[axis])
    return fits and is_prepared(value)


def combined_with(
    op: Operation | Block, kinds: tuple[type[g.Binary], ...], axis: int = -1
) -> list[tuple[SSAValue, SSAValue]]:
    """Operand and vector of weights along `axis` of an op of these kinds."""
    if not isinstance(op, kinds) or not (shape := shape_of(op.results[0])) or axis >= len(shape):
        return []
    return [
        (value, other)
        for value, other in op.sides()
        if vector_along(other, shape, axis) and shape_of(value) == shape and not is_prepared(value)
    ]


# ---- batch norm --------------------------------------------------------------------------------


def as_product(op: graph.BatchNormOp, make: Make, element: Attribute) -> SSAValue:
    """x * factor + offset, where these are computed in an element type, as the kernel does."""
    scale, bias, mean, variance = (as_type(make, v, element) for v in op.operands[1:])
    epsilon = make.splat(op.epsilon.value.data, element)
    factor = make(g.DivOp, scale, make(g.SqrtOp, make(g.AddOp, variance, epsilon)))
    offset = make(g.SubOp, bias, make(g.MulOp, mean, factor))
    by_channel = (*shape_of(op.scale), *[1] * (rank_of(op.input) - 2))
    pair = [as_type(make, v, element_type(op.input)) for v in (factor, offset)]
    factor, offset = (shaped(make, v, by_channel) for v in pair)
    return make(g.AddOp, make(g.MulOp, op.input, factor), offset)


@rule(graph.BatchNormOp)
def batch_norm_as_product(op: graph.BatchNormOp, make: Make) -> Replacement:
    """x * factor + offset: the same bits for types that need no rounding between"""
    element = element_type(op.input)
    if element not in (f32, f64) or not all(is_prepared(v) for v in op.operands[1:]):
        return None
    same = all(element_type(v) == element for v in op.operands)
    return as_product(op, make, element) if same else None


@rule(graph.BatchNormOp, exact=False)
def batch_norm_of_half(op: graph.BatchNormOp, make: Make) -> Replacement:
    """The same for types of 16 bits behind a convolution or matmul, which take it on"""
    linear = op.input.owner
    if not isinstance(linear, graph.Convolution | graph.MatmulOp) or not is_own(linear.operands[1]):
        return None
    if element_type(op.input) in (f32, f64) or not all(is_prepared(v) for v in op.operands[1:]):
        return None
    return as_product(op, make, f32)


# ---- convolutions ------------------------------------------------------------------------------


def conv_like(op: graph.Convolution, make: Make, **changes: SSAValue | None) -> SSAValue:
    operands = {"input": op.input, "weight": op.weight, "bias": op.bias, **changes}
    return make(type(op), *operands.values(), **op.properties)


def scaled_weight(op: graph.Convolution, factor: SSAValue, make: Make) -> SSAValue:
    """The weight, each output channel times its factor."""
    shape = shape_of(op.weight)
    ones = [1] * (len(shape) - 2)
    if numel(shape_of(factor)) == 1:
        return make(g.MulOp, op.weight, shaped(make, factor, ()))
    if isinstance(op, graph.ConvOp):
        return make(g.MulOp, op.weight, shaped(make, factor, (shape[0], 1, *ones)))
    # [input channels, output channels / group]: the groups of both go together
    parts = (op.groups, shape[0] // op.groups, *shape[1:])
    by_group = shaped(make, factor, (op.groups, 1, shape[1], *ones))
    return shaped(make, make(g.MulOp, shaped(make, op.weight, parts), by_group), shape)


def has_prepared_bias(op: graph.Convolution) -> bool:
    return op.bias is None or is_prepared(op.bias)


def is_padded(op: graph.Convolution) -> bool:
    return any(op.ints("pads") or ()) or op.auto_pad is not None


def own_conv(value: SSAValue) -> graph.Convolution | None:
    """The convolution with weights of its own that a value is, if that has one use."""
    op = value.owner
    if not isinstance(op, graph.ConvOp | graph.ConvTransposeOp) or not value.has_one_use():
        return None
    if not is_float(element_type(value)) or not is_static(shape_of(op.weight)):
        return None
    return op if is_own(op.weight) and has_prepared_bias(op) else None


@rule(g.MulOp, g.DivOp, exact=False)
def scale_after_conv(op: g.MulOp | g.DivOp, make: Make) -> Replacement:
    """conv(x, w, b) * f = conv(x, w * f, b * f)"""
    for value, factor in combined_with(op, (g.MulOp, g.DivOp), axis=1):
        if (conv := own_conv(value)) is None:
            continue
        if isinstance(op, g.DivOp):
            factor = make(g.ReciprocalOp, factor)
        bias = conv.bias
        if bias is not None:
            bias = make(g.MulOp, bias, spread(make, factor, shape_of(value)[1]))
        return conv_like(conv, make, weight=scaled_weight(conv, factor, make), bias=bias)
    return None


def bias_of_conv(op: g.AddOp, make: Make, first: bool) -> Replacement:
    """The offset as the convolution's first bias, or added to it."""
    for value, offset in combined_with(op, (g.AddOp,), axis=1):
        conv = own_conv(value)
        if conv is None or (conv.bias is None) != first:
            continue
        bias = spread(make, offset, shape_of(value)[1])
        if conv.bias is not None:
            bias = make(g.AddOp, conv.bias, bias)
        return conv_like(conv, make, bias=bias)
    return None


@rule(g.AddOp)
def first_bias_of_conv(op: g.AddOp, make: Make) -> Replacement:
    """conv(x, w) + b = conv(x, w, b), which adds it to the rounded sums"""
    wide = element_type(op.lhs) in (f32, f64)
    return bias_of_conv(op, make, first=True) if wide else None


@rule(g.AddOp, exact=False)
def rounded_bias_of_conv(op: g.AddOp, make: Make) -> Replacement:
    """The same for types of 16 bits"""
    return bias_of_conv(op, make, first=True)


@rule(g.AddOp, exact=False)
def second_bias_of_conv(op: g.AddOp, make: Make) -> Replacement:
    """conv(x, w, a) + b = conv(x, w, a + b)"""
    return bias_of_conv(op, make, first=False)


@rule(graph.ConvOp, exact=False)
def scale_before_conv(op: graph.ConvOp, make: Make) -> Replacement:
    """conv(x * f, w) = conv(x, w * f), by input channel; likewise for a quotient"""
    if not is_own(op.weight) or not op.input.has_one_use() or not is_float(element_type(op.input)):
        return None
    kind = g.DivOp if isinstance(op.input.owner, g.DivOp) else g.MulOp
    for value, factor in combined_with(op.input.owner, (kind,), axis=op.channel_axis):
        if op.groups == 1:
            factor = by_input(op, factor, make)
        elif numel(shape_of(factor)) == 1:
            factor = shaped(make, factor, ())
        else:
            continue
        weight = make(kind, op.weight, factor)
        if is_static(shape_of(op.weight)):
            return conv_like(op, make, input=value, weight=weight)
    return None


def by_input(op: graph.ConvOp, value: SSAValue, make: Make) -> SSAValue:
    """A number for each input channel in the form of the weight [output, input, kernel...]."""
    shape = shape_of(op.weight)
    return shaped(make, spread(make, value, shape[1]), (1, shape[1], *[1] * (len(shape) - 2)))


@rule(graph.ConvOp, exact=False)
def offset_before_conv(op: graph.ConvOp, make: Make) -> Replacement:
    """conv(x + d, w, b) = conv(x, w, b + the sum of w * d), unless zeros are padded"""
    if is_padded(op) or not is_prepared(op.weight) or op.groups != 1 or not op.input.has_one_use():
        return None
    if not is_float(element_type(op.input)) or not has_prepared_bias(op):
        return None
    for value, offset in combined_with(op.input.owner, (g.AddOp,), axis=op.channel_axis):
        product = make(g.MulOp, op.weight, by_input(op, offset, make))
        axes = list(range(1, rank_of(op.weight)))
        bias = make(graph.ReduceOp, product, kind="sum", axes=axes, keep_dims=False)
        if op.bias is not None:
            bias = make(g.AddOp, bias, op.bias)
        return conv_like(op, make, input=value, bias=bias)
    return None


# ---- matmuls -----------------------------------------------------------------------------------


def own_matmul(value: SSAValue) -> graph.MatmulOp | None:
    """The matmul with a matrix of weights of its own that a value is, if that has one use."""
    op = value.owner
    if not isinstance(op, graph.MatmulOp) or not value.has_one_use() or not is_own(op.rhs):
        return None
    return op if rank_of(op.rhs) == 2 and is_float(element_type(value)) else None


def transposed(op: graph.MatmulOp) -> bool:
    return bool(op.transpose_rhs.value.data)


def scaled_matrix(
    op: graph.MatmulOp, kind: type[g.Binary], factor: SSAValue, make: Make, columns: bool
) -> SSAValue:
    """The right-hand matrix with a factor for each column, or for each row."""
    count = numel(shape_of(factor))
    vector = (count, 1) if transposed(op) == columns else (count,)
    return make(kind, op.rhs, shaped(make, factor, () if count == 1 else vector))


@rule(g.MulOp, g.DivOp, exact=False)
def scale_after_product(op: g.MulOp | g.DivOp, make: Make) -> Replacement:
    """(x w) * f = x (w * f), by column"""
    for value, factor in combined_with(op, (g.MulOp, g.DivOp)):
        if (matmul := own_matmul(value)) is not None:
            weight = scaled_matrix(matmul, type(op), factor, make, columns=True)
            return make(graph.MatmulOp, matmul.lhs, weight, **matmul.properties)
    return None


@rule(graph.MatmulOp, exact=False)
def scale_before_product(op: graph.MatmulOp, make: Make) -> Replacement:
    """(x * f) w = x (w * f), by row; likewise for a quotient"""
    if not op.lhs.has_one_use() or not is_own(op.rhs) or rank_of(op.rhs) != 2:
        return None
    if op.transpose_lhs.value.data or not is_float(element_type(op.lhs)):
        return None
    kind = g.DivOp if isinstance(op.lhs.owner, g.DivOp) else g.MulOp
    for value, factor in combined_with(op.lhs.owner, (kind,)):
        weight = scaled_matrix(op, kind, factor, make, columns=False)
        return make(graph.MatmulOp, value, weight, **op.properties)
    return None


# ---- sums between ------------------------------------------------------------------------------


@rule(g.MulOp, exact=False)
def scale_after_bias(op: g.MulOp, make: Make) -> Replacement:
    """(y + b) * f = y * f + b * f, where y is a matmul that takes on f"""
    for value, factor in combined_with(op, (g.MulOp,)):
        inner = value.owner
        if not isinstance(inner, g.AddOp) or not value.has_one_use():
            continue
        for matmul, bias in combined_with(inner, (g.AddOp,)):
            if own_matmul(matmul) is not None:
                return make(g.AddOp, make(g.MulOp, matmul, factor), make(g.MulOp, bias, factor))
    return None


# ---- linear maps of linear maps ----------------------------------------------------------------


def matrix(op: graph.MatmulOp) -> tuple[int, int]:
    rows, columns = shape_of(op.rhs)
    return (columns, rows) if transposed(op) else (rows, columns)


def joined_weight(first: graph.MatmulOp, then: graph.MatmulOp, make: Make) -> SSAValue | None:
    """a b for (x a) b, if that is cheaper."""
    if first.transpose_lhs.value.data or then.transpose_lhs.value.data:
        return None
    if not is_own(then.rhs) or rank_of(then.rhs) != 2:
        return None
    (k, h), n = matrix(first), matrix(then)[1]
    if k * n > k * h + h * n:
        return None
    flags = {"transpose_lhs": transposed(first), "transpose_rhs": transposed(then)}
    return make(graph.MatmulOp, first.rhs, then.rhs, **flags)


@rule(graph.MatmulOp, exact=False)
def product_of_product(op: graph.MatmulOp, make: Make) -> Replacement:
    """(x a) b = x (a b), where that is cheaper"""
    inner = own_matmul(op.lhs)
    weight = None if inner is None else joined_weight(inner, op, make)
    return None if inner is None or weight is None else make(graph.MatmulOp, inner.lhs, weight)


@rule(graph.MatmulOp, exact=False)
def product_of_biased_product(op: graph.MatmulOp, make: Make) -> Replacement:
    """(x a + b) c = x (a c) + b c, where that is cheaper"""
    inner = op.lhs.owner
    if not isinstance(inner, g.AddOp) or not op.lhs.has_one_use():
        return None
    for value, bias in combined_with(inner, (g.AddOp,)):
        first = own_matmul(value)
        weight = None if first is None else joined_weight(first, op, make)
        if first is None or weight is None:
            continue
        h, n = matrix(op)
        row = shaped(make, spread(make, bias, h), (1, h))
        offset = shaped(make, make(graph.MatmulOp, row, op.rhs, transpose_rhs=transposed(op)), (n,))
        return make(g.AddOp, make(graph.MatmulOp, first.lhs, weight), offset)
    return None


@rule(graph.ConvOp, exact=False)
def point_conv_of_conv(op: graph.ConvOp, make: Make) -> Replacement:
    """A convolution by points of a convolution is one of the same window, where that is
    cheaper"""
    inner, shape = own_conv(op.input), shape_of(op.weight)
    if not isinstance(inner, graph.ConvOp) or (op.groups, inner.groups, op.channel_axis) != (
        1,
        1,
        1,
    ):
        return None
    if not is_static(shape) or any(d != 1 for d in shape[2:]):
        return None
    if is_padded(op) or any(s != 1 for s in op.ints("strides") or ()):
        return None
    if not is_own(op.weight) or not has_prepared_bias(op):
        return None
    first = shape_of(inner.weight)
    (m, h), window = shape[:2], numel(first[1:])
    if m * window > h * window + m * h:
        return None
    outer = shaped(make, op.weight, (m, h))
    weight = make(graph.MatmulOp, outer, shaped(make, inner.weight, (h, window)))
    bias = op.bias
    if inner.bias is not None:
        moved = shaped(make, make(graph.MatmulOp, outer, shaped(make, inner.bias, (h, 1))), (m,))
        bias = moved if bias is None else make(g.AddOp, moved, bias)
    return conv_like(inner, make, weight=shaped(make, weight, (m, *first[1:])), bias=bias)
