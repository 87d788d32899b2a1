"""Kernels for the cube: matmuls.

Cores share the blocks of the result; `blocks.py` says how large they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from xdsl.dialects.builtin import bf16, f16, f32, i8, i32
from xdsl.ir import SSAValue

from ge.dialects.graph.linear import MatmulOp
from ge.dialects.support.types import Shape, element_type, shape_of
from ge.lowering.kernels.blocks import Cut, Matrices, best_cut
from ge.lowering.kernels.launch import Arguments, Launch, NotLowered, Written
from ge.lowering.tiles.indices import Index, Scalar
from ge.lowering.tiles.tracing import Tracer
from ge.lowering.tiles.values import Argument, Box, Tile, Transposed

MULTIPLIED = (f16, bf16, f32, i8)


@dataclass(frozen=True)
class Operand:
    """One side of a matmul: matrices of rows x columns in memory, `turned` where the matmul takes
    them transposed. `batch`: the dimensions before those."""

    value: SSAValue
    batch: Shape
    rows: int
    cols: int
    turned: bool

    @classmethod
    def of(cls, value: SSAValue, turned: bool) -> "Operand":
        *batch, rows, cols = shape_of(value)
        return cls(value, tuple(batch), rows, cols, turned)

    @property
    def shape(self) -> Shape:
        """Of its memref: one dimension for all that is before the matrices."""
        count = prod(self.batch)
        return (self.rows, self.cols) if count == 1 else (count, self.rows, self.cols)

    def tile_shape(self, rows: int, cols: int) -> tuple[int, int]:
        """Of a tile of as many rows and columns of what the matmul takes."""
        return (cols, rows) if self.turned else (rows, cols)

    def box(self, argument: Argument, batch: Scalar, row: Scalar, col: Scalar) -> Box:
        """The box from there on, of what the matmul takes."""
        row, col = (col, row) if self.turned else (row, col)
        return argument[row:, col:] if len(self.shape) == 2 else argument[batch, row:, col:]

    def as_taken(self, tile: Tile) -> Tile | Transposed:
        return tile.T if self.turned else tile


@dataclass(frozen=True)
class Product:
    """A matmul, cut into blocks."""

    lhs: Operand
    rhs: Operand
    result: SSAValue
    batch: Shape
    p: Matrices

    @classmethod
    def of(cls, op: MatmulOp) -> "Product":
        """Raises NotLowered for element types that the cube does not multiply."""
        batch, m, n, k = op.dimensions()
        element, other = element_type(op.lhs), element_type(op.rhs)
        if element != other or element not in MULTIPLIED:
            raise NotLowered(f"the cube does not multiply {element} by {other}")
        lhs = Operand.of(op.lhs, bool(op.transpose_lhs.value.data))
        rhs = Operand.of(op.rhs, bool(op.transpose_rhs.value.data))
        if prod(rhs.batch) == 1 and not lhs.turned:  # one matrix for all rows
            lhs = Operand(op.lhs, (), prod(batch) * m, k, False)
            batch, m = (), prod(batch) * m
        batches, strides = (prod(lhs.batch), prod(rhs.batch)), (lhs.cols, rhs.cols)
        result = element_type(op.result)
        p = Matrices(prod(batch), m, n, k, element, result, batches, strides)
        return cls(lhs, rhs, op.result, batch, p)

    @property
    def result_shape(self) -> Shape:
        batch = () if self.p.batch == 1 else (self.p.batch,)
        return (*batch, self.p.m, self.p.n)

    @property
    def shapes(self) -> dict[SSAValue, Shape]:
        """Of memrefs."""
        lhs, rhs = self.lhs, self.rhs
        return {lhs.value: lhs.shape, rhs.value: rhs.shape, self.result: self.result_shape}


def lower_matmul(launch: Launch) -> Written:
    """A matmul."""
    op = launch.kernel.main
    if not isinstance(op, MatmulOp):
        raise NotLowered(f"there is none for {op.name}")
    product = Product.of(op)
    cut = best_cut(product.p, launch.target)
    if cut is None:
        raise NotLowered("no block of it fits on a core")

    def write(c: Tracer, arguments: Arguments) -> None:
        Blocks(c, product, cut, arguments).write()

    cores = min(cut.blocks(product.p), launch.target.cube_cores)
    return Written(write, cores, product.shapes)


class Blocks:
    """The program of a matmul, while it is written."""

    def __init__(self, c: Tracer, product: Product, cut: Cut, arguments: Arguments) -> None:
        self.c, self.product, self.cut, self.arguments = c, product, cut, arguments
        lhs, rhs, element = product.lhs, product.rhs, product.p.element
        self.lhs = c.l1(*lhs.tile_shape(cut.m, cut.k), element, copies=2)
        self.rhs = c.l1(*rhs.tile_shape(cut.k, cut.n), element, copies=2)
        sum_type = i32 if element == i8 else f32
        self.sums = c.l0c(cut.m, cut.n, sum_type, copies=cut.sums)

    def write(self) -> None:
        c, cut, p = self.c, self.cut, self.product.p
        down, across = cut.counts(p)
        steps = ceil(p.k / cut.k)
        out = Operand(self.product.result, self.product.batch, p.m, p.n, False)
        for i in c.share(cut.blocks(p)):
            block = c.now(i // across)
            m, n = c.now(block % down * cut.m), c.now(i % across * cut.n)
            batch, first = c.now(block // down), c.now(i.turn * steps)
            for step in c.range(steps):
                lhs, rhs = self.operands(first + step, batch, m, n, step * cut.k)
                c.mmad(self.sums[i], lhs, rhs, init=step == 0, k=cut.part)
            c.store(out.box(self.arguments[out.value], batch, m, n), self.sums[i])

    def operands(
        self, copy: Index, batch: Index, m: Index, n: Index, k: Index
    ) -> Sequence[Tile | Transposed]:
        """A step's, loaded."""
        places = (self.product.lhs, self.lhs, m, k), (self.product.rhs, self.rhs, k, n)
        tiles: list[Tile | Transposed] = []
        for operand, ring, row, col in places:
            its = index_of(operand.batch, self.product.batch, batch)
            box = operand.box(self.arguments[operand.value], its, row, col)
            tiles.append(operand.as_taken(self.c.load(ring[copy], box, pad=0)))
        return tiles


def index_of(own: Shape, batch: Shape, number: Index) -> Scalar:
    """Which of an operand's matrices matmul `number` takes: dimensions of 1 are repeated."""
    own = (1,) * (len(batch) - len(own)) + own
    if own == batch or prod(own) == 1:
        return number if prod(own) > 1 else 0
    found: Scalar = 0
    for i, (size, whole) in enumerate(zip(own, batch, strict=True)):
        if size > 1:
            place = number // prod(batch[i + 1 :])
            found = found + (place % whole if i else place) * prod(own[i + 1 :])
    return found
