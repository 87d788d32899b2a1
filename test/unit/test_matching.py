"""The matcher of patterns, and rules made of them."""

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.parser import Parser

from ge.dialects.graph.activation import ReluOp, SigmoidOp, SiluOp
from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.elementwise import AddOp, CastOp, ExpOp, MulOp, SubOp, TanhOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.slicing import ConcatOp, SplitOp
from ge.lowering.driver.compiler import context
from ge.transforms.rewriting.counts import collecting
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.matching import (
    Constant,
    Many,
    Match,
    Maybe,
    Miss,
    Number,
    Op,
    Pattern,
    Through,
    Value,
)
from ge.transforms.rewriting.remarks import collecting as collecting_remarks
from ge.transforms.rewriting.rules import Emit, Rule


def parse(body: str, arguments: str = "%x: tensor<4xf32>, %y: tensor<4xf32>") -> ModuleOp:
    """A module with one function of one statement a line, which returns nothing."""
    text = "func.func @main(" + arguments + ") {\n" + body + "\nfunc.return\n}"
    return Parser(context(), text).parse_module()


def unary(name: str, result: str, operand: str) -> str:
    return f"{result} = graph.{name} {operand} : (tensor<4xf32>) -> tensor<4xf32>\n"


def binary(name: str, result: str, lhs: str, rhs: str, second: str = "tensor<4xf32>") -> str:
    types = f"(tensor<4xf32>, {second}) -> tensor<4xf32>"
    return f"{result} = graph.{name} {lhs}, {rhs} : {types}\n"


def last(module: ModuleOp) -> Operation:
    """The last op before the return."""
    ops = [op for op in module.walk() if op.name.startswith("graph.")]
    return ops[-1]


def argument(module: ModuleOp, index: int) -> SSAValue:
    (func,) = module.ops
    return func.regions[0].block.args[index]


x, y = Value("x"), Value("y")


def test_captures_and_ops() -> None:
    module = parse(unary("sigmoid", "%0", "%x") + binary("mul", "%1", "%x", "%0"))
    found = Op(MulOp, x, Op(SigmoidOp, x)).match(last(module))
    assert found is not None
    assert found["x"] is argument(module, 0)
    assert [op.name for op in found.ops] == ["graph.mul", "graph.sigmoid"]
    assert found.root is last(module)
    assert found.get("y") is None
    assert "x" in found
    assert "y" not in found


def test_the_same_name_is_the_same_value() -> None:
    module = parse(unary("sigmoid", "%0", "%y") + binary("mul", "%1", "%x", "%0"))
    miss = Miss()
    assert Op(MulOp, x, Op(SigmoidOp, x)).match(last(module), miss) is None
    assert Op(MulOp, x, Op(SigmoidOp, y)).match(last(module)) is not None


@pytest.mark.parametrize("operands", [("%x", "%0"), ("%0", "%x")])
def test_commutative_operands(operands: tuple[str, str]) -> None:
    pattern = Op(MulOp, Op(SigmoidOp, x), x)
    module = parse(unary("sigmoid", "%0", "%x") + binary("mul", "%1", *operands))
    assert pattern.match(last(module)) is not None
    ordered = Op(MulOp, Op(SigmoidOp, x), x, ordered=True)
    assert (ordered.match(last(module)) is not None) == (operands[0] == "%0")


def test_operands_of_a_difference_keep_their_order() -> None:
    module = parse(unary("sigmoid", "%0", "%x") + binary("sub", "%1", "%x", "%0"))
    assert Op(SubOp, Op(SigmoidOp, x), x).match(last(module)) is None
    assert Op(SubOp, x, Op(SigmoidOp, x)).match(last(module)) is not None


def test_backtracking() -> None:
    # the first order binds x to the sigmoid, and fails further in
    text = unary("sigmoid", "%0", "%x") + unary("exp", "%1", "%x")
    module = parse(text + binary("add", "%2", "%0", "%x") + binary("mul", "%3", "%2", "%1"))
    pattern = Op(MulOp, Op(AddOp, x, y), Op(ExpOp, x))
    found = pattern.match(last(module))
    assert found is not None
    assert found["x"] is argument(module, 0)


