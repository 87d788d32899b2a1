"""The default pipeline as data, and the driver that runs it on one module in one process."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import parse_pipeline

from ge.dialects.errors import GeError
from ge.lowering.options import Options
from ge.lowering.pass_table import ge_passes


def stages(options: Options) -> dict[str, list[str]]:
    """Level -> the passes that lead there from the level before, as `ge-opt -p` takes them."""
    target = f'target="{options.target}"'
    reuse = str(options.memory > 0).lower()
    fused = ["fuse-conv", "fuse-linear", "fuse-elementwise"] if options.fusion != "off" else []
    return {
        "graph": ["infer-shapes", "fold-constants", "prepare-weights", "eliminate-dead-code"],
        "fused": fused,
        "tasks": [f"lower-to-tasks{{{target}}}"],
        "buffers": ["bufferize-tasks"],
        "program": [f"assign-streams{{{target}}}", f"plan-memory{{{target} reuse={reuse}}}"],
    }


def pipeline(options: Options) -> list[str]:
    """The default pipeline: all stages, each closed by a check that its level is legal."""
    passes: list[str] = []
    for level, names in stages(options).items():
        passes += names
        if options.verify:
            passes.append(f"verify-level{{level={level}}}")
    return passes


@dataclass
class PassRecord:
    """What one pass did: wall time, and the number of ops after it."""

    name: str
    seconds: float
    ops: int


def count_ops(module: ModuleOp) -> int:
    return sum(1 for _ in module.walk())


Progress = Callable[[str, int, int], None]
"""Called before each pass with its name, its number and the number of passes."""


def run_passes(
    module: ModuleOp,
    specs: Sequence[str],
    ctx: Context,
    progress: Progress | None = None,
    after: Callable[[str, ModuleOp], None] | None = None,
) -> list[PassRecord]:
    """Run passes, given as text, on the module in place. Raises GeError for an unknown pass."""
    table = ge_passes()
    records: list[PassRecord] = []
    for i, text in enumerate(specs):
        (spec,) = parse_pipeline(text)
        if spec.name not in table:
            raise GeError(f"unknown pass '{spec.name}'", hint="see ge-opt --list-passes")
        instance: ModulePass = table[spec.name]().from_spec(spec)
        if progress is not None:
            progress(spec.name, i, len(specs))
        start = time.perf_counter()
        instance.apply(ctx, module)
        records.append(PassRecord(spec.name, time.perf_counter() - start, count_ops(module)))
        if after is not None:
            after(spec.name, module)
    return records
