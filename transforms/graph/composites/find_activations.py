"""Activation functions recognized in the elementwise ops that exporters write out.

    %0 = graph.div %x, %sqrt2
    %1 = graph.erf %0
    %2 = graph.add %1, %one
    %3 = graph.mul %x, %2
    %4 = graph.mul %3, %half
becomes
    %4 = graph.gelu %x

The search starts at the op that no polynomial expresses (erf, tanh, sigmoid, exp, clamp), and looks
for a value that is one of the polynomials below in x and the op's result t. So it does not matter
in which order factors come, whether a number multiplies or divides, or whether x^3 is a power or
a product. The functions agree up to rounding; the composite rounds once.

    t = erf(x / sqrt 2)                            x/2 + x t/2    gelu
    t = tanh(sqrt(2/pi) (x + 0.044715 x^3))        x/2 + x t/2    gelu, "tanh"
    t = tanh(softplus(x))                          x t            mish
    t = tanh(x / 2)                                1/2 + t/2      sigmoid;  x/2 + x t/2  silu
    t = sigmoid(a x)                               x t            silu
    t = sigmoid(1.702 x)                           x t            gelu, "sigmoid"
    t = sigmoid(sqrt(8/pi) (x + 0.044715 x^3))     x t            gelu, "tanh"
    t = 1 + exp(-a x)                              1 / t          sigmoid;  x / t  silu, gelu
    t = min(max(a x + b, 0), h)                    t / h          hard_sigmoid;  x t / h  hard_swish
    t = hard_sigmoid(x), slope 1/6                 x t            hard_swish

relu, clamp, leaky_relu, elu and softplus have patterns of their own. A bare log(1 + exp(x)) becomes
softplus with `aggressive` only: it overflows (for x over 88 in f32), which softplus does not.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import pi, sqrt
from typing import Any, ClassVar

from xdsl.dialects.builtin import Float64Type
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint

from ge.dialects.graph import activation as a
from ge.dialects.graph import elementwise as g
from ge.dialects.support.editing import fuse_locations
from ge.dialects.support.element_types import is_float, is_narrow
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, is_static, numel, shape_of
from ge.transforms.analysis import polynomials as poly
from ge.transforms.analysis.polynomials import near, number_of
from ge.transforms.graph.composites.narrow_computation import NarrowComputation
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.counts import allows, is_enabled
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.matching import Match, Number, Op, Pattern, Value
from ge.transforms.rewriting.passes import FunctionPass, Relation, Ulps
from ge.transforms.rewriting.rules import Emit, Rule, Search, loss_us, substitute

x = Value("x")

LOG_EXP = Op(g.LogOp, Op(g.AddOp, Number(1.0), Op(g.ExpOp, x)))

Composite = tuple[type[TensorOp], dict[str, Any]]  # an op class and its properties
Form = tuple[poly.Polynomial, Composite]  # a polynomial in x and t, and the composite of x it is


def in_x_and_t(x: SSAValue, t: SSAValue, terms: dict[tuple[int, int], float]) -> poly.Polynomial:
    """The polynomial with these coefficients by powers of x and t."""
    return {poly.monomial({x: m, t: n}): c for (m, n), c in terms.items()}


def expanded(value: SSAValue, *atoms: SSAValue) -> poly.Polynomial:
    """The value as a polynomial. Splats are numbers if the shape is static: the shape of the whole
    is compared with x's in the end."""
    return poly.Expansion(atoms, splats=is_static(shape_of(value))).of(value)


def equals(value: SSAValue, x: SSAValue, coefficients: dict[int, float]) -> bool:
    expected = poly.powers(x, coefficients)
    return poly.same(expanded(value, x), expected, poly.element_tolerance(x))


def polynomial_in(value: SSAValue, x: SSAValue) -> dict[int, float] | None:
    """The coefficients by power of a polynomial in x alone."""
    result: dict[int, float] = {}
    for m, c in expanded(value, x).items():
        if any(v is not x or p != int(p) for v, p in m):
            return None
        result[int(sum(p for _, p in m))] = c
    return result


def slope(value: SSAValue, x: SSAValue) -> float | None:
    """a, if the value is a x."""
    line = polynomial_in(value, x)
    return line[1] if line is not None and set(line) == {1} else None


def softplus_argument(value: SSAValue) -> SSAValue | None:
    """x, if the value is log(1 + exp(x))."""
    if isinstance(value.owner, a.SoftplusOp):
        return value.owner.input
    match = LOG_EXP.match(value)
    return None if match is None else match["x"]


