"""The inputs and outputs that a module states, and whether arrays fit them.
Inputs of other element types than the model's: floats become its floats (f64 and f32 become f16,
rounded once), integers its integers (i32 becomes i64). What would lose its range is refused.
What random numbers follow from is an argument that the session gives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from ge.dialects.graph.sharding import whole_shape
from ge.dialects.graph.stated import (
    BLOCK,
    SEED,
    STATE,
    STEP,
    Typed,
    dims_of,
    growing_symbol,
    name_of,
    steps_beyond,
)
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.dims import expression, value_of
from ge.dialects.support.element_types import type_name
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import DYNAMIC, Shape, shape_text
from ge.runtime.data.arrays import Array, dtype_of, integer_limits, kind_of, native


def converted(array: Array, dtype: np.dtype[Any], name: str) -> Array:
    """The input as an array of a type, itself where it has that already, or where the type is none
    that it could be converted to. Raises GeError for an element that the type does not hold."""
    kinds = kind_of(array.dtype), kind_of(dtype)
    if array.dtype == dtype or not array.size:
        return array if array.dtype == dtype or not _convertible(*kinds) else array.astype(dtype)
    if not _convertible(*kinds):
        return array
    if kinds[1] in "iu":
        limits = integer_limits(dtype)
        outside = _first(array, (array < int(limits.min)) | (array > int(limits.max)))
        new = array
    else:
        with np.errstate(all="ignore"):
            new = array.astype(dtype)
        rounded = np.isfinite(new)
        outside = None if rounded.all() else _first(array, np.isfinite(array) & ~rounded)
    if outside is not None:
        hint = f"scale the input, or compile the model for {array.dtype}"
        raise GeError(f"input '{name}' has {outside}, which {dtype} does not hold", hint=hint)
    return new.astype(dtype, copy=False)


def _convertible(kind: str, other: str) -> bool:
    return (kind == "f" and other == "f") or (kind in "iu" and other in "iu")


def _first(array: Array, chosen: Array) -> Any:
    where = np.flatnonzero(chosen)
    return array.reshape(-1)[where[0]].item() if where.size else None


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a module. `dims` are the symbolic names of its dimensions, "" where
    a dimension has none; dimensions of the same name have the same size. `state`: the output that
    an input is in the next run, "" for an input of the caller. `padded`: the shape that the program
    has for one that grows with a state, () for others. `step`: of the number of rows of states that
    grow, how many of them a run appends. `block`: of a table of blocks, the rows of each. `seed`:
    whether it is what random numbers follow from."""

    name: str
    element: Attribute
    shape: Shape
    dims: tuple[str, ...]
    state: str = ""
    padded: Shape = ()
    step: int = 0
    block: int = 0
    seed: bool = False

    @property
    def is_known(self) -> bool:
        """True if the session knows it, by what states hold or of itself."""
        return bool(self.step or self.block or self.seed)

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
        element, local = data_type(t)
        shape = whole_shape(table, local)  # of a program of one device, callers have wholes
        name = name_of(table)
        text = f"{default}{i}" if name is None else name
        becomes, dims = table.get(STATE), dims_of(table, len(shape))
        state = becomes.data if isinstance(becomes, StringAttr) else ""
        counts = [
            n.value.data if isinstance(n := table.get(of), IntegerAttr) else 0
            for of in (STEP, BLOCK)
        ]
        result.append(Port(text, element, shape, dims, state, (), *counts, seed=SEED in table))
    return result


def input_ports(func: FuncOp) -> list[Port]:
    found = ports(func.function_type.inputs.data, func.arg_attrs, "arg")
    symbol = growing_symbol(func)
    return found if symbol is None else [opened(port, symbol) for port in found]


def typed(found: Sequence[Port]) -> list[Typed]:
    """The ports that are no state yet."""
    return [Typed(p.name, p.element, p.shape) for p in found if not p.state]


def opened(port: Port, symbol: str) -> Port:
    """An input with the dimensions that grow with a state as unknown ones."""
    grown = [steps_beyond(name, symbol) is not None for name in port.dims]
    if port.state or not any(grown):
        return port
    sizes = zip(grown, port.shape, strict=True)
    shape = tuple(DYNAMIC if g else n for g, n in sizes)
    return replace(port, shape=shape, padded=port.shape)


