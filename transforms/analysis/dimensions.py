"""Dimensions that are equal in every run, where types only say `?`.

A dimension is a `Size`: a number times symbols, each one a dimension of a value that is known only
at run time:

    %0 = graph.reshape %x shape(concat(dim 0 of %x, dim 1 of %x, -1, 16))   : ?x?x64 -> ?x?x?x16
    %1 = graph.transpose %0 permutation [0, 2, 1, 3]                        : ?x?x?x16 -> ?x?x?x16

The sizes of %1 are (x0, 4, x1, 16). They are inferred from operands op by op; results of unknown
sizes get new symbols. Arguments of a function share symbols for dimensions of one name
(`graph.dims`).

`stand_in` is an op as it would be if these dimensions had numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects import graph as g
from ge.dialects.graph.elementwise import Elementwise
from ge.dialects.graph.stated import DIMS
from ge.dialects.support.element_types import is_integer
from ge.dialects.support.operation import all_ops
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    DYNAMIC,
    array_ints,
    constant_ints,
    element_type,
    is_ranked,
    is_static,
    numel,
    rank_of,
    shape_of,
)

STEP = 60  # what dimensions are often divided by divides it


def stand_in(op: TensorOp, number: Callable[[SSAValue, int], int]) -> TensorOp | None:
    """Return the op with these numbers in place of unknown dimensions of operands, by value and
    axis; None if it does not take them, or if sizes of results do not follow from them."""

    def sizes(value: SSAValue) -> Sequence[int] | None:
        if not is_ranked(value):
            return None
        return [number(value, i) if d == DYNAMIC else d for i, d in enumerate(shape_of(value))]

    try:
        made = op.with_sizes(sizes)
    except VerifyException:
        return None
    return made if all(is_ranked(r) and is_static(shape_of(r)) for r in made.results) else None


MOST_STEPS = 16  # of a chain of shape computations

MOST_ELEMENTS = 16


@dataclass(frozen=True, slots=True)
class Size:
    """factor * the product of symbols: sorted numbers of a value and a dimension."""

    factor: int
    symbols: tuple[tuple[int, int], ...] = ()

    def __mul__(self, other: "Size") -> "Size":
        return Size(self.factor * other.factor, tuple(sorted(self.symbols + other.symbols)))

    def over(self, other: "Size") -> "Size | None":
        """Return the quotient, None if it is no Size. Symbols are assumed not to be zero."""
        if other.factor == 0 or self.factor % other.factor:
            return None
        symbols = list(self.symbols)
        for symbol in other.symbols:
            if symbol not in symbols:
                return None
            symbols.remove(symbol)
        return Size(self.factor // other.factor, tuple(symbols))

    @property
    def number(self) -> int | None:
        return None if self.symbols else self.factor


ONE = Size(1)

known_size = lru_cache(maxsize=4096)(Size)

Sizes = tuple[Size, ...]


def is_equal(a: Size | None, b: Size | None) -> bool | None:
    """Return whether two elements are equal; None if that is not known. Symbols are not
    negative."""
    if a is None or b is None:
        return None
    if a == b:
        return True
    if a.number is not None and b.number is not None:
        return False
    return False if (a.factor < 0) != (b.factor < 0) and a.factor and b.factor else None


def volume(sizes: Sequence[Size]) -> Size:
    return prod(sizes, start=ONE)


class Dimensions:
    """The sizes of the values of a region. They are inferred when the first unknown size is asked
    for, those of values that are created later when these are."""

    def __init__(self, region: Region | None = None) -> None:
        self.sizes: dict[SSAValue, Sizes] = {}
        self.names: dict[SSAValue, int] = {}
        self.values: list[SSAValue] = []
        self.vectors: dict[SSAValue, list[Size | None] | None] = {}  # a cache of `elements`
        self.cut: dict[Size, Size] = {}
        """Size of the first elements that a slice keeps of an axis -> their number if the axis has
        as many."""
        self.region = region
        self.are_named = False  # the dimensions of arguments

    def infer_region(self, region: Region) -> None:
        """Infer the ops of the region, in order: operands are known, nothing recurs deeply."""
        for op in all_ops(region.blocks):
            for result in op.results:
                if isinstance(result.type, TensorType) and DYNAMIC in shape_of(result):
                    self.of(result)

    def name_arguments(self, func: FuncOp) -> None:
        """Let dimensions of arguments that have one name be equal."""
        first: dict[str, Size] = {}
        for argument, attributes in zip(func.args, func.arg_attrs or (), strict=False):
            names = attributes.data.get(DIMS)
            sizes = list(self.of(argument))
            if isinstance(names, ArrayAttr):
                texts = cast(ArrayAttr[Attribute], names).data
                for i, name in enumerate(texts if len(texts) == len(sizes) else ()):
                    if isinstance(name, StringAttr) and name.data and sizes[i].number is None:
                        sizes[i] = first.setdefault(name.data, sizes[i])
                self.sizes[argument] = tuple(sizes)

    def of(self, value: SSAValue) -> Sizes:
        """The sizes of a ranked tensor's dimensions; () for anything else."""
        if (sizes := self.sizes.get(value)) is not None:
            return sizes
        if not isinstance(value.type, TensorType):
            return ()
        shape = shape_of(value)
        if is_static(shape):
            result = tuple(map(known_size, shape))
        elif self.region is not None:
            region, self.region = self.region, None
            if isinstance(func := region.parent, FuncOp) and not self.are_named:
                self.name_arguments(func)
                self.are_named, self.region = True, region  # of an argument no more is asked for
            else:
                self.infer_region(region)
            return self.of(value)
        else:
            inferred = self.infer(value)
            if inferred is None or len(inferred) != len(shape):
                inferred = (None,) * len(shape)
            result = tuple(
                known_size(d) if d != DYNAMIC else s or self.symbol(value, i)
                for i, (d, s) in enumerate(zip(shape, inferred, strict=True))
            )
        self.sizes[value] = result
        return result

    def same(self, a: SSAValue, b: SSAValue) -> bool:
        """Return whether two values have one shape in every run."""
        return rank_of(a) == rank_of(b) and self.of(a) == self.of(b)

    def symbol(self, value: SSAValue, axis: int) -> Size:
        """The size of a value along an axis as a symbol of its own."""
        if value not in self.names:
            self.names[value] = len(self.values)
            self.values.append(value)
        return Size(1, ((self.names[value], axis),))

    def place(self, size: Size) -> tuple[SSAValue, int] | None:
        """The value and dimension whose symbol a size is; None for other sizes."""
        if size.factor != 1 or len(size.symbols) != 1:
            return None
        number, axis = size.symbols[0]
        return self.values[number], axis

    def infer(self, value: SSAValue) -> Sequence[Size | None] | None:
        """The sizes of an op's result as far as its operands determine them."""
        op = value.owner
        match op:
            case g.ReshapeOp():
                return self.reshaped(op)
            case g.TransposeOp():
                sizes = self.of(op.input)
                return [sizes[i] for i in array_ints(op.permutation)]
            case g.RotaryEmbeddingOp() | g.SoftmaxLike() | g.TrailingNorm() | g.ClampOp():
                return self.of(op.operands[0])
            case g.AttentionOp():
                return self.attended(op)
            case g.GroupNormOp() | g.BatchNormOp():
                return self.of(op.input)
            case Elementwise():
                return self.broadcast([self.of(o) for o in op.operands], rank_of(value))
            case g.MatmulOp():
                return self.multiplied(op)
            case g.GroupedMatmulOp():
                lhs, rhs = self.of(op.lhs), self.of(op.rhs)
                groups = self.of(op.groups) if op.groups is not None and not op.in_order else ()
                batch = self.broadcast([lhs[:-2], groups], rank_of(value) - 2)
                return [*batch, lhs[-2], rhs[1 if op.transpose_rhs.value.data else 2]]
            case g.ConcatOp() | g.SliceOp() | g.SplitOp():
                return self.along_axes(op)
            case g.RangeOp():
                return self.counted(op)
            case g.Created() if op.shape_value is not None:
                return self.elements(op.shape_value)
            case g.BroadcastToOp():
                target = self.elements(op.shape_value) if op.shape_value else None
                if op.shape is not None:
                    target = [Size(d) for d in array_ints(op.shape)]
                if target is None:
                    return None
                return self.broadcast([self.of(op.input), target], rank_of(value))
            case TensorOp() if not op.regions:
                return self.inferred(op, op.results.index(value))
            case _:
                return None

    def inferred(self, op: TensorOp, result: int) -> Sequence[Size | None] | None:
        """The sizes that a result has from operands, by its type for two choices of numbers."""
        found: list[list[Size | None]] = []
        for first in (7, 1009):
            numbers: dict[Size, int] = {}

            def number(value: SSAValue, axis: int) -> int:
                return numbers.setdefault(self.of(value)[axis], (first + len(numbers)) * STEP)

            if (static := stand_in(op, number)) is None:
                return None
            sizes = {n: size for size, n in numbers.items()}
            found.append([sizes.get(d) for d in shape_of(static.results[result])])
        return [a if a == b else None for a, b in zip(*found, strict=True)]

    def broadcast(
        self, operands: Sequence[Sequence[Size | None]], rank: int
    ) -> Sequence[Size | None]:
        """numpy's broadcasting: sizes other than 1 are equal. So are n and min(n, d) of a number
        d > 1: if n > d, then d would have to be 1 or n."""
        longest = max(operands, key=len, default=())
        if len(longest) == rank and all([not s or s == longest for s in operands]):
            return longest
        result: list[Size | None] = []
        for i in range(rank):
            candidates: set[Size | None] = set()
            for sizes in operands:
                if (j := i - rank + len(sizes)) >= 0 and sizes[j] != ONE:
                    candidates.add(sizes[j])
            candidates -= {s for s in candidates if s is not None and self.cut.get(s) in candidates}
            numbers = [s for s in candidates if s is not None and s.number is not None]
            if not candidates:
                result.append(ONE)
            elif len(candidates) == 1 or numbers:
                result.append(numbers[0] if numbers else candidates.pop())
            else:
                result.append(None)  # one of them may be 1
        return result

    def multiplied(self, op: g.MatmulOp) -> Sequence[Size | None]:
        lhs, rhs = self.of(op.lhs), self.of(op.rhs)
        batch = self.broadcast([lhs[:-2], rhs[:-2]], max(len(lhs), len(rhs)) - 2)
        m = lhs[-1 if op.transpose_lhs.value.data else -2]
        n = rhs[-2 if op.transpose_rhs.value.data else -1]
        return [*batch, m, n]

    def attended(self, op: g.AttentionOp) -> Sequence[Size]:
        def sizes(name: str, value: SSAValue) -> Sizes:
            a, b, c, d = self.of(value)
            return (a, c, b, d) if op.tokens_first(name) else (a, b, c, d)

        batch, heads, tokens, _ = sizes("query", op.query)
        size = sizes("value", op.value)[3]
        if op.tokens_first("result"):
            return batch, tokens, heads, size
        return batch, heads, tokens, size

    def reshaped(self, op: g.ReshapeOp) -> Sequence[Size | None] | None:
        """Return the sizes of the target shape, 0 and -1 replaced; None if it is unknown."""
        sizes = self.of(op.input)
        if op.shape is not None:
            target = [Size(d) for d in array_ints(op.shape)]
        else:
            target = self.elements(op.shape_value) if op.shape_value is not None else None
        if target is None:
            return None
        keep = not op.allow_zero.value.data
        result = [
            sizes[i] if keep and s == Size(0) and i < len(sizes) else s
            for i, s in enumerate(target)
        ]
        if Size(-1) in result:
            hidden = result.index(Size(-1))
            others = [s for i, s in enumerate(result) if i != hidden]
            known = [s for s in others if s is not None]
            whole = len(known) == len(others)
            result[hidden] = volume(sizes).over(volume(known)) if whole else None
        return result

    def along_axes(self, op: g.ConcatOp | g.SliceOp | g.SplitOp) -> Sequence[Size | None] | None:
        """The sizes of the axes that do not change."""
        result: list[Size | None] = list(self.of(op.operands[0]))
        if isinstance(op, g.SliceOp):
            bounds = op.bounds()
            if bounds is None:
                return None
            for axis, *_ in bounds:
                result[axis] = self.first_elements(op, axis) if len(bounds) == 1 else None
        else:
            result[op.axis.value.data] = None
        return result

    def first_elements(self, op: g.SliceOp, axis: int) -> Size | None:
        """Return the size of a sliced axis of static size that keeps its first elements."""
        whole = shape_of(op.input)[axis]
        starts, steps = op.ints("starts"), op.ints("steps") or (1,)
        ends = self.elements(op.ends_value) if op.ends_value is not None else None
        if whole <= 1 or starts != (0,) or steps != (1,) or ends is None or ends[0] is None:
            return None
        size = self.symbol(op.result, axis)
        if ends[0].number is None and ends[0].factor > 0:
            self.cut[size] = ends[0]
        return size

    def counted(self, op: g.RangeOp) -> Sequence[Size] | None:
        """The size of 0, 1, ..., n - 1."""
        start, limit, delta = (self.elements(o) for o in op.operands)
        if start != [Size(0)] or delta != [ONE] or limit is None or limit[0] is None:
            return None
        return [limit[0]] if limit[0].factor >= 0 else None

    def selected(self, test: g.CompareOp, op: g.SelectOp, steps: int) -> list[Size | None] | None:
        """Return the sizes that exporters write for the target of an expansion: -1 replaced by
        1."""
        parts = [self.elements(v, steps) for v in (test.lhs, test.rhs, op.on_true, op.on_false)]
        known = [p for p in parts if p is not None]
        if test.predicate.data != "eq" or len(known) < 4 or len({len(p) for p in known}) > 1:
            return None
        return [
            None if (same := is_equal(a, b)) is None else c if same else d
            for a, b, c, d in zip(*known, strict=True)
        ]

    def elements(self, value: SSAValue, steps: int = MOST_STEPS) -> list[Size | None] | None:
        """The elements of a short vector or scalar of integers; None for one that is no Size."""
        if steps < MOST_STEPS:
            return self.elements_within(value, steps)
        if value not in self.vectors:
            self.vectors[value] = self.elements_within(value, steps)
        return self.vectors[value]

    def elements_within(self, value: SSAValue, steps: int) -> list[Size | None] | None:
        """`elements`, by a chain of at most so many ops."""
        if not isinstance(value.type, TensorType) or not is_integer(element_type(value)):
            return None
        shape = shape_of(value)
        if not is_static(shape) or numel(shape) > MOST_ELEMENTS:
            return None
        if (constant := constant_ints(value)) is not None:
            return [Size(c) for c in constant]
        unknown: list[Size | None] = [None] * numel(shape)
        if steps == 0 or not isinstance(value.owner, Operation):
            return unknown
        elements = self.computed(value.owner, steps - 1)
        return elements if elements is not None and len(elements) == len(unknown) else unknown

    def computed(self, op: Operation, steps: int) -> list[Size | None] | None:
        """The elements of the result of a shape computation."""
        match op:
            case g.ShapeOfOp():
                return list(self.of(op.input)[op.bounds()])
            case g.ReshapeOp() | g.SqueezeOp() | g.UnsqueezeOp() | g.CastOp():
                return self.elements(op.operands[0], steps)
            case g.BroadcastToOp():
                data, count = self.elements(op.input, steps), numel(shape_of(op.result))
                return data * count if data is not None and len(data) == 1 else data
            case g.ConcatOp():
                parts = [self.elements(i, steps) for i in op.inputs]
                known = [p for p in parts if p is not None]
                return [e for p in known for e in p] if len(known) == len(parts) else None
            case g.GatherOp():
                data, index = self.elements(op.operands[0], steps), constant_ints(op.operands[1])
                if data is None or index is None or rank_of(op.operands[0]) != 1:
                    return None
                return [data[i] for i in index if -len(data) <= i < len(data)]
            case g.SliceOp():
                data = self.elements(op.input, steps)
                return op.taken(data) if data and rank_of(op.input) == 1 else None
            case g.MulOp():
                a, b = self.elements(op.lhs, steps), self.elements(op.rhs, steps)
                if a is None or b is None or len(a) != len(b):
                    return None
                pairs = zip(a, b, strict=True)
                return [None if s is None or t is None else s * t for s, t in pairs]
            case g.SelectOp() if isinstance(test := op.condition.owner, g.CompareOp):
                return self.selected(test, op, steps)
            case _:
                return None
