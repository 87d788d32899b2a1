"""Division of the matmuls of a launch into sections: matmuls whose results meet in an output have
their blocks at a time, and share those of the left-hand side.

    %0 = graph.matmul %x, %w                 a section: two terms of %x, an output
    %1 = graph.matmul %x, %v
    %2 = graph.mul %0, %1

Rows of grouped matmuls stand group after group, in sizes that are known. Groups of one size that
follow each other are a stretch. Blocks of rows cut the rows of each group evenly, and the last one
of a group has the rest: blocks of as many rows are a lot, which is one loop of the program.
Cores take the blocks of all lots in turn, so that a group with few rows holds up none.

    sizes 300, 300, 7 and blocks of 160 rows:
        lot of groups 0 and 1, their rows from   0 on, 1 block of 160
        lot of groups 0 and 1, their rows from 160 on, 1 block of 140
        lot of group 2,                                1 block of   7
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import ceil, gcd, lcm, prod

from xdsl.dialects.builtin import bf16, f16, f32, i8
from xdsl.ir import SSAValue

from ge.dialects.graph.activation import ReluOp
from ge.dialects.graph.attention import RotaryEmbeddingOp
from ge.dialects.graph.linear import GroupedMatmulOp, MatmulOp
from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.support.boxes import MOVING
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, align_up, element_type, shape_of
from ge.dialects.tile.types import BLOCK, FRACTAL
from ge.runtime.library.costs.paces import applied_by
from ge.runtime.library.launch import Launch, NotLowered, is_open
from ge.runtime.library.matmul.blocks import Matrices
from ge.runtime.library.matmul.operands import MatmulOperand, is_given
from ge.runtime.library.matmul.outputs import (
    AnyMatmul,
    MatmulOutput,
    Origins,
    has_relu,
    together,
    way_out,
)
from ge.runtime.library.ways import WayOut


@dataclass(frozen=True)
class Stretch:
    """`count` groups from number `group` on, of `size` rows each, which begin at row `first`."""

    group: int
    count: int
    first: int
    size: int


@dataclass(frozen=True)
class Lot:
    """`blocks` blocks of each of the groups of a stretch, of `rows` rows each, from row `begin` of
    the group on."""

    stretch: Stretch
    begin: int
    blocks: int
    rows: int

    @property
    def places(self) -> int:
        """Blocks of rows in all."""
        return self.stretch.count * self.blocks


def stretches(sizes: Sequence[int]) -> list[Stretch]:
    """Groups of one size that stand side by side; those without rows are left out."""
    found: list[Stretch] = []
    group = first = 0
    for size, members in groupby(sizes):
        count = len(list(members))
        if size:
            found.append(Stretch(group, count, first, size))
        group, first = group + count, first + count * size
    return found


def lots(sizes: Sequence[int], most: int) -> list[Lot]:
    """Lots with blocks of `most` rows at most; lots of many rows come first, since the remainder at
    the end is small then."""
    found = [lot for stretch in stretches(sizes) for lot in lots_of(stretch, most)]
    return sorted(found, key=lambda lot: -lot.rows)


def lots_of(stretch: Stretch, most: int) -> Iterator[Lot]:
    blocks = ceil(stretch.size / most)
    rows = align_up(ceil(stretch.size / blocks), FRACTAL)
    whole, left = divmod(stretch.size, rows)
    if whole:
        yield Lot(stretch, 0, whole, rows)
    if left:
        yield Lot(stretch, whole * rows, 1, left)


MULTIPLIED = (f16, bf16, f32, i8)


@dataclass(frozen=True)
class Product:
    """A matmul. `folded`: rows of all its left-hand sides are rows of one."""

    launch: Launch
    op: AnyMatmul
    folded: bool

    @cached_property
    def sizes(self) -> tuple[Shape, int, int, int]:
        """Batch dimensions and m, n, k."""
        batch, m, n, k = self.op.dimensions()
        return ((), prod(batch) * m, n, k) if self.folded else (batch, m, n, k)

    @cached_property
    def lhs(self) -> MatmulOperand:
        _, m, _, k = self.sizes
        turned, value = is_turned(self.op), self.op.lhs
        in_rows = self.folded and is_given(self.launch, value)
        shape = (m, k) if in_rows else shape_of(value)
        return MatmulOperand(self.launch, value, shape, turned, 0 if turned else 1)

    @cached_property
    def rhs(self) -> MatmulOperand:
        turned, value = bool(self.op.transpose_rhs.value.data), self.op.rhs
        op, groups = self.op, None
        if isinstance(op, GroupedMatmulOp) and not op.in_order:
            groups = op.groups
        return MatmulOperand(
            self.launch, value, shape_of(value), turned, 1 if turned else 0, groups
        )

    @cached_property
    def group_sizes(self) -> tuple[int, ...]:
        """Rows of each group, where these stand one after the other and are known."""
        return (self.op.ints("rows") or ()) if isinstance(self.op, GroupedMatmulOp) else ()

    @property
    def offsets(self) -> SSAValue | None:
        """The input that says where each group begins, if it is read. Raises NotLowered if it is no
        input."""
        if not isinstance(self.op, GroupedMatmulOp) or not self.op.in_order or self.group_sizes:
            return None
        groups = self.op.groups
        if self.op.given.data != "offsets" or groups is None or not is_given(self.launch, groups):
            raise NotLowered("where groups begin is computed")
        return groups

    @property
    def groups(self) -> int:
        """Number of groups of rows that stand one after the other; 0: none do."""
        return self.rhs.shape[0] if self.group_sizes or self.offsets is not None else 0

    @property
    def batches(self) -> Shape:
        """Batch sizes of the matrices that a block's number counts through."""
        return (self.groups,) if self.groups else self.sizes[0]

    @property
    def operands(self) -> tuple[MatmulOperand, MatmulOperand]:
        return self.lhs, self.rhs

    def matrices(self, terms: int, columns: int, copied: Container[int]) -> Matrices:
        """`copied`: sides of which vector cores make copies before."""
        batch, m, _, k = self.sizes
        sides = self.lhs.shape, self.rhs.shape
        strides = self.lhs.stride(0 in copied), self.rhs.stride(1 in copied)
        computed = [None if i in copied else o for i, o in enumerate(self.operands)]
        (rows, depth), (deep, cols) = ((1, 1) if o is None else o.units for o in computed)
        left, right = (None if o is None else o.computing for o in computed)
        return Matrices(
            prod(batch),
            m,
            columns,
            k,
            element_type(self.op.lhs),
            element_type(self.op.result),
            (prod(sides[0][:-2]), prod(sides[1][:-2])),
            strides,
            terms,
            (rows, cols, lcm(depth, deep)),
            computing=(left, right),
        )