def erf_forms(op: g.ErfOp, x: SSAValue) -> Iterator[Form]:
    if equals(op.input, x, {1: sqrt(0.5)}):
        yield in_x_and_t(x, op.result, {(1, 0): 0.5, (1, 1): 0.5}), (a.GeluOp, {})


def is_gelu_line(value: SSAValue, x: SSAValue, factor: float) -> bool:
    """Return whether the value is factor sqrt(2/pi) (x + 0.044715 x^3)."""
    c = factor * sqrt(2 / pi)
    return equals(value, x, {1: c, 3: 0.044715 * c})


def tanh_forms(op: g.TanhOp, x: SSAValue) -> Iterator[Form]:
    t, u = op.result, op.input
    half = in_x_and_t(x, t, {(1, 0): 0.5, (1, 1): 0.5})
    if (argument := softplus_argument(u)) is not None:
        if argument is x:
            yield in_x_and_t(x, t, {(1, 1): 1}), (a.MishOp, {})
    elif is_gelu_line(u, x, 1):
        yield half, (a.GeluOp, {"approximate": "tanh"})
    elif equals(u, x, {1: 0.5}):
        yield half, (a.SiluOp, {})
        yield in_x_and_t(x, t, {(0, 0): 0.5, (0, 1): 0.5}), (a.SigmoidOp, {})


def swish(value: SSAValue, x: SSAValue, sign: int = 1) -> Composite | None:
    """The composite that x sigmoid(sign value) is: silu, or gelu by an approximation. That by tanh
    is one as (1 + tanh u) / 2 = sigmoid(2 u)."""
    if is_gelu_line(value, x, 2 * sign):
        return a.GeluOp, {"approximate": "tanh"}
    if not (factor := slope(value, x)):
        return None
    if near(sign * factor, 1.702, poly.element_tolerance(x)):
        return a.GeluOp, {"approximate": "sigmoid"}
    return a.SiluOp, {"alpha": sign * factor}


def sigmoid_forms(op: a.SigmoidOp, x: SSAValue) -> Iterator[Form]:
    if (composite := swish(op.input, x)) is not None:
        yield in_x_and_t(x, op.result, {(1, 1): 1}), composite


def exp_forms(op: g.ExpOp, x: SSAValue) -> Iterator[Form]:
    """The result is an atom of 1 + t, which in turn is one of the quotient."""
    if (composite := swish(op.input, x, sign=-1)) is None:
        return
    for use in op.result.uses:
        if isinstance(use.operation, g.AddOp):
            d = use.operation.result
            if equals(d, op.result, {0: 1.0, 1: 1.0}):
                yield in_x_and_t(x, d, {(1, -1): 1}), composite
                if slope(op.input, x) == -1:
                    yield in_x_and_t(x, d, {(0, -1): 1}), (a.SigmoidOp, {})


def clamped_line(op: g.ClampOp, x: SSAValue) -> tuple[float, float, float] | None:
    """m / h, b / h and h, if the clamp is min(max(m x + b, 0), h)."""
    low = None if op.low is None else number_of(op.low)
    high = None if op.high is None else number_of(op.high)
    line = polynomial_in(op.input, x)
    if low != 0 or high is None or high <= 0 or line is None:
        return None
    if not set(line) <= {0, 1} or not line.get(1):
        return None
    return line[1] / high, line.get(0, 0.0) / high, high


def is_hard_swish_line(m: float, b: float, x: SSAValue) -> bool:
    tolerance = poly.element_tolerance(x)
    return near(m, 1 / 6, tolerance) and near(b, 0.5, tolerance)


def clamp_swish_forms(op: g.ClampOp, x: SSAValue) -> Iterator[Form]:
    if (line := clamped_line(op, x)) is not None and is_hard_swish_line(*line[:2], x):
        yield in_x_and_t(x, op.result, {(1, 1): 1 / line[2]}), (a.HardSwishOp, {})


def clamp_sigmoid_forms(op: g.ClampOp, x: SSAValue) -> Iterator[Form]:
    if (line := clamped_line(op, x)) is not None and op.input is not x:
        alpha, beta, high = line
        sigmoid: Composite = (a.HardSigmoidOp, {"alpha": alpha, "beta": beta})
        yield in_x_and_t(x, op.result, {(0, 1): 1 / high}), sigmoid


