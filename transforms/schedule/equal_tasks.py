"""Runs of tasks that are equal, as those of layers that repeat are.

    npu_task.launch @matmul ins(%x, %v) outs(%a)       npu_task.launch @matmul ins(%b, %w) outs(%c)
    npu_task.launch @relu ins(%a) outs(%b)             npu_task.launch @relu ins(%c) outs(%d)

The same kernels run on the same parts of buffers, and hand these on to each other in the same way.
What follows from one run alone, and from what is used nowhere else, holds of the other too."""

from collections.abc import Container, Hashable, Iterator, Sequence

from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import Operation, SSAValue

from ge.dialects.npu_task.attributes import is_outside_arena
from ge.dialects.npu_task.memory import owner_of, row_major, view_of
from ge.dialects.npu_task.ops import LaunchOp
from ge.dialects.support.types import is_dynamic, numel, shape_of
from ge.transforms.analysis.dependencies import accesses, users_of

NOWHERE, OUTSIDE, INSIDE = 0, 1, 2  # where a buffer is used next; before: also how far away


class Tasks:
    """Tasks that are issued one after the other."""

    def __init__(self, ops: Sequence[Operation], known: dict[Hashable, int]) -> None:
        """`known`: numbers of kinds of tasks."""
        self.ops = ops
        self.kinds: list[int] = []
        # Of the accesses of all tasks in a row: where those of each task begin, and for each the
        # ones of the same buffer before it and behind it (-1: none)
        self.begins, self.before, self.behind = [0], list[int](), list[int]()
        last, own, here = dict[SSAValue, int](), dict[SSAValue, bool](), set(ops)
        for op in ops:
            reads, writes = accesses(op)
            is_launch = isinstance(op, LaunchOp)
            kind: list[Hashable] = [op.callee if is_launch else op.name, len(writes)]
            for value in (*writes, *reads):
                number, buffer = len(self.before), owner_of(value)
                if buffer not in own:
                    own[buffer] = len(kind) < 2 + len(writes) and is_used_by(buffer, here)
                view = view_of(value) if is_launch else None
                kind.append((own[buffer], view and (view.offset, view.sizes, view.strides)))
                if (before := last.get(buffer, -1)) >= 0:
                    self.behind[before] = number
                self.before.append(before)
                self.behind.append(-1)
                last[buffer] = number
            self.kinds.append(known.setdefault(tuple(kind), len(known)))
            self.begins.append(len(self.before))
        self.kinds.append(-1)  # of what is behind the last one
        self.begins.append(len(self.before))

    def run(self, first: int, count: int) -> Hashable:
        """Some tasks in a row, perhaps with what is behind the last one; equal if they are."""
        start, end = self.begins[first], self.begins[first + count]
        before = [
            (NOWHERE if other < 0 else OUTSIDE) if other < start else INSIDE + number - other
            for number, other in enumerate(self.before[start:end], start)
        ]
        behind = [
            NOWHERE if other < 0 else OUTSIDE if other >= end else INSIDE
            for other in self.behind[start:end]
        ]
        return tuple(self.kinds[first : first + count]), tuple(before), tuple(behind)


def is_used_by(buffer: SSAValue, tasks: Container[Operation]) -> bool:
    """Return whether only some tasks use a buffer, all of it in each view."""
    if not isinstance(buffer.owner, Operation) or is_outside_arena(buffer.owner):
        return False
    if is_dynamic(buffer.type):
        return False
    if not all(is_plain(v) for v in views_of(buffer)):
        return False
    return all(op in tasks for op in users_of(buffer))


def is_plain(value: SSAValue) -> bool:
    """True for all elements of a buffer, in order."""
    view = view_of(value)
    plain = not view.offset and view.strides == row_major(view.sizes)
    return plain and numel(view.sizes) == numel(shape_of(view.owner))


def views_of(buffer: SSAValue) -> Iterator[SSAValue]:
    """The buffer and the views of it."""
    yield buffer
    for use in buffer.uses:
        if isinstance(use.operation, ReinterpretCastOp):
            yield from views_of(use.operation.result)
