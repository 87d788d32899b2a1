"""Ops along an axis that is cut become ops on parts, and on what is left of the parts.

    %y = graph.cumulative sum %x axis 1 : (tensor<4x64xf32>) -> tensor<4x64xf32>
becomes, where 8 devices have parts of %x along axis 1
    %0 = graph.reshape %x shape [4, 8, 8]
    %1 = graph.cumulative sum %0 axis 2                     of each part
    %2 = graph.reduce sum %0 axes [2]                       the total of each part
    %3 = graph.cumulative sum %2 axis 1 exclusive           those before: of 8 numbers a row
    %y = graph.reshape (%1 + %3) shape [4, 64]

All is as much mathematics on whole values as before, so the same rules say what is sent: here the
totals. Distributions and norms become the sums that they are made of; the greatest elements of all
are the greatest of the greatest of parts; a look-up in parts is a look-up in each, of which one has
it, and their sum."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import AnyFloat, FloatAttr, f32, i32, i64
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.creation import FillOp, TriOp
from ge.dialects.graph.elementwise import (
    AddOp,
    AndOp,
    CastOp,
    ClampOp,
    CompareOp,
    DivOp,
    ExpOp,
    LogOp,
    MulOp,
    SelectOp,
    SqrtOp,
    SubOp,
)
from ge.dialects.graph.image import ResizeOp
from ge.dialects.graph.indexing import GatherElementsOp, GatherNdOp, GatherOp, ScatterNdOp, TopKOp
from ge.dialects.graph.normalization import (
    GroupNormOp,
    LayerNormOp,
    LogSoftmaxOp,
    RmsNormOp,
    SoftmaxOp,
)
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.graph.reduction import ArgReduceOp, CumulativeOp, ReduceOp
from ge.dialects.graph.shape import ReshapeOp, TransposeOp
from ge.dialects.graph.slicing import PadOp, SliceOp, SplitOp
from ge.dialects.graph.support.window import Window
from ge.dialects.support.element_types import bitwidth, is_float
from ge.dialects.support.mesh import Sharding
from ge.dialects.support.tensor_op import RowsInterface, TensorOp, attribute
from ge.dialects.support.types import element_type, normalize_axis, rank_of, shape_of, tensor
from ge.runtime.data.arrays import Array, dense, dtype_of
from ge.runtime.numbers import evaluate
from ge.transforms.graph.control_flow import replace_op
from ge.transforms.graph.written_attention import Expansion
from ge.transforms.rewriting.building import Make
from ge.transforms.sharding.assignment import Assignment
from ge.transforms.sharding.local_ops import with_properties
from ge.transforms.sharding.resharding import count
from ge.transforms.sharding.strategies import NormRules, is_zero, of_result

LARGEST_I32 = (1 << 31) - 1
LARGEST_TABLE = 1 << 22  # elements: of which elements each one consists
MOST_DISTANCES = 8


Rewrite = Callable[[Make, Any, int], Sequence[SSAValue] | None]
"""The results of an op in two levels, of `parts` parts; None where it stays."""


def in_two_levels(assignment: Assignment) -> bool:
    """Rewrite the ops of which an operand is cut along their axis. Returns whether there were
    any."""
    changed = False
    for op in list(assignment.by_op):
        rules = assignment.by_op[op].rules
        rewrite = REWRITES.get(type(op)) if isinstance(op, TensorOp) else None
        if rewrite is None or rules is None or not rules.is_static:
            continue
        assert isinstance(op, TensorOp)
        index = row_operand(op)
        parts = parts_along(op, index, reaching(assignment, op.operands[index]))
        if parts == 1 and isinstance(rules, NormRules):
            parts = parts_along(op, index, assignment.chosen(op.results[0]))
        if parts > 1 and (results := rewrite(Make(op), op, parts)) is not None:
            replace_op(op, results)
            changed = True
    return changed


def reaching(assignment: Assignment, value: SSAValue, depth: int = 4) -> Sharding:
    """Return how a value is cut, or may be: as what it is made of is, through a few ops."""
    have, node = assignment.chosen(value), assignment.producer(value)
    if any(have.dims) or node is None or node.rules is None or not depth:
        return have
    for i, operand in enumerate(node.op.operands):
        own = reaching(assignment, operand, depth - 1)
        if isinstance(operand.owner, ConstantOp) or not any(own.dims):
            continue
        strategy = node.rules.suggested(i, own)
        if strategy is not None and any(strategy.dims) and node.rules.needs(strategy):
            return of_result(strategy.result, rank_of(value))
    return have


def row_operand(op: TensorOp) -> int:
    """Return the operand of which it matters how it is cut."""
    return 2 if isinstance(op, ScatterNdOp) else 1 if isinstance(op, AttentionOp) else 0


def parts_along(op: TensorOp, index: int, have: Sharding) -> int:
    """In how many equal parts an operand is cut along the op's axis; 1 where it is not."""
    axes, shape = row_axes(op), shape_of(op.operands[index])
    parts = prod(count(have.dims[a]) for a in axes)
    divides = all(shape[a] % count(have.dims[a]) == 0 for a in axes)
    return parts if divides else 1


