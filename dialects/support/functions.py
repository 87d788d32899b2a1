"""The functions of a module: `@main` is the program, `@prepare` computes weights at load."""

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

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
