"""Transposes: chains of them, with views between, are one transpose between views, or none. Chains
of views are one reshape, to a shape in plain numbers.

A view between two transposes joins dimensions and takes them apart. In the finest dimensions that
both sides are made of (atoms), the whole chain is one permutation:

    %1 = graph.transpose %0 permutation [0, 2, 1, 3] : (tensor<2x16x4x8xf32>) -> tensor<...>
    %2 = graph.reshape %1 shape [8, 16, 8]
    %3 = graph.transpose %2 permutation [0, 2, 1] : (tensor<8x16x8xf32>) -> tensor<8x8x16xf32>
becomes
    %1 = graph.transpose %0 permutation [0, 2, 3, 1] : (tensor<2x16x4x8xf32>) -> tensor<...>
    %3 = graph.reshape %1 shape [8, 8, 16]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod

from xdsl.ir import SSAValue

from ge.dialects.graph.shape import ReshapeOp, SqueezeOp, TransposeOp, UnsqueezeOp, View
from ge.dialects.graph.support.parameters import partial_ints
from ge.dialects.support.types import (
    DYNAMIC,
    Shape,
    array_ints,
    is_static,
    normalize_axis,
    rank_of,
    shape_of,
)
from ge.transforms.analysis.parts import composed, inverse, is_identity
from ge.transforms.graph.canonical.local import Replacement, rule
from ge.transforms.rewriting.building import Make


def target(shape: Shape) -> list[int] | None:
    """The reshape target of this shape, in which one unknown dimension follows from the others."""
    unknown = shape.count(DYNAMIC)
    if unknown > 1 or (unknown and 0 in shape):
        return None
    return [-1 if d == DYNAMIC else d for d in shape]


def reshaped(make: Make, value: SSAValue, shape: Shape) -> SSAValue | None:
    """`value` under another shape (itself if it has that), None if more than one dimension is
    unknown."""
    if (dims := target(shape)) is None:
        return None
    if shape_of(value) == shape:
        return value
    return make(ReshapeOp, value, shape=dims, allow_zero=0 in dims)


@rule(ReshapeOp, SqueezeOp, UnsqueezeOp, below=(View,))
def view_of_view(op: View, make: Make) -> Replacement:
    """Only the last shape counts."""
    inner = op.input.owner
    if not isinstance(inner, View):
        return None
    if op.result.type == inner.input.type and undoes(op, inner):
        return inner.input
    if (new := reshaped(make, inner.input, shape_of(op.result))) is not None:
        return new
    if isinstance(op, ReshapeOp) and op.shape_value is not None and never_copies(op):
        return make(ReshapeOp, inner.input, op.shape_value, allow_zero=op.allow_zero)
    return None


def undoes(op: View, inner: View) -> bool:
    """Return whether the ops are squeeze and unsqueeze of the same axes."""
    if {type(op), type(inner)} != {SqueezeOp, UnsqueezeOp}:
        return False
    a, b = op.ints("axes"), inner.ints("axes")
    rank = max(rank_of(op.input), rank_of(op.result))
    if a is None or b is None:
        return False
    return {normalize_axis(i, rank) for i in a} == {normalize_axis(i, rank) for i in b}


def never_copies(op: ReshapeOp) -> bool:
    """Return whether no 0 in the shape stands for a dimension of the input."""
    known = partial_ints(op, "shape")
    return bool(op.allow_zero.value.data) or (known is not None and all(known))


@rule(ReshapeOp)
def plain_shape(op: ReshapeOp, make: Make) -> Replacement:
    """The shape without 0 and -1 where it is known, so that equal reshapes look equal."""
    dims = target(shape_of(op.result))
    if op.shape is None or dims is None:
        return None
    if list(array_ints(op.shape)) == dims and bool(op.allow_zero.value.data) == (0 in dims):
        return None
    return make(ReshapeOp, op.input, shape=dims, allow_zero=0 in dims)


def permutation(op: TransposeOp) -> list[int]:
    return list(array_ints(op.permutation))


def moves_only_ones(order: Sequence[int], shape: Shape) -> bool:
    """Return whether a transpose keeps the order of all dimensions but those of size 1."""
    others = [i for i in order if shape[i] != 1]
    return others == sorted(others)


@rule(TransposeOp)
def transpose_of_ones(op: TransposeOp, make: Make) -> Replacement:
    """Moving dimensions of size 1 moves nothing."""
    shape = shape_of(op.input)
    empty = is_static(shape) and 0 in shape
    moves_nothing = empty or moves_only_ones(permutation(op), shape)
    return reshaped(make, op.input, shape_of(op.result)) if moves_nothing else None


@rule(TransposeOp, below=(TransposeOp,))
def transpose_twice(op: TransposeOp, make: Make) -> Replacement:
    """One after the other, as one."""
    if not isinstance(inner := op.input.owner, TransposeOp):
        return None
    order = composed(permutation(inner), permutation(op))
    if is_identity(order):
        return inner.input
    return make(TransposeOp, inner.input, permutation=order)


# ---- with views between ------------------------------------------------------------------------


def common_atoms(a: Shape, b: Shape) -> list[int] | None:
    """The sizes of the coarsest common refinement of two shapes: [2, 6] and [4, 3] have [2, 2, 3],
    [2, 3] and [3, 2] have none."""
    strides = (accumulate((1, *reversed(shape)), int.__mul__) for shape in (a, b))
    sizes: list[int] = []
    for low, high in pairwise(sorted(set[int]().union(*strides))):
        if high % low:
            return None
        sizes.append(high // low)
    return sizes[::-1]


def split_into(atoms: Sequence[int], shape: Shape) -> list[list[int]]:
    """The indices of the atoms of each dimension (none for one of size 1)."""
    groups: list[list[int]] = []
    i = 0
    for d in shape:
        group: list[int] = []
        while prod(atoms[j] for j in group) < d:
            group.append(i)
            i += 1
        groups.append(group)
    return groups


@dataclass
class Chain:
    """A view between transposes as one permutation of atoms: `order[i]` is the index in the source
    of the i-th atom of the result; `groups` are the result's dimensions as indices of its atoms."""

    sizes: list[int]
    order: list[int]
    groups: list[list[int]]

    def runs(self) -> list[list[int]]:
        """The result's dimensions as indices of atoms in the source, cut where these are not
        consecutive. Dimensions of size 1 have none."""
        runs: list[list[int]] = []
        for group in self.groups:
            runs.append([])
            for index in (self.order[i] for i in group):
                if runs[-1] and index != runs[-1][-1] + 1:
                    runs.append([])
                runs[-1].append(index)
        return runs

    def emit(self, make: Make, source: SSAValue, result: Shape) -> SSAValue | None:
        """Emit the chain as a view, a transpose and a view."""
        runs = self.runs()
        order = source_order(runs)
        dims = [prod(self.sizes[p] for p in runs[i]) for i in order]
        if (value := reshaped(make, source, tuple(dims))) is None:
            return None
        if order != sorted(order):
            value = make(TransposeOp, value, permutation=inverse(order))
        return reshaped(make, value, result)


