"""Activation functions found again in the elementwise ops that exporters write out.

    %0 = graph.div %x, %sqrt2
    %1 = graph.erf %0
    %2 = graph.add %1, %one
    %3 = graph.mul %x, %2
    %4 = graph.mul %3, %half
becomes
    %4 = graph.gelu %x

A search starts at the op that no polynomial expresses (erf, tanh, sigmoid, exp, clamp) and looks
whether what is made of its result t is one of the polynomials of the table. So it does not matter
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
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import Float64Type, ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint

from ge.dialects.graph.activation import (
    EluOp,
    GeluOp,
    HardSigmoidOp,
    HardSwishOp,
    LeakyReluOp,
    MishOp,
    ReluOp,
    SigmoidOp,
    SiluOp,
    SoftplusOp,
)
from ge.dialects.graph.elementwise import (
    AbsOp,
    AddOp,
    ClampOp,
    CompareOp,
    ErfOp,
    ExpOp,
    LogOp,
    MaximumOp,
    MinimumOp,
    MulOp,
    NegOp,
    SelectOp,
    TanhOp,
)
from ge.dialects.support.element_types import is_float
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, is_static, numel, shape_of
from ge.transforms.analysis.polynomials import (
    ONE,
    Expansion,
    Polynomial,
    atoms,
    element_tolerance,
    inner_values,
    monomial,
    powers,
    reachable,
    same,
)
from ge.transforms.graph.composites.widening import NarrowComputation, is_narrow
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.counts import is_enabled
from ge.transforms.rewriting.driver import fuse_locations, rewrite
from ge.transforms.rewriting.losses import loss_us
from ge.transforms.rewriting.matching import Match, Number, Op, Value, near, number_of
from ge.transforms.rewriting.relations import Relation, Ulps
from ge.transforms.rewriting.rules import Emit, Rule, Search, done, substitute

x = Value("x")

LOG_EXP = Op(LogOp, Op(AddOp, Number(1.0), Op(ExpOp, x)))

Composite = tuple[type[TensorOp], dict[str, Any]]
"""An op class and its properties."""

Form = tuple[Polynomial, Composite]
"""What the polynomial in x and t must be, and the composite of x that it then is."""


def in_x_and_t(x: SSAValue, t: SSAValue, terms: dict[tuple[int, int], float]) -> Polynomial:
    """The polynomial with these coefficients by powers of x and t."""
    return {monomial({x: a, t: b}): c for (a, b), c in terms.items()}


def expanded(value: SSAValue, *atoms: SSAValue) -> Polynomial:
    """The value as a polynomial; the shape of what is found in the end is compared with x's, so
    splats are numbers where it is static."""
    return Expansion(atoms, splats=is_static(shape_of(value))).of(value)


def polynomial_in(value: SSAValue, x: SSAValue) -> dict[int, float] | None:
    """The coefficients by power of a value that is a polynomial in x alone, else None."""
    result: dict[int, float] = {}
    for m, c in expanded(value, x).items():
        if any(v is not x or p != int(p) for v, p in m):
            return None
        result[int(sum(p for _, p in m))] = c
    return result


def slope(value: SSAValue, x: SSAValue) -> float | None:
    """a, where the value is a x."""
    found = polynomial_in(value, x)
    return found[1] if found is not None and set(found) == {1} else None


def softplus_argument(value: SSAValue) -> SSAValue | None:
    """x, where the value is log(1 + exp(x))."""
    if isinstance(value.owner, SoftplusOp):
        return value.owner.input
    found = LOG_EXP.match(value)
    return None if found is None else found["x"]


def erf_forms(op: ErfOp, x: SSAValue) -> Iterator[Form]:
    t, u = op.result, op.input
    if same(expanded(u, x), powers(x, {1: sqrt(0.5)}), element_tolerance(x)):
        yield in_x_and_t(x, t, {(1, 0): 0.5, (1, 1): 0.5}), (GeluOp, {})


def is_gelu_line(value: SSAValue, x: SSAValue, factor: float) -> bool:
    """Whether the value is factor sqrt(2/pi) (x + 0.044715 x^3)."""
    c = factor * sqrt(2 / pi)
    return same(expanded(value, x), powers(x, {1: c, 3: 0.044715 * c}), element_tolerance(x))


def tanh_forms(op: TanhOp, x: SSAValue) -> Iterator[Form]:
    """Forms with tanh: mish, gelu by its tanh approximation, and silu and sigmoid written with
    tanh(x / 2)."""
    t, u = op.result, op.input
    if (argument := softplus_argument(u)) is not None:
        if argument is x:
            yield in_x_and_t(x, t, {(1, 1): 1}), (MishOp, {})
        return
    if is_gelu_line(u, x, 1):
        half = in_x_and_t(x, t, {(1, 0): 0.5, (1, 1): 0.5})
        yield half, (GeluOp, {"approximate": "tanh"})
    elif same(expanded(u, x), powers(x, {1: 0.5}), element_tolerance(x)):
        yield in_x_and_t(x, t, {(1, 0): 0.5, (1, 1): 0.5}), (SiluOp, {})
        yield in_x_and_t(x, t, {(0, 0): 0.5, (0, 1): 0.5}), (SigmoidOp, {})


def swish(value: SSAValue, x: SSAValue, sign: int = 1) -> Composite | None:
    """x sigmoid(sign value), if it is one: silu, or gelu by an approximation. That by tanh is one
    as (1 + tanh u) / 2 = sigmoid(2 u)."""
    if is_gelu_line(value, x, 2 * sign):
        return GeluOp, {"approximate": "tanh"}
    if not (a := slope(value, x)):
        return None
    if near(sign * a, 1.702, element_tolerance(x)):
        return GeluOp, {"approximate": "sigmoid"}
    return SiluOp, {"alpha": sign * a}


def sigmoid_forms(op: SigmoidOp, x: SSAValue) -> Iterator[Form]:
    if (composite := swish(op.input, x)) is not None:
        yield in_x_and_t(x, op.result, {(1, 1): 1}), composite


def exp_forms(op: ExpOp, x: SSAValue) -> Iterator[Form]:
    """The result is an atom of 1 + t, which in turn is one of the quotient."""
    if (composite := swish(op.input, x, sign=-1)) is None:
        return
    for use in op.result.uses:
        if isinstance(use.operation, AddOp):
            d = use.operation.result
            one_more = {ONE: 1.0, monomial({op.result: 1}): 1.0}
            if same(expanded(d, op.result), one_more, element_tolerance(x)):
                yield in_x_and_t(x, d, {(1, -1): 1}), composite
                if slope(op.input, x) == -1:
                    yield in_x_and_t(x, d, {(0, -1): 1}), (SigmoidOp, {})


def clamped_line(op: ClampOp, x: SSAValue) -> tuple[float, float, float] | None:
    """a / h, b / h and h, where the clamp is min(max(a x + b, 0), h)."""
    low = None if op.low is None else number_of(op.low)
    high = None if op.high is None else number_of(op.high)
    line = polynomial_in(op.input, x)
    if low != 0 or high is None or high <= 0 or line is None:
        return None
    if not set(line) <= {0, 1} or not line.get(1):
        return None
    return line[1] / high, line.get(0, 0.0) / high, high


def clamp_swish_forms(op: ClampOp, x: SSAValue) -> Iterator[Form]:
    """x * clamp(x + 3, 0, 6) / 6."""
    if (found := clamped_line(op, x)) is not None:
        a, b, high = found
        if near(a, 1 / 6, element_tolerance(x)) and near(b, 0.5, element_tolerance(x)):
            yield in_x_and_t(x, op.result, {(1, 1): 1 / high}), (HardSwishOp, {})


def clamp_sigmoid_forms(op: ClampOp, x: SSAValue) -> Iterator[Form]:
    """clamp(a x + b, 0, high) / high."""
    if (found := clamped_line(op, x)) is not None and op.input is not x:
        a, b, high = found
        sigmoid: Composite = (HardSigmoidOp, {"alpha": a, "beta": b})
        yield in_x_and_t(x, op.result, {(0, 1): 1 / high}), sigmoid


def hard_sigmoid_forms(op: HardSigmoidOp, x: SSAValue) -> Iterator[Form]:
    a, b, tolerance = op.alpha.value.data, op.beta.value.data, element_tolerance(x)
    if op.input is x and near(a, 1 / 6, tolerance) and near(b, 0.5, tolerance):
        yield in_x_and_t(x, op.result, {(1, 1): 1}), (HardSwishOp, {})


FORMS: dict[type[Operation], tuple[Callable[..., Iterator[Form]], ...]] = {
    ErfOp: (erf_forms,),
    TanhOp: (tanh_forms,),
    SigmoidOp: (sigmoid_forms,),
    ExpOp: (exp_forms,),
    ClampOp: (clamp_swish_forms, clamp_sigmoid_forms),
    HardSigmoidOp: (hard_sigmoid_forms,),
}


def arguments(op: Operation) -> Iterable[SSAValue]:
    """What the expression may be a function of: the op's operand and what that is made of. A
    clamped line takes in as many ops as it can."""
    u = op.operands[0]
    if isinstance(op, TanhOp) and (argument := softplus_argument(u)) is not None:
        return (argument,)
    values = inner_values(u)
    return reversed(values) if isinstance(op, ClampOp) else values


def rule_of(composite: Composite) -> str:
    """The name under which finding a composite is counted and remarked."""
    return f"find-{composite[0].name.removeprefix('graph.').replace('_', '-')}"


def expand(end: SSAValue, x: SSAValue, wanted: Polynomial) -> Expansion | None:
    """How `end` is made up, if it is the wanted polynomial and of x's shape."""
    if end.type != x.type:
        return None
    expansion = Expansion({x} | atoms(wanted), splats=is_static(shape_of(x)))
    found = same(expansion.of(end), wanted, element_tolerance(x))
    return expansion if found else None


