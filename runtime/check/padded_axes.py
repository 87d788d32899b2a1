"""One gear whose inputs are padded along one dimension, followed op by op (`padding.py` says what
is proved of it)."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import (
    i1,
)
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.indexing import Picking
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.normalization import SoftmaxOp
from ge.dialects.graph.reduction import CumulativeOp, ReduceOp
from ge.dialects.graph.slicing import SliceOp
from ge.dialects.npu_task.control import LoopOp, YieldOp
from ge.dialects.npu_task.memory import access, moves, owner_of
from ge.dialects.npu_task.ops import ConstantOp, KernelOp, LaunchOp
from ge.dialects.support.boxes import MOVING
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, is_dynamic, rank_of, shape_of
from ge.runtime.check.moved_axes import Digit, Key, Marks, MovedAxes, Source
from ge.runtime.check.padded_fills import Fill, Held, computed, is_finite, is_low, joined
from ge.runtime.check.picked_elements import followed, picked_elements

NEUTRAL = {"sum": 0.0, "l1": 0.0, "l2": 0.0, "sum_square": 0.0, "prod": 1.0}


class Mixes(Exception):
    """Valid elements of an op's result need padded ones."""

    def __init__(self, op: Operation) -> None:
        super().__init__(op.name)
        self.op = op


MIXED: Key = (-1, Digit(1, 1))  # of what follows from padded elements


def mixed(mixes: Mixes) -> Marks[Fill]:
    """What is known of what follows from padded elements."""
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
    # What is padded of constants in kernels
    constants: dict[SSAValue, Marks[Fill]] = field(default_factory=dict[SSAValue, Marks[Fill]])

    def take_constants(self, padded: Mapping[Operation, Marks[Fill]]) -> None:
        """Constants that are longer in larger gears, and their axes that are padded in this one."""
        for op, marks in padded.items():
            if isinstance(op, ConstantOp):
                self.write(op.result, marks)
            else:
                self.constants[op.results[0]] = marks

    def everywhere(self, value: SSAValue) -> Fill:
        """What a value holds that is not padded."""
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
        """Nothing is followed through branches and loops: what they write follows from padded
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
        """Raises Mixes where what is padded may count in valid elements."""
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
        """Whether padded terms of sums are zeros times something finite."""
        a, b = rank_of(op.lhs), rank_of(op.rhs)
        k = (a - (2 if op.transpose_lhs.value.data else 1),
             b - (1 if op.transpose_rhs.value.data else 2))  # fmt: skip
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
        """Whether a slice has the first elements along a padded axis, as many whatever its size."""
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
        """Whether these are numbers of elements that all sizes have, the same in larger gears."""
        if max(numbers, default=0) == 0:
            return True
        self.firsts.add(numbers)
        same = self.of_larger is None or numbers in self.of_larger
        return same and max(numbers) < self.smallest


def neutral_in(op: ReduceOp, key: Key, fill: Fill) -> bool:
    """Whether what is padded along a reduced axis changes no sum, product or largest element."""
    kind = op.kind.data
    if key[0] not in (op.reduced_axes() or ()):
        return False
    if kind == "max":
        return fill == float("-inf") or is_low(fill, op.input)
    return kind in NEUTRAL and fill == NEUTRAL[kind]


def attends_to_none(op: AttentionOp, left: set[Source], known: Sequence[Marks[Fill]]) -> bool:
    """Whether valid queries have no weight for padded keys: a mask leaves them out, or positions,
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