@dataclass(frozen=True)
class Section:
    """Results that are computed block by block together, and the matmuls that they need, each with
    the first of the columns that are needed of it."""

    terms: tuple[tuple[Product, int], ...]
    outputs: tuple[MatmulOutput, ...]
    ops: tuple[TensorOp, ...]  # between the matmuls and the outputs
    splits: int = 1  # cores that share the terms of a block's sums: `SplitSums`
    last_wave: bool = False  # of the blocks that are left where all cores have had as many
    copied: frozenset[int] = frozenset()  # sides that are copied before: `Copy`

    @property
    def product(self) -> Product:
        """The first one: all have one left-hand side, and as many rows and columns."""
        return self.terms[0][0]

    @cached_property
    def p(self) -> Matrices:
        """Raises NotLowered where no blocks of it are blocks of the outputs."""
        columns = self.outputs[0].columns
        p = self.product.matrices(len(self.terms), columns, self.copied)
        values = [r for op in (self.product.op, *self.ops) for r in op.results]
        least = BLOCK * 8 // min(bitwidth(element_type(v)) for v in values)
        unit = FRACTAL if self.is_direct else max(FRACTAL, least)
        for out in self.outputs:
            if out.merges_batches(p.m):
                raise NotLowered(f"rows of several matmuls are one dimension of {out.value.type}")
            if out.side_by_side(out.row_steps, p.m) % FRACTAL:
                raise NotLowered(f"{out.value.type} has parts of less than {FRACTAL} rows")
            if out.side_by_side(out.col_steps, columns) % unit:
                raise NotLowered(f"{out.value.type} has parts of less than {unit} columns")
        cols = gcd(*(o.side_by_side(o.col_steps, columns) for o in self.outputs))
        heads = [op for op in self.ops if isinstance(op, RotaryEmbeddingOp)]
        if any(shape_of(op.results[0])[-1] != cols for op in heads):
            raise NotLowered("heads that are rotated are no parts of its result")
        if self.reduces:
            if cols:
                raise NotLowered("rows that are reduced are cut apart in its result")
            cols = align_up(columns, lcm(unit, p.units[1]))
        passing = not self.is_direct
        if passing and columns == 1:
            raise NotLowered("one column passes to the vector core")
        rows, across, depth = p.units
        units = lcm(rows, self.row_unit), lcm(across, cols or unit), depth
        splits, last_wave = self.splits, self.last_wave
        if self.tables:
            p = replace(p, by_tables=True, result=element_type(self.tables[0].value))
        computed = [op for op in self.vector_ops if op.ACCESS not in MOVING]
        after = applied_by(computed, p.result_bits) if passing else None
        may_run = splits == 1 and not (self.is_computed or self.product.groups or self.copied)
        p = replace(p, after=after, may_run=may_run and not is_open())
        return replace(p, units=units, splits=splits, last_wave=last_wave)

    @property
    def copied_operands(self) -> list[MatmulOperand]:
        return [o for i, o in self.operands if i in self.copied]

    @cached_property
    def shapes(self) -> tuple[Matrices, ...]:
        """The matrices that cuts are estimated for: groups of different sizes are different
        matrices. Raises NotLowered where rows of groups are none of the outputs."""
        p, groups, sizes = self.p, self.product.groups, self.product.group_sizes
        if not groups:
            return (p,)
        if self.part_rows or self.is_computed or any(o.is_turned for o in self.outputs):
            raise NotLowered("rows of groups are cut apart in its result, or computed")
        if not sizes:  # of which nothing is known: as if all were of one size
            sizes = (ceil(p.m / groups),) * groups
        return tuple(
            replace(p, batch=s.count, m=s.size, batches=(s.count, s.count))
            for s in stretches(sizes)
        )

    @property
    def row_unit(self) -> int:
        """Rows of sums that pass to the vector cores are multiples of this: where they become
        columns, each core's part of them fills blocks of memory."""
        if not any(o.is_turned for o in self.outputs):
            return FRACTAL
        values = [r for op in (self.product.op, *self.ops) for r in op.results]
        least = BLOCK * 8 // min(bitwidth(element_type(v)) for v in values)
        return lcm(FRACTAL, least * self.product.launch.target.vector_parts)

    @property
    def part_cols(self) -> int:
        """Columns that are side by side in all outputs; 0: all."""
        return gcd(*(o.side_by_side(o.col_steps, self.p.n) for o in self.outputs))

    @property
    def part_rows(self) -> int:
        return gcd(*(o.side_by_side(o.row_steps, self.p.m) for o in self.outputs))

    @cached_property
    def ways(self) -> dict[SSAValue, WayOut]:
        """The ways of sums of integers to the outputs, where these leave by scales; else none."""
        if not self.may_have_tables:
            return {}
        launch = self.product.launch
        found = {o.value: way_out(launch, o.value) for o in self.outputs if not o.is_turned}
        ways = {
            value: way
            for value, way in found.items()
            if way is not None and way.is_at_hand(launch.body.inputs)
        }
        alike = len({(w.bias, w.scale) for w in ways.values()}) == 1
        return ways if alike and len(ways) == len(self.outputs) else {}

    @property
    def may_have_tables(self) -> bool:
        room = self.product.launch.target.core_memories
        return len(self.terms) == self.splits == 1 and min(room["bt"], room["fb"]) > 0

    @cached_property
    def way_to_vector_cores(self) -> WayOut | None:
        """The way of sums of integers to vector cores, where these take nothing else of them."""
        if not self.may_have_tables or self.ways:
            return None
        launch = self.product.launch
        found = [way_out(launch, o.result) for o in self.ops if isinstance(o, DequantizeOp)]
        ways = [w for w in found if w is not None and w.is_at_hand(launch.body.inputs)]
        if len(ways) != 1:
            return None
        on_the_way = between(launch, [ways[0].value])
        inner = {r for op in (self.product.op, *on_the_way) for r in op.results} - {ways[0].value}
        others = [op for op in launch.body.ops if op not in on_the_way]
        used = {v for op in others for v in op.operands} | {*launch.body.outputs}
        return ways[0] if inner.isdisjoint(used) else None

    @property
    def tables(self) -> list[WayOut]:
        """The ways by which sums leave L0C, of one bias and scale."""
        to_vector_cores = self.way_to_vector_cores
        return [*self.ways.values()] if to_vector_cores is None else [to_vector_cores]

    @property
    def vector_ops(self) -> tuple[TensorOp, ...]:
        """The ops that vector cores compute, where sums pass to them."""
        if (way := self.way_to_vector_cores) is None:
            return self.ops
        on_the_way = between(self.product.launch, [way.value])
        return tuple(op for op in self.ops if op not in on_the_way)

    def passed(self, term: Product) -> SSAValue:
        """The value that vector cores take of a matmul."""
        way = self.way_to_vector_cores
        return term.op.result if way is None else way.value

    @property
    def is_direct(self) -> bool:
        """True if sums of whole blocks are stored unchanged, or by scales, or after relu."""
        if self.ways:
            return True
        kinds = [op for op in self.ops if op.ACCESS not in MOVING]
        relus = all(isinstance(op, ReluOp) for op in kinds)
        return (
            len(self.terms) == 1
            and (self.splits == 1 or self.last_wave)
            and relus
            and all(len(has_relu(o.value)) == 1 and not o.is_turned for o in self.outputs)
        )

    @property
    def has_vector_cores(self) -> bool:
        """True if its program has work for vector cores."""
        return self.is_computed or not self.is_direct or self.last_wave or bool(self.copied)

    @cached_property
    def reduces(self) -> list[ReduceOp]:
        """Ops that reduce rows: a block has whole ones."""
        return [op for op in self.ops if isinstance(op, ReduceOp)]

    @property
    def is_computed(self) -> bool:
        """True if vector cores compute operands block by block."""
        return any(o.ops for i, o in self.operands if i not in self.copied)

    @property
    def operands(self) -> list[tuple[int, MatmulOperand]]:
        """The operands of all terms, with their sides."""
        found = ((i, o) for term, _ in self.terms for i, o in enumerate(term.operands))
        return list(dict.fromkeys(found))


