"""A program in three stages: what copies its inputs to the device, what computes, and what copies
its outputs back. Each run brings its own memory for inputs and outputs, so the stages of different
runs may overlap: the next inputs arrive, and the last outputs leave, while the device computes.
What computes uses the memory of the device, and is alone there.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from ge.dialects.npu_task.places import Place, input_places, output_places
from ge.runtime.data.arrays import Array
from ge.runtime.data.weights import Payload
from ge.runtime.device.executable import Registers
from ge.runtime.device.function import Function
from ge.runtime.device.interpreter import CodeOf
from ge.runtime.device.memory import POISON, Device

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
