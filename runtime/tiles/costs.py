"""Cycles of one instruction, from its shapes and the facts of the target alone.

    load        mte2_start + bytes / rate; the rate is the core's into L1 or UB, and not more than
                its share of HBM (`Share`). Rows that go to L1 are brought into the cube's order on
                the way, at full rate only where they lie at certain strides (`share_of`).
                Elements that do not lie side by side take 32 bytes each, the unit of a transfer
    fill        of L1: as a load of its bytes at full rate (an assumption); of UB: a vector copy
    move        L1 to L0A, L0B: mte1_start + bytes / rate; L0C to L1: bytes / rate; in UB: a copy,
                or where columns are taken a gather of them
    unfold      mte1_start + bytes of the target / rate: less than a move's where windows have
                several rows, strides or dilations (`window_rate`)
    mmad        mmad_start + ceil(m/16) ceil(n/16) ceil(k/k0) k0 256 / macs a cycle, where k0 is as
                many elements as 32 bytes are: the cube multiplies blocks
    store       bytes / rate, those of what arrives
    push, pop   as a store and a load; on merged cores both ends are at one rate. Those of a cube
                core with several vector cores beside it are an instruction for each of them
    map         for each op of its body as many vector instructions as `INSTRUCTIONS` says
    vector      vector_start + repeats of 256 bytes x vector_cycles, + 16 where the last repeat is
                not full; a tile with gaps between its rows, row by row
    reduce      of rows: their repeats are combined as vectors first (an assumption: that is how
                libraries do it), then row_sum or row_max of one repeat a row
    flags       nothing of the pipe's time: `flag_cycles` pass between set and wait

Rates, starts and vector cycles stand in the target's file, each with its source. Products, the
order of rows and the 16 cycles: cann's asc-devkit, catlass and pto-isa, in that order.
Not modelled: bank conflicts, the limit of 255 repeats an instruction, that the first instruction
of several may start while another one runs.
"""

from dataclasses import dataclass
from math import ceil, log2

from xdsl.ir import SSAValue

from ge.dialects.support.element_types import bitwidth, storage_bytes
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import constant_value, element_type, numel, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.buffers import ViewOp, box_of, memref_element, memref_shape, row_stride
from ge.dialects.tile.compute import FillOp, FlagOp, IndexOp, MapOp, MmadOp, ReduceOp
from ge.dialects.tile.instruction import Instruction
from ge.dialects.tile.transfers import LoadOp, MoveOp, PopOp, PushOp, StoreOp
from ge.dialects.tile.types import BLOCK, Memory, fifo_type, tile_type
from ge.dialects.tile.unfold import UnfoldOp
from ge.runtime.costs.cube import peak_macs
from ge.runtime.costs.instructions import ELEMENTWISE, REPEAT_BYTES
from ge.runtime.costs.split_cores import share_of, window_rate

PARTIAL_CYCLES = 16  # of a repeat that is not full: pto-isa

FAR_STRIDE, FAR_GBS = 65536, 1.0  # elements; gigabytes a second, where rows lie farther apart

INSTRUCTIONS = ELEMENTWISE | {
    **dict.fromkeys(("and", "or", "not", "xor"), ("compare",)),
    "leaky_relu": ("scalar", "max"),
}
"""What graph ops are for the vector unit: assumptions, where an op is several instructions. Others
count as so many `add` as they state element-operations."""

SCALAR_FORMS = {"add", "sub", "mul", "max", "min"}  # that are "scalar" beside one number


@dataclass(frozen=True, slots=True)
class Share:
    """Bytes a cycle that a core gets of HBM for each memref, if all cores of the kernel load."""

    rates: dict[SSAValue, float]

    def of(self, memref: SSAValue) -> float:
        return self.rates.get(memref, float("inf"))


def cycles_of(op: Instruction, sizes: tuple[int, ...], share: Share, target: Target) -> float:
    """Of an instruction whose box has `sizes` within the memref, or which passes as many rows and
    columns to a fifo. Raises GeError where the target lacks what it takes."""
    match op:
        case FlagOp():
            return 0.0
        case LoadOp():
            return load_cycles(op, sizes, share, target)
        case StoreOp():
            memory = tile_type(op.source).space
            return box_bytes(box_of(op.target), sizes) / out_rate(memory, target)
        case MoveOp():
            return move_cycles(op, target)
        case UnfoldOp():
            return unfold_cycles(op, target)
        case PushOp():
            rate = push_rate(tile_type(op.source).space, target)
            return storage_bytes(numel(sizes), fifo_type(op.target).element) / rate
        case PopOp():
            rate = pop_rate(tile_type(op.target).space, target)
            size = storage_bytes(numel(sizes), fifo_type(op.source).element)
            return target.mte2_start_cycles + size / rate
        case MmadOp():
            return mmad_cycles(op, target)
        case MapOp():
            return sum(map_op_cycles(member, op, target) for member in op.members)
        case ReduceOp():
            return reduce_cycles(op, target)
        case FillOp() if tile_type(op.target).space is Memory.L1:
            return target.mte2_start_cycles + tile_type(op.target).bytes / target.l2_read_rate
        case IndexOp() | FillOp():
            return on_tile("copy", op.target, target)
        case _:
            raise AssertionError(op.name)


# ---- data ------------------------------------------------------------------------------------


