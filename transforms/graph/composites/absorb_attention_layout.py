"""Attention reads and writes heads and tokens in the order in which they lie in memory.

    %1 = graph.reshape %0                  [B, S, H*D] -> [B, S, H, D]
    %2 = graph.transpose %1                -> [B, H, S, D]
    %3 = graph.attention %2, ...
becomes
    %3 = graph.attention %1, ... query_tokens_first true

Each operand is traced to the value that it only moves (see ge.transforms.analysis.layouts). So

- transposes vanish, those of the result too;
- factors of query and key fold into the scale;
- heads of key and value that are repeated for a group of query heads are not repeated;
- one of several tensors packed in one (query, key and value of one matmul) is split off before the
  transpose, not after;
- rotary embedding of query or key moves before the transpose, if it has no other user.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any, ClassVar

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ge.dialects import graph as g
from ge.dialects.support.types import DYNAMIC, array_ints, rank_of, shape_of
from ge.transforms.analysis.dimensions import Dimensions, Size, Sizes, volume
from ge.transforms.analysis.layouts import (
    Axes,
    LayoutAxis,
    Trace,
    leaves,
    new_axes,
    permute,
    regroup,
)
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.passes import FunctionPass, Relation, Ulps
from ge.transforms.rewriting.rules import Emit, Search, substitute

RULE = "absorb-attention-layout"


def target_of(sizes: Sequence[Size], source: Sequence[Size]) -> tuple[int, ...] | None:
    """A reshape target with these sizes: numbers, 0 for a size that the source has at the same
    index, and one -1; None if that is not enough. If a size is 0 (see `is_empty`), 0 means itself,
    and all are numbers."""
    if is_empty(sizes):
        known = [size.number for size in sizes if size.number is not None]
        return tuple(known) if len(known) == len(sizes) else None
    result: list[int] = []
    for i, size in enumerate(sizes):
        number = size.number
        if number is None and i < len(source) and source[i] == size:
            result.append(0)
        else:
            result.append(-1 if number is None else number)
    return tuple(result) if result.count(-1) <= 1 else None


def is_empty(sizes: Sequence[Size]) -> bool:
    """Return whether a tensor of these sizes surely has no elements."""
    return any(size.number == 0 for size in sizes)


@dataclass(frozen=True)
class LayoutSource:
    """A value `at` that has the elements of an operand, times a factor, as four dimensions of
    `sizes` in memory, with what it saves to read it."""

    at: SSAValue
    sizes: Sizes
    tokens_first: bool
    factor: float
    chosen: tuple[int, int, int] | None  # of tensors packed in `at`: axis, number of parts, part
    gain: int

    def is_direct(self, dimensions: Dimensions) -> bool:
        """Return whether the value has just these four dimensions."""
        return self.chosen is None and dimensions.of(self.at) == self.sizes

    def rank(self, dimensions: Dimensions) -> tuple[int, bool, bool]:
        """Return a rank, the larger the better; with equal gains a direct one ranks higher, or one
        whose split parts are more than slices."""
        parts = self.chosen is not None and shape_of(self.at)[self.chosen[0]] > self.chosen[1]
        return self.gain, self.is_direct(dimensions), parts

    def can_view(self, dimensions: Dimensions) -> bool:
        if self.is_direct(dimensions):
            return True
        if self.chosen is not None:
            return all(s.number is not None for s in self.sizes)
        return target_of(self.sizes, dimensions.of(self.at)) is not None

    def view(self, emit: Emit, dimensions: Dimensions) -> SSAValue:
        """Emit the value with its four dimensions in the order of memory."""
        value = self.at
        if self.is_direct(dimensions):
            return value
        if self.chosen is not None:
            axis, count, index = self.chosen
            part = shape_of(value)[axis] // count
            split = emit.op(g.SplitOp, value, None, axis=axis, sizes=(part,) * count, results=count)
            value = split.results[index]
        target = target_of(self.sizes, dimensions.of(value))
        assert target is not None
        return emit(g.ReshapeOp, value, shape=target, allow_zero=is_empty(self.sizes))


def visible_heads(heads: Axes) -> Axes | None:
    """The axes of the heads without those that repeat a head for a group; None if whole runs of
    heads are repeated."""
    shown = [a for a in heads if not a.repeated]
    return shown if heads[: len(shown)] == shown else None


def part_of(trace: Trace, axis: LayoutAxis) -> tuple[int, int, int] | None:
    """Dimension of the traced value, number of parts and part that the chosen index of an axis
    stands for; None if the axis is not the outermost of the dimension."""
    for i, axes in enumerate(trace.front):
        if (inside := leaves(axes)) and inside[0] is axis:
            number = axis.size.number
            return None if number is None or axis.chosen is None else (i, number, axis.chosen)
    return None


def express(trace: Trace) -> LayoutSource | None:
    """The traced value as heads or tokens first, None if it is neither."""
    batch, heads, tokens, size = (leaves(d) for d in trace.dims)
    order = trace.order()
    shown = visible_heads(heads)
    if shown is None or any(a.repeated for a in (*batch, *tokens, *size)):
        return None
    chosen = [a for a in order if a.chosen is not None]
    order = [a for a in order if a.chosen is None]
    if order == [*batch, *shown, *tokens, *size]:
        tokens_first, dims = False, (batch, shown, tokens, size)
    elif order == [*batch, *tokens, *shown, *size]:
        tokens_first, dims = True, (batch, tokens, shown, size)
    else:
        return None
    part = part_of(trace, chosen[0]) if len(chosen) == 1 else None
    if chosen and part is None:
        return None
    sizes = tuple(volume([a.size for a in d]) for d in dims)
    return LayoutSource(trace.at, sizes, tokens_first, trace.factor, part, trace.gain)


def locate(
    value: SSAValue, dimensions: Dimensions, repeats: bool = True, factors: bool = True
) -> LayoutSource | None:
    """The best source of an operand, None if none saves anything."""
    trace = Trace(value, dimensions, repeats)
    best: LayoutSource | None = None
    for _ in trace.steps():
        if trace.factor != 1 and not factors:
            break
        source = express(trace)
        if source is None or not source.can_view(dimensions):
            continue
        if best is None or source.rank(dimensions) > best.rank(dimensions):
            best = source
    return best if best is not None and best.gain > 0 else None


# ---- operands --------------------------------------------------------------------------------


def rebuilt(
    op: g.AttentionOp, emit: Emit, operands: dict[str, SSAValue], **params: Any
) -> g.AttentionOp:
    query, key, value = (operands.get(n, getattr(op, n)) for n in ("query", "key", "value"))
    kept = {n: a for n, a in op.properties.items() if n != "operandSegmentSizes"}
    others = list(op.masks), op.key_lengths, op.offset_value, op.length, op.table
    return emit.op(g.AttentionOp, query, key, value, *others, **{**kept, **params})


def scale_of(op: g.AttentionOp) -> float | None:
    """The factor of the scores, None if it follows from an unknown size."""
    if op.scale is not None:
        return op.scale.value.data
    size = op.sizes("query")[3]
    return None if size == DYNAMIC else 1 / sqrt(size)


class Layout(Search):
    """Base of the rules below."""

    names = (RULE,)
    ops = (g.AttentionOp,)

    def __init__(self, dimensions: Dimensions) -> None:
        self.dimensions = dimensions


OPERANDS = "query", "key", "value"


class AbsorbOperands(Layout):
    """Read query, key and value from their sources."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, g.AttentionOp)
        if all(map(op.tokens_first, OPERANDS)):
            return
        sources = self.locate(op, True)
        if self.heads(op, sources, "key") != self.heads(op, sources, "value"):
            sources = self.locate(op, False)
        if not sources:
            return
        emit = Emit(rewriter, op, [op])
        operands = {n: s.view(emit, self.dimensions) for n, s in sources.items()}
        params: dict[str, Any] = {f"{n}_tokens_first": s.tokens_first for n, s in sources.items()}
        if (factor := prod(s.factor for s in sources.values())) != 1:
            params["scale"] = factor * (scale_of(op) or 1.0)
        new = rebuilt(op, emit, operands, **params)
        substitute(RULE, new, rewriter, op.result, new.result)

    def locate(self, op: g.AttentionOp, repeats: bool) -> dict[str, LayoutSource]:
        """The sources, by name, of the operands that are not tokens-first yet."""
        result: dict[str, LayoutSource] = {}
        for name in OPERANDS:
            if op.tokens_first(name):
                continue
            factors = name != "value" and scale_of(op) is not None
            groups = repeats and name != "query"
            source = locate(getattr(op, name), self.dimensions, groups, factors)
            if source is not None:
                result[name] = source
        return result

    def heads(self, op: g.AttentionOp, sources: dict[str, LayoutSource], name: str) -> Size:
        if name in sources:
            return sources[name].sizes[2 if sources[name].tokens_first else 1]
        return self.dimensions.of(getattr(op, name))[2 if op.tokens_first(name) else 1]