def uses_all(
    expansion: Expansion, op: Operation, x: SSAValue, wanted: Polynomial, end: SSAValue
) -> bool:
    """Whether nothing else is made of the op's result, or of the atom that it goes into."""
    (t,) = atoms(wanted) - {x}
    if t is not op.results[0] and not op.results[0].has_one_use():
        return False
    return t is end or expansion.uses_all(t, end)


class FindActivation(Search):
    """The table above, tried for each x that the op's operand is made of."""

    names = tuple(
        f"find-{n}" for n in ("gelu", "silu", "sigmoid", "mish", "hard-swish", "hard-sigmoid")
    )
    ops = tuple(FORMS)

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not is_float(element_type(op.results[0])):
            return
        ends = reachable(op.results[0])
        nearest: Composite | None = None
        why = f"what {op.name} leads to is another function"
        for x, wanted, composite in self.candidates(op):
            nearest = nearest or composite
            for end in ends:
                if (expansion := expand(end, x, wanted)) is None:
                    continue
                if uses_all(expansion, op, x, wanted, end):
                    self.replace(rewriter, end, x, composite, (*expansion.ops, op))
                    return
                why = f"the result of {op.name} is used elsewhere too"
        if nearest is not None and remarks.wanted():
            seen = [op, *(end.owner for end in ends if isinstance(end.owner, Operation))]
            remarks.missed(rule_of(nearest), op, why, loss_us(seen))

    def candidates(self, op: Operation) -> Iterator[tuple[SSAValue, Polynomial, Composite]]:
        """What the op may be part of: x, the polynomial, and the composite of x that it is."""
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
        """Put the composite of x in the place of `end`; `ops` make it up, the last one first."""
        kind, params = composite
        new = kind.of(x, location=fuse_locations(reversed(ops)), **params)
        rewriter.insert(new, InsertPoint.before(ops[0]))
        done(rule_of(composite), new)
        substitute(rewriter, end, new.results[0])


