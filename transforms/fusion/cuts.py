"""Where a launch that multiplies begins and ends, if the ops before and behind it are others.

    cast  mul  matmul  relu  add         a cut: the launch has ops begin to end; what comes before
          [ begin         ) end          `first`, its first product, or behind its last one is free

Each program takes long to write. So cuts are asked for what they take only where they may be the
fastest: `at_least` says at once what none of them goes below, and launches that begin later are
assumed to take no longer, since they compute less of their operands.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

from xdsl.ir import Operation

from ge.dialects.fused_op import Body, multiplies
from ge.dialects.graph.activation import ReluOp
from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.support.boxes import MOVING
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import byte_size, element_type
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.cycles import peak_macs
from ge.runtime.library.costs.estimates import hbm_bytes_per_us
from ge.transforms.fusion.launchable import is_view

Cut: TypeAlias = tuple[int, int]
Time: TypeAlias = tuple[bool, float]
"""Whether a launch has no tile program, and what it takes, or it and others."""


@dataclass
class CutSearch:
    """The fastest cut of some ops; of equal ones the one that has all, or begins and ends first."""

    count: int
    first: int
    last: int  # behind the last product
    launch: Callable[[int, int], Time]
    others: Callable[[int, int], float]
    at_least: Callable[[int, int], float]
    """Microseconds that a launch does not go below."""
    others_at_least: Callable[[int, int], float] = lambda begin, end: 0.0
    cuts: list[Cut] = field(default_factory=list[Cut])  # with products, and all before or none
    found: dict[Cut, Time] = field(default_factory=dict[Cut, Time])
    best: Cut = 0, 0
    time: Time = True, inf  # of the best one

    def fastest(self, products_first: bool) -> Cut:
        """The end is looked for first, with nothing before the products or all, then the beginning.
        `products_first`: whether the products alone are probably the fastest."""
        whole, alone = (0, self.count), (self.first, self.last)
        # either side alone may start vector cores, so ends are tried without what comes before, too
        begins, ends = dict.fromkeys((0, self.first)), range(self.last, self.count + 1)
        self.cuts += [whole, *((b, e) for b in begins for e in ends if (b, e) != whole)]
        longest_first = sorted(self.cuts, key=lambda cut: -cut[1])
        for cut in [alone, *longest_first] if products_first else longest_first:
            self.look(cut, (False, self.at_least(*cut)))
        end = self.best[1]
        least = self.found.get((self.first, end), (True, 0.0))
        if least[0]:
            least = False, self.at_least(self.first, end)
        self.between(0, self.first, end, least)
        return self.best

    def between(self, low: int, high: int, end: int, least: Time) -> None:
        """`least`: what launches do not go below that begin behind `low` and before `high`."""
        middle = (low + high) // 2
        if low < middle and self.beats((low + 1, end), least):
            self.look((middle, end), least)
            self.between(middle, high, end, least)
            self.between(low, middle, end, self.found.get((middle, end), least))

    def look(self, cut: Cut, at_least: Time) -> None:
        """Ask for what a cut takes, unless it is not the fastest anyway."""
        least = added(at_least, self.others_at_least(*cut))
        if cut in self.found or not self.beats(cut, least):
            return
        if self.beats(cut, added(at_least, others := self.others(*cut))):
            self.found[cut] = launch = self.launch(*cut)
            if self.beats(cut, time := added(launch, others)):
                self.best, self.time = cut, time

    def beats(self, cut: Cut, time: Time) -> bool:
        """Of those that take as long, the first one is the best."""
        return (time, self.place(cut)) < (self.time, self.place(self.best))

    def place(self, cut: Cut) -> int:
        return self.cuts.index(cut) if cut in self.cuts else len(self.cuts) + cut[0]


def added(time: Time, us: float) -> Time:
    return time[0], time[1] + us


def at_least_us(body: Body, target: Target) -> float:
    """Microseconds that no program of a launch goes below: its start, and what the cube takes for
    its products, or HBM for their weights; without products, how long results leave all cores."""
    start = target.kernel_start_us
    products = [op for op in body.ops if multiplies(op)]
    if not products:
        work = body.work()
        cycles = 0 if work is None else work.written / target.ub_out_rate / target.vector_cores
        us = min(start.get("vector", 0.0), start.get("row", 0.0))
        return target.launch_us + us + cycles / target.cycles_per_us
    if not all(isinstance(op, MatmulOp | ConvOp | AttentionOp) for op in products):
        return 0.0
    kinds = ("mixed",) if needs_vector_cores(body.ops) else ("cube", "vector", "row")
    us = min(start.get(kind, 0.0) for kind in kinds)
    cycles = sum(
        body.work_of(op).macs / peak_macs(element_type(op.operands[0]), target)
        for op in products
        if not isinstance(op, AttentionOp)  # it may leave some out
    )
    multiplied = cycles / target.cube_cores / target.cycles_per_us
    sizes = {v: byte_size(v.type) for v in (*body.inputs, *body.outputs)}
    weights = {v for op in products for v in op.operands if isinstance(v.owner, ConstantOp)}
    size = sum(sizes[v] for v in weights if v in sizes)
    rest = sum(sizes[v] for v in body.inputs if not isinstance(v.owner, ConstantOp))
    rate = hbm_bytes_per_us(target.cube_cores, target) * target.hbm_read_efficiency
    loaded = size / rate * (1 - rest / max(sum(sizes.values()), 1))  # as `Figures.core_us` has it
    return target.launch_us + us + max(multiplied, loaded)


def needs_vector_cores(ops: Sequence[Operation]) -> bool:
    """Whether no program has these products and what is behind them on the cube alone, or on vector
    cores alone: on its way out of the cube nothing passes but a relu."""
    kinds = [op for op in ops if isinstance(op, TensorOp)]
    if any(isinstance(op, ConvOp) and op.groups > 1 for op in kinds):
        return False
    behind = [op for op in kinds if op.ACCESS not in MOVING and not isinstance(op, ReluOp)]
    return any(isinstance(op, AttentionOp) or not multiplies(op) for op in behind)


def passes_freely(ops: Sequence[Operation]) -> bool:
    """Whether ops behind products take no time in a launch that runs on the cube: a relu, on its
    way out."""
    return all(isinstance(op, ReluOp) or is_view(op) for op in ops)


def cube_first(ops: Sequence[Operation]) -> list[Operation]:
    """Ops of a launch in an order in which those come first that products are computed of."""
    needed = set[Operation]()
    for op in reversed(ops):
        if multiplies(op) or any(u.operation in needed for r in op.results for u in r.uses):
            needed.add(op)
    return sorted(ops, key=lambda op: op not in needed)


def connected(ops: Sequence[Operation]) -> list[list[Operation]]:
    """The parts of some ops that use no results of each other, each in order."""
    parts = list[list[Operation]]()
    for op in ops:
        defining = {v.owner for v in op.operands}
        mine = [part for part in parts if not defining.isdisjoint(part)]
        parts = [part for part in parts if part not in mine]
        parts.append([*(o for part in mine for o in part), op])
    return parts
