"""How collectives come apart into chunks, each of which is a collective of a part of the values.

Along an axis of which a device has the same part before and after, a chunk is the same op on parts.
Along one that it gathers, scatters or moves, a part of what a device has is a part of each device's
share, for which the axis becomes two: blocks, one for each device, and elements of a block.

    %y = graph.all_gather %x dim 0 over <"tp"=4> : (tensor<8x16xf16>) -> tensor<32x16xf16>
in two chunks: elements 0 to 3 of each device's 8, then 4 to 7
    %y0 = graph.all_gather %x0 dim 0 over <"tp"=4> : (tensor<1x4x16xf16>) -> tensor<4x4x16xf16>
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

from xdsl.ir import SSAValue

from ge.dialects.graph.collectives import (
    AllGatherOp,
    AllReduceOp,
    AllToAllOp,
    Collective,
    ReduceScatterOp,
)
from ge.dialects.graph.sharding import ShardingAttr
from ge.dialects.support.mesh import Axis, Sharding
from ge.dialects.support.types import Shape, int_array, set_type


@dataclass(frozen=True, slots=True)
class Along:
    """An axis along which a value is cut: each part has a part of the axis, or, with `blocks`, of
    each of so many blocks of it."""

    axis: int
    blocks: int = 0

    @property
    def place(self) -> int:
        """The dimension of a part that is cut."""
        return self.axis + (self.blocks > 0)

    def raised(self, shape: Sequence[int]) -> Shape:
        """The shape with the axis as blocks and elements of a block."""
        if not self.blocks:
            return tuple(shape)
        own = (self.blocks, shape[self.axis] // self.blocks)
        return (*shape[: self.axis], *own, *shape[self.axis + 1 :])

    def strides(self, shape: Sequence[int], strides: Sequence[int]) -> Shape:
        if not self.blocks:
            return tuple(strides)
        step, count = strides[self.axis], shape[self.axis] // self.blocks
        return (*strides[: self.axis], count * step, step, *strides[self.axis + 1 :])

    def extent(self, shape: Sequence[int]) -> int:
        """The number of elements that are divided."""
        return self.raised(shape)[self.place]

    def part(self, shape: Sequence[int], count: int) -> Shape:
        """The shape of one of `count` parts."""
        return tuple(d // count if i == self.place else d for i, d in enumerate(self.raised(shape)))


def split_collective(op: Collective, axis: int) -> tuple[Along, Along] | None:
    """Along what the operand and the result are cut for chunks along an axis of the result; None
    where there are no such chunks."""
    if isinstance(op, AllReduceOp):
        return Along(axis), Along(axis)
    if isinstance(op, AllGatherOp | ReduceScatterOp):
        if axis != op.dim.value.data:
            return Along(axis), Along(axis)
        blocks = (1, op.count) if isinstance(op, AllGatherOp) else (op.count, 1)
        return Along(axis, blocks[0]), Along(axis, blocks[1])
    if not isinstance(op, AllToAllOp):
        return None
    has, to = op.has.data.dims[axis], op.to.data.dims[axis]
    before, after = (prod(a.size for a in own) for own in (has, to))
    if op.whole[axis] % max(before, after):  # parts of unequal size
        return None
    if has == to:
        return Along(axis), Along(axis)
    if has and to:
        return None
    return Along(axis, after), Along(axis, before)


def chunk_of(op: Collective, axis: int, operand: SSAValue, count: int) -> Collective:
    """One of `count` chunks (not inserted) of a collective along an axis of its result, of a part
    of its operand. Raises VerifyException where it does not take that part."""
    new = op.clone({op.input: operand})
    cut = split_collective(op, axis)
    assert cut is not None
    if isinstance(op, AllToAllOp) and isinstance(new, AllToAllOp):
        whole, raised = list(op.whole), cut[1].blocks > 0
        if raised:
            blocks = max(cut[0].blocks, cut[1].blocks)
            whole[axis : axis + 1] = [blocks, whole[axis] // blocks]
            new.has, new.to = (inserted(s, axis + 1) for s in (op.has, op.to))
        whole[axis + raised] //= count
        new.shape = int_array(tuple(whole))
    set_type(new.result, next(iter(new.infer())))
    return new


def inserted(sharding: ShardingAttr, place: int) -> ShardingAttr:
    """The sharding of a value with one more dimension, which is not cut."""
    dims = sharding.data.dims
    whole = cast("tuple[tuple[Axis, ...], ...]", ((),))
    return ShardingAttr(Sharding((*dims[:place], *whole, *dims[place:])))