# ---- patterns of other ops -------------------------------------------------------------------


class FindRelu(Rule):
    """max(x, 0)"""

    name = "find-relu"
    pattern = Op(MaximumOp, x, Number(0.0, "zero"))

    def replace(self, found: Match, emit: Emit) -> SSAValue | None:
        return emit(ReluOp, found["x"]) if keeps_shape(found, "zero") else None


class FindClamp(Rule):
    """min(max(x, low), high); max(x, 0) may have become relu."""

    name = "find-clamp"
    pattern = Op(
        MinimumOp, Op(MaximumOp, x, Number(name="low")) | Op(ReluOp, x), Number(name="high")
    )

    def replace(self, found: Match, emit: Emit) -> SSAValue | None:
        low = found.number("low") if "low" in found else 0.0
        names = [n for n in ("low", "high") if n in found]
        if low > found.number("high") or not keeps_shape(found, *names):
            return None
        limits = [emit.number(n, found["x"]) for n in (low, found.number("high"))]
        return emit(ClampOp, found["x"], *limits)


class FindLeakyRelu(Rule):
    """x where x > 0, else a x"""

    name = "find-leaky-relu"
    pattern = Op(
        SelectOp,
        Op(CompareOp, x, Number(0.0, "zero"), predicate=lambda p: p.data in ("gt", "ge")),
        x,
        Op(MulOp, x, Number(name="slope")),
    )

    def replace(self, found: Match, emit: Emit) -> SSAValue | None:
        if not keeps_shape(found, "zero", "slope"):
            return None
        return emit(LeakyReluOp, found["x"], alpha=found.number("slope"))


