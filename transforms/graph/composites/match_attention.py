"""Attention recognized in matmuls and softmax.

    %t = graph.transpose %k                              [B, H, S, D] -> [B, H, D, S]
    %s = graph.matmul (%q * c), (%t * c)
    %m = graph.add %s, %mask
    %p = graph.softmax %m
    %g = graph.select (graph.is_nan %p), 0, %p
    %y = graph.matmul %g, %v
becomes
    %y = graph.attention %q, %k, %v mask %mask scale c * c undefined guard

The search starts at a softmax over the last dimension. Before it the scores may be, in any order
that the op has, multiplied by numbers, capped (c tanh(s / c)), added to masks and replaced by a
number where a boolean mask says so; after it the weights may be replaced by 0 where they are nan.
Casts to f32 around softmax are what the op does anyway. Reshapes that split and join batch and
heads may stand between. The second matmul may have both sides transposed, V^T P^T = (P V)^T, as
where channels come before tokens.

Rows that are masked as a whole keep their weights: equal ones for a mask that adds a large negative
number, nan for one of -inf, 0 with the guard (see graph.attention). If sizes are known only at run
time, a mask is assumed to broadcast to the scores and not the other way round, and batches to be
equal; the op refuses all others.

Scores and weights may be rounded to a grid, by a quantize and a dequantize after it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import frexp, inf
from typing import ClassVar, cast

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, f64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ge.dialects import graph as g
from ge.dialects.graph.attention import KEYS
from ge.dialects.support.element_types import bitwidth, is_float
from ge.dialects.support.types import array_ints, element_type, numel, rank_of, shape_of
from ge.transforms.analysis.dimensions import ONE, Dimensions, Size, Sizes, volume
from ge.transforms.analysis.parts import last_swapped
from ge.transforms.analysis.polynomials import number_of
from ge.transforms.graph.composites.absorb_attention_layout import is_empty, target_of
from ge.transforms.graph.composites.narrow_computation import before_widening
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.passes import FunctionPass, Relation, Ulps
from ge.transforms.rewriting.rules import Emit, Search, loss_us, substitute


@dataclass(frozen=True)
class IntegerGrid:
    """Scale and zero point of the integers of type `to` between a value and what it becomes."""

    source: SSAValue
    scale: float
    zero: int
    to: IntegerType

    @staticmethod
    def of(op: g.DequantizeOp) -> "IntegerGrid | None":
        """Return the grid of an op; None if it is no quantize and dequantize by the same two
        numbers."""
        before = op.input.owner
        if not isinstance(before, g.QuantizeOp) or not op.input.has_one_use():
            return None
        scales, zeros = zip(*(numbers_of(o) for o in (before, op)), strict=True)
        scale, zero = scales[0], zeros[0]
        if None in (scale, zero) or scales[0] != scales[1] or zeros[0] != zeros[1]:
            return None
        if scale is None or not 0 < scale < inf or before.input.type != op.result.type:
            return None
        integers = before.to
        if not isinstance(integers, IntegerType):
            return None
        return IntegerGrid(before.input, scale, int(zero or 0), cast(IntegerType, integers))

    def params(self, name: str, factor: float = 1.0) -> dict[str, Attribute]:
        scale, zero = FloatAttr(self.scale * factor, f64), IntegerAttr(self.zero, self.to)
        return {f"{name}_scale": scale, f"{name}_zero_point": zero}


def numbers_of(op: g.Granular) -> tuple[float | None, float | None]:
    """Scale and zero point, None where it is no number that is known."""
    scale, zero = op.scale, op.zero_point
    single = numel(shape_of(scale)) == 1 and not op.block_size.value.data
    return number_of(scale) if single else None, 0.0 if zero is None else number_of(zero)


def dequantized_again(op: g.QuantizeOp) -> g.DequantizeOp | None:
    """The only user of a quantize, if that is a dequantize."""
    use = op.result.first_use
    after = None if use is None or not op.result.has_one_use() else use.operation
    return after if isinstance(after, g.DequantizeOp) else None


MOST_STEPS = 12  # ops between a matmul and the softmax

RULE = "find-attention"


@dataclass(frozen=True)
class Mask:
    """A mask of the scores: added to them by `op`, or boolean, of the scores that stay (if
    `inverted`, of those that do not)."""

    value: SSAValue
    op: Operation
    inverted: bool = False


@dataclass(frozen=True)
class MatchedScores:
    """The way from a matmul of query and transposed key to scores. `ops` are those on the way, the
    last one first; without a matmul `why` says where the search ended."""

    matmul: g.MatmulOp | None = None
    scale: float = 1.0
    softcap: float = 0.0
    masks: tuple[Mask, ...] = ()
    fill: float | None = None
    grid: IntegerGrid | None = None
    ops: tuple[Operation, ...] = ()
    why: str = ""

    def ended(self, op: Operation, why: str) -> "MatchedScores":
        return replace(self, why=f"{op.name} {why}")


class ScoresSearch:
    """Goes up from the input of a softmax to the matmul."""

    def __init__(self, dimensions: Dimensions, quantized: bool) -> None:
        self.dimensions, self.quantized = dimensions, quantized

    def search(self, value: SSAValue, scores: MatchedScores) -> MatchedScores:
        op = value.owner
        if not isinstance(op, Operation) or len(scores.ops) == MOST_STEPS:
            return replace(scores, why="scores are no matmul")
        if not value.has_one_use():
            return scores.ended(op, "is used elsewhere too")
        if scores.ops and op.parent is not scores.ops[0].parent:
            return scores.ended(op, "is in another block")
        scores = replace(scores, ops=(*scores.ops, op))
        match op:
            case g.MatmulOp(to=None):
                return replace(scores, matmul=op)
            case g.CastOp() if is_float(element_type(op.input)):
                return self.search(op.input, scores)
            case g.ReshapeOp() | g.SqueezeOp() | g.UnsqueezeOp() if self.keeps_rows(
                op.input, value
            ):
                return self.search(op.input, scores)
            case g.MulOp() | g.DivOp():
                return self.scaled(op, scores)
            case g.TanhOp() if scores.softcap == 0 and scores.scale > 0 and not scores.grid:
                return self.search(op.input, replace(scores, softcap=scores.scale))
            case g.AddOp() | g.SelectOp():
                return self.masked(op, scores)
            case g.DequantizeOp() if self.quantized:
                return self.on_grid(op, scores)
            case _:
                return scores.ended(op, "is no part of attention")

    def keeps_rows(self, a: SSAValue, b: SSAValue) -> bool:
        """Return whether a reshape leaves the dimensions of queries and keys unchanged."""
        return self.dimensions.of(a)[-2:] == self.dimensions.of(b)[-2:] and rank_of(a) > 1

    def scaled(self, op: g.MulOp | g.DivOp, scores: MatchedScores) -> MatchedScores:
        for value, factor in op.sides():
            number = number_of(factor)
            if not number or numel(shape_of(factor)) > 1 or rank_of(factor) > rank_of(value):
                continue
            number = number if isinstance(op, g.MulOp) else 1 / number
            return self.search(value, replace(scores, scale=scores.scale * number))
        return scores.ended(op, "is by more than a number")

    def on_grid(self, op: g.DequantizeOp, scores: MatchedScores) -> MatchedScores:
        grid = IntegerGrid.of(op)
        if grid is None or not grid.source.has_one_use():
            return scores.ended(op, "has no scale and zero point of its own that are known")
        if scores.grid or scores.softcap or frexp(scores.scale)[0] != 0.5:
            return scores.ended(op, "is followed by more than masks and a power of two")
        grid = replace(grid, scale=grid.scale * scores.scale)
        return self.search(grid.source, replace(scores, grid=grid))

    def masked(self, op: g.AddOp | g.SelectOp, scores: MatchedScores) -> MatchedScores:
        if scores.grid:
            return scores.ended(op, "masks scores that are quantized after it")
        if scores.scale != 1 or scores.softcap:
            return scores.ended(op, "masks scores that are scaled after it")
        result = scores.ended(op, "has no scores of its result's shape")
        for value, mask, fill in self.choices(op):
            if fill not in (None, scores.fill) and scores.fill is not None:
                why = f"fills in {fill:g} where another mask has {scores.fill:g}"
                result = scores.ended(op, why)
            elif value.type == op.results[0].type:
                fill = scores.fill if fill is None else fill
                more = replace(scores, masks=(mask, *scores.masks), fill=fill)
                result = self.search(value, more)
                if result.matmul is not None:
                    break
        return result

    def choices(self, op: g.AddOp | g.SelectOp) -> Iterator[tuple[SSAValue, Mask, float | None]]:
        """Yield the scores that a mask may be applied to, the mask, and the number that it fills
        in."""
        if isinstance(op, g.AddOp):
            yield from ((value, Mask(mask, op), None) for value, mask in op.sides())
            return
        for value, other in ((op.on_true, op.on_false), (op.on_false, op.on_true)):
            number = number_of(other)
            if number is not None and numel(shape_of(other)) == 1:
                yield value, Mask(op.condition, op, inverted=value is op.on_false), number


@dataclass(frozen=True)
class Weights:
    """The ops between a softmax and the matmul with the values, the last one first."""

    matmul: g.MatmulOp | None = None
    transposed: bool = False  # whether the matmul is V^T P^T = (P V)^T
    undefined: str = "nan"
    grid: IntegerGrid | None = None
    ops: tuple[Operation, ...] = ()
    why: str = ""


def guarded(value: SSAValue) -> g.SelectOp | None:
    """select(is_nan(value), 0, value), if nothing else uses the value."""
    users = [use.operation for use in value.uses]
    selects = [u for u in users if isinstance(u, g.SelectOp)]
    tests = [u for u in users if isinstance(u, g.IsNanOp)]
    if len(users) != 2 or not selects or not tests or not tests[0].result.has_one_use():
        return None
    (select,), (test,) = selects, tests
    zero = number_of(select.on_true) == 0 and numel(shape_of(select.on_true)) == 1
    return select if zero and select.condition is test.result and select.on_false is value else None


def keeps_weights(op: Operation, index: int, dimensions: Dimensions) -> bool:
    """Return whether an op on the weights, its operand `index`, leaves the last two dimensions."""
    if isinstance(op, g.CastOp):
        return is_float(op.to)
    if not isinstance(op, g.View) or index:
        return False
    return dimensions.of(op.input)[-2:] == dimensions.of(op.results[0])[-2:]


def find_weights(softmax: g.SoftmaxOp, dimensions: Dimensions, quantized: bool) -> Weights:
    """Go down from a softmax to the matmul with the values."""
    value, weights = softmax.result, Weights()
    for _ in range(MOST_STEPS):
        guard = guarded(value)
        if guard is None and not value.has_one_use():
            return replace(weights, why="the weights are used elsewhere too")
        use = value.first_use
        assert use is not None
        op = use.operation if guard is None else guard
        if op.parent is not softmax.parent:
            break
        if quantized and isinstance(op, g.QuantizeOp):
            after = dequantized_again(op)
            grid = None if after is None or weights.grid else IntegerGrid.of(after)
            if after is None or grid is None:
                why = "the weights are not dequantized by one number that they were quantized by"
                return replace(weights, ops=(op, *weights.ops), why=why)
            value, weights = after.result, replace(weights, grid=grid, ops=(after, *weights.ops))
            continue
        weights = replace(weights, ops=(op, *weights.ops))
        if guard is not None:
            weights = replace(weights, undefined="guard")
        elif isinstance(op, g.MatmulOp) and op.to is None:
            flag = op.transpose_rhs if use.index else op.transpose_lhs
            if (bool(flag.value.data) != weights.transposed) == (use.index == 1):
                return replace(weights, matmul=op, transposed=use.index == 1)
            break
        elif weights.transposed:
            break
        elif isinstance(op, g.TransposeOp) and array_ints(op.permutation) == last_swapped(
            rank_of(value)
        ):
            weights = replace(weights, transposed=True)
        elif not keeps_weights(op, use.index, dimensions):
            break
        value = op.results[0]
    return replace(weights, why="the weights are not multiplied by values")


# ---- from both sides to the op ---------------------------------------------------------------


class NotAttention(Exception):
    """Raised with the reason why two matmuls and a softmax are not attention."""


@dataclass
class AttentionBuilder:
    """Builds the op from the matmuls `first` and `last`, or raises NotAttention."""

    dimensions: Dimensions
    scores: MatchedScores
    weights: Weights
    first: g.MatmulOp
    last: g.MatmulOp
    emit: Emit

    def sizes(self, value: SSAValue) -> Sizes:
        return self.dimensions.of(value)

    def levels(self) -> dict[Operation, Sizes]:
        """The sizes of the scores and weights after each op from `first` to `last`: masks and
        softmax keep them."""
        current = self.sizes(self.first.result)
        levels: dict[Operation, Sizes] = {self.first: current}
        for op in (*self.scores.ops[-2::-1], *self.weights.ops[:0:-1]):
            current = self.sizes(op.results[0]) if isinstance(op, g.View) else current
            levels[op] = current
        size = self.sizes(self.last.result)[-2 if self.weights.transposed else -1]
        levels[self.last] = (*current[:-1], size)
        return levels

    def batch_and_heads(self, levels: dict[Operation, Sizes]) -> tuple[Size, Size]:
        """The volume of the dimensions before the last two as batch and heads, which the first of
        the values with four dimensions tells apart."""
        first = self.first
        ahead = levels[first][:-2]
        if len(ahead) == 2:
            return ahead[0], ahead[1]
        candidates = list(levels.values())
        if isinstance(first.lhs.owner, g.ReshapeOp):
            candidates.append(self.sizes(first.lhs.owner.input))
        for sizes in candidates:
            if len(sizes) == 4 and volume(sizes[:2]) == volume(ahead):
                return sizes[0], sizes[1]
        return (volume(ahead[:-1]), ahead[-1]) if len(ahead) > 1 else (volume(ahead), ONE)

    def viewed(self, value: SSAValue, sizes: Sizes) -> SSAValue:
        actual = self.sizes(value)
        if actual == sizes:
            return value
        target = target_of(sizes, actual)
        if target is None or volume(actual) != volume(sizes):
            raise NotAttention("batch and heads are not told apart")
        return self.emit(g.ReshapeOp, value, shape=target, allow_zero=is_empty(sizes))

    def operand_sizes(
        self, value: SSAValue, transposed: bool, batch: Size, heads: Size
    ) -> tuple[Sizes, Sizes]:
        """The sizes of an operand of a matmul, not transposed, and those that it has as
        [B, H, tokens, size]; one head may stand for all."""
        sizes = self.sizes(value)
        if transposed:
            sizes = (*sizes[:-2], sizes[-1], sizes[-2])
        wanted = (batch, heads, *sizes[-2:])
        if len(sizes) == 4 and may_equal(sizes[0], batch):
            if sizes[1] == ONE or may_equal(sizes[1], heads):
                wanted = sizes
        if wanted is not sizes and volume(sizes) != volume(wanted):
            raise NotAttention("a batch is broadcast")
        return sizes, wanted

    def operand(self, value: SSAValue, transposed: bool, batch: Size, heads: Size) -> SSAValue:
        sizes, wanted = self.operand_sizes(value, transposed, batch, heads)
        if transposed:
            value = self.emit(g.TransposeOp, value, permutation=last_swapped(len(sizes)))
        return self.viewed(value, wanted)

    def mask(self, mask: Mask, level: Sizes, batch: Size, heads: Size) -> SSAValue:
        """A mask of scores of the sizes `level` in a shape that broadcasts to [B, H, Q, S]."""
        value, sizes = mask.value, self.sizes(mask.value)
        padded = (*(ONE,) * (len(level) - len(sizes)), *sizes)
        ahead, tail = padded[:-2], padded[-2:]
        plain = all(s == ONE for s in ahead)
        if (plain and len(sizes) > 4) or (not plain and level[:-2] != (batch, heads)):
            value = self.viewed(value, (*realigned(ahead, level[:-2], batch, heads), *tail))
        return self.emit(g.NotOp, value) if mask.inverted else value

    def check_types(self, element: Attribute) -> None:
        """Check element types. Scores and weights may be of a wider one than the result, as they
        are computed in one anyway; the op does not round them to another one."""
        for op in (*self.weights.ops, *self.scores.ops):
            t = element_type(op.results[0])
            if t != element and bitwidth(t) <= bitwidth(element):
                raise NotAttention(f"{op.name} has results of another, no wider element type")

    def grids(self) -> dict[str, Attribute]:
        found = (("score", self.scores.grid), ("weight", self.weights.grid))
        return {n: a for name, grid in found if grid for n, a in grid.params(name).items()}

    def build(self) -> SSAValue:
        """Emit the value that replaces the result of `last`."""
        first, last = self.first, self.last
        levels = self.levels()
        batch, heads = self.batch_and_heads(levels)
        flags = first.transpose_lhs, first.transpose_rhs, last.transpose_lhs, last.transpose_rhs
        turn_query, turn_key, turn_lhs, turn_rhs = (bool(f.value.data) for f in flags)
        value, turn_value = last.rhs, turn_rhs
        if self.weights.transposed:
            value, turn_value = last.lhs, not turn_lhs
        query, key = narrowed_like(last.result, first.lhs, first.rhs)
        for operand in (query, key, value):
            if element_type(operand) != element_type(last.result):
                raise NotAttention("matmuls are of different element types")
        self.check_types(element_type(last.result))
        operands = (query, turn_query), (key, not turn_key), (value, turn_value)
        q, k, v = (self.operand_sizes(*o, batch, heads)[1][1] for o in operands)
        if k != v or (q == ONE and heads != ONE):
            raise NotAttention("a head of the query or of the value is broadcast")
        query = self.operand(query, turn_query, batch, heads)
        key = self.operand(key, not turn_key, batch, heads)
        value = self.operand(value, turn_value, batch, heads)
        masks = [self.mask(m, levels[m.op], batch, heads) for m in self.scores.masks]
        sizes = (batch, heads, levels[last][-2], levels[last][-1])
        keys = levels[first][-1].number
        if self.weights.grid and (keys is None or keys > KEYS):
            raise NotAttention(f"weights are quantized, and their keys are not at most {KEYS}")
        back = target_of(levels[last], sizes)
        if back is None:
            raise NotAttention("batch and heads are not told apart")
        fill = -inf if self.scores.fill is None else self.scores.fill
        result = self.emit(
            g.AttentionOp, query, key, value, masks,
            scale=self.scores.scale, softcap=self.scores.softcap, fill=fill,
            undefined=self.weights.undefined, **self.grids(),
        )  # fmt: skip
        if levels[last] != sizes:
            result = self.emit(g.ReshapeOp, result, shape=back, allow_zero=is_empty(levels[last]))
        if self.weights.transposed:
            result = self.emit(g.TransposeOp, result, permutation=last_swapped(len(levels[last])))
        return result


def may_equal(a: Size, b: Size) -> bool:
    """Return whether two sizes are equal, or both known only at run time. (An unknown size beside a
    known one may be 1, which a matmul broadcasts and attention does not.)"""
    return a == b or (a.number is None and b.number is None)


def realigned(ahead: Sizes, level: Sizes, batch: Size, heads: Size) -> Sizes:
    """The dimensions `ahead` of the last two of a mask, for scores that have `level` there, as
    batch and heads."""
    shown = [(a, m) for a, m in zip(level, ahead, strict=True) if a != ONE]
    if [a for a, _ in shown] == [s for s in (batch, heads) if s != ONE]:
        rest = iter(m for _, m in shown)
        return tuple(ONE if s == ONE else next(rest) for s in (batch, heads))
    if ahead == level and volume(level) == batch * heads:
        return batch, heads
    raise NotAttention("a mask has batch and heads in another order")


def narrowed_like(like: SSAValue, *values: SSAValue) -> Sequence[SSAValue]:
    """The values without casts up, if they are then of the element type of `like`."""
    narrow = [before_widening(v) for v in values]
    wanted = element_type(like)
    return narrow if all(element_type(v) == wanted for v in narrow) else values


class FindAttention(Search):
    """Two matmuls with a softmax between them."""

    names = (RULE,)
    ops = (g.SoftmaxOp,)

    def __init__(self, dimensions: Dimensions, quantized: bool = False) -> None:
        """`quantized`: that whose scores or weights are quantized, and nothing else."""
        self.dimensions, self.quantized = dimensions, quantized

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, g.SoftmaxOp)
        if op.axis.value.data not in (-1, rank_of(op.input) - 1):
            return
        scores = ScoresSearch(self.dimensions, self.quantized).search(op.input, MatchedScores())
        weights = find_weights(op, self.dimensions, self.quantized)
        ops = (*weights.ops, op, *scores.ops)
        if self.quantized and not any(isinstance(o, g.QuantizeOp | g.DequantizeOp) for o in ops):
            return
        if scores.ops and scores.ops[0].parent is not op.parent:
            return  # scores that are computed before a loop stay there
        first, last = scores.matmul, weights.matmul
        if first is None or last is None:
            if first is not None or last is not None:
                remarks.missed(RULE, op, scores.why or weights.why, loss_us(ops))
            return
        emit = Emit(rewriter, last, ops, hold=True)
        try:
            new = AttentionBuilder(self.dimensions, scores, weights, first, last, emit).build()
        except NotAttention as e:
            emit.discard()
            remarks.missed(RULE, op, str(e), loss_us(ops))
            return
        emit.insert_held()
        substitute(RULE, op, rewriter, last.result, new, loss_us(ops))


class MatchAttentionPass(FunctionPass):
    """Replace attention that is written out by the graph op."""

    name = "match-attention"
    RELATION: ClassVar[Relation] = Ulps()

    def run(self, func: FuncOp) -> None:
        rewrite(func.body, [FindAttention(Dimensions(func.body))])
