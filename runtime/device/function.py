"""A function of a module, ready to run: its code, its constants in place, its device memory.

A program may run in three stages (`Staged`): what copies its inputs to the device, what computes,
and what copies its outputs back. Each run brings its own memory for inputs and outputs, so the
stages of different runs may overlap: the next inputs arrive, and the last outputs leave, while the
device computes. What computes uses the memory of the device, and is alone there."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import Operation, SSAValue

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.memory import Place, input_places, output_places, owner_of
from ge.dialects.npu_task.ops import KernelOp, LaunchOp, SlotOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.data.weights import Payload
from ge.runtime.device.executable import Code, Registers
from ge.runtime.device.interleave import random_order
from ge.runtime.device.interpreter import CodeOf, Translator
from ge.runtime.device.memory import (
    KEPT,
    POISON,
    Device,
    SegmentRange,
    SlotUse,
    dead_after,
    extent_of,
    loaded,
)
from ge.runtime.device.program_ops import bound_outputs

Driver: TypeAlias = Callable[[Callable[[Operation | None], None]], None]
Watch: TypeAlias = Callable[[Operation, Sequence[Array]], None]


class Function:
    """Translated once when made, then run many times. With `poison`, device memory that holds no
    live value is garbage. With `timing`, each run has another random legal timing (and memory is
    garbage at the start only). `bound`: slots whose memory is no part of the device's, but comes
    with each run. `code_of` makes what runs a kernel (default: its body). Raises GeError when an op
    cannot be run or a weight is missing."""

    def __init__(
        self,
        module: ModuleOp,
        func: FuncOp,
        payload: Payload,
        poison: bool = False,
        bound: Iterable[SSAValue] = (),
        device: Device | None = None,
        timing: np.random.Generator | None = None,
        code_of: CodeOf | None = None,
    ) -> None:
        if len(func.body.blocks) != 1:
            raise GeError(f"@{func.sym_name.data} has no body of one block")
        block = func.body.block
        self.timing = timing
        self.device = device or Device.of(func, poison or timing is not None)
        symbols = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
        self._translator = Translator(payload, self.device, symbols, code_of)
        self._outputs = bound_outputs(block)
        self._translator.bound = {*self._outputs, *bound}
        self._arguments = [self._translator.define(a) for a in block.args]
        self.code, self._results = self._translator.block(block)
        self._template = self._translator.template
        self.states = self._translator.states
        if poison and timing is None:  # when a last use is over depends on the timing
            self._poison(func)

    def run(
        self,
        arguments: Sequence[Array],
        outputs: Sequence[Array | None] | None = None,
        driver: Driver | None = None,
        watch: Watch | None = None,
    ) -> list[Array]:
        """The results, in arrays of `outputs` (contiguous, of the right types) or new ones.
        Arguments are not written to. A `driver` is given a function that runs the ops up to one,
        and calls it when it wants them to run; `watch` each launch or op on tensors that has run,
        but for those in branches and loops, and the arrays that it has written."""
        registers = self.registers(arguments, outputs)
        if watch is not None and driver is None:
            driver = self._watching(registers, watch)
        self.execute(registers, driver=driver)
        return put_into(outputs, self.results(registers))

    def _watching(self, registers: Registers, watch: Watch) -> Driver:
        """Run the ops one after the other, and show the arrays that each has written."""

        def drive(run_until: Callable[[Operation | None], None]) -> None:
            for op in dict.fromkeys(i.op for i in self.code.instructions):
                run_until(op)
                if not isinstance(op, LaunchOp | TensorOp) or op.regions:
                    continue
                values = op.outs if isinstance(op, LaunchOp) and op.on_buffers else op.results
                arrays = [registers[self.register(v)] for v in values]
                watch(op, [loaded(a) for a in arrays if a is not None])

        return drive

    def register(self, value: SSAValue) -> int:
        return self._translator.use(value)

    def result_register(self, number: int) -> int:
        return self._results[number]

    def registers(
        self, arguments: Sequence[Array], outputs: Sequence[Array | None] | None = None
    ) -> Registers:
        """The registers before the first step."""
        registers = self._template.copy()
        for slot, index in self._outputs.items():
            output = None if outputs is None else outputs[index]
            registers[self.register(slot)] = self.memory(slot, output)
        for number, array in enumerate(arguments):
            self.set_argument(registers, number, array)
        return registers

    def set_argument(self, registers: Registers, number: int, array: Array) -> None:
        registers[self._arguments[number]] = view = array.view()
        view.flags.writeable = False

    def execute(
        self, registers: Registers, code: Code | None = None, driver: Driver | None = None
    ) -> None:
        """Run all steps, or those of a part of the code."""
        if self.device.poison:
            self.device.poison_all()
        if self.timing is not None:
            for part in self._translator.codes:
                part.order = random_order(part, self.timing)
        with np.errstate(all="ignore"):
            if driver is None:
                (code or self.code).run(registers)
            else:
                run_until = self.code.stepper(registers)
                driver(run_until)
                run_until(None)

    def results(
        self, registers: Registers, numbers: Iterable[int] | None = None, *others: Array
    ) -> list[Array]:
        """The results, or those with these numbers, in memory of their own, which is none of the
        device's nor of `others`."""
        owners = {*map(id, self.device.pools.values()), *(id(_owner(a)) for a in others)}
        results: list[Array] = []
        chosen = self._results if numbers is None else [self._results[n] for n in numbers]
        for array in (loaded(registers[r]) for r in chosen):
            owner = id(_owner(array))
            # constants and arguments are read-only; a result must not share memory with another
            shared = not array.flags.writeable or owner in owners
            results.append(array.copy() if shared else array)
            owners.add(owner)
        return results

    def memory(self, slot: SSAValue, output: Array | None = None) -> Array:
        """The array that a slot stands for in a run: the caller's, or a new one."""
        element, shape = data_type(slot.type)
        array = np.empty(shape, dtype_of(element)) if output is None else output.reshape(shape)
        if self.device.poison:
            array.reshape(-1).view(np.uint8).fill(POISON)
        return array

    def _poison(self, func: FuncOp) -> None:
        slots: dict[int, SlotOp] = {}
        for op in func.walk():
            if isinstance(op, SlotOp):
                if op.segment.data != KEPT:
                    slots[self._translator.use(op.result)] = op
            elif isinstance(op, ReinterpretCastOp):
                origin = owner_of(op.source).owner
                if isinstance(origin, SlotOp) and origin.segment.data != KEPT:
                    slots[self._translator.use(op.result)] = origin
        touched = [(*i.reads, *i.writes) for i in self.code.instructions]
        spans: dict[SlotOp, tuple[int, int]] = {}
        for i, registers in enumerate([*touched, self._results]):
            for slot in (slots[r] for r in registers if r in slots):
                first, _ = spans.get(slot, (i, i))
                spans[slot] = first, i
        lifetimes = [SlotUse(extent_of(slot), *span) for slot, span in spans.items()]
        for i, extents in dead_after(lifetimes).items():
            if i < len(touched):
                self.code.after(i, self._filler(extents))

    def _filler(self, extents: Sequence[SegmentRange]) -> Callable[[], None]:
        views = [self.device.bytes(e) for e in extents]

        def fill() -> None:
            for view in views:
                view.fill(POISON)

        return fill


