"""Products whose columns are taken apart become several: then each device has a part of each.

    %0 = graph.matmul %x, %w                       of which columns are cut over 4 devices
    %q = graph.slice %0 starts [0] ends [32]       it has columns of queries, or of keys
    %k = graph.slice %0 starts [32] ends [64]
becomes
    %q = graph.matmul %x, %w.q                     a fourth of the queries, a fourth of the keys
    %k = graph.matmul %x, %w.k

Pieces are those of slices and of splits, with constants (a bias) between. They stay parts of one
weight in its file; products of one value are one launch again."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.sharding import ShardOp, WeightPart
from ge.dialects.graph.slicing import SliceOp, SplitOp, slice_bounds
from ge.dialects.support.boxes import Access
from ge.dialects.support.editing import erase
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.mesh import Mesh, Sharding
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    constant_value,
    element_type,
    is_static,
    shape_of,
    tensor,
)
from ge.runtime.data.arrays import array_of, dense, type_of
from ge.transforms.graph.control_flow import insert_before

Piece: TypeAlias = tuple[SSAValue, int, int]  # a value, its first column and how many it has


@dataclass
class Columns:
    """What is made of the columns of a product, op by op, up to those that take pieces."""

    product: MatmulOp
    ops: list[TensorOp] = field(default_factory=list[TensorOp])
    pieces: list[Piece] = field(default_factory=list[Piece])


def split_weights(main: FuncOp, mesh: Mesh, free: bool) -> dict[str, WeightPart]:
    """Take products apart of which each device can have a part of each piece. `free`: weights of
    which nothing is stated may be cut, over all devices. Returns pieces of weights by key."""
    parts: dict[str, WeightPart] = {}
    for op in list(main.body.block.ops):
        if not isinstance(op, MatmulOp) or (count := devices(op, mesh, free)) < 2:
            continue
        found = columns_of(op)
        size, spans = shape_of(op.result)[-1], {(first, n) for _, first, n in found.pieces}
        if len(spans) < 2 or sum(n for _, n in spans) != size or any(n % count for _, n in spans):
            continue
        for piece in found.pieces:
            replace_piece(found, piece, parts)
        erase_unused(found)
    return parts


def erase_unused(found: Columns) -> None:
    """Erase what has been replaced."""
    users = dict.fromkeys(piece.owner for piece, _, _ in found.pieces)
    constants = [v for op in (*found.ops, found.product) for v in op.operands if constant_of(v)]
    stated = [v.owner for v in constants if isinstance(v.owner, ShardOp)]
    for op in (*users, *reversed(found.ops), found.product, *dict.fromkeys(stated)):
        if isinstance(op, Operation) and not any(r.uses for r in op.results):
            erase(op)


def devices(op: MatmulOp, mesh: Mesh, free: bool) -> int:
    """Return over how many devices the columns of a weight are cut; 1 for what is no weight, is
    used by others, or has several elements in a byte."""
    constant = constant_of(op.rhs)
    if constant is None or not isinstance(constant.value, WeightAttr):
        return 1
    shape, is_alone = shape_of(op.rhs), op.rhs.has_one_use() and constant.result.has_one_use()
    if len(shape) != 2 or not is_alone or bitwidth(element_type(op.rhs)) < 8:
        return 1
    if not isinstance(op.rhs.owner, ShardOp):
        return mesh.count if free else 1
    return mesh.parts(op.rhs.owner.sharding.data.dims[column(op)])


def column(op: MatmulOp) -> int:
    """Return the dimension of the right-hand side that has the columns."""
    return 0 if op.transpose_rhs.value.data else 1


def constant_of(value: SSAValue) -> ConstantOp | None:
    """Return the constant that a value is, whether or not it is stated how it is cut."""
    op = value.owner
    op = op.input.owner if isinstance(op, ShardOp) else op
    return op if isinstance(op, ConstantOp) else None


# ---- pieces ------------------------------------------------------------------------------------


def columns_of(op: MatmulOp) -> Columns:
    """Return what is made of the columns of a product; without pieces where these are not all that
    is used of it."""
    found, value = Columns(op), op.results[0]
    while is_static(shape_of(value)):
        users = list(dict.fromkeys(use.operation for use in value.uses))
        taken = [taken_by(user) for user in users]
        if taken and None not in taken:
            found.pieces = [piece for own in taken for piece in own or ()]
            break
        if len(users) != 1 or not is_with_constants(users[0], value):
            break
        assert isinstance(users[0], TensorOp)
        found.ops.append(users[0])
        value = users[0].results[0]
    return found


def taken_by(op: Operation) -> list[Piece] | None:
    """Return the columns that an op takes and that are used; None for an op that does something
    else."""
    if isinstance(op, SplitOp):
        axis, first, found = len(shape_of(op.input)) - 1, 0, list[Piece]()
        for part in op.parts if op.axis.value.data == axis else ():
            found += [(part, first, shape_of(part)[axis])] if part.uses else []
            first += shape_of(part)[axis]
        return found or None
    if isinstance(op, SliceOp) and len(bounds := op.bounds() or ()) == 1:
        ((axis, start, end, step),) = bounds
        shape = shape_of(op.input)
        if axis == len(shape) - 1 and start is not None and end is not None and step == 1:
            return [(op.result, *slice_bounds(start, end, 1, shape[axis]))]
    return None


def is_with_constants(op: Operation, value: SSAValue) -> bool:
    """Return whether an op computes each element of its result from one of a value, and from
    constants."""
    return (
        isinstance(op, TensorOp)
        and op.ACCESS is Access.POINTWISE
        and [shape_of(r) for r in op.results] == [shape_of(value)]
        and all(v is value or constant_of(v) is not None for v in op.operands)
    )


# ---- products of pieces ------------------------------------------------------------------------


def replace_piece(found: Columns, piece: Piece, parts: dict[str, WeightPart]) -> None:
    """Compute a piece by a product of its own."""
    old, *span = piece
    op, user = found.product, old.owner
    assert isinstance(user, Operation)
    weight = constant_piece(op.rhs, column(op), span, user, parts)
    new = insert_before(user, op.with_operands([op.lhs, weight]))
    new.location, before = op.location, op.result
    for inner in found.ops:
        operands: list[SSAValue] = []
        for v in inner.operands:
            if v is before:
                operands.append(new.results[0])
            elif shape_of(v)[-1:] == shape_of(before)[-1:]:
                operands.append(constant_piece(v, len(shape_of(v)) - 1, span, user, parts))
            else:
                operands.append(v)
        new = insert_before(user, inner.with_operands(operands))
        new.location, before = inner.location, inner.results[0]
    old.replace_all_uses_with(new.results[0])


def constant_piece(
    value: SSAValue, dim: int, span: Sequence[int], before: Operation,
    parts: dict[str, WeightPart],
) -> SSAValue:  # fmt: skip
    """Return some elements of a constant along a dimension, cut as the whole is stated to be."""
    constant = constant_of(value)
    assert constant is not None
    shape, (first, size) = list(shape_of(value)), span
    if isinstance(constant.value, WeightAttr):
        spans = [(0, n) for n in shape]
        spans[dim], shape[dim] = (first, size), size
        key = f"{constant.value.data}[{', '.join(f'{a}:{a + n}' for a, n in spans)}]"
        parts[key] = WeightPart(constant.value.data, Sharding.whole(len(shape)), tuple(spans))
        new = ConstantOp.make(WeightAttr(key), tensor(shape, element_type(value)))
    else:
        stated = constant_value(constant.result)
        assert stated is not None
        array = array_of(stated).reshape(shape).take(range(first, first + size), dim)
        new = ConstantOp.make(dense(array), type_of(array))
    result = insert_before(before, new).results[0]
    if isinstance(value.owner, ShardOp):
        result = insert_before(before, value.owner.with_operands([result])).results[0]
    return result
