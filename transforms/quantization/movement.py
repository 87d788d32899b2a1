"""Dequantize behind, and quantize before, what only moves or compares elements: chains of these
ops work on integers then, and what is left between a dequantize and a quantize cancels out.

    %0 = graph.dequantize %q, %s, %z
    %1 = graph.transpose %0                    becomes  %1 = graph.transpose %q
    %2 = graph.quantize %1, %s, %z

A dequantize of a weight moves with scales along an axis too. Exceptions: blocks of scales; a pad
with anything but the zero point; a dequantize that floats need as well, where no user of the moved
value takes integers.
"""

from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph.activation import ReluOp
from ge.dialects.graph.convolution import Convolution
from ge.dialects.graph.elementwise import ClampOp
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.graph.quantization import DequantizeOp, LookupOp, QuantizeOp
from ge.dialects.graph.shape import (
    BroadcastToOp,
    DepthToSpaceOp,
    ReshapeOp,
    SpaceToDepthOp,
    SqueezeOp,
    TileOp,
    TransposeOp,
    UnsqueezeOp,
)
from ge.dialects.graph.slicing import ConcatOp, PadOp, SliceOp, SplitOp
from ge.dialects.graph.support.folding import lowest, splat
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.tensor_op import SEGMENTS, TensorOp
from ge.dialects.support.types import (
    Shape,
    array_ints,
    element_type,
    is_static,
    normalize_axis,
    numel,
    rank_of,
    shape_of,
)
from ge.transforms.graph.canonical.linear_maps import is_prepared
from ge.transforms.graph.canonical.local import Make, Replacement, rule
from ge.transforms.quantization.grids import Grid, has_one_element

VIEWS = (ReshapeOp, SqueezeOp, UnsqueezeOp)
BEFORE = (*VIEWS, TransposeOp, DepthToSpaceOp, SpaceToDepthOp)  # a quantize moves before these
AFTER = (*BEFORE, SliceOp, PadOp, BroadcastToOp, TileOp, GatherOp)
TAKES_INTEGERS = (
    *AFTER, LookupOp, QuantizeOp, MatmulOp, Convolution, ConcatOp, SplitOp, PoolOp, ReluOp,
)  # fmt: skip


def with_input(
    op: TensorOp, first: SSAValue, make: Make, padding: SSAValue | None = None
) -> TensorOp:
    """The op with another first operand; a pad with another padding, if there is one."""
    names = [name for name, _ in op.get_irdl_definition().operands]
    operands = [getattr(op, name) for name in names]
    operands[0] = first
    if padding is not None:
        operands[names.index("value")] = padding
    params = {k: v for k, v in op.properties.items() if k != SEGMENTS}
    results = len(op.results) if isinstance(op, SplitOp) else None
    return make.op(type(op), *operands, results=results, **params)


def pays(op: TensorOp, source: DequantizeOp) -> bool:
    """Whether the dequantize becomes dead, or integers are of use behind the op."""
    if source.result.has_one_use():
        return True
    return any(isinstance(u.operation, TAKES_INTEGERS) for r in op.results for u in r.uses)


def source_of(op: TensorOp) -> tuple[DequantizeOp, Grid] | None:
    """The dequantize that the first operand of an op is, if it may move behind the op."""
    source = op.operands[0].owner
    if not isinstance(source, DequantizeOp) or bitwidth(element_type(source.input)) > 16:
        return None
    grid = Grid.of(source)
    return None if grid is None or not pays(op, source) else (source, grid)


# ---- dequantize behind movement ----------------------------------------------------------------


@rule(*AFTER)
def dequantize_after_movement(op: TensorOp, make: Make) -> Replacement:
    """move(dequantize x) = dequantize(move x)"""
    if (pair := source_of(op)) is None:
        return None
    source, grid = pair
    value = axis = None
    if grid.axis is not None and (axis := moved_axis(op, grid.axis)) is None:
        return None
    if isinstance(op, PadOp) and op.mode.data == "constant":
        if (value := padding(op, grid, element_type(source.input), make)) is None:
            return None
    new = with_input(op, source.input, make, value)
    return make(DequantizeOp, new.results[0], grid.scale, grid.zero_point, axis=axis)


def padding(op: PadOp, grid: Grid, element: Attribute, make: Make) -> SSAValue | None:
    """The zero point, if that is what a pad puts in."""
    number = 0.0 if op.value is None else splat(op.value)
    if number != 0.0 or grid.axis is not None or grid.zero is None:
        return None
    return make.constant(grid.zero, element)


