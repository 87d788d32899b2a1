"""Proof of the claims of a program with gears about inputs between them (`graph.padding`): padded
with zeros along a dimension, and outputs cut along the axes that it names, they give the numbers of
their own size.

    graph.padding = {batch = {y = array<i64: 0>}}    y is cut along axis 0
    graph.softmax %x axis 0 in a gear              and refused: valid rows need padded ones

For each such dimension each gear is followed from its inputs (`moved_axes.py`). Padding that does
not go along an axis of a result is right where it adds nothing: zeros in sums and products,
scores without weight in a softmax or in attention; or where the same first elements are picked in
all gears, by constant indices or a slice. Outputs are cut along the axes that come out, and along
those alone whose size is in proportion to that of the dimension. Numbers in the kernels
of two gears are the same, or those of the smaller one the first ones of the larger one's: none
follows from the size.

Relied upon, and said in the summary: that weights and inputs are finite, and what ops make of
finite elements too; that scores to which a mask is added are small beside it, and leave each valid
query a key; that indices that the program computes are not those of padded elements.

A gear is followed op by op, with the contents of its padded elements: a known number, or a class
of values.

Constants in two gears are the same, or those of the smaller one the first ones of the larger one's,
and slices begin at the same places. Axes of constants that are longer in a larger gear are padded
there, as those of inputs are: a sum over one is none of the size between.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from math import isfinite
from typing import Any, TypeAlias, cast

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    Float16Type,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    i1,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.indexing import Picking
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.normalization import SoftmaxOp
from ge.dialects.graph.reduction import CumulativeOp, ReduceOp
from ge.dialects.graph.slicing import SliceOp
from ge.dialects.graph.stated import (
    PADDING,
    argument_attributes,
    dims_of,
    growing_symbol,
    name_of,
    padding_of,
)
from ge.dialects.npu_task.control import CaseOp, LoopOp, MapIndexOp, YieldOp
from ge.dialects.npu_task.memory import access, moves, owner_of
from ge.dialects.npu_task.ops import BatchCopyOp, ConstantOp, CopyOp, KernelOp, LaunchOp, TransferOp
from ge.dialects.support.boxes import MOVING
from ge.dialects.support.dims import symbols
from ge.dialects.support.element_types import is_float
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    DYNAMIC,
    Dense,
    array_ints,
    element_type,
    is_dynamic,
    numel,
    rank_of,
    shape_of,
)
from ge.runtime.check.moved_axes import (
    Digit,
    Key,
    Marks,
    MovedAxes,
    Source,
    followed,
    picked_elements,
)
from ge.runtime.check.problems import Problem
from ge.runtime.check.problems import name_of as op_name


class Held(Enum):
    """Contents of padded elements that are no known number."""

    LOW = "what leaves no weight in a softmax"
    FINITE = "some finite value"
    MASK = "some finite value, or minus infinity"
    ANY = "any value, infinite or nan too"


Fill: TypeAlias = float | Held

LOWEST, LOWEST_OF_F16, ORDINARY = -1e30, -6e4, 0.4  # see `is_low`


def is_finite(fill: Fill) -> bool:
    return isfinite(fill) if isinstance(fill, float) else fill is Held.FINITE


def is_low(fill: Fill, value: SSAValue) -> bool:
    """True if scores of this fill have no weight, beside others of up to `ORDINARY` of its size."""
    return fill is Held.LOW or (isinstance(fill, float) and fill <= lowest(value))


def lowest(value: SSAValue) -> float:
    return LOWEST_OF_F16 if isinstance(element_type(value), Float16Type) else LOWEST


def is_ordinary(fill: Fill, value: SSAValue) -> bool:
    return abs(fill) <= -ORDINARY * lowest(value) if isinstance(fill, float) else is_finite(fill)


def joined(fills: Sequence[Fill]) -> Fill:
    """The fill of elements of which some hold each of these."""
    if all(fill == fills[0] for fill in fills):
        return fills[0]
    if all(map(is_finite, fills)):
        return Held.FINITE
    return Held.ANY if Held.ANY in fills else Held.MASK


def computed(op: Operation, fills: Sequence[Fill]) -> Fill:
    """The fill that an elementwise op makes of these."""
    numbers = [f for f in fills if isinstance(f, float)]
    if len(numbers) == len(fills) and (result := evaluated(op, numbers)) is not None:
        return result
    low = [is_low(f, v) for f, v in zip(fills, op.operands, strict=False)]
    match op:
        case e.AndOp() | e.MulOp() if 0.0 in fills and all(map(is_finite, fills)):
            return 0.0
        case e.OrOp() if 1.0 in fills:
            return 1.0
        case e.SelectOp():
            return (
                joined(fills[1:])
                if not isinstance(fills[0], float)
                else fills[1 if fills[0] else 2]
            )
        case e.ExpOp() if low[0]:
            return 0.0
        case e.CastOp() if low[0]:
            return Held.LOW
        case e.AddOp() | e.SubOp() if any(low):
            first = fills[:1] if isinstance(op, e.SubOp) else fills
            kept = (
                is_ordinary(f, v) or f is Held.MASK or (lo and f in first)
                for f, v, lo in zip(fills, op.operands, low, strict=True)
            )
            return Held.LOW if all(kept) and (low[0] or isinstance(op, e.AddOp)) else Held.ANY
        case e.AddOp() if Held.ANY not in fills:
            return joined([Held.FINITE, *fills])
        case _:
            return Held.FINITE if all(map(is_finite, fills)) else Held.ANY


def evaluated(op: Operation, n: Sequence[float]) -> float | None:
    """A few ops on numbers, as masks are made by them."""
    match op:
        case e.AddOp():
            return n[0] + n[1]
        case e.SubOp():
            return n[0] - n[1]
        case e.MulOp():
            return n[0] * n[1]
        case e.DivOp() if n[1]:
            return n[0] / n[1] if is_float(element_type(op.results[0])) else None
        case e.NegOp():
            return -n[0]
        case e.NotOp():
            return float(not n[0])
        case e.CastOp():
            return float(n[0] != 0) if op.to == i1 else n[0] if n[0] == int(n[0]) else None
        case e.CompareOp():
            return float(COMPARE[op.predicate.data](n[0], n[1]))
        case e.SelectOp():
            return n[1] if n[0] else n[2]
        case e.AndOp():
            return float(bool(n[0]) and bool(n[1]))
        case e.OrOp():
            return float(bool(n[0]) or bool(n[1]))
        case _:
            return None


COMPARE = {
    "eq": float.__eq__, "ne": float.__ne__, "lt": float.__lt__, "le": float.__le__,
    "gt": float.__gt__, "ge": float.__ge__,
}  # fmt: skip


NEUTRAL = {"sum": 0.0, "l1": 0.0, "l2": 0.0, "sum_square": 0.0, "prod": 1.0}


class Mixes(Exception):
    """Valid elements of an op's result need padded ones."""

    def __init__(self, op: Operation) -> None:
        super().__init__(op.name)
        self.op = op


