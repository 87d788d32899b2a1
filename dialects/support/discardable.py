"""Attributes that no definition has: what a dialect states of functions, their arguments and
results, of modules and buffers, and of ops beside their properties. The name of each begins with
that of its dialect, `graph.name`, whose table says where it stands and what it is. What other
dialects state is theirs to verify."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import cast

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
from xdsl.ir import Attribute, Operation
from xdsl.irdl import AtLeast, AttrConstraint, BaseAttr, VerificationContext
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
