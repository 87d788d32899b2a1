"""The shapes of a program's inputs, from sizes of named dimensions; and the sizes of other tensors,
as expressions of these dimensions.

`transforms/analysis/dimensions.py` knows which dimensions are equal, or products of others. What is
a symbol of its own there follows here from the op that makes it: a dimension of an input is its
name, one of a concat is a sum, windows move along a quotient. Where only data tell (nonzero), the
expression is the most that there can be.
"""

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects import graph as g
from ge.dialects.graph.elementwise import Elementwise
from ge.dialects.graph.sharding import whole_shape
from ge.dialects.graph.stated import (
    argument_attributes,
    dim_ranges,
    dim_relations,
    dims_of,
    input_name,
)
from ge.dialects.graph.support.parameters import partial_ints
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.dims import Polynomial, size_of, symbols, with_related
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import split_axes
from ge.dialects.support.types import (
    DYNAMIC,
    Shape,
    constant_ints,
    element_type,
    normalize_axis,
    numel,
    rank_of,
    shape_of,
    shape_text,
)
from ge.transforms.analysis.dimensions import MOST_STEPS, Dimensions, Size

Place = tuple[int, int]  # argument, axis


def named_dims(main: FuncOp) -> dict[str, list[Place]]:
    """Each name of an unknown dimension of an input -> where it is, in order; one without a name is
    called `x[0]`, after the input and the axis."""
    places: dict[str, list[Place]] = {}
    for i, (_, shape, dims) in enumerate(inputs_of(main)):
        for axis, (size, dim) in enumerate(zip(shape, dims, strict=True)):
            if size == DYNAMIC:
                places.setdefault(dim, []).append((i, axis))
    return places


def inputs_of(main: FuncOp) -> list[tuple[str, Shape, tuple[str, ...]]]:
    """Name, shape, and the names of the dimensions, of each input: of the whole one where a program
    has a part of it."""
    result: list[tuple[str, Shape, tuple[str, ...]]] = []
    for i, t in enumerate(main.function_type.inputs.data):
        table = argument_attributes(main, i)
        name, (_, local) = input_name(main, i), data_type(t)
        shape, dims = whole_shape(table, local), dims_of(table, len(local))
        result.append((name, shape, tuple(d or f"{name}[{a}]" for a, d in enumerate(dims))))
    return result


def argument_shapes(
    main: FuncOp, dims: Mapping[str, int], shapes: Mapping[str, Sequence[int]] | None = None
) -> list[Shape]:
    """The shapes of the inputs, of the parts of these that the program has, where `dims` have these
    sizes, and the (whole) inputs in `shapes` these shapes (-1 for unknown sizes). Raises GeError
    for a size that is missing, belongs to no dimension, is out of its range, or contradicts
    another."""
    inputs, sizes = inputs_of(main), dict(dims)
    for name, shape in (shapes or {}).items():
        take_shape(name, shape, inputs, sizes)
    names, relations = list(named_dims(main)), dim_relations(main)
    known = {s for n in names for s in (n, *symbols(n))} | relations.keys()
    if unknown := [n for n in sizes if n not in known]:
        listing = ", ".join(f"'{n}'" for n in names) or "none: all sizes are fixed"
        raise GeError(f"there is no dimension '{unknown[0]}'", hint=f"the program has {listing}")
    sizes = with_related(sizes, relations)
    for name in names:
        if (computed := size_of(name, {n: s for n, s in sizes.items() if n != name})) is not None:
            if sizes.setdefault(name, computed) != computed:
                raise GeError(f"dimension '{name}' is {sizes[name]}, but others make it {computed}")
    missing = [n for n in names if n not in sizes]
    if missing:
        needed = dict.fromkeys(s for n in missing for s in symbols(n) if s not in sizes)
        listing = ", ".join(f"'{n}'" for n in needed)
        hint = " ".join(f"--dim '{n}=8'" if " " in n else f"--dim {n}=8" for n in needed)
        raise GeError(f"the sizes of {listing} are not known", hint=f"give them, as in {hint}")
    for name, sizes_allowed in dim_ranges(main).items():
        if (size := size_of(name, sizes)) is not None and size not in sizes_allowed:
            raise GeError(f"dimension '{name}' is {size}, out of its range {sizes_allowed}")
    if negative := [n for n in names if sizes[n] < 0]:
        raise GeError(f"dimension '{negative[0]}' is {sizes[negative[0]]}")
    parts = [data_type(t)[1] for t in main.function_type.inputs.data]
    return [
        tuple(sizes[n] if d == DYNAMIC else d for d, n in zip(shape, dims, strict=True))
        for (_, _, dims), shape in zip(inputs, parts, strict=True)
    ]


