"""Control flow: `graph.if`, `graph.case` and `graph.loop` hold regions of graph ops and see the
values around them. They have no kernels: the interpreter runs their regions. `graph.assert` stands
for a branch that cannot be taken: it has a kernel, which raises where the condition does not hold.

The results of branches, and a loop's carried values, have the most precise type that covers all
their sources: dimensions that differ become `?`; where even the ranks differ it is unranked
(`tensor<*xf32>`), which ops that need a rank refuse.

A program with a body for each of several sizes, the gears, asks for the number of the one that its
inputs have (`graph.map_index`), and has values of the sizes of one of them (`graph.assume_shape`).
"""

from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    StringAttr,
    TensorType,
    UnrankedTensorType,
    i1,
    i64,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    opt_operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsTerminator,
    NoMemoryEffect,
    Pure,
    RecursivelySpeculatable,
    RecursiveMemoryEffect,
    ReturnLike,
)
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.support import parameters as f
from ge.dialects.graph.support.parameters import SEGMENTED, TYPES, OneResultOp
from ge.dialects.support.boxes import Box, Work
from ge.dialects.support.constraints import (
    ANY,
    INDICES,
    INTS,
    TRUTHS,
    VALUES,
)
from ge.dialects.support.operation import GeOp, initialize
from ge.dialects.support.tensor_op import IndexMap, SpeculatableUnlessItFails, TensorOp, table_of
from ge.dialects.support.types import (
    DYNAMIC,
    AnyTensor,
    array_ints,
    constant_ints,
    element_type,
    is_refinement,
    shape_of,
    shape_text,
    tensor,
)

ITERATION = tensor((), i64)
CONDITION = tensor((), i1)

TENSORS = (TensorType, UnrankedTensorType)


def join(a: Attribute, b: Attribute, what: str) -> Attribute:
    """The most precise tensor type that covers both; `what` names them in an error."""
    if a == b:
        return a
    if not (isinstance(a, TENSORS) and isinstance(b, TENSORS)):
        raise VerifyException(f"{what}: expected tensors, got {a} and {b}")
    s, t = cast(AnyTensor, a), cast(AnyTensor, b)
    if s.element_type != t.element_type:
        raise VerifyException(f"{what}: element types must agree, but are {a} and {b}")
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        m, n = s.get_shape(), t.get_shape()
        if len(m) == len(n):
            dims = (x if x == y else DYNAMIC for x, y in zip(m, n, strict=True))
            return tensor(dims, s.element_type)
    return UnrankedTensorType(s.element_type)


def stacked(length: int, value: SSAValue) -> Attribute:
    t = value.type
    if isinstance(t, UnrankedTensorType):
        return cast(Attribute, t)
    return tensor((length, *shape_of(value)), element_type(value))


def check_single(value: SSAValue, element: Attribute, what: str) -> None:
    """Raises VerifyException unless a value has one element, of this type."""
    if element_type(value) != element or any(d not in (1, DYNAMIC) for d in shape_of(value)):
        raise VerifyException(f"{what} must be one {element}, not {value.type}")


@irdl_op_definition
class YieldOp(GeOp):
    """The end of a branch or of a loop's body."""

    name = "graph.yield"
    values = var_operand_def(VALUES)
    traits = lazy_traits_def(
        lambda: (IsTerminator(), ReturnLike(), Pure(), HasParent(IfOp, CaseOp, LoopOp))
    )
    assembly_format = "attr-dict ($values^ `:` type($values))?"

    def __init__(self, *values: SSAValue):
        initialize(self, values)


def yielded(region: Region, what: str) -> Sequence[SSAValue]:
    """The operands of the region's terminator; `what` names the region in an error."""
    last = region.block.last_op
    if not isinstance(last, YieldOp):
        raise VerifyException(f"{what} must end in graph.yield")
    return last.operands