def sections_of(launch: Launch) -> list[Section]:
    """Divide all outputs of a launch into sections. Raises NotLowered if some are in none."""
    body = launch.body
    matmuls = [op for op in body.ops if isinstance(op, AnyMatmul)]
    if not matmuls:
        raise NotLowered(f"there is none for {launch.kernel.main.name}")
    for op in matmuls:
        element, other = element_type(op.lhs), element_type(op.rhs)
        if element != other or element not in MULTIPLIED:
            raise NotLowered(f"the cube does not multiply {element} by {other}")
    origins = Origins(body)
    outputs = [origins.output(value) for value in body.outputs]
    products: dict[SSAValue, Product] = {
        op.result: Product(launch, op, folds(launch, op, outputs)) for op in matmuls
    }
    sections: list[Section] = []
    for group in together(outputs):
        if len({o.columns for o in group}) > 1:
            raise NotLowered("different columns of its matmuls meet")
        terms = list(dict.fromkeys(t for o in group for t in o.terms))
        kinds = {
            (p.op.lhs, p.sizes, p.group_sizes, p.offsets) for p in (products[m] for m, _ in terms)
        }
        if len(kinds) > 1:
            raise NotLowered("matmuls of different left-hand sides meet")
        ops = between(launch, [o.value for o in group])
        mine = tuple((products[m], first) for m, first in terms)
        sections.append(Section(mine, tuple(group), ops))
    return sections