class FindElu(Rule):
    """x where x > 0, else alpha (exp(x) - 1)"""

    name = "find-elu"
    pattern = Op(
        SelectOp,
        Op(CompareOp, x, Number(0.0, "zero"), predicate=lambda p: p.data in ("gt", "ge")),
        x,
        Value("below"),
    )

    def replace(self, found: Match, emit: Emit) -> SSAValue | None:
        x, below = found["x"], found["below"]
        for t in inner_values(below):
            if isinstance(t.owner, ExpOp) and t.owner.input is x and t.has_one_use():
                actual = expanded(below, t)
                alpha = actual.get(monomial({t: 1}), 0.0)
                wanted = {monomial({t: 1}): alpha, ONE: -alpha}
                if same(actual, wanted, element_tolerance(x)) and keeps_shape(found, "zero"):
                    return emit(EluOp, x, alpha=alpha) if below.type == x.type else None
        return None


def softplus_bounds(element: Attribute) -> tuple[float, float]:
    """Between these numbers softplus(x) is x to half a ULP, and exp(x) is in range."""
    if isinstance(element, Float64Type):
        return 34, 700
    return (8, 11) if is_narrow(element) else (16, 80)


class FindSoftplus(Rule):
    """max(x, 0) + log(1 + exp(-|x|)), or x where x > c, else log(1 + exp(x)): c is so large that
    both are the same there, and so small that exp has not overflowed."""

    name = "find-softplus"
    pattern = Op(
        SelectOp,
        Op(CompareOp, x, Number(name="c"), predicate=lambda p: p.data in ("gt", "ge")),
        x,
        LOG_EXP | Op(SoftplusOp, x),
    )

    def replace(self, found: Match, emit: Emit) -> SSAValue | None:
        least, most = softplus_bounds(element_type(found["x"]))
        if not least <= found.number("c") <= most or not keeps_shape(found, "c"):
            return None
        return emit(SoftplusOp, found["x"])


class FindStableSoftplus(Rule):
    """max(x, 0) + log(1 + exp(-|x|))"""

    name = "find-softplus"
    pattern = Op(
        AddOp,
        Op(ReluOp, x) | Op(MaximumOp, x, Number(0.0)),
        Op(LogOp, Op(AddOp, Number(1.0), Op(ExpOp, Op(NegOp, Op(AbsOp, x))))),
    )

    def replace(self, found: Match, emit: Emit) -> SSAValue | None:
        return emit(SoftplusOp, found["x"]) if keeps_shape(found) else None


class FindBareSoftplus(Rule):
    """log(1 + exp(x))"""

    name = "find-softplus"
    pattern = LOG_EXP

    def replace(self, found: Match, emit: Emit) -> SSAValue | None:
        return emit(SoftplusOp, found["x"]) if keeps_shape(found) else None


def keeps_shape(found: Match, *numbers: str) -> bool:
    """Whether the numbers have one element each, and the root has the shape of x."""
    one = all(numel(shape_of(found[n])) == 1 for n in numbers)
    return one and found.root.results[0].type == found["x"].type


@dataclass(frozen=True)
class FindActivationsPass(ModulePass):
    """Replace activation functions that are written out by graph ops. `aggressive`: also where
    the written form overflows and the op does not."""

    name = "find-activations"

    aggressive: bool = False

    @property
    def RELATION(self) -> Relation:
        """What the rules may do to the numbers."""
        return Ulps(overflow=self.aggressive)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
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
        rewrite(op, [*patterns, FindBareSoftplus()] if self.aggressive else patterns)
