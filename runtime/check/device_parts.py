"""Whether what an op computes of a part is a part of what it computes of the whole (rule D19).

Element j of a result needs elements of an operand from b(j) on; by the boxes of the op on a part

    graph.conv %x, 3 wide, strides [2], pads [0, 0]     b(j) = 2 * j: 2 further after each element
    graph.conv_transpose, strides [2]                   1 further after each 2 elements
    graph.slice %x [1:5]                                b(j) = j + 1
    graph.slice %x [-1::-1], of 4 elements              b(j) = 3 - j

All devices run that op. There is one op on the whole of which each computes a part, if the windows
of the next device begin where those of the whole go on: parts that lie a number of elements apart
make parts of the result that lie apart as b says, which has to be as many as each has. Elements
whose windows pass the ends of a part are none of the whole's, wherever it may end.

The numbers of an op that are the same on all devices, and do not depend on places, make it another
op, no other part: that they are those of the graph is not known of the program."""

from collections.abc import Callable
from dataclasses import replace

from ge.dialects.graph.convolution import ConvTransposeOp
from ge.dialects.support.boxes import Box, Span
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import shape_of
from ge.runtime.check.device_forms import Cut

MOST_STEPS = 64  # elements of a result after which windows begin anew

Reads = Callable[[int], Span]


def reads(op: TensorOp, index: int, dim: int, along: int, result: int) -> Reads:
    """The elements along a dimension of an operand that an element along one of the result needs;
    none, or fewer, where their number is not above 0."""
    shape = shape_of(op.results[result])
    if isinstance(op, ConvTransposeOp) and index == 0 and along >= 2:
        window, i = op.transposed_window(shape_of(op.weight)[2:]), along - 2
        stride, extent, pad = window.strides[i], window.extent(i), window.pads[i]

        def reaching(j: int) -> Span:
            low = -((extent - 1 - j - pad) // stride)
            return low, (j + pad) // stride - low + 1

        return reaching

    def boxed(j: int) -> Span:
        box = op.operand_box(index, Box.part(shape, {along: (j, 1)}), result)
        return (0, 0) if box is None else box.spans[dim]

    return boxed


def steps_of(read: Reads, count: int) -> Span | None:
    """After how many elements of the result windows lie how many elements further, or back, if ever
    so."""
    for each in range(1, MOST_STEPS + 1):
        far = read(each)[0] - read(0)[0]
        among = {*range(2 * each), count // 2, max(count - each - 1, 0)}
        if far < 0:  # behind the last element, which is the first of the operand, there is none
            among = {j for j in among if j + each < count}
        if far and all(read(j + each) == (read(j)[0] + far, read(j)[1]) for j in among):
            return each, far
    return None


def part_of(
    op: TensorOp, index: int, cut: Cut, dims: tuple[int, int], result: int
) -> Cut | str | None:
    """The cut of a result along the second of two dimensions, for that of an operand along the
    first one; a text for what is no part, None for what is not known."""
    if cut.minor:
        return "windows are of elements that do not follow each other"
    dim, along = dims
    size, count = shape_of(op.operands[index])[dim], shape_of(op.results[result])[along]
    return read_by(reads(op, index, dim, along, result), cut, (size, count), along)


def read_by(read: Reads, cut: Cut, sizes: tuple[int, int], along: int) -> Cut | str | None:
    """The same by what elements need, of dimensions of some sizes."""
    size, count = sizes
    steps = steps_of(read, count)
    if steps is None:
        return None
    (each, far), apart = steps, cut.step or size
    if apart % far:
        return f"windows are {far} elements apart, and parts {apart}: they begin at another one"
    low, high = cut.edges

    def is_inside(j: int) -> bool:
        first, number = read(j)
        return number <= 0 or (first >= low and first + number <= size - high)

    first = next((j for j in range(count) if is_inside(j)), count)
    last = next((j for j in range(count - 1, first, -1) if is_inside(j)), first)
    edges = (first, max(count - 1 - last, 0))
    return replace(cut.of_step(apart // far * each, count), dim=along, whole=None, edges=edges)


def depends_on_place(op: TensorOp, index: int, along: int, result: int) -> bool:
    """True if elements along a dimension of a result need others of an operand the further they
    are from the first one, as those before an element of a sequence."""
    shape = shape_of(op.results[result])
    boxes = [
        op.operand_box(index, Box.part(shape, {along: (j, 1)}), result)
        for j in sorted({0, 1, shape[along] // 2, shape[along] - 1})
        if j < shape[along]
    ]
    return any(box is not None and box != boxes[0] for box in boxes)
