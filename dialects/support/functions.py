"""The functions of a module: `@main` is the program, `@prepare` computes weights at load; and its
symbols, looked up by name without a walk for each."""

from collections.abc import Mapping
from typing import cast

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ge.dialects.support.diagnostics import error_at
from ge.dialects.support.operation import ops_of

MAIN = "main"


def functions(module: ModuleOp) -> dict[str, FuncOp]:
    # a class of xDSL's is slow to tell from others, which there are many of
    named = [op for op in ops_of(module.body.block) if op.name == FuncOp.name]
    return {op.sym_name.data: op for op in named if isinstance(op, FuncOp)}


def defined_functions(module: ModuleOp) -> list[FuncOp]:
    return [f for f in functions(module).values() if f.body.blocks]


def main_function(module: ModuleOp) -> FuncOp | None:
    """The function that the program runs, None where there is none with a body.
    Raises GeError for several blocks: control flow has regions at every level."""
    main = functions(module).get(MAIN)
    if main is None or not main.body.blocks:
        return None
    if len(main.body.blocks) > 1:
        raise error_at(main, "@main has several blocks", "use graph.if and graph.loop")
    return main


_KNOWN = "_ge_symbols"  # of a module: its symbols, kept for the next look-up


def module_around(op: Operation) -> ModuleOp | None:
    """Returns the module that the op is in, None for an op that is in none yet."""
    around = op.parent_op()
    while around is not None and not isinstance(around, ModuleOp):
        around = around.parent_op()
    return around


def find_symbol(module: ModuleOp, name: str) -> Operation | None:
    """The op of that name at the top of the module. An op returned before is checked again, as it
    may have another name by now, or be in another module."""
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
