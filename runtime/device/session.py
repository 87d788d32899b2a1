"""Load a module once, run it many times: `Session(module, payload).run({"x": x})`.

The module may be at any level; all levels give the same numbers.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from ge.dialects.graph.ports import dims_of, name_of
from ge.dialects.graph.state import STATE, Typed, state_pairs
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.program_info import STREAMS
from ge.dialects.support.element_types import is_unsigned, type_name
from ge.dialects.support.environment import switch
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import functions
from ge.dialects.support.types import DYNAMIC, Shape, shape_text
from ge.dialects.targets import DEFAULT_TARGET
from ge.dialects.targets.target import Target
from ge.runtime.check.memory import require_safe
from ge.runtime.check.schedule import require_schedule
from ge.runtime.data.arrays import Array, dtype_of, kind_of, native
from ge.runtime.data.machine import machine_bytes
from ge.runtime.data.weights import Payload
from ge.runtime.device.function import Driver, Function
from ge.runtime.device.memory import loaded
from ge.runtime.device.state import DeviceState, HostState, State
from ge.runtime.profile.profiler import observe


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a module. `dims` are the symbolic names of its dimensions, "" where
    a dimension has none; dimensions of the same name have the same size. `state`: the output that
    an input is in the next run, "" for an input of the caller."""

    name: str
    element: Attribute
    shape: Shape
    dims: tuple[str, ...]
    state: str = ""

    def __str__(self) -> str:
        sizes = [
            (name or "?") if size == DYNAMIC else str(size)
            for size, name in zip(self.shape, self.dims, strict=True)
        ]
        return f"{self.name}: {type_name(self.element)}[{', '.join(sizes)}]"


def ports(
    types: Sequence[Attribute], attributes: ArrayAttr[DictionaryAttr] | None, default: str
) -> list[Port]:
    result: list[Port] = []
    for i, t in enumerate(types):
        table: Mapping[str, Attribute] = {} if attributes is None else attributes.data[i].data
        element, shape = data_type(t)
        name = name_of(table)
        text = f"{default}{i}" if name is None else name
        becomes = table.get(STATE)
        state = becomes.data if isinstance(becomes, StringAttr) else ""
        result.append(Port(text, element, shape, dims_of(table, len(shape)), state))
    return result


def main_of(module: ModuleOp) -> FuncOp:
    """The function that is run. Raises GeError when there is none."""
    by_name = functions(module)
    if "main" not in by_name:
        names = ", ".join(f"@{n}" for n in by_name) or "none"
        raise GeError("the module has no function @main", hint=f"its functions: {names}")
    return by_name["main"]


def input_ports(func: FuncOp) -> list[Port]:
    return ports(func.function_type.inputs.data, func.arg_attrs, "arg")


def output_ports(func: FuncOp) -> list[Port]:
    return ports(func.function_type.outputs.data, func.res_attrs, "result")


class Prepared:
    """A payload with what `@prepare` has computed from it."""

    def __init__(self, payload: Payload, module: ModuleOp) -> None:
        self.payload = payload
        self.path = getattr(payload, "path", None)
        self.arrays: dict[str, Array] = {}
        prepare = functions(module).get("prepare")
        if prepare is not None:
            values = Function(module, prepare, payload).run([])
            self.arrays = dict(zip((p.name for p in output_ports(prepare)), values, strict=True))

    def get(self, key: str, /) -> Array | None:
        return self.arrays[key] if key in self.arrays else self.payload.get(key)


