"""Running sums and products on tiles: row after row, in the order of the kernel's body.

    %y = graph.cumulative "sum" %x axis 0
        y[0] = x[0]; for i: y[i] = y[i - 1] + x[i]

Where the axis is that of a tile's columns, rows become columns first, and columns rows at the end.
Of rows in parts, the last sum of each part is kept for the next one.
"""

from typing import Protocol

from xdsl.ir import SSAValue

from ge.dialects.graph.reduction import CumulativeOp
from ge.dialects.support.boxes import Box
from ge.dialects.support.element_types import bitwidth, is_float
from ge.dialects.support.types import align_up, element_type, shape_of
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Index, LoopIndex, number_of
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.launch import Launch, NotLowered
from ge.runtime.library.places import long_dims


class RunningSource(Protocol):
    """Where the tiles of values come from."""

    @property
    def c(self) -> Tracer: ...

    @property
    def launch(self) -> Launch: ...

    def tile(self, value: SSAValue, box: Box) -> v.Tile: ...

    def buffer(self, shape: v.Shape, like: SSAValue) -> v.Tile: ...

    def level_before(self, loop: LoopIndex, box: Box) -> int | None: ...


def accumulated(
    pull: RunningSource, op: CumulativeOp, value: SSAValue, box: Box, column: bool
) -> v.Tile:
    """The tile of a box, which has all of the axis or a part in a loop over all of them. Raises
    NotLowered where it has not."""
    (axis,), dims = op.row_axes() or (-1,), long_dims(box)
    if axis not in dims:
        raise NotLowered("a running sum is along a dimension that its tiles have not")
    source = pull.tile(op.input, box)
    along_rows = dims == [axis, *dims[1:]] and len(dims) == 2
    scan = Scan(pull, op, value, box, axis)
    if along_rows:
        return scan.rows(source)
    found = scan.columns(source)
    if not column:
        return found
    turned = pull.buffer(found.T.shape, value)
    pull.c.move(turned, found.T)
    return turned


class Scan:
    """The sums of one box, while they are written."""

    def __init__(
        self, pull: RunningSource, op: CumulativeOp, value: SSAValue, box: Box, axis: int
    ) -> None:
        self.pull, self.c, self.op, self.value = pull, pull.c, op, value
        self.extent, self.size = shape_of(value)[axis], box.sizes[axis]
        self.is_exclusive = bool(op.exclusive.value.data)
        self.is_reverse = bool(op.reverse.value.data)
        self.neutral = 0 if op.kind.data == "sum" else 1
        self.box, self.axis = box, axis

    def columns(self, source: v.Tile) -> v.Tile:
        """The sums along each row of a tile."""
        rows, cols = source.shape
        unit = BLOCK * 8 // min(bitwidth(element_type(self.value)), 8 * BLOCK)
        shape = align_up(rows, unit), align_up(cols, unit)
        wide = source
        if shape != source.shape:
            wide = self.pull.buffer(shape, self.value)
            self.c.fill(wide, 0)
            wide.part(0, 0, source.shape)[:] = source
        turned = self.pull.buffer(wide.T.shape, self.value)
        self.c.move(turned, wide.T)
        summed = self.rows(turned)
        back = self.pull.buffer(shape, self.value)
        self.c.move(back, summed.T)
        if shape == source.shape:
            return back
        result = self.pull.buffer(source.shape, self.value)
        result[:] = back.part(0, 0, source.shape)
        return result

    def rows(self, source: v.Tile) -> v.Tile:
        """The sums along each column of a tile."""
        c, back = self.c, int(self.is_exclusive)
        result, last = self.pull.buffer(source.shape, self.value), self.last(source.shape[1])
        count = self.extent if last is None else self.size
        first, step = (self.extent - 1, -1) if self.is_reverse else (0, 1)
        if count < source.shape[0]:
            c.fill(result, self.neutral)  # beyond the last row

        def row(tile: v.Tile, i: "Index | int") -> v.Tile:
            return tile.part(first + step * i, 0, (1, tile.shape[1]))

        if self.is_exclusive:
            c.fill(row(result, 0), self.neutral)
        begin = row(result, back) if back < count else None
        if begin is not None:
            c.assign(begin, row(source, 0) if last is None else self.sum(last, row(source, 0)))
        if count > back + 1:
            for i in c.range(back + 1, count):
                c.assign(row(result, i), self.sum(row(result, i - 1), row(source, i - back)))
        if last is not None:
            c.assign(last, row(result, count - 1))
        return result

    def sum(self, total: v.Tile, element: v.Tile) -> v.Expression:
        return total + element if self.op.kind.data == "sum" else total * element

    def last(self, cols: int) -> v.Tile | None:
        """The last sums before this part, at first those that change nothing; None where it is all
        of the axis. Raises NotLowered where parts do not come one after the other."""
        at = self.box.offsets[self.axis]
        if number_of(at) == 0 and self.size >= self.extent:
            return None
        loop = at.args[0] if isinstance(at, Index) and at.kind == "muli" else at
        if not isinstance(loop, LoopIndex) or self.is_exclusive or self.is_reverse:
            raise NotLowered(f"running sums of {self.extent} elements are in parts")
        offsets = [0 if i == self.axis else o for i, o in enumerate(self.box.offsets)]
        level = self.pull.level_before(loop, Box(tuple(offsets), self.box.sizes))
        if level is None:
            raise NotLowered("parts of running sums do not come one after the other")
        with self.c.vector.at(level):
            tile = self.pull.buffer((1, cols), self.value)
            is_sum = self.neutral == 0 and is_float(tile.element)
            self.c.fill(tile, -0.0 if is_sum else self.neutral)  # 0 - 0 has not the sign of -0
        return tile
