"""Arrays that stay in the memory of the emulated NPU, as inputs and outputs of sessions:
`Session.bind`.

    hidden = ge.DeviceArray((1, 64), np.float32)
    first = encoder.bind(outputs={"hidden": hidden})
    second = decoder.bind(inputs={"hidden": hidden})
    first.run({"x": x})
    y = second.run()["y"]          # hidden has crossed no link

The program's tasks that copy bound inputs and outputs do not run, nor does the clock count them.
Where such a task fills only a part of a slot, or copies a constant, it runs as before, on the
bound array.
"""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation

from ge.dialects.support.errors import GeError
from ge.dialects.support.types import is_static, shape_of, shape_text
from ge.runtime.data.arrays import Array
from ge.runtime.data.npz import require_memory
from ge.runtime.device.executable import Registers
from ge.runtime.device.ports import check_inputs, check_outputs, unknown_name
from ge.runtime.device.profiler import observe, timeline_of

if TYPE_CHECKING:
    from ge.runtime.device.session import Session


class DeviceArray:
    """Made once, bound to inputs and outputs of sessions (`Session.bind`), and read as numpy's
    where that is asked for.

    cache = ge.DeviceArray.of(np.zeros((1, 8, 64), np.float16))
    cache.numpy()          # a copy
    cache.write(array)     # of the same type and shape
    """

    def __init__(self, shape: Sequence[int], dtype: Any) -> None:
        """New memory, with arbitrary contents. Raises GeError for sizes below 0, an unknown type,
        and sizes that this machine has no memory for."""
        try:
            self.dtype = np.dtype(dtype)
        except TypeError:
            raise GeError(f"{dtype!r} is no type of elements") from None
        try:
            self.shape = tuple(map(index, shape))
        except TypeError:
            raise GeError(f"the shape of a device array is a tuple of sizes, not {shape}") from None
        if any(d < 0 for d in self.shape):
            raise GeError(f"a device array of shape {list(self.shape)}: sizes are at least 0")
        if self.dtype.hasobject:
            raise GeError(f"the device has no elements of type {self.dtype}")
        require_memory(prod(self.shape) * self.dtype.itemsize, "the device array")
        self.memory = np.empty(self.shape, self.dtype)

    @classmethod
    def of(cls, array: Any) -> "DeviceArray":
        """A copy of an array on the device."""
        values = _elements(array)
        new = cls(values.shape, values.dtype)
        new.write(values)
        return new

    def write(self, array: Any) -> None:
        """Copy an array to the device. Raises GeError for another type or shape."""
        values = _elements(array)
        if (values.dtype, values.shape) != (self.dtype, self.shape):
            given = f"{values.dtype}{shape_text(values.shape)}"
            raise GeError(f"{given} is written to the device array {self}")
        np.copyto(self.memory, values)

    def numpy(self) -> Array:
        """A copy of the elements."""
        return self.memory.copy()

    @property
    def nbytes(self) -> int:
        return self.memory.nbytes

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.memory.astype(self.dtype if dtype is None else dtype, copy=True)

    def __str__(self) -> str:
        return f"{self.dtype}{shape_text(self.shape)}"

    def __repr__(self) -> str:
        return f"DeviceArray({self})"


def _elements(array: Any) -> Array:
    try:
        return np.asarray(array)
    except ValueError as e:
        raise GeError(f"a device array cannot hold this: {e}") from None