def load_cycles(op: LoadOp, sizes: tuple[int, ...], share: Share, target: Target) -> float:
    view, t = box_of(op.source), tile_type(op.target)
    rate = min(load_rate(t.space, target), share.of(view.source))
    size = box_bytes(view, sizes)
    if t.space is Memory.L1 and target.split_cores and t.rows.data > 1:
        stride = box_row_stride(view)
        if stride >= FAR_STRIDE:
            rate = min(rate, FAR_GBS / target.clock_ghz)
        else:
            rate *= share_of(stride, t.element)
    return target.mte2_start_cycles + size / rate


def load_rate(memory: Memory, target: Target) -> float:
    """Of one core from L2, in bytes a cycle."""
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
        if op.columns is not None:
            return on_tile("gather", op.target, target)
        name = "transpose" if op.is_transposed else "copy"
        return max(on_tile(name, tile, target) for tile in (op.source, op.target))
    if memory is Memory.L1:
        return tile_type(op.target).bytes / target.stated("l0c_to_l1_rate")
    rate = target.l1_to_l0a_rate if memory is Memory.L0A else target.l1_to_l0b_rate
    return target.mte1_start_cycles + source.bytes / rate


def unfold_cycles(op: UnfoldOp, target: Target) -> float:
    w, t = op.windows, tile_type(op.target)
    rate = window_rate(w.kernel, w.strides, w.dilations, target)
    if t.space is Memory.L0B:
        rate = min(rate, target.l1_to_l0b_rate)
    return target.mte1_start_cycles + t.bytes / rate


def box_row_stride(view: ViewOp) -> int:
    """Elements from one row of a box to the next."""
    rows, cols = view.box_dims
    return _stride(view, rows[-1]) if rows and cols else 1


def _stride(view: ViewOp, dim: int) -> int:
    """Elements from one of a box to the next, along a dimension."""
    return numel(memref_shape(view.source)[dim + 1 :]) * view.box_steps[dim]


def box_bytes(view: ViewOp, sizes: tuple[int, ...]) -> int:
    """What crosses for the elements of a box that exist. Those that do not lie side by side come in
    blocks of 32 bytes each."""
    side_by_side = 1
    for dim in reversed(range(len(sizes))):
        if sizes[dim] > 1:
            if _stride(view, dim) != side_by_side:
                break
            side_by_side *= sizes[dim]
    element = memref_element(view.source)
    return numel(sizes) // side_by_side * max(storage_bytes(side_by_side, element), BLOCK)


# ---- the cube --------------------------------------------------------------------------------


def mmad_cycles(op: MmadOp, target: Target) -> float:
    lhs, cols = tile_type(op.lhs), tile_type(op.rhs).cols.data
    k0 = 32 * 8 // bitwidth(lhs.element)
    blocks = ceil(lhs.rows.data / 16) * ceil(cols / 16) * ceil(lhs.cols.data / k0)
    return target.mmad_start_cycles + blocks * k0 * 256 / peak_macs(lhs.element, target)


# ---- the vector unit -------------------------------------------------------------------------


def vector_cycles(name: str, rows: int, row_bytes: int, gaps: bool, target: Target) -> float:
    """Of one instruction on as many rows; `gaps`: they do not lie one behind the other."""
    pieces, size = (rows, row_bytes) if gaps else (1, rows * row_bytes)
    each = ceil(size / REPEAT_BYTES) * target.vector_cycles_of(name)
    if size % REPEAT_BYTES:
        each += PARTIAL_CYCLES
    return target.vector_start_cycles + pieces * each


def on_tile(name: str, tile: SSAValue, target: Target) -> float:
    t = tile_type(tile)
    return vector_cycles(name, t.rows.data, t.row_bytes, has_gaps(tile), target)


def has_gaps(tile: SSAValue) -> bool:
    t = tile_type(tile)
    return t.rows.data > 1 and row_stride(tile) != t.cols.data


def reduce_cycles(op: ReduceOp, target: Target) -> float:
    """Of rows: their repeats are combined first, half of them with the other half as often as that
    goes, and what is left of each row is reduced by an instruction for that. Of columns: rows are
    combined with each other."""
    combine = {"sum": "add"}.get(op.kind.data, op.kind.data)
    if not op.along_rows:
        return on_tile(combine, op.source, target)
    t = tile_type(op.source)
    repeats = ceil(t.row_bytes / REPEAT_BYTES)
    name = "row_sum" if op.kind.data == "sum" else "row_max"
    cycles = target.vector_start_cycles + t.rows.data * target.vector_cycles_of(name)
    if repeats > 1:
        cycles += t.rows.data * (repeats - 1) * target.vector_cycles_of(combine)
        cycles += ceil(log2(repeats)) * target.vector_start_cycles
    return cycles + (PARTIAL_CYCLES if t.row_bytes % REPEAT_BYTES else 0)


def map_op_cycles(op: TensorOp, around: MapOp, target: Target) -> float:
    """Of one op of a map's body; a map on tiles with gaps works row by row."""
    result = op.results[0]
    rows, cols = (1, 1, *shape_of(result))[-2:]
    width = max(bitwidth(element_type(v)) for v in (*op.operands, result))
    gaps = rows > 1 and any(map(has_gaps, around.operands))
    names = INSTRUCTIONS.get(op.name.removeprefix("graph.")) or ("add",) * op.VECTOR_COST
    if names[:1] and names[0] in SCALAR_FORMS and any(map(is_one_number, op.operands)):
        names = ("scalar",)
    return sum(vector_cycles(n, rows, cols * width // 8, gaps, target) for n in names)


def is_one_number(value: SSAValue) -> bool:
    """Whether an operand is a constant whose elements are equal."""
    dense = constant_value(value)
    return dense is not None and (numel(shape_of(value)) == 1 or dense.is_splat())
