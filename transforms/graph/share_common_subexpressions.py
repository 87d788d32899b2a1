"""Compute once what is computed twice.

    %0 = graph.add %a, %b
    %1 = graph.add %b, %a
    %2 = graph.mul %0, %1
becomes
    %0 = graph.add %a, %b
    %2 = graph.mul %0, %0

Two ops are one when class, properties, attributes, operands, result types and bodies are equal
(hash-consing: operands are looked up after they were shared themselves). Operands of commutative
ops count in any order, and `a > b` is `b < a`. What an outer block computes is shared by the
blocks in it; blocks beside each other share nothing.

One walk, in which each op is hashed once. Bodies are compared only for ops that agree in all else,
the number of ops in the body included.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import Commutative, IsolatedFromAbove, Pure

from ge.dialects.functions import defined_functions
from ge.dialects.graph.control import IfOp, LoopOp
from ge.dialects.graph.elementwise import CompareOp, MaximumOp, MinimumOp
from ge.dialects.types import element_type, is_float
from ge.transforms.statistics import count

Number = Callable[[SSAValue], Hashable]
"""Says which value an operand is: values of equal numbers are equal."""

MIRRORED = {"gt": "lt", "ge": "le"}
"""Comparisons that are another one with the operands exchanged."""


# ---- what makes two ops equal ----------------------------------------------------------------


@cache
def _commutes(kind: type[Operation]) -> bool:
    return any(isinstance(t, Commutative) for t in kind.traits)


def _ordered(op: Operation, operands: Sequence[Hashable]) -> Sequence[Hashable]:
    """The operands' numbers, the same for every order that gives the same bits: the larger of
    -0 and 0 is the first one."""
    if isinstance(op, CompareOp):
        if op.predicate.data in MIRRORED:
            return operands[::-1]
        symmetric = op.predicate.data in ("eq", "ne")
    elif isinstance(op, MaximumOp | MinimumOp):
        symmetric = not is_float(element_type(op.lhs))
    else:
        symmetric = _commutes(type(op))
    return sorted(operands, key=hash) if symmetric else operands


def _named(op: Operation) -> Hashable:
    """The op's properties and attributes."""
    if isinstance(op, CompareOp):
        predicate = op.predicate.data
        return MIRRORED.get(predicate, predicate), frozenset(op.attributes.items())
    if not op.properties and not op.attributes:
        return None
    return frozenset(op.properties.items()), frozenset(op.attributes.items())


def signature(op: Operation, number: Number) -> Hashable:
    """Equal for two ops without regions that compute the same."""
    operands = tuple(_ordered(op, [number(v) for v in op.operands]))
    return type(op), _named(op), operands, tuple(r.type for r in op.results)


def structure(op: Operation, number: Number) -> Hashable:
    """Equal for two ops that compute the same, bodies included."""
    inside: dict[SSAValue, int] = {}

    def of(value: SSAValue) -> Hashable:
        return inside[value] if value in inside else number(value)

    def define(values: Sequence[SSAValue]) -> None:
        for value in values:
            inside[value] = len(inside)

    def of_block(block: Block) -> Hashable:
        define(block.args)
        parts: list[Hashable] = [tuple(block.arg_types)]
        for inner in block.ops:
            parts.append(of_op(inner))
            define(inner.results)
        return tuple(parts)

    def of_op(op: Operation) -> Hashable:
        bodies = tuple(of_block(b) for r in op.regions for b in r.blocks)
        return signature(op, of), bodies

    return of_op(op)


# ---- sharing ---------------------------------------------------------------------------------


def _itself(value: SSAValue) -> Hashable:
    return value


def _is_pure(op: Operation) -> bool:
    return isinstance(op, IfOp | LoopOp) or op.has_trait(Pure)


@dataclass
class Sharing:
    """What has been computed so far. An entry counts as long as its op's block is open: then the
    op's results are seen from where the walk is."""

    open: set[Block] = field(default_factory=set[Block])
    known: dict[Hashable, Operation] = field(default_factory=dict[Hashable, Operation])
    """The op for each signature (of ops without regions) or structure."""
    with_body: dict[Hashable, Operation | None] = field(
        default_factory=dict[Hashable, Operation | None]
    )
    """The first op for each signature and size of body; None when there was another one, so that
    both are in `known`."""
    shared: int = 0

    def find(self, op: Operation, size: int) -> Operation | None:
        """An op that computes the same and is seen from here; else `op` is remembered."""
        key = signature(op, _itself)
        if op.regions:
            first = self.with_body.setdefault((key, size), op)
            if first is op:
                return None
            if first is not None:
                self.with_body[key, size] = None
                self.known[structure(first, _itself)] = first
            key = structure(op, _itself)
        found = self.known.get(key)
        if found is not None and found.parent in self.open:
            return found
        self.known[key] = op
        return None

    def block(self, block: Block) -> tuple[int, bool]:
        """Share the ops of a block; returns how many are left, those in their bodies included, and
        whether all of them are pure."""
        self.open.add(block)
        total, all_pure = 0, True
        op = block.first_op
        while op is not None:
            after = op.next_op
            size, pure = self.bodies(op)
            pure = pure and _is_pure(op)
            if pure and op.results and (same := self.find(op, size)) is not None:
                _replace(op, same)
                self.shared += 1
            else:
                total += size + 1
                all_pure = all_pure and (pure or after is None)  # the last op ends the block
            op = after
        self.open.remove(block)
        return total, all_pure

    def bodies(self, op: Operation) -> tuple[int, bool]:
        """Share in the op's regions; their size in ops, and whether all of these are pure."""
        total, all_pure = 0, True
        inner = Sharing() if op.has_trait(IsolatedFromAbove) else self
        for region in op.regions:
            for block in region.blocks:
                size, pure = inner.block(block)
                total, all_pure = total + size, all_pure and pure
        if inner is not self:
            self.shared += inner.shared
        return total, all_pure


def _replace(op: Operation, same: Operation) -> None:
    for old, new in zip(op.results, same.results, strict=True):
        old.replace_all_uses_with(new)
    op.detach()
    op.erase()


def share_common_subexpressions(block: Block) -> int:
    """Share what the ops of a block (no block sees it from above) have in common; returns how
    many ops went."""
    sharing = Sharing()
    sharing.block(block)
    return sharing.shared


@dataclass(frozen=True)
class ShareCommonSubexpressionsPass(ModulePass):
    """Compute once what is computed twice."""

    name = "share-common-subexpressions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in defined_functions(op):
            if shared := share_common_subexpressions(func.body.block):
                count(self.name, shared, shared)