class Binding:
    """A session with device arrays for some of its inputs and outputs."""

    rows = None  # no state of it grows

    def __init__(
        self,
        session: "Session",
        inputs: Mapping[str, DeviceArray],
        outputs: Mapping[str, DeviceArray],
    ) -> None:
        for what, given in (("inputs", inputs), ("outputs", outputs)):
            if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
                kind = type(given).__name__
                raise GeError(f"bound {what} are device arrays by name, not of type {kind}")
        self.session, self.inputs, self.outputs = session, dict(inputs), dict(outputs)
        self.module, self.target = session.module, session.target
        self.gears, self.module_at = session.gears, session.module_at
        self.input_names = session.input_names
        for what, arrays, ports in (
            ("input", self.inputs, session.inputs),
            ("output", self.outputs, session.outputs),
        ):
            for name, array in arrays.items():
                if problem := unknown_name(name, what, ports):
                    raise GeError(problem)
                if not isinstance(array, DeviceArray):  # pyright: ignore[reportUnnecessaryIsInstance]
                    hint = "ge.DeviceArray.of(array) copies it to the device"
                    raise GeError(f"{what} '{name}' is bound to no ge.DeviceArray", hint=hint)
        for port in session.outputs:
            if port.name in outputs and not is_static(port.shape):
                hint = "leave it to the program"
                raise GeError(f"the size of output '{port}' is known only when it runs", hint=hint)
        ports = [p for p in session.inputs if p.name in self.inputs]
        bound = check_inputs(ports, {n: a.memory for n, a in self.inputs.items()})
        check_outputs(session.outputs, {n: a.memory for n, a in self.outputs.items()}, bound)
        self._staged = staged = session.staged
        numbers = ((session.argument_number(name), name) for name in self.inputs)
        self._ins = {name: staged.inputs[i] for i, name in numbers if i in staged.inputs}
        numbers = ((session.result_number(name), name) for name in self.outputs)
        self._outs = {
            name: place for i, name in numbers if (place := staged.outputs.get(i)) and place.is_slot
        }
        copies = staged.steps(self._ins.values()), staged.steps(self._outs.values())
        _, self._code, _ = staged.function.code.stages(*copies)
        self.absent = frozenset[Operation](
            p.task for p in (*self._ins.values(), *self._outs.values())
        )

    def run(self, inputs: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The outputs by name: bound ones as the device arrays that they were bound to. `inputs`
        are those that are not bound. Raises GeError as `Session.run` does."""
        session, function = self.session, self._staged.function
        given = dict(inputs or {})
        if twice := next((n for n in given if n in self.inputs), None):
            raise GeError(f"input '{twice}' is bound", hint="write to its device array instead")
        given |= {n: a.memory for n, a in self.inputs.items()}
        arrays, cut = session.fitted(session.checked(given))
        if cut is not None:
            hint = "run the session itself: it pads inputs to a gear, and cuts outputs"
            raise GeError("what is bound to a program of gears has the sizes of one", hint=hint)
        memory = [
            None if a is None else a.memory for a in map(self.outputs.get, session.output_names)
        ]
        registers = function.registers(session.arguments(arrays), session.in_order(memory))
        for places in (self._staged.inputs, self._staged.outputs):
            for register, array in self._staged.memory(places).items():
                registers[register] = array
        for name, place in self._ins.items():
            view = self.inputs[name].memory.view()
            view.flags.writeable = False
            registers[function.register(place.value)] = view
        for name, place in self._outs.items():
            shaped = self.outputs[name].memory.reshape(shape_of(place.value))
            registers[function.register(place.value)] = shaped
        results: dict[str, Any] = {}
        start = time.perf_counter()
        session.step(partial(self._compute, results=results), registers)
        observe(self, time.perf_counter() - start, arrays, results)
        return {name: results[name] for name in session.output_names}

    def _compute(self, registers: Registers, results: dict[str, Any]) -> None:
        function, session = self._staged.function, self.session
        function.execute(registers, self._code)
        names = [name for name in session.output_names if name not in self._outs]
        numbers = [session.result_number(name) for name in names]
        bound = [a.memory for a in (*self.inputs.values(), *self.outputs.values())]
        results |= zip(names, function.results(registers, numbers, *bound), strict=True)
        for name, array in self.outputs.items():
            if name in results:
                np.copyto(array.memory, results[name])
            results[name] = array

    @property
    def latency_us(self) -> float:
        """The simulated time of a run, without the copies of bound inputs and outputs."""
        return timeline_of(self).latency_us