@pytest.mark.parametrize(
    ("constant", "matches"),
    [
        ("dense<2.0> : tensor<f32>", True),
        ("dense<2.0> : tensor<1xf32>", True),
        ("dense<2.0> : tensor<4xf32>", True),
        ("dense<[2.0, 2.0, 2.0, 2.0]> : tensor<4xf32>", True),
        ("dense<2.0000001> : tensor<f32>", True),
        ("dense<2.001> : tensor<f32>", False),
        ("dense<[2.0, 2.0, 2.0, 1.0]> : tensor<4xf32>", False),
    ],
)
def test_numbers(constant: str, matches: bool) -> None:
    kind = constant.split(" : ")[1]
    module = parse(f"%c = graph.constant {constant}\n" + binary("mul", "%0", "%x", "%c", kind))
    found = Op(MulOp, x, Number(2.0)).match(last(module))
    assert (found is not None) == matches
    any_number = Op(MulOp, x, Number(name="c")).match(last(module))
    if any_number is not None:
        assert any_number.number("c") == pytest.approx(2.0, rel=1e-3)


def test_numbers_are_as_near_as_the_type_can_be() -> None:
    arguments = "%x: tensor<4xf16>"
    body = "%c = graph.constant dense<0.7978> : tensor<f16>\n"
    body += "%0 = graph.mul %x, %c : (tensor<4xf16>, tensor<f16>) -> tensor<4xf16>"
    module = parse(body, arguments)
    assert Op(MulOp, x, Number(0.7978845608)).match(last(module)) is not None


@pytest.mark.parametrize(
    ("element", "number", "value", "matches"),
    [
        ("f32", "0.7978846", 0.7978845608028654, True),
        ("f32", "0.797885", 0.7978845608028654, False),
        ("f32", "1.0000002", 1.0, False),
        ("f64", "0.79788456", 0.7978845608028654, False),
        ("f64", "0.797884560802866", 0.7978845608028654, True),
    ],
)
def test_numbers_are_held_to_the_accuracy_of_their_type(
    element: str, number: str, value: float, matches: bool
) -> None:
    t = f"tensor<4x{element}>"
    body = f"%c = graph.constant dense<{number}> : tensor<{element}>\n"
    body += f"%0 = graph.mul %x, %c : ({t}, tensor<{element}>) -> {t}"
    module = parse(body, f"%x: {t}")
    assert (Op(MulOp, x, Number(value)).match(last(module)) is not None) == matches


def test_constants() -> None:
    weight = '%c = graph.constant #graph.weight<"w"> : tensor<4xf32>\n'
    module = parse(weight + binary("mul", "%0", "%x", "%c"))
    found = Op(MulOp, x, Constant("w")).match(last(module))
    assert found is not None
    assert Op(MulOp, x, Number()).match(last(module)) is None
    module = parse(binary("mul", "%0", "%x", "%y"))
    assert Op(MulOp, x, Constant("w")).match(last(module)) is None


def test_a_use_outside() -> None:
    body = unary("sigmoid", "%0", "%x") + unary("exp", "%1", "%0")
    module = parse(body + binary("mul", "%2", "%x", "%0"))
    miss = Miss()
    assert Op(MulOp, x, Op(SigmoidOp, x)).match(last(module), miss) is None
    assert miss.why == "the result of graph.sigmoid is used elsewhere too"
    assert Op(MulOp, x, Op(SigmoidOp, x, shared=True)).match(last(module)) is not None


def test_a_value_used_twice_inside() -> None:
    body = unary("sigmoid", "%0", "%x") + unary("tanh", "%1", "%0")
    module = parse(body + binary("mul", "%2", "%0", "%1"))
    inner = Op(SigmoidOp, x, name="inner")
    found = Op(MulOp, inner, Op(TanhOp, inner)).match(last(module))
    assert found is not None
    assert len(found.ops) == 3


