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
clock, each with its best schedule; none where that gains less than `GAIN`: pieces cost launches.
What is faster in isolation need not be faster in the program: all such groups come apart if that
makes the whole program faster, else those that do so one after the other, the most promising first.
The search works on a copy of the module.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from ge.dialects.fused_op import FusedOp
from ge.dialects.npu_task import casts
from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import KernelOp, LaunchOp, ReturnOp, kernels_of
from ge.dialects.support.element_types import elements_per_byte
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import Shape, element_type, numel, set_type, shape_of, tensor
from ge.dialects.targets.target import Target, target_for
from ge.runtime.clock.clock import ProgramClock, UnknownShapes
from ge.transforms.analysis.dependencies import Segment, segments
from ge.transforms.schedule.assign_streams import (
    MORE_STREAMS,
    STREAMS,
    StreamAssignment,
)
from ge.transforms.schedule.pieces import (
    Division,
    LaunchGroup,
    Pipeline,
    cut_of,
    groups_of,
    leading,
    span_of,
)

COUNTS = (2, 4, 8, 16, 32)  # numbers of pieces that are tried
GAIN = 0.05  # share of the makespan that pieces must gain
MOST_TRIALS = 4  # kinds of groups that are tried one after the other
LEAST_LAUNCHES = 10  # a group that takes less than so many launch costs is not cut

# Share of the makespan of the whole program that pieces must gain: the addresses that buffers get
# later change what L2 holds, and with it the makespan, by less.
WHOLE_GAIN = 0.005


def part_of(
    kernel: KernelOp, cut: Division, count: int, name: str, target: Target
) -> KernelOp | None:
    """The kernel of one of `count` pieces; None where an op does not take the smaller shapes."""
    args = kernel.body.block.args
    types = [
        tensor(cut_shape(shape_of(a), count), element_type(a)) if c else a.type
        for a, c in zip(args, cut.operands, strict=True)
    ]
    block = Block(arg_types=types)
    inside: dict[SSAValue, SSAValue] = dict(zip(args, block.args, strict=True))
    for op in kernel.body.block.ops:
        if isinstance(op, ReturnOp):
            block.add_op(ReturnOp(*(inside[v] for v in op.values)))
            continue
        try:
            fused = isinstance(op, FusedOp)
            clone = op.on([inside[v] for v in op.inputs]) if fused else op.clone(inside)
        except VerifyException:
            return None
        block.add_op(clone)
        inside |= zip(op.results, clone.results, strict=True)
    part = KernelOp(name, kernel.engine.data, block)
    part.location = kernel.location
    result = kernel.main.results[0]
    want = tensor(cut_shape(shape_of(result), count), element_type(result))
    if list(part.main.inferred()) != [want]:
        return None
    set_type(part.main.results[0], want)
    return part


