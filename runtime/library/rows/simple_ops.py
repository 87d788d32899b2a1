"""Bodies of launches in ops that a vector core has: elementwise ones, reductions and moves.

    %y = graph.softmax %x : tensor<8x64xf16>
becomes
    %0 = graph.cast %x to f32
    %1 = graph.reduce max %0 axes [1]
    %2 = graph.sub %0, %1
    %3 = graph.exp %2
    %4 = graph.reduce sum %3 axes [1]
    %5 = graph.div %3, %4
    %y = graph.cast %5 to f16

They compute the same as the kernels of `runtime/numbers`: narrow floats in f32, rounded once at the
end. Reductions are sums, maxima and minima, and keep the dimensions that they reduce, as 1. The
position of an extreme is the least number of an element that equals it.

Moves that are no boxes of their operand become ops that are: a triangle is chosen by the numbers of
rows and columns, so are the places of one_hot; padding with elements, or with a number that is
known at run time only, is set beside the operand. Matmuls of numbers that the cube does not
multiply, or cannot load, are sums of products.

    %y = graph.tri %x k 0                      %c = graph.compare ge %rows, %columns
                                   becomes     %y = graph.select %c, %x, 0
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import inf, prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, f32, i64
from xdsl.ir import Attribute, Block, SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.graph import elementwise as e
from ge.dialects.graph import normalization as n
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.creation import RangeOp, TriOp
from ge.dialects.graph.indexing import GatherOp, OneHotOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.quantization import DynamicQuantizeOp
from ge.dialects.graph.reduction import ArgReduceOp, CumulativeOp, ReduceOp
from ge.dialects.graph.shape import BlockOp, BroadcastToOp, DepthToSpaceOp, ReshapeOp, TransposeOp
from ge.dialects.graph.slicing import ConcatOp, PadOp, SliceOp, distinct_axes
from ge.dialects.support.element_types import bitwidth, is_float, is_unsigned, ui8, ui64
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    Shape,
    element_type,
    int_array,
    normalize_axis,
    numel,
    rank_of,
    shape_of,
    tensor,
)
from ge.runtime.library.launch import Launch, NotLowered, Replaced, Written
from ge.runtime.library.matmul.sections import MULTIPLIED

EXACT = 1 << 24  # whole numbers from 0 on that f32 has


class BlockWriter:
    """A block, while ops are added."""

    def __init__(self) -> None:
        self.block = Block()

    def add(self, op_kind: type[TensorOp], *operands: SSAValue, **parameters: Any) -> SSAValue:
        op = op_kind.of(*operands, **parameters)
        self.block.add_op(op)
        return op.results[0]

    def number(self, value: float, like: SSAValue) -> SSAValue:
        """One number of a value's element type."""
        return self.constant(value, element_type(like))

    def constant(self, value: float, element: Attribute) -> SSAValue:
        kind = tensor((), element)
        number: Any = value if is_float(element) else int(value)
        op = ConstantOp.make(DenseIntOrFPElementsAttr.from_list(kind, (number,)), kind)  # pyright: ignore
        self.block.add_op(op)
        return op.result

    def numbers(self, count: int) -> SSAValue:
        """0, 1, ... below `count`, as f32."""
        return self.add(RangeOp, *(self.constant(n, f32) for n in (0, count, 1)))

    def cast(self, value: SSAValue, to: Attribute) -> SSAValue:
        return value if element_type(value) == to else self.add(e.CastOp, value, to=to)

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        if shape_of(value) == shape:
            return value
        self.block.add_op(op := reshaped(value, shape))
        return op.result

    def reduce(self, kind: str, value: SSAValue, axes: Sequence[int]) -> SSAValue:
        return self.add(ReduceOp, value, kind=kind, axes=axes)

    def sum_of_squares(self, value: SSAValue, axes: Sequence[int]) -> SSAValue:
        return self.reduce("sum", self.add(e.MulOp, value, value), axes)


def reshaped(value: SSAValue, shape: Sequence[int]) -> ReshapeOp:
    """The elements under another shape, whose type keeps its sizes, extents too."""
    shown = int_array(tuple(map(int, shape)))
    result = tensor(shape, element_type(value))
    return ReshapeOp.create(operands=[value], result_types=[result], properties={"shape": shown})


def wide(value: SSAValue) -> Attribute:
    """The element type that a value is computed in."""
    element = element_type(value)
    return f32 if is_float(element) and bitwidth(element) < 32 else element


