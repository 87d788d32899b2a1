"""Erase symbols that are private and not used.

    func.func private @unused() { ... }
    func.func private @used() { ... }
    func.func @main() { func.call @used() ... }
becomes
    func.func private @used() { ... }
    func.func @main() { func.call @used() ... }

What is public, and what is no symbol, stays with all that it refers to, in its attributes or those
of the ops in it.
"""

from collections.abc import Iterator
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.passes import ModulePass
from xdsl.traits import SymbolTable

PRIVATE = ("private", "nested")


class SymbolDcePass(ModulePass):
    """Erase private symbols that are not used, as mlir-opt's pass of this name."""

    name = "symbol-dce"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        tables = [o for o in op.walk() if o.has_trait(SymbolTable, value_if_unregistered=False)]
        for table in reversed(tables):  # those inside first: what they use is known then
            erase_unused(table)


def erase_unused(table: Operation) -> None:
    """Erase the ops right in a symbol table that are private symbols without users."""
    ops = [o for region in table.regions for block in region.blocks for o in block.ops]
    private = {name: o for o in ops if (name := private_name(o)) is not None}
    unused = dict(private)
    todo = [o for o in ops if private_name(o) is None]
    while todo:
        used = set(names_in(todo.pop()))
        todo += [unused.pop(name) for name in [*unused] if name in used]
    for op in reversed(unused.values()):
        op.detach()
        op.erase()


def private_name(op: Operation) -> str | None:
    """The name of an op that is a private symbol, None for others."""
    name, visibility = (
        op.properties.get(key, op.attributes.get(key)) for key in ("sym_name", "sym_visibility")
    )
    if isinstance(name, StringAttr) and isinstance(visibility, StringAttr):
        return name.data if visibility.data in PRIVATE else None
    return None


def names_in(op: Operation) -> Iterator[str]:
    """The symbols that an op and those in it refer to."""
    for inner in op.walk():
        for attribute in (*inner.properties.values(), *inner.attributes.values()):
            yield from _names(attribute)


def _names(attribute: Attribute) -> Iterator[str]:
    if isinstance(attribute, SymbolRefAttr):
        yield attribute.root_reference.data
    elif isinstance(attribute, ArrayAttr):
        for part in cast("ArrayAttr[Attribute]", attribute).data:
            yield from _names(part)
    elif isinstance(attribute, DictionaryAttr):
        for part in attribute.data.values():
            yield from _names(part)
    elif isinstance(attribute, ParametrizedAttribute):
        for part in attribute.parameters:
            yield from _names(part)
