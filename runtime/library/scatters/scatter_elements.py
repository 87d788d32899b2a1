"""Kernels that put elements at indices along an axis, into a copy of a tensor.

The cores share boxes of the result, and each selects: an element of a box is that of an update
where the update's index is the element's own number. Updates come in their order, one line of them
at a time, so that the last of several stays, and sums are those of the kernel's body:

    for b in share(boxes)                         rows along the axis, columns behind it
      load input[p, r.., c..] to t
      for j in range(updates)
        t = select(numbers of rows == indices[p, j, c..], updates[p, j, c..], t)
      store t

Along the last axis, columns have the numbers, and an update is a column. All updates pass over all
boxes; boxes have many rows, which an update passes at once. Where that takes longer, elements are
put one by one (`one_by_one.py`). An index that is none of the axis changes nothing here, where the
kernel's body refuses it.
"""

from collections.abc import Callable
from math import ceil, prod

from xdsl.dialects.builtin import bf16

from ge.dialects.graph.elementwise import MaximumOp, MinimumOp, MulOp
from ge.dialects.graph.indexing import ScatterElementsOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import Shape, align_up, element_type, normalize_axis, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.costs.paces import Core, cycles_of_blocks
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Scalar
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import Argument
from ge.runtime.library.launch import Arguments, Launch, NotLowered, Written
from ge.runtime.library.rows.vector import LEAST, place, shared
from ge.runtime.library.scatters.lines import counted
from ge.runtime.library.scatters.one_by_one import ScatterCut, Scattered, one_by_one

MOST = 4096  # elements of a box
COUNTED = "cast compare scalar select cast"  # on a line of indices

COMBINED: dict[str, Callable[[v.Expression, v.Expression], v.Expression]] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: v.binary(MulOp, old, new),
    "max": lambda old, new: v.binary(MaximumOp, old, new),
    "min": lambda old, new: v.binary(MinimumOp, old, new),
}


def sizes_of(w: Scattered, cores: int) -> Shape:
    """Of boxes of the result."""
    shape, element = w.shapes()[w.op.result], element_type(w.op.input)
    unit = BLOCK * 8 // min(bitwidth(element), 32)
    each = min(max(ceil(prod(shape) / cores / 2), LEAST), MOST)
    rows = 1 if w.is_last else min(max(each // (16 * unit), 1), shape[-2])  # pieces of 512 bytes
    cols = min(align_up(shape[-1], unit), align_up(ceil(each / rows), unit))
    rows = min(max(each // cols, 1), shape[-2])
    return (rows, cols) if w.is_last else (1, rows, cols)


def lower_scatter_elements(launch: Launch) -> Written:
    """Elements at indices along an axis, in a copy of the rest."""
    (op,) = (op for op in launch.body.ops if isinstance(op, ScatterElementsOp))
    if len(launch.body.ops) > 1:
        raise NotLowered(f"there are ops beside {op.name}")
    w, target = Scattered.of(op), launch.target
    check(op)
    shape, sizes = w.shapes()[op.result], sizes_of(w, target.vector_cores)
    count = prod(ceil(d / n) for d, n in zip(shape, sizes, strict=True))
    cores, cut = min(count, target.vector_cores), ScatterCut.of(w, target)
    if cut.cycles(w, target) < ceil(count / cores) * passing(w, sizes, target):
        return one_by_one(w, cut, target)

    def write(c: Tracer, given: Arguments) -> None:
        boxes = Boxes(c, w, given, sizes)
        for i in shared(c, count, cores):
            boxes.write(i, place(i, shape, sizes))

    return Written(write, cores, w.shapes())


def check(op: ScatterElementsOp) -> None:
    """Raises NotLowered for what has no program here."""
    axis = normalize_axis(op.axis.value.data, len(shape_of(op.input)))
    dims = enumerate(zip(shape_of(op.input), shape_of(op.indices), strict=True))
    if any(d != n for i, (d, n) in dims if i != axis):
        raise NotLowered("its indices are of a part of the input")
    if element_type(op.input) == bf16 and op.reduction.data != "none":
        raise NotLowered("what bf16 is combined to is rounded once, at the end")


def passing(w: Scattered, sizes: Shape, target: Target) -> float:
    """Cycles of all updates that pass over a box, whose lines come and are counted first."""
    core, (rows, cols) = Core.of(target), sizes[-2:]
    kind = {"none": "", "add": "add"}.get(w.op.reduction.data, "max")
    narrow = "cast cast" if bitwidth(element_type(w.op.input)) < 32 else ""
    line = (rows, 1) if w.is_last else (1, cols)
    vector = core.vector(f"compare select {kind}", rows, cols * 4, rows > 1)
    vector += core.vector(narrow, rows, cols * 4) + core.vector(COUNTED, line[0], line[1] * 4)
    load = sum(core.ub(line[0], line[1] * size) for size in (w.bytes, w.index_bytes))
    return cycles_of_blocks(w.count, (load, 1), (vector, 1))


class Boxes:
    """The program, while it is written."""

    def __init__(self, c: Tracer, w: Scattered, given: Arguments, sizes: Shape) -> None:
        self.c, self.w, self.given = c, w, given
        self.rows, self.cols = sizes[-2:]
        line = (self.rows, 1) if w.is_last else (1, self.cols)
        element = element_type(w.op.input)
        self.tiles = c.ub(self.rows, self.cols, element, copies=2)
        self.indices = c.ub(*line, element_type(w.op.indices), copies=2)
        self.updates = c.ub(*line, element, copies=2)

    def write(self, turn: Scalar, at: tuple[Scalar, ...]) -> None:
        c, op = self.c, self.w.op
        *lead, row, col = at
        tile = c.load(self.tiles[turn], self.given[op.input][*lead, row:, col:], pad=0)
        own = v.columns(self.cols, col) if self.w.is_last else v.rows(self.rows, row)
        numbers = c.tile_of(own)
        for j in c.range(self.w.count):
            index = self.line(self.indices[j], self.given[op.indices], at, j, self.w.size)
            update = self.line(self.updates[j], self.given[op.updates], at, j, 0)
            where = counted(index, self.w.size)
            new = COMBINED[op.reduction.data](tile, update)
            c.assign(tile, v.where(v.compare("eq", numbers, where), new, tile))
        c.store(self.given[op.result][*lead, row:, col:], tile)

    def line(
        self, tile: v.Tile, of: Argument, at: tuple[Scalar, ...], number: Scalar, pad: int
    ) -> v.Tile:
        """What update `number` of a box's lines has."""
        *lead, row, col = at
        box = of[row:, number] if self.w.is_last else of[*lead, number, col:]
        return self.c.load(tile, box, pad=pad)
