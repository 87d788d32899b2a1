"""What the kernel of an op may do with the memory of operands and results."""

from collections.abc import Collection, Iterator
from math import prod
from typing import ClassVar

from xdsl.ir import SSAValue

from ge.dialects.support.access import Access
from ge.dialects.support.boxes import BoxInterface, stretches
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.operation import operands_of
from ge.dialects.support.types import element_type, shape_of


def same_bytes(a: SSAValue, b: SSAValue) -> bool:
    """Whether element i of one value lies where element i of the other one would, for all i."""
    if not prod(shape_of(a)) == prod(shape_of(b)) > 0:
        return False
    return a.type is b.type or bitwidth(element_type(a)) == bitwidth(element_type(b))


class InPlaceInterface(BoxInterface):
    """Ops whose kernels may overwrite operands, and read and write strided views. What follows
    from `ACCESS` is the default."""

    IN_PLACE: ClassVar[Collection[int] | None] = None
    """The operands that the kernel reads part by part, each before it writes that part of the
    results. None: those that pointwise ops read element by element, and what a view is of."""

    def local_parts(self, index: int) -> int | None:
        """Number of equal contiguous chunks such that chunk i of each result reads only chunk i of
        operand `index`, in one pass or several; None if there is no such partition. Shapes are
        static."""
        elements = prod(shape_of(operands_of(self)[index]))
        if self.IN_PLACE is not None:
            return stretches(self, index) if index in self.IN_PLACE else None
        if self.ACCESS is Access.VIEW and index == 0:
            return elements
        if self.ACCESS is not Access.POINTWISE:
            return None
        # Each element has one of the same place: no boxes are needed to see it
        if operands_of(self)[index].type is self.results[0].type and len(self.results) == 1:
            if type(self).operand_box is BoxInterface.operand_box:
                return elements
        # An element that is read for several places is overwritten at the first one
        return elements if stretches(self, index) == elements else None

    def in_place_pairs(self) -> Iterator[tuple[int, int]]:
        """Each (result, operand) such that the kernel may write the result over the operand: it
        goes through both chunk by chunk (see `local_parts`), and reads an element before it writes
        there. Shapes are static."""
        for i, operand in enumerate(operands_of(self)):
            fitting = [r for r, result in enumerate(self.results) if same_bytes(result, operand)]
            if fitting and self.local_parts(i) is not None:
                yield from ((r, i) for r in fitting)

    def accepts_strided(self) -> bool:
        """Whether the kernel can read operands and write results whose rows lie apart in memory:
        it moves tiles, row by row. Raises ValueError for a dynamic shape."""
        return self.ACCESS is not Access.WHOLE or self.static_work().macs > 0