Simplify = Callable[[Any, list[SSAValue], BlockWriter], "SSAValue | tuple[SSAValue, ...]"]


def simple_form(op: TensorOp) -> Simplify | None:
    return next((f for t, f in SIMPLE.items() if isinstance(op, t)), None)


def simple_body(
    body: Body, form_of: Callable[[TensorOp], Simplify | None] = simple_form
) -> tuple[Body, dict[SSAValue, SSAValue]]:
    """The body in simple ops, and its value for each of the body's."""
    w, new = BlockWriter(), dict[SSAValue, SSAValue]()
    for i, value in enumerate(body.inputs):
        new[value] = w.block.insert_arg(value.type, i)
    for op in body.ops:
        operands = [new[v] for v in op.operands]
        if (simplify := form_of(op)) is None:
            copy = op.clone(dict(new))
            w.block.add_op(copy)
            new.update(zip(op.results, copy.results, strict=True))
        else:
            found = simplify(op, operands, w)
            results = (found,) if isinstance(found, SSAValue) else found
            for old, result in zip(op.results, results, strict=True):
                new[old] = w.cast(result, element_type(old))
    ops = [op for op in w.block.ops if isinstance(op, TensorOp)]
    return Body(ops, list(w.block.args), [new[v] for v in body.outputs]), new


def softmax(op: n.SoftmaxLike, operands: list[SSAValue], w: BlockWriter) -> SSAValue:
    (x,) = operands
    axis, rank = n.axis_of(op.axis.value.data, x), rank_of(x)
    axes = range(axis, rank) if op.flatten.value.data else (axis,)
    x = w.cast(x, wide(x))
    below = w.add(e.SubOp, x, w.reduce("max", x, axes))
    weights = w.add(e.ExpOp, below)
    total = w.reduce("sum", weights, axes)
    if isinstance(op, n.SoftmaxOp):
        return w.add(e.DivOp, weights, total)
    return w.add(e.SubOp, below, w.add(e.LogOp, total))


def centered(x: SSAValue, axes: Sequence[int], w: BlockWriter) -> SSAValue:
    part = w.number(1 / prod(shape_of(x)[i] for i in axes), x)
    return w.add(e.SubOp, x, w.add(e.MulOp, w.reduce("sum", x, axes), part))


def inverse_rms(x: SSAValue, axes: Sequence[int], epsilon: float, w: BlockWriter) -> SSAValue:
    part = w.number(1 / prod(shape_of(x)[i] for i in axes), x)
    mean = w.add(e.MulOp, w.sum_of_squares(x, axes), part)
    root = w.add(e.SqrtOp, w.add(e.AddOp, mean, w.number(epsilon, x)))
    return w.add(e.ReciprocalOp, root)


def trailing_norm(op: n.TrailingNorm, operands: list[SSAValue], w: BlockWriter) -> SSAValue:
    x, scale, *bias = operands
    axes = range(n.axis_of(op.axis.value.data, x), rank_of(x))
    x = w.cast(x, wide(x))
    if isinstance(op, n.LayerNormOp):
        x = centered(x, axes, w)
    factor = inverse_rms(x, axes, op.epsilon.value.data, w)
    y = w.add(e.MulOp, w.add(e.MulOp, x, factor), w.cast(scale, element_type(x)))
    return w.add(e.AddOp, y, w.cast(bias[0], element_type(x))) if bias else y