def folds(launch: Launch, op: AnyMatmul, outputs: Sequence[MatmulOutput]) -> bool:
    """True if rows of all left-hand sides may be those of one matmul: there is one right-hand side,
    they lie in memory, and no part of the rows ends within a fractal."""
    batch, m, _, _ = op.dimensions()
    mine, rows = [o for o in outputs if any(op.result is m for m, _ in o.terms)], prod(batch) * m
    parts = [o.side_by_side(o.row_steps, rows) for o in mine]
    one = prod(shape_of(op.rhs)[:-2]) == 1 and not is_turned(op) and isinstance(op, MatmulOp)
    one = one and (prod(batch) == 1 or is_given(launch, op.lhs))
    return one and all(part % FRACTAL == 0 for part in parts)


def is_turned(op: AnyMatmul) -> bool:
    """True if the left-hand side is transposed."""
    return isinstance(op, MatmulOp) and bool(op.transpose_lhs.value.data)


def between(launch: Launch, outputs: Sequence[SSAValue]) -> tuple[TensorOp, ...]:
    """The ops behind the matmuls that compute these values."""
    needed, found = set(outputs), list[TensorOp]()
    for op in reversed(launch.body.ops):
        if not needed.isdisjoint(op.results) and not isinstance(op, AnyMatmul):
            needed.update(op.operands)
            found.append(op)
    return tuple(found)
