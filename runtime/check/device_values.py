"""Proof of what the devices of a mesh have: rules D3 and D10 to D13 (docs/proofs.md).

The program is followed once, for all devices. Of each value its *form* says how those of devices
differ, for each digit of an axis of the mesh: not at all, as parts along a dimension, as terms of a
sum (or what a reduction says), or in some other way. Arguments, weights and exchanges state it; of
other values it follows from the boxes that ops need.

    %x  parts along dim 1 by tp        %w  parts along dim 0 by tp
    %0 = graph.matmul %x, %w           terms of a sum, by tp
    %1 = graph.all_reduce sum %0       the same on all devices of tp

What differs in some other way may be anything: it is no error by itself, until a result says that
it is the same on all devices, or a condition of a collective has to be. Numbers that follow from a
device's place and constants alone are computed, for a few devices of each axis: its first ones, one
in the middle, its last ones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, prod
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph import collectives as c
from ge.dialects.graph import elementwise as e
from ge.dialects.graph.acknowledge import AcknowledgeOp
from ge.dialects.graph.constant import ConstantOp as GraphConstantOp
from ge.dialects.graph.constant import WeightAttr
from ge.dialects.graph.convolution import ConvOp, ConvTransposeOp
from ge.dialects.graph.creation import RandomOp
from ge.dialects.graph.indexing import GatherOp, ScatterNdOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import BroadcastToOp, ReshapeOp, TransposeOp, View
from ge.dialects.graph.sharding import WHOLE, AxisIndexOp, ShardOp, parts_of, sharding_of
from ge.dialects.graph.slicing import ConcatOp, SliceOp
from ge.dialects.graph.support.parameters import highest, lowest, splat_bytes
from ge.dialects.graph.transfers import some_devices
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp, YieldOp
from ge.dialects.npu_task.memory import (
    MemoryView,
    Task,
    access,
    moves,
    owner_of,
    source_of,
    view_of,
)
from ge.dialects.npu_task.ops import ConstantOp, KernelOp, LaunchOp, SlotOp
from ge.dialects.support.boxes import Access, Box, Unknown, groups
from ge.dialects.support.digits import Axes, all_digits
from ge.dialects.support.functions import functions
from ge.dialects.support.mesh import SUM, Axis, Mesh, Sharding
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, array_ints, element_type, is_static, rank_of, shape_of
from ge.runtime.check.memory import MemrefBytes, span_of
from ge.runtime.check.problems import Problem, name_of

# ---- forms -------------------------------------------------------------------------------------

Numbers: TypeAlias = Mapping[int, Any]  # the elements of a value, on some devices

MOST_KNOWN = 1 << 14  # elements of a value that are computed


@dataclass(frozen=True, slots=True)
class Cut:
    """Parts along a dimension, by digits from major to minor. After a reshape there may be several
    dimensions of which it is one, the likely one first. `whole` is the size of the dimension on all
    devices, if known; `fill` what stands behind the last element, None for what means nothing."""

    axes: Axes
    dims: tuple[int, ...]
    whole: int | None = None
    fill: float | None = None

    @property
    def is_sure(self) -> bool:
        return len(self.dims) == 1

    def padded(self, each: int) -> bool:
        return self.whole is not None and self.whole < each * prod(a.size for a in self.axes)


@dataclass(frozen=True, slots=True)
class Kind:
    """How the values of devices differ. `free`: made of constants and places alone. `loose`: made
    of a constant of equal elements too, so that what is the same may be parts as well."""

    cuts: tuple[Cut, ...] = ()
    terms: Axes = ()
    kind: str = SUM
    varies: Axes = ()
    free: bool = False
    loose: bool = False
    unsure: frozenset[Axis] = frozenset()  # by which it is not known which dimension is cut
    drawn: bool = False  # random numbers, which are the same in two parts by chance alone
    hole: bool = False  # some elements are not there yet: another exchange puts them onto it
    known: Numbers | None = field(default=None, compare=False)

    @property
    def axes(self) -> set[Axis]:
        return {*self.terms, *self.varies, *(a for cut in self.cuts for a in cut.axes)}

    def cut_of(self, axis: Axis) -> Cut | None:
        return next((cut for cut in self.cuts if axis in cut.axes), None)

    def lacks(self, axes: Axes) -> bool:
        """Tell whether devices along some axes surely have the same."""
        return not (self.free or self.loose or self.axes >= {*axes})

    def after(self, other: "Kind") -> "Kind":
        """This form, which follows from another one."""
        return replace(self, unsure=other.unsure & self.axes)

    def varying(self) -> "Kind":
        """The form of some of the elements."""
        form = everywhere(self.axes - {*self.terms}, self.free)
        return replace(form, terms=self.terms, kind=self.kind)

    def of_ones(self, shape: Shape) -> "Kind":
        """This form, of a value that comes from elsewhere: to transpose dimensions of one element
        moves nothing, and is not in a program. So a cut of one may be that of any of them."""
        if not any(shape[cut.dims[0]] == 1 for cut in self.cuts):
            return self
        ones = [d for d, size in enumerate(shape) if size == 1]
        cuts = [
            replace(cut, dims=tuple(dict.fromkeys((*cut.dims, *ones))))
            if shape[cut.dims[0]] == 1
            else cut
            for cut in self.cuts
        ]
        return replace(self, cuts=tuple(cuts))

    def cut_at(self, dim: int, stated: Mapping[int, Axes]) -> Cut | None:
        """The cut of a dimension, one as is stated if there are several that it may have."""
        own = [cut for cut in self.cuts if dim in cut.dims]
        exact = next((cut for cut in own if cut.axes == stated.get(dim)), None)
        elsewhere = [x for x in own if any(x.axes == stated.get(d) for d in x.dims)]
        return exact or next((cut for cut in own if cut not in elsewhere), None)


EMPTY = Kind(free=True, loose=True)
"""The form of a value without elements."""


def form_of(sharding: Sharding, mesh: Mesh, whole: Shape | None = None) -> Kind:
    dims = [all_digits(map(mesh.resolved, own)) for own in sharding.dims]
    cuts = [
        Cut(own, (i,), None if whole is None else whole[i]) for i, own in enumerate(dims) if own
    ]
    return Kind(tuple(cuts), all_digits(map(mesh.resolved, sharding.unreduced)), sharding.kind)


def everywhere(axes: set[Axis], free: bool = False) -> Kind:
    """The form of a value of which only is known where it differs."""
    return Kind(varies=tuple(sorted(axes)), free=free, unsure=frozenset(axes))


def joined(forms: Sequence[Kind]) -> Kind:
    """The form of a value that is one of several, or put together of them."""
    first, *others = [f for f in forms if f.axes or not f.free] or forms
    for other in others:
        free, pairs = first.free and other.free, list(zip(first.cuts, other.cuts, strict=False))
        same = len(first.cuts) == len(other.cuts) and all(
            (a.axes, a.dims) == (b.axes, b.dims) for a, b in pairs
        )
        terms = first.terms if (first.terms, first.kind) == (other.terms, other.kind) else ()
        if same and terms == first.terms and first.varies == other.varies:
            cuts = tuple(a if a == b else Cut(a.axes, a.dims) for a, b in pairs)
            unsure = first.unsure | other.unsure
            first = replace(first, cuts=cuts, free=free, unsure=unsure, known=None)
        else:
            form = everywhere((first.axes | other.axes) - {*terms}, free)
            first = replace(form, terms=terms, kind=first.kind)
    return replace(first, loose=any(f.loose for f in forms))


# ---- ops on tensors ----------------------------------------------------------------------------

NEUTRAL: Mapping[str, Callable[[Attribute], int | float]] = {
    "sum": lambda _: 0, "prod": lambda _: 1, "max": lowest, "min": highest,
}  # fmt: skip
REDUCES = {"sum": SUM, "sum_square": SUM, "l1": SUM, "max": "max", "min": "min", "prod": "prod"}
MOVES = View | TransposeOp | BroadcastToOp | SliceOp | e.CastOp
MOVING = Access.VIEW, Access.MOVEMENT

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
    for i in range(len(own)):  # dimensions of one element, of which boxes say nothing
        dim = i + len(shape) - len(own)
        is_free = i not in found and (index, i) not in combined(op) and dim not in found.values()
        if is_free and own[i] == 1 and dim >= 0 and shape[dim] == 1:
            found[i] = dim
    return found


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


def reshaped(form: Kind, source: Shape, target: Shape) -> Kind:
    """The form of a value of another shape. A cut stays with the major dimension of those that a
    dimension becomes."""
    if 0 in source or not form.axes:
        return replace(form, known=None)
    kept = 0
    while kept < min(len(source), len(target)) and source[kept] == target[kept]:
        kept += 1
    cuts, varies, lost = list[Cut](), list(form.varies), set(form.unsure)
    ends = [(i + 1, i + 1) for i in range(kept)]
    ends += [(i + kept, j + kept) for i, j in groups(source[kept:], target[kept:])]
    ends = [*ends[:-1], (len(source), len(target))] if ends else [(len(source), len(target))]
    first = begin = 0
    for i, j in ends:
        own = [cut for cut in form.cuts if first <= cut.dims[0] < i]
        for cut in own:
            leading = next((d for d in range(begin, j) if target[d] > 1), j - 1)
            dims = tuple(range(begin, leading + 1))
            if source[first:i] == target[begin:j]:
                cuts.append(replace(cut, dims=(cut.dims[0] - first + begin,)))
            elif len(own) > 1 or prod(source[first : cut.dims[0]]) > 1 or not dims:
                varies += cut.axes
                lost |= set(cut.axes)
            else:
                cuts.append(Cut(cut.axes, dims))
                lost |= set(cut.axes) if len(dims) > 1 else set()
        first, begin = i, j
    form = replace(form, cuts=tuple(cuts), varies=tuple(varies), known=None)
    return replace(form, unsure=frozenset(lost))


def viewed(form: Kind, held: MemoryView, view: MemoryView) -> Kind:
    """The form of the same elements in another view. A cut stays with the dimension of the longest
    steps among those inside of its own, or with one of size 1 above these."""
    if (held.sizes, held.strides) == (view.sizes, view.strides):
        return form
    cuts, varies = list[Cut](), list(form.varies)
    for cut in form.cuts:
        step, size = held.strides[cut.dims[0]], held.sizes[cut.dims[0]]
        end = step * size
        own = [(n, s) for n, s in zip(view.sizes, view.strides, strict=True)]
        ones = [d for d, (n, s) in enumerate(own) if n == 1 and s % end == 0]
        main = [d for d, (n, s) in enumerate(own) if n > 1 and s >= step and n * s == end]
        if size == 1:
            main = [d for d, (n, _) in enumerate(own) if n == 1 and d not in ones]
        dims = (*ones, *main)
        if dims:
            cuts.append(Cut(cut.axes, dims, cut.whole, cut.fill) if len(dims) == 1 and
                        view.sizes[dims[0]] == size else Cut(cut.axes, dims))  # fmt: skip
        else:
            varies += cut.axes
    unsure = {*form.unsure, *varies, *(a for x in cuts if not x.is_sure for a in x.axes)}
    return replace(
        form, cuts=tuple(cuts), varies=tuple(varies), unsure=frozenset(unsure), known=None
    )


@dataclass
class Tensors:
    """Follows ops on tensors. Problems come with the rule and a text."""

    mesh: Mesh
    problems: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def __post_init__(self) -> None:
        self.devices = list(some_devices(self.mesh, self.mesh.sizes))

    def report(self, rule: str, op: Operation, text: str) -> None:
        self.problems.append((rule, f"{op.name}: {text}"))

    def block(self, block: Block, forms: dict[SSAValue, Kind]) -> list[Kind]:
        """Follow a block from the forms of its arguments; return those of what it ends with."""
        for op in block.ops:
            if isinstance(op, TensorOp):
                own = [forms[v] for v in op.operands]
                forms |= zip(op.results, self.op(op, own), strict=True)
            elif op is block.last_op:
                return [forms[v] for v in op.operands]
        return []

    def op(self, op: TensorOp, own: list[Kind]) -> Sequence[Kind]:
        if op.results and all(0 in shape_of(r) for r in op.results):
            return [EMPTY] * len(op.results)
        for i, form in enumerate(own):
            is_place = isinstance(op, c.ExchangeOp) and i == 1
            if form.hole and not is_place and not isinstance(op, AcknowledgeOp):
                text = f"reads operand {i} with elements beyond the ends of a value, of which "
                self.report("D10", op, f"{text}nothing is said")
        match op:
            case FusedOp():
                inner = dict[SSAValue, Kind](zip(op.block.args, own, strict=True))
                return self.block(op.block, inner)
            case GraphConstantOp():
                return [constant_form(op.value, shape_of(op.result), self.devices)]
            case AxisIndexOp():
                axes = op.axes.data
                known = {d: np.array(self.mesh.index(axes, d)) for d in self.devices}
                return [Kind(varies=all_digits(axes), free=True, known=known)]
            case AcknowledgeOp():
                return []
            case ShardOp():
                return own
            case c.OfWhole():
                return [self.moved(op, own)]
            case c.AllGatherOp():
                return [self.gathered(op, own[0])]
            case c.AllReduceOp() | c.ReduceScatterOp():
                return [self.reduced(op, own[0])]
            case RandomOp():
                if differs := own[0].axes:
                    text = f"draws by seeds that differ along {names(differs)}: other numbers than "
                    self.report("D17", op, f"{text}one device draws")
                return [Kind(drawn=not differs, varies=tuple(sorted(differs)))]
            case _:
                known = self.known(op, own)
                if not any(f.axes for f in own):
                    free = all(f.free for f in own)
                    found = [
                        Kind(free=free, known=known, drawn=self.draws(op, own, r))
                        for r in range(len(op.results))
                    ]
                else:
                    found = [self.local(op, own, r) for r in range(len(op.results))]
                # what is repeated along a dimension is the same in all parts of it
                is_view = isinstance(op, View | BroadcastToOp)
                grows = is_view and rank_of(op.results[0]) > rank_of(op.operands[0])
                repeats = isinstance(op, BroadcastToOp) or grows
                loose = repeats or any(f.loose for f in own)
                return [replace(f, known=known, loose=loose) for f in found]

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

    def local(self, op: TensorOp, own: Sequence[Kind], result: int) -> Kind:
        if isinstance(op, ReshapeOp):
            return reshaped(own[0], shape_of(op.input), shape_of(op.result))
        if isinstance(op, GatherOp) and (part := self.own_part(op, own)) is not None:
            return part
        kinds, cuts, terms = combined(op), dict[frozenset[Axis], Cut](), list[Axis]()
        kind, free = SUM, all(f.free for f in own)
        varies = [a for f in own if not f.free for a in f.varies]
        unsure = frozenset(a for f in own for a in f.unsure)
        for i, form in enumerate(own):
            follows = through(op, i, result) if form.cuts else {}
            for cut in form.cuts:
                dims = tuple(dict.fromkeys(follows[d] for d in cut.dims if d in follows))
                first = cut.dims[0]
                if first not in follows and (i, first) in kinds:
                    kind = kinds[i, first]
                    terms += cut.axes
                    self.check_combined(op, i, cut, kind, own)
                elif dims:
                    if not set(dims) <= set(through(op, i, result, exactly=True).values()):
                        unsure |= frozenset(cut.axes)
                    self.add_cut(op, own, i, replace(cut, dims=dims), cuts, unsure)
                else:
                    varies += cut.axes
        terms, kind = self.terms(op, own, terms, kind, varies)
        placed = {a for cut in cuts.values() for a in cut.axes} | set(terms)
        varies += [a for f in own if f.free for a in f.varies if a not in placed]
        lost = set(varies)
        kept = [cut for cut in cuts.values() if not lost & set(cut.axes)]
        varies += [a for cut in cuts.values() if lost & set(cut.axes) for a in cut.axes]
        left = tuple(a for a in dict.fromkeys(terms) if a not in varies)
        form = Kind(tuple(kept), left, kind, tuple(dict.fromkeys(varies)), free)
        form = replace(form, unsure=unsure & form.axes)
        return self.filled(op, own, form)

    def add_cut(
        self, op: TensorOp, own: Sequence[Kind], index: int, cut: Cut,
        cuts: dict[frozenset[Axis], Cut], unsure: frozenset[Axis],
    ) -> None:  # fmt: skip
        """Hold the parts of an operand against those of others."""
        moved = isinstance(op, MOVES) or op.ACCESS in MOVING
        fill = cut.fill if moved else None
        if not set(cut.dims) <= set(through(op, index, 0, exactly=True).values()):
            cut = replace(cut, whole=None)  # windows: another number of elements
        cut = replace(cut, fill=fill)
        key = frozenset(cut.axes)
        for other, form in enumerate(own):
            if other == index or form.axes & key or form.free or form.loose or unsure & key:
                continue
            sizes = shape_of(op.operands[other])
            ways = through(op, other, 0, exactly=True)
            if cut.is_sure and any(m == cut.dims[0] and sizes[d] > 1 for d, m in ways.items()):
                axes = names(cut.axes)
                text = f"operand {index} is cut along {axes}, and operand {other}, the same on all "
                self.report("D11", op, f"{text}devices, is taken for a part")
        for axes, known in list(cuts.items()):
            if not axes & key:
                continue
            dims = tuple(d for d in cut.dims if d in known.dims)
            if axes == key and known.axes == cut.axes and dims:
                cuts[key] = Cut(cut.axes, dims, cut.whole if known.whole is None else known.whole)
                return
            if not unsure & (key | axes):
                text = f"operands are cut differently by {names(cut.axes)}"
                self.report("D11", op, text)
            return
        cuts[key] = cut

    def check_combined(
        self, op: TensorOp, index: int, cut: Cut, kind: str, own: Sequence[Kind]
    ) -> None:
        """Check that all that is combined is there in parts, and nothing behind the last one."""
        dim = cut.dims[0]
        for other, form in enumerate(own):
            for (i, d), _ in combined(op).items():
                if i != other or other == index:
                    continue
                size = shape_of(op.operands[other])[d]
                if not form.axes & set(cut.axes) and size > 1 and not (form.free or form.loose):
                    text = f"operand {index} is cut along {names(cut.axes)}, and operand {other} "
                    self.report("D12", op, f"{text}is the same on all devices: no parts of a sum")
                match = form.cut_of(cut.axes[0])
                if match is not None and match.dims == (d,) and match.axes != cut.axes:
                    self.report("D12", op, "parts that are multiplied are in different orders")
                if match is None or match.whole is None:
                    continue
                if cut.whole not in (None, match.whole):
                    text = f"{cut.whole} elements of operand {index} along {names(cut.axes)} meet "
                    self.report("D13", op, f"{text}{match.whole} of operand {other}")
                cut = replace(cut, whole=match.whole)
        if cut.padded(shape_of(op.operands[index])[dim]):
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
        mask says how many elements there are where that is not known."""
        dim, each, whole = cut.dims[0], shape[cut.dims[0]], cut.whole
        rows = {d: np.moveaxis(np.broadcast_to(m, shape), dim, 0) for d, m in inside.items()}
        firsts = {d: self.mesh.index(cut.axes, d) * each for d in rows}
        if whole is None:
            counts = {d: int(m.any(axis=tuple(range(1, m.ndim))).sum()) for d, m in rows.items()}
            whole = max(firsts[d] + n if n else 0 for d, n in counts.items())
        is_all = all(not m[max(whole - firsts[d], 0) :].any() for d, m in rows.items())
        new = replace(cut, whole=whole, fill=value if is_all else None)
        return new if new.padded(each) else cut

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
        before = next((cut for cut in data.cuts if cut.dims == (dim,)), None)
        others = tuple(cut for cut in data.cuts if cut is not before)
        if set(index.varies) & data.axes or any(dim in cut.dims for cut in others):
            return None
        if before is None:
            new = Cut(index.varies, (dim,), size)
        else:
            new = Cut((*before.axes, *index.varies), (dim,), before.whole)
        return replace(data, cuts=(*others, new), known=None)

    # ---- what devices send each other

    def moved(self, op: c.OfWhole, own: Sequence[Kind]) -> Kind:
        """The form of a result of boxes: as these are. Those that send are the devices along the
        axes that the value is cut by."""
        form, shape = own[0], op.whole
        has = [all_digits(axes) for axes in op.has.data.dims]
        senders = {a for axes in has for a in axes}
        for dim, axes in enumerate(has):
            cut = form.cut_at(dim, dict(enumerate(has)))
            both = {*axes, *(() if cut is None else cut.axes)}
            unknown = both & {*form.unsure, *form.varies} and not form.lacks(axes)
            unknown = unknown or (cut is None and (form.free or form.loose))
            if not unknown and axes != (() if cut is None else cut.axes):
                what = "the same on all devices" if cut is None else f"cut by {names(cut.axes)}"
                text = f"dimension {dim} is {what}, and not cut by {names(axes) or 'nothing'}"
                self.report("D10", op, text)
            if cut is not None and cut.whole not in (None, shape[dim]) and not unknown:
                text = f"dimension {dim} has {cut.whole} elements on all devices, not {shape[dim]}"
                self.report("D10", op, text)
        if senders & set(form.terms):
            self.report("D12", op, "sends terms of a sum before they are combined")
        kept = tuple(a for a in (*form.varies, *form.terms) if a not in senders)
        if isinstance(op, c.AllToAllOp):
            spans = [all_digits(axes) for axes in op.to.data.dims]
            cuts = [Cut(a, (d,), shape[d]) for d, a in enumerate(spans) if a]
            return Kind(tuple(cuts), varies=kept).after(form)
        assert isinstance(op, c.ExchangeOp)
        result = self.exchanged(op, Kind(varies=kept))
        return result if op.onto is None else self.onto(op, result, own[1])

    def exchanged(self, op: c.ExchangeOp, form: Kind) -> Kind:
        fill = None if op.fill is None else float(op.fill.value.data)
        cuts, hole = list[Cut](), False
        for dim, ((place, size), whole) in enumerate(
            zip(op.needs.data.spans, op.whole, strict=True)
        ):
            firsts = [place.at(self.mesh, d) for d in self.devices]
            bare = op.fill is None and op.onto is None
            hole = hole or (bare and (min(firsts) < 0 or all(f + size > whole for f in firsts)))
            if all(f + size <= 0 or f >= whole for f in firsts):
                text = f"no device gets an element of dimension {dim}: boxes begin at {min(firsts)}"
                self.report("D10", op, f"{text} of {whole}")
            terms = sorted(place.terms, key=lambda t: -abs(t[1]))
            axes = all_digits(a for a, _ in terms)
            if axes:
                tiles = place.constant == 0 and terms[-1][1] == size
                cuts.append(Cut(axes, (dim,), whole if tiles else None, fill))
        used = [a for cut in cuts for a in cut.axes]
        if len(set(used)) < len(used):
            cuts, form = [], replace(form, varies=tuple(dict.fromkeys((*form.varies, *used))))
        return replace(form, cuts=tuple(cuts), hole=hole)

    def onto(self, op: c.ExchangeOp, new: Kind, old: Kind) -> Kind:
        """A box put onto a value: parts where one of both is, as the other adds elements."""
        cuts = {cut.axes: replace(cut, whole=None) for cut in (*old.cuts, *new.cuts)}
        both = {(x.axes, x.dims) for x in old.cuts} & {(x.axes, x.dims) for x in new.cuts}
        varies = tuple(dict.fromkeys((*new.varies, *old.varies)))
        if old.terms:
            self.report("D12", op, "takes terms of a sum before they are combined")
        form = Kind(tuple(cuts.values()), varies=varies)
        sure = {a for axes, _ in both for a in axes} - {*old.unsure, *new.unsure}
        return replace(form, unsure=frozenset(form.axes - sure))

    def gathered(self, op: c.AllGatherOp, form: Kind) -> Kind:
        axes, dim = all_digits(op.axes.data), op.dim.value.data
        cut = next((x for x in form.cuts if set(x.axes) & set(axes)), None)
        both = {*axes, *(() if cut is None else cut.axes)}
        doubt = both & {*form.unsure, *form.varies} and not form.lacks(axes)
        doubt = doubt or (cut is None and (form.free or form.loose))
        if set(axes) & set(form.terms):
            self.report("D12", op, "gathers terms of a sum before they are combined")
        elif cut is None and not doubt:
            text = f"gathers along {names(axes)} what is the same on all devices"
            self.report("D11", op, text)
        elif cut is not None and not doubt:
            if dim not in cut.dims:
                text = f"gathers along dimension {dim} what is cut along {cut.dims[0]}"
                self.report("D11", op, text)
            if cut.axes[-len(axes) :] != axes:
                text = f"gathers along {names(axes)} what is cut by {names(cut.axes)}"
                self.report("D11", op, f"{text}: in another order, or the wrong parts")
        gone = set(axes)
        cuts = [x for x in form.cuts if not set(x.axes) & gone]
        if cut is not None and (rest := tuple(a for a in cut.axes if a not in gone)):
            cuts.append(Cut(rest, cut.dims, cut.whole))
        varies = tuple(a for a in form.varies if a not in gone)
        terms = tuple(a for a in form.terms if a not in gone)
        return Kind(tuple(cuts), terms, form.kind, varies).after(form)

    def reduced(self, op: c.AllReduceOp | c.ReduceScatterOp, form: Kind) -> Kind:
        axes, kind = all_digits(op.axes.data), str(op.kind.data)
        for axis in axes:
            if axis in form.terms:
                if form.kind != kind:
                    text = f"combines by {kind} what are terms of a {form.kind}"
                    self.report("D12", op, text)
            elif not form.free and axis not in form.axes and kind in (SUM, "prod"):
                text = f"combines along {axis.name} what is the same on all devices"
                self.report("D12", op, f"{text}: it is counted again for each")
        rest = tuple(a for a in form.terms if a not in axes)
        varies = tuple(a for a in form.varies if a not in axes)
        left = [(x, tuple(a for a in x.axes if a not in axes)) for x in form.cuts]
        cuts = [x if own == x.axes else Cut(own, x.dims) for x, own in left if own]
        if isinstance(op, c.ReduceScatterOp):
            dim = op.dim.value.data
            before = next((x for x in cuts if dim in x.dims), None)
            cuts = [x for x in cuts if x is not before]
            own = before.axes if before is not None else ()
            cuts.append(Cut((*own, *axes), (dim,)))
        return Kind(tuple(cuts), rest, form.kind, varies).after(form)


