"""The memory that the memrefs of a program lie in, and what its ops do to it: one definition for
emulator, clock, planner and checker.

Owners. Memory belongs to a slot (its bytes of a segment), an allocation, a constant, an argument of
the function, a result of a launch, transfer, branch or loop, or an argument of a loop's body that
is not carried in a buffer. An allocation is new, its bytes undefined, each time that it is
executed; the bytes of a slot stay. Only slots and allocations are written by ops other than their
defining op.

Views. `memref.reinterpret_cast` counts its offset from the first element of the owner, whatever
views its source went through (as in MLIR: from the base pointer). Strides are 0 or more; element
type and memory space are the owner's. Elements of less than a byte are packed, the first in the low
bits; a view of them has whole bytes, or ends with its owner.

Control flow. A body's argument for a value that is carried in a buffer *is* that buffer (`order`
1). All else is copied: initial values when the loop begins (a body's argument is new in each
iteration), and yielded values when the block ends. Then all values are read before one of their
destinations is written: a carried buffer, an `outs` of a branch, the row of a scan buffer that has
the iteration's number, the next iteration's arguments, a result. Nothing is copied where value and
destination are the same view. A scan buffer has as many rows as the loop has iterations.

Inputs and outputs. A program says by copies where they are on the device.

    %0 = npu_task.slot io 0 : memref<8x64xf32, hbm>
    npu_task.copy %x to %0 on 2           input 0 is in %0, brought there by this copy
    npu_task.launch @relu_0 ins(%0) outs(%1)
    %2 = memref.alloc() : memref<8x64xf32, host>
    npu_task.copy %1 to %2 on 3           output 0 is in %1, and brought back by this one
    func.return %2

An input or output has a place of its own where nothing else is in the slot: then a run may bring
other memory for it. Others keep their copies: an input that is a part of an output, an output that
a constant is copied to. Values of dynamic shape are in buffers that the device makes in each run.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Generic, NamedTuple, TypeVar, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.dialects.func import ReturnOp
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue

from ge.dialects.npu_task.attributes import HOST, data_type, space_of
from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp, MapIndexOp, YieldOp
from ge.dialects.npu_task.ops import BatchCopyOp, ConstantOp, CopyOp, LaunchOp, SlotOp, TransferOp
from ge.dialects.support.element_types import bitwidth, elements_per_byte
from ge.dialects.support.operation import operands_of, yielded
from ge.dialects.support.types import Shape, array_ints, numel, shape_of

MOST_BOXES = 4096  # that a view is cut into, and runs that are compared one by one

Dims = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ByteBox:
    """Runs of `width` bytes, `count` times `pitch` bytes apart for each (count, pitch) of `dims`,
    outermost first. A pitch is never smaller than the extent that it repeats."""

    low: int
    width: int
    dims: Dims = ()

    @property
    def high(self) -> int:
        high = self.low + self.width
        for count, pitch in self.dims:
            high += (count - 1) * pitch
        return high

    @property
    def size(self) -> int:
        return self.width * prod(count for count, _ in self.dims)

    def at(self, index: int) -> "ByteBox":
        """The box at one index of the outermost dimension."""
        return ByteBox(self.low + index * self.dims[0][1], self.width, self.dims[1:])

    def meets(self, other: "ByteBox") -> bool:
        """True if both may have a byte in common: exact up to `MOST_BOXES` runs."""
        if not self.dims and not other.dims:  # the usual case
            return self.low < other.low + other.width and other.low < self.low + self.width
        if self.low >= other.high or other.low >= self.high:
            return False
        if not self.dims or (other.dims and other.dims[0][1] > self.dims[0][1]):
            return other.meets(self)
        count, pitch = self.dims[0]
        mine, theirs, first = self.at(0), other, 0
        if other.dims and other.dims[0][1] == pitch:  # only the distance of two indices matters
            theirs, first = other.at(0), 1 - other.dims[0][0]
        begin = max(first, (theirs.low - mine.high) // pitch + 1)
        end = min(count, -((mine.low - theirs.high) // pitch))
        if end - begin > MOST_BOXES:
            return True
        return any(self.at(i).meets(theirs) for i in range(begin, end))


def boxes_of(low: int, width: int, dims: Iterable[tuple[int, int]]) -> list[ByteBox] | None:
    """The bytes of elements of `width` bytes from byte `low` on, with these sizes and strides in
    bytes, none below 0. None for more than `MOST_BOXES` boxes."""
    return _nested(low, width, sorted((d for d in dims if d[0] != 1 and d[1]), key=lambda d: d[1]))


def _nested(low: int, width: int, dims: Sequence[tuple[int, int]]) -> list[ByteBox] | None:
    """The boxes of `boxes_of`, for sizes above 1 and strides above 0 in ascending order."""
    boxes = [ByteBox(low, width)]
    for count, pitch in dims:
        repeated = list[ByteBox]()
        for box in boxes:
            repeated += _repeated(box, count, pitch)
            if len(repeated) > MOST_BOXES:
                return None
        boxes = repeated
    return boxes


def _repeated(box: ByteBox, count: int, pitch: int) -> list[ByteBox]:
    if not box.dims and pitch <= box.width:
        return [ByteBox(box.low, (count - 1) * pitch + box.width)]
    if pitch >= box.high - box.low:
        inner, step = box.dims[0] if box.dims else (0, 0)
        dims = ((count * inner, step), *box.dims[1:]) if pitch == inner * step else None
        return [ByteBox(box.low, box.width, dims or ((count, pitch), *box.dims))]
    count = min(count, MOST_BOXES + 1)
    return [ByteBox(box.low + i * pitch, box.width, box.dims) for i in range(count)]


_BOXES = "_ge_boxes"  # a cache in types, which are immutable

LOOP_ARGUMENTS = 2  # before the carried ones: iteration number, condition

Task = LaunchOp | CopyOp | BatchCopyOp | TransferOp  # what runs on a stream

T = TypeVar("T")


# ---- where values are ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemoryView:
    """Elements of a buffer. `offset` and `strides` count elements of the owner."""

    owner: SSAValue
    offset: int
    sizes: Shape
    strides: Shape
    element: Attribute

    @property
    def bits(self) -> int:
        """Bits of an element in memory."""
        return bitwidth(self.element)

    @property
    def is_known(self) -> bool:
        return all(n >= 0 for n in self.sizes)

    @property
    def end(self) -> int:
        """The element after the last one."""
        if not prod(self.sizes):
            return self.offset
        steps = ((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True))
        return self.offset + 1 + sum(steps)

    @property
    def region(self) -> "ByteRegion":
        """The bytes: all of the owner where sizes are not known or the view is too scattered."""
        boxes = None
        if self.is_known and self.offset >= 0:
            low, width, dims = self.geometry
            boxes = boxes_of(low, width, dims) if prod(self.sizes) else []
        return ByteRegion(self.owner, EVERYTHING if boxes is None else tuple(boxes))

    @property
    def geometry(self) -> tuple[int, int, Sequence[tuple[int, int]]]:
        """The first byte, the bytes of a run, and sizes and strides in bytes of the dimensions of
        runs. A run of packed elements is a row; all of the view is one where rows do not begin and
        end with bytes."""
        bits, dims = self.bits, list(zip(self.sizes, self.strides, strict=True))
        if bits >= 8:
            width = bits // 8
            return self.offset * width, width, [(n, s * width) for n, s in dims]
        many = elements_per_byte(self.element)
        *rows, (length, _) = self.rows()
        low, end = self.offset // many, -(-self.end // many)
        if not self.is_whole_rows():
            return low, end - low, []
        return low, -(-length // many), [(n, s // many) for n, s in rows]

    def rows(self) -> list[tuple[int, int]]:
        """Sizes and strides of the fewest dimensions, the last one of contiguous elements."""
        dims = merged(self.sizes, self.strides)
        return dims if dims and dims[-1][1] == 1 else [*dims, (1, 1)]

    def is_whole_rows(self) -> bool:
        """True if each row begins at a byte boundary and, if there are several, ends at one."""
        many = elements_per_byte(self.element)
        *rows, (length, _) = self.rows()
        starts = (self.offset, *(stride for _, stride in rows))
        return not any(n % many for n in starts) and not (rows and length % many)

    def is_whole_bytes(self) -> bool:
        """True if no byte of the view also holds elements of the buffer outside the view."""
        many = elements_per_byte(self.element)
        if many == 1 or not prod(self.sizes):
            return True
        _, shape = data_type(self.owner.type)
        return self.is_whole_rows() and (self.end % many == 0 or self.end == prod(shape))

    def is_injective(self) -> bool:
        """True if surely no two elements share bytes."""
        dims = sorted((s, n) for n, s in zip(self.sizes, self.strides, strict=True) if n > 1)
        extent, nested = 1, True
        for stride, size in dims:
            nested = nested and stride >= extent
            extent += (size - 1) * stride
        if nested or not (count := prod(self.sizes)):
            return True
        if count > extent or count > MOST_ELEMENTS:
            return False
        offsets = {0}
        for stride, size in dims:
            offsets = {o + i * stride for o in offsets for i in range(size)}
        return len(offsets) == count


def merged(sizes: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Sizes and strides of the fewest dimensions that have the same elements in the same order:
    [1, 2, 4] with [8, 4, 1] is [8] with [1]."""
    dims: list[tuple[int, int]] = []
    for size, stride in zip(sizes, strides, strict=True):
        if size == 1:
            continue
        if dims and dims[-1][1] == size * stride:
            size *= dims.pop()[0]
        dims.append((size, stride))
    return dims


