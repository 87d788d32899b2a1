"""Rules: a pattern, and what its match becomes. New ops come before the root and carry the
locations of all that they replace, matched ops without users are erased at once (so that later
rules see true use counts), and the rule is counted and remarked.

    class FindSilu(Rule):
        name = "find-silu"
        pattern = Op(MulOp, Value("x"), Op(SigmoidOp, Value("x")))

        def replace(self, match: Match, emit: Emit) -> SSAValue | None:
            return emit(SiluOp, match["x"])
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from xdsl.ir import Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint
from xdsl.traits import is_side_effect_free

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.editing import fuse_locations
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, is_refinement, refine, set_type
from ge.runtime.data.arrays import Array, dense, dtype_of, type_of
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.counts import count
from ge.transforms.rewriting.debug_counters import allows
from ge.transforms.rewriting.losses import gain_us, loss_us
from ge.transforms.rewriting.matching import Match, Miss, Op

OpT = TypeVar("OpT", bound=Operation)


class Emit:
    """Inserts the ops of a replacement, in order, before an op; those that are held stay outside
    until that is asked for, so that a rule may look at them, and drop them."""

    def __init__(
        self,
        rewriter: PatternRewriter,
        before: Operation,
        ops: Sequence[Operation],
        hold: bool = False,
    ):
        self.rewriter, self.before, self.replaced = rewriter, before, ops
        self.location = fuse_locations(reversed(ops))
        self.held: list[Operation] | None = [] if hold else None

    def add(self, new: OpT) -> OpT:
        """Insert an op; returns it."""
        new.location = self.location
        if self.held is None:
            self.rewriter.insert(new, InsertPoint.before(self.before))
        else:
            self.held.append(new)
        return new

    def op(self, kind: type[OpT], /, *operands: Any, **params: Any) -> OpT:
        make = kind.of if issubclass(kind, TensorOp) else kind  # of infers types of results
        return self.add(make(*operands, **params))

    def __call__(self, kind: type[Operation], /, *operands: Any, **params: Any) -> SSAValue:
        """Insert `kind.of(...)`, of another dialect `kind(...)`; returns its first result."""
        return self.op(kind, *operands, **params).results[0]

    def gain_us(self) -> float | None:
        """Returns what the held ops save over those that they replace: see `losses.gain_us`."""
        return gain_us(self.held or (), self.replaced)

    def insert_held(self) -> None:
        for new in self.held or ():
            self.rewriter.insert(new, InsertPoint.before(self.before))

    def drop_held(self) -> None:
        for new in reversed(self.held or ()):
            new.erase()

    def number(self, number: float, like: SSAValue, *shape: int) -> SSAValue:
        """A splat constant of the element type of `like`."""
        return self.constant(np.full(shape, number).astype(dtype_of(element_type(like))))

    def constant(self, array: Array) -> SSAValue:
        return self.add(ConstantOp.make(dense(array), type_of(array))).result


def substitute(
    rule: str,
    op: Operation,
    rewriter: PatternRewriter,
    old: SSAValue,
    new: SSAValue,
    gain_us: float | None = None,
) -> None:
    """Use `new`, a result of a new op, for `old`, and erase what is dead then; count the rule and
    remark it at `op`, with what it saves."""
    count(rule)
    remarks.applied(rule, op, gain_us=gain_us)
    if new.type != old.type and isinstance(new.owner, Operation):
        set_type(new, refine(old.type, new.type))
    rewriter.replace_all_uses_with(old, new)
    stack = [old.owner]
    while stack:
        dead = stack.pop()
        if not isinstance(dead, Operation) or dead.parent is None:
            continue
        if all(r.first_use is None for r in dead.results):
            owners = dict.fromkeys(o.owner for o in dead.operands)
            stack.extend(o for o in owners if isinstance(o, Operation) and is_side_effect_free(o))
            rewriter.erase(dead)


def is_attached(value: SSAValue) -> bool:
    """Whether a value is still part of the module."""
    owner = value.owner
    return isinstance(owner, Block) or owner.parent is not None


class Search(RewritePattern, ABC):
    """Base of rules that search by more than a pattern: they count and remark themselves."""

    names: ClassVar[tuple[str, ...]] = ()  # in counts, remarks and `disable`
    benefit: ClassVar[int] = 1  # of two patterns for an op that with more is tried first
    ASKS: ClassVar[bool] = False  # whether it asks debug counters itself, where it matches


class Rule(Search):
    """Base of the rules that replace the one result of a match's root."""

    ASKS: ClassVar[bool] = True

    name: ClassVar[str]
    pattern: Op
    nearly: ClassVar[int] = 1 << 30  # how many ops must have matched for a miss to be remarked

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            cls.names = (cls.name,)

    @property
    def ops(self) -> tuple[type[Operation], ...]:
        return self.pattern.kinds

    @abstractmethod
    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        """Emit what the match becomes; None if it does not apply after all: what has been emitted
        is dropped."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not remarks.wanted() and self.pattern.rejects(op):
            return
        match = self.pattern.match(op, miss := Miss())
        if match is None:
            if miss.depth >= self.nearly and remarks.wanted():
                remarks.missed(self.name, op, miss.why, loss_us(miss.ops))
            return
        if not allows(self.name, op):
            return
        # rules that tell of near misses make one op, and one launch, of several
        gain = loss_us(match.ops) if self.nearly <= len(match.ops) else None
        emit = Emit(rewriter, op, match.ops, hold=True)
        new = self.replace(match, emit)
        if new is None:
            emit.drop_held()
            count(self.name, applied=0)
            return
        emit.insert_held()
        if not is_refinement(new.type, old := op.results[0].type):
            text = f"rule {self.name} replaces {old} by {new.type}"
            raise GeError(text, str(location_of(op)))
        substitute(self.name, op, rewriter, op.results[0], new, gain)