def hard_sigmoid_forms(op: a.HardSigmoidOp, x: SSAValue) -> Iterator[Form]:
    if op.input is x and is_hard_swish_line(op.alpha.value.data, op.beta.value.data, x):
        yield in_x_and_t(x, op.result, {(1, 1): 1}), (a.HardSwishOp, {})


FORMS: dict[type[Operation], tuple[Callable[..., Iterator[Form]], ...]] = {
    g.ErfOp: (erf_forms,),
    g.TanhOp: (tanh_forms,),
    a.SigmoidOp: (sigmoid_forms,),
    g.ExpOp: (exp_forms,),
    g.ClampOp: (clamp_swish_forms, clamp_sigmoid_forms),
    a.HardSigmoidOp: (hard_sigmoid_forms,),
}


def arguments(op: Operation) -> Iterable[SSAValue]:
    """Return values that the expression may be a function of: the op's operand and those it is
    computed from, for a clamped line the farthest first."""
    u = op.operands[0]
    if isinstance(op, g.TanhOp) and (argument := softplus_argument(u)) is not None:
        return (argument,)
    values = poly.inner_values(u)
    return reversed(values) if isinstance(op, g.ClampOp) else values


def rule_of(composite: Composite) -> str:
    return f"find-{composite[0].name.removeprefix('graph.').replace('_', '-')}"


def expand(end: SSAValue, x: SSAValue, wanted: poly.Polynomial) -> poly.Expansion | None:
    """The expansion of `end`, if it is the wanted polynomial and of x's shape."""
    if end.type != x.type:
        return None
    expansion = poly.Expansion({x} | poly.atoms(wanted), splats=is_static(shape_of(x)))
    is_wanted = poly.same(expansion.of(end), wanted, poly.element_tolerance(x))
    return expansion if is_wanted else None


class FindActivation(Search):
    """The table above, tried for each x that the op's operand is computed from."""

    names = tuple(
        f"find-{n}" for n in ("gelu", "silu", "sigmoid", "mish", "hard-swish", "hard-sigmoid")
    )
    ops = tuple(FORMS)
    ASKS: ClassVar[bool] = True

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        result = op.results[0]
        if not is_float(element_type(result)):
            return
        ends = poly.reachable(result)
        nearest: Composite | None = None
        why = f"the ops from {op.name} on compute another function"
        for x, wanted, composite in self.candidates(op):
            nearest = nearest or composite
            (t,) = poly.atoms(wanted) - {x}
            for end in ends:
                if (expansion := expand(end, x, wanted)) is None:
                    continue
                # nothing else may be computed from the result, or from the atom that it goes into
                if (t is result or result.has_one_use()) and (
                    t is end or expansion.uses_all(t, end)
                ):
                    if allows(rule_of(composite), op):
                        self.replace(rewriter, end, x, composite, (*expansion.ops, op))
                    return
                why = f"the result of {op.name} is used elsewhere too"
        if nearest is not None and remarks.wanted():
            seen = [op, *(end.owner for end in ends if isinstance(end.owner, Operation))]
            remarks.missed(rule_of(nearest), op, why, loss_us(seen))

    def candidates(self, op: Operation) -> Iterator[tuple[SSAValue, poly.Polynomial, Composite]]:
        """Yield the forms that the op may be part of: x, the polynomial, and the composite of x
        that it is."""
        for forms in FORMS[type(op)]:
            for x in arguments(op):
                for wanted, composite in forms(op, x):
                    if is_enabled(rule_of(composite)):
                        yield x, wanted, composite

    def replace(
        self,
        rewriter: PatternRewriter,
        end: SSAValue,
        x: SSAValue,
        composite: Composite,
        ops: Sequence[Operation],
    ) -> None:
        """Replace `end`, which is computed by `ops`, the last one first, by the composite of x."""
        kind, params = composite
        new = kind.of(x, location=fuse_locations(reversed(ops)), **params)
        rewriter.insert(new, InsertPoint.before(ops[0]))
        substitute(rule_of(composite), new, rewriter, end, new.results[0], loss_us(ops))


# ---- patterns of other ops -------------------------------------------------------------------


def keeps_shape(match: Match, *numbers: str) -> bool:
    """Return whether the numbers have one element each and the root has the shape of x."""
    one = all(numel(shape_of(match[n])) == 1 for n in numbers)
    return one and match.root.results[0].type == match["x"].type


class FindUnary(Rule):
    """Base of the rules that need no more than a pattern."""

    kind: ClassVar[type[TensorOp]]
    numbers: ClassVar[tuple[str, ...]] = ()

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        return emit(self.kind, match["x"]) if keeps_shape(match, *self.numbers) else None


