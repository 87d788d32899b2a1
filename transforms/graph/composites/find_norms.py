"""Normalizations found again in the means, roots and products that exporters write out.

    %m = graph.reduce "mean" %x                       mean
    %d = graph.sub %x, %m
    %v = graph.reduce "mean" (%d * %d)                variance
    %r = graph.sqrt (%v + eps)
    %n = graph.div %d, %r
    %y = %n * %w + %b
becomes
    %y = graph.layer_norm %x, %w, %b

The search starts at the root. What is below it must be the mean of squares, of x or of x less its
mean, plus a number; what is made of it must come to x / root or (x - mean) / root, in whatever
order and with whatever factors (see ge.transforms.analysis.polynomials). Then

- a product with a vector over the normalized dimensions is the scale, a sum the bias;
- a cast up before and down after makes a norm of 16 bits (see widening.py);
- a norm of [N, G, ...] between reshapes of [N, C, ...] is a group norm;
- a norm of all after the channel, with scale and bias by channel, is an instance norm: a group
  norm of as many groups as channels.

The mean of x^2 less the squared mean is not taken for a variance: it may be far off in floats.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.elementwise import AddOp, DivOp, MulOp, PowOp, SqrtOp, SubOp
from ge.dialects.graph.normalization import GroupNormOp, LayerNormOp, RmsNormOp, TrailingNorm
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import ReshapeOp, UnsqueezeOp
from ge.dialects.support.element_types import is_float
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    DYNAMIC,
    Shape,
    element_type,
    is_static,
    normalize_axis,
    numel,
    rank_of,
    shape_of,
)
from ge.transforms.analysis.dimensions import Dimensions
from ge.transforms.analysis.polynomials import (
    ONE,
    Expansion,
    Polynomial,
    element_tolerance,
    monomial,
    product,
    reachable,
    same,
)
from ge.transforms.graph.composites.widening import NarrowComputation
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.counts import is_enabled
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.losses import loss_us, made_of
from ge.transforms.rewriting.matching import Match, Number, Op, Value, near, number_of
from ge.transforms.rewriting.relations import Relation, Ulps
from ge.transforms.rewriting.rules import Emit, Rule, Search, done, substitute

# ---- means -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mean:
    """A mean over trailing dimensions that are kept as 1: of what, and of how many dimensions."""

    of: SSAValue
    axes: int
    squares: bool = False
    """Whether the squares are averaged."""

    @property
    def count(self) -> float:
        """How many elements a mean is of; nan where that is not known."""
        shape = shape_of(self.of)[-self.axes :]
        return numel(shape) if is_static(shape) else nan


def mean_of(value: SSAValue) -> Mean | None:
    """The mean over trailing dimensions that a value is: a reduction, or a sum over the number of
    elements; the dimensions kept, or put in again."""
    op = value.owner
    if isinstance(op, ReshapeOp | UnsqueezeOp) and isinstance(op.input.owner, ReduceOp):
        inner = reduction(op.input.owner, keep=False)
        kept = inner is not None and shape_of(value) == ones_behind(inner)
        return inner if kept else None
    if isinstance(op, ReduceOp):
        return reduction(op, keep=True) if op.kind.data == "mean" else None
    if isinstance(op, MulOp | DivOp):
        number = number_of(op.rhs)
        inner = op.lhs.owner
        if number and isinstance(inner, ReduceOp) and inner.kind.data in ("sum", "sum_square"):
            found = reduction(inner, keep=True)
            count = 1 / number if isinstance(op, MulOp) else number
            if found is not None and near(count, found.count, element_tolerance(value)):
                return found
    return None


def reduction(op: ReduceOp, keep: bool) -> Mean | None:
    """What a reduction over trailing dimensions is the mean of, but for the number of elements."""
    axes, rank = op.reduced_axes(), rank_of(op.input)
    if not axes or bool(op.keep_dims.value.data) != keep or not is_float(element_type(op.input)):
        return None
    if sorted(axes) != list(range(rank - len(axes), rank)):
        return None
    return Mean(op.input, len(axes), op.kind.data == "sum_square")


def ones_behind(mean: Mean) -> Shape:
    shape = shape_of(mean.of)
    return (*shape[: len(shape) - mean.axes], *(1,) * mean.axes)


def squared(mean: Mean) -> SSAValue | None:
    """d, where the mean is that of d^2."""
    if mean.squares:
        return mean.of
    op = mean.of.owner
    if isinstance(op, MulOp) and op.lhs is op.rhs:
        return op.lhs
    if isinstance(op, PowOp) and number_of(op.rhs) == 2:
        return op.lhs
    return None


# ---- the norm itself -------------------------------------------------------------------------


@dataclass(frozen=True)
class Statistics:
    """x and its mean (None for the root mean square), and the number added under the root."""

    x: SSAValue
    mean: SSAValue | None
    axes: int
    epsilon: float

    @classmethod
    def under_root(cls, value: SSAValue) -> "Statistics | None":
        """What the value under a root says of which x."""
        epsilon, variance = 0.0, value
        if isinstance(value.owner, AddOp):
            for a, b in (value.owner.operands, value.owner.operands[::-1]):
                if (number := number_of(b)) is not None and numel(shape_of(b)) == 1:
                    epsilon, variance = number, a
        mean = mean_of(variance)
        d = None if mean is None else squared(mean)
        if mean is None or d is None:
            return None
        if isinstance(d.owner, SubOp):
            x, m = d.owner.operands
            of = mean_of(m)
            if of is not None and of.of is x and of.axes == mean.axes and not of.squares:
                return cls(x, m, mean.axes, epsilon)
        return cls(d, None, mean.axes, epsilon)

    @property
    def rule(self) -> str:
        return "find-rms-norm" if self.mean is None else "find-layer-norm"

    def centered(self) -> Polynomial:
        """x, or x less its mean."""
        result = {monomial({self.x: 1}): 1.0}
        if self.mean is not None:
            result[monomial({self.mean: 1})] = -1.0
        return result


Affine = tuple[SSAValue | None, SSAValue | None]
"""Scale and bias, None where there is none."""


def affine(polynomial: Polynomial, normed: Polynomial, tolerance: float) -> Affine | None:
    """The scale and bias with which the norm makes the polynomial, None when none do."""
    first = next(iter(normed))
    extras = [term - first for term in polynomial if first <= term]
    if len(extras) != 1:
        return None
    scaled = {term | extras[0]: c for term, c in normed.items()}
    inside = {term: c for term, c in polynomial.items() if term in scaled}
    rest = {term: c for term, c in polynomial.items() if term not in scaled}
    if not same(inside, scaled, tolerance) or len(rest) > 1 or any(c != 1 for c in rest.values()):
        return None
    found = [tuple(term) for term in (extras[0], *(rest or (ONE,)))]
    if any(len(term) > 1 or (term and term[0][1] != 1) for term in found):
        return None
    scale, bias = (term[0][0] if term else None for term in found)
    return scale, bias


class FindTrailingNorm(Search):
    """Layer norm and root-mean-square norm, by their root."""

    names = ("find-layer-norm", "find-rms-norm")
    ops = (SqrtOp, PowOp)

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        value = op.operands[0]
        if isinstance(op, PowOp) and number_of(op.rhs) not in (0.5, -0.5):
            return
        found = Statistics.under_root(value)
        if found is None or not is_enabled(found.rule):
            return
        root = {monomial({value: -0.5}): 1.0}
        normed = product(found.centered(), root)
        stop = {value, *(v for m in found.centered() for v, _ in m)}
        why = "what is made of the root is no norm"
        for end in reachable(op.results[0]):
            expansion = Expansion(stop)
            if end.type != found.x.type:
                continue
            parts = affine(expansion.of(end), normed, element_tolerance(end))
            if parts is None or not self.fits(found, parts):
                continue
            if expansion.uses_all(op.results[0], end):
                return self.replace(rewriter, end, found, parts, (*expansion.ops, op))
            why = "the root is used elsewhere too"
        if remarks.wanted():
            above = (v.owner for v in reachable(op.results[0]))
            seen = [*(o for o in above if isinstance(o, Operation)), *made_of(value, found.x)]
            remarks.missed(found.rule, op, why, loss_us(seen))

    def fits(self, found: Statistics, parts: Affine) -> bool:
        """Whether scale and bias belong to the norm."""
        if found.mean is None and parts[1] is not None:
            return False
        return all(v is None or is_parameter(v, found.x, found.axes) for v in parts)

    def replace(
        self,
        rewriter: PatternRewriter,
        end: SSAValue,
        found: Statistics,
        parts: Affine,
        ops: Sequence[Operation],
    ) -> None:
        """Put the op in the place of what has been found; it is counted and told."""
        emit = Emit(rewriter, ops[0], ops)
        scale = parts[0] or emit.number(1.0, found.x)
        params = {"axis": -found.axes, "epsilon": found.epsilon}
        if found.mean is None:
            new = emit(RmsNormOp, found.x, scale, **params)
        else:
            new = emit(LayerNormOp, found.x, scale, parts[1], **params)
        done(found.rule, ops[0])
        substitute(rewriter, end, new)


def is_parameter(value: SSAValue, x: SSAValue, axes: int) -> bool:
    """Whether a value is a scale or bias over the last `axes` dimensions of x: without dimensions
    before them, or a constant with 1 there."""
    shape, known = shape_of(value), shape_of(x)
    ahead = shape[: max(len(shape) - axes, 0)]
    if len(shape) > len(known) or any(d != 1 for d in ahead):
        return False
    if ahead and not isinstance(value.owner, ConstantOp):
        return False
    return all(a in (1, b) for a, b in zip(shape[::-1], known[::-1], strict=False)) and is_float(
        element_type(value)
    )


# ---- scale and bias --------------------------------------------------------------------------

x = Value("x")
UNSCALED = Number(1.0)


def normalized_axes(norm: TrailingNorm) -> int:
    """How many dimensions a norm goes over."""
    rank = rank_of(norm.input)
    return rank - normalize_axis(norm.axis.value.data, rank)


class AddScale(Rule):
    """norm(x) * w. By channel and over all after the channel it is an instance norm."""

    name = "find-scaled-norm"
    pattern = Op(MulOp, Op((LayerNormOp, RmsNormOp), x, UNSCALED, name="norm"), Value("scale"))

    def replace(self, found: Match, emit: Emit) -> SSAValue | None:
        norm, scale = found.op("norm", TrailingNorm), found["scale"]
        axes = normalized_axes(norm)
        if found.root.results[0].type != norm.result.type:
            return None
        if is_parameter(scale, norm.input, axes):
            return emit(type(norm), norm.input, scale, axis=-axes, epsilon=norm.epsilon)
        channels = by_channel(scale, norm.input)
        if not channels or axes != rank_of(norm.input) - 2 or isinstance(norm, RmsNormOp):
            return None
        scale = emit(ReshapeOp, scale, shape=(channels,), allow_zero=not channels)
        bias = emit.number(0.0, norm.input, channels)
        return emit(GroupNormOp, norm.input, scale, bias, groups=channels, epsilon=norm.epsilon)


class AddBias(Rule):
    """layer_norm(x, w) + b"""

    name = "find-biased-norm"
    pattern = Op(AddOp, Op(LayerNormOp, x, Value("scale"), name="norm"), Value("bias"))

    def replace(self, found: Match, emit: Emit) -> SSAValue | None:
        norm = found.op("norm", LayerNormOp)
        axes = normalized_axes(norm)
        same_type = found.root.results[0].type == norm.result.type
        if not same_type or not is_parameter(found["bias"], norm.input, axes):
            return None
        operands = norm.input, found["scale"], found["bias"]
        return emit(LayerNormOp, *operands, axis=-axes, epsilon=norm.epsilon)


# ---- group norm ------------------------------------------------------------------------------


def by_channel(value: SSAValue, x: SSAValue) -> int | None:
    """The number of channels (dimension 1 of x) when a value has one element for each."""
    shape, rank = shape_of(value), rank_of(x)
    if rank < 3 or not rank - 1 <= len(shape) <= rank:
        return None
    *ahead, channels = shape[: len(shape) - rank + 2]
    behind = shape[len(shape) - rank + 2 :]
    if channels == DYNAMIC or channels != shape_of(x)[1]:
        return None
    return channels if all(d == 1 for d in (*ahead, *behind)) else None


def is_of_groups(norm: Operation) -> bool:
    """The norm goes over all dimensions after the first two."""
    if isinstance(norm, GroupNormOp):
        return norm.groups.value.data == shape_of(norm.input)[1]
    return isinstance(norm, LayerNormOp) and normalized_axes(norm) == rank_of(norm.input) - 2


class FindGroupNorm(Rule):
    """A norm of [N, G, ...] between reshapes of [N, C, ...]: each group is a run of channels."""

    name = "find-group-norm"
    pattern = Op(
        ReshapeOp,
        Op(GroupNormOp, Value("grouped"), UNSCALED, Number(0.0), name="norm", where=is_of_groups)
        | Op(LayerNormOp, Value("grouped"), UNSCALED, name="norm", where=is_of_groups),
        ...,
    )
    nearly = 2

    def __init__(self, dimensions: Dimensions) -> None:
        self.dimensions = dimensions

    def replace(self, found: Match, emit: Emit) -> SSAValue | None:
        reshape = found["grouped"].owner
        if not isinstance(reshape, ReshapeOp):
            return None
        source, grouped = self.dimensions.of(reshape.input), self.dimensions.of(reshape.result)
        after = self.dimensions.of(found.root.results[0])
        channels, groups = (s[1].number if len(s) > 1 else None for s in (source, grouped))
        if after != source or source[0] != grouped[0] or not channels or not groups:
            return None
        if channels % groups:
            return None
        one, zero = (emit.number(n, reshape.input, channels) for n in (1.0, 0.0))
        epsilon = found.op("norm", TensorOp).properties["epsilon"]
        return emit(GroupNormOp, reshape.input, one, zero, groups=groups, epsilon=epsilon)


class ScaleGroupNorm(Rule):
    """group_norm(x) * w, with one number a channel"""

    name = "find-scaled-norm"
    pattern = Op(
        MulOp, Op(GroupNormOp, x, UNSCALED, Number(0.0, "zero"), name="norm"), Value("scale")
    )

    def replace(self, found: Match, emit: Emit) -> SSAValue | None:
        norm = found.op("norm", GroupNormOp)
        channels = by_channel(found["scale"], norm.input)
        if not channels or found.root.results[0].type != norm.result.type:
            return None
        scale = emit(ReshapeOp, found["scale"], shape=(channels,))
        params = {"groups": norm.groups, "epsilon": norm.epsilon}
        return emit(GroupNormOp, norm.input, scale, found["zero"], **params)


class AddGroupBias(Rule):
    """group_norm(x, w) + b, with one number a channel"""

    name = "find-biased-norm"
    pattern = Op(AddOp, Op(GroupNormOp, x, Value("scale"), Number(0.0), name="norm"), Value("bias"))

    def replace(self, found: Match, emit: Emit) -> SSAValue | None:
        norm = found.op("norm", GroupNormOp)
        channels = by_channel(found["bias"], norm.input)
        if not channels or found.root.results[0].type != norm.result.type:
            return None
        bias = emit(ReshapeOp, found["bias"], shape=(channels,))
        params = {"groups": norm.groups, "epsilon": norm.epsilon}
        return emit(GroupNormOp, norm.input, found["scale"], bias, **params)


@dataclass(frozen=True)
class FindNormsPass(ModulePass):
    """Replace layer, root-mean-square, group and instance norms that are written out by graph
    ops."""

    name = "find-norms"
    RELATION: ClassVar[Relation] = Ulps()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.ops:
            if isinstance(func, FuncOp) and func.body.blocks:
                group_norm = FindGroupNorm(Dimensions(func.body))
                rules = [AddScale(), AddBias(), group_norm, ScaleGroupNorm(), AddGroupBias()]
                rewrite(func.body, [FindTrailingNorm(), NarrowComputation(), *rules])
