"""Execution of the ops of tasks, buffers and programs (launches, copies, slots), and of control
flow.

Streams and events need no step of their own: the text order of a program is one of the orders
that they allow. (`clock.py` simulates when things happen.)
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects.graph import control as graph
from ge.dialects.graph.stated import dim_ranges
from ge.dialects.npu_task import control
from ge.dialects.npu_task import ops as task
from ge.dialects.npu_task.attributes import OFFSETS, STATE, data_type, placed_results
from ge.dialects.npu_task.memory import BlockMove, is_writable, moves, owner_of, source_of, view_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import yielded
from ge.dialects.support.types import DYNAMIC, is_dynamic, numel, shape_of
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.device.executable import Code, Registers, Step
from ge.runtime.device.interpreter import KernelCode, Translator, checker, translates
from ge.runtime.device.memory import PackedRow, PackedView, extent_of, loaded, strided_view
from ge.runtime.device.state import DeviceState
from ge.runtime.numbers.plan import Action, Scratch


@translates(task.ConstantOp)
def translate_constant(t: Translator, op: task.ConstantOp) -> None:
    t.constant(op.result, t.value_of(op.value, op.result.type))


@translates(task.LaunchOp)
def translate_launch(t: Translator, op: task.LaunchOp) -> None:
    kernel = t.kernel(op.callee)
    ins, outs = t.uses(op.ins), t.uses(op.outs)
    writes = tuple(t.define(r) for r in op.results)
    if not op.on_buffers:
        nowhere = [None] * len(writes)

        def on_tensors(registers: Registers) -> None:
            results = kernel.run([registers[r] for r in ins], nowhere)
            for w, result in zip(writes, results, strict=True):
                registers[w] = result

        t.emit(op, on_tensors, ins, writes)
        return
    static = [not is_dynamic(y) for y in kernel.output_types]
    place = placer(t, op)
    if static.count(True) != len(outs) or static.count(False) != len(writes):
        raise GeError(f"outs or results differ from the results of @{op.callee}")

    def on_buffers(registers: Registers) -> None:
        targets = iter(outs)
        places = [registers[next(targets)] if s else None for s in static]
        results = kernel.run([registers[r] for r in ins], places)
        dynamic = iter(zip(writes, op.results, strict=True))
        for s, result in zip(static, results, strict=True):
            if not s:
                # memory of an operand, or of another array, will be reused
                reused = result.base is not None or any(result is registers[r] for r in ins)
                register, value = next(dynamic)
                registers[register] = place(value, result.copy() if reused else result)

    def on_static_buffers(registers: Registers) -> None:
        kernel.run([registers[r] for r in ins], [registers[r] for r in outs])

    step = on_buffers if writes else on_static_buffers
    if not t.packed.isdisjoint((*ins, *outs)):
        step = unpacking(step, ins, outs)
    elif isinstance(kernel, KernelCode) and not writes and t.constants.issuperset((*ins, *outs)):
        step = prepared(step, kernel, ins, outs, t.device.scratch)
    t.emit(op, step, (*ins, *outs), writes)


def prepared(
    step: Step, kernel: KernelCode, ins: Sequence[int], outs: Sequence[int], scratch: Scratch
) -> Step:
    """A launch on memory that stays where it is. The first run checks what its kernel gives; the
    second one prepares the calls that it and all later ones make."""
    runs, bound = 0, cast(Action | None, None)

    def run(registers: Registers) -> None:
        nonlocal runs, bound
        if bound is not None:
            bound()
            return
        runs += 1
        if runs == 2:
            inputs, places = ([registers[r] for r in some] for some in (ins, outs))
            bound = kernel.bind(inputs, places, scratch)
        (step if bound is None else run)(registers)

    return run


def placer(t: Translator, op: Operation) -> Callable[[SSAValue, Array], Array]:
    """A function that puts results of unknown size at their places, if they have any."""
    around, device = op.parent_op(), t.device
    ranges = dim_ranges(around) if around is not None and OFFSETS in op.attributes else {}
    places: dict[SSAValue, tuple[int, int]] = {
        r: (low, most) for r, low, most in placed_results(op, ranges) if r not in t.bound
    }

    def place(value: SSAValue, array: Array) -> Array:
        return device.place(array, *places[value]) if value in places else array

    return place


def unpacking(step: Step, ins: Sequence[int], outs: Sequence[int]) -> Step:
    """A step on arrays of the elements of operands that are packed in memory."""

    def on_arrays(registers: Registers) -> None:
        views = {r: registers[r] for r in (*ins, *outs)}
        for r, view in views.items():
            registers[r] = loaded(view)
        step(registers)
        for r in outs:
            if isinstance(view := views[r], PackedView):
                view.store(registers[r])
        for r, view in views.items():
            registers[r] = view

    return on_arrays


# ---- buffers ---------------------------------------------------------------------------------


@translates(task.SlotOp)
def translate_slot(t: Translator, op: task.SlotOp) -> None:
    element, shape = data_type(op.result.type)
    if op.result in t.bound:
        t.define(op.result)
        return
    view = t.device.view(extent_of(op), dtype_of(element), shape)
    t.constant(op.result, view)
    if STATE in op.attributes:
        state_of(t, op, view)
    if isinstance(view, PackedView):
        t.packed.add(t.use(op.result))


def state_of(t: Translator, op: Operation, memory: Array | PackedView) -> DeviceState:
    """The state of a slot or an allocation: one for all functions of the device."""
    state = t.device.states.get(op)
    if state is None:
        state = t.device.states[op] = DeviceState.of(op, memory, t.device.poison)
    t.states.append(state)
    return state


def bound_outputs(block: Block) -> dict[SSAValue, int]:
    """The slots that are results themselves, as a whole, with the number of the result: their
    memory is not the device's but that of the caller."""
    numbers: dict[SSAValue, int] = {}
    for i, value in enumerate(yielded(block)):
        slot = owner_of(value)
        whole = slot.type == value.type or numel(shape_of(slot)) == numel(shape_of(value))
        if isinstance(slot.owner, task.SlotOp) and whole:
            numbers.setdefault(slot, i)
    return numbers


