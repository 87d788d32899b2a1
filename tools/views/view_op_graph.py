"""Draws the ops of @main, as mlir-opt's pass of this name does: in graphviz's language, on standard
error or in a file, or as SVG where graphviz is installed.

    ge-opt x.mlir --view-op-graph -o /dev/null 2> x.dot
    ge-opt x.mlir --view-op-graph=file=x.svg -o /dev/null
"""

import sys
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.lowering.levels.level import level_of
from ge.runtime.data.files import write_text
from ge.tools.views.dot import dot_text, svg
from ge.tools.views.levels import level_graph


@dataclass(frozen=True)
class ViewOpGraphPass(ModulePass):
    """Draw the ops of @main: nodes are ops, edges values, bodies clusters. The module stays as it
    is."""

    name = "view-op-graph"

    file: str = ""
    """Where it goes: NAME.dot, NAME.svg, - (standard output) or, by default, standard error."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        graph, _ = level_graph(op, level_of(op))
        text = dot_text(graph)
        if self.file.endswith(".svg"):
            write_text(self.file, svg(text))
        elif self.file not in ("", "-"):
            write_text(self.file, text)
        else:
            print(text, end="", file=sys.stdout if self.file else sys.stderr)
