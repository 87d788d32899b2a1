"""Numbers in device memory that the scalar unit reads: row numbers, tables of blocks, lengths."""

from collections.abc import Sequence

from xdsl.dialects.builtin import I64, IndexType, IntegerAttr, MemRefType
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ge.dialects.npu_task.attributes import number
from ge.dialects.support.element_types import is_float
from ge.dialects.support.operation import GeOp
from ge.dialects.tile.buffers import constant_index, memref_element, memref_shape


@irdl_op_definition
class ReadOp(GeOp):
    """One integer of a memref, which the kernel does not store to. It is at least `from` (0) and
    less than `below`: a run in which it is not is refused.

        %row = tile.read %ids[%i] below 32000 : memref<64xi64>
    """

    name = "tile.read"
    source = operand_def(MemRefType)
    offsets = var_operand_def(IndexType)
    least = opt_prop_def(IntegerAttr[I64], prop_name="from")
    below = prop_def(IntegerAttr[I64])
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = (
        "$source `[` $offsets `]` (`from` $from^)? `below` $below attr-dict `:` type($source)"
    )

    def __init__(self, source: SSAValue, offsets: Sequence[SSAValue], below: int, least: int = 0):
        super().__init__(
            operands=[source, offsets],
            result_types=[IndexType()],
            properties={"below": number(below), "from": number(least) if least else None},
        )

    @property
    def span(self) -> range:
        """The numbers that it may be."""
        return range(0 if self.least is None else self.least.value.data, self.below.value.data)

    def verify_(self) -> None:
        if is_float(memref_element(self.source)):
            raise VerifyException(f"the scalar unit reads integers, not {self.source.type}")
        shape = memref_shape(self.source)
        if len(self.offsets) != len(shape):
            raise VerifyException(f"a memref of rank {len(shape)} has as many offsets")
        for offset, size in zip(self.offsets, shape, strict=True):
            at = constant_index(offset)
            if at is not None and not 0 <= at < size:
                raise VerifyException(f"offset {at} is outside of a dimension of {size}")
        if not self.span:
            span = self.span
            raise VerifyException(f"no number is at least {span.start} and below {span.stop}")


def reads_of(memref: SSAValue) -> list[ReadOp]:
    return [u.operation for u in memref.uses if isinstance(u.operation, ReadOp)]
