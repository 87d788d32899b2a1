"""What ops have in common that map sizes to the number of a gear."""

from abc import ABC
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, i64
from xdsl.ir import Attribute
from xdsl.irdl import prop_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from ge.dialects.support.constraints import ANY
from ge.dialects.support.operation import GeOp
from ge.dialects.support.types import array_ints, shape_of


class IndexMap(GeOp, ABC):
    """The number of the row of `table` that has the sizes of the inputs: of input i along its axis
    `axes[i]`. For sizes that no row has, the number of rows (where a `graph.case` may have a branch
    for all other sizes)."""

    inputs = var_operand_def(ANY)
    axes = prop_def(DenseArrayBase.constr(i64))
    table = prop_def(ArrayAttr)

    @property
    def rows(self) -> list[tuple[int, ...]]:
        rows = cast("Sequence[Attribute]", self.table.data)
        return [array_ints(row) for row in rows if row.name == DenseArrayBase.name]

    @property
    def measured(self) -> Sequence[int]:
        return array_ints(self.axes)

    def row_of(self, shapes: Sequence[Sequence[int]]) -> int:
        sizes = tuple(s[a] for s, a in zip(shapes, self.measured, strict=True))
        rows = self.rows
        return rows.index(sizes) if sizes in rows else len(rows)

    def check(self) -> None:
        rows, axes = self.rows, self.measured
        if len(rows) != len(self.table.data) or not rows:
            raise VerifyException("the table is a list of rows of sizes (array<i64: ...>)")
        if len(axes) != len(self.inputs):
            raise VerifyException(f"{len(self.inputs)} inputs need as many axes, not {len(axes)}")
        for i, row in enumerate(rows):
            if len(row) != len(axes):
                raise VerifyException(f"row {i} has {len(row)} sizes for {len(axes)} inputs")
        if len(set(rows)) < len(rows):
            twice = next(r for r in rows if rows.count(r) > 1)
            raise VerifyException(f"the table has {list(twice)} twice")
        for value, axis in zip(self.inputs, axes, strict=True):
            if not 0 <= axis < (rank := len(shape_of(value))):
                raise VerifyException(f"axis {axis} is none of {value.type}, which has {rank}")


def table_of(rows: Sequence[Sequence[int]]) -> ArrayAttr[DenseArrayBase]:
    return ArrayAttr([DenseArrayBase.from_list(i64, row) for row in rows])
