"""Caches of a fixed size that fill from run to run."""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.support.parameters import (
    TYPES,
    HasAxes,
    Movement,
    OneResultOp,
    check_blocks,
    check_same_element,
    check_scalar,
    element_axis,
    optional,
)
from ge.dialects.support.boxes import Access, Box, Work
from ge.dialects.support.constraints import (
    COMPUTED,
    INT,
    INTEGERS,
)
from ge.dialects.support.types import (
    byte_size,
    merge_dims,
    numel,
    rank_of,
    shape_of,
)


@irdl_op_definition
class AppendOp(Movement, OneResultOp, HasAxes):
    """`cache` with `rows` along `axis` as the last ones before `length`. Later ones, and what was
    there, are of no meaning: the kernel writes the rows alone where the result lies in the
    cache's memory. With a `table` rows lie in blocks, as many as it has elements: block i is where
    element i says."""

    name = "graph.append"
    cache = operand_def(COMPUTED)
    rows = operand_def(COMPUTED)
    length = operand_def(INTEGERS)
    table = opt_operand_def(INTEGERS.of_rank(1))
    result = result_def(COMPUTED)
    axis = prop_def(INT)
    ACCESS: ClassVar = Access.WHOLE
    IN_PLACE: ClassVar = (0,)
    TAKES_INDICES: ClassVar = True
    assembly_format = f"$cache `,` $rows `at` $length {optional('table')} {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        check_same_element(self.cache, self.rows)
        check_scalar(self.length, "length")
        shape, rows = shape_of(self.cache), shape_of(self.rows)
        axis = element_axis(self.axis.value.data, rank_of(self.cache))
        if len(rows) != len(shape) or rows[axis] > shape[axis] >= 0:
            raise VerifyException(f"{self.rows.type} is no part of {self.cache.type}")
        if self.table is not None:
            check_blocks(self.table, shape[axis])
        for i, (m, n) in enumerate(zip(shape, rows, strict=True)):
            if i != axis:
                merge_dims(m, n)
        return (self.cache.type,)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        axis = element_axis(self.axis.value.data, len(box.sizes))
        own = box.along(shape_of(self.operands[index]), (axis,)) if index == 1 else None
        return own if index else box

    def counts_size(self, axis: int, result: int = 0) -> bool:
        """True along the axis of the rows: their place depends on their number and the cache's
        length."""
        return axis == element_axis(self.axis.value.data, rank_of(self.cache))

    def bytes_read(self, index: int) -> int:
        return 0 if index == 0 else super().bytes_read(index)

    def bytes_written(self, index: int) -> int:
        return byte_size(self.rows.type)

    def static_work(self) -> Work:
        rows = byte_size(self.rows.type)
        read = sum(byte_size(v.type) for v in self.operands[1:])
        return Work(0, numel(shape_of(self.rows)), read, rows)
