"""Layers in ops that have programs: `expand_layers.py` says why."""

import numpy as np
from xdsl.dialects.builtin import f32

from ge.dialects.graph import elementwise as g
from ge.dialects.graph.convolution import ConvOp, ConvTransposeOp
from ge.dialects.graph.indexing import GatherElementsOp, GatherOp, TopKOp
from ge.dialects.graph.pooling import LrnOp, PoolOp
from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.graph.shape import ReshapeOp, TransposeOp
from ge.dialects.graph.slicing import PadOp, SliceOp
from ge.dialects.graph.support.folding import highest, lowest
from ge.dialects.support.element_types import bitwidth, is_float
from ge.dialects.support.types import (
    DYNAMIC,
    element_type,
    is_static,
    normalize_axis,
    numel,
    rank_of,
    shape_of,
)
from ge.runtime.data.arrays import dense
from ge.transforms.graph.canonical.linear_maps import as_type, is_prepared, shaped
from ge.transforms.graph.canonical.local import Make, Replacement, rule

PART = 4096  # elements of a row: with their numbers and copies they take half of a core's 192 KB


@rule(TopKOp)
def top_k_of_rows(op: TopKOp, make: Make) -> Replacement:
    """The largest elements along a dimension are those along the last one of a transposition"""
    rank = rank_of(op.input)
    axis = normalize_axis(op.axis.value.data, rank)
    if axis == rank - 1:
        return None
    order = [i for i in range(rank) if i != axis] + [axis]
    rows = make(TransposeOp, op.input, permutation=order)
    params = {**op.properties, "axis": rank - 1}
    found = make.op(TopKOp, rows, op.k_value, **params)
    back = np.argsort(order).tolist()
    return [make(TransposeOp, v, permutation=back) for v in found.results]


@rule(TopKOp)
def top_k_of_parts(op: TopKOp, make: Make) -> Replacement:
    """The largest elements of a long row are those of the largest of its parts"""
    shape, count = shape_of(op.input), op.ints("k")
    if normalize_axis(op.axis.value.data, len(shape)) != len(shape) - 1 or not is_static(shape):
        return None
    *lines, size = shape
    parts = -(-size // PART)
    if count is None or size <= 2 * PART or 2 * parts * count[0] > size or not numel(shape):
        return None
    length, element, last = -(-size // parts), element_type(op.input), len(shape) - 1
    worst = (lowest if op.largest.value.data else highest)(element)
    rows = make(
        PadOp,
        op.input,
        value=make.constant(worst, element),
        pads=[0, parts * length - size],
        axes=[last],
    )
    params = {**op.properties, "axis": last + 1}
    rows = make(ReshapeOp, rows, shape=(*lines, parts, length))
    values, indices = make.op(TopKOp, rows, None, **params).results
    first = make.dense(dense(np.arange(parts)[:, None] * length))
    both = (values, make(g.AddOp, indices, first))
    values, indices = (make(ReshapeOp, v, shape=(*lines, parts * shape_of(v)[-1])) for v in both)
    found = make.op(TopKOp, values, None, **{**params, "axis": last})
    return [found.values, make(GatherElementsOp, indices, found.indices, axis=last)]


@rule(LrnOp, exact=False)
def lrn_by_pool(op: LrnOp, make: Make) -> Replacement:
    """The squares around a channel are those of a window on an image whose lines are channels"""
    shape, size, element = shape_of(op.input), op.size.value.data, element_type(op.input)
    if not is_static(shape) or not numel(shape):
        return None
    batch, channels, *rest = shape
    x = as_type(make, op.input, f32) if bitwidth(element) < 32 else op.input
    squares = shaped(make, make(g.MulOp, x, x), (batch, 1, channels, numel(tuple(rest))))
    pads = [(size - 1) // 2, 0, size // 2, 0]
    mean = make(
        PoolOp, squares, kind="average", kernel=[size, 1], pads=pads, count_include_pad=True
    )
    own = element_type(x)
    alpha, beta, bias = (make.constant(p.value.data, own) for p in (op.alpha, op.beta, op.bias))
    base = make(g.AddOp, make(g.MulOp, make(ReshapeOp, mean, shape=shape), alpha), bias)
    return as_type(make, make(g.DivOp, x, make(g.PowOp, base, beta)), element)


@rule(ConvTransposeOp, exact=False)
def transposed_conv_by_conv(op: ConvTransposeOp, make: Make) -> Replacement:
    """A transposed convolution of stride 1 is one of the kernel backwards, whose elements lie side
    by side in memory for one block of the result. Its weights are made at load."""
    shape, groups = shape_of(op.weight), op.groups
    window, spatial = op.transposed_window(shape[2:]), range(2, len(shape))
    if {*window.strides} != {1} or op.channel_axis != 1 or not is_prepared(op.weight):
        return None
    if isinstance(op.weight.owner, DequantizeOp):  # in the launch, of the integers that are stored
        return None
    if not is_static(shape_of(op.result)) or not is_float(element_type(op.input)):
        return None
    extents = [window.extent(i) - 1 for i in range(window.rank)]
    ends = zip(extents, window.pads[window.rank :], op.extra(), strict=True)
    pads = [n - pad for n, pad in zip(extents, window.pads, strict=False)]
    pads += [n - pad + more for n, pad, more in ends]
    if min(pads) < 0:
        return None
    back = {"starts": [-1] * len(spatial), "ends": [-n - 1 for n in shape[2:]]}
    steps = [-1] * len(spatial)
    weight = make(SliceOp, op.weight, **back, axes=[*spatial], steps=steps)
    ins, outs = shape[0] // groups, shape[1]
    weight = make(ReshapeOp, weight, shape=[groups, ins, outs, *shape[2:]])
    order = [0, 2, 1, *range(3, len(shape) + 1)]
    weight = make(TransposeOp, weight, permutation=order)
    weight = make(ReshapeOp, weight, shape=[groups * outs, ins, *shape[2:]])
    apart = {"pads": pads, "dilations": list(window.dilations), "group": groups}
    return make(ConvOp, op.input, weight, op.bias, **apart)


# ---- moves ---------------------------------------------------------------------------------------

LEAST_MOVED = 1024  # elements, below which they are moved one by one


@rule(SliceOp)
def backward_slice(op: SliceOp, make: Make) -> Replacement:
    """A slice backwards is what stands at numbers that fall"""
    bounds = op.bounds() or []
    if len(bounds) != 1 or numel(shape_of(op.result)) < LEAST_MOVED:
        return None
    ((axis, start, end, step),) = bounds
    size = shape_of(op.input)[axis]
    if start is None or end is None or step is None or step > 0 or size == DYNAMIC:
        return None
    places = np.arange(*slice(start, end, step).indices(size), dtype=np.int64)
    return make(GatherOp, op.input, make.dense(dense(places)), axis=axis)


@rule(GatherOp)
def gather_of_columns(op: GatherOp, make: Make) -> Replacement:
    """Columns at numbers are rows of a transposition"""
    rank, count = rank_of(op.input), rank_of(op.indices)
    last = normalize_axis(op.axis.value.data, rank) == rank - 1
    if rank < 2 or not count or not last or not is_static(shape_of(op.result)):
        return None
    if numel(shape_of(op.result)) < LEAST_MOVED or numel(shape_of(op.indices)) == 1:
        return None
    rows = make(TransposeOp, op.input, permutation=[rank - 1, *range(rank - 1)])
    found = make(GatherOp, rows, op.indices, axis=0)
    order = [*range(count, count + rank - 1), *range(count)]
    return make(TransposeOp, found, permutation=order)
