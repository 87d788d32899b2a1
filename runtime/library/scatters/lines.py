"""What elements at indices along an axis are put into: lines along it."""

from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import bf16
from xdsl.ir import SSAValue

from ge.dialects.graph.indexing import ScatterElementsOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import Shape, element_type, normalize_axis, numel, shape_of
from ge.runtime.library.launch import NotLowered


@dataclass(frozen=True)
class Lines:
    """`before` x `size` x `after` elements, the middle ones along the axis; `count` updates of each
    line along it."""

    op: ScatterElementsOp
    before: int
    size: int
    after: int
    count: int

    @classmethod
    def of(cls, op: ScatterElementsOp) -> "Lines":
        """Raises NotLowered for what has no program here."""
        shape, indices = shape_of(op.input), shape_of(op.indices)
        axis, element = normalize_axis(op.axis.value.data, len(shape)), element_type(op.input)
        if numel(shape) == 0 or numel(indices) == 0:
            raise NotLowered("it has no elements")
        if any(d != n for i, (d, n) in enumerate(zip(shape, indices, strict=True)) if i != axis):
            raise NotLowered("its indices are of a part of the input")
        if bitwidth(element) < 8:
            raise NotLowered("elements of less than a byte are not moved")
        if element == bf16 and op.reduction.data != "none":
            raise NotLowered("what bf16 is combined to is rounded once, at the end")
        return cls(op, prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]), indices[axis])

    @property
    def is_last(self) -> bool:
        return self.after == 1

    def shapes(self) -> dict[SSAValue, Shape]:
        """Of memrefs."""
        op, inner = self.op, () if self.is_last else (self.after,)
        shapes: dict[SSAValue, Shape] = dict.fromkeys(
            (op.input, op.result), (self.before, self.size, *inner)
        )
        return shapes | dict.fromkeys((op.indices, op.updates), (self.before, self.count, *inner))
