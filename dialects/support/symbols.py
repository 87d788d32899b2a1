"""Symbols of a module, looked up by name without a walk for each."""

from collections.abc import Mapping
from typing import cast

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

_KNOWN = "_ge_symbols"  # of a module, which keeps what was found there


def module_around(op: Operation) -> ModuleOp | None:
    """Returns the module that the op is in, None for an op that is in none yet."""
    around = op.parent_op()
    while around is not None and not isinstance(around, ModuleOp):
        around = around.parent_op()
    return around


def find_symbol(module: ModuleOp, name: str) -> Operation | None:
    """Returns the op of that name at the top of the module. What was found once is looked at
    again, as it may have another name by now, or be in another module."""
    kept = cast("Mapping[str, Operation]", vars(module).get(_KNOWN, {}))
    known = kept.get(name)
    if known is None or known.parent is not module.body.first_block or _name(known) != name:
        found = {n: op for op in module.ops if (n := _name(op)) is not None}
        vars(module)[_KNOWN] = found
        known = found.get(name)
    return known


def _name(op: Operation) -> str | None:
    found = op.properties.get("sym_name")
    return found.data if isinstance(found, StringAttr) else None
