"""What devices send each other: ops on the parts of values, in a program that all devices run.

    %g = graph.all_gather %x dim 1 over <"tp"=4> : (tensor<8x4xf32>) -> tensor<8x16xf32>
    %s = graph.all_reduce sum %y over <"tp"=4> : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %e = graph.exchange %x shape [2, 64] has <@mesh, [{}, {"sp":(1)8}]>
             needs <[0 : 2], ["sp"=8 * 8 + -1 : 10]> ...

A group is of the devices that differ along the axes alone, in their order there. Sums are made in
that order, of 16-bit floats in f32. `exchange` gives each device a box of a value, whose first
element follows from its place; elements beyond the ends of the value are `fill`. What a device has
to send whom follows from the boxes.

An op of these is run by all devices of a group, or by none of them: none is moved to another place
of the program than where all have it, so they are not pure."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Data, SSAValue
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.sharding import AxesAttr, ShardingAttr, axis_text, parse_axis
from ge.dialects.graph.support.parameters import TYPES, check_shape, element_axis
from ge.dialects.support.boxes import Work
from ge.dialects.support.constraints import (
    ANY,
    INT,
    INTS,
    choice,
    choice_def,
    opt_choice_def,
)
from ge.dialects.support.mesh import Axis, Mesh
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    DYNAMIC,
    Shape,
    array_ints,
    element_type,
    rank_of,
    shape_of,
    tensor,
)

CombineKind = choice("graph.combine_kind", "sum", "max", "min", "prod")

# By which steps devices send: `runtime/library/costs/collectives.py` says what each takes. Numbers
# are the same by all of them.
ALGORITHMS = ("mesh", "halving_doubling", "nhr", "ring", "pairwise", "two_level")
_REDUCTIONS = ("mesh", "halving_doubling", "nhr", "ring", "two_level")
ALGORITHMS_OF = {
    "all_reduce": _REDUCTIONS,
    "all_gather": _REDUCTIONS,
    "reduce_scatter": _REDUCTIONS,
    "all_to_all": ("mesh", "pairwise", "two_level"),
    "exchange": ("mesh", "pairwise"),
}
CollectiveAlgorithm = choice("graph.collective_algorithm", *ALGORITHMS)


@dataclass(frozen=True, slots=True)
class Place:
    """A number that follows from a device's place: constant + sum of coefficient x index along
    axes."""

    constant: int = 0
    terms: tuple[tuple[Axis, int], ...] = ()

    def at(self, mesh: Mesh, device: int) -> int:
        return self.constant + sum(mesh.digit(axis, device) * by for axis, by in self.terms)


@dataclass(frozen=True, slots=True)
class Needed:
    """A box of a value for each device: along each dimension its first element and its size."""

    spans: tuple[tuple[Place, int], ...]

    @property
    def sizes(self) -> Shape:
        return tuple(size for _, size in self.spans)

    def box(self, mesh: Mesh, device: int) -> list[tuple[int, int]]:
        return [(place.at(mesh, device), size) for place, size in self.spans]


def _place_text(place: Place) -> str:
    terms = [
        (f'"{a.name}"={a.size}' if a.pre == 1 else axis_text(a)) + f" * {by}"
        for a, by in place.terms
    ]
    return " + ".join([*terms, *([str(place.constant)] if place.constant or not terms else [])])


def _parse_place(parser: AttrParser) -> tuple[Place, int]:
    """`"tp"=4 * 8 + -1 : 10`, in brackets."""
    constant, terms = 0, list[tuple[Axis, int]]()
    parser.parse_punctuation("[")
    while True:
        if (number := parser.parse_optional_integer(allow_boolean=False)) is not None:
            constant += number
        else:
            axis = parse_axis(parser)
            parser.parse_punctuation("*")
            terms.append((axis, parser.parse_integer(allow_boolean=False)))
        if parser.parse_optional_punctuation("+") is None:
            break
    parser.parse_punctuation(":")
    size = parser.parse_integer(allow_boolean=False, allow_negative=False)
    parser.parse_punctuation("]")
    return Place(constant, tuple(terms)), size


@irdl_attr_definition
class NeededAttr(Data[Needed]):
    """A box for each device: `#graph.needed<["tp"=4 * 8 + -1 : 10], [0 : 16]>`."""

    name = "graph.needed"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Needed:
        with parser.in_angle_brackets():
            read = parser.parse_comma_separated_list(
                parser.Delimiter.NONE, lambda: _parse_place(parser)
            )
        return Needed(tuple(read))

    def print_parameter(self, printer: Printer) -> None:
        spans = [f"[{_place_text(p)} : {size}]" for p, size in self.data.spans]
        printer.print_string(f"<{', '.join(spans)}>")


# ---- ops ---------------------------------------------------------------------------------------


class Collective(TensorOp, ABC):
    """An op in which devices send each other something."""

    input = operand_def(ANY)
    result = result_def(ANY)
    algorithm = opt_choice_def(CollectiveAlgorithm)
    traits = traits_def()

    @abstractmethod
    def group(self) -> tuple[Axis, ...]:
        """The axes along which the devices of a group differ."""

    def check_group(self) -> None:
        """Raises VerifyException for axes without sizes, and for an algorithm that devices of this
        group cannot take."""
        for axis in self.group():
            if not axis.size:
                raise VerifyException(f"axis '{axis.name}' stands without its number of devices")
        if self.algorithm is None:
            return
        kind, name = self.name.rpartition(".")[2], str(self.algorithm.data)
        if name not in (known := ALGORITHMS_OF[kind]):
            raise VerifyException(f"{kind} has no algorithm '{name}': it has {', '.join(known)}")
        devices = prod(a.size for a in self.group())
        if name == "halving_doubling" and devices.bit_count() != 1:
            raise VerifyException(f"'{name}' is of a power of two devices, not of {devices}")

    def static_work(self) -> Work:
        return Work(0, 0, *self.traffic())


class OverAxes(Collective, ABC):
    """A collective of groups along stated axes."""

    axes = prop_def(AxesAttr)

    def group(self) -> tuple[Axis, ...]:
        return self.axes.data

    @property
    def count(self) -> int:
        """The number of devices in a group."""
        return prod(a.size for a in self.axes.data)


@irdl_op_definition
class AllReduceOp(OverAxes):
    """All devices of a group get the sum (greatest, least, product) of their values, element by
    element."""

    name = "graph.all_reduce"
    kind = choice_def(CombineKind)
    assembly_format = f"$kind $input `over` $axes {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        self.check_group()
        return (self.input.type,)


@irdl_op_definition
class AllGatherOp(OverAxes):
    """The values of a group one after the other along `dim`, on all of its devices."""

    name = "graph.all_gather"
    dim = prop_def(INT)
    assembly_format = f"$input `dim` $dim `over` $axes {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        self.check_group()
        return (scaled(self.input, self.dim.value.data, self.count, 1),)


@irdl_op_definition
class ReduceScatterOp(OverAxes):
    """Part i along `dim` of the sum of a group's values, on device i of the group."""

    name = "graph.reduce_scatter"
    kind = choice_def(CombineKind)
    dim = prop_def(INT)
    assembly_format = f"$kind $input `dim` $dim `over` $axes {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        self.check_group()
        return (scaled(self.input, self.dim.value.data, 1, self.count),)


