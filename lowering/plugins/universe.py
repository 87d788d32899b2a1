"""Dialects and passes that ge adds to xDSL, by name, imported when they are used. Every xDSL tool
loads this through the `xdsl.universe` entry point."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from xdsl.passes import ModulePass
from xdsl.universe import Universe

from ge.dialects.support.errors import GeError
from ge.dialects.support.packages import installed, left_out
from ge.dialects.support.tensor_op import provide
from ge.lowering.levels.level import Level

DIALECTS = {
    "graph": "dialects.graph:Graph",
    "fused_op": "dialects.fused_op:FusedOps",
    "npu_task": "dialects.npu_task:NpuTask",
    "tile": "dialects.tile:Tile",
}

# Room -> its passes: `fuse-linear` is the class FuseLinearPass in the file fuse_linear.py
PASSES = {
    "transforms.fusion": """
        assign-engines expand-attention fuse-attention fuse-conv fuse-linear fuse-norm fuse-region
        fuse-shape-arithmetic fuse-vector-ops keep-channels-last recompute-in-users relieve-peak
        sort-groups
    """,
    "transforms.graph": """
        absorb-transposes deduplicate-constants eliminate-dead-code expand-einsum expand-layers
        fold-batch-norm fold-constants infer-shapes inline-vectors move-transposes prepare-weights
        prune-outputs resolve-shapes share-common-subexpressions share-equal-weights
        simplify-algebra simplify-control-flow simplify-movement split-pointwise-convs turn-weights
    """,
    "transforms.graph.composites": """
        absorb-attention-layout find-activations find-attention find-grouped-matmul find-norms
        find-rotary find-softmax match-attention match-quantized-attention narrow-computation
    """,
    "transforms.memory": """
        assign-offsets certify-plan check-capacity extract-concats merge-copies order-tasks
        overwrite-operands plan-memory plan-ranges
        read-parts recompute-elementwise rematerialize spill-buffers write-parts
    """,
    "transforms.precision": "refine-precision",
    "transforms.quantization": """
        calibrate choose-precision correct-bias equalize-channels fit-weights
        insert-quantization judge-attention lower-quantization narrow-codes quantize-cache
        refine-weights search-ranges smooth-activations
    """,
    "transforms.sharding": """
        annotate-shardings choose-algorithms cut-attention merge-collectives partition-spmd
    """,
    "transforms.shapes": "bind-dims expand-gears express-sizes relate-dims split-oversized",
    "transforms.schedule": "acknowledge-collectives assign-streams split-launches",
    "transforms.state": "grow-state mark-state update-state",
    "transforms.symbols": "inline print-op-stats strip-debuginfo symbol-dce",
    "transforms.tiles": "tile-flags tile-plan tile-split-loops",
    "lowering.levels": "verify-level verify-plan verify-schedule",
    "lowering.steps": " ".join(("lower-kernels", *(level.step for level in Level))),
    "tools.views": "view-op-graph",
}


def lazy(place: str) -> Callable[[], Any]:
    """A getter that imports `MODULE:NAME` of ge when it is called."""
    module, _, name = place.partition(":")
    return lambda: getattr(import_module(f"ge.{module}"), name)


CANONICAL = lazy("transforms.graph.canonical.patterns:patterns_of")
provide(CANONICAL)


def lazy_pass(room: str, name: str) -> Callable[[], type[ModulePass]]:
    cls = "".join(word.capitalize() for word in name.split("-"))
    return lazy(f"{room}.{name.replace('-', '_')}:{cls}Pass")


GE_UNIVERSE = Universe(
    all_dialects={name: lazy(place) for name, place in DIALECTS.items()},
    all_passes={n: lazy_pass(room, n) for room, names in PASSES.items() for n in names.split()},
)


def rules() -> dict[str, str]:
    """Name -> what it does, of the rules that passes are made of. Imports all passes."""
    return {name: what for name, (what, _) in rule_table().items()}


def rule_table() -> dict[str, tuple[str, str]]:
    """Name -> what it does, and its module, of the rules that passes are made of, those of packages
    too. Imports all passes; one of a package that cannot be loaded is warned of."""
    from ge.transforms.graph.canonical.local import LocalRule
    from ge.transforms.rewriting.counts import declared
    from ge.transforms.rewriting.rules import Search

    for load in (*GE_UNIVERSE.all_passes.values(), CANONICAL):
        load()
    for package in installed():
        for name, load in package.universe.all_passes.items():
            try:
                package.guard(f"pass '{name}'", load)
            except GeError as e:
                left_out(f"pass '{name}'", e, e.hint)
    rules = {name: (what, "ge") for name, what in declared().items()}
    todo: list[type[Search | LocalRule]] = [Search, LocalRule]
    while todo:
        rule = todo.pop()
        todo += rule.__subclasses__()
        what = (rule.__doc__ or "").strip().partition("\n")[0]
        rules.update(dict.fromkeys(rule.names, (what, rule.__module__)))
    return dict(sorted(rules.items()))
