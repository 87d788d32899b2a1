"""Verify ops against their definitions, once for all ops that are alike.

The demands of a definition on an op without regions and successors (how many operands there are,
the constraints of types, properties and attributes) depend on nothing else of it; layers of models
repeat them. The demands of traits may depend on the ops around, so each op is verified.

Attributes that no definition has: what a dialect states of functions, their arguments and
results, of modules and buffers, and of ops beside their properties. The name of each begins with
that of its dialect, `graph.name`, whose table says where it stands and what it is. What other
dialects state is theirs to verify."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Data, Operation, SSAValue
from xdsl.irdl import (
    AtLeast,
    AttrConstraint,
    AttrSizedOperandSegments,
    BaseAttr,
    IRDLOperation,
    OperandDef,
    ResultDef,
    VarIRConstruct,
    VerificationContext,
)
from xdsl.irdl.operations import verify_variadic_size
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import VerifyException

from ge.dialects.support.constraints import Named

# where an attribute stands
OP, FUNCTION, ARGUMENT, RESULT, MODULE = "ops", "functions", "arguments", "results", "modules"

TEXT = Named(BaseAttr(StringAttr), "a string")
TEXTS = Named(ArrayAttr.constr(BaseAttr(StringAttr)), "a list of strings")
TABLE = Named(BaseAttr(DictionaryAttr), "a dictionary")
FLAG = Named(BaseAttr(UnitAttr), "no value")
NUMBER = Named(IntegerAttr.constr(i64, value=AtLeast(0)), "an i64 that is not negative")


@dataclass(frozen=True, slots=True)
class Stated:
    """The constraint of an attribute, and the places where it may stand."""

    constr: AttrConstraint
    of: Collection[str]


Table = Mapping[str, Stated]

# where the tables are: `STATED` of a module, read when an attribute of the dialect is met
MODULES = {
    "graph": "ge.dialects.graph.stated",
    "fused_op": "ge.dialects.fused_op",
    "npu_task": "ge.dialects.npu_task.attributes",
    "tile": "ge.dialects.tile.kernel",
}


def check(name: str, attr: Attribute, place: str) -> None:
    """Raises VerifyException for an attribute that its dialect does not have, or not here."""
    dialect = name.partition(".")[0]
    if dialect not in MODULES:
        return
    table = cast(Table, import_module(MODULES[dialect]).STATED)
    stated = table.get(name) or table.get(name.rstrip("0123456789").rstrip("."))
    if stated is None:
        raise VerifyException(f"dialect {dialect} has no attribute '{name}'{near(name, table)}")
    if place not in stated.of:
        raise VerifyException(f"'{name}' is of {' and '.join(sorted(stated.of))}, not of {place}")
    try:
        stated.constr.verify(attr, VerificationContext())
    except VerifyException as e:
        raise VerifyException(f"'{name}': {e}") from None


def check_of_op(op: Operation, properties: Collection[str]) -> None:
    """Raises VerifyException for an attribute of an op of ge's that means nothing."""
    for name, attr in op.attributes.items():
        if "." not in name:
            raise VerifyException(
                f"there is no property '{name}'{near(name, properties)}; "
                "other attributes have a prefix, as in 'my.name'"
            )
        check(name, attr, OP)


def near(name: str, names: Collection[str]) -> str:
    found = get_close_matches(name, names, 1)
    return f"; did you mean '{found[0]}'?" if found else ""


def wrong_attributes(op: Operation) -> Iterator[str]:
    """Yield errors in attributes of an op of another dialect: a module, a function, a buffer."""
    tables: list[tuple[str, Mapping[str, Attribute]]] = [(OP, op.attributes)]
    if isinstance(op, ModuleOp):
        tables = [(MODULE, op.attributes)]
    elif isinstance(op, FuncOp):
        tables = [(FUNCTION, op.attributes)]
        tables += [(ARGUMENT, table.data) for table in op.arg_attrs or ()]
        tables += [(RESULT, table.data) for table in op.res_attrs or ()]
    for place, table in tables:
        for name, attr in table.items():
            try:
                check(name, attr, place)
            except VerifyException as e:
                yield str(e)


Verify = Callable[[Any], None]

KNOWN_LIMIT = 1 << 14  # ops of which it is known

SEGMENTS = AttrSizedOperandSegments.attribute_name

# What was asked of, by ids; with the objects, so that no other gets an id of theirs
Known = dict[tuple[Any, ...], tuple[Any, ...]]
_known: Known = {}
_known_operands: Known = {}


