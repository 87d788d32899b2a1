"""Tensors become buffers: memrefs in a memory space, each with one owner.

    %d = tensor.empty() : tensor<8x32xf32>
    %0 = npu_task.launch @matmul_0 ins(%x, %w : ...) outs(%d : ...) -> tensor<8x32xf32>
    %1 = graph.reshape %0 shape [32, 8] : (tensor<8x32xf32>) -> tensor<32x8xf32>
    func.return %1 : tensor<32x8xf32>
becomes (`host` and `hbm` stand for the memory spaces `"host"`, ...)
    %0 = memref.alloc() {npu_task.io} : memref<8x64xf32, hbm>
    npu_task.copy %x to %0 : ...
    %1 = memref.alloc() {npu_task.io} : memref<8x32xf32, hbm>
    npu_task.launch @matmul_0 ins(%0, %w : ...) outs(%1 : ...)
    %2 = memref.reinterpret_cast %1 to offset: [0], sizes: [32, 8], strides: [8, 1] : ...
    %3 = memref.alloc() : memref<32x8xf32, host>
    npu_task.copy %2 to %3 : ...
    func.return %3 : memref<32x8xf32, host>

The device allocates values of dynamic shape: they are results of what computes them. Buffers
marked `npu_task.io` are the model's inputs and outputs, which the arena does not hold. With
`share-io` the function takes and returns buffers of the device. State stays there: arguments
marked `graph.state` stay in the memory of the device.

    @main(%h: tensor<4xf32> {graph.name = "h", graph.state = "next"}) -> (... {graph.name = "next"})
becomes a buffer that is no argument and no result; what is the state of the next run is copied
there when all else is done (`update-state` removes copies):
    %0 = memref.alloc() {npu_task.state = "h"} : memref<4xf32, hbm>
    ...
    npu_task.copy %1 to %0 : ...

Where the output is larger along an axis, so is the buffer. Its first part holds values when a run
begins (`npu_task.valid`), which are copied to a buffer of the input's shape."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    MemRefType,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.graph.control import AssumeShapeOp
from ge.dialects.graph.control import CaseOp as GraphCaseOp
from ge.dialects.graph.control import IfOp as GraphIfOp
from ge.dialects.graph.control import LoopOp as GraphLoopOp
from ge.dialects.graph.control import MapIndexOp as GraphMapIndexOp
from ge.dialects.graph.control import YieldOp as GraphYieldOp
from ge.dialects.graph.sharding import SHARDING, WHOLE
from ge.dialects.graph.stated import STATE, Typed, dims_of, growing_axis, growing_symbol, name_of
from ge.dialects.npu_task import casts
from ge.dialects.npu_task.attributes import GROWS, HBM, HOST, IO, VALID, data_type, number, space_of
from ge.dialects.npu_task.attributes import STATE as STATE_BUFFER
from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp, MapIndexOp, YieldOp
from ge.dialects.npu_task.memory import owner_of, row_major
from ge.dialects.npu_task.ops import ConstantOp, CopyOp, LaunchOp, TransferOp
from ge.dialects.npu_task.pipeline import links_of
from ge.dialects.support.diagnostics import error_at
from ge.dialects.support.editing import erase
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import put_before, yielded
from ge.dialects.support.types import (
    Shape,
    element_type,
    is_dynamic,
    numel,
    set_type,
    shape_of,
)
from ge.transforms.analysis.views import view_offsets, whole_of


@dataclass(frozen=True, slots=True)
class StateArgument:
    """An argument that the device keeps, and the number of the result that it becomes."""

    name: str
    result: int
    shape: Shape  # of the result
    grows: int | None = None  # the axis of a buffer that runs fill
    cut: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])  # over devices


def state_arguments(func: FuncOp, returned: ReturnOp) -> dict[SSAValue, StateArgument]:
    """Return the arguments that are state. Raises GeError for state that no output becomes, or of a
    size that is not known."""
    found: dict[SSAValue, StateArgument] = {}
    results = () if func.res_attrs is None else func.res_attrs.data
    symbol = growing_symbol(func)
    outputs = {name_of(t.data) or f"result{i}": i for i, t in enumerate(results)}
    for arg, table in zip(func.args, func.arg_attrs or (), strict=False):
        if not isinstance(becomes := table.data.get(STATE), StringAttr):
            continue
        name = name_of(table.data) or f"arg{arg.index}"
        index = outputs.get(becomes.data)
        if index is None:
            raise error_at(func, f"state '{name}' becomes '{becomes.data}', which is no output")
        value = returned.operands[index]
        if is_dynamic(arg.type) or is_dynamic(value.type):
            hint = "fix its shape with --dim, or give --state-capacity"
            raise error_at(func, f"state '{name}' has a size that is known only at run time", hint)
        types = Typed(name, *data_type(arg.type)), Typed(becomes.data, *data_type(value.type))
        growing_axis(*types)
        dims = dims_of(table.data, len(shape_of(value)))
        grows = dims.index(symbol) if symbol in dims else None
        cut = {key: a for key, a in results[index].data.items() if key in (SHARDING, WHOLE)}
        found[arg] = StateArgument(name, index, shape_of(value), grows, cut)
    return found


def state_buffer(arg: SSAValue, state: StateArgument) -> AllocOp:
    """A buffer of the device that keeps a state; its valid part is as large as `arg`."""
    shape = DenseArrayBase.from_list(i64, list(shape_of(arg)))
    alloc = casts.alloc(casts.dense(element_type(arg), state.shape))
    alloc.attributes.update({STATE_BUFFER: StringAttr(state.name), VALID: shape, **state.cut})
    if state.grows is not None:
        alloc.attributes[GROWS] = number(state.grows)
    alloc.memref.name_hint = arg.name_hint
    return alloc


def updates(
    values: Mapping[SSAValue, SSAValue], new_buffer: Mapping[SSAValue, AllocOp]
) -> Iterator[Operation]:
    """Copies that put values into states, all as if at once; `new_buffer` is for values that lie in
    a state now."""
    moved = dict(values)
    for state, value in values.items():
        if owner_of(value) is not owner_of(state) and value in new_buffer:
            alloc = new_buffer[value]
            yield alloc
            yield CopyOp(value, alloc.memref)
            moved[state] = alloc.memref
    for state, value in moved.items():
        if value is not state:
            yield CopyOp(value, state)


def erase_ports(func: FuncOp, states: Mapping[SSAValue, StateArgument]) -> None:
    """Take states out of a function's arguments, and out of its attributes."""
    if not states:
        return
    arguments = {arg.index for arg in func.args if arg in states}
    results = {s.result for s in states.values()}
    func.arg_attrs = _without(func.arg_attrs, arguments)
    func.res_attrs = _without(func.res_attrs, results)
    for arg in reversed(func.args):
        if arg in states:
            func.body.block.erase_arg(arg)


