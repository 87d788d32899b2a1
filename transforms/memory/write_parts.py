"""What is concatenated is written into its part of the result: nothing is launched for it.

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

The kernels that write and read an operand must do with rows that lie apart
(`KernelOp.accepts_strided`). A part is a row of stretches of memory; each stretch has to be at
least `SHORTEST` bytes long. An operand that has to be elsewhere (an input or output of the model, a
constant, what control flow makes, what is concatenated twice) is copied into its part, a task that
is no launch; an input of the model goes right into an output of the model that it is a part of,
such as the cache of attention. The launch stays where more would be copied than written in place.

The result exists from when its first part is written. So that the peak does not grow, an operand is
placed in an arena buffer only if it is made at most `NEAR` tasks before, and the bytes that are
reserved early fit below the most that is live between two tasks of the block.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, StridedLayoutAttr
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.npu_task.attributes import HBM
from ge.dialects.npu_task.memory import owner_of, row_major, view_of
from ge.dialects.npu_task.ops import CopyOp, KernelOp, LaunchOp
from ge.dialects.npu_task.program_info import IO
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import byte_size, element_type, normalize_axis, numel, shape_of
from ge.transforms.analysis.aliasing import Uses, find_uses, in_arena
from ge.transforms.analysis.live_profile import LiveProfile

SHORTEST = 32
"""Bytes that the DMA moves at least (alignment of on-core memory)."""

NEAR = 64
"""How many tasks before a concatenation an operand may be made to have its place there."""


@dataclass(frozen=True)
class Part:
    """Where an operand lies in the result: stretches of `length` elements, `pitch` apart, from
    element `offset` on."""

    offset: int
    length: int
    pitch: int

    def place(self, index: int) -> int:
        """The element of the result that an element of the operand is."""
        return self.offset + index // self.length * self.pitch + index % self.length

    def view(
        self, offset: int, sizes: Sequence[int], strides: Sequence[int]
    ) -> tuple[int, list[int]] | None:
        """Offset and strides in the result of a view of the operand; None where it has none: a
        dimension would have to step from stretch to stretch and within one."""
        found: list[int] = []
        within = offset % self.length
        for n, stride in zip(sizes, strides, strict=True):
            if stride % self.length == 0:
                found.append(stride // self.length * self.pitch)
            else:
                found.append(stride)
                within += (n - 1) * stride
        return (self.place(offset), found) if within < self.length else None


@dataclass
class Joining:
    """One concatenation whose operands get their parts of the result."""

    op: LaunchOp
    position: int
    parts: list[Part]
    alloc: AllocOp
    direct: dict[int, AllocOp] = field(default_factory=dict[int, AllocOp])
    """Operand -> the allocation that becomes a view of the result."""

    @property
    def result(self) -> SSAValue:
        return self.alloc.memref

    def size(self, index: int) -> int:
        return byte_size(self.op.ins[index].type)


def profile_of(uses: Uses) -> LiveProfile:
    """The bytes of the arena that are live after each op of a block."""
    lives = (
        (byte_size(buffer.type), first, uses.last[buffer] - 1)
        for buffer, first in uses.first.items()
        if isinstance(op := buffer.owner, AllocOp) and in_arena(op)
    )
    return LiveProfile.of(lives, len(uses.ops) + 1)


@dataclass
class PartWriting:
    """Works on the blocks of one function."""

    kernels: Mapping[str, KernelOp]
    strided: dict[str, bool] = field(default_factory=dict[str, bool])
    """Whether a kernel takes rows that lie apart, for those seen so far."""

    def block(self, block: Block, uses: Uses) -> None:
        """Rewrite the concatenations of a block in order: one may be an operand of another."""
        profile: LiveProfile | None = None
        for position, op in enumerate(uses.ops):
            if not isinstance(op, LaunchOp) or (parts := self.parts(op)) is None:
                continue
            alloc = op.outs[0].owner
            if not isinstance(alloc, AllocOp) or alloc.parent is not block:
                continue
            if uses.first.get(alloc.memref) != position:
                continue
            joining = Joining(op, position, parts, alloc)
            self.choose(joining, uses)
            if in_arena(alloc):
                profile = profile or profile_of(uses)
                reserve(joining, uses, profile)
            copied = [i for i in range(len(op.ins)) if i not in joining.direct]
            least = sum(map(joining.size, joining.direct))
            if joining.direct and (len(copied) < 2 or sum(map(joining.size, copied)) <= least):
                join(joining, uses)

    def parts(self, op: LaunchOp) -> list[Part] | None:
        """The parts of a concatenation; None for any other launch, and where one is too short."""
        main = self.kernels[op.callee].main
        if not isinstance(main, ConcatOp) or len(op.ins) != len(main.inputs) or len(op.outs) != 1:
            return None
        shape = shape_of(op.outs[0])
        axis = normalize_axis(main.axis.value.data, len(shape))
        lengths = [prod(shape_of(v)[axis:]) for v in op.ins]
        width = bitwidth(element_type(op.outs[0])) // 8
        whole = prod(shape[:axis]) == 1
        if any(n == 0 or (n * width < SHORTEST and not whole) for n in lengths) or not prod(shape):
            return None
        offsets = accumulate(lengths, initial=0)
        return [Part(o, n, sum(lengths)) for o, n in zip(offsets, lengths, strict=False)]

    def choose(self, joining: Joining, uses: Uses) -> None:
        """Find the operands that may have their place in the result."""
        op = joining.op
        for i, value in enumerate(op.ins):
            alloc = owner_of(value).owner
            if not isinstance(alloc, AllocOp) or alloc.parent is not joining.alloc.parent:
                continue
            if alloc in joining.direct.values() or alloc.memref.type.memory_space != HBM:
                continue
            if numel(shape_of(alloc.memref)) != numel(shape_of(value)):
                continue
            if IO in alloc.attributes and not (IO in joining.alloc.attributes and is_input(alloc)):
                continue
            if element_type(alloc.memref) == element_type(value) and self.movable(
                alloc, joining.parts[i], op
            ):
                joining.direct[i] = alloc

    def movable(self, alloc: AllocOp, part: Part, concat: LaunchOp) -> bool:
        """Whether all that uses a buffer can use it as a part of another one."""
        shape = shape_of(alloc.memref)
        if part.view(0, shape, row_major(shape)) is None:
            return False
        todo: list[SSAValue] = [alloc.memref]
        while todo:
            for use in todo.pop().uses:
                user = use.operation
                match user:
                    case ReinterpretCastOp():
                        if part.view(*geometry(user)) is None:
                            return False
                        todo.append(user.result)
                    case LaunchOp():
                        if user is not concat and not self.accepts_strided(user.callee):
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


def is_input(alloc: AllocOp) -> bool:
    """Whether a buffer holds an input of the model: it is copied there from the host."""
    copies = (use.operation for use in alloc.memref.uses if isinstance(use.operation, CopyOp))
    return any(copy.target is alloc.memref for copy in copies)


def geometry(cast: ReinterpretCastOp) -> tuple[int, Sequence[int], Sequence[int]]:
    """Offset, sizes and strides of a view, in elements."""
    view = view_of(cast.result)
    return view.offset, view.sizes, view.strides


def reserve(joining: Joining, uses: Uses, profile: LiveProfile) -> None:
    """Keep only those operands in their places for which there is room from when they are made:
    from the last one on, since each begins the life of the result earlier."""
    total = byte_size(joining.result.type)
    made = {i: uses.first[alloc.memref] for i, alloc in joining.direct.items()}
    end = joining.position
    kept: dict[int, AllocOp] = {}
    for i in sorted(made, key=lambda i: made[i], reverse=True):
        near = joining.position - made[i] <= NEAR
        if not near or not profile.reserve(made[i], end, total - joining.size(i)):
            break
        kept[i], end = joining.direct[i], made[i]
    joining.direct = kept


def join(joining: Joining, uses: Uses) -> None:
    """Make the chosen operands views of the result, copy the others, and erase the launch."""
    block, op, result = joining.op.parent, joining.op, joining.result
    assert block is not None
    start = min(uses.first[alloc.memref] for alloc in joining.direct.values())
    places = {alloc: uses.places[alloc] for alloc in joining.direct.values()}
    before = min(places, key=lambda alloc: places[alloc])
    joining.alloc.detach()
    block.insert_op_before(joining.alloc, before)
    uses.first[result], uses.places[joining.alloc] = start, places[before]
    for i, part in enumerate(joining.parts):
        alloc = joining.direct.get(i)
        if alloc is None:
            block.insert_ops_before(tuple(copied(op, i, part, result)), op)
        else:
            move(alloc, part, result, joining.alloc)
    op.detach()
    op.erase()


def copied(op: LaunchOp, index: int, part: Part, result: SSAValue) -> Iterator[Operation]:
    """The copy of an operand into its part."""
    shape = shape_of(op.ins[index])
    placed = part.view(0, shape, row_major(shape))
    assert placed is not None
    view = strided_view(result, placed, op.ins[index].type)
    copy = CopyOp(op.ins[index], view.result)
    for new in (view, copy):
        new.location = op.location
        yield new


def move(alloc: AllocOp, part: Part, result: SSAValue, after: AllocOp) -> None:
    """Have all that uses a buffer use its part of the result instead."""
    shape = shape_of(alloc.memref)
    placed = part.view(0, shape, row_major(shape))
    assert placed is not None
    whole = strided_view(result, placed, alloc.memref.type)
    whole.location, whole.result.name_hint = alloc.location, alloc.memref.name_hint
    assert after.parent is not None
    after.parent.insert_op_after(whole, after)
    todo: list[SSAValue] = [alloc.memref]
    while todo:
        for use in list(todo.pop().uses):
            cast = use.operation
            if not isinstance(cast, ReinterpretCastOp):
                continue
            todo.append(cast.result)
            placed = part.view(*geometry(cast))
            assert placed is not None
            assert cast.parent is not None
            new = strided_view(result, placed, cast.result.type)
            new.location, new.result.name_hint = cast.location, cast.result.name_hint
            cast.parent.insert_op_before(new, cast)
            for user in list(cast.result.uses):
                if not isinstance(user.operation, ReinterpretCastOp):
                    user.operation.operands[user.index] = new.result
    erase_views(alloc.memref)
    alloc.memref.replace_all_uses_with(whole.result)
    alloc.detach()
    alloc.erase()


def erase_views(value: SSAValue) -> None:
    """Erase the views of a buffer, and views of these; nothing else uses them any more."""
    for use in list(value.uses):
        if isinstance(cast := use.operation, ReinterpretCastOp):
            erase_views(cast.result)
            cast.detach()
            cast.erase()


def strided_view(
    buffer: SSAValue, placed: tuple[int, list[int]], like: Attribute
) -> ReinterpretCastOp:
    """A view of a buffer with the element type and shape of a memref type."""
    assert isinstance(like, MemRefType)
    offset, strides = placed
    shape = like.get_shape()
    t = MemRefType(element_type(buffer), shape, StridedLayoutAttr(strides, offset), HBM)
    return ReinterpretCastOp(buffer, (), (), (), [offset], shape, strides, t)


@dataclass(frozen=True)
class WritePartsPass(ModulePass):
    """Have the operands of concatenations written into their parts of the result."""

    name = "write-parts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (main := main_function(op)) is None:
            return
        kernels = {k.sym_name.data: k for k in op.ops if isinstance(k, KernelOp)}
        found: dict[Block, Uses] = {}
        find_uses(main.body.block, found)
        writing = PartWriting(kernels)
        for block, uses in found.items():
            writing.block(block, uses)
        used = {launch.callee for launch in main.walk() if isinstance(launch, LaunchOp)}
        for name, kernel in kernels.items():
            if name not in used:
                kernel.detach()
                kernel.erase()