MOST_ELEMENTS = 1 << 16  # of a view that are looked at one by one


def source_of(value: SSAValue) -> SSAValue | None:
    """The value that a value is an alias of; None for an owner."""
    if type(value) is OpResult:
        op = value.op
        return operands_of(op)[0] if type(op) is ReinterpretCastOp else None  # its source
    if isinstance(value, BlockArgument):
        loop, index = value.owner.parent_op(), value.index - LOOP_ARGUMENTS
        if not isinstance(loop, LoopOp) or index < 0:
            return None
        order = array_ints(loop.order)
        return loop.carried[sum(order[:index])] if order[index] else None
    return None


def is_owner(value: SSAValue) -> bool:
    """True if the value surely is no alias: the result of an op other than a cast, as most are."""
    return type(value) is OpResult and type(value.op) is not ReinterpretCastOp


def owner_of(value: SSAValue) -> SSAValue:
    """The value that has the memory of a value: itself, or the value that it is an alias of, in the
    end."""
    while type(value) is not OpResult or type(value.op) is ReinterpretCastOp:  # may be an alias
        if (source := source_of(value)) is None:
            break
        value = source
    return value


def view_of(value: SSAValue) -> MemoryView:
    """The elements of its owner that a memref is. Of a dynamic memref only the owner is known."""
    element, shape = data_type(value.type)
    nearest, owner = None, value
    while (source := source_of(owner)) is not None:
        if nearest is None and isinstance(owner.owner, ReinterpretCastOp):
            nearest = owner.owner
        owner = source
    if nearest is None:
        return MemoryView(owner, 0, shape, row_major(shape), element)
    (offset,), sizes, strides = numbers_of(nearest)
    return MemoryView(owner, offset, sizes, strides, element)