def group_norm(op: n.GroupNormOp, operands: list[SSAValue], w: BlockWriter) -> SSAValue:
    x, scale, bias = operands
    (batch, channels, *rest), groups = shape_of(x), op.groups.value.data
    x = w.cast(x, wide(x))
    scale, bias = (
        w.reshape(w.cast(v, element_type(x)), (groups, channels // groups, 1))
        for v in (scale, bias)
    )
    rows = w.reshape(x, (batch, groups, channels // groups, prod(rest)))
    rows = centered(rows, (2, 3), w)
    factor = w.add(e.MulOp, inverse_rms(rows, (2, 3), op.epsilon.value.data, w), scale)
    return w.reshape(w.add(e.AddOp, w.add(e.MulOp, rows, factor), bias), shape_of(x))


def batch_norm(op: n.BatchNormOp, operands: list[SSAValue], w: BlockWriter) -> SSAValue:
    x, *parameters = operands
    x = w.cast(x, wide(x))
    shape: Shape = (shape_of(x)[1], *(1,) * (rank_of(x) - 2))
    columns = [w.reshape(w.cast(v, element_type(x)), shape) for v in parameters]
    scale, bias, mean, variance = columns
    root = w.add(e.SqrtOp, w.add(e.AddOp, variance, w.number(op.epsilon.value.data, x)))
    factor = w.add(e.DivOp, scale, root)
    offset = w.add(e.SubOp, bias, w.add(e.MulOp, mean, factor))
    return w.add(e.AddOp, w.add(e.MulOp, x, factor), offset)


def reduce(op: ReduceOp, operands: list[SSAValue], w: BlockWriter) -> SSAValue:
    x, kind = operands[0], op.kind.data
    axes = op.reduced_axes()
    is_number = is_float(element_type(x))
    if axes is None or kind == "prod" or not (is_number or kind in ("sum", "mean", "max", "min")):
        raise NotLowered(f'there are no tiles for graph.reduce "{kind}" of {x.type}')
    if kind not in ("max", "min"):
        x = w.cast(x, wide(x))
    match kind:
        case "mean" if not is_number:
            x = w.cast(x, ui64 if is_unsigned(element_type(x)) else i64)
            count = w.number(prod(shape_of(x)[i] for i in axes), x)
            y = w.add(e.DivOp, w.reduce("sum", x, axes), count)
        case "mean":
            part = w.number(1 / prod(shape_of(x)[i] for i in axes), x)
            y = w.add(e.MulOp, w.reduce("sum", x, axes), part)
        case "l1":
            y = w.reduce("sum", w.add(e.AbsOp, x), axes)
        case "l2":
            y = w.add(e.SqrtOp, w.sum_of_squares(x, axes))
        case "sum_square":
            y = w.sum_of_squares(x, axes)
        case "log_sum":
            y = w.add(e.LogOp, w.reduce("sum", x, axes))
        case "log_sum_exp":
            peak = w.reduce("max", x, axes)
            finite = w.add(e.CompareOp, w.add(e.AbsOp, peak), w.number(inf, x), predicate="lt")
            peak = w.add(e.SelectOp, finite, peak, w.number(0, x))
            total = w.reduce("sum", w.add(e.ExpOp, w.add(e.SubOp, x, peak)), axes)
            y = w.add(e.AddOp, w.add(e.LogOp, total), peak)
        case _:
            y = w.reduce(kind, x, axes)
    return w.reshape(y, shape_of(op.results[0]))


def arg_reduce(op: ArgReduceOp, operands: list[SSAValue], w: BlockWriter) -> SSAValue:
    """Numbers of elements are f32: the vector unit reduces no integers of 32 bits."""
    (x,), rank, kind = operands, rank_of(operands[0]), op.kind.data
    axis = normalize_axis(op.axis.value.data, rank)
    _, position = first_extreme(x, axis, kind, bool(op.select_last_index.value.data), w)
    return w.reshape(w.cast(position, i64), shape_of(op.results[0]))


def first_extreme(
    x: SSAValue, axis: int, kind: str, is_last: bool, w: BlockWriter
) -> tuple[SSAValue, SSAValue]:
    """Numbers along an axis, and that of the first extreme, or of the last one."""
    count = shape_of(x)[axis]
    if count > EXACT:
        raise NotLowered(f"{count} positions are more than f32 tells apart")
    found = w.add(e.CompareOp, x, w.reduce(kind, x, (axis,)), predicate="eq")
    if is_float(element_type(x)):  # a nan is an extreme
        found = w.add(e.OrOp, found, w.add(e.CompareOp, x, x, predicate="ne"))
    numbers = w.reshape(w.numbers(count), (count, *(1,) * (rank_of(x) - 1 - axis)))
    nowhere = w.number(-1 if is_last else count, numbers)
    chosen = w.add(e.SelectOp, found, numbers, nowhere)
    return numbers, w.reduce("max" if is_last else "min", chosen, (axis,))


def hardmax(op: n.HardmaxOp, operands: list[SSAValue], w: BlockWriter) -> SSAValue:
    (x,), axis = operands, n.axis_of(op.axis.value.data, operands[0])
    shape = shape_of(x)
    if op.flatten.value.data:
        x, axis = w.reshape(x, (prod(shape[:axis]), prod(shape[axis:]))), 1
    numbers, position = first_extreme(x, axis, "max", False, w)
    found = w.add(e.CompareOp, numbers, position, predicate="eq")
    y = w.add(e.SelectOp, found, w.number(1, operands[0]), w.number(0, operands[0]))
    return w.reshape(y, shape)


def dynamic_quantize(
    op: DynamicQuantizeOp, operands: list[SSAValue], w: BlockWriter
) -> tuple[SSAValue, SSAValue, SSAValue]:
    (x,) = operands
    rows = w.cast(w.reshape(x, (numel(shape_of(x)),)), wide(x))
    zero, most = w.number(0, rows), w.number(255, rows)
    low = w.add(e.MinimumOp, w.reduce("min", rows, (0,)), zero)
    high = w.add(e.MaximumOp, w.reduce("max", rows, (0,)), zero)
    scale = w.add(e.DivOp, w.add(e.SubOp, high, low), most)
    scale = w.cast(w.cast(scale, element_type(x)), element_type(rows))
    nothing = w.add(e.CompareOp, scale, zero, predicate="eq")
    scale = w.add(e.SelectOp, nothing, w.number(1, rows), scale)

    def limited(value: SSAValue) -> SSAValue:
        return w.add(e.MinimumOp, w.add(e.MaximumOp, value, zero), most)

    point = limited(w.add(e.RoundOp, w.add(e.DivOp, w.add(e.NegOp, low), scale)))
    codes = w.add(e.AddOp, w.add(e.RoundOp, w.add(e.DivOp, rows, scale)), point)
    codes = w.reshape(w.cast(limited(codes), ui8), shape_of(x))
    return codes, w.reshape(scale, ()), w.reshape(w.cast(point, ui8), ())


def cumulative(op: CumulativeOp, operands: list[SSAValue], w: BlockWriter) -> SSAValue:
    if (axes := op.row_axes()) is None or len(operands) > 1:
        raise NotLowered(f"the axis of {op.name} is not in the text")
    x, flags = w.cast(operands[0], wide(operands[0])), (op.exclusive, op.reverse)
    exclusive, reverse = (bool(flag.value.data) for flag in flags)
    kind, (axis,) = op.kind.data, axes
    return w.add(CumulativeOp, x, kind=kind, axis=axis, exclusive=exclusive, reverse=reverse)


def concat(op: ConcatOp, operands: list[SSAValue], w: BlockWriter) -> SSAValue:
    """On three dimensions, of which it is along the second one."""
    result = op.results[0]
    axis = normalize_axis(op.axis.value.data, rank_of(result))
    parts: list[SSAValue] = []
    for value in operands:
        shape = shape_of(value)
        parts.append(w.reshape(value, (prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))))
    joined = ConcatOp.of(parts, axis=1)
    w.block.add_op(joined)
    return w.reshape(joined.result, shape_of(result))


def gather(op: GatherOp, operands: list[SSAValue], w: BlockWriter) -> SSAValue:
    """Rows of a matrix, at a vector of indices."""
    x, indices = operands
    rows, *rest = shape_of(x)
    if normalize_axis(op.axis.value.data, rank_of(x)) != 0:
        raise NotLowered("elements are gathered within rows")
    matrix = w.reshape(x, (rows, prod(rest)))
    found = w.add(GatherOp, matrix, w.reshape(indices, (numel(shape_of(indices)),)))
    return w.reshape(found, shape_of(op.results[0]))


def blocks(op: BlockOp, operands: list[SSAValue], w: BlockWriter) -> SSAValue:
    """Blocks of pixels are dimensions of their own, which a transposition moves."""
    (x,), b, is_dcr = operands, op.block.value.data, op.mode.data == "dcr"
    n, c, high, wide = shape_of(x)
    if isinstance(op, DepthToSpaceOp):
        depth = c // (b * b)
        shape = (n, b, b, depth, high, wide) if is_dcr else (n, depth, b, b, high, wide)
        order = (0, 3, 4, 1, 5, 2) if is_dcr else (0, 1, 4, 2, 5, 3)
    else:
        shape = (n, c, high // b, b, wide // b, b)
        order = (0, 3, 5, 1, 2, 4) if is_dcr else (0, 1, 3, 5, 2, 4)
    moved = w.add(TransposeOp, w.reshape(x, shape), permutation=order)
    return w.reshape(moved, shape_of(op.results[0]))


SIMPLE: dict[type[TensorOp], Simplify] = {
    n.HardmaxOp: hardmax,
    n.SoftmaxOp: softmax,
    n.LogSoftmaxOp: softmax,
    n.TrailingNorm: trailing_norm,
    n.GroupNormOp: group_norm,
    n.BatchNormOp: batch_norm,
    ReduceOp: reduce,
    ArgReduceOp: arg_reduce,
    CumulativeOp: cumulative,
    ConcatOp: concat,
    GatherOp: gather,
    DynamicQuantizeOp: dynamic_quantize,
}


MOST_PARTS = 64  # that a dimension is set together of


def needs_plain_ops(launch: Launch) -> bool:
    return any(plain_form(launch, op) is not None for op in launch.body.ops)


def lower_plain_ops(lower: Callable[[Launch], Written], launch: Launch) -> Written:
    """The launch in plain ops, by the lowering that takes these. Raises NotLowered."""
    body, new = simple_body(launch.body, partial(plain_form, launch))
    before = {new[v]: v for v in (*launch.body.inputs, *launch.body.outputs)}
    replaced = Replaced(launch.kernel, launch.target, body, before, of=launch)
    return replaced.original(lower(replaced))


def plain_form(launch: Launch, op: TensorOp) -> Simplify | None:
    if isinstance(op, PadOp) and op.mode.data == "constant":
        is_known = op.value is None or launch.number(op.value) is not None
        return None if is_known else pad_computed
    if isinstance(op, MatmulOp):
        element, other = element_type(op.lhs), element_type(op.rhs)
        in_memory = all(launch.number(v) is None for v in op.operands)
        on_cube = in_memory and element == other and element in MULTIPLIED
        return None if on_cube else sum_of_products
    return next((f for t, f in PLAIN.items() if isinstance(op, t)), None)


def sum_of_products(op: MatmulOp, operands: list[SSAValue], w: BlockWriter) -> SSAValue:
    """Sum of the products of rows and columns, along the dimension of the sums, wherever that is in
    both operands."""
    lhs, rhs = (w.cast(x, element_type(op.result)) for x in operands)
    a, b = shape_of(lhs), shape_of(rhs)
    if op.transpose_lhs.value.data and op.transpose_rhs.value.data:
        order = (*range(len(a) - 2), len(a) - 1, len(a) - 2)
        lhs, a = w.add(TransposeOp, lhs, permutation=order), (*a[:-2], a[-1], a[-2])
    elif op.transpose_lhs.value.data:  # sums are outside: k x m x 1 by k x 1 x n
        lhs, rhs = w.reshape(lhs, (*a, 1)), w.reshape(rhs, (*b[:-1], 1, b[-1]))
        return w.reshape(w.reduce("sum", w.add(e.MulOp, lhs, rhs), (-3,)), shape_of(op.result))
    if op.transpose_rhs.value.data:  # within: m x 1 x k by n x k
        lhs, axis = w.reshape(lhs, (*a[:-1], 1, a[-1])), -1
    else:  # between: m x k x 1 by k x n
        lhs, axis = w.reshape(lhs, (*a, 1)), -2
    rhs = w.reshape(rhs, (*b[:-2], 1, *b[-2:]))
    return w.reshape(w.reduce("sum", w.add(e.MulOp, lhs, rhs), (axis,)), shape_of(op.result))


def tri(op: TriOp, operands: list[SSAValue], w: BlockWriter) -> SSAValue:
    x, (*_, rows, cols), k = operands[0], shape_of(op.input), op.ints("k")
    if k is None and op.k_value is not None:
        raise NotLowered("its diagonal is not in the text")
    if max(rows, cols) > EXACT:
        raise NotLowered(f"{max(rows, cols)} positions are more than f32 tells apart")
    diagonal = w.add(e.SubOp, w.numbers(cols), w.reshape(w.numbers(rows), (rows, 1)))
    limit = w.constant(float(k[0] if k else 0), f32)
    side = "ge" if op.upper.value.data else "le"
    belongs = w.add(e.CompareOp, diagonal, limit, predicate=side)
    return w.add(e.SelectOp, belongs, x, w.number(0, x))


def one_hot(op: OneHotOp, operands: list[SSAValue], w: BlockWriter) -> SSAValue:
    shape, depth = shape_of(op.indices), op.ints("depth")
    if depth is None:
        raise NotLowered("its depth is not in the text")
    if depth[0] > EXACT:
        raise NotLowered(f"{depth[0]} positions are more than f32 tells apart")
    axis = normalize_axis(op.axis.value.data, len(shape) + 1)
    at = w.cast(w.reshape(operands[0], (*shape[:axis], 1, *shape[axis:])), f32)
    zero, size = w.constant(0, f32), w.constant(depth[0], f32)
    negative = w.add(e.CompareOp, at, zero, predicate="lt")
    at = w.add(e.SelectOp, negative, w.add(e.AddOp, at, size), at)
    numbers = w.reshape(w.numbers(depth[0]), (depth[0], *(1 for _ in shape[axis:])))
    found = w.add(e.CompareOp, at, numbers, predicate="eq")
    off, on = (
        w.reshape(w.add(SliceOp, operands[-1], starts=[i], ends=[i + 1], axes=[0]), ())
        for i in (0, 1)
    )
    return w.add(e.SelectOp, found, on, off)


def pad(op: PadOp, operands: list[SSAValue], w: BlockWriter) -> SSAValue:
    """Along one dimension after the other: parts of the input, set side by side."""
    x, amounts, rank = operands[0], op.ints("pads"), rank_of(op.input)
    axes = distinct_axes(op.ints("axes") or range(rank), rank)
    if amounts is None or min(amounts) < 0:
        raise NotLowered("how much is padded is not in the text, or something is taken away")
    for i, axis in enumerate(axes):
        begin, end = amounts[i], amounts[i + len(axes)]
        if begin or end:
            source = np.arange(shape_of(x)[axis])
            places = np.pad(source, (begin, end), mode=cast(Any, op.mode.data))
            x = side_by_side(x, axis, list(runs(places.tolist())), w)
    return x


def pad_computed(op: PadOp, operands: list[SSAValue], w: BlockWriter) -> SSAValue:
    """Pad with a number that is known at run time only: it is repeated, and set beside the input,
    of which negative amounts take something away."""
    assert op.value is not None
    value = operands[[*op.operands].index(op.value)]
    x, amounts, rank = operands[0], op.ints("pads"), rank_of(op.input)
    axes = distinct_axes(op.ints("axes") or range(rank), rank)
    if amounts is None:
        raise NotLowered("how much is padded is not in the text")
    if max(amounts) <= 0:
        raise NotLowered("no element is added, so nothing reads the number that is padded with")
    for i, axis in enumerate(axes):
        begin, end = amounts[i], amounts[i + len(axes)]
        first, last = max(-begin, 0), shape_of(x)[axis] - max(-end, 0)
        if last - first < shape_of(x)[axis]:
            x = w.add(SliceOp, x, starts=[first], ends=[last], axes=[axis])
        sides = [[*shape_of(x)[:axis], max(n, 0), *shape_of(x)[axis + 1 :]] for n in (begin, end)]
        before, after = (
            [w.add(BroadcastToOp, value, shape=side)] if side[axis] else [] for side in sides
        )
        x = joined([*before, x, *after], axis, w)
    return x


def side_by_side(x: SSAValue, axis: int, spans: list[tuple[int, int]], w: BlockWriter) -> SSAValue:
    if len(spans) > MOST_PARTS:
        raise NotLowered(f"{len(spans)} parts are set side by side, more than {MOST_PARTS}")
    parts = [
        w.add(SliceOp, x, starts=[low], ends=[high], axes=[axis]) if high - low < size else x
        for low, high in spans
        for size in (shape_of(x)[axis],)
    ]
    return joined(parts, axis, w)


def joined(parts: Sequence[SSAValue], axis: int, w: BlockWriter) -> SSAValue:
    if len(parts) == 1:
        return parts[0]
    op = ConcatOp.of(parts, axis=axis)
    w.block.add_op(op)
    return op.result


def runs(places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Stretches of numbers that grow by one: the first of each, and the one behind its last."""
    first = 0
    for i in range(1, len(places) + 1):
        if i == len(places) or places[i] != places[i - 1] + 1:
            yield places[first], places[i - 1] + 1
            first = i


PLAIN: dict[type[TensorOp], Simplify] = {
    TriOp: tri,
    OneHotOp: one_hot,
    PadOp: pad,
    BlockOp: blocks,
}
