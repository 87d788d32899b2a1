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

One walk, in which each op is hashed once: a body is told by the numbers of the values that it
ends with (Briggs, Cooper, Simpson: Value numbering, 1997), however deep bodies are in each other.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import Commutative, IsolatedFromAbove, Pure

from ge.dialects.graph.control import IfOp, LoopOp
from ge.dialects.graph.elementwise import CompareOp, MaximumOp, MinimumOp
from ge.dialects.support.element_types import is_float
from ge.dialects.support.functions import defined_functions
from ge.dialects.support.types import element_type
from ge.transforms.rewriting.counts import count

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


@dataclass
class Numbering:
    """Numbers values so that those that compute the same from the values around them have the
    same number (value numbering), bodies included: a body is the numbers of what it ends with.
    Arguments of a body are numbered by how many bodies are in each other below it, so that equal
    bodies have equal numbers wherever they stand. Each op is looked at once, inner ones first.
    """

    numbers: dict[SSAValue, Hashable] = field(default_factory=dict[SSAValue, Hashable])
    keys: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    heights: dict[Operation, int] = field(default_factory=dict[Operation, int])

    def of(self, value: SSAValue) -> Hashable:
        return self.numbers.get(value, value)

    def height(self, op: Operation) -> int:
        """How many bodies are in each other in the op."""
        if not op.regions:
            return 0
        if (known := self.heights.get(op)) is None:
            inner = (self.height(o) for r in op.regions for b in r.blocks for o in b.ops)
            known = self.heights[op] = 1 + max(inner, default=0)
        return known

    def enter(self, op: Operation) -> None:
        """Number the arguments of the op's bodies."""
        for i, region in enumerate(op.regions):
            for j, block in enumerate(region.blocks):
                for arg in block.args:
                    self.numbers[arg] = ("argument", self.height(op), i, j, arg.index)

    def leave(self, op: Operation) -> Hashable:
        """Number the results of an op whose bodies are numbered; returns the op's own number."""
        bodies = tuple(self.body(b) for r in op.regions for b in r.blocks)
        key = self.keys.setdefault((signature(op, self.of), bodies), len(self.keys))
        self.numbers.update((r, (key, i)) for i, r in enumerate(op.results))
        return key

    def body(self, block: Block) -> Hashable:
        last = block.last_op
        end = None if last is None else signature(last, self.of)
        return tuple(block.arg_types), end

    def visit(self, op: Operation) -> Hashable:
        """Number an op and the ops in it; returns the op's number."""
        self.enter(op)
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    self.visit(inner)
        return self.leave(op)


# ---- sharing ---------------------------------------------------------------------------------


def _is_pure(op: Operation) -> bool:
    return isinstance(op, IfOp | LoopOp) or op.has_trait(Pure)


@dataclass
class Sharing:
    """What has been computed so far. An entry counts as long as its op's block is open: then the
    op's results are seen from where the walk is."""

    numbering: Numbering = field(default_factory=Numbering)
    open: set[Block] = field(default_factory=set[Block])
    known: dict[Hashable, Operation] = field(default_factory=dict[Hashable, Operation])
    """The last op for each number."""
    shared: int = 0

    def find(self, op: Operation) -> Operation | None:
        """An op that computes the same and is seen from here; else `op` is remembered."""
        key = self.numbering.leave(op)
        found = self.known.get(key)
        if found is not None and found.parent in self.open:
            return found
        self.known[key] = op
        return None

    def block(self, block: Block) -> bool:
        """Share the ops of a block; whether all of them are pure."""
        self.open.add(block)
        all_pure = True
        op = block.first_op
        while op is not None:
            after = op.next_op
            pure = self.bodies(op) and _is_pure(op)
            if pure and op.results and (same := self.find(op)) is not None:
                _replace(op, same)
                self.shared += 1
            else:
                all_pure = all_pure and (pure or after is None)  # the last op ends the block
            op = after
        self.open.remove(block)
        return all_pure

    def bodies(self, op: Operation) -> bool:
        """Share in the op's regions; whether all ops of these are pure."""
        if not op.regions:
            return True
        all_pure = True
        inner = Sharing(self.numbering) if op.has_trait(IsolatedFromAbove) else self
        self.numbering.enter(op)
        for region in op.regions:
            for block in region.blocks:
                all_pure = inner.block(block) and all_pure
        if inner is not self:
            self.shared += inner.shared
        return all_pure


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
