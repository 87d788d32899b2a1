"""Ops of the vector unit, and shape arithmetic, become launches: passes in a row.

    %0 = graph.slice %x ...      %2 = graph.concat %1, %0
    %1 = graph.neg %y            %3 = graph.mul %2, %s
becomes
    %3 = fused_op.region(%x, %y, %s) { graph.slice, graph.neg, graph.concat, graph.mul }
"""

from dataclasses import dataclass
from typing import ClassVar

from xdsl.passes import ModulePass

from ge.transforms.fusion.fuse_shape_arithmetic import FuseShapeArithmeticPass
from ge.transforms.fusion.fuse_vector_ops import FuseVectorOpsPass
from ge.transforms.fusion.merging import FusionPass, check_rules
from ge.transforms.fusion.recompute_in_users import RecomputeInUsersPass
from ge.transforms.fusion.relieve_peak import RelievePeakPass
from ge.transforms.rewriting.passes import PassSequence, TargetPass


@dataclass(frozen=True)
class FuseRegionPass(PassSequence, TargetPass):
    """Fuse elementwise ops, data movement and reductions into `fused_op.region` (fuse-vector-ops),
    compute cheap ops in each launch that uses them (recompute-in-users, relieve-peak), and make
    shape arithmetic one task (fuse-shape-arithmetic)."""

    name = "fuse-region"
    PARTS: ClassVar[tuple[type[FusionPass], ...]] = (
        FuseVectorOpsPass,
        RecomputeInUsersPass,
        RelievePeakPass,
        FuseShapeArithmeticPass,
    )
    RULES: ClassVar = tuple(rule for part in PARTS for rule in part.RULES)

    disable: tuple[str, ...] = ()
    """Rules of the parts that are left out; `ge-opt --list-rules` says what there is."""
    recompute: bool = False
    """Whether cheap ops may be computed once for each launch that uses them."""
    peak_memory: bool = False
    """Whether to fuse for less memory at the peak, even where that takes more time."""
    answers: str = ""
    """File that keeps what the library answers about launches (empty: none)."""

    def __post_init__(self) -> None:
        check_rules(self.disable, self.RULES)

    def parts(self) -> tuple[ModulePass, ...]:
        optional: dict[type[FusionPass], bool] = {
            RecomputeInUsersPass: self.recompute,
            RelievePeakPass: self.peak_memory,
        }
        return tuple(
            part(self.target, own, self.answers)
            for part in self.PARTS
            if optional.get(part, True)
            for own in [tuple(rule for rule in self.disable if rule in part.RULES)]
        )
