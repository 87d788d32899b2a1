"""Which boxes are tiles, and where an op's result is a tile of its operand."""

from ge.dialects.graph.elementwise import ClampOp
from ge.dialects.graph.shape import BroadcastToOp, TransposeOp
from ge.dialects.graph.slicing import SliceOp, SplitOp
from ge.dialects.graph.support.elementwise_bases import Elementwise
from ge.dialects.support.boxes import Access, Box
from ge.dialects.support.tensor_op import TensorOp
from ge.runtime.library.language.values import Shape
from ge.runtime.library.launch import NotLowered

COPIES = (TransposeOp, SplitOp, BroadcastToOp)


def long_dims(box: Box) -> list[int]:
    """The dimensions along which a box has several elements."""
    return [i for i, size in enumerate(box.sizes) if size > 1]


def is_pointwise(op: object) -> bool:
    """Whether a `tile.map` has the op as it is."""
    return isinstance(op, Elementwise | ClampOp)


def tile_shape(box: Box, column: bool) -> Shape:
    """Raises NotLowered for a box of more than two long dimensions."""
    sizes = [box.sizes[i] for i in long_dims(box)]
    if len(sizes) > 2:
        raise NotLowered(f"a tile has two dimensions, not {sizes}")
    if len(sizes) == 2:
        return sizes[0], sizes[1]
    size = sizes[0] if sizes else 1
    return (size, 1) if column else (1, size)


def is_copy(op: TensorOp) -> bool:
    """Whether a box of the result has the elements of the operand's box, and in their order (a
    triangle, a slice backwards or what is set side by side has not)."""
    if isinstance(op, SliceOp):
        return all(step is not None and step > 0 for *_, step in op.bounds() or ((None,),))
    return op.ACCESS is Access.VIEW or isinstance(op, COPIES)


def place_of(op: TensorOp, box: Box, result: int) -> Box | None:
    """The box of a view's or a copy's operand; None where it has not the rows and columns of the
    result's."""
    is_one = len(op.operands) == 1 and is_copy(op)
    needed = op.operand_box(0, box, result) if is_one else None
    if needed is None:
        return None
    found: list[int] = []
    for dim in long_dims(box):  # one at a time, to see which is which
        sizes = tuple(size if i == dim else 1 for i, size in enumerate(box.sizes))
        line = op.operand_box(0, Box(box.offsets, sizes), result)
        long = [] if line is None else long_dims(line)
        if line is None or len(long) != 1 or line.sizes[long[0]] != box.sizes[dim]:
            return None
        found += long
    return needed if found == long_dims(needed) else None
