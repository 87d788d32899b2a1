"""Buffers of the `tile` dialect: allocations, slots of rings, views, queues; and the numbers in
device memory that the scalar unit reads: row numbers, tables of blocks, lengths."""

from collections.abc import Sequence
from math import prod
from typing import cast

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, OpResult, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    BaseAttr,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.traits import NoMemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException

from ge.dialects.npu_task.attributes import number
from ge.dialects.support.constraints import BUFFERS
from ge.dialects.support.element_types import bitwidth, is_float
from ge.dialects.support.operation import GeOp, LineOp, Names, initialize, segments
from ge.dialects.support.types import DYNAMIC, align_up, array_ints, int_array
from ge.dialects.tile.instruction import CoreProgram, Instruction
from ge.dialects.tile.types import (
    BLOCK,
    FRACTAL,
    BoxType,
    FifoType,
    Memory,
    RingType,
    Shaped,
    TileType,
    tile_type,
)

ALIGNMENT = {Memory.L0A: 512, Memory.L0B: 512, Memory.L0C: 512}
"""Bytes that offsets are multiples of: a fractal in L0, `BLOCK` in other memories."""


def copy_bytes(t: TileType | RingType) -> int:
    """Bytes of a tile, or of one copy of a ring, with the gap left free behind it."""
    return align_up(t.bytes, ALIGNMENT.get(t.space, BLOCK))


def allocated_bytes(t: TileType | RingType) -> int:
    """Bytes of an allocation, of all copies."""
    return copy_bytes(t) * (t.copies if isinstance(t, RingType) else 1)


@irdl_op_definition
class AllocOp(GeOp):
    """A tile, or a ring of them, in a memory of the core, for the whole program. `at` is the offset
    in bytes of each copy, which `tile-plan` writes.

        %a = tile.alloc at [0, 16384] : !tile.ring<2 x 128x64xf16, l1>
    """

    name = "tile.alloc"
    at = opt_prop_def(DenseArrayBase.constr(i64))
    result = result_def(Shaped)
    assembly_format = "(`at` $at^)? attr-dict `:` type($result)"

    def __init__(self, t: TileType | RingType, at: Sequence[int] | None = None):
        offsets = None if at is None else int_array(tuple(at))
        initialize(self, (), (t,), {} if offsets is None else {"at": offsets})

    @property
    def tile(self) -> TileType:
        """The type of one copy."""
        t = self.result.type
        return t.tile if type(t) is RingType else cast(TileType, t)

    @property
    def copies(self) -> int:
        return t.copies if type(t := self.result.type) is RingType else 1

    @property
    def copy_bytes(self) -> int:
        """Bytes of one copy, with the gap left free behind it."""
        return copy_bytes(self.tile)

    @property
    def offsets(self) -> tuple[int, ...] | None:
        """Offsets of each copy, in bytes; None before `tile-plan`."""
        return None if self.at is None else array_ints(self.at)

    def verify_(self) -> None:
        if not isinstance(self.result.type, TileType | RingType):
            raise VerifyException(f"a tile or a ring is allocated, not {self.result.type}")
        if not isinstance(program := self.parent_op(), CoreProgram):
            raise VerifyException("an allocation stands at the top of a program, not in a loop")
        if self.tile.space not in program.MEMORIES:
            raise VerifyException(f"{program.name} has no {self.tile.space}")
        check_rows(self.tile)
        if self.tile.space is Memory.L0C and self.tile.rows.data % FRACTAL:
            rule = f"rows that are allocated in l0c are multiples of {FRACTAL}"
            raise VerifyException(f"{rule}, not {self.tile.text()}")
        if (offsets := self.offsets) is None:
            return
        if len(offsets) != self.copies:
            raise VerifyException(f"{self.copies} copies have as many offsets, not {len(offsets)}")
        for offset in offsets:
            if offset < 0 or offset % BLOCK:
                raise VerifyException(f"offsets are multiples of {BLOCK} from 0 on, not {offset}")


