"""Pattern rewriting to a fixpoint, on xDSL's walker: what ge's passes use.

`rewrite(module, patterns)` differs from a plain `PatternRewriteWalker` in five ways: new ops get
the location of what they replace, an op tries only the patterns for its class and for the classes
of the ops that define its operands, disabled rules are left out, a pattern that does not converge
is an error, and the number of rewrites by pattern is returned.

A pattern is a RewritePattern whose `match_and_rewrite` is decorated with `op_type_rewrite_pattern`
(the annotation says for which ops it is), or that states `ops = (AddOp, SubOp)` in its class. With
`below = (CastOp,)` it is for ops alone that have a result of such an op as an operand. Patterns
are tried in their order, those with a greater `benefit` (1 if not stated) before others.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from types import UnionType
from typing import Union, cast, get_args, get_origin

from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.ir import Block, Operation, OpResult, Region
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriterListener,
    PatternRewriteWalker,
    RewritePattern,
)
from xdsl.traits import is_side_effect_free

from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.editing import fuse_locations
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import all_ops, operands_of
from ge.dialects.support.types import NotStatic
from ge.transforms.rewriting.counts import allows, is_counting, is_enabled

REWRITES_PER_OP = 100  # more rewrites than this for each op of the input are an endless loop


def op_classes(pattern: RewritePattern) -> tuple[type[Operation], ...]:
    """The op classes that a pattern is for; `(Operation,)` if it does not say."""
    stated = getattr(pattern, "ops", None)
    if stated is not None:
        return tuple(stated)
    function = getattr(type(pattern).match_and_rewrite, "__wrapped__", None)
    function = function or type(pattern).match_and_rewrite
    names, cells = function.__code__.co_freevars, function.__closure__ or ()
    captured = dict(zip(names, cells, strict=True))
    if "expected_type" not in captured:  # not made by op_type_rewrite_pattern
        return (Operation,)
    expected = captured["expected_type"].cell_contents
    if get_origin(expected) in (Union, UnionType):
        return get_args(expected)
    return (cast(type[Operation], expected),)


class _Failure(BaseException):
    """Carries an exception of a pattern past the walker, which would print the whole module."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Table:
    """The patterns for an op, by its class and those of the ops that define its operands."""

    def __init__(self, patterns: Sequence[RewritePattern]) -> None:
        first = sorted(patterns, key=lambda p: -getattr(p, "benefit", 1))
        self.patterns = [(p, op_classes(p), getattr(p, "below", ())) for p in first]
        self.known: dict[Hashable, list[RewritePattern]] = {}

    def of(self, op: Operation) -> list[RewritePattern]:
        kind = type(op)
        if (found := self.known.get(kind)) is None:
            below = frozenset([type(v.op) for v in operands_of(op) if type(v) is OpResult])
            if (found := self.known.get((kind, below))) is None:
                found = self.looked_up(kind, below)
        return found

    def looked_up(
        self, kind: type[Operation], below: frozenset[type[Operation]]
    ) -> list[RewritePattern]:
        """The patterns, which are known from now on: by the class alone, where none of them asks
        for more."""
        mine = [(p, needed) for p, classes, needed in self.patterns if issubclass(kind, classes)]
        found = [p for p, n in mine if not n or any(issubclass(k, n) for k in below)]
        found += self.own_patterns(kind)
        self.known[(kind, below) if any(n for _, n in mine) else kind] = found
        return found

    def own_patterns(self, kind: type[Operation]) -> Sequence[RewritePattern]:
        """Patterns that come with an op class."""
        return ()


