"""Rules: a pattern, and what its match becomes. New ops come before the root and carry the
locations of all that they replace, matched ops without users are erased at once (so that later
rules see true use counts), and the rule is counted and remarked.

    class FindSilu(Rule):
        name = "find-silu"
        pattern = Op(MulOp, Value("x"), Op(SigmoidOp, Value("x")))

        def replace(self, match: Match, emit: Emit) -> SSAValue | None:
            return emit(SiluOp, match["x"])

Remarks of the rules that find composites, and of user rules, say what a chance costs that is
missed, and saves that is taken:

    graph.exp, graph.add, graph.log     nearly softplus: three launches instead of one

The loss is the time of one launch for each op less that of one launch for all of them, by the cost
model of the function's target: an upper bound, as fusion may join the ops without the rule. (Fusion
rules know the launches, and compare those, see `fusion/merging.py`.)
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, TypeVar

from xdsl.ir import Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint

from ge.dialects.fused_op import Body
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.editing import fuse_locations
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import is_refinement, refine, set_type
from ge.dialects.targets.target import target_for
from ge.runtime.library.asking import launch_us
from ge.transforms.analysis.views import view_offsets
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.building import Make
from ge.transforms.rewriting.counts import allows, count
from ge.transforms.rewriting.driver import erase_dead
from ge.transforms.rewriting.matching import Match, Miss, Op

MOST_OPS = 64  # that `made_of` returns


def loss_us(ops: Iterable[Operation]) -> float | None:
    """Microseconds that one launch of the ops saves over a launch of each; None if no remarks are
    wanted, if a size is not known, and for ops that need no launch."""
    if not remarks.wanted():
        return None
    if not (members := in_order(ops)):
        return None
    target = target_for(_function(members[0]))
    single = [Body.of(op) for op in members if view_offsets(op) is None]
    times = [launch_us(b, target) for b in (body_of(members), *single)] if single else [None]
    known = [t for t in times if t is not None]
    return max(sum(known[1:]) - known[0], 0.0) if len(known) == len(times) else None


def gain_us(new: Iterable[Operation], old: Iterable[Operation]) -> float | None:
    """Return how many microseconds less launches of the new ops take than launches of the old ones,
    one for each op, on the target of the function that the old ones are in; None if a size is not
    known."""
    members = in_order(old)
    if not members:
        return None
    target = target_for(_function(members[0]))
    launches = [[op for op in ops if view_offsets(op) is None] for ops in (in_order(new), members)]
    times = [[launch_us(Body.of(op), target) for op in ops] for ops in launches]
    known = [[t for t in some if t is not None] for some in times]
    return sum(known[1]) - sum(known[0]) if known == times else None


def _function(op: Operation) -> Operation:
    """Return the outermost op around an op inside of the module: it records its target."""
    while (parent := op.parent_op()) is not None and parent.parent is not None:
        op = parent
    return op


def made_of(value: SSAValue, x: SSAValue) -> list[Operation]:
    """The ops, `MOST_OPS` at most, between x and a value computed from it."""
    todo, ops = [value], dict[Operation, None]()
    while todo and len(ops) < MOST_OPS:
        v = todo.pop()
        if v is not x and isinstance(op := v.owner, Operation) and op not in ops:
            ops[op] = None
            todo += op.operands
    return list(ops)


def in_order(ops: Iterable[Operation]) -> list[TensorOp]:
    """The ops that compute, definitions before users."""
    todo = [
        op for op in ops
        if isinstance(op, TensorOp) and not isinstance(op, ConstantOp) and not op.regions
    ]  # fmt: skip
    inside = set[Operation](todo)
    ordered: dict[TensorOp, None] = {}
    while todo:
        op = todo[-1]
        owners = (v.owner for v in op.operands)
        before = [o for o in owners if isinstance(o, TensorOp) and o in inside and o not in ordered]
        if before:
            todo += before
        else:
            ordered[op] = None
            todo.pop()
    return list(ordered)


def body_of(members: Sequence[TensorOp]) -> Body:
    inside = set[Operation](members)
    inputs = dict.fromkeys(v for op in members for v in op.operands if v.owner not in inside)
    results = (r for op in members for r in op.results)
    outputs = [r for r in results if any(u.operation not in inside for u in r.uses)]
    return Body(list(members), list(inputs), outputs)


OpT = TypeVar("OpT", bound=Operation)


class Emit(Make):
    """Inserts the ops of a replacement, in order, before an op; those that are held stay outside
    until that is asked for, so that a rule may look at them, and drop them."""

    def __init__(
        self,
        rewriter: PatternRewriter,
        before: Operation,
        replaced: Sequence[Operation],
        hold: bool = False,
    ):
        super().__init__(before, fuse_locations(reversed(replaced)))
        self.rewriter, self.place, self.replaced = rewriter, InsertPoint.before(before), replaced
        self.hold = hold

    def put(self, new: Operation) -> None:
        if self.hold:
            self.ops.append(new)
        else:
            self.rewriter.insert(new, self.place)

    def gain_us(self) -> float | None:
        """Return what the held ops save over those that they replace: see `gain_us`."""
        return gain_us(self.ops, self.replaced)

    def insert_held(self) -> None:
        for new in self.ops:
            self.rewriter.insert(new, self.place)


def substitute(
    rule: str,
    op: Operation,
    rewriter: PatternRewriter,
    old: SSAValue,
    new: SSAValue,
    gain_us: float | None = None,
) -> None:
    """Use `new`, a result of a new op, for `old`, and erase ops that are dead then; count the rule
    and remark it at `op`, with what it saves."""
    count(rule)
    remarks.applied(rule, op, gain_us=gain_us)
    if new.type != old.type and isinstance(new.owner, Operation):
        set_type(new, refine(old.type, new.type))
    rewriter.replace_all_uses_with(old, new)
    root = old.owner
    if not isinstance(root, Operation) or root.parent is None:
        return
    if all(r.first_use is None for r in root.results):
        before = [v.owner for v in root.operands]
        rewriter.erase(root)
        erase_dead(dict.fromkeys(before), rewriter)


def is_attached(value: SSAValue) -> bool:
    """Return whether a value is still part of the module."""
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
            emit.discard()
            count(self.name, applied=0)
            return
        emit.insert_held()
        if not is_refinement(new.type, old := op.results[0].type):
            text = f"rule {self.name} replaces {old} by {new.type}"
            raise GeError(text, str(location_of(op)))
        substitute(self.name, op, rewriter, op.results[0], new, gain)