def _without(
    tables: ArrayAttr[DictionaryAttr] | None, indices: set[int]
) -> ArrayAttr[DictionaryAttr] | None:
    if tables is None:
        return None
    return ArrayAttr[DictionaryAttr](t for i, t in enumerate(tables.data) if i not in indices)


def is_state(buffer: Operation | Block) -> bool:
    return isinstance(buffer, AllocOp) and STATE_BUFFER in buffer.attributes


def buffer_type(tensor: SSAValue, space: StringAttr = HBM) -> MemRefType[Attribute]:
    return casts.dense(element_type(tensor), shape_of(tensor), space)


@dataclass
class Bufferization:
    """The buffers of one function's tensors. Blocks are rewritten in place, in order."""

    share_io: bool = False  # whether the function takes and returns buffers of the device
    linked: frozenset[str] = frozenset()  # names of what stages of a pipeline send each other
    buffers: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    # Buffer that is a view -> the buffer that it is a part of, and its first element there
    views: dict[SSAValue, tuple[SSAValue, int]] = field(
        default_factory=dict[SSAValue, tuple[SSAValue, int]]
    )
    # Tensor -> the buffer that it has to be computed into
    places: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    # Tensors whose buffers hold a result of the model
    outputs: set[SSAValue] = field(default_factory=set[SSAValue])
    # The number of a result -> the buffer of the state that it becomes
    states: dict[int, SSAValue] = field(default_factory=dict[int, SSAValue])

    # Of arguments and of results, whether they are in the memory of the device
    shared: list[list[bool]] = field(default_factory=lambda: [[], []])

    # Ops on tensors, in order
    replaced: list[Operation] = field(default_factory=list[Operation])

    def function(self, func: FuncOp) -> None:
        block = func.body.block
        returned = block.last_op
        tables = (func.arg_attrs or (), func.res_attrs or ())
        self.shared = [
            [self.share_io or name_of(t.data) in self.linked for t in own] for own in tables
        ]
        if not isinstance(returned, FuncReturnOp):
            raise error_at(func, "@main does not end in func.return")
        states = state_arguments(func, returned)
        kept = {s.result for s in states.values()}
        self.outputs = {whole_of(v) for i, v in enumerate(returned.operands) if i not in kept}
        ops = list(block.ops)
        block.insert_ops_before(tuple(self.inputs(block.args, states)), ops[0])
        for op in ops:
            self.visit(op)
        for op in reversed(self.replaced):
            erase(op)
        for buffer in self.views:
            if buffer.first_use is None and isinstance(cast := buffer.owner, ReinterpretCastOp):
                erase(cast)
        erase_ports(func, states)
        results = [o.type for o in yielded(block)]
        func.properties["function_type"] = FunctionType.from_lists(list(block.arg_types), results)

    def inputs(
        self, args: Sequence[SSAValue], states: Mapping[SSAValue, StateArgument]
    ) -> Iterator[Operation]:
        for arg, shared in zip(args, self.shares(0, len(args)), strict=True):
            device = buffer_type(arg)
            if arg in states:
                yield from self.state(arg, states[arg])
                continue
            set_type(arg, device if shared else buffer_type(arg, HOST))
            if shared:
                self.buffers[arg] = arg
            elif is_dynamic(device) and all(isinstance(u.operation, FROM_HOST) for u in arg.uses):
                self.buffers[arg] = arg
            elif is_dynamic(device):
                transfer = TransferOp(arg, device)
                self.buffers[arg] = transfer.result
                yield transfer
            else:
                alloc = casts.alloc(device, io=True)
                self.buffers[arg] = alloc.memref
                yield alloc
                yield CopyOp(arg, alloc.memref)

    def shares(self, end: int, count: int) -> list[bool]:
        """Return of arguments (0), or of results (1), whether they are in the device's memory."""
        return self.shared[end] or [self.share_io] * count

    def state(self, arg: SSAValue, state: StateArgument) -> Iterator[Operation]:
        """Yield the ops that make the buffer of a state, and the buffer that the model reads it
        from."""
        kept = state_buffer(arg, state)
        self.states[state.result] = self.buffers[arg] = kept.memref
        yield kept
        if shape_of(arg) != state.shape:
            view = casts.part(kept.memref, 0, shape_of(arg), row_major(state.shape))
            alloc = casts.alloc(buffer_type(arg))
            self.buffers[arg] = alloc.memref
            yield view
            yield alloc
            yield CopyOp(view.result, alloc.memref)

    def visit(self, op: Operation) -> None:
        assert op.parent is not None
        new = tuple(self.replacement(op))
        for n in new:
            n.location = op.location
            put_before(op.parent, n, op)
        self.replaced.append(op)

    def replacement(self, op: Operation) -> Iterator[Operation]:
        """The ops that replace `op`, in order; they are to be inserted before it."""
        match op:
            case EmptyOp():
                return iter(())  # what is computed into it allocates
            case ConstantOp():
                return self.constant(op)
            case LaunchOp():
                return self.launch(op)
            case GraphIfOp() | GraphCaseOp():
                return self.branch(op)
            case GraphMapIndexOp():
                return self.map_index(op)
            case AssumeShapeOp():
                return self.assumed(op)
            case GraphLoopOp():
                return self.loop(op)
            case FuncReturnOp():
                return self.results(op)
            case _:
                offsets = view_offsets(op)
                if offsets is None:
                    hint = "run lower-to-tasks first"
                    raise error_at(op, f"{op.name} has no form on buffers", hint)
                return self.view(op, offsets)

    def constant(self, op: ConstantOp) -> Iterator[Operation]:
        new = ConstantOp(op.value, buffer_type(op.result))
        new.result.name_hint = op.result.name_hint
        self.buffers[op.result] = new.result
        yield new

    def launch(self, op: LaunchOp) -> Iterator[Operation]:
        """The launch with a buffer made for each static result; dynamic ones stay results."""
        outs: list[SSAValue] = []
        for result in op.results_:
            if not is_dynamic(result.type):
                yield from self.allocate(result)
                outs.append(self.buffers[result])
        dynamic = [r for r in op.results_ if is_dynamic(r.type)]
        ins = [self.buffers[v] for v in op.ins]
        new = LaunchOp(op.callee, ins, outs, [buffer_type(r) for r in dynamic])
        self.buffers.update(zip(dynamic, new.results_, strict=True))
        yield new

    def allocate(self, result: SSAValue) -> Iterator[Operation]:
        """Give a tensor its buffer: the one it has to be computed into, or a new one."""
        place = self.places.get(result)
        if place is None:
            alloc = casts.alloc(buffer_type(result), io=result in self.outputs)
            place = alloc.memref
            place.name_hint = result.name_hint
            yield alloc
        self.buffers[result] = place

    def view(self, op: Operation, offsets: Sequence[int]) -> Iterator[Operation]:
        """A view at `offsets` (in elements) for each result that has another shape than its source;
        views of views are made of the buffer itself."""
        source = self.buffers[op.operands[0]]
        owner, start = self.views.get(source, (source, 0))
        for result, offset in zip(op.results, offsets, strict=True):
            if shape_of(result) == shape_of(source):
                self.buffers[result] = source
                continue
            cast = casts.view(owner, start + offset, shape_of(result))
            cast.result.name_hint = result.name_hint
            self.buffers[result] = cast.result
            self.views[cast.result] = owner, start + offset
            yield cast

    # ---- control flow

    def map_index(self, op: GraphMapIndexOp) -> Iterator[Operation]:
        """The host keeps the number for cases alone, and copies it to the device for others."""
        new = MapIndexOp.create(
            operands=[self.buffers[v] for v in op.inputs],
            result_types=[buffer_type(op.result, HOST)],
            properties=dict(op.properties),
        )
        self.buffers[op.result] = new.result
        yield new
        if not all(isinstance(use.operation, GraphCaseOp) for use in op.result.uses):
            yield from self.allocate(op.result)
            yield CopyOp(new.result, self.buffers[op.result])

    def assumed(self, op: AssumeShapeOp) -> Iterator[Operation]:
        """A copy of a dynamic buffer for a known shape: of an input, where the device has it."""
        source = self.buffers[op.input]
        if is_dynamic(op.result.type):
            transfer = TransferOp(source, buffer_type(op.result))
            self.buffers[op.result] = transfer.result
            yield transfer
            return
        alloc = casts.alloc(buffer_type(op.result), io=isinstance(op.input, BlockArgument))
        alloc.memref.name_hint = op.result.name_hint or op.input.name_hint
        self.buffers[op.result] = alloc.memref
        yield alloc
        yield CopyOp(source, alloc.memref)

    def branch(self, op: GraphIfOp | GraphCaseOp) -> Iterator[Operation]:
        """All branches write static results into the same buffers; dynamic ones are returned, from
        a case that the host decides to the host where nothing else is done with them."""
        static = [r for r in op.outputs if not is_dynamic(r.type)]
        dynamic = [r for r in op.outputs if is_dynamic(r.type)]
        for result in static:
            yield from self.allocate(result)
        outs = [self.buffers[r] for r in static]
        targets = [None if is_dynamic(r.type) else self.buffers[r] for r in op.outputs]
        types = [buffer_type(r, self.space_of_result(r)) for r in op.outputs]
        regions = tuple(op.regions)
        for region in regions:
            results = zip(yielded(region.block), types, strict=True)
            self.outputs |= {whole_of(v) for v, t in results if t.memory_space == HOST}
            self.region(region, targets, types)
            op.detach_region(region)
        head, order = self.buffers[op.operands[0]], [t is not None for t in targets]
        returned = [t for r, t in zip(op.outputs, types, strict=True) if is_dynamic(r.type)]
        if isinstance(op, GraphCaseOp):
            new = CaseOp(head, outs, returned, order, regions)
        else:
            new = IfOp(head, outs, returned, order, *regions)
        self.buffers.update(zip(dynamic, new.results_, strict=True))
        yield new

    def loop(self, op: GraphLoopOp) -> Iterator[Operation]:
        """Give what is carried a buffer that each round overwrites; each round writes its part of a
        stacked result; dynamic values are carried and returned unchanged."""
        count = len(op.carried)
        carried, scans = op.outputs[:count], op.outputs[count:]
        fixed: list[SSAValue] = []
        inits: list[SSAValue] = []
        for init, result in zip(op.carried, carried, strict=True):
            value = self.buffers[init]
            if is_dynamic(result.type):
                yield from (moved := _to_dynamic(value, buffer_type(result)))
                inits.append(moved[0].result if moved else value)
            else:
                yield from self.allocate(result)
                fixed.append(self.buffers[result])
                yield CopyOp(value, fixed[-1])
        stacks = [r for r in scans if not is_dynamic(r.type)]
        for result in stacks:
            yield from self.allocate(result)
        body = op.body
        for arg in body.block.args:
            set_type(arg, buffer_type(arg))
            self.buffers[arg] = arg
        types = [None, *(buffer_type(r) for r in carried), *(None for _ in scans)]
        self.region(body, [None] * len(types), types)
        op.detach_region(body)
        dynamic = [r for r in op.outputs if is_dynamic(r.type)]
        new = LoopOp(
            None if op.trip_count is None else self.buffers[op.trip_count],
            None if op.condition is None else self.buffers[op.condition],
            fixed,
            inits,
            [self.buffers[r] for r in stacks],
            [not is_dynamic(r.type) for r in carried],
            [not is_dynamic(r.type) for r in scans],
            [buffer_type(r) for r in dynamic],
            body,
        )
        self.buffers.update(zip(dynamic, new.results_, strict=True))
        yield new

    def region(
        self,
        region: Region,
        targets: Sequence[SSAValue | None],
        types: Sequence[MemRefType[Attribute] | None],
    ) -> None:
        """Rewrite a region. What it yields is computed into `targets` where it can be, and moved
        to a buffer of the device's where `types` has a dynamic type for it."""
        block = region.block
        last = block.last_op
        assert isinstance(last, GraphYieldOp)
        for value, target in zip(last.values, targets, strict=True):
            computed = isinstance(value.owner, COMPUTED) and value.owner.parent is block
            if computed and target is not None and buffer_type(value) == target.type:
                self.places.setdefault(value, target)
        for op in list(block.ops):
            if op is not last:
                self.visit(op)
        values: list[SSAValue] = []
        for value, t in zip(last.values, types, strict=True):
            buffer = self.buffers[value]
            moved = [] if t is None or not is_dynamic(t) else _to_dynamic(buffer, t)
            block.insert_ops_before(tuple(moved), last)
            values.append(moved[0].result if moved else buffer)
        new = YieldOp(*values)
        new.location = last.location
        block.insert_op_before(new, last)
        self.replaced.append(last)

    def space_of_result(self, result: SSAValue) -> StringAttr:
        """Return the memory space in which a branch leaves a result."""
        is_returned = all(isinstance(use.operation, FuncReturnOp) for use in result.uses)
        by_host = isinstance(case := result.owner, GraphCaseOp) and (
            space_of(self.buffers[case.index].type) == HOST
        )
        is_sized = is_dynamic(result.type) and not self.share_io
        return HOST if by_host and is_returned and is_sized else HBM

    def results(self, op: FuncReturnOp) -> Iterator[Operation]:
        returned: list[SSAValue] = []
        kept: dict[SSAValue, SSAValue] = {}
        shares = self.shares(1, len(op.operands))
        for i, value in enumerate(op.operands):
            buffer = self.buffers[value]
            if i in self.states:
                kept[self.states[i]] = buffer
                continue
            if space_of(buffer.type) == HOST and not isinstance(buffer, BlockArgument):
                returned.append(buffer)
                continue
            t = _in_space(buffer, HBM if shares[i] else HOST)
            if shares[i] and (is_dynamic(t) or self.is_output(buffer)):
                returned.append(buffer)
            elif is_dynamic(t):
                transfer = TransferOp(buffer, t)
                returned.append(transfer.result)
                yield transfer
            else:
                alloc = casts.alloc(t, io=shares[i])
                returned.append(alloc.memref)
                yield alloc
                yield CopyOp(buffer, alloc.memref)
        moved = (v for v in kept.values() if is_state(owner_of(v).owner))
        yield from updates(kept, {v: casts.alloc(_in_space(v, HBM)) for v in moved})
        yield FuncReturnOp(*returned)

    def is_output(self, buffer: SSAValue) -> bool:
        """Return whether a buffer is the whole of one that holds an output of the model alone."""
        owner, _ = self.views.get(buffer, (buffer, 0))
        is_io = isinstance(owner.owner, AllocOp) and IO in owner.owner.attributes
        return is_io and numel(shape_of(owner)) == numel(shape_of(buffer))


# What computes its static results into buffers that it is given
COMPUTED = (LaunchOp, GraphIfOp, GraphCaseOp, GraphLoopOp)

# What takes an input of dynamic shape where the host has it
FROM_HOST = (AssumeShapeOp, GraphMapIndexOp)


def _in_space(buffer: SSAValue, space: StringAttr) -> MemRefType[Attribute]:
    return casts.dense(element_type(buffer), shape_of(buffer), space)


def _to_dynamic(buffer: SSAValue, t: MemRefType[Attribute]) -> list[TransferOp]:
    """Return the copy to a buffer that is not bound to a slot; none if the buffer is such
    already."""
    there = is_dynamic(buffer.type) and space_of(buffer.type) == t.memory_space
    return [] if there else [TransferOp(buffer, t)]


@dataclass(frozen=True)
class BufferizeTasksPass(ModulePass):
    """Turn the tensors of @main into buffers in host and device memory."""

    name = "bufferize-tasks"

    share_io: bool = False
    """Whether the device reads inputs and writes outputs in the caller's memory."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (main := main_function(op)) is not None:
            linked = frozenset(link.value.data for link in links_of(op))
            Bufferization(self.share_io, linked).function(main)