def moved_axis(op: TensorOp, axis: int) -> int | None:
    """Where a dimension of the input is in the result; None if it is not one any more."""
    if isinstance(op, TransposeOp):
        return array_ints(op.permutation).index(axis)
    if isinstance(op, GatherOp):
        taken = normalize_axis(op.axis.value.data, rank_of(op.input))
        behind = axis + rank_of(op.indices) - 1
        return None if axis == taken else axis if axis < taken else behind
    if isinstance(op, VIEWS):
        return kept_dimension(shape_of(op.input), shape_of(op.results[0]), axis)
    return None


def kept_dimension(before: Shape, after: Shape, axis: int) -> int | None:
    """The dimension of a reshaped tensor that is dimension `axis` of the original."""
    if not is_static(before) or not is_static(after) or 0 in before:
        return None
    outer = numel(before[:axis])
    for i, d in enumerate(after):
        if d == before[axis] and numel(after[:i]) == outer:
            return i
    return None


@rule(SplitOp)
def dequantize_after_split(op: SplitOp, make: Make) -> Replacement:
    """The parts of a dequantized tensor are dequantized parts."""
    if (pair := source_of(op)) is None or pair[1].axis is not None:
        return None
    source, grid = pair
    parts = with_input(op, source.input, make).results
    return [make(DequantizeOp, part, grid.scale, grid.zero_point) for part in parts]


@rule(ConcatOp)
def dequantize_after_concat(op: ConcatOp, make: Make) -> Replacement:
    """Tensors on one grid are concatenated as integers."""
    sources = [v.owner for v in op.inputs if isinstance(v.owner, DequantizeOp)]
    if len(sources) < len(op.inputs) or not pays(op, first := sources[0]):
        return None
    element, grid = element_type(first.input), Grid.of(first)
    if grid is None or grid.axis is not None or bitwidth(element) > 16:
        return None
    others = ((element_type(s.input), Grid.of(s)) for s in sources)
    if not all(t == element and other is not None and grid.equals(other) for t, other in others):
        return None
    values = make(ConcatOp, [s.input for s in sources], axis=op.axis)
    return make(DequantizeOp, values, grid.scale, grid.zero_point)


@rule(PoolOp)
def dequantize_after_pool(op: PoolOp, make: Make) -> Replacement:
    """The maximum is that of the integers, as scales are positive."""
    if op.kind.data != "max" or (pair := source_of(op)) is None:
        return None
    source, grid = pair
    if grid.axis is not None or not grid.is_positive:
        return None
    if bitwidth(element_type(source.input)) < 8:
        return None
    new = with_input(op, source.input, make).results[0]
    return make(DequantizeOp, new, grid.scale, grid.zero_point)


@rule(ReluOp)
def dequantize_after_relu(op: ReluOp, make: Make) -> Replacement:
    """relu(dequantize x) = dequantize(max(x, zero point))"""
    if (pair := source_of(op)) is None:
        return None
    source, grid = pair
    element = element_type(source.input)
    if grid.zero is None or not grid.is_positive:
        return None
    if grid.zero == lowest(element):
        return source.result
    new = make(ClampOp, source.input, make.constant(grid.zero, element), None)
    axis = grid.axis
    return make(DequantizeOp, new, grid.scale, grid.zero_point, axis=axis)


# ---- quantize before movement ------------------------------------------------------------------


def is_free(op: QuantizeOp) -> bool:
    """Whether a quantize is per tensor and the only user of its operand."""
    return has_one_element(op.scale) and op.input.has_one_use() and not op.block_size.value.data


def quantized_like(op: QuantizeOp, value: SSAValue, make: Make) -> SSAValue:
    return make(QuantizeOp, value, op.scale, op.zero_point, to=op.to, saturate=op.saturate)


@rule(QuantizeOp)
def quantize_before_movement(op: QuantizeOp, make: Make) -> Replacement:
    """quantize(move x) = move(quantize x), so that the quantize joins what computes x"""
    inner = op.input.owner
    if not isinstance(inner, BEFORE) or not is_free(op) or is_prepared(inner.operands[0]):
        return None
    value = quantized_like(op, inner.operands[0], make)
    return with_input(inner, value, make).results[0]


@rule(QuantizeOp)
def quantize_before_concat(op: QuantizeOp, make: Make) -> Replacement:
    """The parts are quantized where they are computed."""
    inner = op.input.owner
    if not isinstance(inner, ConcatOp) or not is_free(op):
        return None
    parts = [quantized_like(op, v, make) for v in inner.inputs]
    return make(ConcatOp, parts, axis=inner.axis)
