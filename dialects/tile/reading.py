"""Numbers in device memory that the scalar unit reads: row numbers, tables of blocks, lengths."""

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import I64, IndexType, IntegerAttr, UnitAttr
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
from xdsl.traits import NoMemoryEffect
from xdsl.utils.exceptions import VerifyException

from ge.dialects.npu_task.attributes import number
from ge.dialects.support.constraints import BUFFERS
from ge.dialects.support.element_types import is_float
from ge.dialects.support.operation import GeOp
from ge.dialects.support.types import DYNAMIC
from ge.dialects.tile.buffers import constant_index, memref_element, memref_shape


@irdl_op_definition
class ReadOp(GeOp):
    """One integer of a memref, which the kernel does not store to. It is at least `from` (0) and
    less than `below`, and with `distinct` no other element is the same. With `ascending` none is
    less than the one before, the first is `from`, and the last `below` - 1: they part a dimension
    in groups. A run in which that is not so is refused. Proofs rely on it, and say so.

        %row = tile.read %ids[%i] below 32000 : memref<64xi64>
        %block = tile.read %table[%j] below 16 distinct : memref<16xi64>
        %first = tile.read %offsets[%e] below 257 ascending : memref<5xi32>
    """

    name = "tile.read"
    source = operand_def(BUFFERS)
    offsets = var_operand_def(IndexType)
    least = opt_prop_def(IntegerAttr[I64], prop_name="from")
    below = prop_def(IntegerAttr[I64])
    distinct = opt_prop_def(UnitAttr)
    ascending = opt_prop_def(UnitAttr)
    result = result_def(IndexType)
    traits = traits_def(NoMemoryEffect())  # nothing writes there, but a number may be refused
    assembly_format = (
        "$source `[` $offsets `]` (`from` $from^)? `below` $below (`distinct` $distinct^)? "
        "(`ascending` $ascending^)? attr-dict `:` type($source)"
    )

    def __init__(
        self,
        source: SSAValue,
        offsets: Sequence[SSAValue],
        below: int,
        least: int = 0,
        distinct: bool = False,
        ascending: bool = False,
    ):
        super().__init__(
            operands=[source, offsets],
            result_types=[IndexType()],
            properties={
                "below": number(below),
                "from": number(least) if least else None,
                "distinct": UnitAttr() if distinct else None,
                "ascending": UnitAttr() if ascending else None,
            },
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
            if at is not None and size != DYNAMIC and not 0 <= at < size:
                raise VerifyException(f"offset {at} is outside of a dimension of {size}")
        if not self.span:
            span = self.span
            raise VerifyException(f"no number is at least {span.start} and below {span.stop}")
        if self.ascending is not None and (len(shape) != 1 or self.distinct is not None):
            text = "numbers that ascend are those of one dimension, and not distinct"
            raise VerifyException(f"{text}: {self.source.type}")
        if self.ascending is not None and shape[0] < 2 and shape[0] != DYNAMIC:
            raise VerifyException("numbers that ascend are a first and a last one at least")
        known = DYNAMIC not in shape
        if self.distinct is not None and known and prod(shape) > len(self.span):
            text = f"at least {self.span.start} and below {self.span.stop}"
            raise VerifyException(f"{prod(shape)} elements are not all different, {text}")


def number_at(op: ReadOp, place: int, of: int) -> int:
    """The number that is `place` / `of` of the way from the first to the last."""
    first, last = op.span[0], op.span[-1]
    return first + (last - first) * place // of


def reads_of(memref: SSAValue) -> list[ReadOp]:
    return [u.operation for u in memref.uses if isinstance(u.operation, ReadOp)]
