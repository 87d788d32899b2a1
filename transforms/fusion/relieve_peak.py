"""Cheap values that are live at the memory peak are computed in each launch that uses them, also
where that takes more time: see `recompute_in_users.py`.

    %s, %a = fused_op.region(%x, %y) { graph.add, graph.softmax }
    %b = graph.softmax %s axis 0
becomes
    %a = fused_op.region(%x, %y) { graph.add, graph.softmax }
    %b = fused_op.region(%x, %y) { graph.add, graph.softmax axis 0 }

The largest values go first. What a value is computed from then stays live longer, so that must be
smaller than the value; and the launches may take `SLOWER` times as long. The peak is that of the
order of the launches as it stands. Function arguments and results, which are the model's inputs
and outputs, are not counted, nor are constants.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import IsTerminator

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.types import byte_size, has_size
from ge.transforms.analysis.task_graph import TaskGraph, value_graph
from ge.transforms.analysis.views import storage
from ge.transforms.fusion.groups import Group
from ge.transforms.fusion.merging import Merger
from ge.transforms.fusion.recompute_in_users import RecomputingPass, duplicate_into_users
from ge.transforms.rewriting.counts import declare

RELIEVE_PEAK = declare(
    "relieve-peak",
    "as recompute, but for less memory at the peak, at some cost of time",
)

SLOWER = 1.25  # how much longer launches may take for less memory
ROUNDS = 4  # when the values at the peak are gone, the peak is elsewhere


class RelievePeakPass(RecomputingPass):
    """Compute cheap values that are live at the memory peak in each launch that uses them."""

    name = "relieve-peak"
    RULES = (RELIEVE_PEAK,)

    def recompute(self, merger: Merger) -> None:
        for _ in range(ROUNDS):
            peak = peak_of(merger)
            if not any([remove(merger, value, peak) for value in peak.live]):
                return


@dataclass(frozen=True)
class Peak:
    """The place where launches in their order need the most memory."""

    live: list[SSAValue]  # the largest first
    last: Mapping[SSAValue, int]  # number of the last group that uses a value
    number: Mapping[Group, int]  # position of each group in the order


def peak_of(merger: Merger) -> Peak:
    groups, graph = merger.groups, values_of(merger)
    number = {group: i for i, group in enumerate(groups)}
    outputs = {v for group in number for v in groups.outputs(group)}
    profile = graph.live(range(len(graph)))
    at = profile.peak_step
    live = [v for v, b in graph.buffers.items() if graph.writer[b] <= at <= graph.end(b)]
    live = [v for v in live if graph.bytes[graph.buffers[v]]]
    live.sort(key=lambda v: -byte_size(v.type))
    last = {v: graph.end(b) for v, b in graph.buffers.items() if v in outputs}
    return Peak(live, last, number)


def values_of(merger: Merger) -> TaskGraph:
    """The launches in their order, and the values that they pass to each other in memory."""
    groups = merger.groups
    outputs = {v for group in groups for v in groups.outputs(group)}
    returned = _results(groups.block.last_op)

    def size_of(value: SSAValue) -> int:
        counts = value in outputs and value not in returned and in_arena(value)
        return byte_size(value.type) if counts else 0

    return value_graph((groups.in_order(group) for group in groups), size_of)


def in_arena(value: SSAValue) -> bool:
    """Return whether a result takes memory of a size that is known."""
    return not isinstance(value.owner, ConstantOp) and has_size(value)


def _results(last: Operation | None) -> set[SSAValue]:
    if last is None or not last.has_trait(IsTerminator):
        return set()
    return {storage(v) for v in last.operands} if isinstance(last.parent_op(), FuncOp) else set()


def remove(merger: Merger, value: SSAValue, peak: Peak) -> bool:
    """Have the users of a value compute it, if that frees memory; whether it was done."""
    groups = merger.groups
    op = groups.defining(value)
    users = {groups.find(use.operation) for use in value.uses}
    end = max((peak.number.get(u, 0) for u in users if u is not None), default=0)
    if op is None or kept_longer(merger, op, end, peak) >= byte_size(value.type):
        return False
    return duplicate_into_users(merger, op, RELIEVE_PEAK, SLOWER)


def kept_longer(merger: Merger, op: Operation, end: int, peak: Peak) -> int:
    """Bytes of the op's operands that nothing else uses up to the group of number `end`."""
    roots = dict.fromkeys(storage(v) for v in op.operands)
    known = [v for v in roots if merger.groups.defining(v) is not None and in_arena(v)]
    return sum(byte_size(v.type) for v in known if peak.last.get(v, end) < end)
