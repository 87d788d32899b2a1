"""Rotary position embedding recognized in the styles of exporters.

    %a, %b = halves of %x                             pairs are halves (NeoX, Llama), or
    %r = graph.concat -%b, %a                         neighbours (GPT-J): %a = x[0::2], %b = x[1::2]
    %y = %x * %cos + %r * %sin                        and %r = stack(-%b, %a) made flat again
or
    %y = graph.concat (%a * %c - %b * %s), (%b * %c + %a * %s)
becomes
    %y = graph.rotary_embedding %x, %cos, %sin

The first style has full tables, the second one number a pair. Full tables that are computed from
twice the same half (cos(concat(f, f))) become halves. The embedding of a part of the elements

    %y = graph.concat (graph.rotary_embedding %x[..., :r]), %x[..., r:]

is one op, too.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from ge.dialects import graph as g
from ge.dialects.graph.elementwise import Unary
from ge.dialects.support.types import DYNAMIC, numel, rank_of, set_type, shape_of
from ge.transforms.analysis.dimensions import Dimensions, Size
from ge.transforms.analysis.parts import Part, Range, part_of
from ge.transforms.analysis.polynomials import number_of
from ge.transforms.graph.composites.narrow_computation import NarrowComputation
from ge.transforms.rewriting import matching
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.matching import Match, Number, Op, Pattern, State, Value
from ge.transforms.rewriting.passes import FunctionPass, Relation, Ulps
from ge.transforms.rewriting.rules import Emit, Rule, Search, is_attached, substitute

# ---- parts of a value ------------------------------------------------------------------------


def last_part(value: SSAValue) -> Part | None:
    """The part of the last dimension of another value that a value is."""
    part = part_of(value)
    return part if part is not None and part.is_last else None


def is_half(part: Part, which: int) -> bool:
    """Return whether a part is the first or second half, or with step 2 the even or odd
    elements."""
    start, count, step = part.range.start, part.range.count, part.range.step
    first = which if step == 2 else which * count
    return start == first and shape_of(part.source)[-1] == 2 * count


def is_last(axis: int, value: SSAValue) -> bool:
    return rank_of(value) > 0 and axis in (-1, rank_of(value) - 1)


def half(value: SSAValue, which: int) -> SSAValue | None:
    """Return the value that this one is the first or second half of."""
    part = last_part(value)
    if part is None or part.range.step != 1 or not is_half(part, which):
        return None
    return part.source


def alternate(value: SSAValue, which: int, dimensions: Dimensions) -> SSAValue | None:
    """Return the value whose even or odd elements this one has: a slice with step 2, or one of
    pairs that a reshape makes."""
    part = last_part(value)
    if part is not None and part.range.step == 2 and part.range.start == which:
        return part.source if is_half(part, which) else None
    part = last_part(
        value.owner.input if isinstance(value.owner, g.SqueezeOp | g.ReshapeOp) else value
    )
    if part is None or part.range != Range(which, 1):
        return None
    pairs = part.source.owner
    if not isinstance(pairs, g.ReshapeOp) or shape_of(pairs.result)[-1] != 2:
        return None
    x, flat = dimensions.of(pairs.input), dimensions.of(pairs.result)[:-1]
    known = shape_of(pairs.input)[-1] != DYNAMIC
    return pairs.input if known and x[:-1] == flat[:-1] and flat == dimensions.of(value) else None


class Half(Pattern):
    """The first (0) or second (1) elements of the pairs of x."""

    def __init__(self, which: int, interleaved: bool, dimensions: Dimensions) -> None:
        self.which, self.interleaved, self.dimensions = which, interleaved, dimensions

    def find(self, operand: matching.Operand, state: State) -> Iterator[State]:
        if not isinstance(operand, SSAValue):
            return
        if self.interleaved:
            x = alternate(operand, self.which, self.dimensions)
        else:
            x = half(operand, self.which)
        if x is None:
            which = ("first", "second")[self.which]
            state.fail(operand.owner, "an operand does not have the %s elements of pairs", which)
        else:
            yield from state.bind("x", x, "the pairs are those of another value")


# ---- the styles ------------------------------------------------------------------------------

x, cos, sin = Value("x"), Value("cos"), Value("sin")


def negative(pattern: Pattern) -> Pattern:
    return Op(g.NegOp, pattern) | Op(g.MulOp, pattern, Number(-1.0))


class FindRotary(Rule):
    """Base of the styles; `full` tables have a number for each element, others one a pair."""

    name = "find-rotary-embedding"
    nearly = 5
    full: ClassVar[bool]

    def __init__(self, dimensions: Dimensions, interleaved: bool) -> None:
        self.dimensions, self.interleaved = dimensions, interleaved
        first, second = (Half(i, interleaved, dimensions) for i in (0, 1))
        self.pattern = self.build(first, second)

    @abstractmethod
    def build(self, first: Pattern, second: Pattern) -> Op:
        """The pattern of the rotated pairs (first, second), joined to one tensor."""

    def joined(self, first: Pattern, second: Pattern) -> Op:
        if not self.interleaved:
            return Op(g.ConcatOp, (first, second), where=joins_last)
        new = (g.ReshapeOp, g.UnsqueezeOp)
        parts = Op(new, first, ...), Op(new, second, ...)
        pairs = Op(g.ConcatOp, parts, where=joins_pairs, name="pairs")
        return Op(g.ReshapeOp, pairs, ...)

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        x, tables = match["x"], (match["cos"], match["sin"])
        size = shape_of(x)[-1] if self.full else shape_of(x)[-1] // 2
        if not self.dimensions.same(match.root.results[0], x):
            return None
        if self.interleaved:
            pairs = (*self.dimensions.of(x)[:-1], Size(shape_of(x)[-1] // 2), Size(2))
            if self.dimensions.of(match.op("pairs", g.ConcatOp).result) != pairs:
                return None
        if any(rank_of(t) == 0 or shape_of(t)[-1] != size for t in tables):
            return None
        params = {"interleaved": self.interleaved, "full_tables": self.full}
        return emit(g.RotaryEmbeddingOp, x, *tables, **params)


def joins_last(op: g.ConcatOp) -> bool:
    """The parts are joined along the last dimension."""
    return is_last(op.axis.value.data, op.result)


def joins_pairs(op: g.ConcatOp) -> bool:
    """The parts become pairs in a last dimension of 2."""
    return joins_last(op) and shape_of(op.result)[-1] == 2 and len(op.inputs) == 2


class FullTables(FindRotary):
    """x * cos + rotated * sin"""

    full = True

    def build(self, first: Pattern, second: Pattern) -> Op:
        rotated = self.joined(negative(second), first)
        return Op(g.AddOp, Op(g.MulOp, x, cos), Op(g.MulOp, rotated, sin))


class HalfTables(FindRotary):
    """(a * cos - b * sin, b * cos + a * sin) for the pairs (a, b)"""

    full = False

    def build(self, first: Pattern, second: Pattern) -> Op:
        a_cos, a_sin = Op(g.MulOp, first, cos), Op(g.MulOp, first, sin)
        b_cos, b_sin = Op(g.MulOp, second, cos), Op(g.MulOp, second, sin)
        turned = Op(g.MulOp, negative(second), sin)
        one = Op(g.SubOp, a_cos, b_sin) | Op(g.AddOp, a_cos, negative(b_sin) | turned)
        return self.joined(one, Op(g.AddOp, b_cos, a_sin))


class PartOfElements(Rule):
    """The embedding of the first elements, joined with the others"""

    name = "find-partial-rotary-embedding"
    pattern = Op(
        g.ConcatOp,
        (Op(g.RotaryEmbeddingOp, Value("front"), cos, sin, name="rotary"), Value("rest")),
        where=joins_last,
    )

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        front, rest = last_part(match["front"]), last_part(match["rest"])
        if front is None or rest is None or front.source is not rest.source:
            return None
        size, whole = front.range.count, shape_of(front.source)[-1]
        if front.range != Range(0, size) or rest.range != Range(size, whole - size):
            return None
        rotary = match.op("rotary", g.RotaryEmbeddingOp)
        table = shape_of(rotary.cos)[-1] * (1 if rotary.full_tables.value.data else 2)
        if table != size:
            return None
        params = {"interleaved": rotary.interleaved, "full_tables": rotary.full_tables}
        return emit(g.RotaryEmbeddingOp, front.source, match["cos"], match["sin"], **params)


# ---- tables ----------------------------------------------------------------------------------


class HalveTables(Search):
    """Compute tables that repeat a half from the half alone."""

    names = ("halve-rotary-tables",)
    ops = (g.RotaryEmbeddingOp,)

    def __init__(self) -> None:
        self.halves: dict[SSAValue, SSAValue | None] = {}

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, g.RotaryEmbeddingOp)
        if not op.full_tables.value.data or op.interleaved.value.data:
            return
        tables = [self.half(t, rewriter) for t in (op.cos, op.sin)]
        if None in tables:
            return
        new = g.RotaryEmbeddingOp.of(op.input, *tables, location=op.location)
        rewriter.insert(new)
        substitute(self.names[0], new, rewriter, op.result, new.result)

    def half(self, table: SSAValue, rewriter: PatternRewriter) -> SSAValue | None:
        """`make_half` of a table, once."""
        half = self.halves.get(table)
        if table not in self.halves or (half is not None and not is_attached(half)):
            self.halves[table] = half = self.make_half(table, rewriter)
        return half

    def make_half(self, table: SSAValue, rewriter: PatternRewriter) -> SSAValue | None:
        """The first half of a table whose second half is the same, by ops beside those that
        compute the table; None if that is not known."""
        op = table.owner
        if isinstance(op, g.ConcatOp):
            first, *rest = op.inputs
            return first if joins_last(op) and rest == [first] else None
        if isinstance(op, g.UnsqueezeOp):
            axes = op.ints("axes")
            if axes is None or any(is_last(a, table) for a in axes):
                return None
        elif isinstance(op, g.MulOp | g.DivOp):
            if number_of(op.rhs) is None or numel(shape_of(op.rhs)) > 1:
                return None
        elif not isinstance(op, Unary):
            return None
        inner = self.half(op.operands[0], rewriter)
        if inner is None:
            return None
        new = op.clone({op.operands[0]: inner})
        for result, t in zip(new.results, new.inferred(), strict=True):
            set_type(result, t)
        rewriter.insert(new, InsertPoint.before(op))
        return new.results[0]


class FindRotaryPass(FunctionPass):
    """Replace rotary position embedding that is written out by the graph op."""

    name = "find-rotary"
    RELATION: ClassVar[Relation] = Ulps()

    def run(self, func: FuncOp) -> None:
        dimensions = Dimensions(func.body)
        styles = [kind(dimensions, i) for kind in (FullTables, HalfTables) for i in (False, True)]
        rewrite(func.body, [*styles, PartOfElements(), HalveTables(), NarrowComputation()])
