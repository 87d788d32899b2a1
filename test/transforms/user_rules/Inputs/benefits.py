"""A plug-in for tests: rules by benefit, one on another dialect, one that the model of time judges,
and one that is wrong."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ge.dialects.graph.elementwise import AddOp, ExpOp, MulOp, NegOp, TanhOp
from ge.dialects.graph.linear import MatmulOp
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.matching import Match, Op, Value
from ge.transforms.rewriting.rules import Emit, Rule


class Double(Rule):
    """x + x = x * x, as if x were 2"""

    name = "arith-double"
    pattern = Op(arith.AddfOp, Value("x"), Value("x"))

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        return emit(arith.MulfOp, match["x"], match["x"])


class OfAny(Rule):
    """-x = exp x"""

    name = "neg-of-any"
    pattern = Op(NegOp, Value("x"))

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        return emit(ExpOp, match["x"])


class Better(Rule):
    """-(tanh x) = x x"""

    name = "neg-of-tanh"
    benefit = 2
    pattern = Op(NegOp, Op(TanhOp, Value("x")))

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        return emit(MulOp, match["x"], match["x"])


class Factor(Rule):
    """a b + a d = a (b + d), where that is faster"""

    name = "factor-products"
    pattern = Op(AddOp, Op(MatmulOp, Value("a"), Value("b")), Op(MatmulOp, Value("a"), Value("d")))

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        product = emit(MatmulOp, match["a"], emit(AddOp, match["b"], match["d"]))
        gain = emit.gain_us()
        return product if gain is not None and gain > 0 else None


class Wrong(Rule):
    """tanh x = x x^T"""

    name = "wrong-type"
    pattern = Op(TanhOp, Value("x"))

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        return emit(MatmulOp, match["x"], match["x"], transpose_rhs=True)


@dataclass(frozen=True)
class BenefitsPass(ModulePass):
    """The rules of this file but for the last."""

    name = "benefits"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [Double(), OfAny(), Better(), Factor()])


@dataclass(frozen=True)
class WrongTypePass(ModulePass):
    """The last rule."""

    name = "wrong-type"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [Wrong()])
