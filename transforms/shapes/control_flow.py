"""Branches and loops of a program that is bound to sizes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from xdsl.dialects.builtin import DenseArrayBase, MemRefType
from xdsl.ir import Attribute, Block, Region, SSAValue

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp, YieldOp
from ge.dialects.npu_task.memory import LOOP_ARGUMENTS
from ge.dialects.npu_task.ops import CopyOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import DYNAMIC, array_ints, is_dynamic, shape_of, shape_text
from ge.transforms.shapes.buffers import Buffers, buffer_type


class UnfitBranch(GeError):
    """A branch, or the body of a loop, does not fit the sizes. It may be one that never runs."""


def joined(a: Attribute, b: SSAValue) -> MemRefType[Attribute]:
    """The type of a buffer that takes values of a type, and another value. Raises UnfitBranch where
    their ranks differ, as those of values do whose shapes are inputs."""
    first, other = data_type(a)[1], shape_of(b)
    if len(first) != len(other):
        texts = f"{shape_text(first)} and {shape_text(other)}"
        raise UnfitBranch(f"one value has the shapes {texts}, of different ranks")
    pairs = zip(first, other, strict=True)
    return buffer_type(b, shape=tuple(x if x == y else DYNAMIC for x, y in pairs))


@dataclass
class ControlFlow:
    """What is carried, stacked, or comes out of a branch, has a buffer of its own where its shape
    is known now, and stays a value else."""

    binding: Buffers
    copy_ops: Callable[[Block], None]  # adds what the ops of a block become

    def region(self, old: Region, types: Sequence[Attribute] = ()) -> tuple[Block, list[SSAValue]]:
        """The block of a region, for arguments of these types, and what it yields."""
        binding, block, last = self.binding, Block(arg_types=types), old.block.last_op
        assert last is not None
        for arg, mine in zip(old.block.args, block.args, strict=True):
            binding.buffers[arg] = mine
        around, binding.block = binding.block, block
        at = binding.at
        self.copy_ops(old.block)
        values = [binding.buffer(v) for v in last.operands]
        binding.add(YieldOp(*values))
        binding.block, binding.at = around, at
        return block, values

    def branch(self, op: IfOp | CaseOp) -> None:
        """All branches. Raises UnfitBranch where one does not fit the sizes, or its results have
        other ranks."""
        binding = self.binding
        condition = binding.buffer(op.operands[0])
        try:
            blocks, values = zip(*map(self.region, op.regions), strict=True)
        except GeError as e:
            raise UnfitBranch(e.message, e.where, e.hint, e.notes) from None
        joint = [reduce(joined, row, buffer_type(row[0])) for row in zip(*values, strict=True)]
        outs, order, dynamic = self.destinations(joint, op.order, iter(op.outs), iter(op.results_))
        types = [t for _, t in dynamic]
        regions = list(map(Region, blocks))
        if isinstance(op, CaseOp):
            new = CaseOp(condition, outs, types, order, regions)
        else:
            new = IfOp(condition, outs, types, order, *regions)
        binding.add(new)
        binding.buffers.update(zip((v for v, _ in dynamic), new.results_, strict=True))

    def destinations(
        self,
        types: Sequence[MemRefType[Attribute]],
        order: DenseArrayBase,
        fixed: Iterator[SSAValue],
        passed: Iterator[SSAValue],
    ) -> tuple[list[SSAValue], list[bool], list[tuple[SSAValue, Attribute]]]:
        """Where values of these types go: the buffers, which values go to one, and the results that
        the others stay."""
        binding, outs = self.binding, list[SSAValue]()
        in_buffers: list[bool] = []
        dynamic: list[tuple[SSAValue, Attribute]] = []
        for t, static in zip(types, array_ints(order), strict=True):
            in_buffers.append(bool(static) or not is_dynamic(t))
            if static:
                outs.append(binding.place(next(fixed)))
            elif in_buffers[-1]:
                result = next(passed)
                outs.append(binding.allocate(result, t, result in binding.outputs))
            else:
                dynamic.append((next(passed), t))
        return outs, in_buffers, dynamic

    def loop(self, op: LoopOp) -> None:
        binding, old_order = self.binding, array_ints(op.order)
        fixed, inits = iter(op.carried), iter(op.inits)
        starts = [
            binding.place(next(fixed)) if static else binding.buffer(next(inits))
            for static in old_order
        ]
        body, values, types = self.fixpoint(op, starts)
        order = [bool(s) or not is_dynamic(t) for s, t in zip(old_order, types, strict=True)]
        results = iter(op.results_)
        carried: list[SSAValue] = []
        moving: list[SSAValue] = []
        dynamic: list[tuple[SSAValue, Attribute]] = []
        for start, t, was, static in zip(starts, types, old_order, order, strict=True):
            if was:
                carried.append(start)
            elif static:
                result = next(results)
                carried.append(binding.allocate(result, t, result in binding.outputs))
                binding.add(CopyOp(start, carried[-1]))
            else:
                moving.append(start)
                dynamic.append((next(results), t))
        rounds = self.rounds(op)
        rows = [buffer_type(v, shape=(rounds, *shape_of(v))) for v in values[1 + len(order) :]]
        scans, stacked, more = self.destinations(rows, op.stacked, iter(op.scans), results)
        dynamic += more
        new = LoopOp(
            None if op.trip is None else binding.buffer(op.trip),
            None if op.condition is None else binding.buffer(op.condition),
            carried, moving, scans, order, stacked, [t for _, t in dynamic], Region(body),
        )  # fmt: skip
        binding.add(new)
        binding.buffers.update(zip((v for v, _ in dynamic), new.results_, strict=True))

    def fixpoint(
        self, op: LoopOp, starts: Sequence[SSAValue]
    ) -> tuple[Block, list[SSAValue], list[MemRefType[Attribute]]]:
        """The body for the most precise types of carried values that hold in every round. Raises
        UnfitBranch where their ranks change."""
        first = [buffer_type(a) for a in op.body.block.args[:LOOP_ARGUMENTS]]
        types = [buffer_type(v) for v in starts]
        while True:
            body, values = self.region(op.body, [*first, *types])
            wider = [joined(t, v) for t, v in zip(types, values[1 : 1 + len(types)], strict=True)]
            if wider == types:
                return body, values, types
            types = wider

    def rounds(self, op: LoopOp) -> int:
        """The number of iterations where it is known."""
        trip = None if op.trip is None else self.binding.elements(op.trip)
        last = op.body.block.last_op
        going = last is not None and last.operands[0] is op.body.block.args[1]
        if trip is None or op.condition is not None or not going:
            return DYNAMIC
        return max(int(trip.item()), 0)