class _Dispatcher(RewritePattern):
    """Tries the patterns for an op in order, until one rewrites."""

    def __init__(self, table: Table) -> None:
        self.patterns_for = table.of
        self.counts: Counter[type[RewritePattern]] = Counter()
        self.counted = is_counting()
        self.limit = 0  # rewrites that may follow; set by the walker
        self.inserted: list[Operation] = []
        self.removed: list[Operation] = []

    def listener(self) -> PatternRewriterListener:
        return PatternRewriterListener(
            operation_insertion_handler=[self.inserted.append],
            operation_removal_handler=[self.removed.append],
        )

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        for pattern in self.patterns_for(op):
            if self.counted and not may_try(pattern, op):
                continue
            try:
                pattern.match_and_rewrite(op, rewriter)
            except NotStatic:
                pass  # the pattern looks at shapes that are not known: it does not match
            except Exception as e:
                raise _Failure(e) from None
            if rewriter.has_done_action:
                self.note_rewrite(pattern, op)
                return

    def note_rewrite(self, pattern: RewritePattern, op: Operation) -> None:
        self.set_locations(op)
        self.counts[type(pattern)] += 1
        self.limit -= 1
        if self.limit < 0:
            name, times = type(pattern).__name__, self.counts[type(pattern)]
            raise _Failure(
                GeError(
                    f"rewriting does not end: pattern {name} was applied {times} times, "
                    f"at last to '{op.name}'",
                    str(location_of(op)),
                )
            )

    def set_locations(self, op: Operation) -> None:
        """Give new ops without location that of the removed ops, else that of the matched one."""
        new = [o for top in self.inserted for o in top.walk() if isinstance(o.location, UnknownLoc)]
        if new:
            location = fuse_locations(self.removed or [op])
            for o in new:
                o.location = location
        self.inserted.clear()
        self.removed.clear()


def erase_dead(owners: Iterable[Operation | Block], rewriter: PatternRewriter) -> list[Operation]:
    """Erase those of some ops without uses and side effects, and ops that only these used; returns
    what was erased."""
    todo, erased = list(owners), list[Operation]()
    while todo:
        op = todo.pop()
        if not isinstance(op, Operation) or op.parent is None or not is_side_effect_free(op):
            continue
        if all(r.first_use is None for r in op.results):
            todo += [v.owner for v in op.operands]
            erased.append(op)
            rewriter.erase(op)
    return erased


def may_try(pattern: RewritePattern, op: Operation) -> bool:
    """Return whether debug counters let a pattern be tried. A pattern that asks them itself, where
    it matches, is always tried; each try of another counts as one application."""
    return getattr(pattern, "ASKS", False) or allows(type(pattern).__name__, op)


def is_settled(patterns: Sequence[RewritePattern]) -> bool:
    """Return whether patterns match nothing before others have rewritten something."""
    return all([getattr(p, "is_settled", False) for p in patterns])


class _Walker(PatternRewriteWalker):
    """Visits only ops of classes that patterns are for."""

    def __init__(self, dispatcher: _Dispatcher) -> None:
        super().__init__(dispatcher, listener=dispatcher.listener())
        self.dispatcher = dispatcher

    def _populate_worklist(self, op: Operation | Region | Block) -> None:
        size, dispatcher = 0, self.dispatcher
        blocks = op.blocks if isinstance(op, Region) else ()
        ops = reversed(all_ops(blocks)) if blocks else op.walk(reverse=True, region_first=True)
        settled: dict[int, bool] = {}  # by the list of patterns, which their table keeps
        for size, inner in enumerate(ops, 1):
            if not (patterns := dispatcher.patterns_for(inner)):
                continue
            if (rests := settled.get(id(patterns))) is None:
                rests = not dispatcher.counts and is_settled(patterns)
                settled[id(patterns)] = rests
            if not rests:
                self._worklist.push(inner)
        if not dispatcher.counts:
            dispatcher.limit = REWRITES_PER_OP * (size + 10)


def enabled(patterns: Iterable[RewritePattern]) -> list[RewritePattern]:
    """Return the patterns without those whose rules are all disabled."""
    return [p for p in patterns if not (n := getattr(p, "names", ())) or any(map(is_enabled, n))]


def rewrite(
    scope: ModuleOp | Region, patterns: Sequence[RewritePattern] | Table
) -> Counter[type[RewritePattern]]:
    """Apply the patterns, without those whose rules are all disabled (a table has none of these),
    to all ops below `scope` until none matches; returns the number of rewrites by pattern class.

    Raises GeError if the rewriting does not end, and what a pattern raises."""
    table = patterns if isinstance(patterns, Table) else Table(enabled(patterns))
    dispatcher = _Dispatcher(table)
    try:
        _Walker(dispatcher).rewrite_region(scope.body if isinstance(scope, ModuleOp) else scope)
    except _Failure as failure:
        raise failure.error from None
    return dispatcher.counts
