"""Whether ops are as their definitions say, found out once for ops that are alike.

What a definition asks of an op without regions and successors (how many operands there are, the
constraints of types, properties and attributes) depends on nothing else of it than these; layers
of models repeat them. What traits ask may depend on the ops around, so each op is asked.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, cast

from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import VerifyException

Verify = Callable[[Any], None]

KNOWN_LIMIT = 1 << 14  # ops of which it is known

# What was asked of, by ids; with the objects, so that no other gets an id of theirs
_known: dict[tuple[Any, ...], tuple[Any, ...]] = {}


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
        if len(_known) >= KNOWN_LIMIT:
            _known.clear()
        _known[key] = parts
        return
    for trait in asking_traits(kind):
        trait.verify(op)


def ask_definition(op: IRDLOperation) -> None:
    definition = op.get_irdl_definition()
    definition.verify(op)
    for name in op.attributes:
        if name in definition.properties:  # it would say nothing, as the property does
            raise VerifyException(
                f"'{name}' is a property, not an attribute: write it at its place in the text, "
                f"<{{{name} = ...}}> in the generic form"
            )


@cache
def asking_traits(kind: type[Operation]) -> tuple[OpTrait, ...]:
    """The traits of a class that verify something."""
    traits = cast("type[IRDLOperation]", kind).get_irdl_definition().traits
    return tuple(t for t in traits if type(t).verify is not OpTrait.verify)