class FindRelu(FindUnary):
    """max(x, 0)"""

    name = "find-relu"
    kind, numbers = a.ReluOp, ("zero",)
    pattern = Op(g.MaximumOp, x, Number(0.0, "zero"))


class FindClamp(Rule):
    """min(max(x, low), high); max(x, 0) may have become relu."""

    name = "find-clamp"
    pattern = Op(
        g.MinimumOp, Op(g.MaximumOp, x, Number(name="low")) | Op(a.ReluOp, x), Number(name="high")
    )

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        low = match.number("low") if "low" in match else 0.0
        names = [n for n in ("low", "high") if n in match]
        if low > match.number("high") or not keeps_shape(match, *names):
            return None
        limits = [emit.number(n, match["x"]) for n in (low, match.number("high"))]
        return emit(g.ClampOp, match["x"], *limits)


def x_above(number: Number, below: Pattern) -> Op:
    """x where x exceeds a number, else another value"""
    greater = Op(g.CompareOp, x, number, predicate=lambda p: p.data in ("gt", "ge"))
    return Op(g.SelectOp, greater, x, below)


class FindLeakyRelu(Rule):
    """x where x > 0, else a x"""

    name = "find-leaky-relu"
    pattern = x_above(Number(0.0, "zero"), Op(g.MulOp, x, Number(name="slope")))

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        if not keeps_shape(match, "zero", "slope"):
            return None
        return emit(a.LeakyReluOp, match["x"], alpha=match.number("slope"))


class FindElu(Rule):
    """x where x > 0, else alpha (exp(x) - 1)"""

    name = "find-elu"
    pattern = x_above(Number(0.0, "zero"), Value("below"))

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        x, below = match["x"], match["below"]
        for t in poly.inner_values(below):
            if isinstance(t.owner, g.ExpOp) and t.owner.input is x and t.has_one_use():
                alpha = expanded(below, t).get(poly.monomial({t: 1}), 0.0)
                if equals(below, t, {0: -alpha, 1: alpha}) and keeps_shape(match, "zero"):
                    return emit(a.EluOp, x, alpha=alpha) if below.type == x.type else None
        return None


def softplus_bounds(element: Attribute) -> tuple[float, float]:
    """Between these numbers softplus(x) is x to half a ULP, and exp(x) is in range."""
    if isinstance(element, Float64Type):
        return 34, 700
    return (8, 11) if is_narrow(element) else (16, 80)


class FindSoftplus(FindUnary):
    """max(x, 0) + log(1 + exp(-|x|)), or x where x > c, else log(1 + exp(x)): c is so large that
    both are the same there, and so small that exp has not overflowed."""

    name = "find-softplus"
    kind, numbers = a.SoftplusOp, ("c",)
    pattern = x_above(Number(name="c"), LOG_EXP | Op(a.SoftplusOp, x))

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        least, most = softplus_bounds(element_type(match["x"]))
        return super().replace(match, emit) if least <= match.number("c") <= most else None


class FindStableSoftplus(FindUnary):
    """max(x, 0) + log(1 + exp(-|x|))"""

    name = "find-softplus"
    kind = a.SoftplusOp
    pattern = Op(
        g.AddOp,
        Op(a.ReluOp, x) | Op(g.MaximumOp, x, Number(0.0)),
        Op(g.LogOp, Op(g.AddOp, Number(1.0), Op(g.ExpOp, Op(g.NegOp, Op(g.AbsOp, x))))),
    )


class FindBareSoftplus(FindUnary):
    """log(1 + exp(x))"""

    name = "find-softplus"
    kind = a.SoftplusOp
    pattern = LOG_EXP


@dataclass(frozen=True)
class FindActivationsPass(FunctionPass):
    """Replace activation functions that are written out by graph ops. `aggressive`: also where
    the written form overflows and the op does not."""

    name = "find-activations"
    aggressive: bool = False

    @property
    def RELATION(self) -> Relation:
        return Ulps(overflow=self.aggressive)

    def run(self, func: FuncOp) -> None:
        patterns: list[RewritePattern] = [
            NarrowComputation(),
            FindRelu(),
            FindClamp(),
            FindLeakyRelu(),
            FindElu(),
            FindSoftplus(),
            FindStableSoftplus(),
            FindActivation(),
        ]
        rewrite(func.body, [*patterns, FindBareSoftplus()] if self.aggressive else patterns)
