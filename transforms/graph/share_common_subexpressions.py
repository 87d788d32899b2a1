"""Common subexpression elimination.

    %0 = graph.add %a, %b
    %1 = graph.add %b, %a
    %2 = graph.mul %0, %1
becomes
    %0 = graph.add %a, %b
    %2 = graph.mul %0, %0

Two ops are equal if class, properties, attributes, operands, result types and bodies are (value
numbering; Briggs, Cooper, Simpson, 1997). Operands of commutative ops count in any order, and
`a > b` is `b < a`. What an outer block computes is shared by the blocks in it; sibling blocks share
nothing. Each op is hashed once, however deep bodies are nested: a body's number is that of the
values that it ends with.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import Commutative, IsolatedFromAbove

from ge.dialects.graph.elementwise import CompareOp, MaximumOp, MinimumOp
from ge.dialects.support.element_types import is_float
from ge.dialects.support.operation import operands_of
from ge.dialects.support.types import element_type, number_of
from ge.transforms.graph.control_flow import is_pure, replace_op
from ge.transforms.rewriting.counts import count
from ge.transforms.rewriting.passes import FunctionPass

Number = Callable[[SSAValue], Hashable]  # values of equal numbers are equal

MIRRORED = {"gt": "lt", "ge": "le"}  # comparisons that are another one of exchanged operands


# ---- numbering -------------------------------------------------------------------------------


@cache
def _commutes(kind: type[Operation]) -> bool:
    return any(isinstance(t, Commutative) for t in kind.traits)


def _ordered(op: Operation, operands: Sequence[Hashable]) -> Sequence[Hashable]:
    """The operands' numbers, the same for every order that gives the same bits (the maximum of -0
    and 0 is the first one)."""
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
        return MIRRORED.get(predicate, predicate), _numbers(op.attributes)
    if not op.properties and not op.attributes:
        return None
    return _numbers(op.properties), _numbers(op.attributes)


def _numbers(attributes: Mapping[str, Attribute]) -> Hashable:
    """The attributes by their numbers; those of elements, which may be large, are not kept."""
    numbers = set[tuple[str, Hashable]]()
    for name, a in attributes.items():
        number = a if type(a) is DenseIntOrFPElementsAttr else number_of(a)
        numbers.add((name, number))
    return frozenset(numbers)


def signature(op: Operation, number: Number) -> Hashable:
    """Equal for ops without regions that compute the same."""
    operands = tuple(_ordered(op, [number(v) for v in operands_of(op)]))
    return type(op), _named(op), operands, tuple([number_of(r.type) for r in op.results])


@dataclass
class Numbering:
    """Numbers values so that equal numbers compute the same from the values around them. Arguments
    of a body are numbered by the depth of bodies nested in it, so that equal bodies have equal
    numbers wherever they stand."""

    numbers: dict[SSAValue, Hashable] = field(default_factory=dict[SSAValue, Hashable])
    keys: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    heights: dict[Operation, int] = field(default_factory=dict[Operation, int])

    def of(self, value: SSAValue) -> Hashable:
        return self.numbers.get(value, value)

    def height(self, op: Operation) -> int:
        """Return how deep bodies are nested in the op."""
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
        """Number the results of an op whose bodies are numbered; returns the op's number."""
        bodies = tuple(self.body(b) for r in op.regions for b in r.blocks)
        key = self.keys.setdefault((signature(op, self.of), bodies), len(self.keys))
        self.numbers.update((r, (key, i)) for i, r in enumerate(op.results))
        return key

    def body(self, block: Block) -> Hashable:
        last = block.last_op
        end = None if last is None else signature(last, self.of)
        return tuple(block.arg_types), end

    def visit(self, op: Operation) -> Hashable:
        self.enter(op)
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    self.visit(inner)
        return self.leave(op)


# ---- sharing ---------------------------------------------------------------------------------


@dataclass
class Sharing:
    """The available ops: those whose block is `open`, so that they dominate the current one."""

    numbering: Numbering = field(default_factory=Numbering)
    open: set[Block] = field(default_factory=set[Block])
    last: dict[Hashable, Operation] = field(default_factory=dict[Hashable, Operation])  # by number
    shared: int = 0

    def find(self, op: Operation) -> Operation | None:
        """An available op that computes the same; without one `op` becomes available."""
        key = self.numbering.leave(op)
        same = self.last.get(key)
        if same is not None and same.parent in self.open:
            return same
        self.last[key] = op
        return None

    def block(self, block: Block) -> bool:
        """Share the ops of a block; whether all of them are pure."""
        self.open.add(block)
        all_pure = True
        op = block.first_op
        while op is not None:
            after = op.next_op
            pure = self.bodies(op) and is_pure(type(op))
            if pure and op.results and (same := self.find(op)) is not None:
                replace_op(op, same.results)
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


def share_common_subexpressions(block: Block) -> int:
    """Share the common subexpressions of a block that is isolated from above; returns how many ops
    were erased."""
    sharing = Sharing()
    sharing.block(block)
    return sharing.shared


class ShareCommonSubexpressionsPass(FunctionPass):
    """Compute common subexpressions once."""

    name = "share-common-subexpressions"

    def run(self, func: FuncOp) -> None:
        if shared := share_common_subexpressions(func.body.block):
            count(self.name, shared, shared)
