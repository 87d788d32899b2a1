"""How weights of 4 bits in groups are stored for products of one row, which vector cores compute
(`single_row.py`): a lane of an instruction has a group, so that all lanes add up one term each.

    terms x columns    ->    parts of 128 groups x terms of a group x columns x groups
"""

from xdsl.ir import SSAValue

from ge.dialects.graph.shape import ReshapeOp, TransposeOp
from ge.dialects.graph.slicing import SliceOp
from ge.dialects.support.types import array_ints, shape_of
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.cycles import REPEAT_BYTES

LANES = REPEAT_BYTES * 8 // 16  # products in f16: one repeat of an instruction
# Parts, groups, terms of a group, columns; and the order of lanes
SPREAD, UNSPREAD = (0, 2, 3, 1), (0, 3, 1, 2)


def unspread(value: SSAValue) -> SSAValue:
    """The weight in the order of lanes that a weight is a form of; the value itself of others."""
    first = value
    if isinstance(op := value.owner, SliceOp) and op.bounds() == ((0, 0, shape_of(value)[0], 1),):
        value = op.input
    if isinstance(op := value.owner, ReshapeOp):
        value = op.input
    if isinstance(op := value.owner, TransposeOp) and array_ints(op.permutation) == UNSPREAD:
        return op.input
    return first


def has_room_for_row(terms: int, target: Target) -> bool:
    """True if vector cores, which are apart from the cube, have room for a row of f16."""
    return target.split_cores and 4 * 2 * terms <= target.core_memories["ub"]