@irdl_op_definition
class IfOp(TensorOp):
    """The values of one branch: of `then_region` if the condition holds, else of `else_region`.

    %y = graph.if %cond : (tensor<i1>) -> tensor<4xf32> {
      graph.yield %a : tensor<4xf32>
    } else {
      graph.yield %b : tensor<4xf32>
    }
    """

    name = "graph.if"
    condition = operand_def(TRUTHS)
    outputs = var_result_def(VALUES)
    then_region = region_def("single_block")
    else_region = region_def("single_block")
    traits = traits_def(RecursiveMemoryEffect(), RecursivelySpeculatable())
    assembly_format = (
        "$condition `:` functional-type(operands, results) $then_region `else` $else_region "
        "attr-dict"
    )

    def infer(self) -> Sequence[Attribute]:
        check_single(self.condition, i1, "the condition")
        return joined(self.regions)

    def static_work(self) -> Work:
        raise ValueError("only the branch that is taken costs something")


def joined(branches: Sequence[Region]) -> Sequence[Attribute]:
    """The types that cover the values that each of the branches yields."""
    names = ("the first branch", "the second branch")
    rows: list[Sequence[SSAValue]] = []
    for i, region in enumerate(branches):
        rows.append(yielded(region, names[i] if i < len(names) else f"branch {i}"))
        if region.block.args:
            raise VerifyException("a branch has no arguments; it sees the values around it")
        if len(rows[-1]) != len(rows[0]):
            raise VerifyException(f"the branches yield {len(rows[0])} and {len(rows[-1])} values")
    return [
        reduce(lambda a, b, i=i: join(a, b, f"result {i}"), (v.type for v in values))
        for i, values in enumerate(zip(*rows, strict=True))
    ]


@irdl_op_definition
class CaseOp(TensorOp):
    """The values of the branch with the number `index`.

    %y = graph.case %i : (tensor<i64>) -> tensor<4xf32> {
      graph.yield %a : tensor<4xf32>
    } {
      graph.yield %b : tensor<4xf32>
    }
    """

    name = "graph.case"
    index = operand_def(INDICES)
    outputs = var_result_def(VALUES)
    branches = var_region_def("single_block")
    traits = traits_def(RecursiveMemoryEffect())  # there may be no such branch
    assembly_format = (
        "$index `:` functional-type(operands, results) attr-dict-with-keyword $branches"
    )

    def infer(self) -> Sequence[Attribute]:
        check_single(self.index, i64, "the index")
        if not self.branches:
            raise VerifyException("a case has at least one branch")
        return joined(self.branches)

    def static_work(self) -> Work:
        raise ValueError("only the branch that is taken costs something")


@irdl_op_definition
class AssertOp(OneResultOp, HasFolderInterface):
    """`input`, if `condition` holds; else the run ends in an error that tells `message`."""

    name = "graph.assert"
    input = operand_def(VALUES)
    condition = operand_def(TRUTHS)
    result = result_def(VALUES)
    message = prop_def(StringAttr)
    assembly_format = f"$input `,` $condition `,` $message {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        check_single(self.condition, i1, "the condition")
        return (self.input.type,)

    def can_fail(self) -> bool:
        return True

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        return Box.whole(shape_of(self.condition)) if index else box

    def fold(self) -> f.Folded:
        holds = f.splat(self.condition) == 1 and self.input.type == self.result.type
        return (self.input,) if holds else None


Branching: TypeAlias = IfOp | CaseOp


def branch_of(op: Branching, value: int) -> Region | None:
    """The branch that is taken for a value of the condition or index; None: there is none."""
    if isinstance(op, IfOp):
        return op.then_region if value else op.else_region
    return op.branches[value] if 0 <= value < len(op.branches) else None