def put_into(outputs: Sequence[Array | None] | None, results: Sequence[Array]) -> list[Array]:
    """The results, in the arrays that are given for them."""
    own = list(results)
    for i, out in enumerate(outputs or ()):
        if out is not None:
            np.copyto(out, own[i])  # nothing where it is that memory
            own[i] = out
    return own


def _owner(array: Array) -> object:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


Memory: TypeAlias = Mapping[int, Array]  # register of a slot -> its memory


class Staged:
    """The stages of a function, which shares a device with others."""

    def __init__(
        self,
        module: ModuleOp,
        func: FuncOp,
        payload: Payload,
        device: Device,
        arguments: Collection[int] = (),
        results: Collection[int] = (),
        code_of: CodeOf | None = None,
    ) -> None:
        """`arguments` and `results` with these numbers are copied when it computes."""
        block = func.body.block
        self.inputs = {i: p for i, p in input_places(block).items() if i not in arguments}
        self.outputs = {i: p for i, p in output_places(block).items() if i not in results}
        places = (*self.inputs.values(), *self.outputs.values())
        own = [p.value for p in places]  # no memory of the device's, which runs share
        self.function = Function(module, func, payload, device.poison, own, device, code_of=code_of)
        first, last = self.steps(self.inputs.values()), self.steps(self.outputs.values())
        self._load, self._compute, self._unload = self.function.code.stages(first, last)
        count = len(func.function_type.outputs.data)
        self._computed = [i for i in range(count) if i not in self.outputs]

    def steps(self, places: Iterable[Place]) -> set[int]:
        """The numbers of the instructions that copy these inputs or outputs."""
        copies = {(p.task, self.function.register(p.source)) for p in places}
        return {
            i
            for i, step in enumerate(self.function.code.instructions)
            if any((step.op, r) in copies for r in step.reads)
        }

    def memory(self, places: Mapping[int, Place]) -> dict[int, Array]:
        """New memory for the slots among some places."""
        slots = (p.value for p in places.values() if p.is_slot)
        return {self.function.register(slot): self.function.memory(slot) for slot in slots}

    def load(self, arguments: Sequence[Array], memory: Memory) -> Registers:
        """Copy the inputs to the device."""
        registers = self.function.registers(arguments)
        self._place(registers, memory)
        self._load.run(registers)
        return registers

    def compute(self, registers: Registers, memory: Memory) -> None:
        """Compute the outputs on the device. `memory` is that of their slots."""
        self._place(registers, memory)
        self.function.execute(registers, self._compute)
        results = self.function.results(registers, self._computed)
        for i, array in zip(self._computed, results, strict=True):
            registers[self.function.result_register(i)] = array

    def unload(self, registers: Registers, memory: Memory) -> list[Array]:
        """Copy the outputs back: all outputs, in order."""
        with np.errstate(all="ignore"):
            self._unload.run(registers)
        return self.function.results(registers, None, *memory.values())

    def _place(self, registers: Registers, memory: Memory) -> None:
        for register, array in memory.items():
            if self.function.device.poison:
                array.reshape(-1).view(np.uint8).fill(POISON)
            registers[register] = array
