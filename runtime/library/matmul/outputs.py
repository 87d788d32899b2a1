"""Places of the elements of a matmul's result, when ops behind it move them.

    %0 = graph.matmul ...                    : -> tensor<128x2304xf16>
    %1, %2, %3 = graph.split %0              : -> 3 x tensor<128x768xf16>
    %4 = graph.reshape %2                    : -> tensor<128x12x64xf16>
    %5 = graph.transpose %4                  : -> tensor<12x128x64xf16>

An index of %5 is columns 768 + 64 i0 + i2 and row i1 of %0: for each dimension of an output its
step along the rows or along the columns. The steps follow from the element of
the matmul's result that an element of the output needs (`operand_box`), at enough places.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from random import Random
from typing import TypeAlias

from xdsl.dialects.builtin import f16, i32
from xdsl.ir import SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.graph.activation import ReluOp
from ge.dialects.graph.attention import RotaryEmbeddingOp
from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.linear import GroupedMatmulOp, MatmulOp
from ge.dialects.graph.quantization import DequantizeOp, RequantizeOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.slicing import SliceOp
from ge.dialects.support.boxes import Access, Box
from ge.dialects.support.dims import Extent
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    Shape,
    element_type,
    shape_of,
)
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Scalar
from ge.runtime.library.launch import Launch, NotLowered
from ge.runtime.library.tile_ops import is_copy, is_pointwise
from ge.runtime.library.ways import WayOut, scaled_way

PROBES = 16  # places besides those along each dimension
OTHER_ORDER = "a result has not all elements of the matmul's in its order"


AnyMatmul: TypeAlias = MatmulOp | GroupedMatmulOp


Term: TypeAlias = tuple[SSAValue, int]
"""A matmul's result, and the first of the columns that are needed of it."""


@dataclass(frozen=True)
class MatmulOutput:
    """A result of a launch, and its dimensions' steps along the rows and the columns of the matmuls
    that it depends on, 0 where it has none. It has `columns` columns of each of the `terms`."""

    value: SSAValue
    terms: tuple[Term, ...]
    row_steps: Shape
    col_steps: Shape
    columns: int

    @property
    def shape(self) -> Shape:
        return shape_of(self.value)

    def side_by_side(self, steps: Shape, count: int) -> int:
        """Number of rows or columns, of `count`, that lie side by side; 0: all."""
        inner = next((d for d, s in zip(self.shape, steps, strict=True) if s == 1), count)
        return inner if inner < count else 0

    def merges_batches(self, rows: int) -> bool:
        """True if a dimension goes on from the rows of one matmul to those of the next."""
        steps = zip(self.shape, self.row_steps, strict=True)
        return any(0 < step < rows < step * extent for extent, step in steps)

    @property
    def is_turned(self) -> bool:
        """True if the matmul's rows that lie side by side come behind its columns."""
        pairs = list(enumerate(zip(self.row_steps, self.col_steps, strict=True)))
        rows, cols = ([i for i, steps in pairs if steps[side] == 1] for side in (0, 1))
        return bool(rows and cols) and rows[0] > cols[0]

    def spans(self, rows: int) -> tuple[int, int]:
        """The dimensions of so many rows and of columns, if need be of one element; twice that of
        columns where one row needs a dimension of its own before it. Raises NotLowered where there
        are none."""
        dims = range(len(self.shape))
        col = next((i for i in dims if self.col_steps[i] == 1), len(self.shape) - 1)
        several = [i for i in dims if self.row_steps[i] == 1 and rows > 1]
        found = several or [i for i in dims if self.shape[i] == 1 and i < col]
        if rows == 1 and not found:
            found = [col]
        is_before = bool(found) and (found[-1] < col or rows == 1)
        if not is_before or (self.shape[col] > 1 and not self.col_steps[col]):
            raise NotLowered(f"{self.value.type} has no rows and columns")
        return found[-1], col

    def stored_shape(self, rows: int) -> Shape:
        """Shape of the memref with a dimension for rows."""
        row, col = self.spans(rows)
        return self.shape if row < col else (*self.shape[:col], 1, *self.shape[col:])

    def stored(
        self,
        argument: v.Argument,
        place: "ResultBlock",
        rows: int,
        cols: int,
        end: "Scalar | None" = None,
    ) -> v.Subview:
        """The box of so many rows and columns in memory, from a place on; of the rows before
        `end`."""
        at = self.box(place, rows, cols).offsets
        row, col = self.spans(place.rows)
        if row == col:
            at, col = (*at[:col], 0, *at[col:]), col + 1
        return ending(v.Subview(argument, at, (row, col), (1,) * len(at)), row, end)

    def box(self, place: "ResultBlock", rows: int, cols: int) -> Box:
        """The box of so many rows and columns from a place on. Rows beyond those of a batch, and
        columns beyond the last, are beyond the output's end."""
        offsets: list[Scalar] = []
        sizes: list[int] = []
        for extent, along, across in zip(self.shape, self.row_steps, self.col_steps, strict=True):
            if along >= place.rows > 0:
                step, at, size, count = along // place.rows, place.batch, 1, place.batches
            elif along:
                step, at, size, count = along, place.row, rows, place.rows
            else:
                step, at, size, count = across, place.col, cols, self.columns
            if not step or (step == 1 and size == extent < count):  # all that is side by side
                at = 0
            elif step > 1:
                at = at // step
            if step and step * extent < count:
                at = at % extent
            offsets.append(at)
            sizes.append(size if step == 1 else 1)
        return Box(tuple(offsets), tuple(sizes))


