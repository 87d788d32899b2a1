"""Launches write results over operands that nobody needs any more, where their kernels may.

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
be no input of the model unless `inputs` allows it; the launch may not read another part of it. So
residual chains stay in one buffer; one that ends in an output of the model is in the output's. Of
a loop, the initial value of what is carried and the value that an iteration computes are put in the
carried buffer itself, where nobody reads what was there before any more.

All of this is decided in program order, in one walk of each block, before tasks are on streams:
later passes see that the launch writes what it reads.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.npu_task.attributes import HBM, is_dynamic
from ge.dialects.npu_task.control import LoopOp, YieldOp
from ge.dialects.npu_task.memory import LOOP_ARGUMENTS, owner_of, row_major
from ge.dialects.npu_task.ops import CopyOp, KernelOp, LaunchOp
from ge.dialects.npu_task.program_info import IO
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import array_ints, element_type, numel, shape_of
from ge.transforms.analysis.aliasing import Uses, find_uses
from ge.transforms.memory.pinning import check_kinds, pinned_buffers


@dataclass
class Overwriting:
    """Works on the blocks of one function."""

    kernels: Mapping[str, KernelOp]
    inputs: bool
    pinned: Set[Operation]
    """Allocations of buffers that share bytes with nothing."""
    uses: dict[Block, Uses] = field(default_factory=dict[Block, Uses])
    allowed: dict[str, set[tuple[int, int]]] = field(
        default_factory=dict[str, set[tuple[int, int]]]
    )

    def function(self, body: Block) -> None:
        """Rewrite a function. What loops carry comes first, of inner loops before outer ones."""
        find_uses(body, self.uses)
        for uses in reversed(self.uses.values()):
            for op in uses.ops:
                if isinstance(op, LoopOp):
                    self.carried(op)
        self.block(body)

    def block(self, block: Block) -> None:
        """Rewrite a block, then those inside."""
        uses = self.uses[block]
        for position, op in enumerate(uses.ops):
            match op:
                case LaunchOp():
                    self.launch(op, Place(block, position, uses, self.pinned))
                case CopyOp():
                    self.copy(op, Place(block, position, uses, self.pinned))
                case _:
                    for region in op.regions:
                        self.block(region.block)

    def may_overwrite(self, op: LaunchOp) -> set[tuple[int, int]]:
        """Pairs of destination and operand that the kernel may have in one place."""
        found = self.allowed.get(op.callee)
        if found is None:
            kernel = self.kernels[op.callee]
            static = [r for r, t in enumerate(kernel.output_types) if not is_dynamic(t)]
            pairs = kernel.in_place_pairs()
            found = {(static.index(r), i) for r, i in pairs if r in static}
            self.allowed[op.callee] = found
        return found

    def launch(self, op: LaunchOp, place: "Place") -> None:
        """Let the results of a launch take the buffers of its operands."""
        for out, operand in sorted(self.may_overwrite(op)):
            result, source = op.outs[out], op.ins[operand]
            if not place.is_new(result) or not place.dies(source, self.inputs):
                continue
            buffer = owner_of(source)
            touched = [v for i, v in enumerate(op.operands) if i != operand]
            if all(owner_of(v) is not buffer for v in touched) and fits(result, source):
                place.take(result, source, op)

    def copy(self, op: CopyOp, place: "Place") -> None:
        """The target of a copy is the source, if nobody needs the source later."""
        source = op.source
        if not place.is_new(op.target) or not place.dies(source, self.inputs):
            return
        if source.type == op.target.type and fits(op.target, source):
            place.take(op.target, source, op)
            op.detach()
            op.erase()

    def carried(self, loop: LoopOp) -> None:
        """What the body computes for the next iteration is written into the carried buffer, if
        nothing reads it any more by then."""
        body = loop.body.block
        uses, order = self.uses[body], array_ints(loop.order)
        last = body.last_op
        assert isinstance(last, YieldOp)
        for i, arg in enumerate(body.args[LOOP_ARGUMENTS:]):
            value, buffer = last.values[1 + i], owner_of(arg)
            alloc = value.owner
            if not order[i] or not isinstance(alloc, AllocOp) or alloc.parent is not body:
                continue
            if alloc in self.pinned or buffer.owner in self.pinned:
                continue
            first, read = uses.first[value], uses.last.get(buffer, -1)
            writer = uses.ops[first]
            if value.type != arg.type or not isinstance(writer, LaunchOp):
                continue
            if value not in writer.outs or read > first:
                continue
            if read == first and not self.in_place(writer, value, arg):
                continue
            if any(v is value for j, v in enumerate(last.values) if j != 1 + i):
                continue
            replace(value, arg, alloc)
            uses.last[buffer] = len(uses.ops)

    def in_place(self, op: LaunchOp, result: SSAValue, source: SSAValue) -> bool:
        """Whether a launch may write a result over an operand, the only one in that buffer."""
        buffer = owner_of(source)
        inside = [i for i, v in enumerate(op.ins) if owner_of(v) is buffer]
        return (
            len(inside) == 1
            and op.ins[inside[0]] is source
            and (op.outs.index(result), inside[0]) in self.may_overwrite(op)
        )


@dataclass
class Place:
    """A task in its block, and the uses of buffers there."""

    block: Block
    position: int
    uses: Uses
    pinned: Set[Operation]

    def is_new(self, value: SSAValue) -> bool:
        """Whether this is a buffer of the block which the task is the first to use."""
        op = value.owner
        return (
            isinstance(op, AllocOp)
            and op.parent is self.block
            and op.memref.type.memory_space == HBM
            and op not in self.pinned
            and self.uses.first.get(value) == self.position
        )

    def dies(self, value: SSAValue, inputs: bool) -> bool:
        """Whether the buffer of a value is one of the block which the task is the last to use."""
        buffer = owner_of(value)
        op = buffer.owner
        return (
            isinstance(op, AllocOp)
            and op.parent is self.block
            and op.memref.type.memory_space == HBM
            and op not in self.pinned
            and (inputs or IO not in op.attributes)
            and self.uses.last.get(buffer) == self.position
        )

    def take(self, result: SSAValue, source: SSAValue, task: Operation) -> None:
        """Put a result into the buffer of `source`, which is an output of the model from then on
        if the result was one."""
        buffer = owner_of(source)
        old, new = result.owner, buffer.owner
        assert isinstance(old, AllocOp)
        assert isinstance(new, AllocOp)
        if IO in old.attributes:
            new.attributes[IO] = UnitAttr()
        self.uses.last[buffer] = self.uses.last[result]
        place = next((v for v in (buffer, source) if v.type == result.type), None)
        if place is None:
            cast = whole(buffer, result)
            cast.location, cast.result.name_hint = task.location, result.name_hint
            self.block.insert_op_before(cast, task)
            place = cast.result
        replace(result, place, old)


def fits(result: SSAValue, source: SSAValue) -> bool:
    """Whether a result fills the buffer that an operand is the whole of."""
    buffer = owner_of(source)
    return element_type(result) == element_type(buffer) and numel(shape_of(result)) == numel(
        shape_of(buffer)
    ) == numel(shape_of(source))


def whole(buffer: SSAValue, like: SSAValue) -> ReinterpretCastOp:
    """All of a buffer as a value of another shape."""
    shape = shape_of(like)
    return ReinterpretCastOp(buffer, (), (), (), [0], shape, row_major(shape), like.type)


def replace(value: SSAValue, new: SSAValue, alloc: AllocOp) -> None:
    """Use another buffer for an allocated one; views of it look at the buffer itself."""
    if isinstance(cast := new.owner, ReinterpretCastOp):
        for use in list(value.uses):
            if isinstance(use.operation, ReinterpretCastOp):
                use.operation.operands[use.index] = cast.source
    value.replace_all_uses_with(new)
    alloc.detach()
    alloc.erase()


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
            kernels = {k.sym_name.data: k for k in op.ops if isinstance(k, KernelOp)}
            Overwriting(kernels, self.inputs, pinned).function(main.body.block)
