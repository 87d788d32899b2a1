"""What an op costs, whatever the machine."""

from dataclasses import dataclass
from typing import ClassVar

from ge.dialects.support.operation import GeOp, operands_of
from ge.dialects.support.types import byte_size, numel, shape_of


@dataclass(frozen=True, slots=True)
class Work:
    """What one execution costs: multiply-accumulates of the cube, element-operations of the
    vector unit, and bytes moved from and to memory."""

    macs: int = 0
    vector: int = 0
    read: int = 0
    written: int = 0

    def __add__(self, other: "Work") -> "Work":
        return Work(
            self.macs + other.macs,
            self.vector + other.vector,
            self.read + other.read,
            self.written + other.written,
        )


class WorkInterface(GeOp):
    """Ops that state their work. By default it is that of an elementwise op."""

    VECTOR_COST: ClassVar[int] = 1  # element-operations for each result element
    ALWAYS_MACS: ClassVar[bool] = False  # whether there are multiply-accumulates in all shapes

    def work(self) -> Work | None:
        """The work of one execution; None while a shape is dynamic."""
        try:
            return self.static_work()
        except ValueError:
            return None

    def static_work(self) -> Work:
        """As `work`, and the method to override. Raises ValueError for a dynamic shape."""
        elements = sum(numel(shape_of(r)) for r in self.results)
        return Work(0, elements * self.VECTOR_COST, *self.traffic())

    def bytes_read(self, index: int) -> int:
        """Bytes of operand `index` that are needed. Raises ValueError for a dynamic shape."""
        return byte_size(operands_of(self)[index].type)

    def bytes_written(self, index: int) -> int:
        """Bytes of result `index` that are written where it lies in an operand's memory. Raises
        ValueError for a dynamic shape."""
        return byte_size(self.results[index].type)

    def traffic(self) -> tuple[int, int]:
        """Bytes read and written when each operand and result crosses the memory once."""
        return (
            sum([byte_size(o.type) for o in operands_of(self)]),
            sum([byte_size(r.type) for r in self.results]),
        )
