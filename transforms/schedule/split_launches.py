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
These have as many buffers as pieces are under way, which the next pieces reuse. The number of
pieces is the one with the shortest makespan by the clock, each with its best schedule; none where
that gains less than `GAIN`: pieces cost launches. What is faster in isolation need not be faster in
the program: all such groups come apart if that makes the whole program faster, else those that do
so one after the other, the most promising first. The search works on a copy of the module.

A launch comes apart where its op says so (`split_axes`) along the first dimension that is larger
than 1: each part of the result is then contiguous in memory, and so is each part of an operand that
is cut with it. Launches form a group when part i of each needs only part i of the others' results.
The parts of a group can run one after the other, or, on two engines, part i of one launch beside
part i + 1 of the one before it.
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
from ge.dialects.graph.constant import ConstantOp as GraphConstantOp
from ge.dialects.npu_task import casts
from ge.dialects.npu_task.attributes import Engine, is_outside_arena
from ge.dialects.npu_task.memory import owner_of, row_major, view_of
from ge.dialects.npu_task.ops import KernelOp, LaunchOp, ReturnOp, kernels_of
from ge.dialects.support.element_types import elements_per_byte
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import TensorOp, split_axes
from ge.dialects.support.types import (
    Shape,
    element_type,
    is_dynamic,
    numel,
    set_type,
    shape_of,
    tensor,
)
from ge.dialects.targets.target import Target, target_for
from ge.runtime.clock.clock import ProgramClock, UnknownShapes
from ge.transforms.analysis.dependencies import Segment, accesses, segments, users_of
from ge.transforms.schedule.assign_streams import (
    MORE_STREAMS,
    STREAMS,
    StreamAssignment,
)

MOST_MEMBERS = 64  # launches in a group


@dataclass(frozen=True, slots=True)
class Division:
    """A way to divide a kernel: the extent that is divided, and the operands that are cut."""

    extent: int
    operands: tuple[bool, ...]


def cut_of(kernel: KernelOp) -> Division | None:
    """Return how a kernel with one op, fused or not, and one result comes apart along the first
    dimension of the result; None if it does not, or if an operand would be cut along another one.
    """
    ops = [op for op in kernel.body.block.ops if isinstance(op, TensorOp)]
    main = kernel.main
    args = kernel.body.block.args
    if sum(not isinstance(op, GraphConstantOp) for op in ops) > 1 or len(main.results) != 1:
        return None
    if any(is_dynamic(v.type) for v in (*args, *main.results)):
        return None
    if kernel.engine.data not in (Engine.CUBE, Engine.VECTOR):
        return None
    axis = leading(shape_of(main.results[0]))
    axes = None if axis is None else split_axes(main, axis)
    if axis is None or axes is None:
        return None
    extent = shape_of(main.results[0])[axis]
    cut: dict[SSAValue, bool] = {}
    for operand, its in zip(main.operands, axes, strict=True):
        shape = shape_of(operand)
        if its is not None and (its != leading(shape) or shape[its] != extent):
            return None
        if cut.setdefault(operand, its is not None) != (its is not None):
            return None
        if its is not None and operand not in args:
            return None
    return Division(extent, tuple(cut.get(a, False) for a in args))


def leading(shape: Sequence[int]) -> int | None:
    """The first dimension that is larger than 1."""
    return next((i for i, d in enumerate(shape) if d > 1), None)


@dataclass(frozen=True, slots=True)
class Span:
    """Contiguous elements of a buffer."""

    offset: int
    size: int


def span_of(value: SSAValue) -> Span | None:
    """Return the elements of its buffer that a memref shows, None if they are not contiguous."""
    view = view_of(value)
    steps = zip(view.sizes, view.strides, row_major(view.sizes), strict=True)
    if any(d > 1 and step != plain for d, step, plain in steps):
        return None
    return Span(view.offset, numel(view.sizes))


