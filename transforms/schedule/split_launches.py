"""Launches come apart into pieces that overlap.

    npu_task.launch @matmul ins(%x, %w : 64x32, ...) outs(%0 : memref<64x64xf32>)
    npu_task.launch @softmax ins(%0 : ...) outs(%1 : memref<64x64xf32>)
becomes, in two pieces (`%x0`, `%11` and so on are views of halves; `%0` is no more)
    %00 = memref.alloc() : memref<32x64xf32>
    npu_task.launch @matmul_of_2 ins(%x0, %w : 32x32, ...) outs(%00 : memref<32x64xf32>)
    %01 = memref.alloc() : memref<32x64xf32>
    npu_task.launch @matmul_of_2 ins(%x1, %w : 32x32, ...) outs(%01 : memref<32x64xf32>)
    npu_task.launch @softmax_of_2 ins(%00 : ...) outs(%10 : memref<32x64xf32>)
    npu_task.launch @softmax_of_2 ins(%01 : ...) outs(%11 : memref<32x64xf32>)

so that the cube cores compute the second half while the vector cores work on the first one (the
second matmul is issued before the first softmax), and the values between the two are still in L2.
These have as many buffers as pieces are under way, which the next pieces reuse. `pieces.py` says
what may come apart together. The number of pieces is the one with the shortest makespan by the
clock, each with its best schedule; none where that gains less than `GAIN`, and twice as many only
where these gain `MORE_GAIN` on top: pieces cost launches.
Where a lower bound says so already (`at_least_us`), no programs of pieces are written to ask it.
What is faster in isolation need not be faster in the program: all such groups come apart if that
makes the whole program faster, else those that do so one after the other, the most promising first.
The search works on copies of the module.

With `collectives` only groups around what devices send each other come apart, along any axis: the
all-reduce of part i is under way while the product of part i + 1 is computed. Such groups overlap
each other, and may lose launches at both ends; of all ways to cut them those are taken that gain
most together. A whole group is tried only where a part of it gains.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.chunks import Along, chunk_of
from ge.dialects.graph.collectives import Collective
from ge.dialects.graph.sharding import mesh_of
from ge.dialects.npu_task import casts
from ge.dialects.npu_task.memory import owner_of, row_major, view_of
from ge.dialects.npu_task.ops import KernelOp, LaunchOp, ReturnOp, kernels_of
from ge.dialects.support.editing import erase
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import operands_of
from ge.dialects.support.types import element_type, set_type, shape_of, tensor
from ge.dialects.targets.target import Target, target_for
from ge.runtime.clock.bounds import Job, lower_bound
from ge.runtime.clock.clock import ProgramClock, UnknownShapes
from ge.runtime.clock.timeline import capacities
from ge.runtime.library.asking import answers_in
from ge.runtime.library.costs.collectives import collective_us
from ge.transforms.analysis.dependencies import Segment, segments
from ge.transforms.rewriting.passes import TargetPass
from ge.transforms.schedule.acknowledge_collectives import add_acknowledgements
from ge.transforms.schedule.assign_streams import MORE_STREAMS, StreamAssignment, own_streams
from ge.transforms.schedule.pieces import (
    Division,
    Grouping,
    LaunchGroup,
    Pipeline,
    parts_of,
    whole_bytes,
)

COUNTS = (2, 4, 8, 16, 32)  # numbers of pieces that are tried
GAIN = 0.05  # share of the makespan that pieces must gain
MORE_GAIN = 0.005  # share of it that twice as many pieces, and so launches, must gain
MOST_TRIALS = 4  # kinds of groups that are tried one after the other
LEAST_LAUNCHES = 10  # a group that takes less than so many launch costs is not cut

LAYERS = 4  # groups of a kind by which collectives and what is around them are judged

# Share of the makespan of the whole program that pieces must gain: the addresses that buffers get
# later change what L2 holds, and with it the makespan, by less.
WHOLE_GAIN = 0.005


def part_of(kernel: KernelOp, cut: Division, count: int, name: str) -> KernelOp | None:
    """The kernel of one of `count` pieces; None where an op does not take the smaller shapes."""
    args = kernel.body.block.args
    types = [
        a.type if along is None else tensor(along.part(shape_of(a), count), element_type(a))
        for a, along in zip(args, cut.operands, strict=True)
    ]
    block = Block(arg_types=types)
    inside: dict[SSAValue, SSAValue] = dict(zip(args, block.args, strict=True))
    for op in kernel.body.block.ops:
        if isinstance(op, ReturnOp):
            block.add_op(ReturnOp(*(inside[v] for v in op.values)))
            continue
        try:
            clone = part_of_op(op, inside, cut, count)
        except VerifyException:
            return None
        block.add_op(clone)
        inside |= zip(op.results, clone.results, strict=True)
    part = KernelOp(name, kernel.engine.data, block)
    part.location = kernel.location
    want = [
        tensor(along.part(shape_of(r), count), element_type(r))
        for r, along in zip(kernel.main.results, cut.results, strict=True)
    ]
    if list(part.main.inferred()) != want:
        return None
    for result, t in zip(part.main.results, want, strict=True):
        set_type(result, t)
    return part


def part_of_op(
    op: Operation, inside: dict[SSAValue, SSAValue], cut: Division, count: int
) -> Operation:
    """An op (not inserted) of a piece. Raises VerifyException where it does not take the smaller
    shapes."""
    if isinstance(op, FusedOp):
        return op.on([inside[v] for v in op.inputs])
    if isinstance(op, Collective):
        return chunk_of(op, cut.results[0].axis, inside[op.input], count)
    return op.clone(inside)


@dataclass(frozen=True, slots=True)
class Choice:
    """The launches of a group that come apart, the number of their pieces, and how much faster
    these are than the whole."""

    first: int
    end: int
    count: int
    gain_us: float
    is_tried: bool = True  # False: there are no such pieces, or they cannot gain enough


Choices: TypeAlias = Mapping[Hashable, Sequence[Choice]]  # by the key of a group


@dataclass
class Splitter:
    """Splits the launches of one function."""

    module: ModuleOp
    target: Target
    clock: ProgramClock
    grouping: Grouping
    collectives: bool  # only groups with collectives
    fixed: int = 1  # the number of pieces of every group, without `choices`
    choices: Choices | None = None
    # Of all groups with a key, in order
    launches: dict[Hashable, list[Operation]] = field(
        default_factory=lambda: defaultdict[Hashable, list[Operation]](list)
    )
    # The first launch of each group with a key
    firsts: dict[Hashable, list[Operation]] = field(
        default_factory=lambda: defaultdict[Hashable, list[Operation]](list)
    )
    alone: dict[str, float] = field(default_factory=dict[str, float])  # us of kernels
    parts: dict[tuple[str, Division, int], KernelOp | None] = field(
        default_factory=dict[tuple[str, Division, int], KernelOp | None]
    )

    def groups(self, func: FuncOp) -> Iterator[LaunchGroup]:
        """The groups of the outermost block."""
        for part in list(segments(func.body.block)):
            if isinstance(part, Segment):
                if self.collectives:
                    yield from self.grouping.with_collectives(part.tasks)
                else:
                    yield from self.grouping.plain(part.tasks)

    def promising(self, func: FuncOp) -> dict[Hashable, Sequence[Choice]]:
        """The groups that pieces make faster in isolation, and how; those that would gain most in
        the function first."""
        found: dict[Hashable, Sequence[Choice]] = {}
        gains: dict[Hashable, float] = defaultdict(float)
        for group in self.groups(func):
            key = group.key()
            self.launches[key] += group.members
            self.firsts[key].append(group.members[0])
            if key not in found:
                found[key] = self.tried(group)
            gains[key] += max((choice.gain_us for choice in found[key]), default=0.0)
        self.erase_parts(func)
        ordered = sorted(gains, key=lambda key: -gains[key])
        return {key: found[key] for key in ordered if found[key]}

    def rivals(self, keys: Iterable[Hashable]) -> list[Hashable]:
        """Those of some keys whose groups share launches with groups of another one."""
        own = {key: set(self.launches[key]) for key in keys}
        return [
            key
            for key, ops in own.items()
            if any(k != key and not ops.isdisjoint(others) for k, others in own.items())
        ]

    def shortened(self, func: FuncOp, key: Hashable) -> ModuleOp:
        """Return a copy of the module that has of its function what there is up to the group after
        the first `LAYERS` with a key: the layers of a network are alike."""
        copy, first = self.module.clone(), self.firsts[key]
        main = main_function(copy)
        if main is None or len(first) <= LAYERS:
            return copy
        ops = list(main.body.block.ops)
        left = ops[list(func.body.block.ops).index(first[LAYERS]) : -1]
        gone = set(left)
        ops[-1].operands = [v for v in operands_of(ops[-1]) if v.owner not in gone]
        for op in reversed(left):
            erase(op)
        return copy

    def function(self, func: FuncOp) -> None:
        """Split the launches of the outermost block as `choices` say."""
        for group, count in self.chosen(list(self.groups(func)), func):
            self.split(group, count)
        self.erase_parts(func)

    def erase_parts(self, func: FuncOp) -> None:
        """Erase the kernels of pieces that nothing launches."""
        used = {op.callee for op in func.walk() if isinstance(op, LaunchOp)}
        for part in self.parts.values():
            if part is not None and part.sym_name.data not in used:
                part.detach()
                part.erase()

    def chosen(
        self, groups: Sequence[LaunchGroup], func: FuncOp
    ) -> Sequence[tuple[LaunchGroup, int]]:
        """The groups that come apart, none of which has launches of another one, and the number of
        pieces of each: those that gain most together."""
        place = {op: i for i, op in enumerate(func.body.block.ops)}
        ways: list[tuple[int, int, float, LaunchGroup, int]] = []
        for group in groups:
            for part, count, gain in self.ways(group):
                ways.append((place[part.members[0]], place[part.members[-1]], gain, part, count))
        ways.sort(key=lambda way: way[1])
        ends = [end for _, end, _, _, _ in ways]
        best: list[tuple[float, list[tuple[LaunchGroup, int]]]] = [(0.0, [])]  # of the first ways
        for i, (first, _, gain, part, count) in enumerate(ways):
            before, others = best[bisect_left(ends, first, 0, i)]
            with_it = before + gain, [*others, (part, count)]
            best.append(max(best[-1], with_it, key=lambda found: found[0]))
        return best[-1][1]

    def ways(self, group: LaunchGroup) -> Iterator[tuple[LaunchGroup, int, float]]:
        """Launches of a group that may come apart, into how many pieces, and what that gains."""
        if self.choices is None:
            if self.fixed > 1 and self.part_names(group, self.fixed) is not None:
                yield group, self.fixed, len(group.members)
            return
        for choice in self.choices.get(group.key(), ()):
            if (part := group.between(choice.first, choice.end)) is not None:
                yield part, choice.count, choice.gain_us

    def tried(self, group: LaunchGroup) -> list[Choice]:
        """The ways to cut launches of a group that gain something. Groups with collectives may lose
        launches at both ends; and those beside each collective that take as long as it does are
        tried, with more and with fewer launches as long as these gain more. Where none of these
        gains, those of the group are not tried."""
        size, found = len(group.members), dict[tuple[int, int], Choice]()

        def gain(first: int, end: int, counts: Sequence[int]) -> Choice:
            best, part = Choice(first, end, 1, 0.0, False), group.between(first, end)
            if part is not None and (not self.collectives or self.sent_us(part)):
                best = self.fastest(part, first, end, counts)
            before = found.get((first, end), best)
            found[first, end] = max(before, best, key=lambda choice: choice.gain_us)
            return found[first, end]

        starts: list[tuple[Choice, Sequence[tuple[int, int]]]] = []
        near = [i for i, op in enumerate(group.members) if self.grouping.is_collective(op)]
        for i in near if self.collectives and size > 2 else ():
            if i and (first := self.reach(group, range(i, -1, -1))) is not None:
                starts.append((gain(first, i + 1, COUNTS[:1]), ((-1, 0), (1, 0), (0, 1))))
            if (last := self.reach(group, range(i, size))) is not None:
                starts.append((gain(i, last + 1, COUNTS[:1]), ((-1, 0), (0, -1), (0, 1))))
        tried = [best for best, _ in starts if best.is_tried]
        if not tried or any(best.gain_us > 0 for best in tried):
            starts.insert(0, (gain(0, size, COUNTS), ((1, 0), (0, -1))))
        for best, steps in starts:
            better = self.collectives and best.count > 1
            while better:
                first, end, count = best.first, best.end, best.count
                ends = [(first + a, end + b) for a, b in steps]
                others = [
                    found.get(e) or gain(*e, (count,)) for e in ends if 0 <= e[0] and e[1] <= size
                ]
                new = max([best, *others], key=lambda choice: choice.gain_us)
                better, best = new is not best, new
            if self.collectives and best.count > 1:
                gain(best.first, best.end, COUNTS)
        return [choice for choice in found.values() if choice.count > 1]

    def reach(self, group: LaunchGroup, members: Sequence[int]) -> int | None:
        """Return how far launches beside a collective, the first of some members, reach that take
        as long as it does: what it can hide behind. None where there are none."""
        left = self.alone_us(group.members[members[0]])
        for i in members[1:]:
            if (left := left - self.alone_us(group.members[i])) <= 0:
                return i
        return members[-1] if members[1:] else None

    def alone_us(self, op: LaunchOp) -> float:
        """Return how long a launch takes in isolation."""
        if op.callee not in self.alone:
            self.alone[op.callee] = self.makespan([op])
        return self.alone[op.callee]

    def fastest(self, group: LaunchGroup, first: int, end: int, counts: Sequence[int]) -> Choice:
        """The number of pieces with the shortest makespan in isolation. More are tried while they
        are faster by `MORE_GAIN`. The gain is negative where two pieces are slower than the
        whole."""
        best, whole = 1, self.makespan(group.members)
        if whole < LEAST_LAUNCHES * self.target.launch_us or (
            self.collectives and self.sent_us(group) < whole * GAIN
        ):
            return Choice(first, end, best, 0.0, False)
        fastest, before, least, won = whole * (1 - GAIN), whole, inf, whole
        for count in counts:
            if (latency := self.at_least_us(group, count)) < fastest:
                if (pieces := self.pieces(group, count)) is None:
                    break
                latency = self.makespan(pieces)
                for op in reversed(pieces):
                    op.erase()
            least = min(least, latency)
            if latency < fastest:
                best, fastest, won = count, latency * (1 - MORE_GAIN), latency
            elif best > 1 or latency > before:
                break
            before = latency
        if least == inf:
            return Choice(first, end, best, 0.0, False)
        return Choice(first, end, best, whole - won if best > 1 else min(whole - least, 0.0))

    def at_least_us(self, group: LaunchGroup, count: int) -> float:
        """Return a lower bound of the makespan of pieces, for which no program is written: each has
        the start of the whole launch and its share of the rest, as that is where L2 has all
        operands. That cores take no less for all pieces than for the whole is an assumption."""
        known = [self.clock.launched(op.callee) for op in group.members]
        times = [one.least_us(self.target, count) for one in known]
        capacity, places, jobs = capacities(self.target), dict[tuple[int, int], int](), list[Job]()
        before = group.needs()
        for i, member in Pipeline.of(group, self.grouping.kernels).order(count):
            needs = [places[i, m] for m in before[member]]
            shares = {name: n / capacity[name] for name, n in known[member].cores}
            places[i, member] = len(jobs)
            jobs.append(Job(times[member], needs, shares, 0.0))
        return lower_bound(jobs, self.target.launch_us)[0]

    def sent_us(self, group: LaunchGroup) -> float:
        """Return how long the collectives of a group take: no more can be hidden."""
        mains = [self.grouping.kernels[op.callee].main for op in group.members]
        return sum(collective_us(op, self.target) for op in mains if isinstance(op, Collective))

    def makespan(self, ops: Sequence[Operation]) -> float:
        """Return how long ops take in isolation, with their best schedule."""
        return best_streams(self.clock, self.target).fastest(Segment(list(ops)))

    def part(self, name: str, cut: Division, count: int) -> KernelOp | None:
        """Return the kernel of a piece, None if there is none."""
        key = name, cut, count
        if key not in self.parts:
            new = f"{name}_of_{count}"
            while new in self.clock.kernels:
                new += "_"
            kernel, whole = None, self.grouping.kernels[name]
            if not cut.extent % count:
                kernel = part_of(whole, cut, count, new)
            if kernel is not None:
                self.clock.kernels[new] = kernel
                self.module.body.block.insert_op_after(kernel, whole)
            self.parts[key] = kernel
        return self.parts[key]

    def pieces(self, group: LaunchGroup, count: int) -> list[Operation] | None:
        """The launches of the pieces as a pipeline, with views and buffers; None where a launch
        has no such pieces."""
        names = self.part_names(group, count)
        if names is None:
            return None
        pipeline = Pipeline.of(group, self.grouping.kernels)
        result: list[Operation] = []
        buffers: dict[tuple[SSAValue, int], SSAValue] = {}
        for i, member in pipeline.order(count):
            op = group.members[member]
            own: dict[SSAValue, SSAValue] = {}
            for value, along in group.values(member):
                owner = owner_of(value)
                if along is None or (copies := pipeline.copies.get(owner)) is None:
                    continue
                key = owner, i % copies
                if key not in buffers:
                    result.append(alloc := part_buffer(value, along, count))
                    alloc.location = op.location
                    buffers[key] = alloc.memref
                own[owner] = buffers[key]
            values: list[SSAValue] = []
            for value, along in group.values(member):
                view = value if along is None else part_view(value, along, i, count, own)
                if isinstance(view, ReinterpretCastOp):
                    result.append(view)
                    view = view.result
                values.append(view)
            launch = LaunchOp(names[member], values[: len(op.ins)], values[len(op.ins) :])
            launch.location = op.location
            result.append(launch)
        return result

    def part_names(self, group: LaunchGroup, count: int) -> list[str] | None:
        """The kernels of the pieces of a group's launches, None where one has none, or where a part
        would begin inside of a byte."""
        names: list[str] = []
        for i, (op, cut) in enumerate(zip(group.members, group.cuts, strict=True)):
            if any(a and not whole_bytes(v, a, count) for v, a in group.values(i)):
                return None
            if (kernel := self.part(op.callee, cut, count)) is None:
                return None
            names.append(kernel.sym_name.data)
        return names

    def split(self, group: LaunchGroup, count: int) -> None:
        """Replace the launches of a group by those of its pieces."""
        pieces = self.pieces(group, count)
        last = group.last
        assert pieces is not None
        assert last is not None
        assert last.parent is not None
        values = [v for op in group.members for v in (*op.ins, *op.outs)]
        last.parent.insert_ops_after(tuple(pieces), last)
        for op in group.members:
            op.detach()
            op.erase()
        for value in dict.fromkeys(values):
            erase_unused(value)


def part_buffer(value: SSAValue, along: Along, count: int) -> AllocOp:
    """A buffer for one of `count` parts of a memref."""
    return casts.alloc(casts.dense(element_type(value), along.part(shape_of(value), count)))


def part_view(
    value: SSAValue, along: Along, i: int, count: int, buffers: dict[SSAValue, SSAValue]
) -> ReinterpretCastOp | SSAValue:
    """Part i of a memref: a view of its buffer, or of the piece's own one in `buffers`, or that
    whole buffer."""
    view, shape = view_of(value), along.part(shape_of(value), count)
    if (own := buffers.get(view.owner)) is not None:
        return own if shape_of(own) == shape else casts.view(own, 0, shape)
    strides = along.strides(view.sizes, view.strides)
    parts = parts_of(value, along)
    assert parts is not None
    if parts.is_contiguous:
        strides = row_major(shape)
    return casts.view(view.owner, view.offset + i * (parts.length // count), shape, strides)


def erase_unused(value: SSAValue) -> None:
    """Erase a view or buffer without users, and then its source."""
    op = value.owner
    if not isinstance(op, ReinterpretCastOp | AllocOp) or op.parent is None:
        return
    if value.first_use is None:
        operands = list(op.operands)
        op.detach()
        op.erase()
        for operand in operands:
            erase_unused(operand)


@dataclass(frozen=True)
class SplitLaunchesPass(TargetPass):
    """Cut launches of different engines into pieces that overlap, where that is faster by the
    clock."""

    name = "split-launches"

    pieces: int = 0
    """Number of pieces wherever launches come apart so; 0: the number that the clock finds best."""
    collectives: bool = False
    """Cut what devices send each other alone, with the launches that make and use it."""
    answers: str = ""
    """File that keeps what the library answers about launches (empty: none)."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if main is None or (self.collectives and mesh_of(op) is None):
            return
        target = target_for(main, self.target)
        with answers_in(self.answers):
            choices = None if self.pieces else self.worthwhile(op, target)
        if self.pieces or choices:
            split(op, target, self.collectives, self.pieces, choices)

    def worthwhile(self, module: ModuleOp, target: Target) -> Choices:
        """The groups that make the whole program faster, with the number of their pieces; none
        where shapes are known only at run time. Tried on copies of the module."""
        main = main_function(module)
        if main is None:
            return {}
        found = splitter(module, target, self.collectives)
        promising = found.promising(main)
        if not promising:
            return {}
        if self.collectives:
            module = found.shortened(main, next(iter(promising)))

        def latency(choices: Choices) -> float:
            trial = module.clone()
            if choices:
                split(trial, target, self.collectives, choices=choices)
            add_acknowledgements(trial)
            streams = best_streams(ProgramClock(trial, target), target)
            if (func := main_function(trial)) is not None:
                streams.function(func)
            return ProgramClock(trial, target, streams.issues()).main(trial).latency_us

        try:
            fastest = latency({}) * (1 - WHOLE_GAIN)
        except UnknownShapes:
            return {}
        if (faster := latency(promising)) < fastest:
            # Launches that two kinds of groups share come apart by another one without either
            for key in found.rivals(promising)[:MOST_TRIALS]:
                others = {k: own for k, own in promising.items() if k != key}
                if (other := latency(others)) < faster:
                    promising, faster = others, other
            return promising
        choices: dict[Hashable, Sequence[Choice]] = {}
        for key, own in list(promising.items())[:MOST_TRIALS]:
            if (faster := latency({**choices, key: own})) < fastest:
                choices[key], fastest = own, faster * (1 - WHOLE_GAIN)
        return choices


def best_streams(clock: ProgramClock, target: Target) -> StreamAssignment:
    """The search for streams that tries all schedules."""
    engines = {name: kernel.engine.data for name, kernel in clock.kernels.items()}
    return StreamAssignment(engines, target, own_streams(engines) + MORE_STREAMS, clock)


def splitter(
    module: ModuleOp,
    target: Target,
    collectives: bool = False,
    pieces: int = 1,
    choices: Choices | None = None,
) -> Splitter:
    clock, grouping = ProgramClock(module, target), Grouping(dict(kernels_of(module)))
    return Splitter(module, target, clock, grouping, collectives, pieces, choices)


def split(
    module: ModuleOp,
    target: Target,
    collectives: bool = False,
    pieces: int = 1,
    choices: Choices | None = None,
) -> None:
    """Split the launches of the main function into so many pieces each, or as `choices` say."""
    if (main := main_function(module)) is not None:
        splitter(module, target, collectives, pieces, choices).function(main)