def row_axes(op: TensorOp) -> Sequence[int]:
    if isinstance(op, GatherElementsOp):
        return tuple(op.indexed_axes())
    if isinstance(op, GatherOp | TopKOp | SplitOp):
        return (normalize_axis(op.axis.value.data, rank_of(op.operands[0])),)
    if isinstance(op, PoolOp):
        return range(2, rank_of(op.input))
    if isinstance(op, PadOp | ResizeOp):
        return changed_axes(op)
    if isinstance(op, TriOp):
        return range(rank_of(op.input) - 2, rank_of(op.input))
    if isinstance(op, ConvOp):
        return (op.channel_axis,)
    if isinstance(op, AttentionOp):
        return (op.dimension("key", 2),)
    if isinstance(op, ScatterNdOp):
        return range(rank_of(op.indices) - 1)
    return tuple(op.row_axes() or ()) if isinstance(op, RowsInterface) else ()


# ---- distributions and norms --------------------------------------------------------------------


def softmax(make: Make, op: SoftmaxOp | LogSoftmaxOp, parts: int) -> Sequence[SSAValue]:
    axes = list(op.row_axes())
    x = wide(make, op.input)
    shifted = make(SubOp, x, make(ReduceOp, x, kind="max", axes=axes))
    powers = make(ExpOp, shifted)
    total = make(ReduceOp, powers, kind="sum", axes=axes)
    if isinstance(op, LogSoftmaxOp):
        y = make(SubOp, shifted, make(LogOp, total))
    else:
        y = make(DivOp, powers, total)
    return [like(make, y, op.input)]


def norm(make: Make, op: LayerNormOp | RmsNormOp, parts: int) -> Sequence[SSAValue]:
    axes, x, epsilon = list(op.row_axes()), wide(make, op.input), op.epsilon.value.data
    if isinstance(op, LayerNormOp):
        normal = _normal(make, x, axes, epsilon)
    else:
        square = make(ReduceOp, make(MulOp, x, x), kind="mean", axes=axes)
        normal = make(DivOp, x, make(SqrtOp, make(AddOp, square, make.number(epsilon, x))))
    y = make(MulOp, normal, like(make, op.scale, x))
    if isinstance(op, LayerNormOp) and op.bias is not None:
        y = make(AddOp, y, like(make, op.bias, x))
    return [like(make, y, op.input)]


