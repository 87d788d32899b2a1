"""The ways by which sums of integers leave the cube as f16 or i8: what can be said of them without
a program."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import f16, f32, i8, i32
from xdsl.ir import SSAValue

from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.elementwise import AddOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.quantization import DequantizeOp, RequantizeOp
from ge.dialects.graph.shape import ReshapeOp
from ge.dialects.support.types import element_type, normalize_axis, numel, shape_of


@dataclass(frozen=True)
class WayOut:
    """What happens to sums of integers on their way to an output, inside of the cube core: `sums`
    begin with a row, `bias`, and leave by a row of scales, or one, and a zero point, after `relu`,
    as `value`, which may be moved; without scales as they are."""

    sums: SSAValue
    value: SSAValue
    scale: SSAValue | None
    bias: SSAValue | None = None
    zero: int = 0
    relu: bool = False

    def is_at_hand(self, values: Sequence[SSAValue]) -> bool:
        """True if the rows of numbers that sums meet are among these."""
        return {v for v in (self.scale, self.bias) if v is not None}.issubset(values)


def scaled_way(
    op: DequantizeOp | RequantizeOp, number: Callable[[SSAValue], float | None], relu: bool = False
) -> WayOut | None:
    """The way out by an op with scales. `number`: the one number that a value is, if it is one."""
    zero = zero_of_codes(number, op) if isinstance(op, RequantizeOp) else 0 if to_half(op) else None
    if zero is None or (isinstance(op, RequantizeOp) and op.low is not None and zero):
        return None
    relu = relu or (isinstance(op, RequantizeOp) and op.low is not None)
    sums, bias, axis = in_rows(op.input), None, op.axis
    rank = len(shape_of(op.result))
    columns = 1 if isinstance(sums.owner, ConvOp) else rank - 1
    by_column = axis is not None and normalize_axis(axis.value.data, rank) == columns
    one = numel(shape_of(op.scale)) == 1
    if not by_column if not one else number(op.scale) is None:
        return None
    if isinstance(conv := sums.owner, ConvOp):
        is_whole = sums is op.input and element_type(sums) == i32
        return WayOut(sums, op.result, op.scale, conv.bias, zero, relu) if is_whole else None
    if isinstance(add := sums.owner, AddOp):
        sides = [(in_rows(a), b) for a, b in (add.operands[:2], add.operands[1::-1])]
        found = [(a, b) for a, b in sides if isinstance(a.owner, MatmulOp) and is_row(b, a)]
        if not found:
            return None
        sums, bias = found[0]
    is_whole = shape_of(sums)[-1:] == shape_of(op.result)[-1:]
    is_matmul = isinstance(sums.owner, MatmulOp) and element_type(sums) == i32
    if not is_whole or not is_matmul:
        return None
    return WayOut(sums, op.result, op.scale, bias, zero, relu)


def to_half(op: DequantizeOp) -> bool:
    """Return whether sums become f16, by scales of 32 bits alone."""
    plain = op.zero_point is None and not op.block_size.value.data
    return plain and element_type(op.result) == f16 and element_type(op.scale) == f32


def zero_of_codes(number: Callable[[SSAValue], float | None], op: RequantizeOp) -> int | None:
    """The zero point of codes that are rounded as FIX does it; None of others."""
    is_low = op.low is None or op.low.value.data == 0
    plain = op.offset is None and op.high is None and op.rounding.data == "float32" and is_low
    if not plain or element_type(op.result) != i8 or element_type(op.scale) != f32:
        return None
    if op.zero_point is None:
        return 0
    known = number(op.zero_point)
    return None if known is None else int(known)


def in_rows(value: SSAValue) -> SSAValue:
    """The value that is seen with other rows, of as many columns."""
    while isinstance(op := value.owner, ReshapeOp):
        if shape_of(op.operands[0])[-1:] != shape_of(value)[-1:]:
            break
        value = op.operands[0]
    return value


def is_row(value: SSAValue, sums: SSAValue) -> bool:
    """Return whether a value has a number for each column of sums."""
    count = shape_of(sums)[-1]
    return shape_of(value)[-1:] == (count,) and numel(shape_of(value)) == count
