"""Shared parts of fusion rules: which ops may join a launch, the time that a merge saves by the
cost model, and the walk over the blocks of a program.

`CutSearch` decides where a launch that multiplies begins and ends, if the ops before and behind it
become other launches:

    cast  mul  matmul  relu  add         a cut: the launch has ops begin to end; what comes before
          [ begin         ) end          `first`, its first product, or behind its last one is free

Each program takes long to write. So the exact time of a cut is asked for only if it may be the
fastest: `at_least` gives a lower bound at once, and launches that begin later are assumed to take
no longer, since they compute less of their operands.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import ClassVar, TypeAlias, TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects import graph
from ge.dialects.fused_op import Body, FusedOp, RegionOp, multiplies
from ge.dialects.graph.shape import is_shape_arithmetic
from ge.dialects.support.boxes import MOVING, Access, Work
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import operands_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import byte_size, element_type, has_size, number_of
from ge.dialects.targets.target import Target, target_for
from ge.runtime.library.asking import answer_us, answers_in, asked, core_us, launch_us, refused
from ge.runtime.library.costs.cycles import peak_macs
from ge.runtime.library.costs.estimates import hbm_bytes_per_us
from ge.transforms.analysis.views import whole_of
from ge.transforms.fusion.groups import Group, Groups, access, blocks_of, is_vector_op, is_view
from ge.transforms.graph.share_common_subexpressions import share_common_subexpressions
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.counts import allows, count, disabling, is_enabled
from ge.transforms.rewriting.passes import TargetPass
from ge.transforms.shapes.open_kernels import OpenBodies, Question

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
        """Return whether a cut is better than the best one so far; of equal times the first cut is
        best."""
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
    if not all(
        isinstance(op, graph.MatmulOp | graph.ConvOp | graph.AttentionOp) for op in products
    ):
        return 0.0
    kinds = ("mixed",) if needs_vector_cores(body.ops, target) else ("cube", "vector", "row")
    us = min(start.get(kind, 0.0) for kind in kinds)
    cycles = sum(
        body.work_of(op).macs / peak_macs(element_type(op.operands[0]), target)
        for op in products
        if not isinstance(op, graph.AttentionOp)  # it may leave some out
    )
    multiplied = cycles / target.cube_cores / target.cycles_per_us
    sizes = {v: byte_size(v.type) for v in (*body.inputs, *body.outputs)}
    weights = {v for op in products for v in op.operands if isinstance(v.owner, graph.ConstantOp)}
    size = sum(sizes[v] for v in weights if v in sizes)
    rest = sum(sizes[v] for v in body.inputs if not isinstance(v.owner, graph.ConstantOp))
    rate = hbm_bytes_per_us(target.cube_cores, target) * target.hbm_read_efficiency
    loaded = size / rate * (1 - rest / max(sum(sizes.values()), 1))  # as `Figures.core_us` has it
    return target.launch_us + us + max(multiplied, loaded)


ON_THE_WAY = (
    graph.AddOp,
    graph.DequantizeOp,
    graph.RequantizeOp,
)  # out of the cube, of sums of integers


def needs_vector_cores(ops: Sequence[Operation], target: Target) -> bool:
    """Return whether no program has these products and the ops behind them on the cube alone, or on
    vector cores alone: only a relu can be computed on the way out of the cube, and where the target
    has tables for that, a bias and scales of sums of integers."""
    kinds = [op for op in ops if isinstance(op, TensorOp)]
    if any(isinstance(op, graph.ConvOp) and op.groups > 1 for op in kinds):
        return False
    integers = all(element_type(op.results[0]) == i32 for op in kinds if multiplies(op))
    free = (
        (graph.ReluOp, *ON_THE_WAY)
        if target.bt_bytes and target.fb_bytes and integers
        else (graph.ReluOp,)
    )
    behind = [op for op in kinds if op.ACCESS not in MOVING and not isinstance(op, free)]
    return any(isinstance(op, graph.AttentionOp) or not multiplies(op) for op in behind)


def passes_freely(ops: Sequence[Operation]) -> bool:
    """Return whether ops behind products take no time in a launch that runs on the cube: a relu, on
    its way out."""
    return all(isinstance(op, graph.ReluOp) or is_view(op) for op in ops)


def cube_first(ops: Sequence[Operation]) -> list[Operation]:
    """Ops of a launch in an order in which those come first that products are computed of, and
    weights before all."""
    needed = set[Operation]()
    for op in reversed(ops):
        if multiplies(op) or any(u.operation in needed for r in op.results for u in r.uses):
            needed.add(op)
    return sorted(ops, key=lambda op: (op not in needed, not is_weight(op)))


def connected(ops: Sequence[Operation]) -> list[list[Operation]]:
    """The parts of some ops that use no results of each other, each in order."""
    parts = list[list[Operation]]()
    for op in ops:
        defining = {v.owner for v in op.operands}
        mine = [part for part in parts if not defining.isdisjoint(part)]
        parts = [part for part in parts if part not in mine]
        parts.append([*(o for part in mine for o in part), op])
    return parts


MOST_OPS = 64
"""Ops of one kernel at most: its code must fit into the core's instruction cache (32 KiB is usual,
about half a KiB an op; neither is published). It also keeps the search for kernels linear."""


UNSURE = 0.25  # part of what a launch of weights alone takes: no launch more for what is unsure

MOST_PLACES = 4  # ops at an end of a vector launch that are tried as launches of their own


def _source(value: SSAValue, inside: set[Operation]) -> SSAValue:
    """The value inside that a view is of: a view costs nothing outside either."""
    while isinstance(op := value.owner, Operation) and op in inside and is_view(op):
        if op.operands[0].owner not in inside:
            break
        value = op.operands[0]
    return value


@dataclass(frozen=True, slots=True)
class Missed:
    """The reason why two groups did not become one launch."""

    why: str
    loss_us: float | None = None  # what one launch would save
    final: bool = False  # other merges cannot change it


@dataclass(frozen=True, slots=True)
class Merge:
    """That an op joined a launch with others, by a rule."""

    rule: str
    op: Operation
    others: tuple[Operation, ...]
    gain_us: float | None


@dataclass
class Merger:
    """Merges groups of one block for one rule, where that saves time."""

    groups: Groups
    target: Target
    rule: str
    sizes: OpenBodies | None = None
    """What is known of launches whose sizes are not."""
    _times: dict[Group, tuple[int, float | None]] = field(
        default_factory=dict[Group, tuple[int, float | None]]
    )  # group -> the number of its ops, and its time with so many
    _merges: list[Merge] = field(default_factory=list[Merge])
    _works: dict[TensorOp, Work] = field(default_factory=dict[TensorOp, Work])
    _numbers: dict[TensorOp, int] = field(default_factory=dict[TensorOp, int])

    @cached_property
    def depths(self) -> dict[Operation | Block, int]:
        """Return for each op of the block how many matmuls follow each other up to it, itself
        included."""
        depths: dict[Operation | Block, int] = {}
        for op in self.groups.block.ops:
            own = isinstance(op, TensorOp) and op.ALWAYS_MACS
            depths[op] = max((depths.get(v.owner, 0) for v in op.operands), default=0) + own
        return depths

    def body(self, groups: Iterable[Group]) -> Body:
        """Return the body of the groups as one launch."""
        return self.body_of(op for g in groups for op in g.ops)

    def body_of(self, members: Iterable[Operation]) -> Body:
        ops = sorted(members, key=self.groups.number.__getitem__)
        inside = set(ops)
        # by their ids, as this is asked often and xDSL's values hash in Python
        inputs = {id(v): v for op in ops for v in operands_of(op) if v.owner not in inside}
        used = [
            _source(r, inside)
            for op in ops
            for r in op.results
            if any([u.operation not in inside for u in r.uses])
        ]
        outputs = {id(v): v for v in used}
        tensor_ops = [op for op in ops if isinstance(op, TensorOp)]
        return Body(
            tensor_ops,
            list(inputs.values()),
            list(outputs.values()),
            works=self._works,
            numbers=self._numbers,
        )

    def body_with(self, own: Operation, ops: Iterable[Operation]) -> Body:
        """Return the body of ops as one launch, with an op that each of its users computes for
        itself."""
        body = self.body_of((own, *ops))
        return replace(body, outputs=[v for v in body.outputs if v.owner is not own])

    def us(self, question: Question, body: Body) -> float | None:
        """Return the library's answer about a launch (`launch_us`, `core_us`), or a bound known at
        once (`at_least_us`). A launch of unknown shapes has the sizes that programs are cut for;
        None if these are not known."""
        if body.is_static:
            return question(body, self.target)
        if self.sizes is None or body.kind:
            return None
        return self.sizes.us(question, body, self.target)

    def time_us(self, group: Group) -> float | None:
        """Time of a group as a launch of its own; views take none."""
        size, time = self._times.get(group, (0, None))
        if size != len(group.ops):
            time = 0.0 if self._is_free(group) else self.us(launch_us, self.body([group]))
            self._times[group] = len(group.ops), time
        return time

    def sum_us(self, *launches: Sequence[Group]) -> float | None:
        """Time of launches, each of some groups; None where shapes are unknown."""
        total = 0.0
        for groups in launches:
            one = len(groups) == 1
            time = self.time_us(*groups) if one else self.us(launch_us, self.body(groups))
            if time is None:
                return None
            total += time
        return total

    def are_fastest_as_one(
        self, some: Sequence[Group], others: Sequence[Group], hidden_us: float = 0.0
    ) -> bool:
        """Return whether one launch takes no longer than the lower bounds of two launches that
        share these groups: this asks less than `attempt`, which tries each. False if shapes are
        unknown. `hidden_us`: as there."""
        apart = sum(self.at_least_us(g) for g in (some, others)) - hidden_us
        if hidden_us and self.at_least_us([*some, *others]) > apart:
            return False
        whole = self.sum_us([*some, *others])
        return whole is not None and whole <= apart

    def at_least_us(self, groups: Iterable[Group]) -> float:
        """Time that one launch of some groups does not go below; 0 where shapes are unknown."""
        return self.us(at_least_us, self.body(groups)) or 0.0

    def _is_free(self, group: Group) -> bool:
        return all(is_view(op) for op in group.ops)

    def attempt(
        self,
        group: Group,
        other: Group,
        rule: str,
        judged: bool = False,
        hidden_us: float = 0.0,
        body: Body | None = None,
    ) -> Missed | None:
        """Merge two groups by a rule if that creates no cycle, and saves time where it is to be
        `judged`; otherwise returns the reason. Others are judged when they are whole (`finish`).
        `hidden_us`: of what devices send each other, behind one launch of the two; `body`: that of
        this launch, where it is known."""
        if len(group.ops) + len(other.ops) > MOST_OPS:
            return Missed(f"one kernel of more than {MOST_OPS} ops", self.worth_us(group, other))
        at, gain = other.ops[-1], None if judged else self.worth_us(group, other)
        if judged and not self._is_free(other):
            body = body or self.body([group, other])
            apart, together = self.sum_us([group], [other]), self.us(at_least_us, body) or 0.0
            if apart is None or together <= apart - hidden_us:
                together = self.us(launch_us, body)
            if apart is not None and together is not None:
                if (gain := apart - hidden_us - together) < 0:
                    return Missed(slower_text(-gain, hidden_us), 0.0)
        if not allows(rule, at):
            return Missed("a debug counter leaves it out", gain, final=True)
        merge = Merge(rule, at, tuple(group.ops), gain)
        if not self.groups.merge(group, other):
            return Missed("a path around them would become a cycle", gain, final=True)
        self._merges.append(merge)
        return None

    def report(self) -> None:
        """Count and remark the merges that became a launch. Groups that came apart again have
        remarks that say why (`finish`)."""
        for merge in self._merges:
            group = self.groups.of(merge.op)
            if any(self.groups.find(op) is group for op in merge.others):
                count(merge.rule)
                remarks.applied(merge.rule, merge.op, gain_us=merge.gain_us)

    def join(
        self, group: Group, other: Group, rule: str, judged: bool = False, hidden_us: float = 0.0
    ) -> bool:
        """`attempt` by a rule that is enabled, with a remark either way; whether they merged."""
        if not is_enabled(rule):
            return False
        at = other.ops[-1]
        missed = self.attempt(group, other, rule, judged, hidden_us)
        if missed is not None:
            self.missed(rule, at, missed)
        return missed is None

    def worth_us(self, first: Group, second: Group) -> float | None:
        """Return what one launch instead of two would save: the launch cost, and the traffic of the
        values that only the two use. None unless remarks are wanted, and while a shape is dynamic.
        """
        if not remarks.wanted():
            return None
        saved = 0
        for value in {v for op in second.ops for v in op.operands}:
            if not has_size(value):
                return None
            if self.groups.producer(value) is first is not second:
                inside = (self.groups.find(u.operation) in (first, second) for u in value.uses)
                saved += (2 if all(inside) else 1) * byte_size(value.type)
        rate = hbm_bytes_per_us(self.target.cube_cores, self.target)
        return self.target.launch_us + saved / rate

    def missed(self, rule: str, op: Operation, why: Missed) -> None:
        if is_enabled(rule):
            count(rule, applied=0)
            remarks.missed(rule, op, why.why, why.loss_us)

    def trim(self, group: Group) -> None:
        """Take views at the edges out of a group: they cost nothing outside. A view with users on
        both sides is duplicated."""
        groups = self.groups
        for op in reversed(groups.in_order(group)):
            if len(group.ops) > 1 and is_view(op):
                uses = (u for r in op.results for u in r.uses)
                inside = {groups.find(u.operation) is group for u in uses}
                if True not in inside:
                    groups.split_off(op, before=False)
                elif False in inside:
                    groups.duplicate(op)
        for op in groups.in_order(group):
            if len(group.ops) > 1 and is_view(op):
                if not any(groups.producer(v) is group for v in op.operands):
                    groups.split_off(op, before=True)

    def finish(self, group: Group, kind: type[FusedOp], likely: int = 0) -> None:
        """Make a group of several ops a launch of that kind. Where no lowering has a program for
        it, or launches apart are faster, ops at its end, or before what multiplies, stay apart; on
        the vector unit those at the end are a launch, too, if they can be. `likely`: as in
        `with_program`."""
        self.trim(group)
        if len(group.ops) > 1:
            ops = self.groups.in_order(group)
            if any(map(multiplies, ops)):
                begin, end = self.fastest(ops := cube_first(ops))
            else:
                begin, end = self.with_program(ops, likely)
            behind = self.groups.split(group, ops[end:]) if end < len(ops) else None
            front, group = group, self.groups.split(group, ops[begin:end]) if begin else group
            if front is not group:
                self.groups.take_apart(front)
            if behind is not None and kind is RegionOp:
                self.finish(behind, kind, end - begin)
            elif behind is not None:
                self.groups.take_apart(behind)
            if not any(map(multiplies, ops)):
                self.move_apart(group)
            self.trim(group)
        if len(group.ops) > 1:
            group.kind = kind
            count(self.rule)

    def with_program(self, ops: Sequence[Operation], likely: int) -> tuple[int, int]:
        """Return begin and end of the ops of a vector launch that have a tile program together: as
        many as possible from the first on. All, if none have one, or that is not known. `likely`:
        how many at the front probably have one; if given, as many are tried first, then twice as
        many, so that a launch that comes apart into many is not looked at whole for each."""

        def has_program(end: int) -> bool:
            return self.refusal(ops[:end]) is None

        whole = 0, len(ops)
        while 0 < likely < len(ops):
            if not has_program(likely):
                ops = ops[:likely]
            likely *= 2
        if (refusal := self.refusal(ops)) is None:
            return 0, len(ops)
        ends = range(len(ops) - 1, 0, -1)  # if one has a program, shorter ones have, too
        if (at := bisect_left(ends, True, key=has_program)) == len(ends):
            return whole
        why = f"with it there is no tile program: {refusal}"
        self.missed(self.rule, ops[ends[at]], Missed(why, 0.0))
        return 0, ends[at]

    def move_apart(self, group: Group) -> None:
        """Make ops that only move operands or results of a vector launch with a program launches of
        their own, each where that is faster, at most `MOST_PLACES`. Of those that are alike no more
        are tried where one is not."""
        ops = self.groups.in_order(group)
        first, last = movements_at_ends(ops)
        if (
            len(first) + len(last) in (0, len(ops))
            or self.us(at_least_us, self.body_of(ops)) is None
        ):
            return
        whole = least = self.apart(ops)
        apart, stay = list[Operation](), set[Hashable]()
        for op in [*first, *last][:MOST_PLACES]:
            rest = [o for o in ops if o is not op and o not in apart]
            if kind_of(op) in stay:
                continue
            others = [[other] for other in (*apart, op)]
            bound = False, self.us(at_least_us, self.body_of(rest)) or 0.0
            found = added(bound, self.others_at_least(*others))
            if found < least and (found := added(bound, us := self.others_us(*others))) < least:
                found = added(self.launch_time(rest), us)
            if found < least:
                least, apart = found, [*apart, op]
            else:
                stay.add(kind_of(op))
        for op in apart:
            self.groups.split_off(op, before=op in first)
        if apart:
            why = f"apart they are {whole[-1] - least[-1]:.1f} us faster"
            self.missed(self.rule, apart[0], Missed(why, 0.0))

    def refusal(self, ops: Sequence[Operation]) -> str | None:
        """Return why ops have no tile program as one launch; None if they have one, or it is not
        known."""
        body = self.body_of(ops)
        if body.kind or all(map(is_shape_arithmetic, ops)):
            return None
        if body.is_static:
            return refused(body, self.target)
        return None if self.sizes is None else self.sizes.refusal(body, self.target) or None

    def fastest(self, ops: Sequence[Operation]) -> tuple[int, int]:
        """Return begin and end of the launch that multiplies, if the ops before and after it are
        other launches, and all of them take the least time: vector cores start late where they are
        apart from the cube, for one. A launch has a tile program if some cut of it has."""
        body, products = self.body_of(ops), [i for i, op in enumerate(ops) if multiplies(op)]
        first, last = products[0], products[-1] + 1
        if body.kind or self.us(at_least_us, body) is None:
            return self.longest(ops, first, last)

        def at_least(b: int, e: int) -> float:
            us = self.us(at_least_us, self.body_of(ops[b:e])) or 0.0
            if not body.is_static:
                return us
            longer = (end for end in range(e + 1, len(ops) + 1) if (b, end) in search.found)
            if b == first and (end := next(longer, 0)) and passes_freely(ops[e:end]):
                figures = asked(self.body_of(ops[b:end]), self.target).figures
                if figures is not None and any(engine == "cube" for engine, _ in figures.cores):
                    return max(us, search.found[b, end][1])
            return us

        search = CutSearch(
            *(len(ops), first, last),
            lambda b, e: self.launch_time(ops[b:e]),
            lambda b, e: self.others_us(ops[:b], ops[e:]),
            at_least,
            lambda b, e: self.others_at_least(ops[:b], ops[e:]),
        )
        begin, end = search.fastest(needs_vector_cores(ops, self.target))
        if (begin, end) != (0, len(ops)) and remarks.wanted():
            why = f"apart they are {self.apart(ops)[-1] - search.time[-1]:.1f} us faster"
            if (refusal := self.refusal(ops)) is not None:
                why = f"with it there is no tile program: {refusal}"
            at = ops[end] if end < len(ops) else ops[begin - 1]
            self.missed(self.rule, at, Missed(why, 0.0))
        return begin, end

    def longest(self, ops: Sequence[Operation], first: int, behind: int) -> tuple[int, int]:
        """The same where sizes are not known: the launch has as many ops as have a program, with
        those from the `first` product on, and up to `behind` the last."""
        ends = range(len(ops), behind - 1, -1)
        tried = [(begin, end) for begin in range(first + 1) for end in ends]
        refusals = list[str]()
        for begin, end in tried:
            if (refusal := self.refusal(ops[begin:end])) is None:
                if refusals:
                    why = f"with it there is no tile program: {refusals[0]}"
                    at = ops[end] if end < len(ops) else ops[begin - 1]
                    self.missed(self.rule, at, Missed(why, 0.0))
                return begin, end
            refusals.append(refusal)
        return tried[0]

    def apart(self, launch: Sequence[Operation], *others: Sequence[Operation]) -> Time:
        """Return the time of a launch and of other ops, which are one launch for each connected
        part."""
        return added(self.launch_time(launch), self.others_us(*others))

    def launch_time(self, ops: Sequence[Operation]) -> Time:
        if (body := self.body_of(ops)).is_static:
            answer = asked(body, self.target)
            return answer.refusal is not None, answer_us(body, answer, self.target)
        return self.refusal(ops) is not None, self.us(launch_us, body) or 0.0

    def others_us(self, *others: Sequence[Operation]) -> float:
        """Return the time of the connected parts of these; a part that another launch may take has
        no start, and one of weights counts for more."""

        def us(part: Sequence[Operation]) -> float:
            asked = core_us if self.may_be_taken(part) else launch_us
            body = self.body_of(part)
            unsure = UNSURE * (self.us(core_us, body) or 0.0) if is_weight(part[0]) else 0.0
            return (self.us(asked, body) or 0.0) + unsure

        return sum(map(us, self.parts_of(others)))

    def others_at_least(self, *others: Sequence[Operation]) -> float:
        """Return a lower bound of `others_us`, without a question to the library."""
        parts = [p for p in self.parts_of(others) if not self.may_be_taken(p)]
        return sum(self.us(at_least_us, self.body_of(part)) or 0.0 for part in parts)

    def parts_of(self, others: Iterable[Sequence[Operation]]) -> list[list[Operation]]:
        """The launches that ops become, one for each connected part; weights are dequantized by one
        of their own (`weights_together.py`)."""
        parts = [part for ops in others for part in connected(ops)]
        weights = [op for part in parts if all(map(is_weight, part)) for op in part]
        parts = [part for part in parts if not all(map(is_view, part)) and part[0] not in weights]
        return [weights, *parts] if weights else parts

    def may_be_taken(self, ops: Sequence[Operation]) -> bool:
        """Return whether a launch of the vector unit, or of attention, may take ops together with
        others that they use or that use them."""
        own, number = self.groups.of(ops[0]), self.groups.number
        todo = [user.operation for op in ops for r in op.results for user in r.uses]
        todo += [v.owner for op in ops for v in op.operands if isinstance(v.owner, Operation)]
        seen = set[Operation](ops)
        while todo:
            if (op := todo.pop()) in seen or op not in number:
                continue
            seen.add(op)
            if is_view(op):
                todo += [use.operation for r in op.results for use in r.uses]
            elif (group := self.groups.of(op)) is not own and group.kind is None:
                if is_vector_op(op) or isinstance(op, graph.AttentionOp):
                    return True
        return False


def is_weight(op: Operation | Block) -> TypeGuard[graph.DequantizeOp]:
    """Return whether an op dequantizes constants."""
    return isinstance(op, graph.DequantizeOp) and all(
        isinstance(whole_of(v).owner, graph.ConstantOp) for v in op.operands
    )


def movements_at_ends(ops: Sequence[Operation]) -> tuple[list[Operation], list[Operation]]:
    """Return the ops of a launch that only move its operands, and others that only move results of
    it."""
    inside, moving = set(ops), [op for op in ops if access(op) is Access.MOVEMENT]
    first = [op for op in moving if all(v.owner not in inside for v in op.operands)]
    users = {op: [use.operation for r in op.results for use in r.uses] for op in moving}
    last = [op for op in moving if op not in first and inside.isdisjoint(users[op])]
    return first, last


def kind_of(op: Operation) -> Hashable:
    """Equal for ops that do the same to equal shapes, or nearly so."""
    types = (*(v.type for v in op.operands), *(r.type for r in op.results))
    return op.name, *map(number_of, types)


def sizes_in(block: Block) -> OpenBodies | None:
    """Return what is known of the launches of a block that is the body of a function with open
    sizes; None for any other block."""
    func = block.parent_op()
    if not isinstance(func, FuncOp) or all(map(is_settled, func.body.block.ops)):
        return None
    return OpenBodies.of(func)


def is_settled(op: Operation) -> bool:
    return all(map(has_size, op.results))


def check_rules(disable: Iterable[str], rules: Sequence[str]) -> None:
    for rule in disable:
        if rule not in rules:
            raise ValueError(f"there is no rule '{rule}'; it has {', '.join(rules)}")


@dataclass(frozen=True)
class FusionPass(TargetPass, ABC):
    """Base of the passes that put ops into launches by rules, each of which can be switched off,
    and is counted and remarked. Raises ValueError for a disabled rule that the pass lacks."""

    RULES: ClassVar[tuple[str, ...]]

    disable: tuple[str, ...] = ()
    """Rules of the pass that are left out; `ge-opt --list-rules` says what there is."""
    answers: str = ""
    """File that keeps what the library answers about launches (empty: none)."""

    def __post_init__(self) -> None:
        check_rules(self.disable, self.RULES)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = target_for(main_function(op) or op, self.target)

        if not is_enabled(self.name):
            return
        with disabling(self.disable), answers_in(self.answers):
            for block in list(blocks_of(op)):
                merger = Merger(self.groups(block), machine, self.name, sizes_in(block))
                self.fuse(merger)
                merger.report()
                for fused in merger.groups.emit():
                    share_common_subexpressions(fused.block)

    def groups(self, block: Block) -> Groups:
        return Groups(block)

    @abstractmethod
    def fuse(self, merger: Merger) -> None:
        """Group the ops of a block; groups with a kind become fused ops."""


def slower_text(us: float, hidden_us: float) -> str:
    """Say how much slower one launch is than two, and whether that is for what devices send each
    other meanwhile."""
    text = f"together they are {us:.1f} us slower"
    if hidden_us < us or not hidden_us:
        return text
    return f"{text}: apart, {hidden_us:.1f} us of sending are hidden behind what is computed"