def test_choice_and_classes() -> None:
    pattern = Op(MulOp, x, Op(SigmoidOp, x) | Op((TanhOp, ReluOp), x))
    for name, matches in (("sigmoid", True), ("tanh", True), ("relu", True), ("exp", False)):
        module = parse(unary(name, "%0", "%x") + binary("mul", "%1", "%x", "%0"))
        assert (pattern.match(last(module)) is not None) == matches


CONV = "(tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>{0}) -> tensor<1x4x6x6xf32>"
CONV_ARGUMENTS = "%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<4xf32>"


def test_optional_operands() -> None:
    without = parse("%0 = graph.conv %x, %w : " + CONV.format(""), CONV_ARGUMENTS)
    bias = "%0 = graph.conv %x, %w bias %b : " + CONV.format(", tensor<4xf32>")
    with_bias = parse(bias, CONV_ARGUMENTS)
    w = Value("w")
    cases: list[tuple[Pattern, bool, bool]] = [
        (Op(ConvOp, x, w), True, False),
        (Op(ConvOp, x, w, None), True, False),
        (Op(ConvOp, x, w, Maybe(Value("b"))), True, True),
        (Op(ConvOp, x, w, Value("b")), False, True),
        (Op(ConvOp, x, ...), True, True),
    ]
    for pattern, first, second in cases:
        assert (pattern.match(last(without)) is not None) == first
        assert (pattern.match(last(with_bias)) is not None) == second
    found = cases[2][0].match(last(without))
    assert found is not None
    assert found.get("b") is None


CONCAT = "%0 = graph.concat {0} axis 0 : ({1}) -> tensor<{2}xf32>"


def test_variadic_operands() -> None:
    body = CONCAT.format("%x, %y, %x", ", ".join(["tensor<4xf32>"] * 3), 12)
    module = parse(body)
    found = Op(ConcatOp, Many("parts")).match(last(module))
    assert found is not None
    assert len(found.many("parts")) == 3
    assert Op(ConcatOp, Many("parts", at_least=4)).match(last(module)) is None
    assert Op(ConcatOp, (x, y, x)).match(last(module)) is not None
    assert Op(ConcatOp, (x, y)).match(last(module)) is None
    assert Op(ConcatOp, x, y, x).match(last(module)) is not None
    assert Op(ConcatOp, x, y, y).match(last(module)) is None
    assert Op(ConcatOp, x).match(last(module)) is None
    assert Op(ConcatOp, x, y, ...).match(last(module)) is not None
    assert Op(ConcatOp, x, x, ...).match(last(module)) is None
    assert Op(ConcatOp, (x, ...)).match(last(module)) is not None
    assert Op(ConcatOp, x, y).match(last(module), miss := Miss()) is None
    assert miss.why == "graph.concat has 3 operands, not 2"
    assert Op(ConcatOp, (x, x, y)).match(last(module)) is None


def test_several_results_of_one_op() -> None:
    split = "graph.split %x axis 0 : (tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)\n"
    halves = "%a, %b = " + split
    gated = Op(
        MulOp,
        Op(SigmoidOp, Op(SplitOp, x, name="split", result=0)),
        Op(SplitOp, x, name="split", result=1),
    )
    arguments = "%x: tensor<8xf32>"
    one = parse(halves + unary("sigmoid", "%0", "%a") + binary("mul", "%1", "%b", "%0"), arguments)
    found = gated.match(last(one))
    assert found is not None
    assert found.op("split", SplitOp).axis.value.data == 0
    body = halves + "%c, %d = " + split
    two = parse(body + unary("sigmoid", "%0", "%a") + binary("mul", "%1", "%d", "%0"), arguments)
    assert gated.match(last(two)) is None
    swapped = halves + unary("sigmoid", "%0", "%b") + binary("mul", "%1", "%a", "%0")
    assert gated.match(last(parse(swapped, arguments))) is None