def source_order(runs: Sequence[list[int]]) -> list[int]:
    """The indices of the runs in the order of the source. Those of size 1 keep their index."""
    order = sorted((i for i, run in enumerate(runs) if run), key=lambda i: runs[i][0])
    for i, run in enumerate(runs):
        if not run:
            order.insert(i, i)
    return order


def chain_of(first: TransposeOp, between: Shape, last: TransposeOp) -> Chain | None:
    """`first`, a view of its result as `between`, and `last`, in atoms, if the shapes have any."""
    middle = shape_of(first.result)
    if (atoms := common_atoms(middle, between)) is None:
        return None
    by_dim = split_into(atoms, middle)  # atoms, in the order after the first transpose
    source: list[int] = []  # the same atoms, in the source's order
    for i in sorted(range(len(middle)), key=permutation(first).__getitem__):
        source += by_dim[i]
    place = {atom: p for p, atom in enumerate(source)}
    joined = split_into(atoms, between)
    order: list[int] = []
    groups: list[list[int]] = []
    for i in permutation(last):
        groups.append(list(range(len(order), len(order) + len(joined[i]))))
        order += [place[atom] for atom in joined[i]]
    return Chain([atoms[a] for a in source], order, groups)


@rule(TransposeOp, below=(View,))
def transpose_view_transpose(op: TransposeOp, make: Make) -> Replacement:
    """The transpose of a view of a transpose is one transpose between views."""
    if not isinstance(view := op.input.owner, View):
        return None
    value = view.input
    while isinstance(value.owner, View):
        value = value.owner.input
    first = value.owner
    if not isinstance(first, TransposeOp):
        return None
    middle, between = shape_of(value), shape_of(op.input)
    if not is_static(middle) or not is_static(between) or 0 in middle:
        return None
    chain = chain_of(first, between, op)
    return None if chain is None else chain.emit(make, first.input, shape_of(op.result))