def check_rows(t: TileType) -> None:
    """Raises VerifyException for an allocation in UB whose rows begin where no instruction can
    begin: of one column alone, they lie side by side."""
    if t.space is Memory.UB and min(t.shape) > 1 and t.row_bytes % BLOCK:
        rule = f"rows of an allocation in ub are multiples of {BLOCK} bytes"
        way = "allocate wider ones, of which a tile.view has the columns"
        raise VerifyException(f"{rule}: {t.text()} has {t.row_bytes}; {way}")


@irdl_op_definition
class SlotOp(LineOp):
    """A copy of a ring: number `index` mod copies (-1 is the last).

    %s = tile.slot %a[%k] : !tile.ring<2 x 128x64xf16, l1>
    """

    name = "tile.slot"
    ring = operand_def(RingType)
    index = operand_def(IndexType)
    result = result_def(TileType)
    traits = traits_def(Pure())

    def __init__(self, ring: SSAValue, index: SSAValue):
        initialize(self, (ring, index), (cast(RingType, ring.type).tile,))

    @classmethod
    def parse(cls, parser: Parser) -> "SlotOp":
        ring = parser.parse_unresolved_operand()
        with parser.in_square_brackets():
            index = parser.parse_operand(IndexType())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        place = parser.pos
        t = parser.parse_type()
        if not isinstance(t, RingType):
            parser.raise_error(f"a slot is of a ring, not of {t}", place)
        op = cls(parser.resolve_operand(ring, t), index)
        op.attributes.update(attributes)
        return op

    def line(self, names: Names, attributes: str) -> str:
        place = f" {names.name_of(self.ring)}[{names.name_of(self.index)}]"
        return f"{place}{attributes} : {names.attribute_text(self.ring.type)}"

    def verify_(self) -> None:
        ring = cast(RingType, self.ring.type)
        if self.result.type != ring.tile:
            raise VerifyException(f"a slot of {ring} is {ring.tile}, not {self.result.type}")


