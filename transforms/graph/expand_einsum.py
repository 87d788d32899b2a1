"""Einstein sums become matmuls, which the other passes know.

    %y = graph.einsum "abc,cde->abde" %x, %w : (tensor<2x8x16xf32>, tensor<16x4x4xf32>) -> ...
becomes
    %0 = graph.reshape %w shape [16, 16]
    %1 = graph.matmul %x, %0
    %y = graph.reshape %1 shape [2, 8, 4, 4]
and
    %y = graph.einsum "bqhd,bkhd->bhqk" %q, %k
becomes
    %0 = graph.transpose %q permutation [0, 2, 1, 3]            b h | q | d
    %1 = graph.transpose %k permutation [0, 2, 3, 1]            b h | d | k
    %y = graph.matmul %0, %1

A label of both operands and the result is a batch; one of both operands alone is summed over; the
labels of one operand and the result are joined to a row or a column. A label of one operand alone
is summed first. Diagonals (a label twice in an operand) and three operands or more stay.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ge.dialects import graph
from ge.dialects.graph.linear import Labels, parse_equation
from ge.dialects.support.element_types import is_float
from ge.dialects.support.operation import all_ops
from ge.dialects.support.types import DYNAMIC, element_type, rank_of, shape_of
from ge.transforms.graph.canonical.local import Replacement, rule, simplify
from ge.transforms.rewriting.building import Make
from ge.transforms.rewriting.passes import Relation, Ulps


@dataclass
class Term:
    """A value and the labels of its dimensions."""

    value: SSAValue
    labels: Labels
    make: Make

    def sizes(self) -> dict[str, int]:
        return dict(zip(self.labels, shape_of(self.value), strict=True))

    def summed(self, kept: Sequence[str]) -> "Term":
        """Sum over the labels that are not in `kept`."""
        axes = [i for i, label in enumerate(self.labels) if label not in kept]
        if not axes:
            return self
        value = self.make(graph.ReduceOp, self.value, kind="sum", axes=axes, keep_dims=False)
        return Term(value, tuple(n for n in self.labels if n in kept), self.make)

    def ordered(self, labels: Sequence[str]) -> "Term":
        order = [self.labels.index(n) for n in labels]
        if order == sorted(order):
            return self
        value = self.make(graph.TransposeOp, self.value, permutation=order)
        return Term(value, tuple(labels), self.make)

    def joined(self, groups: Sequence[Labels]) -> SSAValue | None:
        """Join each group of labels, in order, to one dimension (1 for an empty one); None if that
        shape cannot be written."""
        if all(len(group) == 1 for group in groups):
            return self.value
        sizes, axis, target = self.sizes(), 0, list[int]()
        for i, group in enumerate(groups):
            size = 1
            for label in group:
                size = DYNAMIC if DYNAMIC in (size, sizes[label]) else size * sizes[label]
            if size == DYNAMIC:
                size = 0 if len(group) == 1 and axis == i else -1  # as in the input, or the rest
            target.append(size)
            axis += len(group)
        return reshaped(self.make, self.value, target)


def reshaped(make: Make, value: SSAValue, target: list[int]) -> SSAValue | None:
    if target.count(-1) > 1 or 0 in shape_of(value):
        return None
    return make(graph.ReshapeOp, value, shape=target)


@rule(graph.EinsumOp, exact=False)
def einsum_of_one(op: graph.EinsumOp, make: Make) -> Replacement:
    """A sum and a transpose"""
    if len(op.inputs) != 1 or (labelled := terms(op, make)) is None:
        return None
    (term,), target = labelled
    return term.summed(target).ordered(target).value


@rule(graph.EinsumOp, exact=False)
def einsum_of_two(op: graph.EinsumOp, make: Make) -> Replacement:
    """A matmul, or elementwise where nothing is summed"""
    if len(op.inputs) != 2 or (labelled := terms(op, make)) is None:
        return None
    (lhs, rhs), target = labelled
    lhs, rhs = lhs.summed((*rhs.labels, *target)), rhs.summed((*lhs.labels, *target))
    inner = [n for n in lhs.labels if n in rhs.labels and n not in target]
    if not inner:
        return make(graph.MulOp, *(spread(t, target) for t in (lhs, rhs)))
    batch = [n for n in target if n in lhs.labels and n in rhs.labels]
    rows = [n for n in target if n in lhs.labels and n not in batch]
    columns = [n for n in target if n in rhs.labels and n not in batch]
    single = [(n,) for n in batch]
    apart = [(n,) for n in rows] if rows and not batch else [tuple(rows)]
    a = lhs.ordered([*batch, *rows, *inner]).joined([*single, *apart, tuple(inner)])
    b = rhs.ordered([*batch, *inner, *columns]).joined([*single, tuple(inner), tuple(columns)])
    if a is None or b is None:
        return None
    product = make(graph.MatmulOp, a, b)
    labels = (*batch, *rows, *columns)
    if rank_of(product) != len(labels) or len(columns) != 1:
        sizes = {**lhs.sizes(), **rhs.sizes()}
        kept = len(single) + (len(apart) if all(len(g) == 1 for g in apart) else 0)
        wanted = [
            (0 if i < kept else -1) if sizes[n] == DYNAMIC else sizes[n]
            for i, n in enumerate(labels)
        ]
        if (product := reshaped(make, product, wanted)) is None:
            return None
    return Term(product, labels, make).ordered(target).value


def spread(term: Term, target: Labels) -> SSAValue:
    """The term in the order of the target, with dimensions of 1 for the labels it lacks."""
    value = term.ordered([n for n in target if n in term.labels]).value
    missing = [i for i, n in enumerate(target) if n not in term.labels]
    return term.make(graph.UnsqueezeOp, value, axes=missing) if missing else value


def terms(op: graph.EinsumOp, make: Make) -> tuple[list[Term], Labels] | None:
    """The operands with their labels, and those of the result; None for diagonals, for labels of
    two sizes and for numbers that are no floats."""
    labels, target = parse_equation(op.equation.data, [rank_of(v) for v in op.inputs])
    diagonal = any(len(set(names)) != len(names) for names in labels)
    if diagonal or not is_float(element_type(op.result)):
        return None
    sizes: dict[str, int] = {}
    for names, value in zip(labels, op.inputs, strict=True):
        for name, size in zip(names, shape_of(value), strict=True):
            if sizes.setdefault(name, size) != size:
                return None
    return [Term(v, n, make) for v, n in zip(op.inputs, labels, strict=True)], target


class ExpandEinsumPass(ModulePass):
    """Write Einstein sums as transposes, matmuls and sums."""

    name = "expand-einsum"
    LOCAL: ClassVar[bool] = True
    RELATION: ClassVar[Relation] = Ulps()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if any(isinstance(o, graph.EinsumOp) for o in all_ops(op.body.blocks)):
            simplify(op, (einsum_of_one, einsum_of_two))
