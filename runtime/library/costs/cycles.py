"""Cycles of one instruction, from its shapes and the facts of the target alone.

    load        mte2_start + bytes / rate, and not less than bytes / the core's share of L2 and HBM
                (`Share`). Rows that go to L1 are brought into the cube's order on the way, at full
                rate only where they lie at certain strides (`share_of`); what lies farther apart
                than the instruction's field of 16 bits can say comes row by row, a start for each
                (official; catlass loads them so). To UB, an instruction has
                as many pieces as lie evenly apart, in memory and in the tile; others start again.
                A piece takes as long as its bytes, of 32 at least, and not less than mte2_piece;
                so does, on its way to L1, an element that lies apart from others.
                HBM gives whole blocks of a size that the target states to pieces that do not begin
                at multiples of 128 bytes, so that these take one more (asc-devkit, data_copy: 512
                bytes at odd places come to L1 at half the rate)
    fill        of L1: as a load of its bytes at full rate (an assumption); of UB: a vector copy
    move        L1 to L0A, L0B: mte1_start + bytes / rate; L0C to L1: bytes / rate; in UB: a copy,
                or where columns are taken a gather of them
    unfold      mte1_start + bytes of the target / rate: less than a move's where windows have
                several rows, strides or dilations (`window_rate`)
    mmad        mmad_start + m n k / macs a cycle, where m and n are whole blocks (`cube_block`) and
                k is a multiple of as many elements as 32 bytes are: the cube multiplies blocks; of
                the peak, the share that is sustained
    store       bytes / rate, those of what arrives; from UB in pieces, as a load, with the same
                start (an assumption: PyPTO's table has one for both)
    push, pop   as a store and a load; on merged cores both ends are at one rate. Those of a cube
                core with several vector cores beside it are an instruction for each of them
    map         for each op of its body as many vector instructions as `INSTRUCTIONS` says, in the
                bits that it is computed in (`bits_of`), and casts to and from these. One number
                that is known before the loop is `scalar`. A conversion to integers rounds as well.
                Products of f16 that are added to a tile of f32 or f16 are one instruction
                (official: vmla), a faster one where all have a factor that is one number from
                before the loop (official: Axpy; that the scalar unit reads numbers as early as
                they are needed is an assumption)
    vector      vector_start + repeats of 256 bytes x vector_cycles, + 16 where the last repeat is
                not full. An instruction has 255 repeats at most. Where rows lie apart, or one row
                or column meets all others, it goes along a row or down the repeats of all rows, so
                that there are as many instructions as rows or as repeats of a row; a column is
                spread before, 32 bytes for each of its numbers (official: Brcb)
    gather      an instruction for each row where these have the same columns; and one number that
                is added to all, which makes addresses of columns
    scatter     scalars, one after the other
    reduce      of rows: their repeats are combined as vectors first, half of them with the other
                half (an assumption: that is how libraries do it), then row_sum or row_max of one
                repeat a row; or blocks of 32 bytes are reduced first, each to a number, where that
                is faster and numbers have 32 bits (pto-isa's TRowReduceOps; that maxima of blocks
                take as long as their sums is an assumption); of columns: rows are combined
    flags       nothing of the pipe's time: `flag_cycles` pass between set and wait

Rates, starts and vector cycles stand in the target's file, each with its source. Products, the
order of rows and the 16 cycles: cann's asc-devkit, catlass and pto-isa, in that order.
Not modelled: bank conflicts, that the first instruction of several may start while another one
runs.

What the vector unit executes for an op (`INSTRUCTIONS`) counts where the target states cycles of
its instructions (`vector_cycles`). An instruction works on repeats of 256 bytes, and starts once a
tile. Floats are computed in 32 bits where they are bf16, which has no arithmetic, or where an op of
several instructions divides or takes exponentials or roots; casts stand where a kernel loads or
stores fewer bits.
Integers of 8 bits are computed in 16."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, gcd, inf, prod

from xdsl.dialects.builtin import bf16, f16, f32
from xdsl.dialects.scf import ForOp
from xdsl.ir import Attribute, BlockArgument, SSAValue

from ge.dialects.graph.elementwise import AddOp, CastOp, CeilOp, FloorOp, MulOp, RoundOp
from ge.dialects.graph.quantization import LookupOp, QuantizeOp
from ge.dialects.support.boxes import MOVING, Access
from ge.dialects.support.element_types import bitwidth, is_integer, row_of, storage_bytes
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, align_up, constant_value, element_type, numel, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.buffers import (
    ViewOp,
    box_of,
    buffer_of,
    memref_element,
    memref_shape,
    row_stride,
)
from ge.dialects.tile.compute import (
    FillOp,
    FlagOp,
    GatherOp,
    IndexOp,
    MapOp,
    MmadOp,
    ReduceOp,
    ScatterOp,
)
from ge.dialects.tile.instruction import Instruction
from ge.dialects.tile.transfers import LoadOp, MoveOp, PopOp, PushOp, StoreOp
from ge.dialects.tile.types import BLOCK, Memory, fifo_type, tile_type
from ge.dialects.tile.unfold import UnfoldOp

REPEAT_BYTES = 256

# Instructions for each element, by op; `scalar` has one number as an operand. gelu is
# x / (1 + exp(-1.6 x (1 + 0.045 x^2))), what chips compute for all its variants. Floats are rounded
# to integers by a conversion (official: CANN's Cast, float to float). elu, erf, mish, selu and
# softplus are as CANN 8.1 computes them (opp/built-in, impl/dynamic): mish and softplus by one form
# above and one below 0, so that no exponential overflows; that celu is as elu is an assumption. Ops
# that are not here: `VECTOR_COST` instructions as slow as add.
ELEMENTWISE: dict[str, tuple[str, ...]] = {
    "abs": ("abs",),
    "add": ("add",),
    "cast": ("cast",),
    "ceil": ("cast",),
    "celu": (*("scalar",) * 3, "exp", "scalar", "mul", "scalar"),
    "clamp": ("scalar", "scalar"),
    "compare": ("compare",),
    "div": ("div",),
    "elu": (*("scalar",) * 3, "exp", "scalar", "mul", "scalar"),
    "erf": (*("scalar",) * 13, *("mul",) * 10, "div"),
    "exp": ("exp",),
    "floor": ("cast",),
    "gelu": ("mul", "scalar", "scalar", "mul", "exp", "scalar", "div"),
    "log": ("ln",),
    "maximum": ("max",),
    "minimum": ("min",),
    "mish": ("add", "mul", *("compare", "exp", "exp", "add", "div", "select") * 2)
    + ("scalar",) * 9,
    "mul": ("mul",),
    "neg": ("scalar",),
    "quantize": ("scalar", "scalar", "cast"),
    "reciprocal": ("div",),
    "relu": ("relu",),
    "round": ("cast",),
    "select": ("select",),
    "selu": ("scalar", "exp", "scalar", "scalar", "compare", "select"),
    "sigmoid": ("scalar", "exp", "scalar", "div"),
    "silu": ("scalar", "exp", "scalar", "div"),
    "softplus": (*("scalar",) * 6, *("exp", "ln", "add") * 2),
    "softsign": ("abs", "scalar", "div"),
    "sqrt": ("sqrt",),
    "sub": ("sub",),
    "tanh": ("scalar", "exp", "scalar", "scalar", "div"),
    "transpose": ("transpose",),
}

# An element of f16 takes as long as one of f32 (pto-isa: 4 and 8 cycles for 2 and 4 a repeat)
SLOW = frozenset({"exp", "ln", "div", "sqrt", "rsqrt"})


def bits_of(op: TensorOp) -> int:
    """Bits of the elements that instructions work on. What is several instructions with a slow one
    among them is computed in f32 (CANN's kernels do); a slow one alone is of f16 too."""
    ends = *op.operands[:2], *op.results
    values = [v for v in ends if numel(shape_of(v)) > 1] or ends
    widest = max((bitwidth(element_type(v)) for v in values), default=16)
    names = ELEMENTWISE.get(op.name[6:], ())
    slow = op.ACCESS is Access.ROWS or (len(names) > 1 and SLOW & set(names))
    if op.ACCESS not in MOVING and (slow or any(element_type(v) == bf16 for v in values)):
        widest = max(widest, 32)
    return max(widest, 16)


def bits_for(name: str, bits: int) -> int:
    """Bits of elements that an instruction is as fast with as with those of `bits`."""
    return max(bits, 32) if name in SLOW else bits


# Share of the full rate at which rows are loaded, whose stride is a multiple of so many bytes
# (catlass, which has elements of 16 bits and counts them; that bytes are what matters for others is
# an assumption, as the memory's blocks of 512 bytes are the cause).
STRIDES = ((512, 1.0), (256, 0.8), (128, 0.5), (32, 0.4), (1, 0.3))
MOST_STRIDE = 65535  # elements from one row of an operand of the cube to the next: official


@lru_cache(256)
def peak_macs(element: Attribute, target: Target) -> float:
    """Multiply-accumulates a cycle of a cube core. A type that the target does not list is scaled
    from f16 by the square of its width, which is the area of a multiplier."""
    row = row_of(element)
    if row is not None and row.rate_key in target.macs_per_cycle:
        return float(target.macs_per_cycle[row.rate_key])
    return target.macs_per_cycle["f16"] * (16 / max(bitwidth(element), 16)) ** 2


@lru_cache(4096)
def share_of(stride: int, element: Attribute) -> float:
    """Share of the full rate of loading rows that lie so many elements apart."""
    size = stride * bitwidth(element) // 8
    return next(share for unit, share in STRIDES if size % unit == 0)


@lru_cache(1024)
def window_rate(kernel: Shape, strides: Shape, dilations: Shape, target: Target) -> float:
    """Bytes a cycle of windows from L1 to L0A (official): less where they have several rows, or
    strides; an eighth where they are dilated."""
    rows = kernel[-2] if len(kernel) > 1 else 1
    if max(kernel[-2:]) == 1:
        return target.l1_to_l0a_rate
    if any(k > 1 and d > 1 for k, d in zip(kernel, dilations, strict=True)):
        return target.l1_to_l0a_rate / 8
    slower = 2 * max(strides[-2:]) + (rows if rows > 1 else 0)
    return 2 * target.l1_to_l0a_rate / slower


PARTIAL_CYCLES = 16  # of a repeat that is not full: pto-isa
MOST_REPEATS = 255  # of an instruction: official
MOST_PIECES = 4095  # of a transfer: official
REQUEST = 128  # bytes of the least request to HBM: official; others are of 256 and of 512
GROUPS = REPEAT_BYTES // BLOCK  # of a repeat, which an instruction reduces apart: official
COMBINING = {"sum": "add"}  # the instruction that combines what a reduction is of


INSTRUCTIONS = ELEMENTWISE | {
    **dict.fromkeys(("and", "or", "not", "xor"), ("compare",)),
    "leaky_relu": ("scalar", "max"),
}
"""What graph ops are for the vector unit: assumptions, where an op is several instructions. Others
count as so many `add` as they state element-operations."""

# Instructions that are "scalar" beside one number (pto-isa; a selection that has one, too)
SCALAR_FORMS = {"add", "sub", "mul", "max", "min", "select"}


@dataclass(frozen=True, slots=True)
class Share:
    """Bytes a cycle that a core gets, while all that load do: of HBM for each memref, of L2 in all
    and into L2."""

    hbm: Mapping[SSAValue, float] = field(default_factory=dict[SSAValue, float])
    l2_read: float = inf
    l2_write: float = inf


def cycles_of(op: Instruction, sizes: tuple[int, ...], share: Share, target: Target) -> float:
    """Cycles of an instruction whose box has `sizes` within the memref, or which passes as many
    rows and columns to a fifo. Raises GeError if the target lacks a fact that it takes."""
    match op:
        case FlagOp():
            return 0.0
        case LoadOp():
            return load_cycles(op, sizes, share, target)
        case StoreOp():
            memory = tile_type(op.source).space
            found, rate = pieces(box_of(op.target), sizes, op.source), out_rate(memory, target)
            rate = min(rate, share.l2_write)
            if memory is not Memory.UB:
                return found.count * found.size / rate
            return found.cycles(rate, target)
        case MoveOp():
            return move_cycles(op, target)
        case UnfoldOp():
            w, t = op.windows, tile_type(op.target)
            rate = window_rate(w.kernel, w.strides, w.dilations, target)
            return l0_cycles(t.space, t.bytes, target, rate)
        case PushOp():
            rate = push_rate(tile_type(op.source).space, target)
            return storage_bytes(numel(sizes), fifo_type(op.target).element) / rate
        case PopOp():
            rate = pop_rate(tile_type(op.target).space, target)
            size = storage_bytes(numel(sizes), fifo_type(op.source).element)
            return target.mte2_start_cycles + size / rate
        case MmadOp():
            lhs, cols = tile_type(op.lhs), tile_type(op.rhs).cols.data
            return mmad_cycles(lhs.rows.data, cols, lhs.cols.data, lhs.element, target)
        case MapOp():
            return map_cycles(op, target)
        case ReduceOp():
            return reduce_cycles(op, target)
        case FillOp() if tile_type(op.target).space is Memory.L1:
            return target.mte2_start_cycles + tile_type(op.target).bytes / target.l2_read_rate
        case GatherOp():
            return gather_cycles(op, target)
        case ScatterOp():
            return scatter_cycles(numel(tile_type(op.at).shape), target)
        case IndexOp() | FillOp():
            return on_tile("copy", op.target, target)
        case _:
            raise AssertionError(op.name)


# ---- data ------------------------------------------------------------------------------------


def load_cycles(op: LoadOp, sizes: tuple[int, ...], share: Share, target: Target) -> float:
    view, t = box_of(op.source), tile_type(op.target)
    rate, found = min(load_rate(t.space, target), share.l2_read), pieces(view, sizes, op.target)
    hbm = share.hbm.get(view.source, inf)
    size = bytes_of_blocks(view, found.size, target.gm_block_bytes)
    if t.space is Memory.UB:
        return max(found.cycles(rate, target), found.count * size / hbm)
    starts = 1
    if target.split_cores and t.rows.data > 1:
        stride = box_row_stride(view)
        if stride > MOST_STRIDE:
            starts = prod(sizes[i] for i in view.box_dims[0])
        else:
            rate *= share_of(stride, t.element)
    if any(view.box_steps[dim] > 1 for dim in view.box_dims[1]):
        alone = pieces_cycles(starts, found.count, found.size, rate, target)
    else:
        alone = starts * target.mte2_start_cycles + found.count * found.size / rate
    return max(alone, found.count * size / hbm)


def bytes_of_blocks(view: ViewOp, size: int, block: int) -> float:
    """Bytes of the requests that bring a piece of `size` bytes from HBM: where pieces of the box
    begin between requests of the least size, those of the blocks that it lies in, on average; its
    own, where it is shorter than a block (what such ones take is not known)."""
    if size < block:
        return size
    element, begins = memref_element(view.source), block
    for dim, (extent, count) in enumerate(
        zip(memref_shape(view.source), view.box_sizes, strict=True)
    ):
        step = storage_bytes(_stride(view, dim), element)
        if step >= size and extent > 1:
            begins = gcd(begins, step)
        elif step < size and count < extent:
            begins = gcd(begins, storage_bytes(count * _stride(view, dim), element))
    return size if begins % REQUEST == 0 else align_up(size, begins) + block - begins


def load_rate(memory: Memory, target: Target) -> float:
    """Rate of loads of one core from L2, in bytes a cycle."""
    return target.l2_read_rate if memory is Memory.L1 else target.stated("gm_to_ub_rate")


def out_rate(memory: Memory, target: Target) -> float:
    return target.stated("l0c_out_rate") if memory is Memory.L0C else target.ub_out_rate


def push_rate(memory: Memory, target: Target) -> float:
    return out_rate(memory, target) if target.split_cores else target.l0c_to_ub_rate


def pop_rate(memory: Memory, target: Target) -> float:
    return load_rate(memory, target) if target.split_cores else target.l0c_to_ub_rate


def move_cycles(op: MoveOp, target: Target) -> float:
    source, memory = tile_type(op.source), tile_type(op.target).space
    if memory is Memory.UB:
        if op.columns:
            return on_tile("gather", op.target, target)
        name = "transpose" if op.is_transposed else "copy"
        return max(on_tile(name, tile, target) for tile in (op.source, op.target))
    if memory is Memory.L1:
        return tile_type(op.target).bytes / target.stated("l0c_to_l1_rate")
    return l0_cycles(memory, source.bytes, target)


def l0_cycles(memory: Memory, size: float, target: Target, most: float = inf) -> float:
    """Cycles of a transfer of bytes from L1, at `most` so many a cycle."""
    rate = target.l1_to_l0a_rate if memory is Memory.L0A else target.l1_to_l0b_rate
    return target.mte1_start_cycles + size / min(rate, most)


def box_row_stride(view: ViewOp) -> int:
    """Elements from one row of a box to the next."""
    rows, cols = view.box_dims
    return _stride(view, rows[-1]) if rows and cols else 1


def _stride(view: ViewOp, dim: int) -> int:
    """Elements from one of a box to the next, along a dimension."""
    return numel(memref_shape(view.source)[dim + 1 :]) * view.box_steps[dim]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Data that a transfer moves: `count` pieces of `size` bytes, which come in blocks of 32, by as
    many instructions."""

    instructions: int
    count: int
    size: int

    def cycles(self, rate: float, target: Target) -> float:
        """Cycles of a transfer to UB, or from there."""
        return pieces_cycles(self.instructions, self.count, self.size, rate, target)


def pieces_cycles(starts: float, count: float, size: float, rate: float, target: Target) -> float:
    least = target.mte2_piece_cycles if count > 1 else 0.0
    return starts * target.mte2_start_cycles + count * max(size / rate, least)


def pieces(view: ViewOp, sizes: tuple[int, ...], tile: SSAValue) -> Pieces:
    """The elements of a box that exist, in pieces that lie side by side in memory and in the tile.
    One instruction moves those that are evenly apart in both."""
    side_by_side, cols = 1, view.box_dims[1]
    whole_rows = prod(sizes[i] for i in cols) == row_stride(tile)
    levels: list[int] = []
    step, was_column = 0, True
    for dim in reversed(range(len(sizes))):
        if sizes[dim] == 1:
            continue
        if not sizes[dim]:
            return Pieces(0, 0, 0)
        stride, is_column = _stride(view, dim), dim in cols or whole_rows
        if not levels and stride == side_by_side and is_column:
            side_by_side *= sizes[dim]
        elif levels and stride == step and is_column == was_column:
            levels[-1] *= sizes[dim]
        else:
            levels.append(sizes[dim])
        step, was_column = stride * sizes[dim], is_column
    size = storage_bytes(side_by_side, memref_element(view.source))
    longest = max(levels, default=1)
    instructions = prod(levels) // longest * ceil(longest / MOST_PIECES)
    return Pieces(instructions, prod(levels), max(size, BLOCK))


# ---- the cube --------------------------------------------------------------------------------


def mmad_cycles(m: int, n: int, k: int, element: Attribute, target: Target) -> float:
    """Cycles of a product of m x k by k x n."""
    k0 = 32 * 8 // bitwidth(element)
    block = target.cube_block
    products = align_up(m, block) * align_up(n, block) * align_up(k, k0)
    rate = peak_macs(element, target) * target.cube_efficiency
    return target.mmad_start_cycles + products / rate


# ---- the vector unit -------------------------------------------------------------------------


def vector_cycles(name: str, rows: int, row_bytes: int, apart: bool, target: Target) -> float:
    """Cycles of one op on as many rows; `apart`: an instruction does not go from one row to the
    next."""
    cycles, each = target.vector_cycles_of(name), ceil(row_bytes / REPEAT_BYTES)
    if not apart:
        rows, each, row_bytes = 1, ceil(rows * row_bytes / REPEAT_BYTES), rows * row_bytes
    count, repeats = sorted((rows, each))  # instructions, and repeats of each
    partial = (rows if rows == count else 1) if row_bytes % REPEAT_BYTES else 0
    starts = count * ceil(repeats / MOST_REPEATS) * target.vector_start_cycles
    return starts + count * repeats * cycles + partial * PARTIAL_CYCLES


def on_tile(name: str, tile: SSAValue, target: Target) -> float:
    t = tile_type(tile)
    return vector_cycles(name, t.rows.data, t.row_bytes, has_gaps(tile), target)


def has_gaps(tile: SSAValue) -> bool:
    t = tile_type(tile)
    return t.rows.data > 1 and row_stride(tile) != t.cols.data


def reduce_cycles(op: ReduceOp, target: Target) -> float:
    """Cycles of a reduction. In one of columns, rows are combined with each other, half of them
    with the other half, until one is left."""
    t, gaps, kind = tile_type(op.source), has_gaps(op.source), op.kind.data
    rows, row_bytes = t.rows.data, t.row_bytes
    if op.along_rows:
        return row_reduction(kind, rows, row_bytes, t.element == f32, gaps, target)
    repeats, cycles = ceil(row_bytes / REPEAT_BYTES), 0.0
    each = target.vector_cycles_of(COMBINING.get(kind, kind))
    for pieces in halves(rows):
        starts = min(pieces, repeats) if gaps else 1
        cycles += starts * target.vector_start_cycles
        cycles += ceil(pieces * row_bytes / REPEAT_BYTES) * each
    return cycles + (PARTIAL_CYCLES if row_bytes % REPEAT_BYTES else 0)


def row_reduction(
    kind: str, rows: int, row_bytes: int, in_groups: bool, gaps: bool, target: Target
) -> float:
    """Cycles to reduce each of some rows, by the faster of two ways. Either repeats of a row are
    combined, half of them with the other half as often as possible, and the rest is reduced by a
    single instruction; or, `in_groups`, each block of 8 numbers of 32 bits is reduced first, the
    blocks of results of a row are combined, and the last one is reduced in the same way."""
    start, repeats = target.vector_start_cycles, ceil(row_bytes / REPEAT_BYTES)
    each = target.vector_cycles_of(COMBINING.get(kind, kind))
    group = target.vector_cycles_of("group_add")
    whole = start + rows * target.vector_cycles_of("row_sum" if kind == "sum" else "row_max")
    starts = min(rows, repeats) if gaps else ceil(rows * repeats / MOST_REPEATS)
    blocks = starts * start + rows * repeats * group + start + ceil(rows / GROUPS) * group
    for pieces in halves(repeats):
        whole += min(rows, pieces) * start + rows * pieces * each
        blocks += start + ceil(rows * pieces / GROUPS) * each
    cycles = min(whole, blocks) if in_groups else whole
    return cycles + (PARTIAL_CYCLES if row_bytes % REPEAT_BYTES else 0)


def gather_cycles(op: GatherOp, target: Target) -> float:
    """Lanes of 32 bits, whatever the elements. Numbers of columns become those of bytes first."""
    t, at = tile_type(op.target), tile_type(op.at)
    rows, lanes = t.rows.data, t.cols.data * max(bitwidth(t.element) // 32, 1)
    if rows > 1 and (at.rows.data == 1 or any(map(has_gaps, op.operands))):
        cycles = rows * vector_cycles("gather", 1, lanes * 4, False, target)
    else:
        cycles = vector_cycles("gather", rows, lanes * 4, False, target)
    return cycles + on_tile("scalar", op.at, target)


def scatter_cycles(count: int, target: Target) -> float:
    """Cycles to scatter so many elements, one after the other."""
    return count * target.vector_cycles_of("scatter") / (REPEAT_BYTES // 4)


def halves(count: int) -> Iterator[int]:
    """Yield, until one is left, how many of them meet another one."""
    while count > 1:
        yield count // 2
        count -= count // 2


def map_cycles(op: MapOp, target: Target) -> float:
    """The ops of a map's body, each in the bits that it is computed in, with casts where an operand
    or a result has others."""
    cycles, gaps = 0.0, any(map(has_gaps, op.operands))
    ins = zip(op.body.block.args, op.ins, strict=True)
    scalars = {v for v, tile in ins if numel(shape_of(v)) == 1 and is_known_before(tile, op)}
    if (product := multiply_add(op)) is not None:
        bits = bitwidth(tile_type(op.outs[0]).element)
        numbers = {v for v in product.operands if v in scalars or is_cast_of(v, scalars)}
        name = "axpy" if numbers else "mul_add"
        return map_op_cycles(product, gaps, bits, numbers, target, (name,))
    held: dict[SSAValue, set[int]] = {}
    held.update((v, {bitwidth(element_type(v))}) for v in op.body.block.args)

    def cast(value: SSAValue, bits: int) -> float:
        found = held.get(value)
        if found is None or bits in found or 1 in (bits, *found):
            return 0.0
        found.add(bits)
        rows, cols = (1, 1, *shape_of(value))[-2:]
        return vector_cycles("cast", rows, cols * max(found) // 8, gaps and rows > 1, target)

    for member in op.members:
        bits, result = bits_of(member), member.results[0]
        if is_part_of_cast(member):
            held[result] = held[member.operands[0]]
            continue
        if is_conversion(member):
            cycles += cast(member.operands[0], 16)
            held[result] = {16}
            continue
        if not isinstance(member, CastOp):
            cycles += sum(cast(v, bits) for v in member.operands)
        cycles += map_op_cycles(member, gaps, bits, scalars, target)
        own = bitwidth(element_type(result))
        held[result] = {own if isinstance(member, CastOp) or own == 1 else bits}
    ends = zip(op.yielded, op.outs, strict=True)
    return cycles + sum(cast(v, bitwidth(tile_type(out).element)) for v, out in ends)


def multiply_add(op: MapOp) -> TensorOp | None:
    """The product of a map that adds products of f16 to a tile of f32 or f16, which is one
    instruction; None for others. As such products are exact in f32, it rounds once, as both ops
    do; in f16 both round (an assumption)."""
    if len(op.members) not in (2, 4) or not isinstance(add := op.yielded[0].owner, AddOp):
        return None
    total, product = add.operands[0], add.operands[1].owner
    if not isinstance(product, MulOp) or not isinstance(total, BlockArgument):
        return None
    sources, narrow = list(product.operands), [v.owner for v in product.operands]
    if element_type(total) == f32:
        sources = [o.input for o in narrow if isinstance(o, CastOp) and o.to == f32]
    exact = len(sources) == 2 and all(element_type(v) == f16 for v in sources)
    return product if exact and op.ins[total.index] is op.outs[0] else None


def is_cast_of(value: SSAValue, values: Collection[SSAValue]) -> bool:
    return isinstance(op := value.owner, CastOp) and op.input in values


def is_conversion(op: TensorOp) -> bool:
    """True if floats become integers of 16 bits at most, which are limited to the type's numbers:
    what conversions do (official). Those of f32 to 8 bits pass f16, rounded to odd numbers, so that
    the second rounding is the only one that counts."""
    if not isinstance(op, QuantizeOp) or op.zero_point is not None or not is_integer(op.to):
        return False
    scale = constant_value(op.scale)
    return is_one_number(op.scale) and scale is not None and float(scale.get_values()[0]) == 1


def is_part_of_cast(op: TensorOp) -> bool:
    """True if floats are rounded as they become integers, which one conversion does."""
    casts = [use.operation for use in op.results[0].uses]
    return isinstance(op, RoundOp | FloorOp | CeilOp) and all(
        isinstance(cast, CastOp) and is_integer(cast.to) for cast in casts
    )


def instructions_of(op: TensorOp) -> tuple[str, ...]:
    """The instructions of the vector unit for an op."""
    return INSTRUCTIONS.get(op.name.removeprefix("graph.")) or ("add",) * op.VECTOR_COST


def map_op_cycles(
    op: TensorOp,
    gaps: bool,
    bits: int,
    scalars: Collection[SSAValue],
    target: Target,
    names: tuple[str, ...] = (),
) -> float:
    """Cycles of one op of a map's body, which is these instructions, else its own."""
    rows, cols = (1, 1, *shape_of(op.results[0]))[-2:]
    shapes = [(1, 1, *shape_of(v))[-2:] for v in op.operands]
    apart = rows > 1 and (gaps or any(1 in s and s not in ((1, 1), (rows, cols)) for s in shapes))
    names = names or instructions_of(op)
    numbers = [v in scalars or is_one_number(v) for v in op.operands]
    if names[:1] and names[0] in SCALAR_FORMS and any(numbers):
        names = ("scalar",)
    sizes = [(n, cols * bits_for(n, bits) // 8) for n in names]
    cycles = sum(vector_cycles(n, rows, size, apart, target) for n, size in sizes)
    for (count, width), is_number in zip(shapes, numbers, strict=True):
        if (
            width < cols and not is_number and not isinstance(op, LookupOp)
        ):  # each number fills a block first
            cycles += vector_cycles("copy", 1, count * BLOCK, False, target)
    return cycles


def is_known_before(tile: SSAValue, op: MapOp) -> bool:
    """True if nothing writes the tile in the loop that a map stands in: its number can be read by
    the scalar unit before, and does not hold up instructions issued in the loop."""
    loop, buffer = op.parent_op(), buffer_of(tile)
    if not isinstance(loop, ForOp):
        return False
    inside = (o for o in loop.walk() if isinstance(o, Instruction))
    return all(buffer_of(v) is not buffer for o in inside for v in o.writes())


def is_one_number(value: SSAValue) -> bool:
    """True if an operand is a constant whose elements are equal."""
    dense = constant_value(value)
    return dense is not None and (numel(shape_of(value)) == 1 or dense.is_splat())
