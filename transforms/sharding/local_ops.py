"""The op that computes one device's part: mostly the same op, on parts.

    %y = graph.reshape %x shape [4, 32, 16] : (tensor<128x16xf32>) -> tensor<4x32x16xf32>
becomes for result [{"dp"=2}, {}, {}]
    %y = graph.reshape %x shape [2, 32, 16] : (tensor<64x16xf32>) -> tensor<2x32x16xf32>

Properties that are sizes or places become those of the part: what an op here says of them is all
that a class of ops has to state. A class that states nothing stays as it is, which is right for
dimensions that `SplitInterface` or `RowsInterface` names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import (
    AnyFloat,
    BoolAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.convolution import ConvOp, ConvTransposeOp
from ge.dialects.graph.creation import FillOp
from ge.dialects.graph.elementwise import AddOp, AndOp, CastOp, CompareOp, MulOp, SelectOp, SubOp
from ge.dialects.graph.image import GridSampleOp, ResizeOp
from ge.dialects.graph.indexing import (
    OneHotOp,
    Picking,
    Placing,
    ScatterElementsOp,
    TensorScatterOp,
    TopKOp,
)
from ge.dialects.graph.normalization import BatchNormOp
from ge.dialects.graph.pooling import LrnOp, PoolOp
from ge.dialects.graph.recurrent import Recurrent
from ge.dialects.graph.reduction import ReduceKind, ReduceOp
from ge.dialects.graph.shape import (
    BroadcastToOp,
    DepthToSpaceOp,
    ReshapeOp,
    SpaceToDepthOp,
    TileOp,
    TransposeOp,
    View,
)
from ge.dialects.graph.sharding import AxesAttr, AxisIndexOp, ShardOp, StageOp, Unseen
from ge.dialects.graph.slicing import ConcatOp, PadOp, SliceOp, SplitOp
from ge.dialects.graph.support.parameters import lowest, splat
from ge.dialects.support.boxes import Access
from ge.dialects.support.digits import all_digits
from ge.dialects.support.mesh import Axis, Sharding
from ge.dialects.support.operation import created
from ge.dialects.support.tensor_op import (
    RowsInterface,
    SplitInterface,
    TensorOp,
    attribute,
)
from ge.dialects.support.types import (
    UNKNOWN,
    Shape,
    array_ints,
    constant_value,
    element_type,
    normalize_axis,
    numel,
    set_type,
    shape_of,
    tensor,
)
from ge.transforms.sharding.resharding import as_needed, count
from ge.transforms.sharding.strategies import Need, Strategy, of_result

Add = Callable[[TensorOp], SSAValue]
"""Inserts an op; its first result."""


@dataclass(frozen=True, slots=True)
class Part:
    """The part of an op that a device computes: how, of which operands, in which shapes."""

    op: TensorOp
    strategy: Strategy
    needs: Sequence[Need]
    shapes: Sequence[Shape]  # of the results


def unseen(part: Part) -> Unseen:
    """The digits by whose places an op moves a device's one element past other dimensions,
    combines it with those of others, or gives the same one to others, or takes elements away or
    adds some, or has one window of, or by which it sums over equal elements: nothing is left of
    that in the program of a device."""
    return Unseen(repeated=_padded_again(part)).also(_unseen(part))


def _padded_again(part: Part) -> frozenset[Axis]:
    """The digits by whose places a dimension of one element on all devices is cut: behind it, where
    anything may stand, each device has that element too."""
    whole, dims = shape_of(part.op.results[0]), part.strategy.dims
    ones = [axes for n, axes in zip(whole, dims, strict=False) if n == 1]
    return frozenset(all_digits(a for axes in ones for a in axes))


def _unseen(part: Part) -> Unseen:
    if part.op.ALWAYS_MACS:
        return Unseen(summed=_summed_alike(part))
    if isinstance(part.op, Picking):
        return Unseen(repeated=_picked_again(part))
    if isinstance(part.op, PoolOp):
        return Unseen(windowed=_one_window(part))
    if not isinstance(part.op, ReduceOp) and part.op.ACCESS not in (Access.VIEW, Access.MOVEMENT):
        return Unseen()
    moved, combined = set[Axis](), set[Axis]()
    (shape, *_), dims = part.shapes, part.strategy.dims
    into = {a: d for d, axes in enumerate(dims) for a in all_digits(axes)}
    taken = set[Axis]()
    for need, value in zip(part.needs, part.op.operands, strict=True):
        cuts = need.dims if isinstance(need, Sharding) else ()
        taken.update(digit for axes in cuts for digit in all_digits(axes))
        for i, axes in enumerate(cuts):
            size = -(-shape_of(value)[i] // count(axes))
            for digit in all_digits(axes):
                j = into.get(digit)
                if j is None and size == 1:
                    combined.add(digit)
                elif j is not None and 1 in (size, shape[j]) \
                        and not _keeps_place(part.op, (i, len(cuts)), (j, len(dims))):  # fmt: skip
                    moved.add(digit)
    repeated = set[Axis]()
    if isinstance(part.op, BroadcastToOp | TileOp):
        repeated = {a for a, d in into.items() if shape[d] == 1} - moved - combined - taken
    return Unseen(*map(frozenset, (moved, combined, repeated, *_resized(part))))


def _summed_alike(part: Part) -> frozenset[Axis]:
    """The digits along which a product sums, if one of its operands is a constant of which all
    elements are equal."""
    sources = [v.owner.input if isinstance(v.owner, ShardOp) else v for v in part.op.operands]
    if all(constant_value(v) is None or splat(v) is None for v in sources):
        return frozenset()
    return frozenset(all_digits(a for axes in part.strategy.sums for a in axes))


def _picked_again(part: Part) -> frozenset[Axis]:
    """The digits by whose places a look-up at one place, the same for all, gives devices the same
    one element. Those that what it looks in is cut by are none."""
    need, places = part.needs[0], part.op.operands[1]
    if not isinstance(need, Sharding) or constant_value(places) is None or splat(places) is None:
        return frozenset()
    dims = zip(part.strategy.dims, part.shapes[0], strict=True)
    ones = {digit for axes, size in dims if size == 1 for digit in all_digits(axes)}
    return frozenset(ones.difference(*map(all_digits, need.dims)))


def _one_window(part: Part) -> frozenset[Axis]:
    """The digits by which windows are cut of which each device has one: it is over all that the
    device has, as a reduction is."""
    dims = zip(part.strategy.dims, part.shapes[0], shape_of(part.op.operands[0]), strict=True)
    ones = [axes for axes, size, before in dims if size == 1 and before > count(axes)]
    return frozenset(digit for axes in ones for digit in all_digits(axes))


def _resized(part: Part) -> tuple[set[Axis], set[Axis]]:
    """The digits by whose places a slice takes one element of so many, or slices and padding leave
    as many elements for each device, and where another one is the last one of all; and those by
    which all parts are full then."""
    op, resized, filled = part.op, set[Axis](), set[Axis]()
    if not isinstance(op, SliceOp | PadOp):
        return resized, filled
    before, after = shape_of(op.input), shape_of(op.result)
    for d, (place, size) in enumerate(as_needed(part.needs[0], before).spans):
        axes, steps = part.strategy.dims[d], [by for _, by in place.terms]
        parts = count(axes)
        is_same = place.constant == 0 and -(-before[d] // parts) == -(-after[d] // parts)
        if (is_same and before[d] != after[d]) or (size == 1 and steps and 1 not in steps):
            resized.update(all_digits(axes))
        if is_same and before[d] < after[d] and after[d] % parts == 0:
            filled.update(all_digits(axes))
    return resized, filled


def _keeps_place(op: TensorOp, source: tuple[int, int], target: tuple[int, int]) -> bool:
    """True if an op moves no other dimension past one; given are its number and the rank, before
    and after."""
    (i, rank), (j, new_rank) = source, target
    if isinstance(op, TransposeOp):
        return {*array_ints(op.permutation)[:j]} == {*range(i)}
    return i == j or rank - i == new_rank - j


def shapes_of(op: TensorOp, strategy: Strategy) -> list[Shape]:
    """The shapes of the parts of results."""
    shapes = map(shape_of, op.results)
    return [of_result(strategy.result, len(s)).local_shape(s) for s in shapes]


def may_cut(op: TensorOp, dim: int) -> bool:
    """Return whether an op of this class computes parts along a dimension of its result."""
    if isinstance(op, View | BroadcastToOp | SliceOp | ConcatOp | FillOp | TransposeOp):
        return True
    if isinstance(op, StageOp | BatchNormOp | DepthToSpaceOp | SpaceToDepthOp):
        return True
    if isinstance(op, ConvOp):
        return True
    if isinstance(op, ConvTransposeOp):
        return dim != 1 or op.groups == 1
    if isinstance(op, GridSampleOp):
        return dim == 0
    if isinstance(op, LrnOp):
        return dim != 1
    if isinstance(op, ResizeOp):
        return op.repeats().get(dim, 1) is not None and len(op.operands) == 1
    if isinstance(op, Recurrent):
        return dim == 2  # the batch
    if isinstance(op, TileOp):
        repeats = op.ints("repeats")
        return repeats is not None and repeats[dim] == 1
    if isinstance(op, PoolOp):
        window = op.window().resolved(shape_of(op.input)[2:])
        whole = any(window.pads) and not op.count_include_pad.value.data
        counts = op.kind.data != "max" and (whole or window.ceil_mode)
        return dim < 2 or not counts
    if isinstance(op, PadOp):
        if op.mode.data != "constant":
            return shape_of(op.input)[dim] == shape_of(op.result)[dim]
        return op.value is None or splat(op.value) is not None
    if isinstance(op, SplitOp):
        return dim != op.axis.value.data
    if isinstance(op, SplitInterface):
        return op.is_same_op(dim)
    if op.ACCESS is Access.POINTWISE:
        return True
    if isinstance(op, TopKOp):
        return dim != normalize_axis(op.axis.value.data, len(shape_of(op.input)))
    if isinstance(op, OneHotOp | TensorScatterOp):
        rank = len(shape_of(op.results[0]))
        return dim != normalize_axis(op.axis.value.data, rank)
    if isinstance(op, ScatterElementsOp) and dim not in op.indexed_axes():
        return shape_of(op.indices)[dim] == shape_of(op.input)[dim]  # else some have no updates
    if isinstance(op, Placing):
        return dim not in op.indexed_axes() or len(op.indexed_axes()) == 1
    return isinstance(op, RowsInterface | Picking)


def fill_of(op: TensorOp, index: int) -> float | int:
    """The number that stands beyond the ends of an operand."""
    if isinstance(op, PoolOp) and op.kind.data == "max":
        return lowest(element_type(op.input))
    if isinstance(op, ConvOp):
        return op.pad_value.value.data
    if isinstance(op, PadOp) and op.value is not None:
        return splat(op.value) or 0
    return 0


def build(
    part: Part, operands: Sequence[SSAValue], add: Add, is_known: bool = True
) -> list[SSAValue]:
    """The results of one device's part, from its parts of the operands. Raises VerifyException
    where there is no such op, unless it `is_known` that there is."""
    op, (shape, *_) = part.op, part.shapes
    if isinstance(op, View):
        return [add(ReshapeOp.of(operands[0], shape=shape, allow_zero=True))]
    if isinstance(op, BroadcastToOp):
        return [add(BroadcastToOp.of(operands[0], shape=shape))]
    if isinstance(op, FillOp):
        return [add(FillOp.of(value=op.value, shape=shape))]
    if isinstance(op, SliceOp):
        return [_sliced(op, part.strategy, operands[0], add)]
    if isinstance(op, PadOp):
        return [_padded(op, part.strategy, operands[0], add)]
    if isinstance(op, ConvTransposeOp):
        return [add(_transposed(part, operands))]
    if isinstance(op, ResizeOp) and op.sizes is not None:
        own = attribute([shape[a] for a in op.resized_axes()])
        return [add(with_properties(op, operands, {"sizes": own}))]
    if isinstance(op, ConvOp | PoolOp):
        return [add(_windowed(op, part.strategy, operands))]
    if isinstance(op, ReduceOp) and op.kind.data == "mean" and any(part.strategy.sums):
        return [_mean(op, operands[0], add)]
    if isinstance(op, Placing) and any(part.strategy.dims[a] for a in op.indexed_axes()):
        return [_placed(op, part.strategy, operands, add)]
    pairs = zip(part.shapes, op.results, strict=True)
    types = [tensor(shape, element_type(r)) for shape, r in pairs] if is_known else None
    new = op.with_operands(operands, types)
    add(new)
    return list(new.results)


def _placed(op: Placing, strategy: Strategy, operands: Sequence[SSAValue], add: Add) -> SSAValue:
    """Updates along a dimension that is cut: those of other parts go to a place behind the own
    elements, which is dropped."""
    x, at, updates = operands
    (axis,) = op.indexed_axes()
    size, own, element = shape_of(op.input)[axis], shape_of(x)[axis], element_type(at)

    def number(value: int) -> SSAValue:
        t = cast(TensorType[IntegerType], tensor((), element))
        return add(ConstantOp.make(DenseIntOrFPElementsAttr.from_list(t, [value]), t))

    first = add(AxisIndexOp.of(axes=AxesAttr(strategy.dims[axis])))
    if element != i64:
        first = add(CastOp.of(first, to=element))
    first = add(MulOp.of(first, number(own)))
    negative = add(CompareOp.of(at, number(0), predicate="lt"))
    at = add(SelectOp.of(negative, add(AddOp.of(at, number(size))), at))
    local = add(SubOp.of(at, first))
    before = add(CompareOp.of(local, number(0), predicate="ge"))
    behind = add(CompareOp.of(local, number(own), predicate="lt"))
    local = add(SelectOp.of(add(AndOp.of(before, behind)), local, number(own)))
    wide = add(PadOp.of(x, pads=[0, 1], axes=[axis]))
    placed = add(with_properties(op, [wide, local, updates], {}))
    return add(SliceOp.of(placed, starts=[0], ends=[own], axes=[axis]))


def _sliced(op: SliceOp, strategy: Strategy, x: SSAValue, add: Add) -> SSAValue:
    """Along dimensions that are cut, x is the box that the elements lie in."""
    rows: list[tuple[int, int, int, int]] = []
    for axis, start, end, step in op.bounds() or ():
        if start is None or end is None or step is None:
            raise VerifyException("bounds that are known at run time only")
        if not strategy.dims[axis]:
            rows.append((axis, start, end, step))
        elif step != 1:
            size = shape_of(x)[axis]
            ends = (0, size) if step > 0 else (size - 1, -size - 1)
            rows.append((axis, ends[0], ends[1], step))
    if not rows:
        return x
    axes, starts, ends, steps = zip(*rows, strict=True)
    return add(SliceOp.of(x, starts=starts, ends=ends, axes=axes, steps=steps))


def _padded(op: PadOp, strategy: Strategy, x: SSAValue, add: Add) -> SSAValue:
    """Along dimensions that are cut, x has its padding."""
    pads = op.ints("pads") or ()
    axes = op.ints("axes") or tuple(range(len(shape_of(x))))
    kept = [i for i, a in enumerate(axes) if not strategy.dims[a]]
    count = len(axes)
    if not any(pads[i] or pads[i + count] for i in kept):
        return x
    own = [pads[i] for i in kept] + [pads[i + count] for i in kept]
    value = None
    if op.value is not None and isinstance(op.value.owner, ConstantOp):
        value = add(ConstantOp.make(op.value.owner.value, op.value.type))
    kept_axes = [axes[i] for i in kept]
    return add(PadOp.of(x, pads=own, axes=kept_axes, mode=op.mode.data, value=value))


def _windowed(op: ConvOp | PoolOp, strategy: Strategy, operands: Sequence[SSAValue]) -> TensorOp:
    """Along dimensions that are cut, the input has its padding."""
    spatial = op.spatial() if isinstance(op, ConvOp) else shape_of(op.input)[2:]
    window = op.window().resolved(spatial)
    pads, rank = list(window.pads), window.rank
    for i in range(rank):
        if strategy.dims[2 + i]:
            pads[i] = pads[i + rank] = 0
    cut = any(strategy.dims[2:])
    changed: dict[str, Attribute | None] = {"auto_pad": None, "pads": attribute(pads)}
    if isinstance(op, ConvOp) and op.groups > 1 and strategy.dims[1]:
        groups, rest = divmod(op.groups, count(strategy.dims[1]))
        if rest:
            raise VerifyException("parts of groups")
        changed["group"] = attribute(groups)
    if cut and isinstance(op, PoolOp):
        changed["ceil_mode"] = BoolAttr.from_bool(False)
    return with_properties(op, operands, changed)


def _transposed(part: Part, operands: Sequence[SSAValue]) -> TensorOp:
    """Along dimensions that are cut, the input has all that reaches the part of the result, and
    what it reaches around that is taken away."""
    op = part.op
    assert isinstance(op, ConvTransposeOp)
    window, extra = op.transposed_window(shape_of(op.weight)[2:]), list(op.extra())
    pads, rank = list(window.pads), window.rank
    for i in range(rank):
        if not part.strategy.dims[2 + i]:
            continue
        if op.input_channels_last.value.data:
            raise VerifyException("channels are last")
        stride, shape = window.strides[i], shape_of(op.result)
        first, _ = as_needed(part.needs[0], shape_of(op.input)).spans[2 + i]
        begin, _ = as_needed(of_result(part.strategy.result, len(shape)), shape).spans[2 + i]
        if dict(begin.terms) != {axis: by * stride for axis, by in first.terms}:
            raise VerifyException("parts that begin at another element of their steps")
        reached = (shape_of(operands[0])[2 + i] - 1) * stride + window.extent(i)
        pads[i] -= first.constant * stride
        pads[i + rank], extra[i] = reached - pads[i] - part.shapes[0][2 + i], 0
    if min(pads) < 0:
        raise VerifyException("elements that nothing reaches")
    changed = {"auto_pad": None, "pads": attribute(pads), "output_padding": attribute(extra)}
    return with_properties(op, operands, changed)


def _mean(op: ReduceOp, x: SSAValue, add: Add) -> SSAValue:
    """A part of the sum, divided by the number of elements of all parts."""
    axes, element = op.reduced_axes() or (), element_type(x)
    count = numel([shape_of(op.input)[a] for a in axes])
    total = add(with_properties(op, [x], {"kind": ReduceKind.of("sum")}))
    factor = DenseIntOrFPElementsAttr.from_list(
        cast(TensorType[AnyFloat], tensor((), element)), [1.0 / count]
    )
    return add(MulOp.of(total, add(ConstantOp.make(factor, tensor((), element)))))


def with_properties(
    op: TensorOp, operands: Sequence[SSAValue], changed: Mapping[str, Attribute | None]
) -> TensorOp:
    """An op with other operands and properties (None: without), of which its types follow."""
    properties = {**op.properties, **{k: v for k, v in changed.items() if v is not None}}
    properties = {k: v for k, v in properties.items() if changed.get(k, v) is not None}
    new = created(type(op), operands, [UNKNOWN] * len(op.results), properties)
    for value, t in zip(new.results, new.inferred(), strict=True):
        set_type(value, t)
    return new


def builds(op: TensorOp, strategy: Strategy, needs: Sequence[Need]) -> bool:
    """Return whether the op of one device's part can be built, with results of the right shapes."""
    if is_concat(op, strategy):
        return True  # of boxes, which follow each other
    made = local(op, strategy, needs)
    drop(made or ())
    return made is not None


def local(op: TensorOp, strategy: Strategy, needs: Sequence[Need]) -> list[TensorOp] | None:
    """The ops of one device's part, of operands of their own and in no block; None where there are
    none with results of the right shapes."""
    types = [
        tensor(local_shape(need, shape_of(v)), element_type(v))
        for v, need in zip(op.operands, needs, strict=True)
    ]
    block, made, shapes = Block(arg_types=types), list[TensorOp](), shapes_of(op, strategy)

    def add(new: TensorOp) -> SSAValue:
        made.append(new)
        return new.results[0]

    try:
        results = build(Part(op, strategy, needs, shapes), block.args, add, is_known=False)
        if [shape_of(r) for r in results] == shapes:
            return made
    except (VerifyException, ValueError):
        pass
    drop(made)
    return None


def drop(made: Sequence[TensorOp]) -> None:
    for new in reversed(made):
        new.drop_all_references()


def local_shape(need: Need, shape: Shape) -> Shape:
    return need.local_shape(shape) if isinstance(need, Sharding) else need.sizes


def is_concat(op: TensorOp, strategy: Strategy) -> bool:
    """Return whether an op puts values together along a dimension that is cut."""
    return isinstance(op, ConcatOp) and bool(strategy.dims[op.axis.value.data])