@dataclass
class LaunchGroup:
    """Launches that come apart together, in program order."""

    members: list[LaunchOp] = field(default_factory=list[LaunchOp])
    # The last member, or a later task independent of the group, which is issued before the parts.
    last: Operation | None = None
    written: set[SSAValue] = field(default_factory=set[SSAValue])  # buffers that members write
    # Buffer -> how members use it: for each part a part of these elements, or all of it (None).
    touched: dict[SSAValue, set[Span | None]] = field(
        default_factory=dict[SSAValue, set["Span | None"]]
    )

    def takes(self, op: LaunchOp, cut: Division) -> bool:
        """Add a launch if part i of it needs only part i of the group's results."""
        spans = [span_of(v) if c else None for v, c in zip(op.ins, cut.operands, strict=True)]
        outs = [span_of(v) for v in op.outs]
        if None in outs or any(c and s is None for c, s in zip(cut.operands, spans, strict=True)):
            return False
        reads = [owner_of(v) for v in op.ins]
        writes = [owner_of(v) for v in op.outs]
        if self.members and not any(b in self.written for b in (*reads, *writes)):
            return False
        written = self.written | set(writes)
        touched: dict[SSAValue, set[Span | None]] = {}
        for buffer, span in zip((*reads, *writes), (*spans, *outs), strict=True):
            touched.setdefault(buffer, set(self.touched.get(buffer, ()))).add(span)
        if any(b in written and (None in s or len(s) > 1) for b, s in touched.items()):
            return False
        self.members.append(op)
        self.last, self.written = op, written
        self.touched |= touched
        return True

    def is_independent(self, op: Operation) -> bool:
        """Return whether a task may move before the group."""
        reads, writes = accesses(op)
        return not any(owner_of(v) in self.written for v in reads) and not any(
            owner_of(v) in self.touched for v in writes
        )

    def key(self) -> Hashable:
        """Equal for groups of the same kernels with equal dataflow."""
        numbers: dict[SSAValue, int] = {}
        parts: list[Hashable] = []
        for op in self.members:
            buffers = [owner_of(v) for v in (*op.ins, *op.outs)]
            ids = tuple(numbers.setdefault(b, len(numbers)) for b in buffers)
            inner = tuple(self.is_internal(b) for b in buffers)
            parts.append((op.callee, ids, inner))
        return tuple(parts)

    def is_internal(self, buffer: SSAValue) -> bool:
        """Return whether only the group uses a buffer, all of it in each of its launches."""
        if not isinstance(owner := buffer.owner, Operation):
            return False
        if buffer not in self.written or is_outside_arena(owner):
            return False
        (span,) = self.touched[buffer]
        members = set[Operation](self.members)
        whole = span == Span(0, numel(shape_of(buffer)))
        return whole and all(op in members for op in users_of(buffer))


@dataclass
class Pipeline:
    """In which order the parts of a group are issued. Each change of the engine on the way to a
    member is a stage; part i of stage s is issued in step i + s, so that one engine works on a part
    while the other one works on the next."""

    stages: list[int]  # of each member
    # Buffers that only the group uses -> how many parts of them are in use at one time. One more
    # than there have to be, so that a launch need not wait for the end of the one before it.
    copies: dict[SSAValue, int]

    @classmethod
    def of(cls, group: LaunchGroup, kernels: dict[str, KernelOp]) -> "Pipeline":
        """The stages of a group: a launch is one further than those before it on other engines."""
        stages: list[int] = []
        writer: dict[SSAValue, int] = {}
        first: dict[SSAValue, int] = {}
        last: dict[SSAValue, int] = {}
        engines = [kernels[op.callee].engine.data for op in group.members]
        for op, engine in zip(group.members, engines, strict=True):
            buffers = [owner_of(v) for v in (*op.ins, *op.outs)]
            earlier = [writer[b] for b in buffers if b in writer]
            stage = max((stages[j] + (engines[j] is not engine) for j in earlier), default=0)
            # Readers of a buffer are issued before it is written again.
            stage = max([stage, *(last[owner_of(v)] for v in op.outs if owner_of(v) in last)])
            for buffer in buffers:
                first.setdefault(buffer, stage)
                last[buffer] = max(last.get(buffer, 0), stage)
            writer |= {owner_of(v): len(stages) for v in op.outs}
            stages.append(stage)
        internal = (b for b in group.written if group.is_internal(b))
        return cls(stages, {b: last[b] - first[b] + 2 for b in internal})

    def order(self, count: int) -> Iterator[tuple[int, int]]:
        """Part and member, in the order of issue."""
        for step in range(count + max(self.stages)):
            for member, stage in enumerate(self.stages):
                if 0 <= step - stage < count:
                    yield step - stage, member


def groups_of(
    tasks: Sequence[Operation], cuts: dict[str, Division | None]
) -> Iterator[LaunchGroup]:
    """Groups of two launches and more among tasks that are issued one after the other."""
    group = LaunchGroup()
    for op in tasks:
        cut = cuts.get(op.callee) if isinstance(op, LaunchOp) and not op.results_ else None
        full = len(group.members) == MOST_MEMBERS
        if isinstance(op, LaunchOp) and cut is not None and not full and group.takes(op, cut):
            continue
        if group.members and group.is_independent(op):
            group.last = op
            continue
        if len(group.members) > 1:
            yield group
        group = LaunchGroup()
        if isinstance(op, LaunchOp) and cut is not None:
            group.takes(op, cut)
    if len(group.members) > 1:
        yield group


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
