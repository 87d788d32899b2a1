"""Moves that are no boxes of their operand, in ops that are: a triangle is chosen by the numbers of
rows and columns, so are the places of one_hot; what is padded with elements, or with a number that
is known at run time only, is set side by side. Matmuls of numbers that the cube does not multiply,
or cannot load, are sums of products.

    %y = graph.tri %x k 0                      %c = graph.compare "ge" %rows, %columns
                                   becomes     %y = graph.select %c, %x, 0
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph.creation import TriOp
from ge.dialects.graph.indexing import OneHotOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.shape import BlockOp, BroadcastToOp, TransposeOp
from ge.dialects.graph.slicing import ConcatOp, PadOp, SliceOp, distinct_axes
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    element_type,
    normalize_axis,
    rank_of,
    shape_of,
)
from ge.runtime.library.launch import Launch, NotLowered, Replaced, Written
from ge.runtime.library.matmul.sections import MULTIPLIED
from ge.runtime.library.rows.simple_ops import EXACT, BlockWriter, Simplify, blocks, simple_body

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
    """Of rows times columns; along the dimension of the sums, wherever that is in both operands."""
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
    """With a number that is known at run time only: it is repeated, and set beside the input, of
    which negative amounts take something away."""
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