def numbers_of(cast: ReinterpretCastOp) -> tuple[Shape, Shape, Shape]:
    """Static offsets, sizes and strides; xDSL's accessors take several times as long."""
    offsets, sizes, strides = [
        cast.properties[f"static_{n}"] for n in ("offsets", "sizes", "strides")
    ]
    return array_ints(offsets), array_ints(sizes), array_ints(strides)


@dataclass(frozen=True, slots=True)
class ByteRegion:
    """Bytes of a buffer."""

    owner: SSAValue
    boxes: tuple[ByteBox, ...]

    @property
    def low(self) -> int:
        return min((box.low for box in self.boxes), default=0)

    @property
    def high(self) -> int:
        return max((box.high for box in self.boxes), default=0)

    def meets(self, other: "ByteRegion") -> bool:
        if self.owner is not other.owner:
            return False
        return any([a.meets(b) for a in self.boxes for b in other.boxes])

    def covers(self, other: "ByteRegion") -> bool:
        """True if this region surely has all bytes of the other one."""
        if self == other:
            return True
        dense = len(self.boxes) == 1 and not self.boxes[0].dims
        return dense and self.low <= other.low and other.high <= self.high


EVERYTHING = (ByteBox(0, 1 << 62),)  # of a buffer whose size is not known


class ByteRegions:
    """A cache of the regions of values."""

    def __init__(self) -> None:
        self._known: dict[SSAValue, ByteRegion] = {}

    def of(self, value: SSAValue) -> ByteRegion:
        region = self._known.get(value)
        if region is None:
            region = whole(value) if is_owner(value) else view_of(value).region
            self._known[value] = region
        return region