@irdl_op_definition
class LoopOp(TensorOp):
    """Runs its body at most `trip_count` times, and as long as the condition holds; one that is
    absent does not end the loop.

        %h, %ys = graph.loop (%i, %go) trip %n : tensor<i64> while %c : tensor<i1>
            carry (%x = %h0 : tensor<2xf32>) -> (tensor<2xf32>, tensor<?x2xf32>) {
          graph.yield %go, %x1, %y : tensor<i1>, tensor<2xf32>, tensor<2xf32>
        }

    The body's arguments are the iteration number, the condition and the carried values. It yields
    the next condition, the next carried values and a slice of each scan result. The results are
    the last carried values and the scan results (the slices stacked along a new first dimension).
    A carried value whose shape changes has `?` there: `%x : tensor<?xf32> = %h0 : tensor<2xf32>`.
    """

    name = "graph.loop"
    trip_count = opt_operand_def(INDICES)
    condition = opt_operand_def(TRUTHS)
    carried = var_operand_def(VALUES)
    outputs = var_result_def(VALUES)
    body = region_def("single_block")
    irdl_options = SEGMENTED
    traits = traits_def(RecursiveMemoryEffect())  # it may never end

    def infer(self) -> Sequence[Attribute]:
        if self.trip_count is not None:
            check_single(self.trip_count, i64, "the trip count")
        if self.condition is not None:
            check_single(self.condition, i1, "the condition")
        self.check_arguments()
        values = yielded(self.body, "the body")
        count = len(self.carried)
        if len(values) < 1 + count:
            raise VerifyException(
                f"the body must yield a condition and {count} carried values, not {len(values)}"
            )
        check_single(values[0], i1, "the condition that the body yields")
        length = self.length()
        scans = [stacked(length, v) for v in values[1 + count :]]
        return [*self.carried_types(), *scans]

    def check_arguments(self) -> None:
        """The body's arguments cover the initial values and those of the next iterations."""
        args = self.body.block.args
        expected = (ITERATION, CONDITION, *(v.type for v in self.carried))
        if len(args) != len(expected):
            raise VerifyException(
                f"the body needs {len(expected)} arguments (iteration number, condition, "
                f"carried values), but has {len(args)}"
            )
        last = yielded(self.body, "the body")[1 : len(self.carried) + 1]
        arriving = (*expected, ITERATION, CONDITION, *(v.type for v in last))
        for arg, t in zip((*args, *args), arriving, strict=False):
            if not is_refinement(t, arg.type):
                raise VerifyException(f"argument {arg.index} is {arg.type}, but gets {t}")

    def carried_types(self) -> list[Attribute]:
        """The types that cover each carried value before the first and after each iteration. When
        one is more general than the body's argument, that must take it on and the types in the body
        be inferred again."""
        last = yielded(self.body, "the body")[1:]
        return [
            join(a.type, b.type, f"carried value {i}")
            for i, (a, b) in enumerate(zip(self.carried, last, strict=False))
        ]

    def length(self) -> int:
        """The number of iterations."""
        trips = None if self.trip_count is None else constant_ints(self.trip_count)
        if trips is None or not self.is_counted():
            return DYNAMIC
        return max(trips[0], 0)

    def is_counted(self) -> bool:
        """True if the condition always holds, so that the trip count alone ends the loop."""
        start = (1,) if self.condition is None else constant_ints(self.condition)
        end = yielded(self.body, "the body")[0]
        steady = end is self.body.block.args[1] or _is_true(constant_ints(end))
        return _is_true(start) and steady

    def static_work(self) -> Work:
        raise ValueError("the work of a loop depends on its rounds")

    @classmethod
    def parse(cls, parser: Parser) -> "LoopOp":
        with parser.in_parens():
            iteration = parser.parse_argument(expect_type=False)
            parser.parse_punctuation(",")
            going = parser.parse_argument(expect_type=False)
        args = [iteration.resolve(ITERATION), going.resolve(CONDITION)]
        trip = _parse_optional(parser, "trip")
        condition = _parse_optional(parser, "while")
        carried: list[SSAValue] = []
        if parser.parse_optional_keyword("carry"):
            items = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: _parse_carried(parser)
            )
            for name, arg_type, operand, t in items:
                carried.append(parser.resolve_operand(operand, t))
                args.append(name.resolve(arg_type or t))
        parser.parse_punctuation("->")
        results = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region(args)
        return cls(
            operands=[trip, condition, carried],
            result_types=[results],
            regions=[body],
            attributes=attributes.data if attributes else {},
        )

    def print(self, printer: Printer) -> None:
        iteration, going, *args = self.body.block.args
        printer.print_string(" (")
        printer.print_list((iteration, going), printer.print_ssa_value)
        printer.print_string(")")
        for keyword, value in (("trip", self.trip_count), ("while", self.condition)):
            if value is not None:
                printer.print_string(f" {keyword} ")
                _print_typed(printer, value)
        if self.carried:
            printer.print_string(" carry (")
            printer.print_list(
                list(zip(args, self.carried, strict=True)), lambda p: _print_carried(printer, *p)
            )
            printer.print_string(")")
        printer.print_string(" -> (")
        printer.print_list(self.result_types, printer.print_attribute)
        printer.print_string(")")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)