def group_norm(make: Make, op: GroupNormOp, parts: int) -> Sequence[SSAValue]:
    batch, channels, *rest = shape_of(op.input)
    groups = op.groups.value.data
    x = reshaped(make, wide(make, op.input), (batch, groups, channels // groups, *rest))
    axes = list(range(2, 3 + len(rest)))
    y = reshaped(make, _normal(make, x, axes, op.epsilon.value.data), (batch, channels, *rest))
    column = (channels, *[1] * len(rest))
    scale, bias = (reshaped(make, like(make, v, y), column) for v in (op.scale, op.bias))
    return [like(make, make(AddOp, make(MulOp, y, scale), bias), op.input)]


def _normal(make: Make, x: SSAValue, axes: list[int], epsilon: float) -> SSAValue:
    x = make(SubOp, x, make(ReduceOp, x, kind="mean", axes=axes))
    variance = make(ReduceOp, make(MulOp, x, x), kind="mean", axes=axes)
    return make(DivOp, x, make(SqrtOp, make(AddOp, variance, make.number(epsilon, x))))


def reduced(make: Make, op: ReduceOp, parts: int) -> Sequence[SSAValue] | None:
    """Kinds that are a function of a sum."""
    kind = op.kind.data
    if kind not in ("l2", "log_sum", "log_sum_exp") or not is_float(element_type(op.input)):
        return None
    x = wide(make, op.input)
    own: dict[str, Any] = {"axes": list(op.row_axes() or ()), "keep_dims": op.keep_dims}
    if kind == "l2":
        y = make(SqrtOp, make(ReduceOp, x, kind="sum_square", **own))
    elif kind == "log_sum":
        y = make(LogOp, make(ReduceOp, x, kind="sum", **own))
    else:
        most = make(ReduceOp, x, kind="max", axes=own["axes"])
        total = make(ReduceOp, make(ExpOp, make(SubOp, x, most)), kind="sum", **own)
        y = make(AddOp, make(LogOp, total), reshaped(make, most, shape_of(total)))
    return [like(make, y, op.input)]


def wide(make: Make, x: SSAValue) -> SSAValue:
    """Floats of 16 bits as f32: results are rounded once, at the end."""
    narrow = is_float(element_type(x)) and bitwidth(element_type(x)) < 32
    return make(CastOp, x, to=f32) if narrow else x


def like(make: Make, x: SSAValue, other: SSAValue) -> SSAValue:
    same = element_type(x) == element_type(other)
    return x if same else make(CastOp, x, to=element_type(other))


# ---- greatest elements, running sums ------------------------------------------------------------


def reshaped(make: Make, x: SSAValue, shape: Sequence[int]) -> SSAValue:
    return make(ReshapeOp, x, shape=list(shape), allow_zero=True)


def in_parts(make: Make, x: SSAValue, axis: int, parts: int) -> SSAValue:
    """The value with its axis as two: the parts, and the elements of each."""
    shape = shape_of(x)
    size = shape[axis] // parts
    return reshaped(make, x, (*shape[:axis], parts, size, *shape[axis + 1 :]))


def places(make: Make, local: SSAValue, axis: int, parts: int, size: int) -> SSAValue:
    """Indices in parts as indices in the whole, as i32: they are sent. `axis` is that of the
    parts."""
    rank = rank_of(local)
    first = np.arange(parts, dtype=np.int32) * size
    shape = [parts if d == axis else 1 for d in range(rank)]
    return make(AddOp, make(CastOp, local, to=i32), make.constant(first.reshape(shape)))


def arg_reduce(make: Make, op: ArgReduceOp, parts: int) -> Sequence[SSAValue] | None:
    (axis,) = op.row_axes()
    size = shape_of(op.input)[axis]
    if size > LARGEST_I32 or size == parts:
        return None
    x = in_parts(make, op.input, axis, parts)
    kind, last = op.kind.data, bool(op.select_last_index.value.data)
    own: dict[str, Any] = {"kind": kind, "select_last_index": last}
    local = make(ArgReduceOp, x, axis=axis + 1, keep_dims=False, **own)
    at = places(make, local, axis, parts, size // parts)
    best = make(ReduceOp, x, kind=kind, axes=[axis + 1], keep_dims=False)
    which = make(ArgReduceOp, best, axis=axis, keep_dims=True, **own)
    found = make(CastOp, make(GatherElementsOp, at, which, axis=axis), to=i64)
    return [reshaped(make, found, shape_of(op.result))]


def top_k(make: Make, op: TopKOp, parts: int) -> Sequence[SSAValue] | None:
    axis, shape = normalize_axis(op.axis.value.data, rank_of(op.input)), shape_of(op.input)
    wanted, size = (op.ints("k") or (0,))[0], shape[axis] // parts
    each = min(wanted, size)
    if not 0 < each * parts < shape[axis] or shape[axis] > LARGEST_I32:
        return None
    x, largest = in_parts(make, op.input, axis, parts), bool(op.largest.value.data)
    best = make.op(TopKOp, x, k=each, axis=axis + 1, largest=largest)
    at = places(make, best.results[1], axis, parts, size)
    merged = (*shape[:axis], parts * each, *shape[axis + 1 :])
    values, at = reshaped(make, best.results[0], merged), reshaped(make, at, merged)
    of_all = make.op(TopKOp, values, k=wanted, axis=axis, largest=largest)
    found = make(GatherElementsOp, at, of_all.results[1], axis=axis)
    return [of_all.results[0], make(CastOp, found, to=i64)]


def cumulative(make: Make, op: CumulativeOp, parts: int) -> Sequence[SSAValue] | None:
    (axis,) = op.row_axes() or (0,)
    if shape_of(op.input)[axis] == parts:
        return None
    kind, x = op.kind.data, in_parts(make, op.input, axis, parts)
    reverse = bool(op.reverse.value.data)
    exclusive = bool(op.exclusive.value.data)
    own = make(CumulativeOp, x, kind=kind, axis=axis + 1, reverse=reverse, exclusive=exclusive)
    totals = make(ReduceOp, x, kind=kind, axes=[axis + 1])
    before = make(CumulativeOp, totals, kind=kind, axis=axis, reverse=reverse, exclusive=True)
    both = make(AddOp if kind == "sum" else MulOp, own, before)
    return [reshaped(make, both, shape_of(op.result))]


# ---- look-ups -----------------------------------------------------------------------------------


def gather(make: Make, op: GatherOp, parts: int) -> Sequence[SSAValue] | None:
    """Each part gives what it has, and zeros else; their sum is the result. Only where it is
    smaller than what is looked up in, all of which would be sent else."""
    data, result, element = shape_of(op.input), shape_of(op.result), element_type(op.input)
    axis = normalize_axis(op.axis.value.data, len(data))
    if not is_float(element) or prod(result) >= prod(data):
        return None
    size, rest = data[axis] // parts, len(data) - 1
    x, order = op.input, [axis, *(i for i in range(len(data)) if i != axis)]
    if axis:
        x = make(TransposeOp, x, permutation=order)
    x = reshaped(make, x, (parts, size, *(data[i] for i in order[1:])))
    at, rank = _from_front(make, op.indices, data[axis]), rank_of(op.indices)
    first = (np.arange(parts) * size).astype(dtype_of(element_type(at)))
    local = make(SubOp, at, make.constant(first.reshape(parts, *[1] * rank)))
    inside, local = _inside_part(make, local, size)
    own_shape = shape_of(local)
    found = make(GatherNdOp, x, reshaped(make, local, (*own_shape, 1)), batch_dims=1)
    mask = reshaped(make, inside, (*own_shape, *[1] * rest))
    own = make(SelectOp, mask, found, make.number(0, found))
    y = make(ReduceOp, own, kind="sum", axes=[0], keep_dims=False)
    if axis:  # indices come first so far
        places = [*range(rank, rank + axis), *range(rank), *range(rank + axis, rank + rest)]
        y = make(TransposeOp, y, permutation=places)
    return [y]


def gather_elements(make: Make, op: GatherElementsOp, parts: int) -> Sequence[SSAValue] | None:
    """As a look-up: each part gives the elements that it has, and zeros else."""
    (axis,), shape, element = op.indexed_axes(), shape_of(op.input), element_type(op.input)
    own = shape_of(op.indices)
    if not is_float(element) or prod(own) >= prod(shape):
        return None
    size, rank = shape[axis] // parts, len(shape)
    x = in_parts(make, op.input, axis, parts)
    first = (np.arange(parts) * size).astype(dtype_of(element_type(op.indices)))
    at = reshaped(make, _from_front(make, op.indices, shape[axis]), (*own[:axis], 1, *own[axis:]))
    local = make(SubOp, at, make.constant(first.reshape(parts, *[1] * (rank - axis))))
    inside, local = _inside_part(make, local, size)
    found = make(GatherElementsOp, x, local, axis=axis + 1)
    found = make(SelectOp, inside, found, make.number(0, found))
    return [make(ReduceOp, found, kind="sum", axes=[axis], keep_dims=False)]


def _from_front(make: Make, at: SSAValue, size: int) -> SSAValue:
    negative = make(CompareOp, at, make.number(0, at), predicate="lt")
    return make(SelectOp, negative, make(AddOp, at, make.number(size, at)), at)


def _inside_part(make: Make, local: SSAValue, size: int) -> tuple[SSAValue, SSAValue]:
    """Return whether indices lie in a part, and indices that do: of others any."""
    zero = make.number(0, local)
    inside = make(
        AndOp,
        make(CompareOp, local, zero, predicate="ge"),
        make(CompareOp, local, make.number(size, local), predicate="lt"),
    )
    return inside, make(ClampOp, local, zero, make.number(size - 1, local))


# ---- moves --------------------------------------------------------------------------------------


def split(make: Make, op: SplitOp, parts: int) -> Sequence[SSAValue]:
    """Pieces along an axis that is cut are boxes of the whole."""
    axis, first, pieces = op.axis.value.data, 0, list[SSAValue]()
    for result in op.results:
        last = first + shape_of(result)[axis]
        pieces.append(make(SliceOp, op.input, starts=[first], ends=[last], axes=[axis]))
        first = last
    return pieces


def triangle(make: Make, op: TriOp, parts: int) -> Sequence[SSAValue] | None:
    """Elements whose column and row compare as they should: these are known of each part."""
    first, *_ = op.ints("k") or (0,)
    if op.k_value is not None:
        return None
    rows, columns = shape_of(op.input)[-2:]
    row = make.constant(np.arange(first, first + rows, dtype=np.int32).reshape(rows, 1))
    column = make.constant(np.arange(columns, dtype=np.int32))
    predicate = "ge" if op.upper.value.data else "le"
    inside = make(CompareOp, column, row, predicate=predicate)
    return [make(SelectOp, inside, op.input, make.number(0, op.input))]


# ---- sums ---------------------------------------------------------------------------------------


def biased(make: Make, op: ConvOp, parts: int) -> Sequence[SSAValue] | None:
    """A bias is added once, to the sum of what channels give."""
    if op.bias is None or op.groups > 1:
        return None
    new = with_properties(op, op.operands[:2], {})
    make.add(new)
    column = (shape_of(op.bias)[0], *[1] * (rank_of(op.result) - 2))
    return [make(AddOp, new.results[0], reshaped(make, op.bias, column))]


def scattered(make: Make, op: ScatterNdOp, parts: int) -> Sequence[SSAValue] | None:
    """Add what is added here and there on its own: to zeros."""
    element = element_type(op.input)
    if op.reduction.data != "add" or is_zero(op.input) or not is_float(element):
        return None
    zeros = make(FillOp, value=FloatAttr(0.0, cast(AnyFloat, element)), shape=shape_of(op.input))
    new = op.with_operands([zeros, op.indices, op.updates])
    return [make(AddOp, op.input, make.add(new).results[0])]


def attention(make: Make, op: AttentionOp, parts: int) -> Sequence[SSAValue] | None:
    """Attention over keys that are cut, of fewer elements than these: partial results are sent."""
    elsewhere = op.length, op.table, op.key_lengths
    rounded = op.is_integer or op.has_grids or op.rounded_weights.value.data
    smaller = prod(shape_of(op.result)) < prod(shape_of(op.key))
    if rounded or any(v is not None for v in elsewhere) or not smaller:
        return None
    return [Expansion(op, make).result()]


# ---- pools --------------------------------------------------------------------------------------


def pool(make: Make, op: PoolOp, parts: int) -> Sequence[SSAValue] | None:
    """An average that leaves out padding as one that counts it, times a number for each place."""
    spatial, kernel = shape_of(op.input)[2:], op.ints("kernel") or ()
    window = op.window().resolved(spatial)
    if op.kind.data != "average" or window.ceil_mode or op.count_include_pad.value.data:
        return None
    if not any(window.pads):
        return None
    counts = np.ones(1)
    for i, places in enumerate(window.output(spatial)):
        inside = [_inside(window, i, p, spatial[i]) for p in range(places)]
        counts = np.multiply.outer(counts, inside)
    if not counts.all():
        return None  # windows over padding alone
    params: dict[str, Any] = {"kernel": kernel, "pads": window.pads, "strides": window.strides}
    whole = make(
        PoolOp, op.input, kind="average", count_include_pad=True, dilations=window.dilations,
        **params,
    )  # fmt: skip
    factor = (prod(kernel) / counts).astype(dtype_of(element_type(op.input)))
    return [make(MulOp, whole, make.constant(factor.reshape(factor.shape[1:])))]


def _inside(window: Window, i: int, place: int, size: int) -> int:
    """The number of elements under a window, at a place along a dimension, that are no padding."""
    first = place * window.strides[i] - window.pads[i]
    return sum(0 <= first + k * window.dilations[i] < size for k in range(window.kernel[i]))


# ---- rows that depend on those at a few distances -----------------------------------------------


def changed_axes(op: PadOp | ResizeOp) -> list[int]:
    """The dimensions whose elements come from others of the same dimension; none where that is
    known at run time only, or where they are more than copies and means: what is more may overflow
    in another order."""
    is_plain = len(op.operands) == 1 and (
        op.mode.data != "constant"
        if isinstance(op, PadOp)
        else op.mode.data != "cubic" and op.keep_aspect_ratio_policy.data == "stretch"
    )
    sizes = zip(shape_of(op.input), shape_of(op.result), strict=True)
    return [axis for axis, (n, m) in enumerate(sizes) if n != m] if is_plain else []


def along(op: PadOp | ResizeOp, x: SSAValue, axes: Mapping[int, int]) -> TensorOp:
    """The op on a value, along some of its dimensions; -> those of its own operand."""
    if isinstance(op, PadOp):
        pads, own = op.ints("pads") or (), list(op.ints("axes") or range(rank_of(op.input)))
        ends = [pads[own.index(a)] for a in axes.values()]
        ends += [pads[own.index(a) + len(own)] for a in axes.values()]
        return PadOp.of(x, pads=ends, axes=[*axes], mode=op.mode.data)
    own, scales = op.resized_axes(), op.scale_values()
    changed: dict[str, Attribute | None] = {"axes": attribute([*axes])}
    if scales is None:
        changed["sizes"] = attribute([shape_of(op.result)[a] for a in axes.values()])
    else:
        changed["scales"] = attribute([scales[own.index(a)] for a in axes.values()])
    return with_properties(op, [x], changed)


def banded(make: Make, op: PadOp | ResizeOp, parts: int) -> Sequence[SSAValue] | None:
    """Each element is a sum of few, at the same distances for all: of shifted values, times weights
    of each place. One dimension comes after the other."""
    axis, *others = changed_axes(op)
    if others:
        own = make.add(along(op, op.input, {axis: axis})).results[0]
        return make.add(along(op, own, {a: a for a in others})).results
    before, after = shape_of(op.input), shape_of(op.result)
    n, m = before[axis], after[axis]
    repeats = m // n if isinstance(op, ResizeOp) else 1
    if repeats == 0 or m % repeats or n * m > LARGEST_TABLE:
        return None
    (touched, table), element = tables(op, axis), element_type(op.input)
    places, sources = np.nonzero(touched)
    distances = sources - places // repeats
    found, rows = np.unique(distances), m // repeats
    is_copy = bool((table[places, sources] == 1).all())
    if len(found) > MOST_DISTANCES or np.ptp(found) * parts >= n:
        return None
    if not (is_copy or is_float(element)):
        return None
    total = make.number(0, op.input)
    for distance in map(int, found):
        at, dims = distances == distance, [1] * (len(before) - axis - 1)
        weights = np.zeros((2, rows, repeats), np.float32)
        for own, values in zip(weights, (touched, table), strict=True):
            own[places[at] // repeats, places[at] % repeats] = values[places[at], sources[at]]
        mask, factors = weights.reshape(2, rows, repeats, *dims)
        x = make(PadOp, op.input, pads=[-distance, rows - n + distance], axes=[axis])
        x = reshaped(make, x, (*before[:axis], rows, 1, *before[axis + 1 :]))
        if not is_copy:
            x = make(MulOp, x, make.constant(factors.astype(dtype_of(element))))
        rest = total if is_copy else make.number(0, op.input)
        x = make(SelectOp, make.constant(mask != 0), x, rest)
        total = x if is_copy or distance == found[0] else make(AddOp, total, x)
    return [reshaped(make, total, after)]


def tables(op: PadOp | ResizeOp, axis: int) -> tuple[Array, Array]:
    """Of each element along a dimension of the result those of the operand that it reads, and their
    weights, which may be zeros too."""
    n = shape_of(op.input)[axis]
    eye = np.eye(n, dtype=np.float32)
    own = along(op, ConstantOp.make(dense(eye), tensor((n, n), f32)).result, {0: axis})
    (weights,) = evaluate(own, [eye])
    (touched,) = evaluate(own, [np.where(eye, np.float32(np.inf), np.float32(0))])
    return touched != 0, weights


REWRITES: dict[type[TensorOp], Rewrite] = {
    PadOp: banded,
    ResizeOp: banded,
    SoftmaxOp: softmax,
    LogSoftmaxOp: softmax,
    LayerNormOp: norm,
    RmsNormOp: norm,
    GroupNormOp: group_norm,
    ReduceOp: reduced,
    ArgReduceOp: arg_reduce,
    TopKOp: top_k,
    CumulativeOp: cumulative,
    GatherOp: gather,
    GatherElementsOp: gather_elements,
    SplitOp: split,
    TriOp: triangle,
    ConvOp: biased,
    ScatterNdOp: scattered,
    AttentionOp: attention,
    PoolOp: pool,
}
