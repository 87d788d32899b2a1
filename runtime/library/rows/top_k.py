"""Kernels that find the largest elements of rows and where they are, one after the other.

    for b in share(blocks of rows)
      load x[b..]; left = numbers of columns
      for i in range(k)
        value = largest of those that are left;  place = least number of one that equals it
        store value, place to column i;  left = left without place

Each pass goes over all of the row, so that it is slow where k is large. A nan is the largest there
is. The smallest elements are found in the same way; where nothing but nan is left, the first is.
"""

from math import ceil, nan, prod

from xdsl.dialects.builtin import f32, i1, i64
from xdsl.ir import SSAValue

from ge.dialects.graph.elementwise import AndOp, OrOp
from ge.dialects.graph.indexing import TopKOp
from ge.dialects.graph.support.folding import highest, lowest
from ge.dialects.support.element_types import bitwidth, is_float
from ge.dialects.support.types import Shape, align_up, element_type, normalize_axis, numel, shape_of
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Scalar
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.launch import Arguments, Launch, NotLowered, Written
from ge.runtime.library.programs import fits
from ge.runtime.library.rows.simple_ops import EXACT
from ge.runtime.library.rows.vector import shared

MOST_PASSES = 1024


def lower_top_k(launch: Launch) -> Written:
    """The first elements of sorted rows."""
    (op,) = (op for op in launch.body.ops if isinstance(op, TopKOp))
    shape, count = shape_of(op.input), shape_of(op.values)[-1]
    check(launch, op)
    lines, cols = prod(shape[:-1]), shape[-1]
    rows = min(ceil(lines / launch.target.vector_cores), 64)
    while True:
        written = by_rows(launch, op, (lines, cols, count), rows)
        if fits(launch, written):
            return written
        if rows == 1:
            raise NotLowered(f"a row of {cols} elements does not fit into ub")
        rows //= 2


def check(launch: Launch, op: TopKOp) -> None:
    """Raises NotLowered for what has no program here."""
    shape, element, count = shape_of(op.input), element_type(op.input), op.ints("k")
    if len(launch.body.ops) > 1:
        raise NotLowered(f"there are ops beside {op.name}")
    if count is None or numel(shape) == 0 or count[0] == 0:
        raise NotLowered("how many elements are found is not in the text")
    if normalize_axis(op.axis.value.data, len(shape)) != len(shape) - 1:
        raise NotLowered("elements are sorted along another dimension than the last")
    if count[0] > MOST_PASSES or shape[-1] > EXACT:
        raise NotLowered(f"{count[0]} elements of {shape[-1]} would each pass over the whole row")
    if bitwidth(element) < 8:
        raise NotLowered("elements of less than a byte are not sorted")


def by_rows(launch: Launch, op: TopKOp, sizes: tuple[int, int, int], rows: int) -> Written:
    """With so many rows at a time; `sizes`: lines, columns, and elements that are found."""
    lines, cols, count = sizes
    blocks = ceil(lines / rows)
    cores = min(blocks, launch.target.vector_cores)

    def write(c: Tracer, given: Arguments) -> None:
        passes = Passes(c, op, given, rows, cols)
        for i in shared(c, blocks, cores):
            passes.write(i, i * rows, count)

    shapes: dict[SSAValue, Shape] = {op.input: (lines, cols)}
    return Written(write, cores, shapes | dict.fromkeys(op.results, (lines, count)))


class Passes:
    """The program, while it is written."""

    def __init__(self, c: Tracer, op: TopKOp, given: Arguments, rows: int, cols: int) -> None:
        self.c, self.op, self.given, self.cols = c, op, given, cols
        element = element_type(op.input)
        wide = align_up(cols, BLOCK * 8 // min(bitwidth(element), 32))
        self.source = c.ub(rows, wide, element, copies=2)
        self.candidates = c.ub(rows, wide, element)
        self.left, self.hits = c.ub(rows, wide, f32), c.ub(rows, wide, f32)
        self.value = c.ub(rows, 1, element, copies=2)
        self.first = c.ub(rows, 1, f32)
        self.place, self.stored = c.ub(rows, 1, f32), c.ub(rows, 1, i64, copies=2)

    def write(self, turn: Scalar, line: Scalar, count: int) -> None:
        c, op, none = self.c, self.op, float(self.cols)
        x = c.load(self.source[turn], self.given[op.input][line:, 0:], pad=0)
        numbers = v.cast(v.columns(self.left.shape[1]), f32)
        c.assign(self.left, v.where(numbers < none, numbers, none))
        for i in c.range(count):
            self.find(x, self.value[i], none)
            c.store(self.given[op.values][line:, i], self.value[i])
            c.assign(self.stored[i], v.cast(self.place, i64))
            c.store(self.given[op.indices][line:, i], self.stored[i])
            self.left[:] = v.where(v.compare("eq", self.left, self.place), none, self.left)

    def find(self, x: v.Tile, value: v.Tile, none: float) -> None:
        """The next element of each row, and its place."""
        c, is_largest = self.c, bool(self.op.largest.value.data)
        worst = (lowest if is_largest else highest)(x.element)
        worst = float(not is_largest) if x.element == i1 else worst
        is_left, last = self.left < none, is_float(x.element) and not is_largest  # where nan is
        is_number = v.binary(AndOp, is_left, v.compare("eq", x, x)) if last else is_left
        self.candidates[:] = v.where(is_number, x, worst)
        c.assign(value, (v.rowmax if is_largest else v.rowmin)(self.candidates))
        equal = v.compare("eq", x, value)
        if is_float(x.element) and is_largest:
            equal = v.binary(OrOp, equal, v.compare("ne", x, x))
        self.hits[:] = v.where(v.binary(AndOp, is_left, equal), self.left, none)
        self.place[:] = v.rowmin(self.hits)
        if last:
            self.first[:] = v.rowmin(self.left)
            value[:] = v.where(self.place < none, value, nan)
            self.place[:] = v.where(self.place < none, self.place, self.first)
