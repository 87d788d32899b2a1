"""The ways in which an op may be computed in parts: a strategy says by which axes each dimension of
its result is cut, and each dimension that it sums along; what it needs of its operands follows from
their boxes (`dialects/support/boxes.py`).

    %y = graph.matmul %x, %w : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>

    result [{"dp"}, {"tp"}]         needs %x [{"dp"}, {}]       %w [{}, {"tp"}]
    sum over {"tp"}                 needs %x [{}, {"tp"}]       %w [{"tp"}, {}]
                                    gives [{}, {}], unreduced={"tp"}

A convolution whose rows are cut needs a box that is no part: some rows before and after its own.

Boxes say what elements a result depends on; that sums may be made apart and added is a fact of ops
(`contracted`), and so is that an op takes sums which are not complete (`linear`)."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import combinations, islice
from math import prod

from xdsl.ir import SSAValue

from ge.dialects.graph.collectives import Needed, Place
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.convolution import Convolution, ConvOp, ConvTransposeOp
from ge.dialects.graph.creation import FillOp
from ge.dialects.graph.elementwise import AddOp, DivOp, MulOp, NegOp, SubOp
from ge.dialects.graph.indexing import ScatterNdOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.graph.recurrent import Recurrent
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import BroadcastToOp, TransposeOp, View
from ge.dialects.graph.slicing import PadOp, SliceOp
from ge.dialects.graph.support.parameters import splat
from ge.dialects.support.boxes import Box, Span, Unknown, view_box
from ge.dialects.support.digits import Axes, DigitSum, all_digits, axes_of, cut, joined, part
from ge.dialects.support.element_types import is_float
from ge.dialects.support.mesh import SUM, Axis, Sharding
from ge.dialects.support.operation import operands_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, is_static, shape_of

MOST = 16  # strategies of an op that are compared


@dataclass(frozen=True, slots=True)
class Strategy:
    """Axes for each dimension of the first result and for each factor that is summed, and those
    along which operands are not reduced, nor is the result then."""

    dims: tuple[Axes, ...]
    sums: tuple[Axes, ...] = ()
    through: Axes = ()
    takes: tuple[int, ...] = ()  # the operands that are not reduced
    kind: str = SUM

    @property
    def result(self) -> Sharding:
        unreduced = joined((*(a for axes in self.sums for a in axes), *self.through))
        return Sharding(self.dims, unreduced=unreduced, kind=self.kind if unreduced else SUM)

    @property
    def axes(self) -> Axes:
        own = (*self.dims, *self.sums, self.through)
        return tuple(a for axes in own for a in axes)

    def without(self, name: str) -> "Strategy":
        def kept(axes: Axes) -> Axes:
            return joined(tuple(a for a in axes if a.name != name))

        dims, sums, through = (
            tuple(map(kept, self.dims)),
            tuple(map(kept, self.sums)),
            kept(self.through),
        )
        takes = self.takes if through else ()
        return replace(self, dims=dims, sums=sums, through=through, takes=takes)


Need = Sharding | Needed


@dataclass(frozen=True, slots=True)
class Contracted:
    """A dimension that an op sums along (or takes the greatest of): which dimension of which
    operand it is."""

    kind: str
    dims: tuple[tuple[int, int], ...]


def contracted(op: TensorOp) -> tuple[Contracted, ...]:
    """The dimensions of operands that an op combines, so that parts of them may be combined
    later."""
    if isinstance(op, MatmulOp):
        return (Contracted(SUM, tuple(enumerate(op.summed))),)
    if isinstance(op, ReduceOp):
        kind = {"mean": SUM, "sum_square": SUM, "l1": SUM}.get(op.kind.data, op.kind.data)
        axes = op.reduced_axes()
        known = kind in (SUM, "max", "min", "prod") and axes is not None
        mean_of_floats = op.kind.data != "mean" or is_float(element_type(op.input))
        if known and mean_of_floats:
            return tuple(Contracted(kind, ((0, a),)) for a in axes or ())
    if isinstance(op, ConvTransposeOp) and op.groups == 1 and op.bias is None:
        return (Contracted(SUM, ((0, op.channel_axis), (1, 0))),)
    if isinstance(op, ConvOp) and op.groups == 1 and op.bias is None:
        return (Contracted(SUM, ((0, op.channel_axis), (1, 1))),)
    if isinstance(op, ScatterNdOp) and op.reduction.data == "add" and is_zero(op.input):
        return tuple(
            Contracted(SUM, ((1, d), (2, d))) for d in range(len(shape_of(op.indices)) - 1)
        )
    return ()


def is_zero(value: SSAValue) -> bool:
    """Return whether a value is a constant of zeros."""
    if isinstance(value.owner, FillOp):
        return value.owner.value.value.data == 0
    return isinstance(value.owner, ConstantOp) and splat(value) == 0


def linear(op: TensorOp) -> tuple[tuple[int, ...], ...]:
    """Sets of operands such that, if those of one set are sums that are not complete, so is the
    result."""
    if isinstance(op, AddOp | SubOp):
        return ((0, 1),)
    if isinstance(op, MulOp | MatmulOp):
        return ((0,), (1,))
    is_sum = isinstance(op, ReduceOp) and op.kind.data in (SUM, "mean")
    if isinstance(op, NegOp | View | TransposeOp | BroadcastToOp | SliceOp | DivOp) or is_sum:
        return ((0,),)
    return ()


def of_result(own: Sharding, rank: int) -> Sharding:
    """Return how a result is cut of which the first one is cut so: one with fewer dimensions has
    the last ones."""
    more = len(own.dims) - rank
    return replace(own, dims=own.dims[more:]) if more else own


def united(found: Sequence[list[Span]]) -> list[Span] | None:
    """Return the least box that has some boxes, of which those that differ have ends that are
    numbers; None for others."""
    spans: list[Span] = []
    for own in zip(*found, strict=True):
        if all(span == own[0] for span in own):
            spans.append(own[0])
            continue
        firsts = [first for first, _ in own if isinstance(first, int)]
        if len(firsts) < len(own):
            return None
        least = min(firsts)
        spans.append((least, max(f + n for f, (_, n) in zip(firsts, own, strict=True)) - least))
    return spans


class Rules:
    """What may be done with one op, or with several of one kind, and what it needs then.
    `is_computed` says whether an op that computes parts can be built."""

    def __init__(
        self,
        op: TensorOp,
        may_cut: Callable[[TensorOp, int], bool],
        builds: "Callable[[TensorOp, Strategy, Sequence[Need]], bool]",
    ) -> None:
        self.op, self.may_cut, self.builds = op, may_cut, builds
        self.shapes = [shape_of(v) for v in operands_of(op)]
        self.results = [shape_of(r) for r in op.results]
        static = all(is_static(s) for s in (*self.shapes, *self.results)) and not op.regions
        self.is_static = static and bool(self.results)
        self.contracted = contracted(op) if self.is_static else ()
        self._needs: dict[Strategy, tuple[Need, ...] | None] = {}
        self._suggestions: dict[Hashable, list[Strategy]] = {}

    def whole(self) -> Strategy:
        rank = len(self.results[0]) if self.results else 0
        return Strategy(((),) * rank, ((),) * len(self.contracted))

    # ---- what a strategy needs

    def needs(self, strategy: Strategy) -> tuple[Need, ...] | None:
        """Return what the op needs of each operand; None where it cannot be computed so."""
        found = self._needs.get(strategy)
        if found is None and strategy not in self._needs:
            found = self._needed(strategy)
            if found is not None and strategy.axes and not self.builds(self.op, strategy, found):
                found = None
            self._needs[strategy] = found
        return found

    def _needed(self, strategy: Strategy) -> tuple[Need, ...] | None:
        if not strategy.axes:
            return tuple(Sharding.whole(len(s)) for s in self.shapes)
        used = all_digits(strategy.axes)
        if not self.is_static or len(set(used)) < len(used):
            return None
        if any(a and not self.may_cut(self.op, d) for d, a in enumerate(strategy.dims)):
            return None
        needs = [self._of_operand(i, strategy) for i in range(len(self.shapes))]
        return None if None in needs else tuple(n for n in needs if n is not None)

    def _of_operand(self, index: int, strategy: Strategy) -> Need | None:
        shape = self.shapes[index]
        found: list[list[Span]] = []
        for r, result in enumerate(self.results):
            if len(result) != len(strategy.dims) and not isinstance(self.op, Recurrent):
                return None
            dims = of_result(strategy.result, len(result)).dims
            box = self.op.operand_box(index, Box.of(cut(result, dims)), r)
            found.append([(0, d) for d in shape] if box is None else list(box.spans))
        if (spans := united(found)) is None:
            return None
        for factor, axes in zip(self.contracted, strategy.sums, strict=True):
            for operand, dim in factor.dims:
                if operand == index and axes:
                    spans[dim] = part(shape[dim], axes)
        unreduced = strategy.through if index in strategy.takes else ()
        exact = index == 0 and isinstance(self.op, PadOp | Convolution | PoolOp)
        return needed(spans, shape, unreduced, strategy.kind, exact)

    # ---- strategies that operands suggest

    @cached_property
    def relation(self) -> dict[tuple[int, int], list[int]]:
        """(operand, its dimension) -> the dimensions of the result along which it is cut with
        them."""
        found: dict[tuple[int, int], list[int]] = {}
        result = self.results[0]
        for d, size in enumerate(result):
            if size < 2 or not self.may_cut(self.op, d):
                continue
            unit = DigitSum(0, {Axis("", 1, size): 1})
            for i in range(len(self.shapes)):
                box = self.op.operand_box(i, Box.part(result, {d: (unit, 1)}))
                for j, (offset, _) in enumerate(box.spans if box is not None else ()):
                    if isinstance(offset, DigitSum | Unknown):
                        found.setdefault((i, j), []).append(d)
        return found

    def suggested(self, index: int, sharding: Sharding) -> Strategy | None:
        """The strategy that takes an operand as it is, as far as there is one."""
        if not self.is_static:
            return None
        dims: list[Axes] = [()] * len(self.results[0])
        sums: list[Axes] = [()] * len(self.contracted)
        if isinstance(self.op, View) and index == 0:
            dims = self._viewed(sharding)
        else:
            for j, axes in enumerate(sharding.dims):
                if not axes:
                    continue
                if homes := self.relation.get((index, j)):
                    home = next((d for d in homes if not dims[d]), None)
                    if home is not None:
                        dims[home] = axes
                    continue
                for k, factor in enumerate(self.contracted):
                    if (index, j) in factor.dims:
                        sums[k] = axes
        through = sharding.unreduced
        takes = next((t for t in linear(self.op) if index in t), ())
        kinds = [f.kind for f, axes in zip(self.contracted, sums, strict=True) if axes]
        kind = kinds[0] if kinds else SUM
        if not takes or sharding.kind != SUM or kind != SUM:
            through, takes = (), ()
        return Strategy(tuple(dims), tuple(sums), through, takes if through else (), kind)

    def _viewed(self, sharding: Sharding) -> list[Axes]:
        result = self.results[0]
        while True:
            box = view_box(Box.of(cut(self.shapes[0], sharding.dims)), result, self.shapes[0])
            spans = [(0, d) for d in result] if box is None else box.spans
            dims = [axes_of(span, d) for span, d in zip(spans, result, strict=True)]
            if None not in dims:
                return [d or () for d in dims]
            last = max(i for i, axes in enumerate(sharding.dims) if axes)
            shorter = sharding.dims[last][:-1]
            own = (*sharding.dims[:last], shorter, *sharding.dims[last + 1 :])
            sharding = replace(sharding, dims=own)

    def strategies(
        self, operands: Sequence[Sequence[Sharding]], wanted: Sequence[Sharding]
    ) -> list[Strategy]:
        """The strategies that shardings of operands and of the result suggest, alone and together,
        with and without each axis; the first is that of whole operands."""
        key = tuple(map(tuple, operands)), tuple(wanted)
        if (known := self._suggestions.get(key)) is None:
            known = self._suggestions[key] = self._suggested(operands, wanted)
        return known

    def _suggested(
        self, operands: Sequence[Sequence[Sharding]], wanted: Sequence[Sharding]
    ) -> list[Strategy]:
        found: dict[Strategy, None] = {self.whole(): None}
        single: list[list[Strategy]] = []
        for i, shardings in enumerate(operands):
            own = [self.suggested(i, s) for s in shardings if not s.is_whole]
            single.append([s for s in dict.fromkeys(own) if s is not None and s.axes])
        own_dims = [Strategy(s.dims, self.whole().sums) for s in wanted if any(s.dims)]
        single.append([s for s in own_dims if self.results and len(s.dims) == len(self.results[0])])
        for group in single:
            found |= dict.fromkeys(group)
        for a, b in combinations([g for g in single if g], 2):
            found |= dict.fromkeys(merged(x, y) for x in a[:4] for y in b[:4])
            found |= dict.fromkeys(merged(y, x) for x in a[:4] for y in b[:4])
        found |= dict.fromkeys(self._batches(operands))
        if len(groups := [g[0] for g in single if g]) > 2:
            found[reduce(merged, groups)] = None
        for strategy in list(found):
            for name in dict.fromkeys(a.name for a in strategy.axes):
                found[strategy.without(name)] = None
        able = (s for s in list(found)[: 4 * MOST] if self.needs(s) is not None)
        return list(islice(able, MOST))

    def _batches(self, operands: Sequence[Sequence[Sharding]]) -> Iterator[Strategy]:
        """Products of a batch, as of heads, may be cut along it, whatever is cut now: then parts
        are exchanged before and after them."""
        if not isinstance(self.op, MatmulOp) or any(len(s) < 3 for s in self.shapes):
            return
        whole, result = self.whole(), self.results[0]
        cut = {joined(tuple(s.axes)) for shardings in operands for s in shardings}
        for axes in sorted(cut):
            parts = prod(a.size for a in axes)
            for d, size in enumerate(result[:-2]):
                if axes and size % parts == 0:
                    yield replace(whole, dims=(*whole.dims[:d], axes, *whole.dims[d + 1 :]))


class NormRules(Rules):
    """Of a group norm, for a search: it may also be cut along dimensions of which each group has
    all elements. It is written in two levels then (`two_levels.py`): devices add up their sums."""

    @cached_property
    def relation(self) -> dict[tuple[int, int], list[int]]:
        shape = self.results[0]
        return super().relation | {(0, d): [d] for d in range(2, len(shape)) if shape[d] > 1}

    def _of_operand(self, index: int, strategy: Strategy) -> Need | None:
        need = super()._of_operand(index, strategy)
        if index or not self.shared(strategy):
            return need
        shape, rows = self.shapes[0], strategy.dims[2:]
        even = all(
            d % prod(a.size for a in own) == 0 for d, own in zip(shape[2:], rows, strict=True)
        )
        return Sharding((*need.dims[:2], *rows)) if even and isinstance(need, Sharding) else None

    @staticmethod
    def shared(strategy: Strategy) -> Axes:
        """Return the axes along which devices have parts of the same groups."""
        return tuple(a for axes in strategy.dims[2:] for a in axes)


def merged(a: Strategy, b: Strategy) -> Strategy:
    """Strategy a, with what of b's does not use the same axes."""
    used = set(all_digits(a.axes))

    def also(own: Axes, other: Axes) -> Axes:
        if not other or not used.isdisjoint(all_digits(other)):
            return own
        used.update(all_digits(other))
        return joined((*own, *other))

    dims = tuple(also(x, y) for x, y in zip(a.dims, b.dims, strict=True))
    kind = a.kind if any(a.sums) or a.through else b.kind
    same = a.kind == b.kind or not (any(a.sums) or a.through)
    sums = tuple(also(x, y) if same else x for x, y in zip(a.sums, b.sums, strict=True))
    takes = a.takes or b.takes
    through = also(a.through, b.through) if same and takes in (a.takes, b.takes) else a.through
    return Strategy(dims, sums, through, takes if through else (), kind)