def with_rows(port: Port, symbol: str, rows: int) -> Port:
    """An input with its size for so many rows of the states."""
    beyond = [steps_beyond(name, symbol) if port.padded else None for name in port.dims]
    sizes = zip(beyond, port.shape, strict=True)
    return replace(port, shape=tuple(n if b is None else rows + b for b, n in sizes))


def caller_ports(func: FuncOp) -> list[Port]:
    """The inputs except state, and except those that the session knows."""
    return [p for p in input_ports(func) if not p.state and not p.is_known]


def output_ports(func: FuncOp) -> list[Port]:
    return ports(func.function_type.outputs.data, func.res_attrs, "result")


def unknown_name(name: str, what: str, expected: Sequence[Port]) -> str | None:
    """The error in the name of an input or output; None if the name is known."""
    if any(p.name == name for p in expected):
        return None
    near = get_close_matches(name, [p.name for p in expected], 1)
    hint = f" (did you mean '{near[0]}'?)" if near else ""
    return f"there is no {what} '{name}'{hint}"


def check_inputs(
    expected: Sequence[Port], values: Mapping[str, Any], cast: bool = False
) -> list[Array]:
    """The inputs in order, contiguous. With `cast`, floats are converted to floats and integers to
    integers. Raises GeError that names everything that is wrong."""
    if not isinstance(values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise GeError(f"inputs are arrays by name, not of type {type(values).__name__}")
    problems = [p for name in values if (p := unknown_name(name, "input", expected))]
    arrays: list[Array] = []
    sizes: dict[str, tuple[int, str]] = {}
    for port in expected:
        if port.name not in values:
            problems.append(f"input '{port.name}' is missing")
            continue
        array = native(values[port.name], dtype_of(port.element))
        if cast:
            array = converted(array, dtype_of(port.element), port.name)
        if problem := _mismatch(port, array, sizes):
            problems.append(problem)
        arrays.append(array)
    known = {name: size for name, (size, _) in sizes.items()}
    for name, (size, where) in sizes.items() if not problems else ():
        if expression(name) and (value := value_of(name, known)) not in (None, size):
            problems.append(
                f"dimension '{name}' is {size} in input '{where}', and is to be {value}"
            )
    if problems:
        listing = ", ".join(map(str, expected)) or "none"
        raise GeError("; ".join(problems), hint=f"expected inputs: {listing}")
    return arrays


def check_shape(expected: Sequence[Port], name: str, shape: Shape) -> None:
    """Raises GeError for an array of another shape than the input of that name."""
    for port in expected:
        array = np.broadcast_to(np.zeros((), dtype_of(port.element)), shape)  # takes no memory
        if port.name == name and (problem := _mismatch(port, array, {})):
            raise GeError(problem, hint=f"expected inputs: {', '.join(map(str, expected))}")


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
    """The error in an input; None if there is none. `sizes` holds the symbolic dimensions of the
    inputs before."""
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


@dataclass
class RunSeed:
    """`session.seed`: its own number, and that of the next run, from 0 on; setting `run` repeats
    the numbers of that run. `names`: the arguments that are both."""

    number: int
    run: int = 0
    names: Sequence[str] = ()

    @classmethod
    def of(cls, seed: "int | RunSeed", arguments: Sequence[Port]) -> "RunSeed":
        """The seed of a session with these arguments of @main. Raises GeError for one that is no
        integer of 64 bits, and for arguments of another type."""
        names = [p.name for p in arguments if p.seed]
        for port in arguments:
            if port.seed and (port.element, port.shape) != (i64, (2,)):
                raise GeError(f"'{port}' is marked as the seed, which is int64[2]")
        if isinstance(seed, RunSeed):
            return seed
        if type(seed) is not int or not -(1 << 63) <= seed < 1 << 63:
            raise GeError(f"the seed is an integer of 64 bits, not {seed!r}")
        return cls(seed, 0, names)

    def arguments(self) -> dict[str, Array]:
        """The arguments for the next run, int64 [2] each."""
        value = np.array([self.number, self.run], np.int64)
        self.run += 1
        return dict.fromkeys(self.names, value)


def batch_of(module: ModuleOp) -> str:
    """Return the symbolic dimension that counts samples: the first one of all inputs whose
    dimensions have names, and no other one; empty if there is none."""
    main = main_function(module)
    if main is None:
        return ""
    inputs, outputs = input_ports(main), output_ports(main)
    first = {p.dims[0] for p in inputs if any(p.dims)}
    name = first.pop() if len(first) == 1 else ""
    return "" if any(name in p.dims[1:] for p in (*inputs, *outputs)) else name