def ending(box: v.Subview, row: int, end: "Scalar | None") -> v.Subview:
    """The box, of the rows before `end` alone."""
    if end is None:
        return box
    return replace(box, ends=(*box.argument.shape[:row], end, *box.argument.shape[row + 1 :]))


@dataclass(frozen=True)
class ResultBlock:
    """Rows and columns of one of `batches` matmuls of as many rows each."""

    batches: int
    rows: int
    batch: Scalar
    row: Scalar
    col: Scalar


@dataclass(frozen=True)
class Origins:
    """The elements of the matmuls' results from which elements of a body's values are computed."""

    body: Body
    checked: set[SSAValue] = field(default_factory=set[SSAValue])  # whose rows are those of matmuls
    chains: dict[SSAValue, list[TensorOp]] = field(default_factory=dict[SSAValue, list[TensorOp]])
    sources: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    @cached_property
    def dependent(self) -> set[SSAValue]:
        """Values that depend on a matmul."""
        found: set[SSAValue] = set()
        for op in self.body.ops:
            if isinstance(op, AnyMatmul) or any(v in found for v in op.operands):
                found.update(op.results)
        return found

    def output(self, value: SSAValue) -> MatmulOutput:
        """Raises NotLowered where its elements are not each one of each matmul."""
        shape = shape_of(value)
        if value not in self.dependent:
            raise NotLowered("a result does not depend on a matmul")
        terms = self.of(value, (0,) * len(shape))
        if not terms:
            raise NotLowered("a result has one element for each row")
        strides = [self.stride(value, dim, terms) for dim in range(len(shape))]
        if any(d > 1 and not s for d, s in zip(shape, strides, strict=True)):
            raise NotLowered("a result has elements of the matmul's several times")
        self.check(value, terms, strides)
        whole = {shape_of(result) for result, _ in terms}
        if len(whole) > 1:
            raise NotLowered("matmuls of different sizes meet")
        *rows_before, n = whole.pop()
        rows = tuple(0 if s % n else s // n for s in strides)
        cols = tuple(s if s % n else 0 for s in strides)
        columns = covered(shape, cols)
        last = max(first for _, first in terms)
        if last + columns > n or covered(shape, rows) != prod(rows_before):
            raise NotLowered(OTHER_ORDER)
        return MatmulOutput(value, terms, rows, cols, columns)

    def whole_rows(self, op: ReduceOp) -> None:
        """Raises NotLowered where an op reduces something else than rows of a matmul."""
        source = op.operands[0]
        if source in self.checked:
            return
        self.checked.add(source)
        out, axes = self.output(source), op.reduced_axes() or ()
        cols = [i for i, step in enumerate(out.col_steps) if step]
        n = shape_of(out.terms[0][0])[-1]
        if list(axes) != cols or len(cols) != 1 or out.columns != n:
            raise NotLowered(f"rows of {source.type} are none of the matmul")

    def stride(self, value: SSAValue, dim: int, terms: Sequence[Term]) -> int:
        """Distance to the next element along a dimension, in the order of the matmul's result."""
        shape = shape_of(value)
        is_open = type(shape[dim]) is Extent  # of which no parts are known: `check` tries some
        ends = [1] if is_open else [e for e in range(1, shape[dim]) if shape[dim] % e == 0]
        stride = 0
        for end in ends:
            place = tuple(end if i == dim else 0 for i in range(len(shape)))
            away = self.of(value, place)[0][1] - terms[0][1]
            stride = stride or away
            if away != end * stride:
                raise NotLowered(OTHER_ORDER)
        return stride

    def check(self, value: SSAValue, terms: Sequence[Term], strides: Sequence[int]) -> None:
        """Raises NotLowered where an element is not where the strides say: some, and the last."""
        for place in probes(shape_of(value)):
            away = int(sum(i * s for i, s in zip(place, strides, strict=True)))
            found = [(result, int(first)) for result, first in self.of(value, place)]
            if found != [(result, int(first) + away) for result, first in terms]:
                raise NotLowered(OTHER_ORDER)

    def of(self, value: SSAValue, place: Shape) -> tuple[Term, ...]:
        """The elements of the matmuls' results that an element needs, by their numbers."""
        found: list[Term] = []
        value = self.same(value)
        places: dict[SSAValue, dict[Shape, None]] = {value: {place: None}}
        for op in self.before(value):
            for number, result in enumerate(op.results):
                for at in places.get(result, ()):
                    if isinstance(op, AnyMatmul):
                        sizes = shape_of(result)
                        flat = sum(i * prod(sizes[d + 1 :]) for d, i in enumerate(at))
                        found.append((result, flat))
                        continue
                    for operand, needed in self.needs(op, Box(at, (1,) * len(at)), number):
                        places.setdefault(operand, {})[needed.offsets] = None
        return tuple(found)

    def same(self, value: SSAValue) -> SSAValue:
        """The value whose elements are computed of the same elements of matmuls, place by place:
        what comes after it is elementwise, with operands that no matmul is in."""
        if value not in self.sources:
            source, op = value, value.owner
            if isinstance(op, TensorOp) and is_pointwise(op):
                found = [v for v in op.operands if v in self.dependent]
                if len(found) == 1 and shape_of(found[0]) == shape_of(value):
                    source = self.same(found[0])
            self.sources[value] = source
        return self.sources[value]

    def before(self, value: SSAValue) -> list[TensorOp]:
        """The ops that a value is computed by, the last first."""
        if value not in self.chains:
            found, values = list[TensorOp](), {value}
            for op in reversed(self.body.ops):
                if not values.isdisjoint(op.results):
                    found.append(op)
                    values.update(op.operands)
            self.chains[value] = found
        return self.chains[value]

    def needs(self, op: TensorOp, box: Box, number: int) -> Iterator[tuple[SSAValue, Box]]:
        for index, operand in enumerate(op.operands):
            if operand not in self.dependent:
                continue
            if isinstance(op, RotaryEmbeddingOp):  # whole heads: see `Section.part_cols`
                yield operand, box
            elif isinstance(op, ReduceOp):  # whole rows: see `whole_rows`
                self.whole_rows(op)
            elif op.ACCESS in (Access.MOVEMENT, Access.WHOLE) and not moves_alone(op):
                raise NotLowered(f"{op.name} behind a matmul changes elements")
            else:
                needed = op.operand_box(index, box, number)
                if needed is None or prod(needed.sizes) != 1:
                    raise NotLowered(f"{op.name} needs several elements of a matmul's result")
                yield operand, needed


@lru_cache(1024)
def probes(shape: Shape) -> list[Shape]:
    """Some places, and the last one."""
    random = Random(0)
    places = [tuple(random.randrange(d) for d in shape) for _ in range(PROBES)]
    return [*places, tuple(d - 1 for d in shape)]


def moves_alone(op: TensorOp) -> bool:
    """True if each element of the result is one of the operand's, wherever it was (a triangle has
    zeros, too)."""
    return is_copy(op) or isinstance(op, SliceOp)


def covered(shape: Shape, steps: Shape) -> int:
    """Number of indices that the dimensions with a step count, from 0 on. Raises NotLowered if they
    leave some out."""
    count = 1
    for step, extent in sorted((s, d) for s, d in zip(steps, shape, strict=True) if s):
        if step != count:
            raise NotLowered(OTHER_ORDER)
        count *= extent
    return count


def together(outputs: Sequence[MatmulOutput]) -> list[list[MatmulOutput]]:
    """Groups of outputs that share columns of a matmul."""
    groups: list[list[MatmulOutput]] = []
    for output in outputs:
        touched = [g for g in groups if any(shared(output, o) for o in g)]
        groups = [g for g in groups if g not in touched]
        groups.append([*(o for g in touched for o in g), output])
    return groups


def shared(a: MatmulOutput, b: MatmulOutput) -> bool:
    pairs = product(a.terms, b.terms)
    return any(m is n and i < j + b.columns and j < i + a.columns for (m, i), (n, j) in pairs)


def way_out(launch: Launch, value: SSAValue) -> WayOut | None:
    """The way of sums of integers to an output; None where vector cores have a part in it.

    %1 = graph.add %sums, %bias                     : i32
    %2 = graph.dequantize %1, %scale axis 1 to f16, or graph.requantize %1, %scale axis 1 to i8

    Of a convolution it may be the sums themselves. Their columns are channels.
    """
    relu = False
    while isinstance(op := value.owner, TensorOp):
        if isinstance(op, ConvOp | DequantizeOp | RequantizeOp):
            break
        if isinstance(op, ReluOp) and element_type(value) == f16:
            relu = True
        elif not moves_alone(op):
            return None
        value = op.operands[0]
    else:
        return None
    if isinstance(op, ConvOp):
        return None if element_type(value) != i32 else WayOut(value, value, None, op.bias)
    return scaled_way(op, launch.number, relu)


def has_relu(value: SSAValue) -> set[bool]:
    """{True} if a relu stands between a matmul's result and a value that it is moved to, {False} if
    none does; both where only parts of the value have one."""
    op = value.owner
    if not isinstance(op, TensorOp) or isinstance(op, MatmulOp):
        return {False}
    if isinstance(op, ReluOp):
        return {True}
    return {found for operand in op.operands for found in has_relu(operand)}