@translates(AllocOp)
def translate_alloc(t: Translator, op: AllocOp) -> None:
    if STATE in op.attributes:
        element, shape = data_type(op.memref.type)
        t.constant(op.memref, state_of(t, op, np.empty(shape, dtype_of(element))).memory)
        return
    reason = "a buffer of dynamic shape is made by the launch that computes the shape"
    t.allocate(op, op.memref, reason)


@translates(task.RecordOp, task.WaitOp)
def translate_nothing(t: Translator, op: Any) -> None:
    """See the top for events."""


@translates(ReinterpretCastOp)
def translate_view(t: Translator, op: ReinterpretCastOp) -> None:
    view = view_of(op.result)
    if DYNAMIC in (view.offset, *view.sizes, *view.strides):
        raise GeError("a view has static offset, sizes and strides")
    base, dtype = t.use(view.owner), dtype_of(view.element)
    if base in t.packed:
        t.constant(op.result, t.template[base].view(view))
        t.packed.add(t.use(op.result))
        return
    if base in t.constants:
        t.constant(op.result, strided_view(t.template[base], dtype, view))
        return
    register = t.define(op.result)

    def make_view(registers: Registers) -> None:
        registers[register] = strided_view(registers[base], dtype, view)

    t.emit(op, make_view, (base,), (register,))


@translates(task.CopyOp)
def translate_copy(t: Translator, op: task.CopyOp) -> None:
    emit_copy(t, op, op.source, op.target)


def emit_copy(t: Translator, op: Operation, *buffers: SSAValue) -> None:
    source, target = t.uses(buffers)

    def copy(registers: Registers) -> None:
        put(registers[target], loaded(registers[source]))

    t.emit(op, copy, (source, target), ())


