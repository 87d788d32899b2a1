"""Normalizations recognized in the means, roots and products that exporters write out.

    %m = graph.reduce mean %x                       mean
    %d = graph.sub %x, %m
    %v = graph.reduce mean (%d * %d)                variance
    %r = graph.sqrt (%v + eps)
    %n = graph.div %d, %r
    %y = %n * %w + %b
becomes
    %y = graph.layer_norm %x, %w, %b

The search starts at the root. Its operand must be the mean of squares, of x or of x less its mean,
plus a number; a polynomial in the root must be x / root or (x - mean) / root, in whatever order and
with whatever factors (see ge.transforms.analysis.polynomials). Then

- a product with a vector over the normalized dimensions is the scale, a sum the bias;
- a cast up before and down after makes a norm of 16 bits (see narrow_computation.py);
- a norm of [N, G, ...] between reshapes of [N, C, ...] is a group norm;
- a norm of all dimensions after the channel, with scale and bias by channel, is an instance norm:
  a group norm of as many groups as channels.

The mean of x^2 less the squared mean is not a variance: it may be far off in floats.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import ClassVar

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ge.dialects import graph as g
from ge.dialects.support.element_types import is_float
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import DYNAMIC, element_type, is_static, numel, rank_of, shape_of
from ge.transforms.analysis import polynomials as poly
from ge.transforms.analysis.dimensions import Dimensions
from ge.transforms.analysis.polynomials import near, number_of
from ge.transforms.graph.composites.narrow_computation import NarrowComputation
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.counts import is_enabled
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.matching import Match, Number, Op, Value
from ge.transforms.rewriting.passes import FunctionPass, Relation, Ulps
from ge.transforms.rewriting.rules import Emit, Rule, Search, loss_us, made_of, substitute

# ---- means -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mean:
    """A mean of a value, or of its squares, over the last `axes` dimensions, which stay as 1."""

    of: SSAValue
    axes: int
    squares: bool = False

    @property
    def count(self) -> float:
        """Return how many elements are averaged; nan if that is not known."""
        shape = shape_of(self.of)[-self.axes :]
        return numel(shape) if is_static(shape) else nan


def mean_of(value: SSAValue) -> Mean | None:
    """The mean over trailing dimensions that a value is: a reduction, or a sum over the number of
    elements; the dimensions kept, or put in again."""
    op = value.owner
    if isinstance(op, g.ReshapeOp | g.UnsqueezeOp) and isinstance(op.input.owner, g.ReduceOp):
        inner = reduction(op.input.owner, keep=False)
        if inner is None:
            return None
        ahead = shape_of(inner.of)[: -inner.axes]
        return inner if shape_of(value) == (*ahead, *(1,) * inner.axes) else None
    if isinstance(op, g.ReduceOp):
        return reduction(op, keep=True) if op.kind.data == "mean" else None
    if isinstance(op, g.MulOp | g.DivOp):
        number = number_of(op.rhs)
        inner = op.lhs.owner
        if number and isinstance(inner, g.ReduceOp) and inner.kind.data in ("sum", "sum_square"):
            mean = reduction(inner, keep=True)
            count = 1 / number if isinstance(op, g.MulOp) else number
            if mean is not None and near(count, mean.count, poly.element_tolerance(value)):
                return mean
    return None


def reduction(op: g.ReduceOp, keep: bool) -> Mean | None:
    """Return the mean that a reduction over trailing dimensions computes, without its division."""
    axes, rank = op.reduced_axes(), rank_of(op.input)
    if not axes or bool(op.keep_dims.value.data) != keep or not is_float(element_type(op.input)):
        return None
    if sorted(axes) != list(range(rank - len(axes), rank)):
        return None
    return Mean(op.input, len(axes), op.kind.data == "sum_square")


def squared(mean: Mean) -> SSAValue | None:
    """d, if the mean is that of d^2."""
    if mean.squares:
        return mean.of
    op = mean.of.owner
    square = isinstance(op, g.MulOp) and op.lhs is op.rhs
    square |= isinstance(op, g.PowOp) and number_of(op.rhs) == 2
    return op.operands[0] if square and isinstance(op, Operation) else None


# ---- the norm itself -------------------------------------------------------------------------


@dataclass(frozen=True)
class Statistics:
    """x and its mean (None for the root mean square), and the epsilon added under the root."""

    x: SSAValue
    mean: SSAValue | None
    axes: int
    epsilon: float

    @classmethod
    def under_root(cls, value: SSAValue) -> "Statistics | None":
        epsilon, variance = 0.0, value
        if isinstance(value.owner, g.AddOp):
            for a, b in (value.owner.operands, value.owner.operands[::-1]):
                if (number := number_of(b)) is not None and numel(shape_of(b)) == 1:
                    epsilon, variance = number, a
        mean = mean_of(variance)
        d = None if mean is None else squared(mean)
        if mean is None or d is None:
            return None
        if isinstance(d.owner, g.SubOp):
            x, m = d.owner.operands
            if mean_of(m) == Mean(x, mean.axes):
                return cls(x, m, mean.axes, epsilon)
        return cls(d, None, mean.axes, epsilon)

    @property
    def rule(self) -> str:
        return "find-rms-norm" if self.mean is None else "find-layer-norm"

    def centered(self) -> poly.Polynomial:
        """x, or x less its mean."""
        result = {poly.monomial({self.x: 1}): 1.0}
        if self.mean is not None:
            result[poly.monomial({self.mean: 1})] = -1.0
        return result


Affine = tuple[SSAValue | None, SSAValue | None]  # scale and bias


def affine(polynomial: poly.Polynomial, normed: poly.Polynomial, tolerance: float) -> Affine | None:
    """The scale and bias with which the norm is the polynomial, None if there are none."""
    first = next(iter(normed))
    extras = [term - first for term in polynomial if first <= term]
    if len(extras) != 1:
        return None
    scaled = {term | extras[0]: c for term, c in normed.items()}
    inside = {term: c for term, c in polynomial.items() if term in scaled}
    rest = {term: c for term, c in polynomial.items() if term not in scaled}
    if len(rest) > 1 or any(c != 1 for c in rest.values()):
        return None
    if not poly.same(inside, scaled, tolerance):
        return None
    terms = [tuple(term) for term in (extras[0], *(rest or (poly.ONE,)))]
    if any(len(term) > 1 or (term and term[0][1] != 1) for term in terms):
        return None
    scale, bias = (term[0][0] if term else None for term in terms)
    return scale, bias


class FindTrailingNorm(Search):
    """Layer norm and root-mean-square norm, by their root."""

    names = ("find-layer-norm", "find-rms-norm")
    ops = (g.SqrtOp, g.PowOp)

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        value = op.operands[0]
        if isinstance(op, g.PowOp) and number_of(op.rhs) not in (0.5, -0.5):
            return
        statistics = Statistics.under_root(value)
        if statistics is None or not is_enabled(statistics.rule):
            return
        x, centered = statistics.x, statistics.centered()
        normed = poly.product(centered, {poly.monomial({value: -0.5}): 1.0})
        stop = {value, *(v for m in centered for v, _ in m)}
        ends = poly.reachable(op.results[0])
        why = "what is made of the root is no norm"
        for end in ends:
            if end.type != x.type:
                continue
            expansion = poly.Expansion(stop)
            parts = affine(expansion.of(end), normed, poly.element_tolerance(end))
            if parts is None or not fits(statistics, parts):
                continue
            if expansion.uses_all(op.results[0], end):
                return self.replace(rewriter, end, statistics, parts, (*expansion.ops, op))
            why = "the root is used elsewhere too"
        if remarks.wanted():
            above = [v.owner for v in ends if isinstance(v.owner, Operation)]
            remarks.missed(statistics.rule, op, why, loss_us([*above, *made_of(value, x)]))

    def replace(
        self,
        rewriter: PatternRewriter,
        end: SSAValue,
        statistics: Statistics,
        parts: Affine,
        ops: Sequence[Operation],
    ) -> None:
        """Replace `end`, which is computed by `ops`, the last one first."""
        emit = Emit(rewriter, ops[0], ops)
        scale, bias = parts[0] or emit.number(1.0, statistics.x), parts[1]
        kind = g.RmsNormOp if statistics.mean is None else g.LayerNormOp
        operands = (statistics.x, scale) if statistics.mean is None else (statistics.x, scale, bias)
        new = emit(kind, *operands, axis=-statistics.axes, epsilon=statistics.epsilon)
        substitute(statistics.rule, ops[0], rewriter, end, new, loss_us(ops))


def fits(statistics: Statistics, parts: Affine) -> bool:
    if statistics.mean is None and parts[1] is not None:
        return False
    return all(v is None or is_parameter(v, statistics.x, statistics.axes) for v in parts)


def is_parameter(value: SSAValue, x: SSAValue, axes: int) -> bool:
    """Return whether a value is a scale or bias over the last `axes` dimensions of x: without
    dimensions before them, or a constant with 1 there."""
    shape, known = shape_of(value), shape_of(x)
    ahead = shape[: max(len(shape) - axes, 0)]
    if len(shape) > len(known) or any(d != 1 for d in ahead):
        return False
    if ahead and not isinstance(value.owner, g.ConstantOp):
        return False
    fitting = all(a in (1, b) for a, b in zip(shape[::-1], known[::-1], strict=False))
    return fitting and is_float(element_type(value))


# ---- scale and bias --------------------------------------------------------------------------

x = Value("x")
UNSCALED = Number(1.0)


def normalized_axes(norm: g.TrailingNorm) -> int:
    axis = norm.axis.value.data
    return -axis if axis < 0 else rank_of(norm.input) - axis


class AddScale(Rule):
    """norm(x) * w. By channel and over all after the channel it is an instance norm."""

    name = "find-scaled-norm"
    pattern = Op(
        g.MulOp, Op((g.LayerNormOp, g.RmsNormOp), x, UNSCALED, name="norm"), Value("scale")
    )

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        norm, scale = match.op("norm", g.TrailingNorm), match["scale"]
        axes = normalized_axes(norm)
        if match.root.results[0].type != norm.result.type:
            return None
        if is_parameter(scale, norm.input, axes):
            return emit(type(norm), norm.input, scale, axis=-axes, epsilon=norm.epsilon)
        channels = by_channel(scale, norm.input)
        if not channels or axes != rank_of(norm.input) - 2 or isinstance(norm, g.RmsNormOp):
            return None
        scale = emit(g.ReshapeOp, scale, shape=(channels,))
        bias = emit.number(0.0, norm.input, channels)
        return emit(g.GroupNormOp, norm.input, scale, bias, groups=channels, epsilon=norm.epsilon)


class AddBias(Rule):
    """layer_norm(x, w) + b"""

    name = "find-biased-norm"
    pattern = Op(g.AddOp, Op(g.LayerNormOp, x, Value("scale"), name="norm"), Value("bias"))

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        norm, bias = match.op("norm", g.LayerNormOp), match["bias"]
        axes = normalized_axes(norm)
        same_type = match.root.results[0].type == norm.result.type
        if not same_type or not is_parameter(bias, norm.input, axes):
            return None
        return emit(
            g.LayerNormOp, norm.input, match["scale"], bias, axis=-axes, epsilon=norm.epsilon
        )


# ---- group norm ------------------------------------------------------------------------------


def by_channel(value: SSAValue, x: SSAValue) -> int | None:
    """The number of channels (dimension 1 of x) if a value has one element for each."""
    shape, rank = shape_of(value), rank_of(x)
    if rank < 3 or not rank - 1 <= len(shape) <= rank:
        return None
    channels = shape[1 - rank]
    others = (*shape[: 1 - rank], *shape[2 - rank :])
    if channels == DYNAMIC or channels != shape_of(x)[1] or any(d != 1 for d in others):
        return None
    return channels


def is_of_groups(norm: Operation) -> bool:
    """The norm goes over all dimensions after the first two."""
    if isinstance(norm, g.GroupNormOp):
        return norm.groups.value.data == shape_of(norm.input)[1]
    return isinstance(norm, g.LayerNormOp) and normalized_axes(norm) == rank_of(norm.input) - 2


class FindGroupNorm(Rule):
    """A norm of [N, G, ...] between reshapes of [N, C, ...]: each group is a run of channels."""

    name = "find-group-norm"
    pattern = Op(
        g.ReshapeOp,
        Op(g.GroupNormOp, Value("grouped"), UNSCALED, Number(0.0), name="norm", where=is_of_groups)
        | Op(g.LayerNormOp, Value("grouped"), UNSCALED, name="norm", where=is_of_groups),
        ...,
    )
    nearly = 2

    def __init__(self, dimensions: Dimensions) -> None:
        self.dimensions = dimensions

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        reshape = match["grouped"].owner
        if not isinstance(reshape, g.ReshapeOp):
            return None
        source, grouped = self.dimensions.of(reshape.input), self.dimensions.of(reshape.result)
        after = self.dimensions.of(match.root.results[0])
        channels, groups = (s[1].number if len(s) > 1 else None for s in (source, grouped))
        if after != source or source[0] != grouped[0] or not channels or not groups:
            return None
        if channels % groups:
            return None
        one, zero = (emit.number(n, reshape.input, channels) for n in (1.0, 0.0))
        epsilon = match.op("norm", TensorOp).properties["epsilon"]
        return emit(g.GroupNormOp, reshape.input, one, zero, groups=groups, epsilon=epsilon)


class ScaleGroupNorm(Rule):
    """group_norm(x) * w, with one number a channel"""

    name = "find-scaled-norm"
    pattern = Op(
        g.MulOp, Op(g.GroupNormOp, x, UNSCALED, Number(0.0, "bias"), name="norm"), Value("scale")
    )
    parameter = "scale"

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        norm, parameter = match.op("norm", g.GroupNormOp), match[self.parameter]
        channels = by_channel(parameter, norm.input)
        if not channels or match.root.results[0].type != norm.result.type:
            return None
        operands = {n: match[n] for n in ("scale", "bias")}
        operands[self.parameter] = emit(g.ReshapeOp, parameter, shape=(channels,))
        params = {"groups": norm.groups, "epsilon": norm.epsilon}
        return emit(g.GroupNormOp, norm.input, *operands.values(), **params)


class AddGroupBias(ScaleGroupNorm):
    """group_norm(x, w) + b, with one number a channel"""

    name = "find-biased-norm"
    pattern = Op(
        g.AddOp, Op(g.GroupNormOp, x, Value("scale"), Number(0.0), name="norm"), Value("bias")
    )
    parameter = "bias"


class FindNormsPass(FunctionPass):
    """Replace layer, root-mean-square, group and instance norms that are written out by graph
    ops."""

    name = "find-norms"
    RELATION: ClassVar[Relation] = Ulps()

    def run(self, func: FuncOp) -> None:
        group_norm = FindGroupNorm(Dimensions(func.body))
        rules = [AddScale(), AddBias(), group_norm, ScaleGroupNorm(), AddGroupBias()]
        rewrite(func.body, [FindTrailingNorm(), NarrowComputation(), *rules])
