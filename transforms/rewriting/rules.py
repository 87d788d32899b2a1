"""Rules: a pattern, and what its match becomes. What all rewrites of matches share is here: new
ops come before the root and carry the locations of all that they replace, matched ops that
nobody needs any more go at once (so that later rules see true use counts), and the rule is
counted and remarked.

    class FindSilu(Rule):
        name = "find-silu"
        pattern = Op(MulOp, Value("x"), Op(SigmoidOp, Value("x")))

        def replace(self, found: Match, emit: Emit) -> SSAValue | None:
            return emit(SiluOp, found["x"])
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from xdsl.ir import Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, is_refinement, set_type
from ge.runtime.data.arrays import dense, dtype_of, type_of
from ge.transforms.graph.infer_shapes import refine
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.counts import count, is_enabled
from ge.transforms.rewriting.driver import fuse_locations
from ge.transforms.rewriting.losses import loss_us
from ge.transforms.rewriting.matching import Match, Miss, Op

TensorOpT = TypeVar("TensorOpT", bound=TensorOp)


class Emit:
    """Makes the ops of a replacement, in order, before an op."""

    def __init__(self, rewriter: PatternRewriter, before: Operation, ops: Sequence[Operation]):
        self.rewriter, self.before = rewriter, before
        self.location = fuse_locations(reversed(ops))

    def op(self, kind: type[TensorOpT], *operands: Any, **params: Any) -> TensorOpT:
        """An op as by `TensorOp.of`, inserted."""
        new = kind.of(*operands, location=self.location, **params)
        self.rewriter.insert(new, InsertPoint.before(self.before))
        return new

    def __call__(self, kind: type[TensorOp], *operands: Any, **params: Any) -> SSAValue:
        """The result of an op as by `TensorOp.of`, inserted."""
        return self.op(kind, *operands, **params).results[0]

    def number(self, number: float, like: SSAValue, *shape: int) -> SSAValue:
        """A constant of the element type of a value that repeats a number."""
        array = np.full(shape, number).astype(dtype_of(element_type(like)))
        new = ConstantOp.make(dense(array), type_of(array))
        new.location = self.location
        self.rewriter.insert(new, InsertPoint.before(self.before))
        return new.result


def substitute(rewriter: PatternRewriter, old: SSAValue, new: SSAValue) -> None:
    """Use `new`, a result of a new op, for `old`, and erase what nobody uses any more."""
    if new.type != old.type and isinstance(new.owner, Operation):
        set_type(new, refine(old.type, new.type))
    rewriter.replace_all_uses_with(old, new)
    if isinstance(old.owner, Operation):
        erase_unused(rewriter, old.owner)


def erase_unused(rewriter: PatternRewriter, op: Operation) -> None:
    """Erase the op if nobody uses it, and of the ops before it those that only it used."""
    stack = [op]
    while stack:
        op = stack.pop()
        if op.parent is None or any(r.first_use is not None for r in op.results):
            continue
        owners = dict.fromkeys(o.owner for o in op.operands)
        rewriter.erase(op)
        stack.extend(o for o in owners if isinstance(o, TensorOp))


def is_there(value: SSAValue) -> bool:
    """Whether a value that was seen before is still part of the module."""
    owner = value.owner
    return isinstance(owner, Block) or owner.parent is not None


def done(rule: str, op: Operation) -> None:
    """Count and remark that a rule was carried out at an op."""
    count(rule)
    remarks.applied(rule, op)


class Search(RewritePattern, ABC):
    """Base of rules of all kinds: what finds something by more than a pattern says so itself."""

    names: ClassVar[tuple[str, ...]]
    """The names of what it finds, in counts, remarks and switches."""


class Rule(Search):
    """Base of the rules that replace the one result of a match's root."""

    name: ClassVar[str]
    """The rule's name in counts, remarks and switches."""

    pattern: Op

    nearly: ClassVar[int] = 1 << 30
    """How many ops must have matched for a miss to be remarked."""

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            cls.names = (cls.name,)

    @property
    def ops(self) -> tuple[type[Operation], ...]:
        """The classes of the root, for the dispatch by class."""
        return self.pattern.kinds

    @abstractmethod
    def replace(self, found: Match, emit: Emit) -> SSAValue | None:
        """Emit what the match becomes; None when it does not apply after all (nothing may have
        been emitted then)."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not is_enabled(self.name):
            return
        miss = Miss()
        found = self.pattern.match(op, miss)
        if found is None:
            if miss.depth >= self.nearly and remarks.wanted():
                remarks.missed(self.name, op, miss.why, loss_us(miss.ops))
            return
        new = self.replace(found, Emit(rewriter, op, found.ops))
        if new is None:
            count(self.name, applied=0)
            return
        assert is_refinement(new.type, op.results[0].type), f"{self.name} changes the type"
        done(self.name, op)
        substitute(rewriter, op.results[0], new)
