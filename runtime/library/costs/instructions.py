"""What the vector unit executes for an op, where the target states cycles of its instructions
(`vector_cycles`).

An instruction works on repeats of 256 bytes, and starts once a tile. Floats are computed in 32 bits
where they are bf16, which has no arithmetic, or where an op divides or takes exponentials or roots;
casts stand where a kernel loads or stores fewer bits. Integers of 8 bits are computed in 16.

Ops on rows first combine the repeats of a row with an instruction for elements (add, max), then
the 64 lanes that are left (row_sum). An instruction runs along a row, or down the rows of a tile if
these are more than the repeats of a row: it starts as often as the shorter of both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isqrt

from xdsl.dialects.builtin import bf16
from xdsl.ir import SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.graph.shape import TransposeOp
from ge.dialects.support.access import MOVING, Access
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.interfaces import rows_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, array_ints, element_type, numel, shape_of
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.core_tiles import shared_leading

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

# For each element of the rows, and for each row.
ROWS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "softmax": (("max", "sub", "exp", "add", "div"), ("row_max", "row_sum")),
    "log_softmax": (("max", "sub", "exp", "add", "sub"), ("row_max", "row_sum", "ln")),
    "layer_norm": (("add", "sub", "mul", "add", "mul", "mul", "add"), ("row_sum", "row_sum")),
    "rms_norm": (("mul", "add", "mul", "mul"), ("row_sum",)),
    "group_norm": (("add", "sub", "mul", "add", "mul", "scalar", "scalar"), ("row_sum", "row_sum")),
    "reduce": (("add",), ("row_sum",)),
}

SLOW = frozenset({"exp", "ln", "div", "sqrt", "rsqrt"})  # in 32 bits


@dataclass(frozen=True, slots=True)
class Program:
    """The instructions of a vector kernel, and the pieces of memory that it moves."""

    starts: int  # instructions that start once a tile
    row_starts: int  # that start for each row of a tile, or for each repeat of its rows
    row: int  # elements of a row on which these work; 1: none
    loads: int  # instructions that move a tile between memory and core
    piece: int  # bytes in a row in memory; 0: all of a tile
    across: int  # rows of so many elements do not lie in a row: a tile has so much less of a piece
    inner: int  # elements that do
    repeat: int  # elements of a repeat

    def tile_starts(self, tile: int) -> int:
        """Instructions that start in a tile."""
        if self.row == 1:
            return self.starts
        rows, repeats = max(tile // self.row, 1), ceil(self.row / self.repeat)
        return self.starts + self.row_starts * min(rows, repeats)

    def row_by_row(self, tile: int) -> bool:
        """Whether what is known of a row passes the unit that issues instructions, so that the
        loads of the next tile are issued behind the work on this one."""
        return self.row > self.repeat and tile // self.row <= ceil(self.row / self.repeat)

    @property
    def rows_ahead(self) -> int:
        """The fewest rows of a tile that are not worked on row by row."""
        return ceil(self.row / self.repeat) + 1

    def pieces(self, size: float, tile: int, width: float) -> float:
        """In how many pieces `size` bytes of tiles of so many elements are moved."""
        piece = float(self.piece)
        if self.across > 1:
            cuts = ceil(self.inner / max(tile // self.across, 1))
            along = self.inner / cuts * width
            piece = min(piece, along) if piece else along
        return size / piece if piece else 0.0


def cycles(body: Body, op: TensorOp, target: Target) -> list[tuple[float, int]]:
    """Cycles of one vector core for an op, and the elements that it computes; then the same for
    casts, of fewer elements where each tile needs all that is cast."""
    size = max((numel(shape_of(v)) for v in op.results), default=1)
    if op.ACCESS is Access.ROWS:
        size = max(size, numel(shape_of(op.operands[0])))
    each, per_row = instructions(body, op)
    repeats = size * bits_of(op) / (8 * REPEAT_BYTES)
    total = repeats * sum(target.vector_cycles_of(i) for i in each)
    rows = rows_of(op)
    if rows is not None and rows.contiguous:
        total += rows.count * sum(target.vector_cycles_of(i) for i in per_row)
    each = target.vector_cycles_of("cast") * bits_of(op) / (8 * REPEAT_BYTES)
    counted = [(total, max(size, 1))]
    for value in _converted(body, op):
        number = numel(shape_of(value))
        repeated = value in op.operands and shared_leading(shape_of(value), longest_of(op)) <= 1
        counted.append((number * each, number if repeated else max(size, 1)))
    return counted


def longest_of(op: TensorOp) -> Shape:
    """The shape of the longest operand or result of an op."""
    return max((shape_of(v) for v in (*op.operands, *op.results)), key=numel)


def instructions(body: Body, op: TensorOp) -> tuple[Sequence[str], Sequence[str]]:
    """Of an element, and of a row."""
    name = op.name.removeprefix("graph.")
    if name == "transpose":
        return (ELEMENTWISE[name] if _moves_last(op) else ()), ()
    if op.ACCESS in MOVING:
        return (), ()
    if name in ROWS:
        return ROWS[name]
    if name in ELEMENTWISE:
        each = ELEMENTWISE[name]
        one = any(numel(shape_of(v)) == 1 for v in op.operands)
        return (("scalar",) if one and len(op.operands) == 2 and len(each) == 1 else each), ()
    work, size = body.work_of(op), max(sum(numel(shape_of(v)) for v in op.results), 1)
    return ("add",) * ceil((work.vector + work.macs) / size), ()


def program_of(body: Body, row: int, target: Target) -> Program:
    """`row`: elements of the rows that lie next to each other, 1 without; those of no elements take
    the start of their instructions."""
    starts = row_starts = bits = 0
    piece, across, inner = 0, 1, 0
    for op in body.ops:
        each, per_row = instructions(body, op)
        many = len(each) + len(_converted(body, op))
        rows = rows_of(op)
        if rows is not None and row > 1:
            row_starts, starts = row_starts + many, starts + len(per_row)
        elif row > 1:
            row_starts += many
        else:
            starts += many
        if rows is not None and not rows.contiguous:
            across = max(across, rows.length)
            inner = min(inner or columns(op), columns(op))
            starts += len(ROWS.get(op.name[6:], ((), ("",)))[1]) * rows.length
        bits = max(bits, bits_of(op))
        for found in _pieces(op, target):
            piece = min(piece or found, found)
    moved = len(body.inputs) + len(body.outputs)
    repeat = 8 * REPEAT_BYTES // max(bits, 16)
    return Program(starts, row_starts, max(row, 1), moved, piece, across, inner, repeat)


def columns(op: TensorOp) -> int:
    """Elements that lie in a row in memory, one of each of as many rows that lie apart."""
    shape, rows = shape_of(op.operands[0]), rows_of(op)
    assert rows is not None
    return max(numel(shape) // max(rows.parts * rows.length, 1), 1)


def _pieces(op: TensorOp, target: Target) -> list[int]:
    """Bytes that lie in a row in memory, of what an op moves, where that is no whole tile."""
    if not op.results or not op.operands:
        return []
    result = op.results[0]
    small, large = shape_of(op.operands[0]), shape_of(result)
    width = max(bitwidth(element_type(result)) // 8, 1)
    if isinstance(op, TransposeOp):
        runs = [run * width for run in _runs(op)]
        if _moves_last(op):  # blocks of both sides: whole repeats, as many as fit
            side = isqrt(target.ub_bytes // (4 * width)) * width
            side = max(side // REPEAT_BYTES, 1) * REPEAT_BYTES
            runs = [ceil(run / ceil(run / side)) for run in runs]
        return [run for run in runs if run < numel(large) * width]
    if op.ACCESS in (Access.MOVEMENT, Access.LOOKUP) and large and numel(small) > 1:
        run = _common_run(small, large)
        return [run * width] if run < numel(large) else []
    if op.ACCESS is Access.POINTWISE and large:
        columns = [v for v in op.operands if _is_column(shape_of(v), large)]
        if columns and large[-1] * width % target.core_alignment:
            return [large[-1] * width]  # rows are padded on the core, and loaded one by one
    return []


def _is_column(small: Shape, large: Shape) -> bool:
    return numel(small) > 1 and small[-1] == 1 and large[-1] > 1


def _common_run(small: Shape, large: Shape) -> int:
    """Elements in a row that are so in both shapes."""
    run = 1
    for a, b in zip(reversed(small), reversed(large), strict=False):
        run *= min(a, b)
        if a != b:
            break
    return max(run, 1)


def _moves_last(op: TensorOp) -> bool:
    return isinstance(op, TransposeOp) and bool(order := _order(op)) and order[-1] != len(order) - 1


def _order(op: TransposeOp) -> list[int]:
    """The permutation, without dimensions of one."""
    shape = shape_of(op.operands[0])
    order = [i for i in array_ints(op.permutation) if shape[i] != 1]
    places = {d: i for i, d in enumerate(sorted(order))}
    return [places[d] for d in order]


def _runs(op: TransposeOp) -> tuple[int, int]:
    """Elements that lie in a row in operand and result: the dimensions that stay next to each
    other, of those that are last in each."""
    order, shape = _order(op), [d for d in shape_of(op.operands[0]) if d != 1]

    def run(place: int) -> int:
        size = shape[order[place]]
        while place and order[place - 1] == order[place] - 1:
            place -= 1
            size *= shape[order[place]]
        return size

    return (run(order.index(len(order) - 1)), run(len(order) - 1)) if order else (1, 1)


def bits_of(op: TensorOp) -> int:
    """Of the elements that instructions work on."""
    ends = *op.operands[:2], *op.results
    values = [v for v in ends if numel(shape_of(v)) > 1] or ends
    widest = max((bitwidth(element_type(v)) for v in values), default=16)
    slow = op.ACCESS is Access.ROWS or SLOW & set(ELEMENTWISE.get(op.name[6:], ()))
    if op.ACCESS not in MOVING and (slow or any(element_type(v) == bf16 for v in values)):
        widest = max(widest, 32)
    return max(widest, 16)


def _converted(body: Body, op: TensorOp) -> list[SSAValue]:
    """What an op loads or stores in fewer bits than it computes in."""
    if op.ACCESS in MOVING or op.name == "graph.cast":
        return []
    bits, inputs, outputs = bits_of(op), set(body.inputs), set(body.outputs)
    ends = [v for v in op.operands if v in inputs and numel(shape_of(v)) > 1]
    ends += [v for v in op.results if v in outputs]
    return [v for v in ends if 1 < bitwidth(element_type(v)) < bits]