class Session:
    """A loaded module. With `poison`, device memory that holds no live value is garbage, so that
    a wrong memory plan gives wrong numbers. With `sanitize`, the program's plan and schedule are
    proved first (`runtime/check`), and memory is poisoned; None: as GE_SANITIZE says. `state`:
    names of inputs (regular expressions) and of the outputs that they are in the next run; the
    session keeps them, as it keeps what the module says is state. Raises GeError when the module
    cannot be run, or is not safe."""

    def __init__(
        self,
        module: ModuleOp,
        payload: Payload | None = None,
        target: Target | str = DEFAULT_TARGET,
        poison: bool = False,
        sanitize: bool | None = None,
        state: Mapping[str, str] | None = None,
    ) -> None:
        main = main_of(module)
        planned = STREAMS in main.attributes
        if sanitize is None:
            sanitize = switch("GE_SANITIZE") and planned
        if sanitize and planned:  # before the program level there is no plan to be proved
            require_safe(module)
            require_schedule(module, with_races=False)  # which the plan's proof has looked for
        self.module = module
        self.target = Target.load(target) if isinstance(target, str) else target
        arguments, results = input_ports(main), output_ports(main)
        kept = host_states(arguments, results, state or {})
        self._arguments, self._results = [p.name for p in arguments], [p.name for p in results]
        self._kept = kept
        becomes = {s.result for s in kept}
        self.inputs = [p for p in arguments if all(p.name != s.name for s in kept)]
        self.outputs = [p for p in results if p.name not in becomes]
        for what, names in (("inputs", self.input_names), ("outputs", self.output_names)):
            if len(set(names)) < len(names):
                twice = next(n for n in names if names.count(n) > 1)
                raise GeError(f"two {what} are called '{twice}'", hint="give each its own name")
        self._weights: Payload = Prepared({} if payload is None else payload, module)
        self._function = Function(module, main, self._weights, poison or sanitize)
        self.state = State((*kept, *self._function.states))

    @property
    def input_names(self) -> list[str]:
        return [p.name for p in self.inputs]

    @property
    def output_names(self) -> list[str]:
        return [p.name for p in self.outputs]

    def run(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Array] | None = None,
        driver: Driver | None = None,
    ) -> dict[str, Array]:
        """The outputs by name, in arrays of `outputs` or new ones. A program that was compiled with
        `share_io` copies neither inputs nor outputs. A `driver` (a host, see `runtime/host`)
        decides when ops run. Raises GeError for missing, unknown or ill-typed arrays and for what
        fails while running."""
        arrays = check_inputs(self.inputs, inputs)
        places = None if outputs is None else check_outputs(self.outputs, outputs, arrays)
        self.state.require()
        start = time.perf_counter()
        results = self._call(self._function, arrays, places, driver)
        observe(self, time.perf_counter() - start)
        for kept in self._kept:
            kept.fill(results.pop(kept.result))
        self.state.advance()
        return results

    def _call(
        self,
        function: Function,
        inputs: Sequence[Array],
        places: Sequence[Array | None] | None = None,
        driver: Driver | None = None,
    ) -> dict[str, Array]:
        """Run a function on inputs and on the state that the session keeps."""
        values = dict(zip(self.input_names, inputs, strict=True))
        values |= {s.name: s.value for s in self._kept}
        given = dict(zip(self.output_names, places or (), strict=False))
        outputs = [given.get(name) for name in self._results] if places else None
        results = function.run([values[name] for name in self._arguments], outputs, driver)
        return dict(zip(self._results, results, strict=True))

    def fuzz_schedule(self, inputs: Mapping[str, Any], runs: int, seed: int = 0) -> None:
        """Run the program in so many random legal timings (see `interleave.py`). Raises GeError
        that names the run and the output when one is not bit-identical to that of `run`."""
        arrays = check_inputs(self.inputs, inputs)
        self.state.require()
        states = [loaded(s.memory).copy() for s in self._function.states]
        want = {name: w.tobytes() for name, w in self._call(self._function, arrays).items()}
        restore(self._function.states, states)
        timing = np.random.default_rng(seed)
        function = Function(self.module, main_of(self.module), self._weights, timing=timing)
        for number in range(runs):
            restore(function.states, states)
            for name, got in self._call(function, arrays).items():
                if got.tobytes() != want[name]:
                    raise GeError(
                        f"output '{name}' has other bits in random timing {number} of seed {seed}",
                        hint="--sanitize tells which tasks race",
                    )


def host_states(
    arguments: Sequence[Port], results: Sequence[Port], patterns: Mapping[str, str]
) -> list[HostState]:
    """The arguments that are state, as the module says, or by patterns."""
    typed = [[Typed(p.name, p.element, p.shape) for p in ports] for ports in (arguments, results)]
    pairs = state_pairs(patterns, typed[0], typed[1])
    pairs |= {p.name: p.state for p in arguments if p.state}
    shapes = {p.name: p.shape for p in results}
    return [
        HostState(p.name, p.element, p.shape, shapes[pairs[p.name]], pairs[p.name])
        for p in arguments
        if p.name in pairs
    ]


def restore(states: Sequence[DeviceState], arrays: Sequence[Array]) -> None:
    for state, array in zip(states, arrays, strict=True):
        state.restore(array)


# ---- inputs ----------------------------------------------------------------------------------


def check_inputs(expected: Sequence[Port], values: Mapping[str, Any]) -> list[Array]:
    """The inputs in order, contiguous. Raises GeError that names everything that is wrong."""
    problems: list[str] = []
    arrays: list[Array] = []
    sizes: dict[str, tuple[int, str]] = {}
    names = [p.name for p in expected]
    for name in values:
        if name not in names:
            near = get_close_matches(name, names, 1)
            hint = f" (did you mean '{near[0]}'?)" if near else ""
            problems.append(f"there is no input '{name}'{hint}")
    for port in expected:
        if port.name not in values:
            problems.append(f"input '{port.name}' is missing")
            continue
        array = native(values[port.name], dtype_of(port.element))
        if problem := _mismatch(port, array, sizes):
            problems.append(problem)
        arrays.append(array)
    if problems:
        listing = ", ".join(map(str, expected)) or "none"
        raise GeError("; ".join(problems), hint=f"expected inputs: {listing}")
    return arrays


