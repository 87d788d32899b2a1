"""Proof that inputs padded with zeros along a dimension leave the rest of the outputs unchanged:
then a gear takes smaller sizes too, and outputs are cut.

For one dimension at a time, each value has the axes that are padded, and what the padded elements
hold (`fills.py`). The valid elements of a result must not depend on padded ones:
- the first elements of a result along an axis need the first ones of operands alone, as the op says
  of itself (`support/boxes.py`);
- a sum along a padded axis is of zeros there (a matmul, where one operand is zero and the other
  finite), a softmax of scores so low that weights are exactly zero (the padded keys of attention,
  behind a mask that is false or very low there);
- a size of the result is that of the padded axis itself, or does not follow from it;
- indices count along the axis, or are constants from the front.

All else mixes, and so does what computes with the size itself (a mean). Of an op that says nothing
of the elements that it needs, nothing is known.

Taken for granted: elements of weights are finite, and what ops make of finite elements
(`fills.FINITE`) stays finite; scores that a mask is added to are under 4e29 (2e4 in f16); each
valid query has a key that its mask leaves. Inputs are finite: those that are padded are looked at.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.creation import FillOp, RangeOp
from ge.dialects.graph.elementwise import CastOp, ClampOp, Elementwise
from ge.dialects.graph.indexing import GatherNdOp, Picking, from_front
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.normalization import SoftmaxOp
from ge.dialects.graph.reduction import CumulativeOp, ReduceOp
from ge.dialects.graph.shape import BroadcastToOp, ShapeOfOp, View, is_shape_arithmetic
from ge.dialects.graph.slicing import ConcatOp, SliceOp, SplitOp
from ge.dialects.support.boxes import (
    MOVING,
    Access,
    BoxInterface,
    each_axes,
    prefix_axes,
    says_boxes,
)
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.dims import symbols
from ge.dialects.support.element_types import is_integer
from ge.dialects.support.operation import cloned, operands_of, ops_of, put_last, yielded
from ge.dialects.support.tensor_op import SplitInterface, TensorOp
from ge.dialects.support.types import element_type, normalize_axis, rank_of
from ge.transforms.analysis.dimensions import STEP, Dimensions, Size, stand_in, volume
from ge.transforms.shapes.fills import (
    UNKNOWN,
    Axes,
    Fill,
    FillKind,
    Folded,
    Mixes,
    computed,
    everywhere,
    fold,
    is_finite,
    is_index,
    is_low,
    is_mask,
    joined,
)
from ge.transforms.shapes.gears import Gears

Needed = tuple[frozenset[int], ...]  # for each operand the axes that go with one of a result

Asked = Callable[[BoxInterface, int, int], Needed | None]

Parts = dict[tuple[Operation, int, int, Asked], Needed]

FAR = 1 << 31  # an end of a slice beyond any axis


@dataclass
class Padding:
    """Facts of the values of a body, for one dimension."""

    dims: Dimensions
    size: Size
    axes: dict[SSAValue, Axes] = field(default_factory=dict[SSAValue, Axes])
    sizes: set[SSAValue] = field(default_factory=set[SSAValue])  # values that follow from the size
    # Values that have no axis for a padded one: a view of them may have it again
    folded: dict[SSAValue, Folded] = field(default_factory=dict[SSAValue, Folded])
    # Values that follow from sizes and constants, and from no input
    free: set[SSAValue] = field(default_factory=set[SSAValue])
    # Axes of results -> those of operands that go with them
    parts: Parts = field(default_factory=Parts)
    static: dict[Operation, TensorOp | None] = field(
        default_factory=dict[Operation, TensorOp | None]
    )
    # What values hold that are not padded, which is so for all dimensions too
    others: dict[SSAValue, Fill] = field(default_factory=dict[SSAValue, Fill])

    def depends(self, size: Size) -> bool:
        return bool(set(size.symbols) & set(self.size.symbols))

    def along(self, value: SSAValue) -> Axes:
        return self.axes.get(value, {})

    def fill(self, value: SSAValue, axis: int | None) -> Fill:
        """Return the fill of a value where the index along its axis is padded."""
        axes, folded = self.along(value), self.folded.get(value)
        if axis is not None and axis in axes:
            return axes[axis]
        if folded is not None and axis is not None:
            return joined([*folded.axes.values()])
        if value not in self.others:
            self.others[value] = everywhere(value)
        return self.others[value]

    # ---- the walk

    def block(self, block: Block) -> None:
        for op in ops_of(block):
            operands = operands_of(op)
            touched = any([self.is_known(v) for v in operands])
            if not isinstance(op, TensorOp) or not (touched or op.regions):
                continue
            if self.folded and not isinstance(op, View | ShapeOfOp):
                if not self.folded.keys().isdisjoint(operands):
                    self.rows(op)
                    continue
            if op.regions:
                if touched or self.is_touched(op):
                    raise Mixes(op)
                continue
            if all(map(self.is_free, operands)):
                self.free.update(op.results)
            for number, result in enumerate(op.results):
                if result.first_use is None:
                    continue
                axes = self.result(op, number)
                if not self.sizes.isdisjoint(operands) and result not in self.sizes:
                    self.check_sizes(result, axes)
                if axes:
                    self.axes[result] = dict(axes)

    def check_sizes(self, result: SSAValue, axes: Axes) -> None:
        """Raises Mixes where the size of an axis may follow from the padded one in another way."""
        for axis, size in enumerate(self.dims.of(result)):
            places = [self.dims.values[number] for number, _ in size.symbols]
            derived = any(not isinstance(v, BlockArgument) for v in places)
            if axis not in axes and (derived or self.depends(size)):
                raise Mixes(result.owner)

    def is_known(self, value: SSAValue) -> bool:
        return value in self.axes or value in self.sizes or value in self.folded

    def is_free(self, value: SSAValue) -> bool:
        return value in self.free or value in self.sizes or isinstance(value.owner, ConstantOp)

    def is_touched(self, op: Operation) -> bool:
        return any(self.is_known(v) for inner in op.walk() for v in inner.operands)

    def result(self, op: TensorOp, number: int) -> Axes:
        """The padded axes of a result. Raises Mixes."""
        if isinstance(op, ShapeOfOp):
            if any(map(self.depends, self.dims.of(op.input)[op.bounds()])):
                self.sizes.add(op.result)
            return {}
        follow = [v for v in operands_of(op) if v in self.sizes]
        if follow and is_shape_arithmetic(op):
            self.sizes.update(op.results)
            return {}
        match op:
            case RangeOp():
                return self.counted(op)
            case FillOp():
                return self.new_axes(op.results[0], {}, FillKind.FINITE)
            case BroadcastToOp():
                return self.broadcast(op)
            case View():
                return self.viewed(op)
            case SliceOp():
                return self.sliced(op)
            case _ if follow:
                raise Mixes(op)
            case MatmulOp():
                return self.multiplied(op)
            case ReduceOp():
                return self.reduced(op)
            case SoftmaxOp():
                return self.normalized(op)
            case AttentionOp():
                return self.attended(op)
            case SplitOp():
                return self.cut_apart(op)
            case CumulativeOp():
                return self.accumulated(op)
            case Picking():
                return self.gathered(op)
            case _:
                return self.split(op, number)

    # ---- axes that stay apart

    def split(self, op: TensorOp, number: int = 0, done: Sequence[tuple[int, int]] = ()) -> Axes:
        """Return the padded axes of a result, by the axes of which the first elements need the
        first ones of operands alone; padded axes in `done`, of operands, do not count."""
        if not says_boxes(op):
            raise Mixes(op, UNKNOWN)
        self.check_indices(op)
        left = {(i, a) for i, v in enumerate(operands_of(op)) for a in self.along(v)} - set(done)
        result: Axes = {}
        for asked in (each_axes, prefix_axes):
            for axis in range(rank_of(op.results[number])):
                if not left:
                    return result
                needed = self.needed(op, axis, number, asked)
                if covered := {p for p in left if p[1] in needed[p[0]]}:
                    left -= covered
                    result[axis] = self.made(op, needed, number)
        if left:
            index, axis = min(left)
            raise Mixes(op, f"{{}} needs all elements along axis {axis} of operand {index}")
        return result

    def check_indices(self, op: TensorOp) -> None:
        """Raises Mixes where what is padded is an index of no element: the kernel refuses it."""
        for value in op.index_operands():
            if not all(map(is_index, self.along(value).values())):
                raise Mixes(op, "{} has indices that are padded with what is no index")

    def needed(self, op: TensorOp, axis: int, number: int, asked: Asked) -> Needed:
        """For each operand the axes that go with one of a result."""
        key = op, axis, number, asked
        if key not in self.parts:
            if op.ACCESS is not Access.POINTWISE and op not in self.static:
                self.static[op] = self.with_numbers(op)
            static = self.static.get(op, op)
            needed = None if static is None else asked(static, axis, number)
            self.parts[key] = needed or (frozenset(),) * len(operands_of(op))
        return self.parts[key]

    def with_numbers(self, op: TensorOp) -> TensorOp | None:
        """Return the op with one number for each size; if it does not take these, with one for
        all."""
        numbers = {self.size: STEP}

        def apart(value: SSAValue, axis: int) -> int:
            return numbers.setdefault(self.dims.of(value)[axis], (len(numbers) + 1) * STEP)

        def alike(value: SSAValue, axis: int) -> int:
            return STEP

        return stand_in(op, apart) or stand_in(op, alike)

    def made(self, op: TensorOp, needed: Needed, number: int) -> Fill:
        """Return the fill of the padded part of a result."""
        fills = [
            self.fill(v, next(iter(axes), None))
            for v, axes in zip(op.operands, needed, strict=True)
        ]
        if isinstance(op, Elementwise | ClampOp):
            made = computed(op, fills)
            is_shared = made in (FillKind.FINITE, FillKind.COPY) and op.result in self.free
            return FillKind.SHARED if is_shared and is_integer(element_type(op.result)) else made
        padded = [f for f, axes in zip(fills, needed, strict=True) if axes]
        if op.ACCESS is Access.LOOKUP:
            data = op.operands[0]
            every = joined([fills[0], self.fill(data, None), *self.along(data).values()])
            return (
                fills[0]
                if not any(needed[1:])
                else FillKind.FINITE
                if every is FillKind.COPY
                else every
            )
        if op.ACCESS in MOVING:  # some put in elements of their own, such as zeros
            return joined(padded if isinstance(op, SplitInterface) else [*padded, FillKind.FINITE])
        if isinstance(op, MatmulOp) and 0.0 in padded and all(map(is_finite, fills)):
            return 0.0
        return FillKind.FINITE if all(map(is_finite, fills)) else FillKind.ANY

    # ---- new axes, and axes at other places

    def new_axes(self, result: SSAValue, old: Axes, fill: Fill) -> Axes:
        """The padded axes of a result whose other axes of this size are new."""
        axes = dict(old)
        for i, size in enumerate(self.dims.of(result)):
            if i not in axes and size == self.size:
                axes[i] = fill
            elif i not in axes and self.depends(size):
                raise Mixes(result.owner)
        return axes

    def counted(self, op: RangeOp) -> Axes:
        if op.start in self.sizes or op.delta in self.sizes:
            raise Mixes(op)
        return self.new_axes(op.results[0], {}, FillKind.INDEX)

    def broadcast(self, op: BroadcastToOp) -> Axes:
        offset = rank_of(op.result) - rank_of(op.input)
        old = {a + offset: f for a, f in self.along(op.input).items()}
        body = everywhere(op.input)
        return self.new_axes(op.result, old, body)

    def viewed(self, op: View) -> Axes:
        """An axis stays one where as many elements are after it, or as many places before it: then
        the first elements stay the first."""
        plain = Folded(self.dims.of(op.input), self.along(op.input))
        origin = self.folded.get(op.input, plain)
        source, result = origin.sizes, self.dims.of(op.results[0])
        axes: Axes = {}
        for axis, fill in origin.axes.items():
            inner = volume(source[axis + 1 :])
            same = [
                j for j, s in enumerate(result)
                if s == source[axis] and volume(result[j + 1 :]) == inner
            ]  # fmt: skip
            before = volume(source[:axis])
            first = next((j for j, s in enumerate(result)
                          if s.number != 1 and volume(result[:j]) == before), None)  # fmt: skip
            if same:
                axes[same[0]] = fill
            elif (
                first is not None
                and not self.depends(before)
                and not any(map(self.depends, (*source[axis + 1 :], *result[first + 1 :])))
            ):
                axes[first] = FillKind.FINITE if fill in (FillKind.INDEX, FillKind.COPY) else fill
            else:
                self.folded[op.results[0]] = fold(origin, result)
                return {}
        return axes

    def rows(self, op: TensorOp) -> None:
        """An op on folded values: each row of its results needs that row alone. Raises Mixes."""
        operands = operands_of(op)
        folds = {i: f for i, v in enumerate(operands) if (f := self.folded.get(v)) is not None}
        view = operands[next(iter(folds))].owner
        others = [v for i, v in enumerate(operands) if i not in folds]
        first, *more = folds.values()
        alike = first.count and all(f.group == first.group for f in more)
        if op.regions or not alike or any(map(self.is_known, others)) or not says_boxes(op):
            raise Mixes(view)
        for value in op.index_operands():
            if value in self.folded and not all(map(is_index, self.folded[value].axes.values())):
                raise Mixes(op, "{} has indices that are padded with what is no index")
        rows = {i: frozenset({f.at}) for i, f in folds.items()}
        wanted = tuple(rows.get(i, frozenset[int]()) for i, _ in enumerate(operands))
        for number, result in enumerate(op.results):
            own = self.dims.of(result)
            parts = (self.needed(op, axis, number, each_axes) for axis, _ in enumerate(own))
            if (axis := next((a for a, p in enumerate(parts) if p == wanted), None)) is None:
                raise Mixes(view)
            self.folded[result] = first.moved(axis, own, self.made(op, wanted, number))

    def sliced(self, op: SliceOp) -> Axes:
        bounds = op.bounds()
        if bounds is None:
            raise Mixes(op)
        axes = dict(self.along(op.input))
        for axis, start, end, step in bounds:
            size = self.dims.of(op.result)[axis]
            if axis not in axes and not self.depends(size) and self.dims.cut.get(size) is None:
                continue
            prefix = start == 0 and step == 1
            cut = self.dims.cut.get(size, size)
            if prefix and axis in axes and end is not None and end >= FAR:
                continue
            if prefix and axis in axes and end is not None and end > 0 and size.number is not None:
                del axes[axis]
            elif prefix and axis not in axes and cut == self.size:
                axes[axis] = FillKind.SHARED
            elif axis in axes or self.depends(cut):
                raise Mixes(op)
        return axes

    def cut_apart(self, op: SplitOp) -> Axes:
        axes = self.along(op.input)
        if normalize_axis(op.axis.value.data, rank_of(op.input)) in axes:
            raise Mixes(op)
        return axes

    # ---- sums, softmax, attention

    def multiplied(self, op: MatmulOp) -> Axes:
        k = op.summed
        a, b = self.along(op.lhs).get(k[0]), self.along(op.rhs).get(k[1])
        if a is None and b is None:
            return self.split(op)
        if a is None or b is None or 0.0 not in (a, b) or not (is_finite(a) and is_finite(b)):
            raise Mixes(op)
        return self.split(op, done=[(0, k[0]), (1, k[1])])

    def reduced(self, op: ReduceOp) -> Axes:
        axes, own = op.reduced_axes(), self.along(op.input)
        if axes is None:
            raise Mixes(op)
        neutral = {"sum": 0.0, "l1": 0.0, "l2": 0.0, "sum_square": 0.0, "prod": 1.0}
        for axis, fill in own.items():
            if axis not in axes:
                continue
            kind = op.kind.data
            fits = fill == neutral.get(kind) if kind in neutral else kind == "max" and (
                fill == float("-inf") or is_low(fill, op.input)
            )  # fmt: skip
            if not fits:
                raise Mixes(op)
        kept = bool(op.keep_dims.value.data)
        rest = [i for i in range(rank_of(op.input)) if i not in axes]
        finite = op.kind.data in ("sum", "mean", "max", "min", "l1", "sum_square")
        return {
            (axis if kept else rest.index(axis)): FillKind.FINITE
            if finite and is_finite(fill)
            else FillKind.ANY
            for axis, fill in own.items()
            if axis not in axes
        }

    def accumulated(self, op: CumulativeOp) -> Axes:
        """From the end, zeros add nothing to a running sum, and ones nothing to a product. A sum of
        zeros and ones counts."""
        neutral = {"sum": 0.0, "prod": 1.0}[op.kind.data]
        rows = op.row_axes() if op.reverse.value.data else None
        own = {a: f for a, f in self.along(op.input).items() if a in (rows or ()) and f == neutral}
        axes = {**self.split(op, done=[(0, a) for a in own]), **own}
        cast = op.input.owner
        ones = isinstance(cast, CastOp) and element_type(cast.input) == i1
        return dict.fromkeys(axes, FillKind.COUNT) if ones and op.kind.data == "sum" else axes

    def normalized(self, op: SoftmaxOp) -> Axes:
        last = normalize_axis(op.axis.value.data, rank_of(op.input))
        fill = self.along(op.input).get(last)
        if fill is None or op.flatten.value.data:
            return self.split(op)
        if not is_low(fill, op.input):
            raise Mixes(op)
        return {**self.split(op, done=[(0, last)]), last: 0.0}

    def attended(self, op: AttentionOp) -> Axes:
        """Keys that are padded have no weight; batch, heads and queries stay apart."""
        result: Axes = {}
        key, value = (self.along(v).get(op.dimension(name, 2))
                      for name, v in (("key", op.key), ("value", op.value)))  # fmt: skip
        defined = is_finite if op.undefined.data == "nan" else is_mask
        finite = all(
            (defined if v in op.masks else is_finite)(f)
            for v in op.operands
            for f in self.along(v).values()
        )
        if key is not None or value is not None:
            if not (key is not None and value is not None and is_finite(key) and is_finite(value)):
                raise Mixes(op)
            if not self.leaves_out(op):
                raise Mixes(op)
        positional = op.key_lengths is not None or op.offset_value is not None
        for axis, name in ((0, "query"), (1, "query"), (2, "query")):
            if op.dimension(name, axis) in self.along(op.query):
                if axis == 2 and positional:
                    raise Mixes(op)
                result[op.dimension("result", axis)] = FillKind.FINITE if finite else FillKind.ANY
        if op.dimension("query", 3) in self.along(op.query):
            raise Mixes(op)
        if op.dimension("value", 3) in self.along(op.value):
            raise Mixes(op)
        return result

    def leaves_out(self, op: AttentionOp) -> bool:
        """Return whether valid queries see no padded key."""
        for mask in op.masks:
            fill = self.along(mask).get(rank_of(mask) - 1)
            if fill is not None and (is_low(fill, mask) or self.is_false(op, mask, fill)):
                return True
        plain = op.key_lengths is None and op.offset_value is None and op.ints("offset") in (
            None, (0,)
        )  # fmt: skip
        queries = op.dimension("query", 2) in self.along(op.query)
        return bool(op.causal.value.data) and plain and queries

    def is_false(self, op: AttentionOp, mask: SSAValue, fill: Fill) -> bool:
        is_bool = getattr(mask.type, "element_type", None) == i1
        return is_bool and fill == 0.0 and is_low(float(op.fill.value.data), op.query)

    # ---- indices

    def gathered(self, op: Picking) -> Axes:
        """Constant indices from the front name valid elements."""
        indexed = op.indexed_axes()
        if from_front(op.indices):
            return self.split(op, done=[(0, a) for a in indexed])
        if isinstance(op, GatherNdOp) and not self.along(op.input).keys().isdisjoint(indexed):
            return self.gathered_vectors(op)
        return self.split(op)

    def gathered_vectors(self, op: GatherNdOp) -> Axes:
        """Indices that count along the axes of the data, in vectors that a concatenation makes."""
        data, indices = op.operands
        own = self.along(data)
        vectors = indices.owner
        if op.batch_dims.value.data or not isinstance(vectors, ConcatOp):
            raise Mixes(op)
        result: Axes = {}
        last = rank_of(indices) - 1
        parts = list(vectors.inputs)
        if normalize_axis(vectors.axis.value.data, last + 1) != last or any(
            self.dims.of(p)[last].number != 1 for p in parts
        ):
            raise Mixes(op)
        for i, part in enumerate(parts):
            counting = [a for a, f in self.along(part).items() if f is FillKind.INDEX]
            others = [
                f for f in self.along(part).values() if f not in (FillKind.INDEX, FillKind.COPY)
            ]
            if others or (i in own and len(counting) != 1):
                raise Mixes(op)
            for axis in self.along(part):
                result.setdefault(axis, FillKind.FINITE)
            if i in own:
                result[counting[0]] = own[i]
        if any(i >= len(parts) for i in own):
            raise Mixes(op)
        return result


def unfused(func: FuncOp) -> FuncOp:
    """A copy in which the members of fused ops stand by themselves."""
    body = func.body.block
    copy, block = func.clone_without_regions(), Block(arg_types=body.arg_types)
    values: dict[SSAValue, SSAValue] = dict(zip(body.args, block.args, strict=True))
    for op in body.ops:
        inside = op.members if isinstance(op, FusedOp) else [op]
        if isinstance(op, FusedOp):
            values |= {a: values[v] for a, v in zip(op.block.args, op.inputs, strict=True)}
        for member in inside:
            put_last(block, cloned(member, values))
        if isinstance(op, FusedOp):
            values |= {r: values[v] for r, v in zip(op.results, op.yielded, strict=True)}
    copy.body.add_block(block)
    return copy


def paddings(func: FuncOp, gears: Gears) -> Mapping[str, "str | list[tuple[int, int]]"]:
    """For each dimension of the gears the axes of outputs that are to be cut (number of the output,
    and axis), or why it cannot be padded."""
    copy = unfused(func)
    body = copy.body.block
    dims = Dimensions(copy.body)
    parts: Parts = {}
    others: dict[SSAValue, Fill] = {}
    result: dict[str, str | list[tuple[int, int]]] = {}
    for name, places in gears.places.items():
        if (reason := follows_from(name, gears)) is not None:
            result[name] = reason
            continue
        size = dims.of(body.args[places[0][0]])[places[0][1]]
        padding = Padding(dims, size, parts=parts, others=others)
        for i, axis in places:
            padding.axes.setdefault(body.args[i], {})[axis] = 0.0
        try:
            padding.block(body)
            result[name] = cut_axes(body, padding)
        except Mixes as mixes:
            owner, why = mixes.args
            result[name] = why.format(named(owner))
    return result


def follows_from(name: str, gears: Gears) -> str | None:
    """Return why a dimension that others follow from is not padded: an append to a cache would lie
    behind the padding."""
    for other in gears.names:
        if other != name and name in symbols(other):
            return f"'{other}' follows from it, whose padding would lie inside"
        if other != name and other in symbols(name):
            return f"it follows from '{other}'"
    return None


def named(owner: object) -> str:
    """An op by its name, and where the model has it."""
    if not isinstance(owner, Operation):
        return "an input"
    location = location_of(owner)
    where = location.name or str(location)
    return f"{owner.name} ({where})" if where else owner.name


def is_torn(size: Size, padding: Padding) -> bool:
    """Return whether a view has made a size that is no multiple of the padded one: rows of 16 out
    of those of 8, which only an even number of these fills."""
    made = (padding.dims.values[number].owner for number, _ in size.symbols)
    return size.over(padding.size) is None and any(isinstance(op, View) for op in made)


def cut_axes(body: Block, padding: Padding) -> list[tuple[int, int]]:
    for value in yielded(body):
        if value in padding.sizes or value in padding.folded:
            raise Mixes(value.owner)
        for axis in padding.along(value):
            if is_torn(padding.dims.of(value)[axis], padding):
                text = f"{{}} has no whole number of elements along axis {axis} for each that is"
                raise Mixes(value.owner, f"{text} padded")
    return [(i, axis) for i, v in enumerate(yielded(body)) for axis in padding.along(v)]