def cut_shape(shape: Sequence[int], count: int) -> Shape:
    """One of `count` parts along the first dimension that is larger than 1."""
    axis = leading(shape)
    return tuple(d // count if i == axis else d for i, d in enumerate(shape))


@dataclass(frozen=True, slots=True)
class Choice:
    """A number of pieces, and how much faster they are than the whole."""

    count: int
    gain_us: float


@dataclass
class Splitter:
    """Splits the launches of one function."""

    module: ModuleOp
    target: Target
    clock: ProgramClock
    kernels: dict[str, KernelOp]
    fixed: int = 1  # the number of pieces of every group, without `counts`
    counts: Mapping[Hashable, int] | None = None  # key of a group -> the number of its pieces, or 1
    cuts: dict[str, Division | None] = field(default_factory=dict[str, Division | None])
    parts: dict[tuple[str, int], KernelOp | None] = field(
        default_factory=dict[tuple[str, int], KernelOp | None]
    )

    def groups(self, func: FuncOp) -> Iterator[LaunchGroup]:
        """The groups of the outermost block."""
        self.cuts = {name: cut_of(k) for name, k in self.kernels.items()}
        for part in list(segments(func.body.block)):
            if isinstance(part, Segment):
                yield from list(groups_of(part.tasks, self.cuts))

    def promising(self, func: FuncOp) -> dict[Hashable, int]:
        """The groups that pieces make faster in isolation, with the best number of pieces; those
        that would gain most in the function first."""
        best: dict[Hashable, Choice] = {}
        gains: dict[Hashable, float] = defaultdict(float)
        for group in self.groups(func):
            key = group.key()
            if key not in best:
                best[key] = self.fastest(group)
            gains[key] += best[key].gain_us
        ordered = sorted(gains, key=lambda key: -gains[key])
        return {key: best[key].count for key in ordered if best[key].count > 1}

    def function(self, func: FuncOp) -> None:
        """Split the launches of the outermost block as `choose` says."""
        for group in self.groups(func):
            if (count := self.choose(group)) > 1:
                self.split(group, count)
        used = {op.callee for op in func.walk() if isinstance(op, LaunchOp)}
        for (name, _), part in self.parts.items():
            if part is not None and part.sym_name.data in used:
                self.module.body.block.insert_op_after(part, self.kernels[name])

    def choose(self, group: LaunchGroup) -> int:
        """The number of pieces of a group; 1: it is not cut."""
        if self.counts is not None:
            return self.counts.get(group.key(), 1)
        return self.fixed if self.part_names(group, self.fixed) is not None else 1

    def fastest(self, group: LaunchGroup) -> Choice:
        """The number of pieces with the shortest makespan in isolation. More are tried while they
        are faster."""
        best, whole = 1, self.makespan(group.members)
        if whole < LEAST_LAUNCHES * self.target.launch_us:
            return Choice(best, 0.0)
        fastest = whole * (1 - GAIN)
        for count in COUNTS:
            pieces = self.pieces(group, count)
            if pieces is None:
                break
            latency = self.makespan(pieces)
            for op in reversed(pieces):
                op.erase()
            if latency < fastest:
                best, fastest = count, latency
            elif best > 1:
                break
        return Choice(best, whole - fastest if best > 1 else 0.0)

    def makespan(self, ops: Sequence[Operation]) -> float:
        """Return how long ops take in isolation, with their best schedule."""
        return best_streams(self.clock, self.target).fastest(Segment(list(ops)))

    def part(self, name: str, count: int) -> KernelOp | None:
        """Return the kernel of a piece, None if there is none."""
        key = name, count
        if key not in self.parts:
            cut = self.cuts[name]
            assert cut is not None
            new = f"{name}_of_{count}"
            while new in self.clock.kernels:
                new += "_"
            kernel = None
            if not cut.extent % count:
                kernel = part_of(self.kernels[name], cut, count, new, self.target)
            if kernel is not None:
                self.clock.kernels[new] = kernel
            self.parts[key] = kernel
        return self.parts[key]

    def pieces(self, group: LaunchGroup, count: int) -> list[Operation] | None:
        """The launches of the pieces as a pipeline, with views and buffers; None where a launch
        has no such pieces."""
        names = self.part_names(group, count)
        if names is None:
            return None
        pipeline = Pipeline.of(group, {op.callee: self.kernels[op.callee] for op in group.members})
        result: list[Operation] = []
        buffers: dict[tuple[SSAValue, int], SSAValue] = {}
        for i, member in pipeline.order(count):
            op = group.members[member]
            own: dict[SSAValue, SSAValue] = {}
            for value in (*op.ins, *op.outs):
                owner = owner_of(value)
                if (copies := pipeline.copies.get(owner)) is not None:
                    key = owner, i % copies
                    if key not in buffers:
                        result.append(alloc := part_buffer(value, count))
                        alloc.location = op.location
                        buffers[key] = alloc.memref
                    own[owner] = buffers[key]
            values: list[SSAValue] = []
            for value, is_cut in self.values(op):
                view = part_view(value, i, count, own) if is_cut else value
                if isinstance(view, ReinterpretCastOp):
                    result.append(view)
                    view = view.result
                values.append(view)
            launch = LaunchOp(names[member], values[: len(op.ins)], values[len(op.ins) :])
            launch.location = op.location
            result.append(launch)
        return result

    def values(self, op: LaunchOp) -> Iterator[tuple[SSAValue, bool]]:
        """The operands of a launch, and whether each is cut."""
        cut = self.cuts[op.callee]
        assert cut is not None
        yield from zip(op.ins, cut.operands, strict=True)
        yield from ((out, True) for out in op.outs)

    def part_names(self, group: LaunchGroup, count: int) -> list[str] | None:
        """The kernels of the pieces of a group's launches, None where one has none, or where a part
        would begin inside of a byte."""
        for value in (v for op in group.members for v, is_cut in self.values(op) if is_cut):
            if numel(shape_of(value)) // count % elements_per_byte(element_type(value)):
                return None
        kernels = [self.part(op.callee, count) for op in group.members]
        names = [k.sym_name.data for k in kernels if k is not None]
        return names if len(names) == len(kernels) else None

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


def part_buffer(value: SSAValue, count: int) -> AllocOp:
    """A buffer for one of `count` parts of a memref."""
    return casts.alloc(casts.dense(element_type(value), cut_shape(shape_of(value), count)))


def part_view(
    value: SSAValue, i: int, count: int, buffers: dict[SSAValue, SSAValue]
) -> ReinterpretCastOp | SSAValue:
    """Part i of a memref: a view of its buffer, or of the piece's own one in `buffers`, or that
    whole buffer."""
    owner, span, shape = owner_of(value), span_of(value), cut_shape(shape_of(value), count)
    assert span is not None
    source, offset = owner, span.offset + i * (span.size // count)
    if owner in buffers:
        source, offset = buffers[owner], 0
        if shape_of(source) == shape:
            return source
    return casts.view(source, offset, shape)


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
class SplitLaunchesPass(ModulePass):
    """Cut launches of different engines into pieces that overlap, where that is faster by the
    clock."""

    name = "split-launches"

    target: str = ""
    """Preset name, or path of a target file; empty: the target of lower-to-tasks."""
    pieces: int = 0
    """Number of pieces wherever launches come apart so; 0: the number that the clock finds best."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (main := main_function(op)) is not None:
            target = target_for(main, self.target)
            counts = None if self.pieces else self.worthwhile(op.clone(), target)
            split(op, target, self.pieces, counts)

    def worthwhile(self, module: ModuleOp, target: Target) -> dict[Hashable, int]:
        """The groups that make the whole program faster, with the number of their pieces; none
        where shapes are known only at run time. `module` is a copy of the program."""
        main = main_function(module)
        promising = {} if main is None else splitter(module, target).promising(main)
        if not promising:
            return {}

        def latency(counts: Mapping[Hashable, int]) -> float:
            trial = module.clone()
            split(trial, target, counts=counts)
            streams = best_streams(ProgramClock(trial, target), target)
            if (func := main_function(trial)) is not None:
                streams.function(func)
            return ProgramClock(trial, target, streams.issues()).main(trial).latency_us

        try:
            fastest = latency({}) * (1 - WHOLE_GAIN)
        except UnknownShapes:
            return {}
        if latency(promising) < fastest:
            return promising
        counts: dict[Hashable, int] = {}
        for key, count in list(promising.items())[:MOST_TRIALS]:
            if (faster := latency({**counts, key: count})) < fastest:
                counts[key], fastest = count, faster * (1 - WHOLE_GAIN)
        return counts


def best_streams(clock: ProgramClock, target: Target) -> StreamAssignment:
    """The search for streams that tries all schedules."""
    engines = {name: kernel.engine.data for name, kernel in clock.kernels.items()}
    return StreamAssignment(engines, target, STREAMS + MORE_STREAMS, clock)


def splitter(
    module: ModuleOp,
    target: Target,
    pieces: int = 1,
    counts: Mapping[Hashable, int] | None = None,
) -> Splitter:
    clock = ProgramClock(module, target)
    return Splitter(module, target, clock, kernels_of(module), pieces, counts)


def split(
    module: ModuleOp,
    target: Target,
    pieces: int = 1,
    counts: Mapping[Hashable, int] | None = None,
) -> None:
    """Split the launches of the main function into so many pieces each, or as `counts` says."""
    if (main := main_function(module)) is not None:
        splitter(module, target, pieces, counts).function(main)
