"""Small inputs cross the link as one copy, and so do small outputs.

    %0 = memref.alloc() {npu_task.io} : memref<128xi64, hbm>
    npu_task.copy %a to %0 : ...
    %1 = memref.alloc() {npu_task.io} : memref<128x13xf32, hbm>
    npu_task.copy %b to %1 : ...
becomes
    %0 = memref.alloc() {npu_task.io} : memref<128xi64, hbm>
    %1 = memref.alloc() {npu_task.io} : memref<128x13xf32, hbm>
    npu_task.batch_copy %a, %b to %0, %1 : ...

`assign-offsets` gives the buffers of a batch slots that follow each other; the host packs them
into one buffer, which is not timed. Inputs are copied where the first of them was, outputs where
the last one was.

A batch has at most `limit` bytes; by default as many as a transfer moves in the time of the
smallest one (`full_rate_bytes` of the target). Then it takes as long as each of its copies took:
no input arrives later than before, and the last output leaves no later. An input or output that is
a part of another buffer, or has an unknown size, is copied alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ge.dialects.npu_task.attributes import HOST, IO, space_of
from ge.dialects.npu_task.memory import owner_of, row_major, view_of, writers
from ge.dialects.npu_task.ops import BatchCopyOp, CopyOp
from ge.dialects.support.types import align_up, byte_size, is_dynamic
from ge.dialects.targets.target import target_for
from ge.transforms.rewriting.passes import MainPass, TargetPass


def inputs_of(block: Block) -> Iterator[tuple[CopyOp, AllocOp]]:
    """The copies that fill all of a buffer with an input, which nothing else writes to."""
    for arg in block.args:
        copy = arg.get_user_of_unique_use()
        if space_of(arg.type) == HOST and isinstance(copy, CopyOp) and copy.parent is block:
            alloc = copy.target.owner
            if is_port(alloc, block) and list(writers(copy.target)) == [copy]:
                yield copy, alloc


def outputs_of(block: Block) -> Iterator[tuple[CopyOp, AllocOp]]:
    """The copies of all of a buffer to an output, after which nothing writes to it."""
    last = block.last_op
    for value in () if last is None else last.operands:
        found = list(writers(value)) if isinstance(value.owner, AllocOp) else []
        if len(found) != 1 or not isinstance(copy := found[0], CopyOp) or copy.parent is not block:
            continue
        alloc = owner_of(copy.source).owner
        if space_of(value.type) == HOST and is_port(alloc, block) and is_whole(copy.source):
            tops = [block.find_ancestor_op_in_block(w) for w in writers(alloc.memref)]
            if all(top is not None and top.is_before_in_block(copy) for top in tops):
                yield copy, alloc


def is_port(alloc: object, block: Block) -> TypeGuard[AllocOp]:
    """Return whether an op allocates an input or output of the model, of a known size, in a
    block."""
    return (
        isinstance(alloc, AllocOp)
        and IO in alloc.attributes
        and alloc.parent is block
        and not is_dynamic(alloc.memref.type)
    )


def is_whole(value: SSAValue) -> bool:
    view = view_of(value)
    same = byte_size(value.type) == byte_size(view.owner.type)
    return same and not view.offset and tuple(view.strides) == row_major(view.sizes)


@dataclass
class Merging:
    """Merges the copies of one function."""

    block: Block
    alignment: int
    limit: int

    def merge(self) -> None:
        inputs = list(inputs_of(self.block))
        taken = {alloc for _, alloc in inputs}
        outputs: list[tuple[CopyOp, AllocOp]] = []
        for copy, alloc in outputs_of(self.block):
            if alloc not in taken:
                taken.add(alloc)
                outputs.append((copy, alloc))
        for batch in self.batches(inputs):
            self.replace(batch, at_end=False)
        for batch in self.batches(outputs):
            self.replace(batch, at_end=True)

    def batches(
        self, copies: Iterable[tuple[CopyOp, AllocOp]]
    ) -> Iterator[list[tuple[CopyOp, AllocOp]]]:
        """The copies in batches within the limit, each in the first that has room."""
        found: list[list[tuple[CopyOp, AllocOp]]] = []
        room: list[int] = []
        for copy in copies:
            size = align_up(byte_size(copy[1].memref.type), self.alignment)
            if not 0 < size <= self.limit:
                continue
            index = next((i for i, left in enumerate(room) if left >= size), len(room))
            if index == len(room):
                found.append([])
                room.append(self.limit)
            found[index].append(copy)
            room[index] -= size
        return (batch for batch in found if len(batch) > 1)

    def replace(self, batch: Sequence[tuple[CopyOp, AllocOp]], at_end: bool) -> None:
        places = {op: i for i, op in enumerate(self.block.ops)}
        (_, first), *others = batch = sorted(batch, key=lambda pair: places[pair[1]])
        copies = [copy for copy, _ in batch]
        here = (max if at_end else min)(copies, key=lambda op: places[op])
        for _, alloc in reversed(others):
            alloc.detach()
            Rewriter.insert_op(alloc, InsertPoint.after(first))
        new = BatchCopyOp([c.source for c in copies], [c.target for c in copies])
        new.location = here.location
        Rewriter.insert_op(new, InsertPoint.before(here))
        for copy in copies:
            Rewriter.erase_op(copy)


@dataclass(frozen=True)
class MergeCopiesPass(TargetPass, MainPass):
    """Copy small inputs of @main to the device in one transfer, and small outputs back."""

    name = "merge-copies"

    limit: int = 0
    """The most bytes of a transfer; 0: as many as take no longer than the smallest one."""

    def run(self, main: FuncOp) -> None:
        target = target_for(main, self.target)
        limit = self.limit or target.full_rate_bytes
        Merging(main.body.block, target.hbm_alignment, limit).merge()
