"""Launches that come apart into independent parts, and groups of them that do so together.

A launch comes apart where its op says so (`split_axes`) along the first dimension that is larger
than 1: each part of the result is then contiguous in memory, and so is each part of an operand that
is cut with it. Launches form a group when part i of each needs only part i of the others' results.
The parts of a group can run one after the other, or, on two engines, part i of one launch beside
part i + 1 of the one before it.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from ge.dialects.graph.constant import ConstantOp as GraphConstantOp
from ge.dialects.npu_task.attributes import Engine, is_outside_arena
from ge.dialects.npu_task.memory import owner_of, row_major, view_of
from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.dialects.support.tensor_op import TensorOp, split_axes
from ge.dialects.support.types import is_dynamic, numel, shape_of
from ge.transforms.analysis.dependencies import accesses, users_of

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