class AbsorbRotary(Layout):
    """Move the rotary embedding of query or key to the source of its input."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, g.AttentionOp)
        for name in ("query", "key"):
            rotary = getattr(op, name).owner
            if op.tokens_first(name) or not isinstance(rotary, g.RotaryEmbeddingOp):
                continue
            if rank_of(rotary.input) == 4 and rotary.result.has_one_use():
                self.absorb(op, name, rotary, rewriter)
                if rewriter.has_done_action:
                    return

    def absorb(
        self, op: g.AttentionOp, name: str, rotary: g.RotaryEmbeddingOp, rewriter: PatternRewriter
    ) -> None:
        source = locate(rotary.input, self.dimensions, repeats=False, factors=False)
        if source is None:
            return
        tables = [rotary.cos, rotary.sin]
        if source.tokens_first and any(not can_move(t) for t in tables):
            return
        emit = Emit(rewriter, rotary, [rotary])
        value = source.view(emit, self.dimensions)
        if source.tokens_first:
            tables = [moved(emit, t) for t in tables]
        params = {"interleaved": rotary.interleaved, "full_tables": rotary.full_tables}
        rotated = emit(g.RotaryEmbeddingOp, value, *tables, **params)
        flag = {f"{name}_tokens_first": source.tokens_first}
        new = rebuilt(op, Emit(rewriter, op, [op]), {name: rotated}, **flag)
        substitute(RULE, new, rewriter, op.result, new.result)


def can_move(table: SSAValue) -> bool:
    """Return whether a table is the same for all heads."""
    shape = shape_of(table)
    return len(shape) < 3 or shape[-3] == 1


def moved(emit: Emit, table: SSAValue) -> SSAValue:
    """A table for [B, H, S, D] as one for [B, S, H, D]."""
    rank = rank_of(table)
    if rank == 1:
        return table
    if rank > 2:
        source = table.owner
        if isinstance(source, g.UnsqueezeOp) and source.ints("axes") == (rank - 3,):
            table = source.input
        else:
            table = emit(g.SqueezeOp, table, axes=(rank - 3,))
    return emit(g.UnsqueezeOp, table, axes=(max(rank, 3) - 2,))


# ---- the result ------------------------------------------------------------------------------


class AbsorbResult(Layout):
    """Write the result in the order of its users."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, g.AttentionOp)
        if op.tokens_first("result") or (end := self.follow(op.result)) is None:
            return
        value, tokens_first, wanted = end
        batch, heads, tokens, size = self.dimensions.of(op.result)
        sizes = (batch, tokens, heads, size) if tokens_first else (batch, heads, tokens, size)
        target = target_of(wanted, sizes)
        if target is None:
            return
        emit = Emit(rewriter, op, [op])
        new = rebuilt(op, emit, {}, result_tokens_first=tokens_first).result
        if wanted != sizes:
            new = emit(g.ReshapeOp, new, shape=target, allow_zero=is_empty(wanted))
        substitute(RULE, op, rewriter, value, new)

    def follow(self, value: SSAValue) -> tuple[SSAValue, bool, Sizes] | None:
        """The first value behind transposes that has the result's elements as heads or tokens
        first, whether tokens come first, and its sizes."""
        front = new_axes(self.dimensions.of(value))
        batch, heads, tokens, size = front
        moved = False
        while value.has_one_use() and (use := value.first_use) is not None:
            user = use.operation
            if isinstance(user, g.TransposeOp):
                front, moved = permute(front, array_ints(user.permutation)), True
            elif isinstance(user, g.View) and use.index == 0:
                grouped = regroup(front, self.dimensions.of(user.result))
                if grouped is None:
                    return None
                front = grouped
            else:
                return None
            value = user.results[0]
            order = leaves(*front)
            for tokens_first, (a, b) in enumerate(((heads, tokens), (tokens, heads))):
                if moved and order == leaves(batch, a, b, size):
                    sizes = tuple(volume([x.size for x in leaves(d)]) for d in front)
                    return value, bool(tokens_first), sizes
        return None


class AbsorbAttentionLayoutPass(FunctionPass):
    """Let attention read and write heads and tokens in the order in which they lie in memory."""

    name = "absorb-attention-layout"
    RELATION: ClassVar[Relation] = Ulps()

    def run(self, func: FuncOp) -> None:
        dimensions = Dimensions(func.body)
        kinds = AbsorbOperands, AbsorbRotary, AbsorbResult
        rewrite(func.body, [kind(dimensions) for kind in kinds])