MIXED: Key = (-1, Digit(1, 1))  # of what follows from padded elements


def mixed(mixes: Mixes) -> Marks[Fill]:
    """The marks of values that follow from padded elements."""
    return {MIXED: cast(Fill, mixes)}


def mixes_in(marks: Marks[Fill]) -> Mixes | None:
    what: object = marks.get(MIXED)
    return what if isinstance(what, Mixes) else None


@dataclass
class PaddedAxes(MovedAxes[Fill]):
    """One gear, whose inputs are padded along one dimension. `by_indices`: ops that pick elements
    by indices that the program computes. `firsts`: numbers of elements from the front that ops pick
    whatever the size is; `of_larger`: those of larger gears, None for the largest."""

    smallest: int = 1  # size of the dimension in the gears
    of_larger: Set[frozenset[int]] | None = None
    firsts: set[frozenset[int]] = field(default_factory=set[frozenset[int]])
    by_indices: list[Operation] = field(default_factory=list[Operation])
    # Buffers and values whose valid elements need padded ones, and where: of no matter if unread
    wrong: dict[SSAValue, Mixes] = field(default_factory=dict[SSAValue, Mixes])
    # The padded parts of constants in kernels
    constants: dict[SSAValue, Marks[Fill]] = field(default_factory=dict[SSAValue, Marks[Fill]])

    def take_constants(self, padded: Mapping[Operation, Marks[Fill]]) -> None:
        """Constants that are longer in larger gears, and their axes that are padded in this one."""
        for op, marks in padded.items():
            if isinstance(op, ConstantOp):
                self.write(op.result, marks)
            else:
                self.constants[op.results[0]] = marks

    def everywhere(self, value: SSAValue) -> Fill:
        """The fill of the elements of a value that are not padded."""
        if (dense := self.constant(value)) is not None and len(numbers := dense.get_values()) == 1:
            return float(numbers[0])
        return Held.FINITE

    def lost(self, op: Operation) -> None:
        raise Mixes(op)

    def joined(self, a: Fill, b: Fill) -> Fill:
        return joined((a, b))

    def read(self, value: SSAValue, op: Operation) -> Marks[Fill]:
        if (mixes := self.wrong.get(owner_of(value))) is not None:
            return mixed(mixes)
        try:
            return super().read(value, op)
        except Mixes as mixes:
            return mixed(mixes)

    def write(self, value: SSAValue, marks: Marks[Fill]) -> None:
        owner = owner_of(value)
        if (mixes := mixes_in(marks)) is not None:
            self.wrong[owner] = mixes
        else:
            if value.type == owner.type:
                self.wrong.pop(owner, None)
            super().write(value, marks)

    def task(self, op: Operation) -> None:
        """Follow nothing through branches and loops: values that they write follow from padded
        elements if they read any."""
        if not op.regions:
            super().task(op)
            return
        inside = [access(o) for o in op.walk()]
        carried = op.carried if isinstance(op, LoopOp) else ()
        if any(self.read(v, op) for v in (*carried, *(v for e in inside for v in e.reads))):
            moved = (m.target for o in op.walk() if isinstance(o, YieldOp) for m in moves(o))
            written = (v for e in inside for v in e.writes)
            for value in (*op.results, *written, *(v for v in moved if v is not None)):
                self.write(value, mixed(Mixes(op)))

    def block(self, block: Block, marks: dict[SSAValue, Marks[Fill]]) -> None:
        marks |= self.constants
        super().block(block, marks)

    def launch(self, op: LaunchOp, kernel: KernelOp) -> None:
        if any(map(is_dynamic, (*kernel.input_types, *kernel.output_types))):
            if any(self.read(v, op) for v in op.ins):
                for value in (*op.outs, *op.results):
                    self.write(value, mixed(Mixes(op)))
            return
        super().launch(op, kernel)

    def result(self, op: TensorOp, index: int, known: Sequence[Marks[Fill]]) -> Marks[Fill]:
        for marks in known:
            if MIXED in marks:
                return Marks[Fill]({MIXED: marks[MIXED]})
        try:
            return super().result(op, index, known)
        except Mixes as mixes:
            return mixed(mixes)

    def made(self, op: TensorOp, key: Key, sources: Sequence[tuple[Source, Fill]]) -> Fill:
        padded = {i: fill for (i, _), fill in sources}
        if op.TAKES_INDICES and any(
            i and not (isinstance(f, float) and f >= 0) and self.constant(op.operands[i]) is None
            for i, f in padded.items()
        ):
            self.by_indices.append(op)
        fills = [padded.get(i, self.everywhere(v)) for i, v in enumerate(op.operands)]
        if isinstance(op, e.Elementwise | e.ClampOp):
            return computed(op, fills)
        if op.ACCESS in MOVING:
            return joined([*padded.values()])
        if isinstance(op, AttentionOp) and op.undefined.data != "nan":
            masks = (is_finite(f) or f is not Held.ANY for f in fills)
            return Held.FINITE if all(masks) else Held.ANY
        if isinstance(op, MatmulOp) and 0.0 in padded.values() and all(map(is_finite, fills)):
            return 0.0
        return Held.FINITE if all(map(is_finite, fills)) else Held.ANY

    def crossed(
        self, op: TensorOp, result: int, left: set[Source], known: Sequence[Marks[Fill]]
    ) -> Marks[Fill]:
        """The marks of a result for padding that does not go along its axes. Raises Mixes where
        padded elements may count in valid ones."""
        fills = {source: known[source[0]][source[1]] for source in left}
        found = Marks[Fill]()
        match op:
            case MatmulOp():
                fits = self.adds_nothing(op, left, known)
            case ReduceOp():
                fits = all(neutral_in(op, key, fill) for (_, key), fill in fills.items())
            case SoftmaxOp() if not op.flatten.value.data:
                last = op.axis.value.data % rank_of(op.input)
                fits = all(k[0] == last and is_low(f, op.input) for (_, k), f in fills.items())
                found = Marks[Fill]({key: 0.0 for _, key in left})
            case AttentionOp():
                fits = attends_to_none(op, left, known)
            case CumulativeOp():  # from the end
                neutral = NEUTRAL[op.kind.data]
                fits = op.ints("axis") is not None and all(
                    key[0] == (op.ints("axis") or (0,))[0] % rank_of(op.input) and f == neutral
                    for (_, key), f in fills.items()
                )
                found = Marks[Fill](dict.fromkeys((key for _, key in left), neutral))
            case SliceOp():
                fits = all(self.keeps_first(op, key) for _, key in left)
            case Picking():
                fits, found = True, self.picked(op, fills)
            case _:
                fits = False
        if not fits:
            raise Mixes(op)
        return found

    def adds_nothing(self, op: MatmulOp, left: set[Source], known: Sequence[Marks[Fill]]) -> bool:
        """True if padded terms of sums are zeros times something finite."""
        k = op.summed
        if any(axis != k[i] for i, (axis, _) in left):
            return False
        for digit in {digit for _, (_, digit) in left}:
            terms = [
                m.get((k[i], digit), self.everywhere(op.operands[i])) for i, m in enumerate(known)
            ]
            if 0.0 not in terms or not all(map(is_finite, terms)):
                return False
        return True

    def keeps_first(self, op: SliceOp, key: Key) -> bool:
        """True if a slice has the first elements along a padded axis, as many whatever its size."""
        bounds, (axis, digit) = op.bounds(), key
        if bounds is None or digit.unit * digit.count != shape_of(op.input)[axis]:
            return False
        if any(a == axis and (start != 0 or step != 1) for a, start, _, step in bounds):
            return False
        count = shape_of(op.result)[axis]
        return self.are_first(frozenset(n // digit.unit for n in range(count)))

    def picked(self, op: Picking, fills: Mapping[Source, Fill]) -> Marks[Fill]:
        """The padded axes of a result whose constant indices count along them; others name elements
        from the front, whatever the size is. Raises Mixes. Indices that the program computes are
        relied upon."""
        dense, found = self.constant(op.indices), Marks[Fill]()
        for (operand, (axis, digit)), fill in fills.items():
            if operand or axis not in op.indexed_axes():
                raise Mixes(op)
            if dense is None:
                self.by_indices.append(op)
                continue
            picked = picked_elements(op, axis, dense)
            if min(picked.elements, default=0) < 0:
                raise Mixes(op)
            numbers = [n // digit.unit % digit.count for n in picked.elements]
            key = followed(numbers, picked, digit.count)
            if key is not None and frozenset(numbers) not in (self.of_larger or ()):
                found[key] = joined((fill, found[key])) if key in found else fill
            elif not self.are_first(frozenset(numbers)):
                raise Mixes(op)
        return found

    def are_first(self, numbers: frozenset[int]) -> bool:
        """True if these are numbers of elements that all sizes have, the same in larger gears."""
        if max(numbers, default=0) == 0:
            return True
        self.firsts.add(numbers)
        same = self.of_larger is None or numbers in self.of_larger
        return same and max(numbers) < self.smallest


def neutral_in(op: ReduceOp, key: Key, fill: Fill) -> bool:
    """True if padded elements along a reduced axis change no sum, product or largest element."""
    kind = op.kind.data
    if key[0] not in (op.reduced_axes() or ()):
        return False
    if kind == "max":
        return fill == float("-inf") or is_low(fill, op.input)
    return kind in NEUTRAL and fill == NEUTRAL[kind]


def attends_to_none(op: AttentionOp, left: set[Source], known: Sequence[Marks[Fill]]) -> bool:
    """True if valid queries have no weight for padded keys: a mask leaves them out, or positions,
    where queries are padded as well."""
    operands, masks = list(op.operands), list(op.masks)
    keyed = {i: op.dimension(name, 2) for i, name in ((1, "key"), (2, "value"))}
    places = keyed | {i: rank_of(v) - 1 for i, v in enumerate(operands) if v in masks}
    if any(places.get(i) != axis for i, (axis, _) in left):
        return False
    for digit in {digit for _, (_, digit) in left}:
        held = [known[i].get((axis, digit)) for i, axis in keyed.items()]
        if any(fill is not None and not is_finite(fill) for fill in held):
            return False
        out = any(
            is_left_out(op, v, known[i][rank_of(v) - 1, digit])
            for i, v in enumerate(operands)
            if v in masks and (rank_of(v) - 1, digit) in known[i]
        )
        plain = op.key_lengths is None and op.offset_value is None
        plain = plain and op.ints("offset") in (None, (0,))
        causal = bool(op.causal.value.data) and plain
        if not out and not (causal and (op.dimension("query", 2), digit) in known[0]):
            return False
    return True


def is_left_out(op: AttentionOp, mask: SSAValue, fill: Fill) -> bool:
    if element_type(mask) == i1:
        return fill == 0.0 and is_low(float(op.fill.value.data), op.query)
    return is_low(fill, mask)


Row = Sequence[int]  # the sizes of a gear

Numbers = tuple[Operation, list[Operation]]  # an op of a gear, and what has numbers in it


@dataclass
class GearNumbers:
    """The numbers of all gears. `names`: of their dimensions, `safe`: those that are padded."""

    kernels: Mapping[str, KernelOp]
    names: Sequence[str]
    safe: Sequence[str]
    gears: Sequence[tuple[Row, Block]]
    # By constant, or op that fills its result: the axes that are longer in a larger gear, and the
    # dimension that each grows with
    grown: dict[Operation, dict[int, str]] = field(default_factory=dict[Operation, dict[int, str]])
    compared: set[str] = field(default_factory=set[str])  # dimensions with which numbers may change

    def differing(self) -> tuple[Operation, Operation, set[str]] | None:
        """The first op of a gear whose numbers follow from sizes, the value that has them, and the
        names of the dimensions. Numbers that cannot be compared leave a dimension out of
        `compared`."""
        unknown = set[str]()
        for (small, a), (large, b) in self.pairs():
            changed = {n for n, x, y in zip(self.names, small, large, strict=True) if x != y}
            self.compared |= changed
            ours, theirs = self.of(a), self.of(b)
            if kinds(ours) != kinds(theirs):
                unknown |= changed
                continue
            for (op, own), (_, others) in zip(ours, theirs, strict=True):
                for x, y in zip(own, others, strict=True):
                    same = same_numbers(x, y)
                    if same is False:
                        return op, y, changed
                    if same is None or not self.grow(x, y, small, large, changed):
                        unknown |= changed
        self.compared -= unknown
        return None

    def pairs(self) -> Iterator[tuple[tuple[Row, Block], tuple[Row, Block]]]:
        """Gears next to each other that differ in dimensions that are padded alone."""
        exact = [i for i, n in enumerate(self.names) if n not in self.safe]
        ordered = sorted(self.gears, key=lambda g: ([g[0][i] for i in exact], [*g[0]]))
        for a, b in pairwise(ordered):
            if all(a[0][i] == b[0][i] for i in exact):
                yield a, b

    def of(self, block: Block) -> list[Numbers]:
        """The ops of a gear that compute or move something, with constants that they read and the
        ops of their kernels."""
        found: list[Numbers] = []
        for op in block.walk():
            own = [v for v in (owner_of(o).owner for o in op.operands) if isinstance(v, ConstantOp)]
            kernel = self.kernels.get(op.callee) if isinstance(op, LaunchOp) else None
            found.append((op, [*own, *(() if kernel is None else kernel.body.walk())]))
        return found

    def grow(self, x: Operation, y: Operation, small: Row, large: Row, changed: set[str]) -> bool:
        """Note which axes of a constant, or of what an op fills, are longer in the larger gear;
        whether each grows with one dimension alone."""
        if x is y or x.operands or not (x.results and isinstance(x, TensorOp | ConstantOp)):
            return True
        if len(m := shape_of(x.results[0])) != len(n := shape_of(y.results[0])):
            return False
        for axis, (p, q) in enumerate(zip(m, n, strict=True)):
            if p == q:
                continue
            units = {
                name: p // a
                for name, a, b in zip(self.names, small, large, strict=True)
                if name in changed and p % a == 0 and p // a * b == q
            }
            least = [name for name, unit in units.items() if unit == min(units.values())]
            if len(least) != 1:
                return False
            for op in (x, y):
                self.grown.setdefault(op, {})[axis] = least[0]
        return True

    def padded(self, op: Operation, name: str, size: int) -> Marks[Fill]:
        """The axes of a constant that are padded in a gear where a dimension has this size."""
        found, shape = Marks[Fill](), shape_of(op.results[0])
        for axis, own in self.grown.get(op, {}).items():
            if own == name:
                found[axis, Digit(shape[axis] // size, size)] = held_by(op)
        return found


def kinds(found: Sequence[Numbers]) -> list[tuple[str, list[str]]]:
    return [(op.name, [o.name for o in own]) for op, own in found]


def held_by(op: Operation) -> Fill:
    """The fill of the elements of a constant."""
    value = op.properties.get("value")
    if isinstance(value, FloatAttr | IntegerAttr):
        return float(cast(Any, value).value.data)
    if not isinstance(value, DenseIntOrFPElementsAttr):
        return Held.FINITE
    numbers = [float(v) for v in cast(Dense, value).get_values()]
    if len(numbers) == 1:
        return numbers[0]
    if all(map(isfinite, numbers)):
        return Held.FINITE
    return Held.MASK if max(numbers) < float("inf") else Held.ANY


# Properties of ops that say how large results are
SIZES = {"shape", "sizes", "size", "ends", "output_shape", "image_shape", "length"}


def same_numbers(op: Operation, other: Operation) -> bool | None:
    """True if constants of two gears are the same, or one has the first elements of the other, and
    numbers of ops are the same; None where properties other than sizes, or weights, differ."""
    if isinstance(op, SliceOp) and isinstance(other, SliceOp):
        return op.ints("starts") == other.ints("starts")
    is_known = True
    for name, a in op.properties.items():
        b = other.properties.get(name)
        if a == b or name in SIZES:
            continue
        if isinstance(a, FloatAttr) and isinstance(b, FloatAttr):
            return False
        if isinstance(a, DenseIntOrFPElementsAttr) and isinstance(b, DenseIntOrFPElementsAttr):
            shapes = shape_of(op.results[0]), shape_of(other.results[0])
            if not begins_with(cast(Dense, a), cast(Dense, b), *shapes):
                return False
        else:
            is_known = False
    return True if is_known else None


def begins_with(a: Dense, b: Dense, m: Sequence[int], n: Sequence[int]) -> bool:
    """True if elements of one constant are the first ones of another along each axis."""
    x, y = a.get_values(), b.get_values()
    if len(x) == 1 and numel(tuple(m)) != 1 and len(y) == 1:
        return x == y
    if len(m) != len(n) or len(x) != numel(tuple(m)) or len(y) != numel(tuple(n)):
        return len(x) == 1 == len(y) and x == y
    small, large = ((x, m), (y, n)) if len(x) <= len(y) else ((y, n), (x, m))
    if any(i > j for i, j in zip(small[1], large[1], strict=True)):
        return False
    for at, value in enumerate(small[0]):
        place, rest, stride = 0, at, 1
        for size, whole in zip(reversed(small[1]), reversed(large[1]), strict=True):
            place += rest % size * stride
            rest, stride = rest // size, stride * whole
        if large[0][place] != value:
            return False
    return numel(tuple(m)) != numel(tuple(n)) or list(x) == list(y)


NO_NUMBER = "no number in a gear follows from a size that is padded"


@dataclass
class Gears:
    """The gears of a function, and its claims about sizes between them. `relied`: clauses for the
    summary."""

    func: FuncOp
    index: MapIndexOp
    case: CaseOp
    kernels: Mapping[str, KernelOp]
    problems: list[Problem] = field(default_factory=list[Problem])
    relied: dict[str, None] = field(default_factory=dict[str, None])

    @property
    def names(self) -> list[str]:
        """Names of the dimensions, one for each measured size."""
        pairs = zip(self.index.inputs, self.index.measured, strict=True)
        return [dimension(self.func, value, axis) for value, axis in pairs]

    def report(self, rule: str, text: str, op: Operation | None = None) -> None:
        self.problems.append(Problem(rule, text, op or self.func))

    def check(self) -> None:
        claims, names = claims_of(self.func), self.names
        safe = [n for n, axes in claims.items() if n in names and axes is not None]
        numbers = self.check_numbers(safe)
        for name, axes in claims.items():
            if axes is None:
                continue
            if name not in names:
                self.report("G1", f"{PADDING} names '{name}', which is no dimension of the gears")
            elif other := next((o for o in names if o != name and follows(name, o)), None):
                self.report("G2", f"'{name}' is padded, and '{other}' follows from it")
            else:
                self.check_dimension(name, axes, numbers)

    def check_dimension(
        self, name: str, claim: Mapping[str, Sequence[int]], numbers: GearNumbers
    ) -> None:
        column = self.names.index(name)
        rows = [*zip(self.index.rows, self.case.regions, strict=False)]
        sizes, firsts = {row[column] for row, _ in rows}, set[frozenset[int]]()
        for row, region in sorted(rows, key=lambda gear: -gear[0][column]):
            largest = row[column] == max(sizes)
            of_larger = None if largest else firsts
            gear = PaddedAxes(self.kernels, smallest=min(sizes), of_larger=of_larger)
            if row[column] > 1:
                gear.take_constants({op: numbers.padded(op, name, row[column])
                                     for op in numbers.grown})  # fmt: skip
            for arg in self.func.args:
                dims = dims_of(argument_attributes(self.func, arg.index), rank_of(arg))
                marks = {(a, Digit(1, row[column])): 0.0 for a, d in enumerate(dims) if d == name}
                if marks and row[column] > 1:
                    gear.axes[arg] = dict(marks)
            ops = [] if (block := self.case.parent) is None else [*block.ops]
            at = ops.index(self.case)
            for op in (*ops[:at], *region.block.ops):
                gear.task(op)
            for target, value in self.yielded(region.block):
                gear.write(target, gear.read(value, self.case))
            for op in ops[at + 1 :]:
                gear.task(op)
            if largest:
                firsts |= gear.firsts
            for op in gear.by_indices:
                self.relied[f"indices of {op.name} are not those of padded elements"] = None
            self.check_outputs(name, row, region.block, gear, claim)
        if firsts and len(sizes) == 1:
            self.relied[NO_NUMBER] = None
        self.relied["inputs and weights are finite, and small beside masks, in gears"] = None

    def check_outputs(
        self,
        name: str,
        row: Sequence[int],
        block: Block,
        gear: PaddedAxes,
        claim: Mapping[str, Sequence[int]],
    ) -> None:
        """Outputs are cut along the axes that are padded, and no others."""
        for output, value in self.outputs(block):
            cut = {*claim.get(output, ())}
            marks = gear.read(value, block.last_op or self.case)
            if (mixes := mixes_in(marks)) is not None:
                text = op_name(mixes.op)
                text = f"{text} mixes padded elements along '{name}' into valid ones of output"
                text = f"{text} '{output}': {PADDING} says that it may be padded"
                self.report("G3", text, mixes.op)
                return
            shape = shape_of(value)
            for (axis, digit), _ in marks.items():
                whole = source_shape(value)[axis]
                if digit.unit * digit.count != whole:
                    text = f"padded elements along '{name}' lie between others of output"
                    self.report("G4", f"{text} '{output}', axis {axis}")
                elif axis not in cut:
                    text = (
                        f"output '{output}' is not cut along axis {axis}, along which it is padded"
                    )
                    self.report("G5", f"{text} with '{name}'")
            for axis in cut - {axis for axis, _ in marks}:
                if not 0 <= axis < len(shape) or not self.grows(name, output, axis):
                    text = f"output '{output}' is cut along axis {axis}, which does not grow"
                    self.report("G6", f"{text} with '{name}'")

    def outputs(self, block: Block) -> Iterator[tuple[str, SSAValue]]:
        """The outputs of the model that a gear makes, by name."""
        last = self.func.body.block.last_op
        if not isinstance(last, FuncReturnOp):
            return
        own = dict(self.yielded(block))
        tables = self.func.res_attrs.data if self.func.res_attrs is not None else ()
        for i, value in enumerate(last.operands):
            table: Mapping[str, Attribute] = tables[i].data if i < len(tables) else {}
            yield name_of(table) or f"result{i}", own.get(value, value)

    def yielded(self, block: Block) -> Iterator[tuple[SSAValue, SSAValue]]:
        """Buffers and results of the branch, and the values that a gear puts there."""
        last, outs, results = block.last_op, iter(self.case.outs), iter(self.case.results)
        if not isinstance(last, YieldOp):
            return
        for value, order in zip(last.operands, array_ints(self.case.order), strict=False):
            target = next(outs if order else results, None)
            if target is not None:
                yield target, value

    def grows(self, name: str, output: str, axis: int) -> bool:
        """True if the size of an output is in proportion to that of a dimension, or the latter is 1
        in all gears: then there is no size between."""
        column, found = self.names.index(name), set[tuple[int, int]]()
        for row, region in zip(self.index.rows, self.case.regions, strict=False):
            value = dict(self.outputs(region.block)).get(output)
            if value is None:
                return False
            found.add((row[column], source_shape(value)[axis]))
        if all(size == 1 for size, _ in found):
            return True
        return all(m * b == n * a for (m, a), (n, b) in pairwise(sorted(found))) and len(found) > 1

    def check_numbers(self, safe: Sequence[str]) -> GearNumbers:
        """Check that no number in a gear follows from a size that may be padded."""
        gears = [(r, b.block) for r, b in zip(self.index.rows, self.case.regions, strict=False)]
        numbers = GearNumbers(self.kernels, self.names, safe, gears)
        if (found := numbers.differing()) is not None:
            op, other, changed = found
            text = f"{op_name(op)} has numbers that follow from"
            text = f"{text} {', '.join(f'{n!r}' for n in sorted(changed))}"
            self.report("G7", f"{text}: {other.name} of two gears; {PADDING} says that they may be "
                        "padded", op)  # fmt: skip
        largest = dict(zip(self.names, map(max, zip(*self.index.rows, strict=True)), strict=True))
        if found is None and any(largest[n] > 1 for n in {*safe} - numbers.compared):
            self.relied[NO_NUMBER] = None
        return numbers


def dimension(func: FuncOp, value: SSAValue, axis: int) -> str:
    """The name of a dimension of an argument: its symbol, or else its place."""
    assert isinstance(value, BlockArgument)
    table = argument_attributes(func, value.index)
    name = name_of(table) or f"arg{value.index}"
    return dims_of(table, rank_of(value))[axis] or f"{name}[{axis}]"


def unmeasured(func: FuncOp) -> list[str]:
    """The dimensions of arguments that are copied into buffers of one size and are neither those
    of the gear nor follow from rows of states: that they fit is for a run to find out."""
    known = {growing_symbol(func)}
    found = dict[str, None]()
    for op in func.walk():
        if isinstance(op, MapIndexOp):
            pairs = zip(op.inputs, op.measured, strict=True)
            arguments = (p for p in pairs if p[0] in func.body.block.args)
            known |= {dimension(func, value, axis) for value, axis in arguments}
        for source, target in copies(op):
            if not isinstance(source, BlockArgument) or source.block is not func.body.block:
                continue
            if is_dynamic(source.type) and not is_dynamic(target.type):
                axes = (i for i, size in enumerate(shape_of(source)) if size == DYNAMIC)
                found |= dict.fromkeys(dimension(func, source, axis) for axis in axes)
    return [name for name in found if name not in known and not {*symbols(name)} <= known]


def copies(op: Operation) -> Iterator[tuple[SSAValue, SSAValue]]:
    match op:
        case CopyOp():
            yield op.source, op.target
        case BatchCopyOp():
            yield from zip(op.sources, op.targets, strict=True)
        case _:
            pass


def follows(name: str, other: str) -> bool:
    return name in symbols(other) or other in symbols(name)


def source_shape(value: SSAValue) -> Sequence[int]:
    """The shape of the value that a value of unknown size is copied from."""
    if DYNAMIC in shape_of(value) and isinstance(value.owner, TransferOp):
        return shape_of(value.owner.source)
    return shape_of(value)


def claims_of(func: FuncOp) -> dict[str, dict[str, tuple[int, ...]] | None]:
    """For each dimension the axes along which outputs are cut; None if it must not be padded."""
    padding = padding_of(func)
    return {name: None if isinstance(axes, str) else axes for name, axes in padding.items()}


def check_padding(module: ModuleOp, func: FuncOp) -> tuple[list[Problem], list[str]]:
    """Errors in the claims of a program about sizes between its gears, and the assumptions that the
    proof of them relies on."""
    claims = claims_of(func)
    if all(axes is None for axes in claims.values()):
        return [], []
    index = next((op for op in func.body.block.ops if isinstance(op, MapIndexOp)), None)
    users = [] if index is None else [use.operation for use in index.result.uses]
    case = next((op for op in users if isinstance(op, CaseOp)), None)
    if index is None or case is None:
        text = f"{PADDING} is of gears, and there is no branch for sizes of inputs"
        return [Problem("G1", text, func)], []
    kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
    gears = Gears(func, index, case, kernels)
    gears.check()
    return gears.problems, [*gears.relied]
