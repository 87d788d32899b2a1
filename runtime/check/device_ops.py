"""The forms of results of ops, from those of their operands (see `device_values.py`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from math import inf, prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph import collectives as c
from ge.dialects.graph import elementwise as e
from ge.dialects.graph.acknowledge import AcknowledgeOp
from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.constant import ConstantOp as GraphConstantOp
from ge.dialects.graph.convolution import ConvOp, ConvTransposeOp
from ge.dialects.graph.creation import RandomOp
from ge.dialects.graph.image import ResizeOp
from ge.dialects.graph.indexing import GatherOp, ScatterNdOp
from ge.dialects.graph.linear import GroupedMatmulOp, MatmulOp
from ge.dialects.graph.normalization import SoftmaxLike, TrailingNorm
from ge.dialects.graph.quantization import DequantizeOp, Granular, RequantizeOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import BroadcastToOp, ReshapeOp, TransposeOp, View
from ge.dialects.graph.sharding import AxisIndexOp, ShardOp
from ge.dialects.graph.slicing import ConcatOp, SliceOp
from ge.dialects.graph.support.parameters import highest, lowest, splat_bytes
from ge.dialects.support.boxes import Access, Box, Unknown
from ge.dialects.support.digits import all_digits
from ge.dialects.support.mesh import SUM, Axis
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    Shape,
    element_type,
    is_static,
    normalize_axis,
    shape_of,
)
from ge.runtime.check.device_collectives import Received
from ge.runtime.check.device_forms import (
    EMPTY,
    MOST_KNOWN,
    Cut,
    Forms,
    Kind,
    Numbers,
    forms,
    names,
    reshaped,
)
from ge.runtime.check.device_parts import depends_on_place, part_of, read_by

NEUTRAL: Mapping[str, Callable[[Attribute], int | float]] = {
    "sum": lambda _: 0, "prod": lambda _: 1, "max": lowest, "min": highest,
}  # fmt: skip
REDUCES = {"sum": SUM, "sum_square": SUM, "l1": SUM, "max": "max", "min": "min", "prod": "prod"}
MOVES = View | TransposeOp | BroadcastToOp | SliceOp | e.CastOp
MOVING = Access.VIEW, Access.MOVEMENT

MOST_CHOICES = 64  # of forms of the operands of an op

COMPUTED: Mapping[type[Operation], Any] = {
    e.AddOp: np.add, e.SubOp: np.subtract, e.MulOp: np.multiply, e.MinimumOp: np.minimum,
    e.MaximumOp: np.maximum, e.AndOp: np.bitwise_and, e.OrOp: np.bitwise_or,
    e.SelectOp: np.where,
}  # fmt: skip
COMPARED = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
            "eq": np.equal, "ne": np.not_equal}  # fmt: skip


def computed(op: TensorOp, arrays: Sequence[Any]) -> Any:
    """The elements of a result, None where they are not computed here."""
    match op:
        case e.CompareOp():
            return COMPARED[op.predicate.data](*arrays)
        case ReshapeOp():
            return arrays[0].reshape(shape_of(op.result))
        case e.ClampOp():
            low, high = iter(arrays[1:]), op.high is not None
            least = next(low) if op.low is not None else -inf
            return np.clip(arrays[0], least, next(low) if high else inf)
        case GatherOp():
            return np.take(arrays[0], arrays[1].astype(np.int64), op.axis.value.data, mode="clip")
        case e.CastOp():
            return arrays[0]
        case _:
            function = COMPUTED.get(type(op))
            return None if function is None else function(*arrays)


def constant_form(value: Attribute, shape: Shape, devices: Sequence[int]) -> Kind:
    """The form of a constant, with its elements where they are in the text, and not many."""
    if not isinstance(value, DenseIntOrFPElementsAttr):
        return Kind()
    dense = cast("DenseIntOrFPElementsAttr[Any]", value)
    loose = bool(shape) and splat_bytes(dense) is not None
    if prod(shape) > MOST_KNOWN:
        return Kind(free=True, loose=loose)
    found = np.array(list(dense.get_values()))
    array = np.full(shape, found[0]) if len(found) == 1 else found.reshape(shape)
    return Kind(free=True, loose=loose, known=dict.fromkeys(devices, array))


def through(op: TensorOp, index: int, result: int, exactly: bool = False) -> dict[int, int]:
    """The dimensions of an operand of which part i is what part i of a dimension of the result
    needs: dimension of the operand -> dimension of the result. Windows, and several elements that
    share one, count if not `exactly`."""
    shape, found = shape_of(op.results[result]), dict[int, int]()
    for dim in range(len(shape)):
        part = Unknown()
        box = op.operand_box(index, Box.part(shape, {dim: (part, 1)}), result)
        for i, (offset, size) in enumerate(() if box is None else box.spans):
            if (offset is part and size == 1) or (isinstance(offset, Unknown) and not exactly):
                found[i] = dim
    own = shape_of(op.operands[index])
    before = aligned(op, index, result)
    for i in range(len(own)):  # dimensions of one element, of which boxes say nothing
        dim = i + before
        is_free = i not in found and (index, i) not in combined(op) and dim not in found.values()
        if is_free and own[i] == 1 and dim >= 0 and shape[dim] == 1:
            found[i] = dim
    return found


def aligned(op: TensorOp, index: int, result: int) -> int:
    """The dimension of a result that the first one of an operand is that of: operands have the last
    ones, and what is a number for each matrix, or for each index along an axis, has these."""
    shape, own = shape_of(op.results[result]), shape_of(op.operands[index])
    if isinstance(op, GroupedMatmulOp) and index == 2:
        return 0
    if isinstance(op, Granular | RequantizeOp) and len(own) == 1 and op.axis is not None:
        axis = normalize_axis(op.axis.value.data, len(shape))
        if own == (shape[axis],):
            return axis
    return len(shape) - len(own)


def turned(op: GatherOp, own: Sequence[Kind]) -> Kind | None:
    """The form of elements that each device takes from the last ones of its part on, as a slice
    does; None for any others."""
    data, index = own
    if index.known is None or index.varies or len(shape_of(op.indices)) != 1:
        return None
    axis, taken = op.axis.value.data, next(iter(index.known.values())).tolist()
    cut, size = next((x for x in data.cuts if x.dim == axis), None), shape_of(op.input)[axis]
    steps = {b - a for a, b in pairwise(taken)}
    if cut is None or cut.minor or len(steps) != 1 or max(steps) >= 0 or not 0 <= taken[0] < size:
        return None
    (step,) = steps
    new = read_by(lambda j: (taken[0] + step * j, 1), cut, (size, len(taken)), axis)
    if not isinstance(new, Cut):
        return None
    return replace(data, cuts=tuple(new if x is cut else x for x in data.cuts), known=None)


def combined(op: TensorOp) -> dict[tuple[int, int], str]:
    """The dimensions of operands that an op combines, and how: (operand, dimension) -> kind."""
    if isinstance(op, MatmulOp):
        return dict.fromkeys(enumerate(op.summed), SUM)
    if isinstance(op, ReduceOp) and (kind := REDUCES.get(op.kind.data)):
        return {(0, a): kind for a in op.reduced_axes() or ()}
    if isinstance(op, ConvOp) and op.groups == 1:
        return {(0, op.channel_axis): SUM, (1, 1): SUM}
    if isinstance(op, ConvTransposeOp) and op.groups == 1:
        return {(0, op.channel_axis): SUM, (1, 0): SUM}
    if isinstance(op, ScatterNdOp) and op.reduction.data == "add":
        return {(i, d): SUM for d in range(len(shape_of(op.indices)) - 1) for i in (1, 2)}
    return {}


def is_own_row(op: TensorOp, index: int, cut: Cut, own: Sequence[Kind]) -> bool:
    """True for places that a device takes of its row of an operand of which each device has one:
    they are a row of such places, whose dimension of one element is gone."""
    if not isinstance(op, GatherOp) or not index:
        return False
    axis, shape = op.axis.value.data, shape_of(op.input)
    return any(x.axes == cut.axes and x.dim != axis and shape[x.dim] == 1 for x in own[0].cuts)


def is_group(op: TensorOp, index: int, cut: Cut, own: Sequence[Kind]) -> bool:
    """True for channels of which each device has one group, with the weights of that group."""
    if not isinstance(op, ConvOp) or index or cut.dim != op.channel_axis or not cut.is_part:
        return False
    return any((cut.axes, 0) == place for place in own[1].places)


def is_shared_head(op: TensorOp, index: int, cut: Cut, queries: Cut) -> bool:
    """True for a head of keys or values that is that of all query heads on a device and on those
    beside it: the last digits by which these are cut tell apart devices that have the same one."""
    if not isinstance(op, AttentionOp) or index not in (1, 2):
        return False
    heads = shape_of(op.operands[index])[op.dimension(op.KEYED[index - 1], 1)]
    are_heads = op.dimension("result", 1) == cut.dim == queries.dim
    parts = prod(axis.size or 1 for axis in cut.axes)
    return are_heads and heads == 1 and cut.whole in (None, parts) \
        and queries.axes[: len(cut.axes)] == cut.axes  # fmt: skip


def needs_whole(op: TensorOp, cut: Cut) -> bool:
    """True if each element of a result needs all elements along a dimension, or neighbors that
    parts lack, unless they overlap as `cut` says."""
    if isinstance(op, SoftmaxLike | TrailingNorm):
        return cut.dim in op.row_axes()
    if isinstance(op, ResizeOp) and op.mode.data != "nearest" and (cut.is_part or cut.minor):
        return op.repeats().get(cut.dim, 1) is None
    return False


def repeats(op: TensorOp, index: int, dim: int, result: int) -> bool:
    """True if an op repeats a dimension of one element of an operand."""
    own, shape = shape_of(op.operands[index]), shape_of(op.results[result])
    is_repeat = op.ACCESS is Access.POINTWISE or isinstance(op, BroadcastToOp)
    return is_repeat and own[dim] == 1 < shape[dim + aligned(op, index, result)]


def may_be_zeros(form: Kind) -> bool:
    """True for a constant of which no element is known to be another number than 0."""
    return form.free and not any(np.any(array) for array in (form.known or {}).values())


def keeps_terms(op: TensorOp, own: set[int], kind: str) -> bool:
    """True if of operands that are terms of a sum, a result is the terms of a sum as well: its
    other operands are the same on all devices."""
    count = len(op.operands)
    if isinstance(op, MOVES) or op.ACCESS in MOVING:
        return own == {0} or (isinstance(op, ConcatOp) and len(own) == count)
    if isinstance(op, e.SelectOp):
        return 0 not in own
    if kind != SUM:
        names = {"max": e.MaximumOp, "min": e.MinimumOp, "prod": e.MulOp}
        return isinstance(op, names[kind]) and len(own) == count
    if isinstance(op, e.AddOp | e.SubOp):
        return len(own) == count
    if isinstance(op, e.MulOp | MatmulOp | ConvOp):
        return len(own) == 1 and 2 not in own
    if isinstance(op, DequantizeOp):  # x times a scale, unless something is taken from x before
        return own == {0} and op.zero_point is None
    is_sum = isinstance(op, ReduceOp) and op.kind.data in ("sum", "mean")
    return (isinstance(op, e.NegOp | e.DivOp | GatherOp) and own == {0}) or is_sum


def choices(own: Sequence[Forms]) -> Sequence[Sequence[Kind]]:
    """One form of each value, in all ways; where there are too many, those that have the same ones
    have the same one."""
    if prod(map(len, own)) <= MOST_CHOICES:
        return list(product(*own))
    differ = list(dict.fromkeys(own))
    if prod(map(len, differ)) <= MOST_CHOICES:
        ways = (
            dict(zip(differ, at, strict=True)) for at in product(*(range(len(x)) for x in differ))
        )
        return [[x[way[x]] for x in own] for way in ways]
    return [[kinds[0] if len(kinds) == 1 else kinds[0].varying() for kinds in own]]


class Tensors(Received):
    """Follows ops on tensors, those in which devices send each other something too."""

    def block(self, block: Block, found: dict[SSAValue, Forms]) -> list[Forms]:
        """Follow a block from the forms of its arguments; return those of what it ends with."""
        for op in block.ops:
            if isinstance(op, TensorOp):
                own = [found[v] for v in op.operands]
                found |= zip(op.results, self.op(op, own), strict=True)
            elif op is block.last_op:
                return [found[v] for v in op.operands]
        return []

    def op(self, op: TensorOp, own: Sequence[Forms]) -> Sequence[Forms]:
        """The forms of the results of an op."""
        if isinstance(op, FusedOp):
            return self.block(op.block, dict(zip(op.block.args, own, strict=True)))
        return self.of_each(own, lambda kinds: self.of_kinds(op, kinds))

    def of_each(
        self, own: Sequence[Forms], step: Callable[[Sequence[Kind]], Sequence[Forms]]
    ) -> Sequence[Forms]:
        """Return what a step makes of values, of which it may have some forms: without problems."""
        problems, wrong, found = self.problems, list[Any](), list[Any]()
        for kinds in choices(own):
            self.problems = []
            results = step(kinds)
            (wrong if self.problems else found).append((results, self.problems))
        self.problems = problems
        if not found:
            problems += wrong[0][1]
        rows = [results for results, _ in found or wrong[:1]]
        return [forms(kind for own in column for kind in own) for column in zip(*rows)]

    def of_kinds(self, op: TensorOp, own: Sequence[Kind]) -> Sequence[Forms]:
        """The forms of results, for one form of each operand."""
        if op.results and all(0 in shape_of(r) for r in op.results):
            return [(EMPTY,)] * len(op.results)
        for i, form in enumerate(own):
            is_place = isinstance(op, c.ExchangeOp) and i == 1
            if form.hole and not is_place and not isinstance(op, AcknowledgeOp):
                text = f"reads operand {i} with elements beyond the ends of a value, of which "
                self.report("D10", op, f"{text}nothing is said")
        match op:
            case GraphConstantOp():
                return [(constant_form(op.value, shape_of(op.result), self.devices),)]
            case AxisIndexOp():
                axes = op.axes.data
                known = {d: np.array(self.mesh.index(axes, d)) for d in self.devices}
                return [(Kind(varies=all_digits(axes), free=True, known=known),)]
            case AcknowledgeOp():
                return []
            case ShardOp():
                return [(form,) for form in own]
            case c.OfWhole():
                return [(self.moved(op, own),)]
            case c.AllGatherOp():
                return [(self.gathered(op, own[0]),)]
            case c.AllReduceOp() | c.ReduceScatterOp():
                return [(self.reduced(op, own[0]),)]
            case RandomOp():
                if differs := own[0].axes:
                    text = f"draws by seeds that differ along {names(differs)}: other numbers than "
                    self.report("D17", op, f"{text}one device draws")
                return [(Kind(drawn=not differs, varies=tuple(sorted(differs))),)]
            case _:
                return self.local(op, own)

    def local(self, op: TensorOp, own: Sequence[Kind]) -> Sequence[Forms]:
        """The forms of results of an op on what a device has."""
        known = self.known(op, own)
        if not any(f.axes for f in own):
            free = all(f.free for f in own)
            draws = [self.draws(op, own, r) for r in range(len(op.results))]
            found: list[Forms] = [(Kind(free=free, known=known, drawn=drawn),) for drawn in draws]
        elif isinstance(op, ReshapeOp):
            found = [reshaped(own[0], shape_of(op.input), shape_of(op.result), self.unseen)]
        elif isinstance(op, ReduceOp):
            found = [(self.of_windows(op, own[0]),)]
        else:
            found = [(self.of_parts(op, own, r),) for r in range(len(op.results))]
        # what is repeated along a dimension is the same in all parts of it
        repeats = isinstance(op, BroadcastToOp)
        # one element of an index repeats nothing
        is_index = isinstance(op, GatherOp) and shape_of(op.indices) in ((), (1,))
        loose = repeats or any(f.loose for f in (own[:1] if is_index else own))
        return [tuple(replace(f, known=known, loose=loose) for f in kinds) for kinds in found]

    def draws(self, op: TensorOp, own: Sequence[Kind], result: int) -> bool:
        """True for a result that has another random number for each of its elements."""
        shape = shape_of(op.results[result])
        pairs = zip(own, op.operands, strict=True)
        return any(
            f.drawn
            and shape_of(v) == shape
            and through(op, i, result, exactly=True) == {d: d for d in range(len(shape))}
            for i, (f, v) in enumerate(pairs)
        )

    def known(self, op: TensorOp, own: Sequence[Kind]) -> Numbers | None:
        if len(op.results) != 1 or not own or not is_static(shape_of(op.results[0])):
            return None
        if prod(shape_of(op.results[0])) > MOST_KNOWN or any(f.known is None for f in own):
            return None
        found = dict[int, Any]()
        for device in self.devices:
            array = computed(op, [cast(Numbers, f.known)[device] for f in own])
            if array is None:
                return None
            found[device] = array
        return found

    # ---- ops on what a device has

    def of_windows(self, op: ReduceOp, form: Kind) -> Kind:
        """The form of what an op reduces, which may be one window for each device."""
        axes, windowed = op.reduced_axes() or (), self.unseen.windowed
        windows = [c for c in form.cuts if c.dim in axes and {*c.axes} <= windowed]
        others = tuple(c for c in form.cuts if c not in windows)
        found = self.of_parts(op, [replace(form, cuts=others)], 0)
        own = tuple(a for c in windows for a in c.axes)
        unsure = found.unsure | {*own}
        if len(shape_of(op.result)) < len(shape_of(op.input)):
            return replace(found, varies=(*found.varies, *own), unsure=unsure)
        cuts = *found.cuts, *(Cut(c.axes, c.dim) for c in windows)
        return replace(found, cuts=cuts, unsure=unsure)

    def of_parts(self, op: TensorOp, own: Sequence[Kind], result: int) -> Kind:
        if isinstance(op, GatherOp):
            self.check_taken(op, own)
            if (part := self.own_part(op, own) or turned(op, own)) is not None:
                return part
        kinds, cuts, terms = combined(op), dict[frozenset[Axis], Cut](), list[Axis]()
        kind, free = SUM, all(f.free for f in own)
        varies = [a for f in own if not f.free for a in f.varies]
        unsure, looked_up = frozenset(a for f in own for a in f.unsure), list[Axis]()
        takes_places = op.ACCESS is not Access.POINTWISE and any(
            {*f.varies} & ({*f.varies} if f.free else f.unsure) for f in own
        )
        for i, form in enumerate(own):
            follows = through(op, i, result) if form.cuts else {}
            for cut in (x for x in form.cuts if not is_own_row(op, i, x, own)):
                if is_group(op, i, cut, own):
                    self.add_cut((op, result), own, i, Cut(cut.axes, 1), cuts, unsure)
                elif cut.dim not in follows and (i, cut.dim) in kinds:
                    kind = kinds[i, cut.dim]
                    terms += cut.axes
                    self.check_combined(op, i, cut, kind, own)
                elif needs_whole(op, cut) and not i and not unsure & {*cut.axes}:
                    varies += cut.axes
                    text = f"a device has a part of each row, cut along {names(cut.axes)}"
                    self.report("D19", op, text)
                elif cut.dim in follows:
                    new = self.through_windows(op, i, cut, follows, result)
                    if new is None:
                        unsure |= frozenset(cut.axes)
                        new = Cut(cut.axes, follows[cut.dim])
                    new = replace(new, dim=follows[cut.dim])
                    self.add_cut((op, result), own, i, new, cuts, unsure)
                elif takes_places:
                    looked_up += cut.axes
                else:
                    varies += cut.axes
                    if repeats(op, i, cut.dim, result) and not unsure & {*cut.axes}:
                        text = f"a device's element along {names(cut.axes)} is repeated, as if it "
                        self.report("D19", op, f"{text}were all there is")
                    elif shape_of(op.operands[i])[cut.dim] == 1:  # boxes do not say where it goes
                        unsure |= frozenset(cut.axes)
        self.check_places(op, own, cuts, unsure, result)
        terms, kind = self.terms(op, own, terms, kind, varies)
        parts = {a for cut in cuts.values() for a in cut.axes}
        if both := (parts & {*terms}) - unsure:
            text = f"has parts along {names(both)} of one operand, and terms of a sum of another"
            self.report("D12", op, text)
        placed = parts | {*terms}
        by_place = [a for f in own if f.free for a in f.varies if a not in placed]
        varies += by_place
        varies += [a for a in looked_up if a not in placed]
        if takes_places and not free:
            unsure |= frozenset(varies)  # what is taken by them may be a part
        unsure |= frozenset(() if free else by_place)
        lost = set(varies)
        kept = [cut for cut in cuts.values() if not lost & set(cut.axes)]
        varies += [a for cut in cuts.values() if lost & set(cut.axes) for a in cut.axes]
        left = tuple(a for a in dict.fromkeys(terms) if a not in varies)
        form = Kind(tuple(kept), left, kind, tuple(dict.fromkeys(varies)), free)
        return self.filled(op, own, replace(form, unsure=unsure & form.axes))

    def add_cut(
        self, of: tuple[TensorOp, int], own: Sequence[Kind], index: int, cut: Cut,
        cuts: dict[frozenset[Axis], Cut], unsure: frozenset[Axis],
    ) -> None:  # fmt: skip
        """Hold the parts of an operand against those of others, for a result of an op."""
        op, result = of
        moved = isinstance(op, MOVES) or op.ACCESS in MOVING
        cut = replace(cut, fill=cut.fill if moved else None)
        key = frozenset(cut.axes)
        for other, form in enumerate(own):
            if (
                other == index
                or form.axes & key
                or form.free
                or self.repeats(form, key)
                or unsure & key
            ):
                continue
            sizes = shape_of(op.operands[other])
            ways = through(op, other, result, exactly=True)
            if any(m == cut.dim and sizes[d] > 1 for d, m in ways.items()):
                axes = names(cut.axes)
                text = f"operand {index} is cut along {axes}, and operand {other}, the same on all "
                self.report("D11", op, f"{text}devices, is taken for a part")
        for axes, known in list(cuts.items()):
            if not axes & key:
                continue
            if axes == key and (known.axes, known.dim) == (cut.axes, cut.dim):
                whole = cut.whole if known.whole is None else known.whole
                edges = tuple(map(max, cut.edges, known.edges))
                cuts[key] = Cut(cut.axes, cut.dim, whole, step=cut.step, edges=(edges[0], edges[1]))
                if cut.step != known.step and not unsure & key:
                    text = f"parts of operands along {names(cut.axes)} lie {known.step} and "
                    self.report("D19", op, f"{text}{cut.step} elements apart")
                return
            if not unsure & (key | axes) and not is_shared_head(op, index, cut, known):
                text = f"operands are cut differently by {names(cut.axes)}"
                self.report("D11", op, text)
            return
        cuts[key] = cut

    def through_windows(
        self, op: TensorOp, index: int, cut: Cut, follows: Mapping[int, int], result: int
    ) -> Cut | None:
        """The cut of a result that needs windows of a cut operand; None where it is not known."""
        dim = cut.dim
        exact = through(op, index, result, exactly=True)
        size = shape_of(op.operands[index])[dim]
        along, shape = follows.get(dim), shape_of(op.results[result])
        same_rank = len(shape) == len(shape_of(op.operands[index]))
        if op.ACCESS in MOVING and same_rank and along != dim and shape[dim] == 1 < size:
            return None  # boxes say nothing of a dimension of which one element is left
        count = -1 if along is None else shape_of(op.results[result])[along]
        is_exact = along in exact.values()
        if is_exact and count == size and (size > 1 or not cut.step):  # of one, steps are not seen
            return cut
        if along is None or not is_static((size, count)):
            return None
        if isinstance(op, ConcatOp) and along == op.axis.value.data:
            if cut.minor:
                return replace(cut, dim=along)
            return replace(cut.of_step(cut.step or size, count), dim=along, whole=None)
        new = part_of(op, index, cut, (dim, along), result)
        if isinstance(new, str):
            self.report("D19", op, f"{new} on each device along {names(cut.axes)}")
            return None
        return new

    def check_taken(self, op: GatherOp, own: Sequence[Kind]) -> None:
        """Check that indices that are known take nothing that is none of the whole's."""
        axis, size = op.axis.value.data, shape_of(op.input)[op.axis.value.data]
        for cut in own[0].cuts:
            if cut.dim != axis or not any(cut.edges):
                continue
            low, high = cut.edges
            places = [index % size for index in (own[1].known or {}).values()]
            if any(((i < low) | (i >= size - high)).any() for i in places):
                self.report("D19", op, f"takes elements of what is {cut.wrong}")

    def check_places(
        self, op: TensorOp, own: Sequence[Kind], cuts: Mapping[frozenset[Axis], Cut],
        unsure: frozenset[Axis], result: int,
    ) -> None:  # fmt: skip
        """Check that no element of a part needs other elements of an operand, of which devices have
        the same, than it would if its part were the first one."""
        for cut in cuts.values():
            if unsure & {*cut.axes} or op.ACCESS is Access.POINTWISE:
                continue
            for i, form in enumerate(own):
                if form.axes & {*cut.axes} or form.free or self.repeats(form, cut.axes):
                    continue
                if depends_on_place(op, i, cut.dim, result):
                    text = f"an element along {names(cut.axes)} needs other elements of operand {i}"
                    self.report("D19", op, f"{text} the further behind it is in its part")

    def check_combined(
        self, op: TensorOp, index: int, cut: Cut, kind: str, own: Sequence[Kind]
    ) -> None:
        """Check that all that is combined is there in parts, and nothing behind the last one."""
        dim = cut.dim
        if isinstance(op, ScatterNdOp) and not may_be_zeros(own[0]):
            text = "adds parts of a sum to elements that each device has: these count several times"
            self.report("D12", op, text)
        for other, form in enumerate(own):
            for (i, d), _ in combined(op).items():
                if i != other or other == index:
                    continue
                size = shape_of(op.operands[other])[d]
                if (
                    not form.axes & set(cut.axes)
                    and size > 1
                    and not (form.free or self.repeats(form, cut.axes))
                ):
                    text = f"operand {index} is cut along {names(cut.axes)}, and operand {other} "
                    self.report("D12", op, f"{text}is the same on all devices: no parts of a sum")
                match = form.cut_of(cut.axes[0])
                if match is not None and {*match.axes} & (form.unsure | own[index].unsure):
                    continue  # it may be another dimension that is cut
                if match is not None and match.dim == d and match.axes != cut.axes:
                    self.report("D12", op, "parts that are multiplied are in different orders")
                if match is None or match.whole is None:
                    continue
                if not self.has_elements(cut, match.whole):
                    text = f"{cut.whole} elements of operand {index} along {names(cut.axes)} meet "
                    self.report("D13", op, f"{text}{match.whole} of operand {other}")
                cut = replace(cut, whole=match.whole)
        if cut.step or any(cut.edges):
            self.report("D19", op, f"operand {index} is {cut.wrong}, and combined")
        is_filled = {*cut.axes} <= self.unseen.filled
        if cut.padded(shape_of(op.operands[index])[dim]) and not is_filled:
            neutral = float(NEUTRAL[kind](element_type(op.operands[index])))
            if cut.fill != neutral:
                text = f"what stands behind the last element of operand {index}, cut along "
                self.report("D13", op, f"{text}{names(cut.axes)}, gets into its {kind}")

    def terms(
        self, op: TensorOp, own: Sequence[Kind], terms: list[Axis], kind: str, varies: list[Axis]
    ) -> tuple[list[Axis], str]:
        """The digits by which the result is terms of a sum."""
        for axis in dict.fromkeys(a for f in own for a in f.terms):
            holders = {i for i, f in enumerate(own) if axis in f.terms}
            others = [f for i, f in enumerate(own) if i not in holders]
            theirs = next(f.kind for f in own if axis in f.terms)
            same = all(own[i].kind == theirs for i in holders)
            if any(axis in f.axes for f in others) or not keeps_terms(op, holders, theirs) \
                    or not same or axis in terms or (terms and kind != theirs):  # fmt: skip
                if not any(axis in f.unsure for f in own):  # these may be terms as well
                    text = f"takes terms of a {theirs} along {axis.name} before they are combined"
                    self.report("D12", op, text)
                varies.append(axis)
                continue
            terms.append(axis)
            kind = theirs
        return terms, kind

    def filled(self, op: TensorOp, own: Sequence[Kind], form: Kind) -> Kind:
        """The form of a result with what a mask puts behind the last elements."""
        if not isinstance(op, e.SelectOp) or own[0].known is None or own[2].known is None:
            return form
        inside, values = own[0].known, np.unique(list(own[2].known.values()))
        if len(values) != 1:
            return form
        shape = shape_of(op.result)
        cuts = [self.masked(cut, inside, shape, float(values[0])) for cut in form.cuts]
        return replace(form, cuts=tuple(cuts))

    def masked(self, cut: Cut, inside: Numbers, shape: Shape, value: float) -> Cut:
        """A cut with a value behind the last element, where a mask leaves nothing else there. The
        mask says how many elements there are where that is not known, unless they end with a part
        and it is not computed for the device of the next one."""
        if not cut.is_part:
            return cut
        dim, each = cut.dim, shape[cut.dim]
        whole = None if {*cut.axes} <= self.unseen.resized else cut.whole
        rows = {d: np.moveaxis(np.broadcast_to(m, shape), dim, 0) for d, m in inside.items()}
        firsts = {d: self.mesh.index(cut.axes, d) * each for d in rows}
        if is_counted := whole is None:
            counts = {d: int(m.any(axis=tuple(range(1, m.ndim))).sum()) for d, m in rows.items()}
            whole = max(firsts[d] + n if n else 0 for d, n in counts.items())
        is_all = all(not m[max(whole - firsts[d], 0) :].any() for d, m in rows.items())
        new = replace(cut, whole=whole, fill=value if is_all else None)
        if not new.padded(each):
            return cut
        is_open = is_counted and whole % each == 0 and whole not in firsts.values()
        return replace(new, whole=None) if is_open else new

    def own_part(self, op: GatherOp, own: Sequence[Kind]) -> Kind | None:
        """The form of elements that a device takes by its place; None for any others."""
        data, index = own
        if index.known is None or not index.varies or len(shape_of(op.indices)) != 1:
            return None
        dim, size, each = op.axis.value.data, shape_of(op.input)[op.axis.value.data], 0
        each = shape_of(op.indices)[0]
        for device in self.devices:
            first = self.mesh.index(index.varies, device) * each
            wanted = np.minimum(first + np.arange(each), size - 1)
            if not np.array_equal(np.clip(index.known[device], 0, size - 1), wanted):
                return None
        before = next((cut for cut in data.cuts if cut.dim == dim), None)
        others = tuple(cut for cut in data.cuts if cut is not before)
        if not data.free and (twice := set(index.varies) & data.axes):
            text = f"takes a part by the place along {names(twice)} of a value that differs along "
            self.report("D11", op, f"{text}it: what is left is in no part")
        if set(index.varies) & data.axes or any(cut.dim == dim for cut in others):
            return None
        if before is not None and not before.is_part:
            return None
        if before is None:
            new = Cut(index.varies, dim, size)
        else:
            new = Cut((*before.axes, *index.varies), dim, before.whole)
        return replace(data, cuts=(*others, new), known=None)