class RegionHistory(Generic[T]):
    """For each part of each buffer, the tasks that wrote it last and those that read it since:
    later tasks depend on these. The planner and the clock use it; proofs keep a history of their
    own."""

    def __init__(self) -> None:
        self._writes: dict[SSAValue, list[tuple[ByteRegion, T]]] = {}
        self._reads: dict[SSAValue, list[tuple[ByteRegion, T]]] = {}

    def writers(self, region: ByteRegion) -> list[T]:
        return [t for r, t in self._writes.get(region.owner, ()) if r.meets(region)]

    def readers(self, region: ByteRegion) -> list[T]:
        return [t for r, t in self._reads.get(region.owner, ()) if r.meets(region)]

    def read(self, region: ByteRegion, task: T) -> None:
        self._reads.setdefault(region.owner, []).append((region, task))

    def write(self, region: ByteRegion, task: T) -> None:
        owner = region.owner
        for touched in (self._reads, self._writes):
            if older := touched.get(owner):
                touched[owner] = [(r, t) for r, t in older if not region.covers(r)]
        self._writes.setdefault(owner, []).append((region, task))


def whole(owner: SSAValue) -> ByteRegion:
    """All bytes of a buffer; the boxes follow from its type."""
    facts = vars(owner.type)
    boxes: tuple[ByteBox, ...] | None = facts.get(_BOXES)
    if boxes is None:
        boxes = facts[_BOXES] = view_of(owner).region.boxes
    return ByteRegion(owner, boxes)


def row_major(shape: Sequence[int]) -> Shape:
    """The strides, in elements, of a contiguous tensor."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * max(shape[i + 1], 1)
    return tuple(strides)


def is_writable(owner: SSAValue) -> bool:
    """True if ops other than its defining op may write to the buffer."""
    return isinstance(owner.owner, SlotOp | AllocOp)


# ---- what ops do -----------------------------------------------------------------------------


class Effects(NamedTuple):
    """The memrefs that an op reads, those that it writes, and those that it defines."""

    reads: Sequence[SSAValue]
    writes: Sequence[SSAValue] = ()
    new: Sequence[SSAValue] = ()


def access(op: Operation) -> Effects:
    """The effects of an op itself: of a branch or a loop those before its blocks run. `moves` has
    those of the blocks' ends."""
    match op:
        case LaunchOp():
            return Effects(op.ins, op.outs, op.results)
        case CopyOp():
            return Effects((op.source,), (op.target,))
        case BatchCopyOp():
            return Effects(op.sources, op.targets)
        case TransferOp():
            return Effects((op.source,), (), (op.result,))
        case IfOp():
            return Effects((op.condition,))
        case CaseOp():
            return Effects((op.index,))
        case MapIndexOp():
            return Effects((), (), op.results)  # of sizes, not of elements
        case LoopOp():
            heads = [v for v in (op.trip, op.condition) if v is not None]
            return Effects((*heads, *op.inits))
        case YieldOp() | ReturnOp():
            return Effects(op.operands)
        case ConstantOp():
            return Effects((), (), op.results)
        case _:
            return Effects(())


class BlockMove(NamedTuple):
    """A value that a block yields, and the buffer that it is copied into: with `row` into the row
    that has the iteration's number. None: the next iteration's condition, or a new buffer."""

    value: SSAValue
    target: SSAValue | None
    row: bool = False


def moves(op: YieldOp) -> Iterator[BlockMove]:
    """The moves of the values that a block yields, in order."""
    parent = op.parent_op()
    if isinstance(parent, IfOp | CaseOp):
        yield from _moves(op.values, parent.order, parent.outs, row=False)
    elif isinstance(parent, LoopOp):
        carried = len(parent.order)
        yield BlockMove(op.values[0], None)
        yield from _moves(op.values[1 : 1 + carried], parent.order, parent.carried, row=False)
        yield from _moves(op.values[1 + carried :], parent.stacked, parent.scans, row=True)


def _moves(
    values: Sequence[SSAValue], order: Attribute, targets: Sequence[SSAValue], row: bool
) -> Iterator[BlockMove]:
    buffers = iter(targets)
    for value, fixed in zip(values, array_ints(order), strict=True):
        yield BlockMove(value, next(buffers), row) if fixed else BlockMove(value, None)


FOREVER = 1 << 62


