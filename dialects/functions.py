"""The functions of a module: `@main` is the program, `@prepare` computes weights at load."""

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

MAIN = "main"
"""The function that the program runs."""


def functions(module: ModuleOp) -> dict[str, FuncOp]:
    """The functions of a module by name."""
    return {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}


def defined_functions(module: ModuleOp) -> list[FuncOp]:
    """The functions of a module that have a body."""
    return [f for f in functions(module).values() if f.body.blocks]


def main_function(module: ModuleOp) -> FuncOp | None:
    """The function that the program runs, None where there is none with a body."""
    main = functions(module).get(MAIN)
    return main if main is not None and main.body.blocks else None