def scaled(value: SSAValue, dim: int, by: int, parts: int) -> Attribute:
    """The type of a value with a dimension so many times as large, or a part. Raises
    VerifyException where it does not divide."""
    shape = list(shape_of(value))
    axis = element_axis(dim, len(shape), "dim")
    if shape[axis] == DYNAMIC:
        return tensor(shape, element_type(value))
    if shape[axis] % parts:
        raise VerifyException(
            f"dimension {axis} of {value.type} does not divide over {parts} devices"
        )
    shape[axis] = shape[axis] * by // parts
    return tensor(shape, element_type(value))


class OfWhole(Collective, ABC):
    """A collective on parts of a value of which it says how it is cut."""

    has = prop_def(ShardingAttr)
    shape = prop_def(INTS)  # of the whole value

    @property
    def whole(self) -> Shape:
        return array_ints(self.shape)

    def group(self) -> tuple[Axis, ...]:
        return tuple(dict.fromkeys(self.has.data.axes))

    def check_part(self) -> None:
        self.check_group()
        if len(self.has.data.dims) != rank_of(self.input) or len(self.whole) != rank_of(self.input):
            raise VerifyException(f"{self.input.type} is cut in another number of dimensions")
        if (local := self.has.data.local_shape(self.whole)) != shape_of(self.input):
            raise VerifyException(
                f"a part of {list(self.whole)} has shape {list(local)}, not {self.input.type}"
            )


@irdl_op_definition
class AllToAllOp(OfWhole):
    """The same value, cut in another way: of what a device has, it sends each other one what that
    one will have."""

    name = "graph.all_to_all"
    to = prop_def(ShardingAttr)
    assembly_format = f"$input `shape` $shape `has` $has `to` $to {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        self.check_part()
        return (tensor(self.to.data.local_shape(self.whole), element_type(self.input)),)

    def group(self) -> tuple[Axis, ...]:
        return tuple(dict.fromkeys((*self.has.data.axes, *self.to.data.axes)))


@irdl_op_definition
class ExchangeOp(OfWhole):
    """A box of a value for each device. What lies beyond the ends of the value is `fill`, or the
    element of `onto` at its place; without both, it means nothing."""

    name = "graph.exchange"
    input = operand_def(ANY)  # again: it would come last otherwise
    onto = opt_operand_def(ANY)
    needs = prop_def(NeededAttr)
    fill = opt_prop_def(FloatAttr.constr() | IntegerAttr.constr())
    assembly_format = (
        f"$input `shape` $shape `has` $has `needs` $needs (`fill` $fill^)? (`onto` $onto^)? {TYPES}"
    )

    def infer(self) -> Sequence[Attribute]:
        self.check_part()
        if len(self.needs.data.spans) != len(self.whole):
            raise VerifyException(f"{len(self.needs.data.spans)} spans for {list(self.whole)}")
        if self.onto is not None and self.fill is not None:
            raise VerifyException("'fill' and 'onto' exclude each other")
        if self.onto is not None:
            check_shape(self.onto, "onto", self.needs.data.sizes, element_type(self.input))
        return (tensor(self.needs.data.sizes, element_type(self.input)),)

    def group(self) -> tuple[Axis, ...]:
        """Axes along which parts lie, or along which needs differ."""
        needs = (a for place, _ in self.needs.data.spans for a, _ in place.terms)
        return tuple(dict.fromkeys((*self.has.data.axes, *needs)))