def trips(loop: LoopOp) -> tuple[int, int | None]:
    """The least and the most iterations of a loop, as far as constants in the IR decide them; None
    for no limit, `FOREVER` for a loop that never ends."""
    most = None if loop.trip is None else _constant(loop.trip)
    most = None if most is None else max(most, 0)
    least = FOREVER if loop.trip is None else most or 0
    if loop.condition is not None and not _constant(loop.condition):
        return 0, most
    last = loop.body.block.last_op
    going = None if last is None else last.operands[0]
    steady = going is loop.body.block.args[1] or (going is not None and bool(_constant(going)))
    return least if steady else min(least, 1), most


def _constant(value: SSAValue) -> int | None:
    dense = value.owner.value if isinstance(value.owner, ConstantOp) else None
    if not isinstance(dense, DenseIntOrFPElementsAttr):
        return None
    values = cast(Sequence[int], dense.get_values())
    return int(values[0]) if len(values) == 1 else None


@dataclass(frozen=True, slots=True)
class Place:
    """A slot, or a value that a transfer makes or reads, and the task that copies it from or to the
    host."""

    value: SSAValue
    source: SSAValue
    target: SSAValue
    task: Operation

    @property
    def is_slot(self) -> bool:
        return isinstance(self.value.owner, SlotOp)


def input_places(block: Block) -> dict[int, Place]:
    """The places of the inputs of a program, by number."""
    places: dict[int, Place] = {}
    for index, arg in enumerate(block.args):
        if space_of(arg.type) != HOST or (use := arg.get_user_of_unique_use()) is None:
            continue
        if use.parent is not block:
            continue
        if isinstance(use, TransferOp):
            places[index] = Place(use.result, arg, use.result, use)
        elif (target := _target_of(use, arg)) is not None and isinstance(target.owner, SlotOp):
            if target.owner.segment.data == "io" and list(writers(target)) == [use]:
                places[index] = Place(target, arg, target, use)
    return places


def output_places(block: Block) -> dict[int, Place]:
    """The places of the outputs of a program, by number."""
    places: dict[int, Place] = {}
    taken = {p.value for p in input_places(block).values()}
    for index, value in enumerate(yielded(block)):
        place = _output_place(block, value)
        if place is not None and place.value not in taken:
            taken.add(place.value)
            places[index] = place
    return places


def _output_place(block: Block, value: SSAValue) -> Place | None:
    task = value.owner
    if isinstance(task, TransferOp):
        made = not isinstance(owner_of(task.source).owner, SlotOp)
        return Place(task.source, task.source, value, task) if made else None
    copies = list(writers(value)) if isinstance(task, AllocOp) else []
    if len(copies) != 1 or copies[0].parent is not block:
        return None
    (copy,) = copies
    source = _source_of(copy, value)
    if source is None or space_of(value.type) != HOST:
        return None
    slot, view = owner_of(source), view_of(source)
    whole = numel(shape_of(slot)) == numel(shape_of(source))
    dense = view.offset == 0 and view.strides == row_major(view.sizes)
    if not isinstance(slot.owner, SlotOp) or slot.owner.segment.data != "io":
        return None
    before = all(_is_before(block, w, copy) for w in writers(slot))
    return Place(slot, source, value, copy) if whole and dense and before else None


def writers(value: SSAValue) -> Iterator[Operation]:
    """The ops that write to a buffer or a view of it; a branch or loop that has it as a place for
    results is one."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, ReinterpretCastOp):
            yield from writers(op.result)
        elif isinstance(op, LoopOp):
            if value in (*op.carried, *op.scans):
                yield op
        elif value in (op.outs if isinstance(op, IfOp | CaseOp) else access(op).writes):
            yield op


def _is_before(block: Block, op: Operation, copy: Operation) -> bool:
    top = block.find_ancestor_op_in_block(op)
    return top is not None and top.is_before_in_block(copy)


def pairs_of(op: Operation) -> list[tuple[SSAValue, SSAValue]]:
    """The pairs of source and target of a copy; none for other ops."""
    if isinstance(op, BatchCopyOp):
        return op.pairs
    return [(op.source, op.target)] if isinstance(op, CopyOp) else []


def _target_of(copy: Operation, source: SSAValue) -> SSAValue | None:
    return next((t for s, t in pairs_of(copy) if s is source), None)


def _source_of(copy: Operation, target: SSAValue) -> SSAValue | None:
    return next((s for s, t in pairs_of(copy) if t is target), None)
