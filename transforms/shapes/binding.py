"""The rewriting behind `bind-dims`: ops on buffers of unknown shapes, copied as those of known
ones."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.ports import DIM_RANGES, DIMS
from ge.dialects.npu_task.attributes import HBM, HOST, Engine, space_of
from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp, YieldOp
from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import (
    BatchCopyOp,
    ConstantOp,
    CopyOp,
    LaunchOp,
    RecordOp,
    SlotOp,
    TransferOp,
    WaitOp,
)
from ge.dialects.npu_task.program_info import NO_REUSE, ORDER, STATE, is_outside_arena
from ge.dialects.support.diagnostics import error_at
from ge.dialects.support.editing import erase
from ge.dialects.support.operation import all_ops, cloned, ops_of
from ge.dialects.support.types import Dense, Shape, array_ints, byte_size, is_dynamic, shape_of
from ge.dialects.targets.target import TARGET, Target
from ge.runtime.data.arrays import array_of
from ge.transforms.shapes.buffers import Buffers, alloc, buffer_type, written
from ge.transforms.shapes.control_flow import ControlFlow
from ge.transforms.shapes.kernels import Kernels
from ge.transforms.shapes.launching import Launching
from ge.transforms.shapes.specialize import LIMIT, Surroundings

KEPT = (TARGET, NO_REUSE, ORDER)  # of the attributes of a program


@dataclass(kw_only=True)
class Binding(Buffers):
    """Copies the ops of one function, in order."""

    module: ModuleOp
    main: FuncOp
    target: Target
    # Buffer of the program -> how many ops write to it
    writes: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    # Buffer of the program -> how many launches of the device read it
    users: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    def bind(self, shapes: Sequence[Shape]) -> None:
        self.kernels = Kernels(self.module, self.target)
        old = self.kernels.bodies.block or self.main.body.block
        self.look(old)
        types = [
            buffer_type(arg, HOST if space_of(arg.type) == HOST else HBM, shape)
            for arg, shape in zip(old.args, shapes, strict=True)
        ]
        self.block = new = Block(arg_types=types)
        for arg, mine in zip(old.args, new.args, strict=True):
            mine.name_hint = arg.name_hint
            self.buffers[arg] = mine
        self.copy_ops(old)
        clean(new)
        self.main.detach_region(self.main.body)
        self.main.add_region(Region(new))
        self.kernels.replace(self.main)
        self.sign()

    def look(self, block: Block) -> None:
        """Find the buffers that hold outputs, count writes, and launches that read."""
        for op in all_ops([block]):
            for value in written(op):
                owner = owner_of(value)
                self.writes[owner] = self.writes.get(owner, 0) + 1
            match op:
                case TransferOp() if space_of(op.result.type) == HOST:
                    self.outputs.add(owner_of(op.source))
                case CopyOp() if space_of(op.target.type) == HOST:
                    self.outputs.add(owner_of(op.source))
                case BatchCopyOp() if space_of(op.targets[0].type) == HOST:
                    self.outputs.update(map(owner_of, op.sources))
                case FuncReturnOp():
                    self.outputs.update(owner_of(v) for v in op.operands)
                case LaunchOp() if self.kernels.old[op.callee].engine.data is not Engine.HOST:
                    for owner in map(owner_of, op.ins):
                        self.users[owner] = self.users.get(owner, 0) + 1
                case _:
                    pass

    def sign(self) -> None:
        """The types and attributes of the function."""
        main, block = self.main, self.main.body.block
        last = block.last_op
        outputs = () if last is None else [o.type for o in last.operands]
        main.function_type = FunctionType.from_lists(list(block.arg_types), list(outputs))
        for name in list(main.attributes):
            if (name.startswith("npu_task.") and name not in KEPT) or name == DIM_RANGES:
                del main.attributes[name]
        if main.arg_attrs is not None:
            tables = [{n: a for n, a in t.data.items() if n != DIMS} for t in main.arg_attrs]
            main.arg_attrs = ArrayAttr(map(DictionaryAttr, tables))

    # ---- ops

    def copy_ops(self, block: Block) -> None:
        for op in block.ops:
            self.at = op
            self.copy(op)

    def copy(self, op: Operation) -> None:
        match op:
            case LaunchOp():
                self.launch(op)
            case TransferOp():
                self.transfer(op)
            case ConstantOp():
                self.constant(op)
            case RecordOp() | WaitOp() | ReinterpretCastOp() | YieldOp():
                pass
            case SlotOp():
                buffer = self.allocate(op.result, op.result.type, op.segment.data == "io")
                if STATE in op.attributes:
                    self.outlives(op, buffer)
            case AllocOp():
                self.add(new := op.clone())
                self.buffers[op.memref] = new.memref
            case CopyOp():
                self.move(op.source, op.target)
            case BatchCopyOp():
                for pair in op.pairs:
                    self.move(*pair)
            case IfOp() | CaseOp():
                self.branch(op)
            case LoopOp():
                self.loop(op)
            case FuncReturnOp():
                self.add(FuncReturnOp(*map(self.buffer, op.operands)))
            case _:
                raise error_at(op, f"{op.name} is no op of a program")

    def outlives(self, op: SlotOp, buffer: SSAValue) -> None:
        """A slot stays from run to run: it is written before and after this one."""
        assert isinstance(buffer.owner, AllocOp)
        buffer.owner.attributes.update(op.attributes)
        self.writes[op.result] = self.writes.get(op.result, 0) + 2

    def constant(self, op: ConstantOp) -> None:
        if isinstance(op.value, DenseIntOrFPElementsAttr) and byte_size(op.result.type) <= LIMIT:
            self.known[op.result] = array_of(cast(Dense, op.properties["value"]))
            return
        self.add(new := cloned(op, {}))
        self.buffers[op.result] = new.result

    def move(self, source: SSAValue, target: SSAValue) -> None:
        array = self.elements(source)
        if array is not None and self.is_whole(target) and space_of(target.type) == HBM:
            self.known[owner_of(target)] = array.reshape(shape_of(owner_of(target)))
        elif (value := self.buffer(source)) is not (place := self.place(target)):
            self.add(CopyOp(value, place))

    def transfer(self, op: TransferOp) -> None:
        """A copy to a new buffer of the device, which is an input, or to the host."""
        space, array = space_of(op.result.type), self.elements(op.source)
        if space == HBM and array is not None:
            self.known[op.result] = array
            return
        source = self.buffer(op.source)
        if is_dynamic(source.type):
            new = TransferOp(source, buffer_type(source, HOST if space == HOST else HBM))
            self.add(new)
            self.buffers[op.result] = new.result
            return
        if space == HOST:
            self.add(new := alloc(buffer_type(source, HOST)))
            self.buffers[op.result] = new.memref
        else:
            is_input = space_of(source.type) == HOST
            self.allocate(op.result, buffer_type(source), is_input or op.result in self.outputs)
        self.add(CopyOp(source, self.buffers[op.result]))

    # ---- launches

    def launch(self, op: LaunchOp) -> None:
        arrays = {i: a for i, v in enumerate(op.ins) if (a := self.elements(v)) is not None}
        ins = [None if i in arrays else self.buffer(v) for i, v in enumerate(op.ins)]
        shapes = [
            arrays[i].shape if value is None else shape_of(value) for i, value in enumerate(ins)
        ]
        try:
            made = self.kernels.launch(op.callee, shapes, arrays, self.surroundings(op))
        except VerifyException as e:
            raise error_at(op, f"these sizes do not fit: {e}") from None
        Launching(self, op, made, ins).run()

    def surroundings(self, op: LaunchOp) -> Surroundings:
        owners = [owner_of(v) for v in op.ins]
        return Surroundings(
            views=all(self.writes.get(v, 0) < 2 for v in owners),
            sole=frozenset(i for i, v in enumerate(owners) if self.users.get(v) == 1),
            computed=frozenset(
                i for i, v in enumerate(owners)
                if isinstance(v.owner, LaunchOp | SlotOp | IfOp | CaseOp | LoopOp)
            ),
        )  # fmt: skip

    # ---- control flow

    def branch(self, op: IfOp | CaseOp) -> None:
        """The branch that a known condition, or index, takes; all of any other."""
        for value in op.outs:
            self.settled(owner_of(value))
        known = self.elements(op.operands[0])
        number = -1 if known is None else int(known.item())
        if isinstance(op, IfOp) and known is not None:
            number = int(not number)
        if not 0 <= number < len(op.regions):  # not known, or an error of the run
            for inner in op.walk():
                for value in written(inner):
                    self.settled(owner_of(value))
            ControlFlow(self, self.copy_ops).branch(op)
            return
        region = op.regions[number]
        last = region.block.last_op
        assert last is not None
        self.copy_ops(region.block)
        self.at = op
        fixed, passed = iter(op.outs), iter(op.results_)
        values = [(v, self.buffer(v)) for v in last.operands]
        for (old, value), static in zip(values, array_ints(op.order), strict=True):
            if not static:
                result = next(passed)
                self.buffers[result] = value
                if (array := self.elements(old)) is not None:
                    self.known[result] = array
            elif value is not (place := self.place(next(fixed))):
                self.add(CopyOp(value, place))

    def loop(self, op: LoopOp) -> None:
        for inner in op.walk():
            for value in written(inner):
                self.settled(owner_of(value))
        ControlFlow(self, self.copy_ops).loop(op)


def clean(block: Block) -> None:
    """Erase what nobody uses: buffers, views and constants, and launches whose results nobody
    reads."""
    for op in reversed(ops_of(block)):
        if isinstance(op, LaunchOp):
            unread = all(
                isinstance(v.owner, AllocOp) and not is_outside_arena(v.owner) and v.has_one_use()
                for v in op.outs
            )
            if unread and all(r.first_use is None for r in op.results):
                erase(op)
        elif op.results and op.results[0].first_use is None and STATE not in op.attributes:
            if isinstance(op, AllocOp | ReinterpretCastOp | ConstantOp):
                erase(op)