def test_properties_and_predicates() -> None:
    body = "%0 = graph.reduce mean %x axes [0] : (tensor<4xf32>) -> tensor<1xf32>"
    module = parse(body)
    assert Op(ReduceOp, x, kind="mean", axes=(0,)).match(last(module)) is not None
    assert Op(ReduceOp, x, kind="sum").match(last(module)) is None
    longer = Op(ReduceOp, x, axes=lambda a: len(a) > 1)
    assert longer.match(last(module)) is None

    def is_product(op: Operation) -> bool:
        """The sum is a product."""
        return isinstance(op, MatmulOp)

    miss = Miss()
    assert Op(ReduceOp, x, where=is_product).match(last(module), miss) is None
    assert miss.why == "does not hold: The sum is a product."


def test_behind_other_ops() -> None:
    cast = "%0 = graph.cast %x to f16 : (tensor<4xf32>) -> tensor<4xf16>\n"
    cast += "%1 = graph.cast %0 to f32 : (tensor<4xf16>) -> tensor<4xf32>\n"
    module = parse(
        unary("sigmoid", "%s", "%y") + cast.replace("%x", "%s") + unary("exp", "%2", "%1")
    )
    pattern = Op(ExpOp, Through(CastOp, Op(SigmoidOp, x)))
    found = pattern.match(last(module))
    assert found is not None
    assert len(found.ops) == 4
    assert pattern.match(last(parse(unary("sigmoid", "%s", "%y") + unary("exp", "%2", "%s"))))


def test_ops_of_another_block() -> None:
    text = """
    %t = graph.constant dense<true> : tensor<i1>
    %s = graph.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
    %0 = graph.if %t : (tensor<i1>) -> tensor<4xf32> {
      %1 = graph.mul %x, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      graph.yield %1 : tensor<4xf32>
    } else {
      graph.yield %x : tensor<4xf32>
    }
    """
    module = parse(text)
    (mul,) = [op for op in module.walk() if isinstance(op, MulOp)]
    assert Op(MulOp, x, Op(SigmoidOp, x)).match(mul) is None


class FindSilu(Rule):
    name = "find-silu"
    pattern = Op(MulOp, x, Op(SigmoidOp, x))
    nearly = 2

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        return emit(SiluOp, match["x"])


def test_rule() -> None:
    module = parse(
        unary("sigmoid", "%0", "%x") + binary("mul", "%1", "%x", "%0") + unary("exp", "%2", "%1")
    )
    with collecting() as counts:
        rewrite(module, [FindSilu()])
    assert [op.name for op in module.walk() if op.name.startswith("graph")] == [
        "graph.silu",
        "graph.exp",
    ]
    assert (counts["find-silu"].matched, counts["find-silu"].applied) == (1, 1)


def test_a_near_miss_is_remarked() -> None:
    body = unary("sigmoid", "%0", "%x") + unary("exp", "%1", "%0")
    module = parse(body + binary("mul", "%2", "%x", "%0"))
    with collecting_remarks() as remarks:
        rewrite(module, [FindSilu()])
    assert [str(r) for r in remarks] == [
        "find-silu missed: the result of graph.sigmoid is used elsewhere too (about 4.6 us)"
    ]


@pytest.mark.parametrize("kind", ["mul", "sub"])
@pytest.mark.parametrize("operands", [("%0", "%1"), ("%1", "%0"), ("%0", "%x"), ("%x", "%1")])
def test_what_is_rejected_at_once_does_not_match(kind: str, operands: tuple[str, str]) -> None:
    above = unary("sigmoid", "%0", "%x") + unary("tanh", "%1", "%x")
    root = last(parse(above + binary(kind, "%2", *operands)))
    kinds, sigmoid, tanh = (MulOp, SubOp), Op(SigmoidOp, x), Op(TanhOp, x)
    for parts in ((sigmoid, tanh), (sigmoid, y), (y, tanh), (y, x)):
        pattern = Op(kinds, *parts)
        assert pattern.rejects(root) <= (pattern.match(root) is None)
    assert Op(kinds, sigmoid, tanh).rejects(root) == (Op(kinds, sigmoid, tanh).match(root) is None)
