"""Kernels write their results directly into a concatenation, which is then not launched.

    %1 = memref.alloc() : memref<2x3xf32, hbm>
    npu_task.launch @exp_0 ins(%a : ...) outs(%1 : ...)
    %2 = memref.alloc() : memref<2x5xf32, hbm>
    npu_task.launch @neg_0 ins(%b : ...) outs(%2 : ...)
    %3 = memref.alloc() : memref<2x8xf32, hbm>
    npu_task.launch @concat_0 ins(%1, %2 : ...) outs(%3 : ...)
becomes
    %3 = memref.alloc() : memref<2x8xf32, hbm>
    %1 = memref.reinterpret_cast %3 to offset: [0], sizes: [2, 3], strides: [8, 1] : ...
    npu_task.launch @exp_0 ins(%a : ...) outs(%1 : ...)
    %2 = memref.reinterpret_cast %3 to offset: [3], sizes: [2, 5], strides: [8, 1] : ...
    npu_task.launch @neg_0 ins(%b : ...) outs(%2 : ...)

The kernels that write and read an operand must accept strided rows (`KernelOp.accepts_strided`),
and each contiguous run of an operand in the result has at least `SHORTEST` bytes, all of them
whole. An operand that cannot move (an input or output of the model, a constant, a result of control
flow, one that is concatenated twice) is copied to its place in the result. An input of the model
moves if the result is an output of the model (the cache of attention). Nothing changes where more
bytes would be copied than are written in place.

The result is live from the first write to it. So that the peak does not rise, operands in the arena
move only if they are written at most `NEAR` tasks earlier and the bytes that are reserved early fit
below the most that is live between two tasks of the block.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.npu_task import casts
from ge.dialects.npu_task.attributes import HBM, IO
from ge.dialects.npu_task.memory import owner_of, row_major, view_of
from ge.dialects.npu_task.ops import CopyOp, KernelOp, LaunchOp, kernels_of
from ge.dialects.support.editing import detach, erase, replace_uses
from ge.dialects.support.element_types import elements_per_byte, storage_bytes
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import all_ops, put_after, put_before
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import byte_size, element_type, numel, shape_of
from ge.transforms.analysis.dependencies import arena_bytes, erase_unused, in_arena, ops_by_block
from ge.transforms.analysis.liveness import LiveProfile
from ge.transforms.analysis.task_graph import TaskGraph, buffer_graph
from ge.transforms.graph.control_flow import insert_before

SHORTEST = 32  # bytes: the least that a DMA moves (alignment of on-core memory)
NEAR = 64  # tasks


@dataclass(frozen=True)
class Placement:
    """An operand in the result: runs of `length` elements, `pitch` apart, from element `offset`."""

    offset: int
    length: int
    pitch: int

    def view(
        self, offset: int, sizes: Sequence[int], strides: Sequence[int]
    ) -> tuple[int, list[int]] | None:
        """Offset and strides in the result of a view of the operand; None where a dimension would
        have to step from run to run as well as within one."""
        placed: list[int] = []
        within = offset % self.length
        for n, stride in zip(sizes, strides, strict=True):
            if stride % self.length == 0:
                placed.append(stride // self.length * self.pitch)
            else:
                placed.append(stride)
                within += (n - 1) * stride
        start = self.offset + offset // self.length * self.pitch + offset % self.length
        return (start, placed) if within < self.length else None


@dataclass
class Joining:
    """A concatenation whose operands move into the result."""

    op: LaunchOp
    position: int
    placements: list[Placement]
    alloc: AllocOp
    moved: dict[int, AllocOp] = field(default_factory=dict[int, AllocOp])
    """Operand -> the allocation that becomes a view of the result."""

    @property
    def result(self) -> SSAValue:
        return self.alloc.memref

    def size(self, index: int) -> int:
        return byte_size(self.op.ins[index].type)


@dataclass
class BufferParts(ABC):
    """The buffers of a function that can be parts of others."""

    KIND: ClassVar[type[TensorOp]]
    """The op of the launches that are looked for."""
    kernels: Mapping[str, KernelOp]
    strided: dict[str, bool] = field(default_factory=dict[str, bool])
    """Whether a kernel accepts strided rows, for those asked so far."""

    @abstractmethod
    def block(self, ops: Sequence[Operation]) -> None:
        """Turn buffers into parts of others in a block, whose tasks these are."""

    def movable(self, alloc: AllocOp, placement: Placement, writer: LaunchOp) -> bool:
        """Return whether all users of a buffer but `writer`, which goes, can use it as a part of
        another one."""
        shape = shape_of(alloc.memref)
        if placement.view(0, shape, row_major(shape)) is None:
            return False
        todo: list[SSAValue] = [alloc.memref]
        while todo:
            for use in todo.pop().uses:
                user = use.operation
                match user:
                    case ReinterpretCastOp():
                        if placement.view(*geometry(user.result)) is None:
                            return False
                        todo.append(user.result)
                    case LaunchOp():
                        if user is not writer and not self.accepts_strided(user.callee):
                            return False
                    case CopyOp():
                        pass
                    case _:
                        return False
                if user.parent is not alloc.parent:
                    return False
        return True

    def accepts_strided(self, callee: str) -> bool:
        if callee not in self.strided:
            self.strided[callee] = self.kernels[callee].accepts_strided()
        return self.strided[callee]


class PartWriting(BufferParts):
    """Works on the blocks of one function."""

    KIND = ConcatOp

    def block(self, ops: Sequence[Operation]) -> None:
        """Rewrite the concatenations of a block in order: one may be an operand of another."""
        concats = [
            (position, op, placements) for position, op in enumerate(ops)
            if isinstance(op, LaunchOp) and (placements := self.placements(op)) is not None
        ]  # fmt: skip
        if not concats:
            return
        graph = buffer_graph(ops, arena_bytes)
        positions = {op: i for i, op in enumerate(ops) if isinstance(op, AllocOp)}
        profile: LiveProfile | None = None
        for position, op, placements in concats:
            alloc = op.outs[0].owner
            if not isinstance(alloc, AllocOp) or alloc not in positions:
                continue
            if graph.first_use(alloc.memref) != position:
                continue
            joining = Joining(op, position, placements, alloc)
            self.choose(joining)
            if in_arena(alloc):
                profile = profile or graph.live_between()
                reserve(joining, graph, profile)
            copied = [i for i in range(len(op.ins)) if i not in joining.moved]
            least = sum(map(joining.size, joining.moved))
            if joining.moved and (len(copied) < 2 or sum(map(joining.size, copied)) <= least):
                join(joining, graph, positions)

    def placements(self, op: LaunchOp) -> list[Placement] | None:
        """Return where the operands of a concatenation are in the result; None for any other
        launch, and if a run is too short."""
        main = self.kernels[op.callee].main
        if not isinstance(main, ConcatOp) or len(op.ins) != len(main.inputs) or len(op.outs) != 1:
            return None
        shape = shape_of(op.outs[0])
        axis = main.axis.value.data
        lengths = [prod(shape_of(v)[axis:]) for v in op.ins]
        element, whole = element_type(op.outs[0]), prod(shape[:axis]) == 1
        least = 1 if whole else SHORTEST
        if any(storage_bytes(n, element) < least for n in lengths) or not prod(shape):
            return None
        if any(n % elements_per_byte(element) for n in lengths):
            return None
        offsets = accumulate(lengths, initial=0)
        return [Placement(o, n, sum(lengths)) for o, n in zip(offsets, lengths, strict=False)]

    def choose(self, joining: Joining) -> None:
        """Find the operands that may move."""
        op, block, to_output = joining.op, joining.alloc.parent, IO in joining.alloc.attributes
        for i, value in enumerate(op.ins):
            alloc = owner_of(value).owner
            if (
                isinstance(alloc, AllocOp)
                and alloc.parent is block
                and alloc not in joining.moved.values()
                and alloc.memref.type.memory_space == HBM
                and numel(shape_of(alloc.memref)) == numel(shape_of(value))
                and (IO not in alloc.attributes or (to_output and is_input(alloc)))
                and element_type(alloc.memref) == element_type(value)
                and self.movable(alloc, joining.placements[i], op)
            ):
                joining.moved[i] = alloc


def is_input(alloc: AllocOp) -> bool:
    """Return whether a buffer holds an input of the model: it is copied there from the host."""
    copies = (use.operation for use in alloc.memref.uses if isinstance(use.operation, CopyOp))
    return any(copy.target is alloc.memref for copy in copies)


def geometry(value: SSAValue) -> tuple[int, Sequence[int], Sequence[int]]:
    """Offset, sizes and strides of a memref in its buffer, in elements."""
    view = view_of(value)
    return view.offset, view.sizes, view.strides


def reserve(joining: Joining, graph: TaskGraph, profile: LiveProfile) -> None:
    """Move only those operands for which there is room from the first write to one of them on: the
    last ones, as many as may be, since each begins the lifetime of the result earlier. From its own
    first write on an operand that moves takes no room but its part of the result."""
    total = byte_size(joining.result.type)
    first = {i: max(graph.first_use(alloc.memref), 0) for i, alloc in joining.moved.items()}
    near = [i for i in first if joining.position - first[i] <= NEAR]
    order = sorted(near, key=lambda i: first[i])
    written = list(accumulate(map(joining.size, order), initial=0))  # bytes before each of `order`
    most, step, begin = 0, joining.position, len(order)
    for k in reversed(range(len(order))):
        while step > first[order[k]]:
            step -= 1
            most = max(most, profile.bytes[step] + total - written[k + 1])
        if most + written[k] <= profile.peak:
            begin = k
    end = joining.position
    for k in reversed(range(begin, len(order))):
        profile.reserve(first[order[k]], end, total - (written[k + 1] - written[begin]))
        end = first[order[k]]
    joining.moved = {i: joining.moved[i] for i in order[begin:]}


def join(joining: Joining, graph: TaskGraph, positions: dict[AllocOp, int]) -> None:
    """Make the chosen operands views of the result, copy the others, and erase the launch."""
    op, result, allocs = joining.op, joining.result, joining.moved.values()
    before = min(allocs, key=lambda alloc: positions[alloc])
    block = op.parent
    assert block is not None
    detach(joining.alloc, block)
    put_before(block, joining.alloc, before)
    positions[joining.alloc] = positions[before]
    graph.begin(result, min(graph.first_use(alloc.memref) for alloc in allocs))
    for i, placement in enumerate(joining.placements):
        if (alloc := joining.moved.get(i)) is not None:
            move(alloc, placement, joining.alloc)
            continue
        shape = shape_of(op.ins[i])
        view = part_view(result, placement, 0, shape, row_major(shape))
        copy = CopyOp(op.ins[i], view.result)
        insert_before(op, view)
        insert_before(op, copy)
    erase(op)


def move(alloc: AllocOp, placement: Placement, joined: AllocOp) -> None:
    """Have all users of a buffer use its part of another one."""
    whole = view_like(alloc, placement, joined.memref)
    block = joined.parent
    assert block is not None
    put_after(block, whole, joined)
    stack: list[SSAValue] = [alloc.memref]
    while stack:
        for use in list(stack.pop().uses):
            cast = use.operation
            if isinstance(cast, ReinterpretCastOp):
                stack.append(cast.result)
                new = view_like(cast, placement, joined.memref)
                assert cast.parent is not None
                put_before(cast.parent, new, cast)
                for user in list(cast.result.uses):
                    if not isinstance(user.operation, ReinterpretCastOp):
                        user.operation.operands[user.index] = new.result
    erase_views(alloc.memref)
    replace_uses(alloc.memref, whole.result)
    erase_unused((alloc, whole))


def erase_views(value: SSAValue) -> None:
    """Erase the views of a buffer, and views of these; nothing else uses them any more."""
    for use in list(value.uses):
        if isinstance(cast := use.operation, ReinterpretCastOp):
            erase_views(cast.result)
            erase(cast)


def view_like(
    op: AllocOp | ReinterpretCastOp, placement: Placement, buffer: SSAValue
) -> ReinterpretCastOp:
    """A view of the result of a concatenation in place of an operand or a view of it."""
    (value,) = op.results
    new = part_view(buffer, placement, *geometry(value))
    new.location, new.result.name_hint = op.location, value.name_hint
    return new


def part_view(
    buffer: SSAValue,
    placement: Placement,
    offset: int,
    sizes: Sequence[int],
    strides: Sequence[int],
) -> ReinterpretCastOp:
    """A view of a buffer at `offset` (in elements) of where a part of it is placed."""
    placed = placement.view(offset, sizes, strides)
    assert placed is not None
    start, steps = placed
    return casts.part(buffer, start, tuple(sizes), tuple(steps))


def erase_unused_kernels(main: FuncOp, kernels: Mapping[str, KernelOp]) -> None:
    """Erase the kernels that nothing launches any more."""
    used = {op.callee for op in all_ops(main.body.blocks) if isinstance(op, LaunchOp)}
    for name, kernel in kernels.items():
        if name not in used:
            erase(kernel)


def each_block(module: ModuleOp, kind: type[BufferParts]) -> None:
    """Make parts in the blocks of the main function, and erase kernels without a launch then."""
    if (main := main_function(module)) is None:
        return
    kernels = kernels_of(module)
    parts = kind(kernels)
    if any([isinstance(k.main, kind.KIND) for k in kernels.values()]):
        for ops in ops_by_block(main.body.block).values():
            parts.block(ops)
    erase_unused_kernels(main, kernels)


class WritePartsPass(ModulePass):
    """Have the operands of concatenations written into their parts of the result."""

    name = "write-parts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        each_block(op, PartWriting)
