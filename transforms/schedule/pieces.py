"""Launches that come apart into independent parts, and groups of them that do so together.

A launch comes apart where its op says so (`split_axes`, for collectives `split_collective`). Each
part of a value is a view: contiguous where the value is cut along its first dimension, else rows
that lie apart, for kernels that accept these. Launches form a group when part i of each needs only
part i of the others' results: of the same elements, whatever the shapes in which they see them.
The parts of a group can run one after the other, or, on two engines, part i of one launch beside
part i + 1 of the one before it.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, product

from xdsl.ir import Operation, SSAValue

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.chunks import Along, split_collective
from ge.dialects.graph.collectives import Collective
from ge.dialects.graph.constant import ConstantOp as GraphConstantOp
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.npu_task.memory import merged, owner_of, view_of
from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.dialects.support.element_types import elements_per_byte, storage_bytes
from ge.dialects.support.tensor_op import TensorOp, split_axes
from ge.dialects.support.types import element_type, is_dynamic, shape_of
from ge.transforms.analysis.dependencies import accesses
from ge.transforms.schedule.equal_tasks import Tasks, is_used_by

MOST_MEMBERS = 64  # launches in a group
MOST_WAYS = 16  # in which the axes of several results are combined
FAR = 16  # independent tasks between two launches of a group
SHORTEST = 32  # bytes: the least that a DMA moves (alignment of on-core memory)


@dataclass(frozen=True, slots=True)
class Division:
    """A way to divide a kernel: the extent that is divided, and along what each operand is cut
    (None: each part needs all of it) and each result."""

    extent: int
    operands: tuple[Along | None, ...]
    results: tuple[Along, ...]


def cut_of(kernel: KernelOp, axis: int) -> Division | None:
    """Return how a kernel with one op, fused or not, comes apart along an axis of its first result;
    None if it does not."""
    ops = [op for op in kernel.body.block.ops if isinstance(op, TensorOp)]
    main, args = kernel.main, kernel.body.block.args
    returned = kernel.body.block.last_op
    if sum(not isinstance(op, GraphConstantOp) for op in ops) > 1 or returned is None:
        return None
    if not main.results or tuple(returned.operands) != tuple(main.results):
        return None
    if any(is_dynamic(v.type) for v in (*args, *main.results)):
        return None
    if kernel.engine.data not in (Engine.CUBE, Engine.VECTOR, Engine.COMM):
        return None
    found = split(main, axis)
    if found is None:
        return None
    extent, operands, results = found
    cut: dict[SSAValue, Along | None] = {}
    for operand, along in zip(main.operands, operands, strict=True):
        if along is not None and along.extent(shape_of(operand)) != extent:
            return None
        if cut.setdefault(operand, along) != along or (along is not None and operand not in args):
            return None
    return Division(extent, tuple(cut.get(a) for a in args), results)


def split(op: TensorOp, axis: int) -> tuple[int, Sequence[Along | None], tuple[Along, ...]] | None:
    """The extent that is divided, and along what operands and results are cut."""
    extent = shape_of(op.results[0])[axis]
    if isinstance(op, Collective):
        if (cut := split_collective(op, axis)) is None:
            return None
        return cut[1].extent(shape_of(op.result)), [cut[0]], (cut[1],)
    if len(op.results) == 1:
        ways: Iterator[tuple[int, ...]] = iter([(axis,)])
    elif isinstance(op, FusedOp):
        same = [[i for i, d in enumerate(shape_of(r)) if d == extent] for r in op.results[1:]]
        ways = islice(product([axis], *same), MOST_WAYS)
    else:
        return None
    for way in ways:
        axes = op.split_along(way) if isinstance(op, FusedOp) else split_axes(op, axis)
        if axes is not None:
            operands = [None if a is None else Along(a) for a in axes]
            return extent, operands, tuple(map(Along, way))
    return None


def leading(shape: Sequence[int]) -> int | None:
    """The first dimension that is larger than 1."""
    return next((i for i, d in enumerate(shape) if d > 1), None)


def whole_bytes(value: SSAValue, along: Along, count: int) -> bool:
    """True if each run of elements of a part is of whole bytes, and not too short."""
    parts, element = parts_of(value, along), element_type(value)
    if parts is None:
        return False
    run = parts.length // count
    if parts.inner:
        *_, (size, step) = (1, 1), *parts.inner[:-1]
        run = size if step == 1 else 1
    if run % elements_per_byte(element):
        return False
    return parts.is_contiguous or storage_bytes(run, element) >= SHORTEST


@dataclass(frozen=True, slots=True)
class Parts:
    """The elements of its buffer that a memref shows, in parts of equal size. In each of some
    places (`outer`: sizes and strides) there are `length` elements in a row, of which a part has
    its share; or, if not all of these, those of `inner`."""

    offset: int
    length: int
    outer: tuple[tuple[int, int], ...] = ()
    inner: tuple[tuple[int, int], ...] = ()

    @property
    def is_contiguous(self) -> bool:
        return not self.outer and not self.inner


def parts_of(value: SSAValue, along: Along) -> Parts | None:
    """Return the parts of a memref; None where they cannot be views of it."""
    view = view_of(value)
    sizes, strides = along.raised(view.sizes), along.strides(view.sizes, view.strides)
    step, extent = strides[along.place], sizes[along.place]
    dims = sorted(
        ((s, n) for i, (n, s) in enumerate(zip(sizes, strides, strict=True))
         if i != along.place and n > 1), reverse=True,
    )  # fmt: skip
    if any(step <= s < step * extent for s, _ in dims):
        return None
    outer = merged([n for s, n in dims if s > step], [s for s, _ in dims if s > step])
    inner = merged([n for s, n in dims if s < step], [s for s, _ in dims if s < step])
    if inner == [(step, 1)] or (step == 1 and not inner):
        inner = []
    else:
        inner.append((0, step))
    return Parts(view.offset, step * extent, tuple(outer), tuple(inner))


@dataclass
class LaunchGroup:
    """Launches that come apart together, in program order, and how each does."""

    members: list[LaunchOp] = field(default_factory=list[LaunchOp])
    cuts: list[Division] = field(default_factory=list[Division])
    # The last member, or a later task independent of the group, which is issued before the parts.
    last: Operation | None = None
    # Buffer -> how members use it: in these parts, or each part all of it (None).
    touched: dict[SSAValue, set[Parts | None]] = field(
        default_factory=dict[SSAValue, set["Parts | None"]]
    )
    like: "LaunchGroup | None" = None  # the one that has grown so among equal launches

    @cached_property
    def written(self) -> set[SSAValue]:
        """The buffers that its launches write."""
        return {owner_of(v) for op in self.members for v in op.outs}

    def takes(self, op: LaunchOp, cut: Division, strided: bool) -> bool:
        """Add a launch if part i of it needs only part i of the group's results. `strided`: it may
        have rows that lie apart."""
        alongs = (*cut.operands, *cut.results)
        values = (*op.ins, *op.outs)
        used: list[tuple[SSAValue, Parts | None]] = []
        for value, along in zip(values, alongs, strict=True):
            parts = None if along is None else parts_of(value, along)
            if along is not None and (parts is None or not (parts.is_contiguous or strided)):
                return False
            used.append((owner_of(value), parts))
        if self.members and not any(b in self.written for b, _ in used):
            return False
        written = self.written | {owner_of(v) for v in op.outs}
        touched: dict[SSAValue, set[Parts | None]] = {}
        for buffer, parts in used:
            touched.setdefault(buffer, set(self.touched.get(buffer, ()))).add(parts)
        if any(b in written and (None in s or len(s) > 1) for b, s in touched.items()):
            return False
        self.members.append(op)
        self.cuts.append(cut)
        self.last, self.written = op, written
        self.touched |= touched
        return True

    def between(self, first: int, end: int) -> "LaunchGroup | None":
        """The group of some of its launches; None if they do not hang together."""
        group = LaunchGroup()
        for op, cut in zip(self.members[first:end], self.cuts[first:end], strict=True):
            if not group.takes(op, cut, strided=True):
                return None
        if end == len(self.members):
            group.last = self.last
        return group

    def values(self, member: int) -> Iterator[tuple[SSAValue, Along | None]]:
        """The operands and results of a launch, and along what each is cut."""
        op, cut = self.members[member], self.cuts[member]
        yield from zip((*op.ins, *op.outs), (*cut.operands, *cut.results), strict=True)

    def needs(self) -> list[list[int]]:
        """For each launch those before it that write what it uses: part i needs their part i."""
        writer, found = dict[SSAValue, int](), list[list[int]]()
        for member, op in enumerate(self.members):
            buffers = dict.fromkeys(owner_of(v) for v in (*op.ins, *op.outs))
            found.append([writer[b] for b in buffers if b in writer])
            writer |= dict.fromkeys(map(owner_of, op.outs), member)
        return found

    def is_independent(self, op: Operation) -> bool:
        """Return whether a task may move before the group."""
        reads, writes = accesses(op)
        return not any(owner_of(v) in self.written for v in reads) and not any(
            owner_of(v) in self.touched for v in writes
        )

    def key(self) -> Hashable:
        """Equal for groups of the same kernels, cut in the same way, with equal dataflow."""
        return self._key if self.like is None else self.like._key

    @cached_property
    def _key(self) -> Hashable:
        numbers: dict[SSAValue, int] = {}
        parts: list[Hashable] = []
        for op, cut in zip(self.members, self.cuts, strict=True):
            buffers = [owner_of(v) for v in (*op.ins, *op.outs)]
            ids = tuple(numbers.setdefault(b, len(numbers)) for b in buffers)
            inner = tuple(self.is_internal(b) for b in buffers)
            parts.append((op.callee, cut, ids, inner))
        return tuple(parts)

    def is_internal(self, buffer: SSAValue) -> bool:
        """Return whether only the group uses a buffer, all of it in each of its launches."""
        return buffer in self.written and is_used_by(buffer, set(self.members))

    def on(self, members: Sequence[Operation], last: Operation) -> "LaunchGroup":
        """The group of other launches, which are equal to these (`equal_tasks.py`)."""
        launches = [op for op in members if isinstance(op, LaunchOp)]
        return LaunchGroup(launches, self.cuts, last, like=self)


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
    def of(cls, group: LaunchGroup, kernels: Mapping[str, KernelOp]) -> "Pipeline":
        """The stages of a group: a launch is one further than those before it on other engines."""
        stages: list[int] = []
        first: dict[SSAValue, int] = {}
        last: dict[SSAValue, int] = {}
        engines = [kernels[op.callee].engine.data for op in group.members]
        for op, engine, earlier in zip(group.members, engines, group.needs(), strict=True):
            buffers = [owner_of(v) for v in (*op.ins, *op.outs)]
            stage = max((stages[j] + (engines[j] is not engine) for j in earlier), default=0)
            # Readers of a buffer are issued before it is written again.
            stage = max([stage, *(last[owner_of(v)] for v in op.outs if owner_of(v) in last)])
            for buffer in buffers:
                first.setdefault(buffer, stage)
                last[buffer] = max(last.get(buffer, 0), stage)
            stages.append(stage)
        internal = (b for b in group.written if group.is_internal(b))
        return cls(stages, {b: last[b] - first[b] + 2 for b in internal})

    def order(self, count: int) -> Iterator[tuple[int, int]]:
        """Part and member, in the order of issue."""
        for step in range(count + max(self.stages)):
            for member, stage in enumerate(self.stages):
                if 0 <= step - stage < count:
                    yield step - stage, member


@dataclass(frozen=True, slots=True)
class Growth:
    """How a group has grown, in some tasks in a row: the places of its members, and of the last
    task before its parts."""

    places: Sequence[int]
    last: int
    group: LaunchGroup


@dataclass
class Grouping:
    """Finds groups among tasks that are issued one after the other."""

    kernels: Mapping[str, KernelOp]
    cuts: dict[tuple[str, int], Division | None] = field(
        default_factory=dict[tuple[str, int], "Division | None"]
    )
    kinds: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    # By the kind of the first task and the axes along which it may be cut: by the number of tasks
    # that were looked at, and these
    known: dict[tuple[int, ...], dict[int, dict[Hashable, Growth]]] = field(
        default_factory=dict[tuple[int, ...], dict[int, dict[Hashable, Growth]]]
    )

    def cut(self, name: str, axis: int) -> Division | None:
        if (name, axis) not in self.cuts:
            self.cuts[name, axis] = cut_of(self.kernels[name], axis)
        return self.cuts[name, axis]

    def axes(self, op: Operation) -> list[int]:
        """The axes of the first result along which a launch may be cut."""
        if not isinstance(op, LaunchOp):
            return []
        kernel = self.kernels[op.callee]
        if op.results_ or not kernel.main.results or is_dynamic(kernel.main.results[0].type):
            return []
        return [i for i, d in enumerate(shape_of(kernel.main.results[0])) if d > 1]

    def may_take(self, group: LaunchGroup, op: Operation, axes: Sequence[int]) -> bool:
        """Add a launch to a group along the first of some axes that does."""
        if not isinstance(op, LaunchOp) or len(group.members) == MOST_MEMBERS:
            return False
        kernel = self.kernels[op.callee]
        strided = isinstance(kernel.main, Collective) or kernel.accepts_strided()
        cuts = (self.cut(op.callee, axis) for axis in axes)
        return any(cut is not None and group.takes(op, cut, strided) for cut in cuts)

    def grown(self, tasks: Tasks, first: int, axes: Sequence[int]) -> LaunchGroup:
        """The group that begins with a task, along one of some axes, and goes on as far as it can.
        It follows from the tasks that are looked at, and so has grown before in equal ones."""
        known = self.known.setdefault((tasks.kinds[first], *axes), {})
        for count, runs in known.items():
            if first + count < len(tasks.begins) and (old := runs.get(tasks.run(first, count))):
                members = [tasks.ops[first + place] for place in old.places]
                return old.group.on(members, tasks.ops[first + old.last])
        growth, count = self.growth(tasks.ops, first, axes)
        known.setdefault(count, {})[tasks.run(first, count)] = growth
        return growth.group

    def growth(
        self, ops: Sequence[Operation], first: int, axes: Sequence[int]
    ) -> tuple[Growth, int]:
        """The group that begins with an op, and the number of ops that were looked at, with one
        behind the last."""
        group, places, count = LaunchGroup(), list[int](), 0
        for i in range(first, len(ops)):
            own = self.axes(ops[i]) if places else axes
            if self.may_take(group, ops[i], own):
                places.append(count)
            elif places and count - places[-1] <= FAR and group.is_independent(ops[i]):
                group.last = ops[i]
            else:
                break
            count += 1
        return Growth(places, max(count - 1, 0), group), count + 1

    def plain(self, ops: Sequence[Operation]) -> Iterator[LaunchGroup]:
        """Groups of two launches and more, none of which has launches of another one. The first
        launch of each is cut along its first axis."""
        positions, end, tasks = {op: i for i, op in enumerate(ops)}, 0, Tasks(ops, self.kinds)
        for i, op in enumerate(ops):
            if i < end or not isinstance(op, LaunchOp) or not (axes := self.axes(op)):
                continue
            group = self.grown(tasks, i, axes[:1])
            if len(group.members) > 1 and group.last is not None:
                yield group
                end = positions[group.last] + 1

    def with_collectives(self, ops: Sequence[Operation]) -> Iterator[LaunchGroup]:
        """The groups around collectives that no longer one has, along all axes. A launch may be in
        several."""
        seen, tasks = defaultdict[Operation, list[Division]](list), Tasks(ops, self.kinds)
        for i, op in enumerate(ops):
            if not isinstance(op, LaunchOp):
                continue
            for axis in self.axes(op):
                cut = self.cut(op.callee, axis)
                if cut is None or cut in seen[op]:
                    continue
                group = self.grown(tasks, i, [axis])
                for member, own in zip(group.members, group.cuts, strict=True):
                    seen[member].append(own)
                if len(group.members) > 1 and any(map(self.is_collective, group.members)):
                    yield group

    def is_collective(self, op: LaunchOp) -> bool:
        return isinstance(self.kernels[op.callee].main, Collective)