def take_shape(
    name: str,
    shape: Sequence[int],
    inputs: Sequence[tuple[str, Shape, tuple[str, ...]]],
    sizes: dict[str, int],
) -> None:
    """Note the sizes of the dimensions of an input of this shape."""
    found = [(declared, dims) for n, declared, dims in inputs if n == name]
    if not found:
        listing = ", ".join(f"'{n}'" for n, _, _ in inputs) or "none"
        raise GeError(f"there is no input '{name}'", hint=f"the program has {listing}")
    ((declared, dims),) = found
    fits = len(shape) == len(declared)
    if not fits or any(
        d not in (DYNAMIC, s) and s >= 0 for d, s in zip(declared, shape, strict=True)
    ):
        raise GeError(f"input '{name}' is {shape_text(declared)}, not {shape_text(shape)}")
    for size, declared_size, dim in zip(shape, declared, dims, strict=True):
        if size >= 0 and declared_size == DYNAMIC and sizes.setdefault(dim, size) != size:
            text = f"dimension '{dim}' is {sizes[dim]}, and {size} in the shape of input '{name}'"
            raise GeError(text)


Expressions = tuple[Polynomial | None, ...]

BRANCHING = 4  # steps that an op of several operands counts for, of a chain that is followed

# Whose result is of the shape of operand 0
SAME = (g.Placing, g.AppendOp, g.CumulativeOp)


def calculated(
    op: g.AddOp | g.SubOp | g.MulOp, a: Polynomial | None, b: Polynomial | None
) -> Polynomial | None:
    if a is None or b is None:
        return None
    if isinstance(op, g.MulOp):
        return a * b
    return a + (b * -1 if isinstance(op, g.SubOp) else b)


