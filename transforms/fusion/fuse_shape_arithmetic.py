"""Shape arithmetic in few tasks of the control processor, which runs it.

    %0 = graph.shape_of %x       %2 = graph.mul %1, %two
    %1 = graph.gather %0, %i
becomes
    %2 = fused_op.region(%x, %i, %two) { graph.shape_of, graph.gather, graph.mul }
"""

from ge.dialects.fused_op import RegionOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.shape import is_shape_arithmetic
from ge.transforms.fusion.groups import Group, Groups, is_pure
from ge.transforms.fusion.merging import FusionPass, Merger
from ge.transforms.rewriting.counts import declare, is_enabled

FUSE_SHAPE_ARITHMETIC = declare("fuse-shape-arithmetic", "shape arithmetic becomes one task")


class FuseShapeArithmeticPass(FusionPass):
    """Fuse shape arithmetic with the shape arithmetic that it uses, and all that follows from the
    shapes of the inputs, which needs no launch before it."""

    name = "fuse-shape-arithmetic"
    RULES = (FUSE_SHAPE_ARITHMETIC,)

    def fuse(self, merger: Merger) -> None:
        groups = merger.groups
        ops = [op for op in groups.block.ops if is_pure(op) and is_shape_arithmetic(op)]
        shape_ops = set(ops)
        if not is_enabled(FUSE_SHAPE_ARITHMETIC):
            return
        for op in ops:
            for value in op.operands:
                producer = groups.defining(value)
                if producer is not None and producer in shape_ops:
                    groups.merge(groups.of(producer), groups.of(op))
        fused = list(dict.fromkeys(map(groups.of, ops)))
        fused.sort(key=lambda group: group.label)
        early = [g for g in fused if only_constants_before(groups, g)]
        for group in early[1:]:
            groups.merge(early[0], group)
        for group in fused:
            merger.finish(group, RegionOp)


def only_constants_before(groups: Groups, group: Group) -> bool:
    before = (op for producer in groups.producers(group) for op in producer.ops)
    return all(isinstance(op, ConstantOp) for op in before)