def remember(known: Known, key: tuple[Any, ...], parts: tuple[Any, ...]) -> None:
    if len(known) >= KNOWN_LIMIT:
        known.clear()
    known[key] = parts


def with_known_definitions(verify_more: Verify) -> Verify:
    """`verify_` of a class: its definition's checks, then those that the class itself has."""

    def verify_(self: IRDLOperation) -> None:
        verify_definition(self)
        verify_more(self)

    return verify_


def verify_definition(op: IRDLOperation) -> None:
    """Raises VerifyException where an op is not as its definition says."""
    if op.regions or op.successors:
        ask_definition(op)
        return
    kind = type(op)
    parts = (
        *[v.type for v in op._operands],  # pyright: ignore[reportPrivateUsage]
        None,
        *[v.type for v in op.results],
        *op.properties,
        *op.properties.values(),
        None,
        *op.attributes,
        *op.attributes.values(),
    )
    key = (kind, *map(id, parts))
    if key not in _known:
        ask_definition(op)
        remember(_known, key, parts)
        return
    for trait in asking_traits(kind):
        trait.verify(op)


def verify_operands(op: IRDLOperation) -> None:
    """Raises VerifyException for operands of which the definition of an op takes none, in number or
    type: all of it that can be asked of an op whose results are not known."""
    parts = (op.properties.get(SEGMENTS), *[v.type for v in op._operands])  # pyright: ignore[reportPrivateUsage]
    key = (type(op), *map(id, parts))
    if key not in _known_operands:
        _ask_values(op, VarIRConstruct.OPERAND)
        remember(_known_operands, key, parts)


def _ask_values(op: IRDLOperation, construct: VarIRConstruct) -> None:
    """Verify the numbers of values and their types as xDSL does, in one line of text."""
    definition = op.get_irdl_definition()
    verify_variadic_size(op, definition, construct)
    is_operand, context = construct is VarIRConstruct.OPERAND, VerificationContext()
    defs: Iterable[tuple[str, OperandDef | ResultDef]]
    defs = definition.operands if is_operand else definition.results
    for name, its in defs:
        values = cast("SSAValue | Sequence[SSAValue] | None", getattr(op, name))
        values = () if values is None else (values,) if isinstance(values, SSAValue) else values
        try:
            its.constr.verify(tuple(v.type for v in values), context)
        except VerifyException as e:
            kind = "operand" if is_operand else "result"
            raise VerifyException(f"{kind} '{name}': {e}") from None


def _ask_properties(op: IRDLOperation) -> None:
    for name, its in op.get_irdl_definition().properties.items():
        if name in op.properties:
            verify_property(name, its.constr, op.properties[name])


def verify_property(name: str, constr: AttrConstraint, value: Attribute) -> None:
    """Raises VerifyException, which names the property."""
    try:
        constr.verify(value, VerificationContext())
    except VerifyException as e:
        raise VerifyException(f"property '{name}': {e}") from None


def ask_definition(op: IRDLOperation) -> None:
    definition = op.get_irdl_definition()
    try:
        definition.verify(op)
    except VerifyException:
        _ask_values(op, VarIRConstruct.OPERAND)
        _ask_values(op, VarIRConstruct.RESULT)
        _ask_properties(op)
        raise
    for name in op.attributes:
        if name in definition.properties:  # it would say nothing, as the property does
            raise VerifyException(
                f"'{name}' is a property, not an attribute: write '{name} ...' before the braces, "
                f"<{{{name} = ...}}> in the generic form"
            )
    check_of_op(op, definition.properties)


@cache
def asking_traits(kind: type[Operation]) -> tuple[OpTrait, ...]:
    """The traits of a class that verify something."""
    traits = cast("type[IRDLOperation]", kind).get_irdl_definition().traits
    return tuple(t for t in traits if type(t).verify is not OpTrait.verify)


def _defined(kind: type, modules: Sequence[ModuleType]) -> list[Any]:
    return [
        c
        for m in modules
        for c in vars(m).values()
        # cheap tests first, and no `issubclass`, which asks all subclasses of an abstract class:
        # this runs at the start of every tool
        if isinstance(c, type)
        and c.__module__ == m.__name__
        and "name" in vars(c)
        and kind in c.__mro__
    ]


def ops_of(*modules: ModuleType) -> list[type[Operation]]:
    return _defined(IRDLOperation, modules)


def attributes_of(*modules: ModuleType) -> list[type[Attribute]]:
    return _defined(Attribute, modules)


class TextAttr(Data[str]):
    """An attribute that is one text, `#dialect.name<"text">`, and means nothing by itself: any
    text makes an attribute."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parser.parse_str_literal()

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.data)