class SizeExpressions:
    """Of the values of a block, in which each op comes after those whose results it takes."""

    def __init__(self, block: Block, dims: Dimensions, names: Sequence[Sequence[str]]) -> None:
        """`names` of the dimensions of the first arguments."""
        self.dims = dims
        self.symbols: dict[tuple[int, int], Polynomial | None] = {}
        self.sizes: dict[SSAValue, Expressions] = {}
        for i, arg in enumerate(block.args):
            self.define(arg, [Polynomial.named(n) for n in names[i]] if i < len(names) else ())
        for op in block.ops:
            for result in op.results:
                if isinstance(result.type, TensorType):
                    self.define(result)

    def bytes_of(self, value: SSAValue) -> Polynomial | None:
        """The bytes of a value; None where nothing is known."""
        if (count := self.count(value)) is None:
            return None
        bits = count * Polynomial.of(bitwidth(element_type(value)))
        return (bits if all(f % 8 == 0 for _, f in bits.terms) else bits + 7) // 8

    def define(self, value: SSAValue, named: Sequence[Polynomial | None] | None = None) -> None:
        result: list[Polynomial | None] = []
        for axis, size in enumerate(self.dims.of(value)):
            own = self.dims.place(size) == (value, axis)
            if own and size.symbols[0] not in self.symbols:
                given = named[axis] if named else self.rule(value, axis)
                self.symbols[size.symbols[0]] = given
            result.append(self.of(size))
        self.sizes[value] = tuple(result)

    def of(self, size: Size) -> Polynomial | None:
        product = Polynomial.of(size.factor)
        for symbol in size.symbols:
            if (known := self.symbols.get(symbol)) is None:
                return None
            product *= known
        return product

    def at(self, value: SSAValue, axis: int) -> Polynomial | None:
        sizes = self.sizes.get(value, ())
        return sizes[axis] if -len(sizes) <= axis < len(sizes) else None

    def count(self, value: SSAValue) -> Polynomial | None:
        """The number of elements."""
        product = Polynomial.of(1)
        for size in self.sizes.get(value, (None,)):
            if size is None:
                return None
            product *= size
        return product

    def equal(self, sizes: Sequence[Polynomial | None]) -> Polynomial | None:
        """Return the common size of operands that broadcast: a number other than 1, or the size of
        all that are not 1."""
        others = [s for s in sizes if s is None or s.number != 1]
        numbers = [s for s in others if s is not None and s.number is not None]
        if numbers or not others:
            return numbers[0] if numbers else Polynomial.of(1)
        if any(s is None or s != others[0] for s in others):
            return None
        return next((s for s in others if s is not None and s.is_bound), others[0])

    # ---- by the op that a dimension is of

    def rule(self, value: SSAValue, axis: int) -> Polynomial | None:
        """A dimension of the result of an op."""
        op = value.owner
        if not isinstance(op, Operation):
            return None
        match op:
            case Elementwise() | g.BroadcastToOp():
                rank = rank_of(value)
                operands = op.operands if isinstance(op, Elementwise) else op.operands[:1]
                aligned = [(v, axis - rank + rank_of(v)) for v in operands]
                sizes = [self.at(v, i) for v, i in aligned if i >= 0]
                if isinstance(op, g.BroadcastToOp):
                    sizes.append(self.element(op, "shape", axis))
                return self.equal(sizes)
            case g.ConcatOp() if axis == op.axis.value.data:
                return self.total([self.at(v, axis) for v in op.inputs])
            case g.SliceOp():
                return self.sliced(op, axis)
            case g.SplitOp() if axis == op.axis.value.data:
                size = self.at(op.input, axis)
                count = 1 if op.sizes or op.sizes_value else len(op.parts)  # sizes may be any
                return None if size is None else ((size + (count - 1)) // count).at_most()
            case g.PadOp():
                return self.padded(op, axis)
            case g.TileOp():
                size, times = self.at(op.input, axis), partial_ints(op, "repeats")
                number = times[axis] if times else None
                return None if size is None or number is None else size * number
            case g.ConvOp() | g.Pooling():
                return self.windows(op, axis)
            case g.RangeOp():
                start, limit, delta = (self.numbers(v) for v in op.operands)
                known = [n[0] if n else None for n in (start, limit, delta)]
                return known[1] if known[::2] == [Polynomial(), Polynomial.of(1)] else None
            case g.Created():
                return self.element(op, "shape", axis)
            case g.GatherElementsOp():
                return self.at(op.operands[1], axis)
            case g.GatherNdOp():
                data, indices = op.operands
                if axis < rank_of(indices) - 1:
                    return self.at(indices, axis)
                return self.at(data, axis - rank_of(value))
            case _ if isinstance(op, SAME):
                return self.at(op.operands[0], axis)
            case (
                g.NonZeroOp() | g.CompressOp() | g.UniqueOp() | g.TopKOp() | g.NonMaxSuppressionOp()
            ):
                return self.by_data(op, value, axis)
            case _:
                return self.split(op, axis)

    def split(self, op: Operation, axis: int) -> Polynomial | None:
        """Parts of the result along an axis need parts of operands: both are as many."""
        if isinstance(op, g.AttentionLike) or (axes := split_axes(op, axis)) is None:
            return None
        sizes = [self.at(v, a) for v, a in zip(op.operands, axes, strict=True) if a is not None]
        return self.equal(sizes) if sizes else None

    def total(self, sizes: Sequence[Polynomial | None]) -> Polynomial | None:
        result = Polynomial()
        for size in sizes:
            if size is None:
                return None
            result += size
        return result

    def element(self, op: Operation, name: str, index: int) -> Polynomial | None:
        """An element of the shape that an op is given."""
        value = getattr(op, f"{name}_value")
        if value is None:
            return None
        numbers = self.numbers(value)
        return numbers[index] if index < len(numbers) else None

    def numbers(self, value: SSAValue, steps: int = MOST_STEPS) -> Sequence[Polynomial | None]:
        """The elements of a vector or scalar of a shape computation, also where they are sums."""
        known = [None if s is None else self.of(s) for s in self.elements(value)]
        if (known and None not in known) or steps <= 0:
            return known
        match value.owner:
            case g.AddOp() | g.SubOp() | g.MulOp() as op:
                a, b = (self.numbers(v, steps - BRANCHING) for v in op.operands)
                a, b = (list(x) * len(y) if len(x) == 1 else x for x, y in ((a, b), (b, a)))
                if len(a) == len(b):
                    return [calculated(op, m, n) for m, n in zip(a, b, strict=True)]
            case g.CastOp() | g.ReshapeOp() | g.SqueezeOp() | g.UnsqueezeOp() as op:
                return self.numbers(op.operands[0], steps - 1)
            case g.ConcatOp() as op:
                return [n for v in op.inputs for n in self.numbers(v, steps - BRANCHING)]
            case _:
                pass
        return known

    def elements(self, value: SSAValue) -> Sequence[Size | None]:
        """Return the elements of a shape, also of one in which another size stands where a given
        one is (-1, as a rule): sizes of dimensions are never negative."""
        op = value.owner
        if not isinstance(op, g.SelectOp) or not isinstance(
            test := op.operands[0].owner, g.CompareOp
        ):
            return self.dims.elements(value) or ()
        count, result = numel(shape_of(value)), list[Size | None]()
        operands = [self.dims.elements(v) or () for v in (*test.operands, *op.operands[1:])]
        spread = [e * count if len(e) == 1 else e for e in map(tuple, operands)]
        for a, b, then, other in zip(*spread, strict=False):
            apart = a is not None and a.number is None and a.factor > 0
            if test.predicate.data != "eq" or a is None or b is None or b.number is None:
                result.append(None)
            elif a.number is not None or (apart and b.number < 0):
                result.append(then if a.number == b.number else other)
            else:
                result.append(None)
        return result

    def sliced(self, op: g.SliceOp, axis: int) -> Polynomial | None:
        """At most what is between the ends, or all there is."""
        whole = self.at(op.input, axis)
        bounds = op.bounds()
        if bounds is None:
            return None if whole is None else whole.at_most()
        for cut, start, end, step in bounds:
            if cut != axis:
                continue
            if start is not None and end is not None and step is not None and step > 0:
                if 0 <= start <= end < 2**31 - 1 or start <= end < 0:
                    return Polynomial.of(-(-(end - start) // step)).at_most()
            if whole is not None and whole.number is not None and start == 0 and step == 1:
                ends = self.dims.elements(op.ends_value) if op.ends_value is not None else None
                last = ends[0] if ends and len(bounds) == 1 else None
                shorter = None if last is None else self.of(last)
                return whole.at_most() if shorter is None else shorter.at_most()
            return None if whole is None else whole.at_most()
        return whole

    def padded(self, op: g.PadOp, axis: int) -> Polynomial | None:
        size, pads = self.at(op.input, axis), partial_ints(op, "pads")
        absent = op.axes is None and op.axes_value is None
        axes = range(rank_of(op.input)) if absent else op.ints("axes")
        if size is None or pads is None or axes is None:
            return None
        places = [normalize_axis(a, rank_of(op.input)) for a in axes]
        if axis not in places:
            return size
        before, after = pads[(i := places.index(axis))], pads[i + len(places)]
        return None if before is None or after is None else size + (before + after)

    def windows(self, op: g.ConvOp | g.Pooling, axis: int) -> Polynomial | None:
        """Positions of a window of known size; the batch stays, and so do the channels of a
        pooling."""
        last = isinstance(op, g.ConvOp) and bool(op.input_channels_last.value.data)
        if axis < 2:
            return self.at(op.input, axis) if axis == 0 or isinstance(op, g.Pooling) else None
        size, window, i = self.at(op.input, axis - 1 if last else axis), op.window(), axis - 2
        if size is None:
            return None
        stride, begin, end = window.strides[i], window.pads[i], window.pads[i + window.rank]
        if window.auto_pad:
            return (size + (stride - 1)) // stride
        if window.kernel[i] == DYNAMIC:
            return None
        room = size + (begin + end - window.extent(i))
        if window.ceil_mode:
            return ((room + (stride - 1)) // stride + 1).at_most()
        return room // stride + 1

    def by_data(self, op: Operation, value: SSAValue, axis: int) -> Polynomial | None:
        """The most that there can be of what only data tell."""
        most: Polynomial | None
        match op:
            case g.NonMaxSuppressionOp():
                batch, classes, boxes = (self.at(op.scores, i) for i in range(3))
                kept = None if op.max_output is None else constant_ints(op.max_output)
                if kept is not None:
                    boxes = Polynomial.of(max(kept[0], 0))
                known = None if batch is None or classes is None else batch * classes
                most = None if known is None or boxes is None else known * boxes
            case g.CompressOp() | g.UniqueOp() if op.axis is not None:
                along = op.axis.value.data
                is_whole = value is op.results[0]  # what else unique gives are vectors
                most = self.at(op.input, axis if is_whole else along)
                if most is None or (is_whole and axis != along):
                    return most
            case g.TopKOp():
                most = self.at(op.input, axis)
                if axis != op.axis.value.data:
                    return most
            case _:
                most = self.count(op.operands[0])
        return None if most is None else most.at_most()