@translates(task.BatchCopyOp)
def translate_batch_copy(t: Translator, op: task.BatchCopyOp) -> None:
    for pair in op.pairs:
        emit_copy(t, op, *pair)


@translates(task.TransferOp)
def translate_transfer(t: Translator, op: task.TransferOp) -> None:
    source, result, place = t.use(op.source), t.define(op.result), placer(t, op)

    def transfer(registers: Registers) -> None:
        registers[result] = place(op.result, own(registers[source]))

    t.emit(op, transfer, (source,), (result,))


Target: TypeAlias = Array | PackedView | PackedRow

# ---- control flow of all levels --------------------------------------------------------------


def own(value: Array | PackedView) -> Array:
    """The elements in an array whose memory is nobody else's."""
    return value.load() if isinstance(value, PackedView) else value.copy()


def put(target: Target, source: Array) -> None:
    if target.shape != source.shape:
        raise GeError(f"a value of shape {source.shape} does not fit into {target.shape}")
    if isinstance(target, np.ndarray):
        np.copyto(target, source)
    else:
        target.store(source)


def row_of(value: Array | PackedView, row: int) -> Target:
    return PackedRow(value, row) if isinstance(value, PackedView) else value[row, ...]


def copy_all(targets: Sequence[Target], values: Sequence[Array | PackedView]) -> None:
    """Copy all values to their targets, as if at the same time."""
    sources = [loaded(v) for v in values]
    if len(targets) > 1:
        arrays = [(j, t) for j, t in enumerate(targets) if isinstance(t, np.ndarray)]
        sources = [
            source.copy()
            if any(i != j and np.may_share_memory(source, t) for j, t in arrays)
            else source
            for i, source in enumerate(sources)
        ]
    for target, value, source in zip(targets, values, sources, strict=True):
        if value is not target:
            put(target, source)


class _BlockEnd:
    """The end of a block: some of the values that it yields are copied to their targets, or to rows
    of these; the rest is returned."""

    def __init__(self, t: Translator, block: Block) -> None:
        op = block.last_op
        assert op is not None
        ways = (
            list(moves(op))
            if isinstance(op, control.YieldOp)
            else [BlockMove(v, None) for v in op.operands]
        )
        placed = [m for m in ways if m.target is not None]
        self.targets = [(t.use(m.target), m.row) for m in placed if m.target is not None]
        self.placed = t.uses(m.value for m in placed)
        self.returned = [(t.use(m.value), _is_reused(m.value)) for m in ways if m.target is None]

    def __call__(self, registers: Registers, iteration: int = 0) -> list[Array]:
        """The values that have no target, as arrays that nobody writes to any more."""
        returned = [own(registers[r]) if reused else registers[r] for r, reused in self.returned]
        places = [
            row_of(registers[r], iteration) if row else registers[r] for r, row in self.targets
        ]
        copy_all(places, [registers[r] for r in self.placed])
        return returned


def _is_reused(value: SSAValue) -> bool:
    """True if others write to the memory of a value later."""
    return is_writable(owner_of(value))


def _captured(t: Translator, code: Code, block: Block) -> set[int]:
    """The registers of the blocks around that a nested block reads."""
    return {*code.read(), *t.uses(yielded(block))} - {*code.written(), *t.uses(block.args)}


Branching: TypeAlias = graph.IfOp | graph.CaseOp | control.IfOp | control.CaseOp


@translates(graph.IfOp, graph.CaseOp, control.IfOp, control.CaseOp)
def translate_branch(t: Translator, op: Branching) -> None:
    head = t.use(op.operands[0])
    is_if = isinstance(op, graph.IfOp | control.IfOp)
    blocks = [region.block for region in op.regions]
    codes = [t.block(block)[0] for block in blocks]
    ends = [_BlockEnd(t, block) for block in blocks]
    inner = {r for c, b in zip(codes, blocks, strict=True) for r in _captured(t, c, b)}
    checks = [checker(r.type) for r in op.results]
    writes = tuple(t.define(r) for r in op.results)

    def branch(registers: Registers) -> None:
        side = int(registers[head].item())
        if is_if:
            side = 0 if side else 1
        elif not 0 <= side < len(codes):
            raise GeError(f"there is no branch {side} of {len(codes)}")
        codes[side].run(registers)
        for w, check, value in zip(writes, checks, ends[side](registers), strict=True):
            registers[w] = check(value)

    t.emit(op, branch, (*t.uses(op.operands), *inner), writes)


