"""Numbers of a program that its gears have, in the proof of gears (`padding.py`): constants in two
gears are the same, or those of the smaller one the first ones of the larger one's, and slices begin
at the same places. Axes of constants that are longer in a larger gear are padded there, as those of
inputs are: a sum over one is none of the size between."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from typing import Any, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.ir import Block, Operation

from ge.dialects.graph.slicing import SliceOp
from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import ConstantOp, KernelOp, LaunchOp
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Dense, numel, shape_of
from ge.runtime.check.moved_axes import Digit, Marks
from ge.runtime.check.padded_fills import Fill, Held

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
        """The first op of a gear whose numbers follow from sizes, what has them, and the names of
        the dimensions. Numbers that cannot be compared leave a dimension out of `compared`."""
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
    """What the elements of a constant are."""
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
    """Whether constants of two gears are the same, or one has the first elements of the other, and
    numbers of ops are the same; None where others differ than sizes, or weights."""
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
    """Whether elements of one constant are the first ones of another along each axis."""
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
