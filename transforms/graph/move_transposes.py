"""Move transposes to where they cancel: ops between them compute in the other order.

    %1 = graph.conv %0 ...                                    NCHW
    %2 = graph.transpose %1 permutation [0, 2, 3, 1]          NHWC
    %3 = graph.add %2, %bias : tensor<1x8x8x16xf32>, tensor<16xf32>
    %4 = graph.reduce mean %3 axes [1, 2]
    %5 = graph.transpose %3 permutation [0, 3, 1, 2]          NCHW
    %6 = graph.conv %5 ...
becomes
    %1 = graph.conv %0 ...
    %b = graph.reshape %bias shape [16, 1, 1]
    %3 = graph.add %1, %b
    %4 = graph.reduce mean %3 axes [2, 3]
    %6 = graph.conv %3 ...

Ops that take any order of dimensions (`PermuteInterface`) and use each other's values are a web.
For each order that cancels a transpose beside a web, the bytes of all transposes around the web are
compared with those in that order; the web moves if there are fewer. Since they get fewer each time,
webs that share a transpose do not move to and fro. At most `MOST_ORDERS` orders are tried for a
web: the time is linear in the graph.

With `exact` sums along rows stay, as another order in memory may add them up in another order.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block, Operation, SSAValue, Use
from xdsl.passes import ModulePass
from xdsl.utils.disjoint_set import DisjointSet

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.shape import ReshapeOp, TransposeOp, UnsqueezeOp
from ge.dialects.support.boxes import Access
from ge.dialects.support.editing import erase
from ge.dialects.support.element_types import storage_bytes
from ge.dialects.support.functions import defined_functions
from ge.dialects.support.tensor_op import Permuted, PermuteInterface, attribute
from ge.dialects.support.types import (
    DYNAMIC,
    Shape,
    array_ints,
    element_type,
    rank_of,
    set_type,
    shape_of,
    tensor,
)
from ge.transforms.analysis.parts import Order, composed, inverse, is_identity
from ge.transforms.graph.canonical import transposes
from ge.transforms.graph.canonical.local import simplify
from ge.transforms.graph.canonical.transposes import moves_only_ones
from ge.transforms.graph.control_flow import insert_before, nested_blocks
from ge.transforms.rewriting.counts import count
from ge.transforms.rewriting.passes import BitExact, Relation, Ulps

MOST_ORDERS = 4  # tried for a web: those that cancel the most bytes
UNKNOWN_SIZE = 16  # what `?` counts as if bytes are compared


def full_shape(value: SSAValue, rank: int) -> Shape:
    """The shape with leading ones up to this rank."""
    return (1,) * (rank - rank_of(value)) + shape_of(value)


def cost(value: SSAValue) -> int:
    """The bytes that a transpose of the value moves."""
    sizes = (UNKNOWN_SIZE if d == DYNAMIC else d for d in shape_of(value))
    return storage_bytes(prod(sizes), element_type(value))


def moves_nothing(order: Sequence[int], shape: Shape) -> bool:
    """Return whether a transpose in this order is a view."""
    return moves_only_ones(order, shape) and shape.count(DYNAMIC) <= 1 and 0 not in shape


# ---- webs --------------------------------------------------------------------------------------


def takes_any_order(op: Operation, exact: bool) -> Permuted | None:
    """The identity permutation of the op, if it takes any order."""
    if not isinstance(op, PermuteInterface) or not op.results or op.regions:
        return None
    if exact and op.ACCESS is Access.ROWS:
        return None
    if not all(isinstance(v.type, TensorType) for v in (*op.operands, *op.results)):
        return None
    rank = rank_of(op.operands[0] if op.ACCESS is Access.ROWS else op.results[0])
    if any(rank_of(v) > rank for v in op.operands):
        return None
    return op.permuted(range(rank)) if rank > 1 else None


def webs_of(block: Block, exact: bool) -> list[list[PermuteInterface]]:
    """The webs of a block that have a transpose beside them, in program order."""
    flexible: dict[Operation, Permuted] = {}
    for op in block.ops:
        if (same := takes_any_order(op, exact)) is not None:
            flexible[op] = same
    sets = DisjointSet[Operation](tuple(flexible))
    touched: set[Operation] = set()
    beside: dict[SSAValue, Operation] = {}
    for op, same in flexible.items():
        highest = rank(op, same)
        for i in same.operands:
            value = op.operands[i]
            owner = value.owner
            if isinstance(owner, TransposeOp) and rank_of(value) == highest:
                touched.add(op)
                sets.union(op, beside.setdefault(value, op))
            elif isinstance(owner, Operation) and owner in flexible:
                if rank_of(value) == len(flexible[owner].order) == highest:
                    sets.union(op, owner)
        if any(isinstance(u.operation, TransposeOp) for r in op.results for u in r.uses):
            touched.add(op)
    roots = {sets.find(op) for op in touched}
    webs: dict[Operation, list[PermuteInterface]] = {}
    for op in flexible:
        assert isinstance(op, PermuteInterface)
        if (root := sets.find(op)) in roots:
            webs.setdefault(root, []).append(op)
    return list(webs.values())


def rank(op: Operation, same: Permuted) -> int:
    """The rank of the operands that would be permuted."""
    return max(rank_of(op.operands[i]) for i in same.operands)


# ---- the cost of a move ------------------------------------------------------------------------


@dataclass
class Move:
    """An order of dimensions for a web, and the ops of the web that take it."""

    order: Order
    ops: dict[Operation, Permuted]

    @classmethod
    def of(cls, web: Sequence[PermuteInterface], order: Order, exact: bool) -> "Move":
        ops: dict[Operation, Permuted] = {}
        for op in web:
            same = takes_any_order(op, exact)
            if same is not None and rank(op, same) == len(order):
                if (permuted := op.permuted(order)) is not None:
                    ops[op] = permuted
        return cls(order, ops)

    def is_inside(self, use: Use) -> bool:
        """Return whether a use takes its value in the new order."""
        permuted = self.ops.get(use.operation)
        return permuted is not None and use.index in permuted.operands

    def makes(self, value: SSAValue) -> bool:
        """Return whether the value comes in the new order of all dimensions."""
        permuted = self.ops.get(value.owner) if isinstance(value.owner, Operation) else None
        return permuted is not None and len(permuted.order) == len(self.order)

    def inputs(self) -> Iterator[SSAValue]:
        """The operands from outside, each value once."""
        seen: set[SSAValue] = set()
        for op, permuted in self.ops.items():
            for value in (op.operands[i] for i in permuted.operands):
                if value not in seen and not self.makes(value):
                    seen.add(value)
                    yield value

    def outputs(self) -> Iterator[tuple[SSAValue, Order, list[Use]]]:
        """The results that are used outside, with their new order and these uses."""
        for op, permuted in self.ops.items():
            for value in op.results:
                uses = [use for use in value.uses if not self.is_inside(use)]
                if uses and not is_identity(permuted.order):
                    yield value, tuple(permuted.order), uses

    def way_in(self, op: TransposeOp) -> Order:
        """The permutation between the input of a transpose before the web and the web. If the
        input is of the web itself, it comes in the new order."""
        order = array_ints(op.permutation)
        if self.makes(op.input):
            order = composed(inverse(self.order), order)
        return composed(order, self.order)

    def is_between(self, op: TransposeOp) -> bool:
        """Return whether a transpose has no users outside of the web."""
        return all(self.is_inside(use) for use in op.result.uses)

    def gain(self) -> int:
        """The bytes that transposes move less after the move."""
        gain = sum(self.gain_before(value) for value in self.inputs())
        return gain + sum(self.gain_behind(*output) for output in self.outputs())

    def gain_before(self, value: SSAValue) -> int:
        shape, owner = full_shape(value, len(self.order)), value.owner
        if isinstance(owner, ConstantOp) or moves_nothing(self.order, shape):
            return 0
        if not isinstance(owner, TransposeOp) or rank_of(value) < len(self.order):
            return -cost(value)
        return cost(value) * (self.is_between(owner) - (not is_identity(self.way_in(owner))))

    def gain_behind(self, value: SSAValue, order: Order, uses: Sequence[Use]) -> int:
        back, gain = inverse(order), 0
        others = False
        for use in uses:
            if isinstance(use.operation, TransposeOp):
                then = composed(back, array_ints(use.operation.permutation))
                cancels = is_identity(then) and not self.is_between(use.operation)
                gain += cost(value) * cancels
            else:
                others = True
        if others and not moves_nothing(back, composed(shape_of(value), order)):
            gain -= cost(value)
        return gain


def orders_for(web: Sequence[PermuteInterface]) -> list[Order]:
    """The orders that cancel a transpose beside the web, those that cancel the most bytes first."""
    weights: Counter[Order] = Counter()
    before: set[SSAValue] = set()
    for op in web:
        for value in op.operands:
            if isinstance(value.owner, TransposeOp) and value not in before:
                before.add(value)
                weights[inverse(array_ints(value.owner.permutation))] += cost(value)
        for result in op.results:
            for use in result.uses:
                if isinstance(use.operation, TransposeOp):
                    weights[array_ints(use.operation.permutation)] += cost(result)
    return [order for order, _ in weights.most_common(MOST_ORDERS)]


def best_move(web: Sequence[PermuteInterface], exact: bool) -> Move | None:
    moves = [Move.of(web, order, exact) for order in orders_for(web)]
    gains = [move.gain() for move in moves]
    best = max(range(len(moves)), key=gains.__getitem__, default=None)
    return None if best is None or gains[best] <= 0 else moves[best]


# ---- moving ------------------------------------------------------------------------------------


def arranged(value: SSAValue, order: Order, before: Operation) -> SSAValue:
    """The value with its dimensions in this order, with leading ones if it has fewer."""
    missing = len(order) - rank_of(value)
    shape = full_shape(value, len(order))
    if is_identity(order) and not missing:
        return value
    if moves_nothing(order, shape):
        if all(d == 1 for d in shape):
            return value
        dims = [-1 if d == DYNAMIC else d for d in composed(shape, order)]
        return insert_before(before, ReshapeOp.of(value, shape=dims, allow_zero=0 in dims)).result
    if missing:
        value = insert_before(before, UnsqueezeOp.of(value, axes=list(range(missing)))).result
    return insert_before(before, TransposeOp.of(value, permutation=order)).result


def brought_in(value: SSAValue, move: Move, before: Operation) -> SSAValue:
    """A value from outside in the order of the web."""
    owner = value.owner
    if isinstance(owner, TransposeOp) and rank_of(value) == len(move.order):
        return arranged(owner.input, move.way_in(owner), before)
    return arranged(value, move.order, before)


def carry_out(move: Move) -> None:
    """Let the ops of a web compute in the new order, in place."""
    inputs, outputs = set(move.inputs()), list(move.outputs())
    sources = [v.owner for v in inputs if isinstance(v.owner, TransposeOp)]
    moved: dict[SSAValue, SSAValue] = {}
    for op, permuted in move.ops.items():
        for i in permuted.operands:
            if (value := op.operands[i]) in inputs:
                if value not in moved:
                    moved[value] = brought_in(value, move, op)
                op.operands[i] = moved[value]
        for name, param in permuted.params.items():
            if (attr := attribute(param)) is not None:
                op.properties[name] = attr
        for result in op.results:
            dims = composed(shape_of(result), permuted.order)
            set_type(result, tensor(dims, element_type(result)))
    for value, order, uses in outputs:
        restore(value, inverse(order), uses)
    for op in sources:
        if op.parent is not None and op.result.first_use is None:
            erase(op)


def restore(value: SSAValue, back: Order, uses: Sequence[Use]) -> None:
    """Give the uses outside of a web the value in its old order."""
    restored: SSAValue | None = None
    for use in uses:
        user = use.operation
        if isinstance(user, TransposeOp):
            order = composed(back, array_ints(user.permutation))
            if user.result.first_use is not None:
                user.result.replace_all_uses_with(arranged(value, order, user))
            erase(user)
            continue
        if restored is None:
            assert isinstance(value.owner, Operation)
            assert value.owner.next_op is not None
            restored = arranged(value, back, value.owner.next_op)
            if isinstance(moved := restored.owner, Operation):
                moved.location = value.owner.location
        user.operands[use.index] = restored


def move_transposes(block: Block, exact: bool) -> int:
    """Move the webs of a block, those of blocks in it first; returns how many moved."""
    moved = 0
    for op in block.ops:
        moved += sum(move_transposes(inner, exact) for inner in nested_blocks(op))
    for web in webs_of(block, exact):
        if (move := best_move(web, exact)) is not None:
            carry_out(move)
            moved += 1
    return moved


@dataclass(frozen=True)
class MoveTransposesPass(ModulePass):
    """Let ops between transposes compute in the other order, if that moves fewer bytes.
    `exact`: only ops whose results keep every bit."""

    name = "move-transposes"
    LOCAL: ClassVar[bool] = True

    exact: bool = False

    @property
    def RELATION(self) -> Relation:
        return BitExact() if self.exact else Ulps()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in defined_functions(op):
            for _ in range(2):  # what one web does to a transpose may make another one move
                if not (moved := move_transposes(func.body.block, self.exact)):
                    break
                count(self.name, moved, moved)
                simplify(op, (transposes,), self.exact)
