"""The effect of each instruction on bytes. `prepare` makes a function of it once; that takes, for
each time the instruction runs, the offsets of its tiles, of its box, and its scalars, in the order
of the operands.

The cube multiplies f16, bf16 and f32 and adds in f32; i8 it adds in i32, which may wrap around.
Maps run the numpy kernels of their graph ops; reductions of narrow floats add in f32.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import i8
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.diagnostics import error_at
from ge.dialects.support.element_types import elements_per_byte
from ge.dialects.support.types import constant_value
from ge.dialects.tile.buffers import ViewOp, box_of, within
from ge.dialects.tile.compute import (
    FillOp,
    GatherOp,
    IndexOp,
    MapOp,
    MmadOp,
    ReduceOp,
    ScatterOp,
)
from ge.dialects.tile.instruction import Instruction, number_of
from ge.dialects.tile.kernel import BarrierOp
from ge.dialects.tile.transfers import LoadOp, MoveOp, PopOp, PushOp, StoreOp
from ge.dialects.tile.types import box_type, fifo_type, tile_type
from ge.dialects.tile.unfold import UnfoldOp
from ge.runtime import numbers
from ge.runtime.cores.memory import CoreMemory, TileAt
from ge.runtime.data.arrays import NARROW_FLOATS, Array, array_of, dtype_of, packed

Action = Callable[..., None]
Offsets = tuple[int, ...]
Slices = tuple[Any, ...]

MOST_KNOWN = 10_000  # places of a box that are kept


def prepare(
    op: Instruction | BarrierOp, core: CoreMemory, memrefs: Mapping[SSAValue, Array]
) -> Action:
    """The function that runs an instruction on the memories of a core."""
    match op:
        case LoadOp():
            return load(op, core, memrefs)
        case StoreOp():
            return store(op, core, memrefs)
        case MoveOp():
            return move(op, core)
        case UnfoldOp():
            return unfold(op, core)
        case PushOp():
            return push(op, core)
        case PopOp():
            fifo = core.fifos[op.source]
            return on_one(core.end(op.target), lambda tile: np.copyto(tile, fifo.pop()))
        case MmadOp():
            return mmad(op, core)
        case MapOp():
            return map_tiles(op, core)
        case ReduceOp():
            return reduce(op, core)
        case GatherOp():
            return gather(op, core)
        case ScatterOp():
            return scatter(op, core)
        case IndexOp():
            return index(op, core)
        case FillOp():
            value = number_of(op.value)
            return on_one(core.tile(op.target), lambda tile: tile.fill(value))
        case _:  # flags and barriers
            return lambda: None


def on_one(tile: TileAt, act: Callable[[Array], object]) -> Action:
    def run(at: int) -> None:
        act(tile(at))

    return run


def on_two(source: TileAt, target: TileAt, act: Callable[[Array, Array], object]) -> Action:
    def run(a: int, b: int) -> None:
        act(source(a), target(b))

    return run


# ---- data ------------------------------------------------------------------------------------


class TileBox:
    """The elements of a box, by its offsets (and ends), and where they stand in a tile. The arrays
    of memrefs may be others in each run."""

    def __init__(self, view: ViewOp, memrefs: Mapping[SSAValue, Array]) -> None:
        self.memrefs, self.memref, self.view = memrefs, view.source, view
        self.steps = view.box_steps
        self.kept = [i for i, size in enumerate(view.box_sizes) if size > 1]
        self.shape = tuple(view.box_sizes[i] for i in self.kept)
        self.known: dict[Offsets, tuple[Slices, Slices]] = {}

    def cut(self, offsets: Offsets) -> tuple[Slices, Slices]:
        """The part of a box that is in the memref, and its place in a tile of `shape`."""
        if (known := self.known.get(offsets)) is None:
            spans = within(self.view, offsets)
            dims = zip(offsets[: len(spans)], spans, self.steps, strict=True)
            cut = [slice(at + low * n, at + high * n, n) for at, (low, high), n in dims]
            # an array also where there are no dimensions
            known = (*cut, ...), (*(slice(*spans[i]) for i in self.kept), ...)
            if len(self.known) < MOST_KNOWN:
                self.known[offsets] = known
        return known

    def part(self, offsets: Offsets) -> Array:
        """The elements within the memref."""
        return self.memrefs[self.memref][self.cut(offsets)[0]]

    def parts(self, offsets: Offsets, tile: Array) -> tuple[Array, Array]:
        """The same, and their places in the tile."""
        cut, places = self.cut(offsets)
        # a view, since it only cuts rows and columns
        return self.memrefs[self.memref][cut], tile.reshape(self.shape)[places]


def load(op: LoadOp, core: CoreMemory, memrefs: Mapping[SSAValue, Array]) -> Action:
    view, t = box_of(op.source), tile_type(op.target)
    box, step, rows = TileBox(view, memrefs), op.row_step, box_type(op.source).rows.data
    pad = None if op.pad is None else number_of(op.pad)
    most = t.rows.data - (rows - 1) * step  # rows that it may begin at
    has_first = op.first is not None

    def fill(tile: Array, offsets: Offsets, first: int = -1) -> None:
        if has_first:
            if not 0 <= first < most:
                raise error_at(op, f"{rows} rows from {first} on, {step} apart, pass the tile")
            tile = tile[first : first + (rows - 1) * step + 1 : step]
        part, grid = box.parts(offsets, tile)
        if pad is not None and part.size < tile.size:
            tile.fill(pad)
        if part.size:
            grid[...] = part.reshape(grid.shape)

    if elements_per_byte(t.element) > 1:  # those that share bytes with others stay as they were
        elements, rows_of = core.elements(op.target), core.rows(op.target)

        def run_packed(offsets: Offsets, at: int, *first: int) -> None:
            fill(tile := elements(at), offsets, *first)
            rows_of(at)[...] = packed(tile)

        return run_packed
    target = core.tile(op.target)

    def run(offsets: Offsets, at: int, *first: int) -> None:
        fill(target(at), offsets, *first)

    return run


def store(op: StoreOp, core: CoreMemory, memrefs: Mapping[SSAValue, Array]) -> Action:
    view, source = box_of(op.target), core.tile(op.source)
    box = TileBox(view, memrefs)
    has_relu, adds = op.has_relu, op.is_atomic
    scale = None if op.scale is None else core.tile(op.scale)
    zero = 0 if op.zero is None else op.zero.value.data

    def run(at: int, offsets: Offsets, scales: int = 0) -> None:
        sums = source(at)
        if scale is not None:
            sums = scaled(sums, scale(scales), box_type(op.target).element, zero, has_relu)
        part, values = box.parts(offsets, sums)
        if not part.size:
            return
        if has_relu and scale is None:
            values = np.maximum(values, 0)
        values = values.reshape(part.shape).astype(part.dtype)
        part[...] = part + values if adds else values

    return run


def push(op: PushOp, core: CoreMemory) -> Action:
    fifo, source = core.fifos[op.target], core.end(op.source)
    if op.scale is None:
        return on_one(source, fifo.push)
    to, scales = fifo_type(op.target).element, core.tile(op.scale)
    return on_two(source, scales, lambda sums, row: fifo.push(scaled(sums, row, to, 0, False)))


def scaled(sums: Array, scales: Array, to: Attribute, zero: int, relu: bool) -> Array:
    """Sums of integers as they leave L0C: times their scales, in 32 bits."""
    values = np.multiply(sums, scales, dtype=np.float32, casting="unsafe")
    if relu:
        values = np.maximum(values, 0)
    if to == i8:
        values = np.clip(np.rint(values) + np.float32(zero), -128, 127)
    with np.errstate(over="ignore"):
        return values.astype(dtype_of(to))


def move(op: MoveOp, core: CoreMemory) -> Action:
    ends = core.tile(op.source), core.tile(op.target)
    if op.columns:
        taken = op.taken
        return on_two(*ends, lambda source, target: np.copyto(target, source[:, taken]))
    if op.is_transposed:
        return on_two(*ends, lambda source, target: np.copyto(target, source.T))
    return on_two(*ends, lambda source, target: np.copyto(target, source, casting="unsafe"))


def unfold(op: UnfoldOp, core: CoreMemory) -> Action:
    w, begin = op.windows, op.begin
    shape = tile_type(op.target).shape
    count, depth = shape if op.window_rows else shape[::-1]
    channels = slice(begin // w.taps, (begin + depth - 1) // w.taps + 1)
    elements = slice(begin % w.taps, begin % w.taps + depth)
    lines, pad = count // w.pixels, None if op.pad is None else number_of(op.pad)
    right = max(w.reach(1, w.pixels) - w.left - w.width, 0)
    spans = [
        [slice(at := i * w.dilations[d], at + (n - 1) * w.strides[d] + 1, w.strides[d])
         for i in range(w.kernel[d])]
        for d, n in enumerate((lines, w.pixels))
    ]  # fmt: skip

    def run(source: Array, target: Array) -> None:
        image = source[: len(source) // w.width * w.width, channels]
        image = image.reshape(-1, w.width, image.shape[1])
        if pad is not None:
            image = np.pad(image, ((0, 0), (w.left, right), (0, 0)), constant_values=pad)
        taps = [image[y, x] for y in spans[0] for x in spans[1]]
        matrix = np.stack(taps, axis=-1).reshape(count, -1)[:, elements]
        np.copyto(target, matrix if op.window_rows else matrix.T)

    return on_two(core.tile(op.source), core.tile(op.target), run)


# ---- computing -------------------------------------------------------------------------------


def mmad(op: MmadOp, core: CoreMemory) -> Action:
    acc, lhs, rhs = core.tile(op.acc), core.tile(op.lhs), core.tile(op.rhs)
    first = None if op.bias is None else core.tile(op.bias)

    def run(sums: int, left: int, right: int, init: bool = False, bias: int = 0) -> None:
        total = acc(sums)
        product = multiply(lhs(left), rhs(right), total.dtype)
        if init and first is not None:
            product = product + first(bias)
        np.copyto(total, product if init else total + product)

    return run


def multiply(a: Array, b: Array, dtype: "np.dtype[Any]") -> Array:
    """The product with sums of this type; those of integers are exact in f64 before they wrap."""
    wide = np.float32 if dtype == np.float32 else np.float64
    product = a.astype(wide) @ b.astype(wide)
    return product if wide is np.float32 else product.astype(np.int64).astype(dtype)


def map_tiles(op: MapOp, core: CoreMemory) -> Action:
    ins, outs = [core.elements(v) for v in op.ins], [core.tile(v) for v in op.outs]
    block = op.body.block
    places: dict[SSAValue, int] = {v: i for i, v in enumerate(block.args)}
    constants: list[Array] = []
    for member in block.ops:
        if isinstance(member, ConstantOp):
            if (value := constant_value(member.result)) is None:
                raise error_at(member, "constants of a tile.map stand in the IR", "not in a file")
            places[member.result] = len(places)
            constants.append(array_of(value))
    steps: list[tuple[numbers.Fn, list[int]]] = []
    for member in op.members:
        steps.append((numbers.prepare(member), [places[o] for o in member.operands]))
        for result in member.results:
            places[result] = len(places)
    yielded = [places[v] for v in op.yielded]
    copies = len(outs) > 1  # a result may be a view of what another one is written to

    def run(*offsets: int) -> None:
        values = [tile(at) for tile, at in zip(ins, offsets, strict=False)]
        values += constants
        for function, operands in steps:
            values += numbers.results_of(function(*(values[i] for i in operands)))
        results = [values[i] for i in yielded]
        if copies:
            results = [r.copy() for r in results]
        for tile, at, result in zip(outs, offsets[len(ins) :], results, strict=True):
            np.copyto(tile(at), result)

    return run


REDUCTIONS: dict[str, Any] = {"max": np.maximum, "min": np.minimum, "sum": np.add}
COMBINED: dict[str, Any] = REDUCTIONS | {"add": np.add, "mul": np.multiply}


def reduce(op: ReduceOp, core: CoreMemory) -> Action:
    function, axis = REDUCTIONS[op.kind.data], 1 if op.along_rows else 0

    def run(values: Array, result: Array) -> None:
        if values.dtype in NARROW_FLOATS:
            values = values.astype(np.float32)
        reduced = function.reduce(values, axis=axis, keepdims=True, dtype=values.dtype)
        np.copyto(result, reduced, casting="unsafe")

    return on_two(core.tile(op.source), core.tile(op.target), run)


def gather(op: GatherOp, core: CoreMemory) -> Action:
    source, at, target = (core.tile(v) for v in (op.source, op.at, op.target))

    def run(values: int, places: int, result: int) -> None:
        tile, columns = source(values), at(places)
        if columns.min() < 0 or columns.max() >= tile.shape[1]:
            raise error_at(
                op, f"columns {columns.min()} to {columns.max()} are gathered of {tile.shape[1]}"
            )
        rows = cast(Array, np.arange(tile.shape[0]))[:, None]
        np.copyto(target(result), tile[rows, columns])

    return run


def scatter(op: ScatterOp, core: CoreMemory) -> Action:
    source, at, target = (core.tile(v) for v in (op.source, op.at, op.target))
    combine = COMBINED.get(op.kind.data)

    def run(values: int, places: int, result: int) -> None:
        tile, columns = target(result), at(places)
        rows, cols = np.nonzero((columns >= 0) & (columns < tile.shape[1]))
        to, new = (rows, columns[rows, cols]), source(values)[rows, cols]
        if combine is None:
            tile[to] = new  # of several for one place the last one stays
        else:
            combine.at(tile, to, new)

    return run


def index(op: IndexOp, core: CoreMemory) -> Action:
    target, is_rows = core.tile(op.target), op.axis.data == "rows"

    def run(base: int, at: int) -> None:
        tile = target(at)
        numbers = cast(Array, np.arange(base, base + tile.shape[0 if is_rows else 1]))
        tile[...] = numbers[:, None] if is_rows else numbers

    return run
