"""What a pool computes: how elements of windows are combined, and which of them count."""

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute

from ge.dialects.graph.elementwise import FloorOp, PowOp
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.graph.support.folding import lowest
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import align_up
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK
from ge.runtime.library.language import values as v
from ge.runtime.library.windows.sliding import Sliding

Combine = Callable[[v.Expression, v.Expression], v.Expression]


@dataclass(frozen=True)
class Pool:
    """`w`: windows without what no image has; `whole`: with it. `takes`: whole lines come, and
    columns are taken of them."""

    w: Sliding
    whole: Sliding
    op: PoolOp
    takes: bool

    @classmethod
    def of(cls, op: PoolOp, target: Target) -> "Pool":
        """Raises NotLowered for what has no program here."""
        whole = Sliding.of(op)
        takes = whole.strides[-1] > 1 and "gather" in target.vector_cycles
        return cls(meeting(whole), whole, op, takes)

    @cached_property
    def covered(self) -> list[tuple[int, int]]:
        """See `Sliding`."""
        return self.whole.covered

    @cached_property
    def sums(self) -> Attribute:
        """The element type that is combined."""
        narrow = self.op.kind.data != "max" and bitwidth(self.w.element) < 32
        return f32 if narrow else self.w.element

    @property
    def pad(self) -> float:
        return lowest(self.w.element) if self.op.kind.data == "max" else 0

    @property
    def unit(self) -> int:
        """Columns of a tile are a multiple of it."""
        return BLOCK * 8 // min(bitwidth(self.w.element), bitwidth(self.sums))

    @cached_property
    def shift(self) -> int:
        """Lines that a channel has in tiles beside those of the result."""
        return max(self.w.high(taps, 0) for taps in self.w.phases.values())

    def wide(self, cols: int) -> int:
        """Columns that are loaded for so many of the result."""
        if not self.takes:
            return cols
        reach = (self.w.kernel[-1] - 1) * self.w.dilations[-1] + 1
        return align_up((cols - 1) * self.w.strides[-1] + reach, self.unit)

    @property
    def columns(self) -> int:
        """How often lines come."""
        return 1 if self.takes else self.w.kernel[-1]

    def of_element(self, x: v.Expression) -> v.Expression:
        """What is combined of an element."""
        x = v.cast(x, self.sums)
        if self.op.kind.data != "lp":
            return x
        p = self.op.p.value.data
        return x * x if p == 2 else v.abs(x) if p == 1 else v.binary(PowOp, v.abs(x), float(p))

    def elements(self, dim: int, start: v.Expression) -> v.Expression:
        """How many elements of a window that begins there count, along a dimension."""
        last, apart = self.whole.kernel[dim] - 1, self.whole.dilations[dim]
        low, high = self.covered[dim]
        behind = v.minimum(floored(high - 1.0 - start, apart), last)
        before = v.minimum(floored(start - float(low), apart), 0.0)
        return v.maximum(behind + before + 1.0, 0.0)

    @property
    def combine(self) -> Combine:
        return v.maximum if self.op.kind.data == "max" else operator.add

    def finished(self, total: v.Expression) -> v.Expression:
        """The result, but for the number of elements of windows that pass the image."""
        if self.op.kind.data == "lp":
            p = self.op.p.value.data
            if p > 1:
                total = v.sqrt(total) if p == 2 else v.binary(PowOp, total, 1 / p)
        elif self.op.kind.data == "average" and not self.covered:
            total = total * (1 / self.whole.taps)
        return total


def meeting(w: Sliding) -> Sliding:
    """The windows without the elements of the kernel that meet no image, wherever they are."""
    kernel, pads = list[int](), list[int]()
    sizes = zip(w.image, w.result, w.kernel, w.strides, w.dilations, w.pads, strict=True)
    for size, count, length, step, apart, pad in sizes:
        at = [k for k in range(length) if -(count - 1) * step <= k * apart - pad < size] or [0]
        kernel.append(len(at))
        pads.append(pad - at[0] * apart)
    return replace(w, kernel=tuple(kernel), pads=tuple(pads))


def floored(x: v.Expression, by: int) -> v.Expression:
    return x if by == 1 else v.unary(FloorOp, x / float(by))
