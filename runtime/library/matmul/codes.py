"""Which weights vector cores multiply with one row (`single_row.py`). Passes ask this before there
is a launch, so that it needs nothing that programs are written with."""

from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import element_type, normalize_axis, numel, shape_of


def has_codes_for_rows(op: DequantizeOp, columns: int) -> bool:
    """True if vector cores multiply the codes of a weight, of which one dimension has the columns:
    of 8 bits with scales of columns, or of 8 or 4 bits with those of groups of terms."""
    shape, block = shape_of(op.input), op.block_size.value.data
    if len(shape) != 2:
        return False
    axis = 0 if op.axis is None else normalize_axis(op.axis.value.data, 2)
    bits = bitwidth(element_type(op.input))
    if block:
        whole = axis != columns and shape[axis] % block == 0
        return whole and bits in (4, 8) and shape[columns] * bits % 8 == 0
    known = axis == columns or numel(shape_of(op.scale)) == 1
    return known and bits == 8 and op.zero_point is None