@translates(control.MapIndexOp)
def translate_map_index(t: Translator, op: control.MapIndexOp) -> None:
    reads, result = t.uses(op.inputs), t.define(op.result)

    def find(registers: Registers) -> None:
        row = op.row_of([registers[r].shape for r in reads])
        registers[result] = np.array(row, np.int64)

    t.emit(op, find, reads, (result,))


class _Loop:
    def __init__(self, t: Translator, op: graph.LoopOp | control.LoopOp) -> None:
        is_task = isinstance(op, control.LoopOp)
        trip, inits = (op.trip, op.inits) if is_task else (op.trip_count, op.carried)
        self.trip = None if trip is None else t.use(trip)
        self.condition = None if op.condition is None else t.use(op.condition)
        self.inits = [(t.use(v), _is_reused(v)) for v in inits]
        self.rows = [(t.use(v), data_type(v.type)[1][0]) for v in (op.scans if is_task else ())]
        self.iteration, self.going, *self.state = self._arguments(t, op.body.block)
        own = (self.iteration, self.going, *self.state)
        self.body, _ = t.block(op.body.block, own)
        self.end = _BlockEnd(t, op.body.block)
        inner = _captured(t, self.body, op.body.block)
        self.scan_types = [r.type for r in op.results[len(inits) :]]
        self.checks = [checker(r.type) for r in op.results]
        self.writes = tuple(t.define(r) for r in op.results)
        self.reads = (*t.uses(op.operands), *inner)

    def _arguments(self, t: Translator, body: Block) -> Iterator[int]:
        """Registers for the body's arguments that are no carried buffers."""
        for arg in body.args:
            if (buffer := source_of(arg)) is None:
                yield t.define(arg)
            else:
                t.alias(arg, buffer)

    def __call__(self, registers: Registers) -> None:
        limit = None if self.trip is None else int(registers[self.trip].item())
        holds = self.condition is None or bool(registers[self.condition].item())
        state = [own(registers[r]) if reused else registers[r] for r, reused in self.inits]
        slices: list[list[Array]] = [[] for _ in self.scan_types]
        i = 0
        while holds and (limit is None or i < limit):
            if any(i >= rows for _, rows in self.rows):
                raise GeError(f"a scan buffer has no row for iteration {i}")
            registers[self.iteration] = np.array(i, np.int64)
            registers[self.going] = np.array(holds)
            for r, value in zip(self.state, state, strict=True):
                registers[r] = value
            self.body.run(registers)
            going, *values = self.end(registers, i)
            holds = bool(going.item())
            state = values[: len(state)]
            for scan, value in zip(slices, values[len(state) :], strict=True):
                scan.append(value)
            i += 1
        if any(i < rows for _, rows in self.rows):
            raise GeError(f"a scan buffer has more rows than the {i} iterations of the loop")
        stacks = [_stacked(s, t) for s, t in zip(slices, self.scan_types, strict=True)]
        for w, check, value in zip(self.writes, self.checks, (*state, *stacks), strict=True):
            registers[w] = check(value)


def _stacked(slices: Sequence[Array], t: Attribute) -> Array:
    """The slices along a new first axis; of none, an empty array of the type."""
    if slices:
        return np.stack(slices)
    element, shape = data_type(t)
    return np.empty([0, *(max(d, 0) for d in shape[1:])], dtype_of(element))


@translates(graph.LoopOp, control.LoopOp)
def translate_loop(t: Translator, op: graph.LoopOp | control.LoopOp) -> None:
    loop = _Loop(t, op)
    t.emit(op, loop, loop.reads, loop.writes)