Control: TypeAlias = IfOp | CaseOp | LoopOp


def _is_true(constant: tuple[int, ...] | None) -> bool:
    return constant is not None and len(constant) == 1 and bool(constant[0])


def _parse_optional(parser: Parser, keyword: str) -> SSAValue | None:
    """`keyword %value : type`, if it is there."""
    if not parser.parse_optional_keyword(keyword):
        return None
    operand = parser.parse_unresolved_operand()
    parser.parse_punctuation(":")
    return parser.resolve_operand(operand, parser.parse_type())


def _parse_carried(
    parser: Parser,
) -> tuple[Parser.UnresolvedArgument, Attribute | None, UnresolvedOperand, Attribute]:
    """`%argument (: type)? = %value : type`."""
    name = parser.parse_argument(expect_type=False)
    arg_type = parser.parse_type() if parser.parse_optional_punctuation(":") else None
    parser.parse_punctuation("=")
    operand = parser.parse_unresolved_operand()
    parser.parse_punctuation(":")
    return name, arg_type, operand, parser.parse_type()


def _print_typed(printer: Printer, value: SSAValue) -> None:
    printer.print_ssa_value(value)
    printer.print_string(" : ")
    printer.print_attribute(value.type)


def _print_carried(printer: Printer, arg: SSAValue, value: SSAValue) -> None:
    if arg.type == value.type:
        printer.print_ssa_value(arg)
    else:
        _print_typed(printer, arg)
    printer.print_string(" = ")
    _print_typed(printer, value)


@irdl_op_definition
class MapIndexOp(IndexMap, TensorOp):
    """The gear that the inputs have the sizes of.

    %gear = graph.map_index %x, %y axes [0, 1] table [array<i64: 1, 256>, array<i64: 1, 512>]
        : (tensor<?x64xf32>, tensor<1x?xf32>) -> tensor<i64>
    """

    name = "graph.map_index"
    result = result_def(INDICES.of_rank(0))
    traits = traits_def(Pure())
    assembly_format = f"$inputs {TYPES}"

    @classmethod
    def make(
        cls, inputs: Sequence[SSAValue], axes: Sequence[int], rows: Sequence[Sequence[int]]
    ) -> "MapIndexOp":
        return cls(
            operands=[inputs],
            result_types=[tensor((), i64)],
            properties={"axes": DenseArrayBase.from_list(i64, axes), "table": table_of(rows)},
        )

    def infer(self) -> Sequence[Attribute]:
        self.check()
        return (tensor((), i64),)

    def static_work(self) -> Work:
        return Work()


@irdl_op_definition
class AssumeShapeOp(TensorOp):
    """The input, of which `shape` is known where this runs (-1: any size): an error where it is
    another one.

    %y = graph.assume_shape %x shape [1, 256] : (tensor<?x?xi64>) -> tensor<1x256xi64>
    """

    name = "graph.assume_shape"
    input = operand_def(ANY)
    shape = prop_def(INTS)
    result = result_def(ANY)
    traits = traits_def(NoMemoryEffect(), SpeculatableUnlessItFails())
    assembly_format = f"$input {TYPES}"

    @classmethod
    def at(cls, value: SSAValue, shape: Sequence[int]) -> "AssumeShapeOp":
        return cls(
            operands=[value],
            result_types=[tensor(shape, element_type(value))],
            properties={"shape": DenseArrayBase.from_list(i64, shape)},
        )

    def infer(self) -> Sequence[Attribute]:
        shape, known = array_ints(self.shape), shape_of(self.input)
        fits = len(shape) == len(known) and all(
            k in (d, DYNAMIC) for d, k in zip(shape, known, strict=True)
        )
        if not fits:
            raise VerifyException(f"{self.input.type} has no shape {shape_text(shape)}")
        return (tensor(shape, element_type(self.input)),)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        return box

    def static_work(self) -> Work:
        return Work()

    def can_fail(self) -> bool:
        return True
