"""A program whose shapes are known only at run time becomes one of known shapes, on buffers.

    func.func @main(%x: memref<?x64xf32, host> {graph.name = "x", graph.dims = ["batch", ""]}) {
      %0 = npu_task.transfer %x on 2 : memref<?x64xf32, host> to memref<?x64xf32, hbm>
      npu_task.record 0 on 2
      npu_task.wait 0 on 1
      %1 = npu_task.launch @relu_0 on 1 ins(%0 : ...) -> memref<?x64xf32, hbm>
      %2 = npu_task.transfer %1 on 3 : memref<?x64xf32, hbm> to memref<?x64xf32, host>
with `dims=batch=2` becomes
    func.func @main(%x: memref<2x64xf32, host> {graph.name = "x"}) {
      %0 = memref.alloc() {npu_task.io} : memref<2x64xf32, hbm>
      npu_task.copy %x to %0 : ...
      %1 = memref.alloc() {npu_task.io} : memref<2x64xf32, hbm>
      npu_task.launch @relu_0 ins(%0 : ...) outs(%1 : ...)
      %2 = memref.alloc() : memref<2x64xf32, host>
      npu_task.copy %1 to %2 : ...

Kernels are made anew for the types of their operands (`specialize.py`). What follows from shapes
and constants alone is computed here: no launch of it is left. Streams and events are dropped, slots
are buffers again: the passes that plan programs come next. What depends on data (nonzero) stays
with the device's allocator.

`Buffers` says where the values of the program are meanwhile; `Launching` is for one launch,
`Binding` for the whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FunctionType,
    MemRefType,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.sharding import WHOLE
from ge.dialects.graph.stated import DIM_RANGES, DIMS
from ge.dialects.npu_task import casts
from ge.dialects.npu_task.attributes import (
    HBM,
    HOST,
    IO,
    NO_REUSE,
    ORDER,
    STATE,
    Engine,
    data_type,
    is_outside_arena,
    space_of,
)
from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp, YieldOp
from ge.dialects.npu_task.memory import LOOP_ARGUMENTS, MemoryView, owner_of, row_major, view_of
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
from ge.dialects.support.diagnostics import error_at
from ge.dialects.support.editing import erase
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import all_ops, cloned, ops_of, put_last, yielded
from ge.dialects.support.types import (
    DYNAMIC,
    Dense,
    Shape,
    array_ints,
    byte_size,
    is_dynamic,
    numel,
    shape_of,
    shape_text,
)
from ge.dialects.targets.target import TARGET, Target, target_for
from ge.runtime.data.arrays import Array, array_of, dense
from ge.transforms.analysis.views import view_offsets
from ge.transforms.shapes.sizes import argument_shapes
from ge.transforms.shapes.specialize import LIMIT, Kernels, Launch, Surroundings


def buffer_type(
    value: SSAValue | Attribute, space: StringAttr = HBM, shape: Shape | None = None
) -> MemRefType[Attribute]:
    element, known = data_type(value.type if isinstance(value, SSAValue) else value)
    return casts.dense(element, known if shape is None else tuple(shape), space)


@dataclass
class Buffers:
    """The values of a program while it is copied for known sizes: buffers, or elements."""

    # Value of the program -> the buffer that it is now
    buffers: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    # Buffer of the program -> its elements, where they follow from shapes and constants
    known: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    # New view -> the buffer that it is of, and its first element
    views: dict[SSAValue, tuple[SSAValue, int]] = field(
        default_factory=dict[SSAValue, tuple[SSAValue, int]]
    )
    # Buffers of the program that hold an output
    outputs: set[SSAValue] = field(default_factory=set[SSAValue])
    block: Block = field(default_factory=Block)  # that ops are added to
    at: Operation | None = None  # that is copied

    def add(self, op: Operation) -> None:
        if self.at is not None:
            op.location = self.at.location
        put_last(self.block, op)

    def allocate(self, value: SSAValue, t: Attribute, io: bool = False) -> SSAValue:
        op = casts.alloc(buffer_type(t), io)
        op.memref.name_hint = value.name_hint
        self.add(op)
        self.known.pop(value, None)
        self.buffers[value] = op.memref
        return op.memref

    def show(self, value: SSAValue) -> None:
        """Note that all of a new buffer turns out to be an output."""
        owner, _ = self.views.get(value, (value, 0))
        if isinstance(op := owner.owner, AllocOp) and op.parent is self.block:
            if not is_outside_arena(op) and numel(shape_of(owner)) == numel(shape_of(value)):
                op.attributes[IO] = UnitAttr()

    def elements(self, value: SSAValue) -> Array | None:
        """Return the elements of a value of the program, if they are known."""
        owner = owner_of(value)
        if (whole := self.known.get(owner)) is None:
            return None
        if value is owner:
            return whole
        view = view_of(value)
        flat = np.ascontiguousarray(whole).reshape(-1)[view.offset :]
        strides = [s * flat.itemsize for s in view.strides]
        return np.lib.stride_tricks.as_strided(flat, view.sizes, strides).copy()

    def buffer(self, value: SSAValue) -> SSAValue:
        """The buffer that a value of the program is now."""
        if (array := self.elements(value)) is not None:
            constant = ConstantOp(dense(array), buffer_type(value, HBM, array.shape))
            self.add(constant)
            return constant.result
        if value in self.buffers:
            return self.buffers[value]
        return self.view(view_of(value))

    def view(self, view: MemoryView) -> SSAValue:
        """A view of the buffer that the owner of a view of the program is now."""
        base = self.buffers[view.owner]
        owner, start = self.views.get(base, (base, 0))
        offset = start + view.offset
        return self.cast(owner, offset, view.sizes, view.strides)

    def cast(self, owner: SSAValue, offset: int, sizes: Shape, strides: Shape) -> SSAValue:
        self.add(new := casts.view(owner, offset, sizes, strides))
        self.views[new.result] = owner, offset
        return new.result

    def part(self, source: SSAValue, offset: int, shape: Shape) -> SSAValue:
        """The dense part of a new buffer from an element on."""
        owner, start = self.views.get(source, (source, 0))
        return self.cast(owner, start + offset, shape, row_major(shape))

    def is_whole(self, value: SSAValue) -> bool:
        """Return whether a value is all of a buffer, written in the block that the buffer is of."""
        owner = owner_of(value)
        if self.at is None or getattr(owner.owner, "parent", None) is not self.at.parent:
            return False
        if isinstance(owner.owner, Operation) and STATE in owner.owner.attributes:
            return False
        return value is owner or numel(shape_of(value)) == numel(shape_of(owner))

    def place(self, value: SSAValue) -> SSAValue:
        """The buffer that a value of the program is now, to be written to."""
        owner = owner_of(value)
        if owner in self.known:
            if self.is_whole(value):
                del self.known[owner]
            else:
                self.settle(owner)
        return self.buffer(value)

    def settle(self, owner: SSAValue) -> None:
        """Put known elements into the buffer itself."""
        constant = self.buffer(owner)
        del self.known[owner]
        self.add(CopyOp(constant, self.buffers[owner]))

    def settled(self, owner: SSAValue) -> None:
        """Settle a buffer before ops of a region write to it: it holds the elements known of it."""
        if owner in self.known and owner in self.buffers:
            self.settle(owner)


def written(op: Operation) -> Sequence[SSAValue]:
    """The buffers that an op, or the end of a block of it, writes to."""
    match op:
        case LaunchOp() | IfOp() | CaseOp():
            return op.outs
        case CopyOp():
            return (op.target,)
        case BatchCopyOp():
            return op.targets
        case LoopOp():
            return (*op.carried, *op.scans)
        case _:
            return ()


@dataclass
class Launching:
    """One launch: what its kernel became, on the buffers of now."""

    binding: Buffers
    op: LaunchOp
    made: Launch
    ins: Sequence[SSAValue | None]
    # Value of the kernel's body -> buffer
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def run(self) -> None:
        body, binding = self.made.made.body, self.binding
        for arg, value in zip(body.block.args, self.ins, strict=True):
            if value is not None:
                self.values[arg] = value
        pairs = self.results()
        targets = self.targets(pairs)
        for op in ops_of(body.block):
            if op in body.views:
                self.add_views(op)
            elif op in self.made.kernels:
                self.compute(op, targets, pairs)
        for value, old in pairs:
            if (array := self.made.constant(value)) is not None:
                self.known(array, old)
            elif old in self.op.results:
                binding.known.pop(old, None)
                binding.buffers[old] = self.values[value]
                if old in binding.outputs:
                    binding.show(self.values[value])
            elif self.values[value] is not targets.get(value):
                binding.add(CopyOp(self.values[value], binding.place(old)))

    def known(self, array: Array, old: SSAValue) -> None:
        """A result follows from shapes and constants."""
        binding = self.binding
        if old in self.op.results:
            binding.known[old] = array
        elif binding.is_whole(old):
            owner = owner_of(old)
            binding.known[owner] = array.reshape(shape_of(owner))
        else:
            binding.add(source := ConstantOp(dense(array), buffer_type(old)))
            binding.add(CopyOp(source.result, binding.place(old)))

    def results(self) -> list[tuple[SSAValue, SSAValue]]:
        """Return each value that the kernel returns, with its value in the program."""
        outs, results = iter(self.op.outs), iter(self.op.results)
        return [
            (value, next(results) if dynamic else next(outs))
            for value, dynamic in zip(self.made.made.returned, self.made.made.dynamic, strict=True)
        ]

    def targets(self, pairs: Sequence[tuple[SSAValue, SSAValue]]) -> dict[SSAValue, SSAValue]:
        """The buffers of the program that the kernels compute into: not those of values that are
        results as well, which are never overwritten."""
        targets: dict[SSAValue, SSAValue] = {}
        taken = {value for value, old in pairs if old in self.op.results}
        for value, old in pairs:
            if old in self.op.outs and value.owner in self.made.kernels and value not in taken:
                taken.add(value)
                targets[value] = self.binding.place(old)
        return targets

    def compute(
        self,
        op: Operation,
        targets: Mapping[SSAValue, SSAValue],
        pairs: Sequence[tuple[SSAValue, SSAValue]],
    ) -> None:
        binding = self.binding
        kernel = self.made.kernels[op]
        outs: list[SSAValue] = []
        dynamic: list[SSAValue] = []
        for result in op.results:
            if is_dynamic(result.type):
                dynamic.append(result)
                continue
            if (place := targets.get(result)) is None:
                new = casts.alloc(buffer_type(result), self.is_output(result, pairs))
                binding.add(new)
                place = new.memref
            self.values[result] = place
            outs.append(place)
        ins = [self.value(v) for v in self.made.inputs(op)]
        launch = LaunchOp(kernel, ins, outs, [buffer_type(r) for r in dynamic])
        binding.add(launch)
        self.values |= zip(dynamic, launch.results_, strict=True)

    def value(self, value: SSAValue) -> SSAValue:
        """The buffer of a value of the kernel's body; a constant that does not stand in a kernel is
        one of the program."""
        if value not in self.values:
            array = self.made.constant(value)
            assert array is not None
            source = ConstantOp(dense(array), buffer_type(value))
            self.binding.add(source)
            self.values[value] = source.result
        return self.values[value]

    def is_output(self, result: SSAValue, pairs: Sequence[tuple[SSAValue, SSAValue]]) -> bool:
        """Return whether a result, or all of it in another shape, is an output of the model."""
        shown, count, body = {result}, numel(shape_of(result)), self.made.made.body
        for op in ops_of(body.block) if body.views else ():
            if op in body.views and op.operands[0] in shown:
                shown.update(r for r in op.results if numel(shape_of(r)) == count)
        return any(value in shown and old in self.binding.outputs for value, old in pairs)

    def add_views(self, op: Operation) -> None:
        source, offsets = self.values[op.operands[0]], view_offsets(op)
        assert offsets is not None
        for result, offset in zip(op.results, offsets, strict=True):
            shape = shape_of(result)
            same = shape == shape_of(source)
            self.values[result] = source if same else self.binding.part(source, offset, shape)


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


KEPT = (TARGET, NO_REUSE, ORDER)  # of the attributes of a program


def bound_wholes(
    tables: Sequence[Mapping[str, Attribute]], types: Sequence[Attribute]
) -> ArrayAttr[DictionaryAttr]:
    """The attributes of arguments or results of these types, of which a device has parts: sizes of
    the whole that were not known are those of the part, which is not cut there."""
    found: list[DictionaryAttr] = []
    for table, part in zip(tables, types, strict=True):
        own = dict(table)
        if WHOLE in own:
            whole = zip(array_ints(own[WHOLE]), data_type(part)[1], strict=True)
            sizes = [n if size == DYNAMIC else size for size, n in whole]
            own[WHOLE] = DenseArrayBase.from_list(i64, sizes)
        found.append(DictionaryAttr(own))
    return ArrayAttr(found)


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
        outputs = [o.type for o in yielded(block)]
        main.function_type = FunctionType.from_lists(list(block.arg_types), outputs)
        for name in list(main.attributes):
            if (name.startswith("npu_task.") and name not in KEPT) or name == DIM_RANGES:
                del main.attributes[name]
        if main.arg_attrs is not None:
            tables = [{n: a for n, a in t.data.items() if n != DIMS} for t in main.arg_attrs]
            main.arg_attrs = bound_wholes(tables, list(block.arg_types))
        if main.res_attrs is not None:
            main.res_attrs = bound_wholes([t.data for t in main.res_attrs], outputs)

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
            self.add(new := casts.alloc(buffer_type(source, HOST)))
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

    # ---- control flow: a value that is carried, stacked, or comes out of a branch has a buffer of
    # its own if its shape is now known, else it stays a value

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
            self.branches(op)
            return
        region = op.regions[number]
        self.copy_ops(region.block)
        self.at = op
        fixed, passed = iter(op.outs), iter(op.results_)
        values = [(v, self.buffer(v)) for v in yielded(region.block)]
        for (old, value), static in zip(values, array_ints(op.order), strict=True):
            if not static:
                result = next(passed)
                self.buffers[result] = value
                if (array := self.elements(old)) is not None:
                    self.known[result] = array
            elif value is not (place := self.place(next(fixed))):
                self.add(CopyOp(value, place))

    def region(self, old: Region, types: Sequence[Attribute] = ()) -> tuple[Block, list[SSAValue]]:
        """The block of a region, for arguments of these types, and what it yields."""
        block = Block(arg_types=types)
        for arg, mine in zip(old.block.args, block.args, strict=True):
            self.buffers[arg] = mine
        around, self.block = self.block, block
        at = self.at
        self.copy_ops(old.block)
        values = [self.buffer(v) for v in yielded(old.block)]
        self.add(YieldOp(*values))
        self.block, self.at = around, at
        return block, values

    def branches(self, op: IfOp | CaseOp) -> None:
        """All branches. Raises UnfitBranch where one does not fit the sizes, or its results have
        other ranks."""
        condition = self.buffer(op.operands[0])
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
        self.add(new)
        self.buffers.update(zip((v for v, _ in dynamic), new.results_, strict=True))

    def destinations(
        self,
        types: Sequence[MemRefType[Attribute]],
        order: DenseArrayBase,
        fixed: Iterator[SSAValue],
        passed: Iterator[SSAValue],
    ) -> tuple[list[SSAValue], list[bool], list[tuple[SSAValue, Attribute]]]:
        """Return where values of these types go: the buffers, which values go to one, and the
        results that the others stay."""
        outs = list[SSAValue]()
        in_buffers: list[bool] = []
        dynamic: list[tuple[SSAValue, Attribute]] = []
        for t, static in zip(types, array_ints(order), strict=True):
            in_buffers.append(bool(static) or not is_dynamic(t))
            if static:
                outs.append(self.place(next(fixed)))
            elif in_buffers[-1]:
                result = next(passed)
                outs.append(self.allocate(result, t, result in self.outputs))
            else:
                dynamic.append((next(passed), t))
        return outs, in_buffers, dynamic

    def loop(self, op: LoopOp) -> None:
        for inner in op.walk():
            for value in written(inner):
                self.settled(owner_of(value))
        old_order = array_ints(op.order)
        fixed, inits = iter(op.carried), iter(op.inits)
        starts = [
            self.place(next(fixed)) if static else self.buffer(next(inits)) for static in old_order
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
                carried.append(self.allocate(result, t, result in self.outputs))
                self.add(CopyOp(start, carried[-1]))
            else:
                moving.append(start)
                dynamic.append((next(results), t))
        rounds = self.rounds(op)
        rows = [buffer_type(v, shape=(rounds, *shape_of(v))) for v in values[1 + len(order) :]]
        scans, stacked, more = self.destinations(rows, op.stacked, iter(op.scans), results)
        dynamic += more
        new = LoopOp(
            None if op.trip is None else self.buffer(op.trip),
            None if op.condition is None else self.buffer(op.condition),
            carried, moving, scans, order, stacked, [t for _, t in dynamic], Region(body),
        )  # fmt: skip
        self.add(new)
        self.buffers.update(zip((v for v, _ in dynamic), new.results_, strict=True))

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
        """Return the number of iterations, if it is known."""
        trip = None if op.trip is None else self.elements(op.trip)
        last = op.body.block.last_op
        going = last is not None and last.operands[0] is op.body.block.args[1]
        if trip is None or op.condition is not None or not going:
            return DYNAMIC
        return max(int(trip.item()), 0)


def clean(block: Block) -> None:
    """Erase unused buffers, views and constants, and launches whose results are not read."""
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


def parsed(texts: Sequence[str]) -> dict[str, str]:
    pairs = [text.rpartition("=") for text in texts]
    if bad := [
        t for t, (name, equals, _) in zip(texts, pairs, strict=True) if not equals or not name
    ]:
        raise GeError(f"'{bad[0]}' is no size of a dimension", hint="write it as batch=2")
    return {name: value for name, _, value in pairs}


def number(name: str, text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise GeError(f"the size of '{name}' is a number of elements, not '{text}'")
    return int(text)


@dataclass(frozen=True)
class BindDimsPass(ModulePass):
    """Give the dimensions of a program's inputs their sizes; it becomes one on buffers again."""

    name = "bind-dims"

    dims: tuple[str, ...] = ()
    """Sizes of named dimensions: "batch=2"."""
    shapes: tuple[str, ...] = ()
    """Shapes of inputs: "x=1x3x224x224"."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (main := main_function(op)) is None:
            return
        dims = {n: number(n, text) for n, text in parsed(self.dims).items()}
        shapes = {
            n: [number(n, d) for d in text.split("x") if text]
            for n, text in parsed(self.shapes).items()
        }
        Binding(module=op, main=main, target=target_for(main)).bind(
            argument_shapes(main, dims, shapes)
        )
