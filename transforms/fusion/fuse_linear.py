"""Matmuls and their users in one launch.

    %0 = graph.matmul %x, %v         %3 = graph.silu %0
    %1 = graph.matmul %x, %w         %4 = graph.mul %3, %1
becomes
    %4 = fused_op.linear(%x, %v, %w) { graph.matmul, graph.matmul, graph.silu, graph.mul }

Three steps. *Operands*: weights that are stored as integers are dequantized, inputs of the model
quantized, in the launch (see `epilogues.py`). *Siblings*: matmuls of one input with different
weights share a launch (a grouped GEMM): the input is read once, and small matmuls fill all cores
together. One whose result is sent to other devices stays apart where more is saved by sending it
while the others are computed. *Epilogue*: bias, scale, activation, residual, gates, head splits and
the like join (see `epilogues.py`), and so does a softmax where a whole row of the matmul fits on
the core.

Exceptions: a matmul of two computed values has no siblings; an op that broadcasts the matmul, that
the epilogue lacks, or that brings in more than it takes stays out; so does whatever would create a
cycle or make the launch slower than two.
"""

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from ge.dialects import graph
from ge.dialects.fused_op import LinearOp
from ge.dialects.support.boxes import Access
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import byte_size, is_static, shape_of
from ge.transforms.fusion.epilogues import (
    EPILOGUE,
    OPERANDS,
    Verdict,
    dequantize_for_each_user,
    dequantized,
    grow,
    judge_epilogue,
    take_input,
    take_tables,
    take_weights,
)
from ge.transforms.fusion.groups import Group, Groups, access
from ge.transforms.fusion.merging import FusionPass, Merger
from ge.transforms.fusion.sending import NEAR, hidden_us
from ge.transforms.rewriting.counts import declare

MERGE_SIBLINGS = declare("merge-siblings", "matmuls of one input share a launch (grouped GEMM)")
FUSE_SOFTMAX = declare("fuse-softmax", "a softmax over rows of the matmul joins its launch")


def source(value: SSAValue) -> SSAValue:
    """The value that views are of."""
    while isinstance(value.owner, graph.View) and value.owner.operands:
        value = value.owner.operands[0]
    return value


def has_weight(op: graph.MatmulOp) -> bool:
    """Return whether the right-hand side is one constant matrix."""
    constant = isinstance(source(op.rhs).owner, graph.ConstantOp) or dequantized(op.rhs) is not None
    return constant and len(shape_of(op.rhs)) == 2


def merge_siblings(merger: Merger, matmuls: list[graph.MatmulOp]) -> None:
    siblings: dict[tuple[SSAValue, bool], list[graph.MatmulOp]] = {}
    for op in matmuls:
        if has_weight(op):
            key = source(op.lhs), bool(op.transpose_lhs.value.data)
            siblings.setdefault(key, []).append(op)
    for run in siblings.values():
        _merge_run(merger, run)


def _merge_run(merger: Merger, matmuls: list[graph.MatmulOp]) -> list[graph.MatmulOp]:
    """Merge siblings: all at once where no two launches are faster, else halves first, so that each
    is weighed up log n times; returns the first matmul of each group that they became."""
    if len(matmuls) < 2:
        return matmuls
    half = len(matmuls) // 2
    groups = [merger.groups.of(op) for op in matmuls]
    if len(matmuls) > 2 and not any(is_far(merger, groups[0], g) for g in groups[1:]):
        hidden = hidden_us(merger, groups[:half], groups[half:])
        if merger.are_fastest_as_one(groups[:half], groups[half:], hidden):
            return _merge(merger, matmuls, judged=False)
    before, after = _merge_run(merger, matmuls[:half]), _merge_run(merger, matmuls[half:])
    return [*before[:-1], *_merge(merger, [before[-1], after[0]], judged=True), *after[1:]]


def _merge(merger: Merger, matmuls: Sequence[graph.MatmulOp], judged: bool) -> list[graph.MatmulOp]:
    """Merge the groups of some that follow each other, as far as they may; returns the same."""
    found = [matmuls[0]]
    for op in matmuls[1:]:
        one, two = merger.groups.of(found[-1]), merger.groups.of(op)
        hidden = hidden_us(merger, [one], [two]) if judged else 0.0
        if is_far(merger, one, two) or not merger.join(one, two, MERGE_SIBLINGS, judged, hidden):
            found.append(op)
    return found


def is_far(merger: Merger, one: Group, two: Group) -> bool:
    """Return whether computing the second group as early as the first would keep much memory for
    long."""
    number = merger.groups.number
    first, last = ([number[op] for op in group.ops if is_matmul(op)] for group in (one, two))
    if max(last) - min(first) <= NEAR:
        return False
    results = [*merger.groups.outputs(one), *merger.groups.outputs(two)]
    if not all(is_static(shape_of(r)) for r in results):
        return True
    return 16 * sum(byte_size(r.type) for r in results) > merger.target.l2_bytes


def is_matmul(op: Operation) -> bool:
    return isinstance(op, TensorOp) and op.IS_MATMUL


def judge_linear(op: TensorOp, group: Group, merger: Merger) -> Verdict:
    if not isinstance(op, graph.SoftmaxOp):
        return judge_epilogue(op, group, merger)
    rows = op.rows()
    widths = {shape_of(r)[-1] for p in group.ops if is_matmul(p) for r in p.results}
    moved = any(access(o) is Access.MOVEMENT for o in group.ops)
    fits = rows is not None and rows.contiguous and widths == {rows.length} and not moved
    return FUSE_SOFTMAX, None if fits else "its rows are not rows of the matmul"


class FuseLinearPass(FusionPass):
    """Fuse matmuls of one input, and their users on the core, into `fused_op.linear`."""

    name = "fuse-linear"
    RULES = (MERGE_SIBLINGS, *EPILOGUE, *OPERANDS, FUSE_SOFTMAX)

    def groups(self, block: Block) -> Groups:
        dequantize_for_each_user(block)
        return Groups(block)

    def fuse(self, merger: Merger) -> None:
        groups = merger.groups
        matmuls = [op for op in groups.block.ops if is_matmul(op)]
        for op in matmuls:
            take_weights(merger, op)
        merge_siblings(merger, [op for op in matmuls if isinstance(op, graph.MatmulOp)])
        for op in matmuls:
            group = groups.of(op)
            if group.kind is None:
                take_input(merger, op)
                grow(merger, group, judge_linear)
                take_input(merger, op)  # what the epilogue reads too
                take_tables(merger, group)
                merger.finish(group, LinearOp)
