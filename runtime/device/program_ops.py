"""How the ops of tasks, buffers and programs run: launches, copies, slots, control flow.

Streams and events need no step of their own: the text order of a program is one of the orders
that they allow. (`clock.py` simulates when things happen.)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.dialects.memref import AllocOp, CastOp, DeallocOp, ReinterpretCastOp
from xdsl.ir import SSAValue

from ge.dialects.npu_task import ops as task
from ge.dialects.npu_task.ops import data_type, is_dynamic
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import array_ints
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.device.executable import Registers
from ge.runtime.device.interpreter import (
    Translator,
    captured,
    checker,
    is_true,
    stacked,
    translates,
)
from ge.runtime.device.memory import extent_of, strided_view


def owned(y: Array) -> Array:
    """The array, copied if its memory belongs to another one: a buffer that will be reused."""
    return y if y.base is None else y.copy()


def root(value: SSAValue) -> SSAValue:
    """The buffer that a view is a view of."""
    while isinstance(value.owner, ReinterpretCastOp | CastOp):
        value = value.owner.source
    return value


@translates(task.ConstantOp)
def translate_constant(t: Translator, op: task.ConstantOp) -> None:
    t.constant(op.result, t.value_of(op.value, op.result.type))


@translates(task.LaunchOp)
def translate_launch(t: Translator, op: task.LaunchOp) -> None:
    kernel = t.kernel(op.callee)
    ins, outs = t.uses(op.ins), t.uses(op.outs)
    if not op.on_buffers:
        nowhere = [None] * len(op.results)
        writes = tuple(t.define(r) for r in op.results)

        def on_tensors(registers: Registers) -> None:
            results = kernel.run([registers[r] for r in ins], nowhere)
            for w, result in zip(writes, results, strict=True):
                registers[w] = result

        t.emit(op, on_tensors, ins, writes)
        return
    static = [not is_dynamic(y) for y in kernel.output_types]
    writes = tuple(t.define(r) for r in op.results)
    if static.count(True) != len(outs) or static.count(False) != len(writes):
        raise GeError(f"outs or results differ from the results of @{op.callee}")

    def on_buffers(registers: Registers) -> None:
        targets = iter(outs)
        places = [registers[next(targets)] if s else None for s in static]
        results = kernel.run([registers[r] for r in ins], places)
        dynamic = iter(writes)
        for s, result in zip(static, results, strict=True):
            if not s:
                registers[next(dynamic)] = owned(result)

    def on_static_buffers(registers: Registers) -> None:
        kernel.run([registers[r] for r in ins], [registers[r] for r in outs])

    t.emit(op, on_buffers if writes else on_static_buffers, (*ins, *outs), writes)


# ---- buffers ---------------------------------------------------------------------------------


@translates(task.SlotOp)
def translate_slot(t: Translator, op: task.SlotOp) -> None:
    element, shape = data_type(op.result.type)
    if op.result in t.bound:
        t.define(op.result)
        return
    t.constant(op.result, t.device.view(extent_of(op), dtype_of(element), shape))


@translates(AllocOp)
def translate_alloc(t: Translator, op: AllocOp) -> None:
    reason = "a buffer of dynamic shape is made by the launch that computes the shape"
    t.allocate(op, op.memref, reason)


@translates(DeallocOp, task.RecordOp, task.WaitOp)
def translate_nothing(t: Translator, op: Any) -> None:
    """A register is emptied after its last use anyhow; see the top for events."""


@translates(CastOp)
def translate_cast(t: Translator, op: CastOp) -> None:
    t.alias(op.dest, op.source)


@translates(ReinterpretCastOp)
def translate_view(t: Translator, op: ReinterpretCastOp) -> None:
    (offset,) = array_ints(op.static_offsets)
    sizes, strides = array_ints(op.static_sizes), array_ints(op.static_strides)
    if DYNAMIC_INDEX in (offset, *sizes, *strides):
        raise GeError("a view has static offset, sizes and strides")
    base = t.use(root(op.source))
    dtype = dtype_of(data_type(op.result.type)[0])
    if base in t.constants:
        t.constant(op.result, strided_view(t.template[base], dtype, offset, sizes, strides))
        return
    register = t.define(op.result)

    def view(registers: Registers) -> None:
        registers[register] = strided_view(registers[base], dtype, offset, sizes, strides)

    t.emit(op, view, (base,), (register,))


@translates(task.CopyOp)
def translate_copy(t: Translator, op: task.CopyOp) -> None:
    source, target = t.use(op.source), t.use(op.target)

    def copy(registers: Registers) -> None:
        np.copyto(registers[target], registers[source])

    t.emit(op, copy, (source, target), ())


@translates(task.TransferOp)
def translate_transfer(t: Translator, op: task.TransferOp) -> None:
    source, result = t.use(op.source), t.define(op.result)

    def transfer(registers: Registers) -> None:
        registers[result] = registers[source].copy()

    t.emit(op, transfer, (source,), (result,))


# ---- control flow ----------------------------------------------------------------------------


def copy_all(targets: Sequence[Array], sources: Sequence[Array]) -> None:
    """Copy all sources to their targets, as if at the same time."""
    if len(targets) > 1:
        sources = [
            source.copy()
            if any(i != j and np.may_share_memory(source, t) for j, t in enumerate(targets))
            else source
            for i, source in enumerate(sources)
        ]
    for target, source in zip(targets, sources, strict=True):
        if source is not target:
            np.copyto(target, source)


@translates(task.IfOp)
def translate_if(t: Translator, op: task.IfOp) -> None:
    condition, outs = t.use(op.condition), t.uses(op.outs)
    static = [bool(v) for v in array_ints(op.order)]
    then, then_results = t.block(op.then.block)
    otherwise, else_results = t.block(op.otherwise.block)
    inner = captured(t, then, op.then.block) | captured(t, otherwise, op.otherwise.block)
    checks = [checker(r.type) for r in op.results]
    writes = tuple(t.define(r) for r in op.results)

    def branch(registers: Registers) -> None:
        taken = is_true(registers[condition])
        (then if taken else otherwise).run(registers)
        values = [registers[r] for r in (then_results if taken else else_results)]
        targets = [registers[r] for r in outs]
        copy_all(targets, [v for v, s in zip(values, static, strict=True) if s])
        dynamic = [v for v, s in zip(values, static, strict=True) if not s]
        for w, check, value in zip(writes, checks, dynamic, strict=True):
            registers[w] = check(owned(value))

    t.emit(op, branch, (condition, *outs, *inner), writes)


class _Loop:
    """An `npu_task.loop`, translated."""

    def __init__(self, t: Translator, op: task.LoopOp) -> None:
        self.trip = None if op.trip is None else t.use(op.trip)
        self.condition = None if op.condition is None else t.use(op.condition)
        self.carried, self.inits, self.scans = (
            t.uses(op.carried),
            t.uses(op.inits),
            t.uses(op.scans),
        )
        self.static = [bool(v) for v in array_ints(op.order)]
        self.stacked = [bool(v) for v in array_ints(op.stacked)]
        iteration, going, *state = op.body.block.args
        self.iteration, self.going = t.define(iteration), t.define(going)
        static, self.state = iter(op.carried), list[int]()
        for arg, is_fixed in zip(state, self.static, strict=True):
            if is_fixed:
                t.alias(arg, next(static))
            else:
                self.state.append(t.define(arg))
        own = (self.iteration, self.going, *self.state)
        self.body, (self.next_going, *self.values) = t.block(op.body.block, own)
        inner = captured(t, self.body, op.body.block)
        self.scan_types = [r.type for r in op.results[self.static.count(False) :]]
        self.checks = [checker(r.type) for r in op.results]
        self.writes = tuple(t.define(r) for r in op.results)
        heads = [r for r in (self.trip, self.condition) if r is not None]
        self.reads = (*heads, *self.carried, *self.inits, *self.scans, *inner)

    def __call__(self, registers: Registers) -> None:
        limit = None if self.trip is None else int(registers[self.trip].item())
        holds = self.condition is None or is_true(registers[self.condition])
        fixed = [registers[r] for r in self.carried]
        moving = [registers[r] for r in self.inits]
        rows = [registers[r] for r in self.scans]
        slices: list[list[Array]] = [[] for _ in self.scan_types]
        i = 0
        while holds and (limit is None or i < limit):
            registers[self.iteration] = np.array(i, np.int64)
            registers[self.going] = np.array(holds)
            for r, value in zip(self.state, moving, strict=True):
                registers[r] = value
            self.body.run(registers)
            holds = is_true(registers[self.next_going])
            values = [registers[r] for r in self.values]
            self._collect(values[len(self.static) :], rows, slices, i)
            carried = list(zip(values, self.static, strict=False))
            moving = [owned(v) for v, s in carried if not s]
            copy_all(fixed, [v for v, s in carried if s])
            i += 1
        stacks = [stacked(s, t) for s, t in zip(slices, self.scan_types, strict=True)]
        for w, check, value in zip(self.writes, self.checks, (*moving, *stacks), strict=True):
            registers[w] = check(owned(value))

    def _collect(
        self, values: list[Array], rows: list[Array], slices: list[list[Array]], i: int
    ) -> None:
        fixed, moving = iter(rows), iter(slices)
        for value, is_fixed in zip(values, self.stacked, strict=True):
            if is_fixed:
                next(fixed)[i] = value
            else:
                next(moving).append(value.copy())


@translates(task.LoopOp)
def translate_loop(t: Translator, op: task.LoopOp) -> None:
    loop = _Loop(t, op)
    t.emit(op, loop, loop.reads, loop.writes)
