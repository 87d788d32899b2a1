"""Counts the ops of a module by name, as mlir-opt's pass of this name does, on standard error.

Operations encountered:
-----------------------
  builtin.module   , 1
     func.func     , 1
     func.return   , 1
    graph.matmul   , 2
"""

import json as as_json
import sys
from collections import Counter
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass


def summary(counts: dict[str, int]) -> str:
    """Names aligned at the dot behind their dialect."""
    names = {name: name.partition(".") if "." in name else ("", "", name) for name in counts}
    before = max((len(dialect) for dialect, _, _ in names.values()), default=0) + 2
    after = max((len(op) for _, _, op in names.values()), default=0)
    lines = ["Operations encountered:", "-----------------------"]
    for name, (dialect, dot, op) in names.items():
        lines.append(f"{dialect:>{before}}{dot or ' '}{op:<{after}} , {counts[name]}")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class PrintOpStatsPass(ModulePass):
    """Print how many ops there are of each name. The module is not changed."""

    name = "print-op-stats"

    json: bool = False
    """As a JSON object, from names to numbers."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        counts = dict(sorted(Counter(inner.name for inner in op.walk()).items()))
        print(as_json.dumps(counts, indent=2) if self.json else summary(counts), file=sys.stderr)
