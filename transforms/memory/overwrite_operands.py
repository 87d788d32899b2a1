"""Launches write results over operands that are not needed any more, where their kernels may.

    %1 = memref.alloc() : memref<64xf32, hbm>
    npu_task.launch @exp_0 ins(%0 : ...) outs(%1 : ...)
    %2 = memref.alloc() : memref<64xf32, hbm>
    npu_task.launch @add_0 ins(%1, %0 : ...) outs(%2 : ...)
becomes
    %1 = memref.alloc() : memref<64xf32, hbm>
    npu_task.launch @exp_0 ins(%0 : ...) outs(%1 : ...)
    npu_task.launch @add_0 ins(%1, %0 : ...) outs(%1 : ...)

Which operand a kernel may overwrite with which result is the kernel's to say
(`KernelOp.in_place_pairs`). The operand's buffer must be used by nobody later, be no constant, and
be no input of the model unless `inputs` allows it; the launch may not read another part of it. The
cube cores begin when what other devices have sent is there: they do not overwrite it, as it is free
only when these have acknowledged that they are done. So
residual chains stay in one buffer; one that ends in an output of the model is in the output's. Of
a loop, the initial value of what is carried and the value that an iteration computes are put in the
carried buffer itself, where nobody reads what was there before any more. A cache that rows are
appended to, and that is needed later, is copied, and the rows are written into the copy.

All of this is decided in program order, in one walk of each block, before tasks are on streams:
later passes see that the launch writes what it reads.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.graph.attention import AppendOp
from ge.dialects.npu_task import casts
from ge.dialects.npu_task.attributes import HBM, IO, STATE, Engine, space_of
from ge.dialects.npu_task.control import LoopOp, YieldOp
from ge.dialects.npu_task.memory import LOOP_ARGUMENTS, owner_of, row_major
from ge.dialects.npu_task.ops import CopyOp, KernelOp, LaunchOp, kernels_of
from ge.dialects.support.diagnostics import warning
from ge.dialects.support.editing import erase, replace_uses
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import all_ops
from ge.dialects.support.types import array_ints, element_type, is_dynamic, numel, shape_of
from ge.runtime.library.costs.structure import by_structure
from ge.transforms.analysis.dependencies import ops_by_block
from ge.transforms.analysis.task_graph import TaskGraph, buffer_graph
from ge.transforms.graph.control_flow import insert_before
from ge.transforms.memory.assign_offsets import check_kinds, pinned_buffers


@dataclass
class Overwriting:
    """Works on the blocks of one function."""

    kernels: Mapping[str, KernelOp]
    inputs: bool
    pinned: Set[Operation]
    """Allocations of buffers that share bytes with nothing."""
    ops: dict[Block, list[Operation]] = field(default_factory=dict[Block, list[Operation]])
    graphs: dict[Block, TaskGraph] = field(default_factory=dict[Block, TaskGraph])
    """The task graph of the ops of a block."""
    positions: dict[Operation, int] = field(default_factory=dict[Operation, int])
    movable: set[Operation] = field(default_factory=set[Operation])
    """Allocations of buffers that may share bytes."""
    brought: set[SSAValue] = field(default_factory=set[SSAValue])
    """Buffers that other devices write: they are free later than their values are there."""
    allowed: dict[str, set[tuple[int, int]]] = field(
        default_factory=dict[str, set[tuple[int, int]]]
    )

    @cached_property
    def appending(self) -> set[str]:
        """The kernels that append to caches."""
        return {
            name
            for name, kernel in self.kernels.items()
            if any(isinstance(op, AppendOp) for op in all_ops(kernel.body.blocks))
        }

    def function(self, body: Block) -> None:
        """Rewrite a function. What loops carry comes first, of inner loops before outer ones."""
        self.ops = ops_by_block(body)
        for block, ops in self.ops.items():
            self.graphs[block] = buffer_graph(ops, lambda _: 0)
            self.positions |= {op: i for i, op in enumerate(ops)}
            self.movable.update(op for op in ops if self.may_share(op))
        for ops in reversed(self.ops.values()):
            for op in ops:
                if isinstance(op, LoopOp):
                    self.carried(op)
                elif (
                    isinstance(op, LaunchOp) and self.kernels[op.callee].engine.data is Engine.COMM
                ):
                    self.brought.update(map(owner_of, op.outs))
        for op in all_ops((body,)):
            match op:
                case LaunchOp():
                    self.launch(op)
                    self.append(op)
                case CopyOp():
                    self.copy(op)
                case _:
                    pass

    def may_overwrite(self, op: LaunchOp) -> set[tuple[int, int]]:
        """Pairs of destination and operand that the kernel may have in one buffer."""
        pairs = self.allowed.get(op.callee)
        if pairs is None:
            kernel = self.kernels[op.callee]
            static = [r for r, t in enumerate(kernel.output_types) if not is_dynamic(t)]
            pairs = {(static.index(r), i) for r, i in in_place_pairs(kernel) if r in static}
            self.allowed[op.callee] = pairs
        return pairs

    def append(self, op: LaunchOp) -> None:
        """Copy the cache that a launch appends to, if it is needed later: programs write the rows
        alone, so the result begins as a copy."""
        for out, operand in self.may_overwrite(op) if op.callee in self.appending else ():
            result, cache = op.outs[out], op.ins[operand]
            if owner_of(result) is not owner_of(cache):
                insert_before(op, CopyOp(cache, result))
                op.operands[operand] = result

    def launch(self, op: LaunchOp) -> None:
        """Let the results of a launch take the buffers of its operands."""
        outs, ins = op.outs, op.ins
        fitting = self.fitting(op, outs, ins)
        if not fitting:  # which is faster to check than what the kernel may do
            return
        for out, operand in sorted(fitting & self.may_overwrite(op)):
            result, source = outs[out], ins[operand]
            if not self.is_new(result, op) or not self.dies(source, op):
                continue
            buffer = owner_of(source)
            others = (v for i, v in enumerate(op.operands) if i != operand)
            if all(owner_of(v) is not buffer for v in others) and fits(result, source):
                self.take(result, source, op)

    def fitting(
        self, op: LaunchOp, outs: Sequence[SSAValue], ins: Sequence[SSAValue]
    ) -> set[tuple[int, int]]:
        """Pairs of a new buffer of a launch and one of its size that it is the last to use."""
        new = [(i, v) for i, v in enumerate(outs) if self.is_new(v, op)]
        dying = [(i, v) for i, v in enumerate(ins) if self.dies(v, op)] if new else []
        if self.kernels[op.callee].engine.data is Engine.CUBE:
            dying = [(i, v) for i, v in dying if owner_of(v) not in self.brought]
        return {(r, s) for r, result in new for s, source in dying if fits(result, source)}

    def copy(self, op: CopyOp) -> None:
        """Use the source as the target of a copy, if the source is not needed later."""
        source, target = op.source, op.target
        if self.is_new(target, op) and self.dies(source, op) and source.type == target.type:
            if fits(target, source):
                self.take(target, source, op)
                erase(op)

    def carried(self, loop: LoopOp) -> None:
        """Let the body write the next iteration's value into the carried buffer, if nothing reads
        that buffer any more by then."""
        body = loop.body.block
        graph, order = self.graphs[body], array_ints(loop.order)
        last = body.last_op
        assert isinstance(last, YieldOp)
        for i, arg in enumerate(body.args[LOOP_ARGUMENTS:]):
            value, buffer = last.values[1 + i], owner_of(arg)
            alloc = value.owner
            if not order[i] or not isinstance(alloc, AllocOp) or alloc.parent is not body:
                continue
            if alloc in self.pinned or buffer.owner in self.pinned:
                continue
            first, read = graph.first_use(value), graph.last_use(buffer)
            writer = self.ops[body][first]
            if value.type != arg.type or not isinstance(writer, LaunchOp):
                continue
            if value not in writer.outs or read > first:
                continue
            if read == first and not self.in_place(writer, value, arg):
                continue
            if any(v is value for j, v in enumerate(last.values) if j != 1 + i):
                continue
            graph.merge(buffer, value)
            replace(value, arg, alloc)

    def in_place(self, op: LaunchOp, result: SSAValue, source: SSAValue) -> bool:
        """Return whether a launch may write a result over an operand, the only one in that
        buffer."""
        buffer = owner_of(source)
        inside = [i for i, v in enumerate(op.ins) if owner_of(v) is buffer]
        return (
            len(inside) == 1
            and op.ins[inside[0]] is source
            and (op.outs.index(result), inside[0]) in self.may_overwrite(op)
        )

    def is_new(self, value: SSAValue, task: Operation) -> bool:
        """Return whether a task is the first one to use a buffer of its block."""
        return self.may_move(value.owner, task) and (
            self.graph(task).first_use(value) == self.positions[task]
        )

    def dies(self, value: SSAValue, task: Operation) -> bool:
        """Return whether a task is the last one to use the buffer of a value, which is of its
        block."""
        buffer = owner_of(value)
        op = buffer.owner
        return (
            self.may_move(op, task)
            and (self.inputs or IO not in op.attributes)
            and self.graph(task).last_use(buffer) == self.positions[task]
        )

    def graph(self, task: Operation) -> TaskGraph:
        assert task.parent is not None
        return self.graphs[task.parent]

    def may_move(self, op: Operation | Block, task: Operation) -> TypeGuard[AllocOp]:
        """Return whether an op allocates, in the block of a task, a buffer that may share bytes."""
        return op.parent is task.parent and op in self.movable

    def may_share(self, op: Operation) -> bool:
        """Return whether an op allocates a buffer that may share bytes."""
        if type(op) is not AllocOp or STATE in op.attributes:
            return False
        return space_of(op.results[0].type) == HBM and op not in self.pinned

    def take(self, result: SSAValue, source: SSAValue, task: Operation) -> None:
        """Put a result into the buffer of `source`, which is an output of the model from then on
        if the result was one."""
        buffer = owner_of(source)
        old, new = result.owner, buffer.owner
        assert isinstance(old, AllocOp)
        assert isinstance(new, AllocOp)
        if IO in old.attributes:
            new.attributes[IO] = UnitAttr()
        self.graph(task).merge(buffer, result)
        same = next((v for v in (buffer, source) if v.type == result.type), None)
        if same is None:
            cast = whole(buffer, result)
            cast.result.name_hint = result.name_hint
            insert_before(task, cast)
            same = cast.result
        replace(result, same, old)


@by_structure
def in_place_pairs(kernel: KernelOp) -> frozenset[tuple[int, int]]:
    return frozenset(kernel.in_place_pairs())


def fits(result: SSAValue, source: SSAValue) -> bool:
    """Return whether a result fills the buffer that an operand is the whole of."""
    buffer = owner_of(source)
    return element_type(result) == element_type(buffer) and numel(shape_of(result)) == numel(
        shape_of(buffer)
    ) == numel(shape_of(source))


def whole(buffer: SSAValue, like: SSAValue) -> ReinterpretCastOp:
    """All of a buffer as a value of another shape."""
    shape = shape_of(like)
    return casts.cast(buffer, 0, shape, row_major(shape), like.type)


def replace(value: SSAValue, new: SSAValue, alloc: AllocOp) -> None:
    """Use another buffer for an allocated one; views of it look at the buffer itself."""
    if isinstance(cast := new.owner, ReinterpretCastOp):
        for use in list(value.uses):
            if isinstance(use.operation, ReinterpretCastOp):
                use.operation.operands[use.index] = cast.source
    replace_uses(value, new)
    erase(alloc)


@dataclass(frozen=True)
class OverwriteOperandsPass(ModulePass):
    """Put results where operands were that nothing needs any more, where kernels work in place."""

    name = "overwrite-operands"

    inputs: bool = False
    """Whether the device's copies of the model's inputs may be overwritten."""
    no_reuse: tuple[str, ...] = ()
    """Kinds of ops (`matmul`, `fused_op.conv`): what launches with one of them write shares bytes
    with nothing."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (main := main_function(op)) is not None:
            if self.no_reuse:
                check_kinds(self.no_reuse, ctx.loaded_ops)
            pinned = set[Operation](pinned_buffers(op, main, self.no_reuse))
            for kind in self.no_reuse:
                if not pinned_buffers(op, main, [kind]):
                    warning(main, f"no launch has an op '{kind}' to keep the result of apart")
            Overwriting(kernels_of(op), self.inputs, pinned).function(main.body.block)