def check_outputs(
    expected: Sequence[Port], outputs: Mapping[str, Array], inputs: Sequence[Array]
) -> list[Array | None]:
    """The arrays for outputs in order, None where none is given. Raises GeError for one that no
    output is called for, of another type or static shape, that cannot be written to as it lies, or
    that shares memory with an input or another output."""
    if unknown := [name for name in outputs if all(p.name != name for p in expected)]:
        listing = ", ".join(map(str, expected)) or "none"
        raise GeError(f"there is no output '{unknown[0]}'", hint=f"outputs: {listing}")
    arrays = [outputs.get(port.name) for port in expected]
    others = list(inputs)
    for port, array in zip(expected, arrays, strict=True):
        if array is None:
            continue
        if problem := _mismatch(port, array, {}):
            raise GeError(problem.replace("input", "output", 1))
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise GeError(f"the array for output '{port.name}' is not contiguous and writeable")
        if any(np.may_share_memory(array, other) for other in others):
            raise GeError(f"the array for output '{port.name}' shares memory with another one")
        others.append(array)
    return arrays


def _mismatch(port: Port, array: Array, sizes: dict[str, tuple[int, str]]) -> str | None:
    """What is wrong with an input. `sizes` holds the symbolic dimensions of the inputs before."""
    if array.dtype != dtype_of(port.element):
        return f"input '{port.name}' is {array.dtype}, not {dtype_of(port.element)}"
    declared = zip(array.shape, port.shape, strict=False)
    if array.ndim != len(port.shape) or any(d not in (DYNAMIC, size) for size, d in declared):
        want = str(port).removeprefix(f"{port.name}: ")
        return f"input '{port.name}' has shape {shape_text(array.shape)}, not {want}"
    for size, name in zip(array.shape, port.dims, strict=True):
        if name:
            known, where = sizes.setdefault(name, (size, port.name))
            if known != size:
                return (
                    f"dimension '{name}' is {size} in input '{port.name}', but {known} in '{where}'"
                )
    return None


def random_inputs(
    module: ModuleOp,
    seed: int = 0,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
) -> dict[str, Array]:
    """Seeded random inputs of the right types: standard normal floats, integers and truth values
    0 or 1 (so that they are valid indices). Unknown dimensions come from `shapes` (by input),
    from `dims` (by symbolic name), else they are 1. Raises GeError for what does not fit."""
    rng = np.random.default_rng(seed)
    expected = [p for p in input_ports(main_of(module)) if not p.state]
    sizes = dict(dims or {})
    for port in expected:
        for size, name in zip((shapes or {}).get(port.name, ()), port.dims, strict=False):
            if name:
                sizes.setdefault(name, size)
    arrays: dict[str, Array] = {}
    for port in expected:
        known = (shapes or {}).get(port.name)
        shape = known or [
            sizes.get(name, 1) if size == DYNAMIC else size
            for size, name in zip(port.shape, port.dims, strict=True)
        ]
        dtype = dtype_of(port.element)
        if prod(shape) * dtype.itemsize > machine_bytes():
            raise GeError(f"input {port} is larger than the memory of this machine")
        if kind_of(dtype) in "biu":
            arrays[port.name] = rng.integers(0, 2, shape).astype(dtype)
        else:
            values = rng.standard_normal(shape, np.float32)
            arrays[port.name] = (np.abs(values) if is_unsigned(port.element) else values).astype(
                dtype
            )
    check_inputs(expected, arrays)
    return arrays


def statistics(array: Array) -> dict[str, Any]:
    """Figures of an array for reports: dtype, shape, smallest, largest and mean finite element,
    and how many are nan or infinite, if any."""
    figures: dict[str, Any] = {"dtype": str(array.dtype), "shape": list(array.shape)}
    if (kind := kind_of(array.dtype)) in "biu":
        values = array if array.dtype.isbuiltin == 1 else array.astype(np.int64)
    else:
        values = array.astype(np.float64)
        if strange := int(values.size - np.isfinite(values).sum()):
            figures["not_finite"] = strange
            values = values[np.isfinite(values)]
    if values.size:
        number: Any = int if kind in "biu" else float
        figures |= {"min": number(values.min()), "max": number(values.max())}
        figures["mean"] = float(values.mean())
    return figures