def needed(
    spans: Sequence[Span], shape: Sequence[int], unreduced: Axes, kind: str, exact: bool
) -> Need | None:
    """A box of an operand as a sharding, or as a box for each device; None where its offset does
    not follow from the device's place. `exact`: what stands behind the last element counts."""
    dims = [
        () if isinstance(span[0], int) else axes_of(span, d)  # of a fixed span all: the op takes it
        for span, d in zip(spans, shape, strict=True)
    ]
    if exact:
        pairs = zip(dims, spans, shape, strict=True)
        dims = [None if a and prod(x.size for x in a) * s[1] != d else a for a, s, d in pairs]
    if None not in dims:
        own = tuple(d or () for d in dims)
        digits = all_digits((*(a for axes in own for a in axes), *unreduced))
        if len(set(digits)) < len(digits):
            return None
        return Sharding(own, unreduced=unreduced, kind=kind if unreduced else SUM)
    return None if unreduced else box_needed(spans, shape)


def box_needed(spans: Sequence[Span], shape: Sequence[int]) -> Needed | None:
    """A box for each device; all along dimensions whose span is the same for all."""
    places = list[tuple[Place, int]]()
    for (offset, size), dim in zip(spans, shape, strict=True):
        if isinstance(offset, int):
            places.append((Place(), dim))
        elif isinstance(offset, DigitSum):
            places.append((Place(offset.constant, tuple(terms_of(offset))), size))
        else:
            return None
    return Needed(tuple(places))


def terms_of(number: DigitSum) -> Iterator[tuple[Axis, int]]:
    """The terms of a number, with neighboring digits of an axis as one."""
    terms = sorted(number.terms.items(), key=lambda t: (t[0].name, t[0].pre))
    last: tuple[Axis, int] | None = None
    for digit, by in terms:
        if last is not None:
            axis, whole = last
            follows = axis.name == digit.name and axis.pre * axis.size == digit.pre
            if follows and whole == by * digit.size:
                last = Axis(axis.name, axis.pre, axis.size * digit.size), by
                continue
            yield last
        last = digit, by
    if last is not None:
        yield last
