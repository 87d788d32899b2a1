"""Draws the ops of @main, as mlir-opt's pass of this name does: in graphviz's language, on
standard error or in a file, or as SVG where graphviz is installed. There is a node for each op, a
cluster for each body, an edge for each value, with its type.

    ge-opt x.mlir --view-op-graph -o /dev/null 2> x.dot
    ge-opt x.mlir --view-op-graph=file=x.svg -o /dev/null
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.support.errors import GeError
from ge.lowering.levels.level import level_of
from ge.runtime.data.files import write_text
from ge.tools.views.data import LevelGraph, LevelNode
from ge.tools.views.difference import is_named_by
from ge.tools.views.levels import level_graph

# Colours by what computes: names that graphviz knows
FILLS = {"input": "lightgrey", "output": "lightgrey"}

BY_DIALECT = {"graph": "aliceblue", "fused_op": "lemonchiffon", "npu_task": "honeydew"}


def dot_text(level: LevelGraph) -> str:
    """The graph of a level, top down."""
    children: dict[int, list[int]] = {}
    for number, node in enumerate(level.nodes):
        children.setdefault(node.parent, []).append(number)
    lines = [
        f"digraph {quoted(level.name)} {{",
        '  node [shape=box, style="rounded,filled", fontname=Helvetica, fontsize=10];',
        "  edge [fontname=Helvetica, fontsize=8];",
        "  compound=true;",
        *boxes(level, children, -1, "  "),
        *edges(level, children),
        "}",
    ]
    return "\n".join(lines) + "\n"


def boxes(level: LevelGraph, children: dict[int, list[int]], parent: int, indent: str) -> list[str]:
    """The nodes in the body of one, those with bodies as clusters."""
    lines: list[str] = []
    for number in children.get(parent, ()):
        node = level.nodes[number]
        if number in children:
            inner = boxes(level, children, number, indent + "  ")
            lines += [
                f"{indent}subgraph cluster_{number} {{",
                f"{indent}  label={quoted(title(node))}; style=filled; fillcolor={fill(node)};",
                *inner,
                f"{indent}}}",
            ]
        else:
            text = "\\n".join((title(node), *node.results))
            lines.append(f"{indent}n{number} [label={quoted(text)}, fillcolor={fill(node)}];")
    return lines


def edges(level: LevelGraph, children: dict[int, list[int]]) -> list[str]:
    """Values between nodes; what goes into a body is drawn where it is read, what comes out of one
    from its last op."""
    lines: list[str] = []
    for number, node in enumerate(level.nodes):
        if number in children:
            continue  # its ops have the edges
        for operand in node.operands:
            if operand.node < 0:
                continue
            source = operand.node
            while source in children:
                source = children[source][-1]
            lines.append(f"  n{source} -> n{number} [label={quoted(operand.type)}];")
    return list(dict.fromkeys(lines))


def title(node: LevelNode) -> str:
    return node.op if is_named_by(node) else f"{node.op}\\n{node.name}"


def fill(node: LevelNode) -> str:
    dialect = node.op.removeprefix("launch @").partition(".")[0]
    return FILLS.get(node.op) or BY_DIALECT.get(dialect, "white")


def quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


def svg(text: str) -> str:
    """The picture of a graph, drawn by graphviz. Raises GeError if that is not installed, or
    fails."""
    if (program := shutil.which("dot")) is None:
        hint = "install graphviz, or write a .dot file"
        raise GeError("an SVG is drawn by graphviz's dot, which is not there", hint=hint)
    drawn = subprocess.run([program, "-Tsvg"], input=text, capture_output=True, text=True)
    if drawn.returncode:
        raise GeError(f"dot fails: {drawn.stderr.strip().splitlines()[-1:]}")
    return drawn.stdout


@dataclass(frozen=True)
class ViewOpGraphPass(ModulePass):
    """Draw the ops of @main: nodes are ops, edges values, bodies clusters. The module is not
    changed."""

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