def names(axes: Iterable[Axis]) -> str:
    return ", ".join(dict.fromkeys(a.name for a in axes))


# ---- the program -------------------------------------------------------------------------------

Entry: TypeAlias = tuple[SSAValue, MemrefBytes | None, Kind]


class Values:
    """Follows the program of a device, and the forms of what its buffers hold."""

    def __init__(self, module: ModuleOp, main: FuncOp, mesh: Mesh) -> None:
        self.module, self.main, self.mesh = module, main, mesh
        self.tensors = Tensors(mesh)
        self.kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
        self.problems: dict[Problem, None] = {}
        self.held: dict[SSAValue, list[Entry]] = {}  # by owner of the memory
        self.weights: dict[str, Kind] = {}
        # Of kernels on operands of some forms: launches of one layer are like those of another
        self.results: dict[tuple[str, tuple[Kind, ...]], list[Kind]] = {}

    def report(self, rule: str, text: str, op: Operation) -> None:
        self.problems[Problem(rule, text, op)] = None

    def check(self) -> list[Problem]:
        for key, (_, sharding) in parts_of(self.module).items():
            self.weights[key] = form_of(sharding, self.mesh)
        for func in functions(self.module).values():
            if func is not self.main:
                self.prepare(func)
        for i, arg in enumerate(self.main.body.block.args):
            table = self.tables(self.main.arg_attrs, i)
            form = self.stated(table, data_type(arg.type)[1], f"argument {i}")
            self.held[arg] = [(arg, None, form)]
        for state in self.states:
            form = self.stated(state.attributes, data_type(state.result.type)[1], "state")
            self.held[state.result] = [(state.result, None, form)]
        self.walk(self.main.body.block)
        return list(self.problems)

    @property
    def states(self) -> list[SlotOp]:
        """The slots of state that say how it is cut, before a run as after it."""
        slots = [op for op in self.main.body.block.ops if isinstance(op, SlotOp)]
        return [op for op in slots if sharding_of(op.attributes) is not None]

    def tables(self, attrs: Any, index: int) -> Mapping[str, Attribute]:
        return {} if attrs is None else attrs.data[index].data

    def stated(self, table: Mapping[str, Attribute], local: Shape, what: str) -> Kind:
        """The form that an argument or result states."""
        sharding = sharding_of(table)
        if sharding is None:
            return Kind()
        whole = array_ints(table[WHOLE]) if WHOLE in table else local
        try:
            resolved = sharding.resolved(self.mesh)
        except KeyError as error:
            self.report("D11", f"{what} is cut along {error}, which the mesh lacks", self.main)
            return Kind()
        if len(sharding.dims) != len(local) or len(whole) != len(local):
            self.report("D11", f"{what} is cut in another number of dimensions", self.main)
            return Kind()
        digits = all_digits(resolved.axes)
        if len(set(digits)) < len(digits):
            self.report("D11", f"{what} is cut along an axis twice", self.main)
            return Kind()
        if is_static(local) and (wanted := resolved.local_shape(whole)) != tuple(local):
            text = f"{what} has parts of {list(local)}, which do not tile {list(whole)}: "
            self.report("D11", f"{text}they have {list(wanted)}", self.main)
        return form_of(resolved, self.mesh, whole)

    def prepare(self, func: FuncOp) -> None:
        """The forms of weights that are computed when the program is loaded."""
        block = func.body.block
        forms: dict[SSAValue, Kind] = {
            arg: self.stated(self.tables(func.arg_attrs, i), shape_of(arg), f"argument {i}")
            for i, arg in enumerate(block.args)
        }
        for op in block.ops:
            if isinstance(op, TensorOp):
                own = [forms[v] for v in op.operands]
                found = list(self.tensors.op(op, own))
                if isinstance(op, GraphConstantOp) and isinstance(op.value, WeightAttr):
                    found = [self.weights.get(op.value.data, Kind())]
                forms |= zip(op.results, found, strict=True)
                self.take_problems(op)
            elif isinstance(op, ReturnOp):
                for i, value in enumerate(op.operands):
                    name = self.tables(func.res_attrs, i).get("graph.name")
                    if isinstance(name, StringAttr):
                        self.weights[name.data] = forms[value]

    def take_problems(self, op: Operation, where: str = "") -> None:
        for rule, text in self.tensors.problems:
            self.report(rule, f"{where}{text}", op)
        self.tensors.problems.clear()

    # ---- memory

    def span(self, value: SSAValue) -> MemrefBytes | None:
        try:
            return span_of(value)
        except ValueError:
            return None

    def read(self, value: SSAValue) -> Kind:
        owner = owner_of(value)
        if 0 in data_type(value.type)[1]:
            return EMPTY
        if isinstance(owner.owner, ConstantOp):
            form = self.constant(owner.owner)
            return self.viewed(form, owner, value)
        entries = self.held.get(owner, [])
        if value is not owner or len(entries) > 1:
            span = self.span(value)
            if span is not None:
                entries = [x for x in entries if x[1] is None or x[1].overlaps(span)]
        if not entries:
            return Kind()
        forms = [self.viewed(form, held, value) for held, _, form in entries]
        return forms[0] if len(forms) == 1 else joined(forms)

    def viewed(self, form: Kind, held: SSAValue, value: SSAValue) -> Kind:
        """The form of a view of what is held."""
        before, after = data_type(held.type)[1], data_type(value.type)[1]
        if len(after) > len(before):  # a new dimension may be that of parts that are all equal
            form = replace(form, loose=True)
        if held is value or not form.axes:
            return form.of_ones(after)
        if is_static(before) and is_static(after) and prod(before) == prod(after):
            return viewed(form, view_of(held), view_of(value))
        if len(before) == len(after):  # some of the elements along some dimensions
            kept = [x for x in form.cuts if before[x.dims[0]] == after[x.dims[0]]]
            lost = [a for x in form.cuts if x not in kept for a in x.axes]
            return replace(form, cuts=tuple(kept), varies=(*form.varies, *lost), known=None)
        return form.varying()

    def constant(self, op: ConstantOp) -> Kind:
        if isinstance(op.value, WeightAttr):
            return self.weights.get(op.value.data, Kind())
        return constant_form(op.value, data_type(op.result.type)[1], self.tensors.devices)

    def write(self, value: SSAValue, form: Kind) -> None:
        owner = owner_of(value)
        entries = self.held.get(owner, [])
        if value is owner:
            self.held[owner] = [(value, None, form)]
            return
        span = self.span(value)
        if span is None:
            self.held[owner] = [*entries, (value, None, form)]
            return
        kept = [x for x in entries if x[1] is None or x[1].boxes != span.boxes]
        self.held[owner] = [*kept, (value, span, form)]

    # ---- the walk

    def walk(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case LaunchOp():
                    self.launch(op)
                case IfOp() | CaseOp():
                    self.branch(op)
                case LoopOp():
                    self.loop(op)
                case ReturnOp():
                    self.returned(op)
                case _ if isinstance(op, Task):
                    reads, writes, new = access(op)
                    for source, target in zip(reads, [*writes, *new], strict=False):
                        self.write(target, self.read(source))
                case _:
                    pass

    def launch(self, op: LaunchOp) -> None:
        kernel = self.kernels.get(op.callee)
        if kernel is None:
            return
        own = tuple(self.read(v) for v in op.ins)
        key = None if any(f.known is not None for f in own) else (op.callee, own)
        if key is None or (results := self.results.get(key)) is None:
            forms = dict[SSAValue, Kind](zip(kernel.body.block.args, own, strict=True))
            results = self.tensors.block(kernel.body.block, forms)
            if key is not None and not self.tensors.problems:
                self.results[key] = results
            self.take_problems(op, f"{name_of(op)}: ")
        _, writes, new = access(op)
        for target, form in zip([*writes, *new], results, strict=False):
            self.write(target, form)

    def check_condition(self, value: SSAValue | None, op: Operation) -> None:
        """Check that a condition is the same on all devices that meet behind it."""
        if value is None or not (axes := self.read(value).axes):
            return
        for inner in op.walk():
            kernel = self.kernels.get(inner.callee) if isinstance(inner, LaunchOp) else None
            met = None if kernel is None else kernel.main
            if isinstance(met, c.Collective) and axes & set(all_digits(met.group())):
                text = f"{name_of(inner)} is behind a condition that differs along {names(axes)}"
                self.report("D3", text, inner)

    def branch(self, op: IfOp | CaseOp) -> None:
        self.check_condition(op.condition if isinstance(op, IfOp) else op.index, op)
        before, ends = self.copied(), list[dict[SSAValue, list[Entry]]]()
        results: list[list[Kind]] = [[] for _ in op.results]
        decided = self.read(op.condition if isinstance(op, IfOp) else op.index).axes
        for region in op.regions:
            self.held = {owner: list(entries) for owner, entries in before.items()}
            self.walk(region.block)
            self.yielded(region.block, results)
            ends.append(self.held)
        self.held = ends[0]
        for end in ends[1:]:
            self.join(end)
        if decided:  # what is written in one of them is not the same on all devices
            for owner, entries in self.held.items():
                if entries != before.get(owner):
                    self.held[owner] = [
                        (v, span, everywhere(f.axes | decided)) for v, span, f in entries
                    ]
        for value, forms in zip(op.results, results, strict=True):
            form = joined(forms)
            self.write(value, everywhere(form.axes | decided) if decided else form)

    def yielded(self, block: Block, results: Sequence[list[Kind]]) -> None:
        last, new = block.last_op, iter(results)
        if not isinstance(last, YieldOp):
            return
        given = [(m, self.read(m.value)) for m in moves(last)]
        if isinstance(last.parent_op(), LoopOp):
            given = given[1:]
        for move, form in given:
            if move.target is None:
                next(new, list[Kind]()).append(form)
            elif owner_of(move.value) is not owner_of(move.target):
                self.write(move.target, replace(form, cuts=()).varying() if move.row else form)

    def loop(self, op: LoopOp) -> None:
        """Go through the body until nothing changes: forms only become less certain."""
        self.check_condition(op.trip, op)
        self.check_condition(op.condition, op)
        args = [a for a in op.body.block.args if source_of(a) is None]
        carried = args[2:]  # after the number of the iteration and the condition
        for arg, init in zip(carried, op.inits, strict=False):
            self.write(arg, self.read(init))
        results: list[list[Kind]] = [[self.read(i)] for i in op.inits]
        results += [[] for _ in op.results[len(op.inits) :]]
        for _ in range(6):
            before = self.copied()
            new: list[list[Kind]] = [[] for _ in op.results]
            self.walk(op.body.block)
            if isinstance(last := op.body.block.last_op, YieldOp):
                self.check_condition(last.values[0], op)
            self.yielded(op.body.block, new)
            for own, found in zip(results, new, strict=True):
                own += found
            self.join(before)
            for arg, own in zip(carried, results, strict=False):
                self.write(arg, joined(own))
            if self.held == before:
                break
        for value, own in zip(op.results, results, strict=True):
            self.write(value, joined(own) if own else Kind())

    def copied(self) -> dict[SSAValue, list[Entry]]:
        return {owner: list(entries) for owner, entries in self.held.items()}

    def join(self, other: Mapping[SSAValue, list[Entry]]) -> None:
        for owner, entries in other.items():
            mine = self.held.get(owner)
            if mine is None or mine == entries:
                self.held[owner] = list(entries)
                continue
            form = joined([f for _, _, f in (*mine, *entries)])
            self.held[owner] = [(mine[0][0] if len(mine) == 1 else owner, None, form)]

    def returned(self, op: ReturnOp) -> None:
        for i, value in enumerate(op.operands):
            table = self.tables(self.main.res_attrs, i)
            what = f"result {i}"
            stated = self.stated(table, data_type(value.type)[1], what)
            if sharding_of(table) is not None:
                self.check_result(what, self.read(value), stated, op)
        for state in self.states:
            stated = self.stated(state.attributes, data_type(state.result.type)[1], "state")
            self.check_result("state", self.read(state.result), stated, op)

    def check_result(self, what: str, form: Kind, stated: Kind, op: ReturnOp) -> None:
        said = stated.axes
        for axis in sorted(form.axes - said):
            if axis in form.terms:
                text = f"{what} is terms of a {form.kind} along {axis.name} that nobody combines"
                self.report("D12", text, op)
            else:
                text = f"{what} is not the same on devices along {axis.name}, as it says"
                self.report("D11", text, op)
        if set(form.terms) & said and not set(stated.terms) & set(form.terms):
            self.report("D12", f"{what} is terms of a {form.kind} that nobody combines", op)
        by_dim = {cut.dims[0]: cut.axes for cut in stated.cuts}
        for cut in stated.cuts:
            if set(cut.axes) & {*form.varies, *form.terms, *form.unsure}:
                continue
            own = form.cut_at(cut.dims[0], by_dim)
            if own is None and form.drawn:
                text = f"{what} is cut by {names(cut.axes)}, and all parts are the same random "
                self.report("D17", f"{text}numbers", op)
            if own is None and not form.axes & set(cut.axes):
                continue  # what is the same on all devices may be parts that are equal
            if own is None or own.axes != cut.axes:
                has = "whole" if own is None else f"cut by {names(own.axes)}"
                text = f"{what} says that dimension {cut.dims[0]} is cut by {names(cut.axes)}"
                self.report("D11", f"{text}, and it is {has}", op)


def check_values(module: ModuleOp, main: FuncOp, mesh: Mesh) -> list[Problem]:
    """Errors in how the values of devices differ, of a program whose order is proved."""
    return Values(module, main, mesh).check()