@irdl_op_definition
class ViewOp(GeOp):
    """A box of a memref, or a sub-tile of a tile. Offsets are in elements, one for each dimension.

        %b = tile.view %q[%t, %h, %c0] sizes [128, 1, 64]
            : memref<512x8x64xf16> -> !tile.box<128x64xf16>
        %w = tile.view %x[%c0, %y, %z] sizes [16, 4, 64] steps [1, 2, 2]
            : memref<64x56x56xf16> -> !tile.box<16x256xf16>
        %u = tile.view %s[%r, %c0] : !tile.tile<64x64xf16, ub> -> !tile.tile<16x64xf16, ub>

    A box may pass the memref's end: loads find padding there, stores leave it out. It may begin
    before the memref, where it is loaded with padding. Its rows and columns are the `sizes` that
    are not 1, in order; without `sizes` the last two dimensions. Where there are more than two, the
    first ones together are the rows and the others the columns (above: the columns are 4 lines of
    64). A single row may be seen as a column. `steps`: how many elements of a dimension lie from
    one of the box to the next. A sub-tile keeps the row stride and lies within its tile; it begins
    at 32 bytes, and may be as narrow as one element: instructions leave out the rest of a block.
    One element that maps take as a number for all others begins anywhere: the scalar unit reads it.

        %b = tile.view %y[%row, %c0] ends[%end, %c64] sizes [16, 64]
            : memref<512x64xf16> -> !tile.box<16x64xf16>

    `ends`: elements from there on do not exist for the box either, along each dimension; a box that
    ends where it begins, or before, has none.
    """

    name = "tile.view"
    source = operand_def(BUFFERS | BaseAttr(TileType))
    offsets = var_operand_def(IndexType)
    ends = var_operand_def(IndexType)
    sizes = opt_prop_def(DenseArrayBase.constr(i64))
    steps = opt_prop_def(DenseArrayBase.constr(i64))
    result = result_def(Shaped)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())
    assembly_format = (
        "$source `[` $offsets `]` (`ends` `[` $ends^ `]`)? (`sizes` $sizes^)? (`steps` $steps^)? "
        "attr-dict `:` type($source) `->` type($result)"
    )

    def __init__(
        self,
        source: SSAValue,
        offsets: Sequence[SSAValue],
        t: BoxType | TileType,
        sizes: Sequence[int] | None = None,
        steps: Sequence[int] | None = None,
        ends: Sequence[SSAValue] = (),
    ):
        numbers = {"sizes": sizes, "steps": steps}
        given: dict[str, Attribute] = {
            name: int_array(tuple(n)) for name, n in numbers.items() if n is not None
        }
        given["operandSegmentSizes"] = segments(1, len(offsets), len(ends))
        initialize(self, (source, *offsets, *ends), (t,), given)

    @property
    def box_sizes(self) -> tuple[int, ...]:
        """Sizes of a box along each dimension of the memref."""
        if self.sizes is not None:
            return array_ints(self.sizes)
        shape, rank = self.result.type.shape, len(memref_shape(self.source))
        if rank == 1:
            return (self.result.type.count,)
        return (1,) * (rank - 2) + shape

    @property
    def box_steps(self) -> tuple[int, ...]:
        """Steps of a box: elements of each dimension of the memref from one of the box to the
        next."""
        return (1,) * len(self.offsets) if self.steps is None else array_ints(self.steps)

    @property
    def box_dims(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Dimensions of the memref that the rows and the columns of a box are."""
        sizes = self.box_sizes
        kept = tuple(i for i, size in enumerate(sizes) if size > 1)
        count = 0
        while prod(sizes[i] for i in kept[:count]) < self.result.type.rows.data:
            count += 1
        return kept[:count], kept[count:]

    def verify_(self) -> None:
        source, result = self.source.type, self.result.type
        kind = TileType if isinstance(source, TileType) else BoxType
        if not isinstance(result, kind):
            raise VerifyException(f"a view of {source} is no {result}")
        element = source.element if isinstance(source, TileType) else memref_element(self.source)
        if result.element != element:
            raise VerifyException(f"a view keeps the element type {element}, not {result.element}")
        if isinstance(source, TileType):
            self._check_tile(source, cast(TileType, result))
        else:
            self._check_box(cast(BoxType, result))

    def _check_box(self, result: BoxType) -> None:
        shape = memref_shape(self.source)
        if len(self.offsets) != len(shape):
            raise VerifyException(f"a memref of rank {len(shape)} has as many offsets")
        sizes = self.box_sizes
        if len(sizes) != len(shape) or min(sizes, default=0) < 1:
            raise VerifyException(f"a memref of rank {len(shape)} has as many sizes, at least 1")
        rows, cols = result.shape
        if prod(sizes) != rows * cols or prod(sizes[i] for i in self.box_dims[0]) != rows:
            raise VerifyException(f"a box of sizes {[*sizes]} is not {rows} x {cols}")
        steps = self.box_steps
        if len(steps) != len(shape) or min(steps, default=1) < 1:
            raise VerifyException(f"a memref of rank {len(shape)} has as many steps, at least 1")
        if self.ends and len(self.ends) != len(shape):
            raise VerifyException(f"a memref of rank {len(shape)} has as many ends, or none")

    def check_meets(self) -> None:
        """Raises VerifyException if no element of a box can exist: that is no mistake of a load
        that pads, but of all else."""
        shape, sizes, steps = memref_shape(self.source), self.box_sizes, self.box_steps
        for offset, end in zip(self.offsets, self.ends, strict=False):
            at, to = constant_index(offset), constant_index(end)
            if at is not None and to is not None and at >= to:
                raise VerifyException(f"a box from {at} on that ends at {to} has no elements")
        for offset, size, count, step in zip(self.offsets, shape, sizes, steps, strict=True):
            at = constant_index(offset)
            if at is not None and size != DYNAMIC and not -(count - 1) * step <= at < size:
                raise VerifyException(f"offset {at} is outside of a dimension of {size}")

    def _check_tile(self, source: TileType, result: TileType) -> None:
        given = self.sizes is not None or self.steps is not None or self.ends
        if given or len(self.offsets) != 2:
            raise VerifyException("a sub-tile has two offsets, and its sizes are in its type")
        if result.space != source.space:
            raise VerifyException(f"a sub-tile stays in {source.space}: {result}")
        if result.cols != source.cols and result.cols.data * bitwidth(result.element) % 8:
            raise VerifyException(f"rows of a sub-tile are whole bytes: {result.text()}")
        at = [constant_index(o) for o in self.offsets]
        for offset, size, whole in zip(at, result.shape, source.shape, strict=True):
            if size > whole or (offset is not None and not 0 <= offset <= whole - size):
                where = "" if offset is None else f"{size} from {offset} on"
                raise VerifyException(f"the sub-tile passes its tile: {where or size} of {whole}")
        if result.shape != (1, 1) or not self.is_number:
            check_place(at[0], at[1], row_stride(self.source), result)

    @property
    def is_number(self) -> bool:
        """True if whatever takes a sub-tile reads one number."""
        users = (use.operation for use in self.result.uses)
        return all(isinstance(op, Instruction) and op.reads_number(self.result) for op in users)


def check_place(row: int | None, col: int | None, stride: int, t: TileType) -> None:
    """Raises VerifyException for a sub-tile at this row and column (None: not known) that does not
    begin where the memory can be addressed; `stride` is that of rows, in elements."""
    unit = FRACTAL if t.space is not Memory.UB else 1
    for at in (row, col):
        if at is not None and at % unit:
            raise VerifyException(f"a sub-tile in {t.space} begins at multiples of {unit}: {at}")
    bits = bitwidth(t.element)
    at = (row or 0) * stride * bits + (col or 0) * bits
    known = (row is not None or stride * bits % (8 * BLOCK) == 0) and col is not None
    if known and at % (8 * BLOCK):
        rule = f"a sub-tile begins at a multiple of {BLOCK} bytes"
        way = "; a tile.move of columns takes others" if t.space is Memory.UB else ""
        raise VerifyException(f"{rule}, not at byte {at / 8:g}{way}")


@irdl_op_definition
class FifoOp(GeOp):
    """A queue of `depth` tiles from one program of a kernel to the other.

    %f = tile.fifo depth 4 : !tile.fifo<128x128xf32>
    """

    name = "tile.fifo"
    depth = prop_def(IntegerAttr[I64])
    result = result_def(FifoType)
    assembly_format = "`depth` $depth attr-dict `:` type($result)"

    def __init__(self, depth: int, t: FifoType):
        super().__init__(result_types=[t], properties={"depth": number(depth)})

    @property
    def places(self) -> int:
        return self.depth.value.data

    def verify_(self) -> None:
        if self.places < 1:
            raise VerifyException(f"a fifo has at least one place, not {self.places}")


# ---- facts of values -------------------------------------------------------------------------


def buffer_of(value: SSAValue) -> SSAValue:
    """The buffer whose bytes a value stands for: the result of a `tile.alloc` or `tile.fifo`, or a
    memref."""
    while True:
        owner = value.owner
        if isinstance(owner, SlotOp):
            value = owner.ring
        elif isinstance(owner, ViewOp):
            value = owner.source
        else:
            return value


def slot_of(value: SSAValue) -> SlotOp | None:
    """The slot of a ring that a tile is, or is a part of."""
    while isinstance(owner := value.owner, ViewOp):
        value = owner.source
    return owner if isinstance(owner, SlotOp) else None


def row_stride(value: SSAValue) -> int:
    """Elements from one row of a tile to the next."""
    while isinstance(owner := value.owner, ViewOp):
        value = owner.source
    return tile_type(value).cols.data


def box_of(value: SSAValue) -> ViewOp:
    """The view that a box is."""
    view = value.owner
    assert isinstance(view, ViewOp)
    return view


def within(box: ViewOp, places: Sequence[int]) -> list[tuple[int, int]]:
    """Along each dimension of the memref: the numbers of those elements of a box that exist, from
    the first one to the one behind the last. `places`: its offsets, and then its ends."""
    found: list[tuple[int, int]] = []
    extents = memref_shape(box.source)
    offsets, ends = places[: len(extents)], places[len(extents) :] or extents
    dims = zip(offsets, ends, extents, box.box_sizes, box.box_steps, strict=True)
    for at, end, extent, size, step in dims:
        low = min(max(0, -(at // step)), size)
        found.append((low, max(low, min(size, -((at - min(end, extent)) // step)))))
    return found


def memref_shape(value: SSAValue) -> tuple[int, ...]:
    return cast("MemRefType[Attribute]", value.type).get_shape()


def memref_element(value: SSAValue) -> Attribute:
    return cast("MemRefType[Attribute]", value.type).element_type


def constant_index(value: SSAValue) -> int | None:
    """The value of an `arith.constant` of type index."""
    if type(value) is OpResult and type(op := value.op) is ConstantOp:
        attr = op.properties["value"]
        return attr.value.data if isinstance(attr, IntegerAttr) else None
    return None


@irdl_op_definition
class ReadOp(GeOp):
    """One integer of a memref, which the kernel does not store to. It is at least `from` (0) and
    less than `below`, and with `distinct` no other element is the same. With `ascending` none is
    less than the one before, the first is `from`, and the last `below` - 1: they part a dimension
    in groups. A run in which that is not so is refused. Proofs rely on it, and say so.

        %row = tile.read %ids[%i] below 32000 : memref<64xi64>
        %block = tile.read %table[%j] below 16 distinct : memref<16xi64>
        %first = tile.read %offsets[%e] below 257 ascending : memref<5xi32>
    """

    name = "tile.read"
    source = operand_def(BUFFERS)
    offsets = var_operand_def(IndexType)
    least = opt_prop_def(IntegerAttr[I64], prop_name="from")
    below = prop_def(IntegerAttr[I64])
    distinct = opt_prop_def(UnitAttr)
    ascending = opt_prop_def(UnitAttr)
    result = result_def(IndexType)
    traits = traits_def(NoMemoryEffect())  # nothing writes there, but a number may be refused
    assembly_format = (
        "$source `[` $offsets `]` (`from` $from^)? `below` $below (`distinct` $distinct^)? "
        "(`ascending` $ascending^)? attr-dict `:` type($source)"
    )

    def __init__(
        self,
        source: SSAValue,
        offsets: Sequence[SSAValue],
        below: int,
        least: int = 0,
        distinct: bool = False,
        ascending: bool = False,
    ):
        super().__init__(
            operands=[source, offsets],
            result_types=[IndexType()],
            properties={
                "below": number(below),
                "from": number(least) if least else None,
                "distinct": UnitAttr() if distinct else None,
                "ascending": UnitAttr() if ascending else None,
            },
        )

    @property
    def span(self) -> range:
        """The numbers that it may be."""
        return range(0 if self.least is None else self.least.value.data, self.below.value.data)

    def verify_(self) -> None:
        if is_float(memref_element(self.source)):
            raise VerifyException(f"the scalar unit reads integers, not {self.source.type}")
        shape = memref_shape(self.source)
        if len(self.offsets) != len(shape):
            raise VerifyException(f"a memref of rank {len(shape)} has as many offsets")
        for offset, size in zip(self.offsets, shape, strict=True):
            at = constant_index(offset)
            if at is not None and size != DYNAMIC and not 0 <= at < size:
                raise VerifyException(f"offset {at} is outside of a dimension of {size}")
        if not self.span:
            span = self.span
            raise VerifyException(f"no number is at least {span.start} and below {span.stop}")
        if self.ascending is not None and (len(shape) != 1 or self.distinct is not None):
            text = "numbers that ascend are those of one dimension, and not distinct"
            raise VerifyException(f"{text}: {self.source.type}")
        if self.ascending is not None and shape[0] < 2 and shape[0] != DYNAMIC:
            raise VerifyException("numbers that ascend are a first and a last one at least")
        known = DYNAMIC not in shape
        if self.distinct is not None and known and prod(shape) > len(self.span):
            text = f"at least {self.span.start} and below {self.span.stop}"
            raise VerifyException(f"{prod(shape)} elements are not all different, {text}")


def number_at(op: ReadOp, place: int, of: int) -> int:
    """The number that is `place` / `of` of the way from the first to the last."""
    first, last = op.span[0], op.span[-1]
    return first + (last - first) * place // of


def reads_of(memref: SSAValue) -> list[ReadOp]:
    return [u.operation for u in memref.uses if isinstance(u.operation, ReadOp)]
