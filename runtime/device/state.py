"""State that stays on the device from run to run: `session.state`.

    session.state["past"]               a copy of what the next run reads
    session.state["past"] = array       sets it
    session.state.reset()               zeros again, as when the session was made
    session.state.save("s.npz")         and .load("s.npz")

A program keeps state in a segment of its memory; of a module of tensors, where it is arguments and
results of the function, the session keeps the arrays. State that grows has rows along an axis that
hold values, and others that do not yet. In the layout `paged:N` they lie in blocks of N rows, which
`session.state.blocks` takes from those that are free as states grow: their rows are read and
written in order all the same.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from ge.dialects.graph.stated import Typed, likely_states, state_pairs
from ge.dialects.npu_task.attributes import GROWS, STATE, VALID, data_type
from ge.dialects.support.element_types import type_name
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import yielded
from ge.dialects.support.types import DYNAMIC, Shape, array_ints, shape_text
from ge.runtime.clock.timeline import DMA_IN, DMA_OUT, Timeline
from ge.runtime.data.arrays import Array, dtype_of, native
from ge.runtime.data.npz import read_npz, write_npz
from ge.runtime.device.memory import POISON, PackedView, loaded
from ge.runtime.device.ports import Port, input_ports, output_ports, typed


class BlockTable:
    """The places of blocks of rows, for all states that grow: `table` has the place of each block
    that is taken, in order, and -1 for others."""

    def __init__(self, count: int, rows: int) -> None:
        self.rows = rows  # of a block
        self.table = np.full(count, -1, np.int64)
        self._free = list(range(count))

    def __len__(self) -> int:
        return len(self.table)

    @property
    def taken(self) -> int:
        """Number of blocks that hold rows."""
        return len(self.table) - len(self._free)

    def take(self, rows: int) -> Array:
        """The table with blocks for so many rows."""
        while self.taken * self.rows < rows:
            place = self._free.pop()
            self.table[self.taken - 1] = place
        return self.table.copy()

    def fit(self, rows: int) -> None:
        """Free the blocks that so many rows do not need."""
        while (last := self.taken - 1) * self.rows >= rows and last >= 0:
            self._free.append(int(self.table[last]))
            self.table[last] = -1

    def places(self, rows: int) -> Array:
        """The places of the first rows."""
        numbers = np.arange(rows)
        return self.take(rows)[numbers // self.rows] * self.rows + numbers % self.rows


@dataclass
class StateValue(ABC):
    """One state. `reads`: the shape that a run reads; `becomes`: the shape that it leaves. Where it
    `grows` along an axis, runs append to it as long as there is room."""

    name: str
    element: Attribute
    reads: Shape
    becomes: Shape
    grows: int | None
    blocks: BlockTable | None = field(default=None, init=False)  # None: rows lie in order

    def part(self, shape: Shape) -> tuple[Any, ...]:
        """The index of a value of a shape within the whole."""
        where: list[Any] = [slice(n) for n in shape]
        if self.blocks is not None and self.grows is not None:
            where[self.grows] = self.blocks.places(shape[self.grows])
        return tuple(where)

    @property
    def axis(self) -> int | None:
        """The one along which it has fewer rows than it may."""
        pairs = enumerate(zip(self.reads, self.becomes, strict=True))
        return next((i for i, (a, b) in pairs if a != b), self.grows)

    @property
    def capacity(self) -> int:
        """The most rows."""
        return 0 if self.axis is None else self.becomes[self.axis]

    @property
    def rows(self) -> int:
        """Along the axis, that hold values."""
        return 0 if self.axis is None else self.shape()[self.axis]

    @abstractmethod
    def read(self) -> Array: ...

    @abstractmethod
    def fill(self, value: Array) -> None: ...

    @abstractmethod
    def shape(self) -> Shape:
        """Shape of its current value."""

    def write(self, value: Any) -> None:
        """Raises GeError for an array that is no value of the state."""
        array = native(value, dtype_of(self.element))
        most = self.becomes
        fits = array.ndim == len(most) and all(
            n == m or m == DYNAMIC or (i == self.axis and n <= m)
            for i, (n, m) in enumerate(zip(array.shape, most, strict=False))
        )
        if array.dtype != dtype_of(self.element) or not fits:
            given = f"{array.dtype} {shape_text(array.shape)}"
            want = f"{type_name(self.element)} {shape_text(self.reads)}"
            raise GeError(f"state '{self.name}' is {want}, not {given}")
        self.fill(array)

    def reset(self) -> None:
        empty = (i for i, n in enumerate(self.reads) if n == DYNAMIC or i == self.grows)
        sizes = [*self.reads]
        for i in empty:
            sizes[i] = 0
        self.fill(np.zeros(sizes, dtype_of(self.element)))

    def require(self, step: int) -> None:
        """Raises GeError if a run cannot read the state, or append `step` rows."""
        shape = self.shape()
        if self.grows is not None:
            if self.rows + step > (most := self.capacity):
                text = f"state '{self.name}' has {self.rows} of {most} rows, each run adds {step}"
                raise GeError(text, hint="reset it, or compile with a larger --state-capacity")
            return
        pairs = zip(shape, self.reads, strict=True)
        if any(n not in (m, DYNAMIC) and m != DYNAMIC for n, m in pairs):
            have = shape_text(shape)
            want = shape_text(self.reads)
            hint = "reset the state, or write to it what the next run is to read"
            raise GeError(f"state '{self.name}' has {have}, and the program reads {want}",
                          hint=hint)  # fmt: skip

    @abstractmethod
    def advance(self, step: int) -> None:
        """Note a run, which appended so many rows to states that grow."""


@dataclass
class DeviceState(StateValue):
    """State in the memory of the device."""

    memory: Array | PackedView
    poison: bool = False
    filled: int = 0  # rows along the axis, that hold values

    @classmethod
    def of(cls, op: Operation, memory: Array | PackedView, poison: bool) -> "DeviceState":
        """The state of a slot or an allocation."""
        name, valid = op.attributes[STATE], op.attributes.get(VALID)
        element, shape = data_type(op.results[0].type)
        reads = shape if valid is None else array_ints(valid)
        axis = op.attributes.get(GROWS)
        grows = axis.value.data if isinstance(axis, IntegerAttr) else None
        text = name.data if isinstance(name, StringAttr) else ""
        state = cls(text, element, reads, shape, grows, memory, poison)
        state.reset()
        return state

    def shape(self) -> Shape:
        axis = self.axis
        return tuple(self.filled if i == axis else n for i, n in enumerate(self.becomes))

    def read(self) -> Array:
        return loaded(self.memory)[self.part(self.shape())].copy()

    def fill(self, value: Array) -> None:
        whole = np.zeros(self.becomes, value.dtype)
        if self.poison:
            whole.reshape(-1).view(np.uint8).fill(POISON)
        whole[self.part(value.shape)] = value
        self.restore(whole)
        self.filled = 0 if self.axis is None else value.shape[self.axis]

    def advance(self, step: int) -> None:
        if self.grows is not None:
            self.filled += step
        elif self.axis is not None:
            self.filled = self.capacity

    def snapshot(self) -> Array:
        """All of the memory."""
        return loaded(self.memory).copy()

    def restore(self, whole: Array) -> None:
        """Fill all of the memory."""
        if isinstance(self.memory, PackedView):
            self.memory.store(whole)
        else:
            np.copyto(self.memory, whole)


@dataclass
class HostState(StateValue):
    """State of a module of tensors: an argument that is the last run's result."""

    result: str = ""
    value: Array = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        self.reset()

    def shape(self) -> Shape:
        return self.value.shape

    def read(self) -> Array:
        return self.value.copy()

    def fill(self, value: Array) -> None:
        self.value = value.copy()

    def advance(self, step: int) -> None:
        pass  # the session fills it with the result

    def argument(self) -> Array:
        """The array that the function reads."""
        if self.grows is None:
            return self.value
        whole = np.zeros(self.reads, self.value.dtype)
        whole[self.part(self.value.shape)] = self.value
        return whole

    def take(self, result: Array, step: int) -> None:
        """Store the result that the function has computed for it."""
        if self.grows is None:
            self.fill(result)
        else:
            shape = list(self.value.shape)
            shape[self.grows] += step
            self.fill(result[self.part(tuple(shape))])


def host_states(
    arguments: Sequence[Port],
    results: Sequence[Port],
    patterns: Mapping[str, str],
    symbol: str = "",
) -> list[HostState]:
    """The arguments that are state, as the module says, or by patterns."""
    typed = [[Typed(p.name, p.element, p.shape) for p in ports] for ports in (arguments, results)]
    pairs = state_pairs(patterns, typed[0], typed[1])
    pairs |= {p.name: p.state for p in arguments if p.state}
    shapes = {p.name: p.shape for p in results}
    states: list[HostState] = []
    for port in arguments:
        if (becomes := pairs.get(port.name)) is not None:
            grows = port.dims.index(symbol) if symbol and symbol in port.dims else None
            after = shapes[becomes]
            states.append(HostState(port.name, port.element, port.shape, after, grows, becomes))
    return states


class State:
    """The states of a session by name. `blocks`: where rows of those that grow lie. Raises GeError
    for a table that is not one of all rows."""

    def __init__(self, values: Iterable[StateValue], blocks: BlockTable | None = None) -> None:
        self.values = {v.name: v for v in values}
        self.blocks = blocks
        for value in self.grown:
            value.blocks = blocks
            if blocks is not None and len(blocks) * blocks.rows != value.capacity:
                text = f"{len(blocks)} blocks of {blocks.rows} rows are not the {value.capacity}"
                raise GeError(f"{text} of state '{value.name}'", hint="compile the model again")

    @property
    def grown(self) -> list[StateValue]:
        return [v for v in self.values.values() if v.grows is not None]

    def free_blocks(self) -> None:
        """Free the blocks that no state needs any more."""
        if self.blocks is not None:
            self.blocks.fit(max((v.rows for v in self.grown), default=0))

    @property
    def names(self) -> list[str]:
        return list(self.values)

    def value(self, name: str) -> StateValue:
        """Raises GeError for a name that no state has."""
        if name not in self.values:
            near = get_close_matches(str(name), self.names, 1)
            names = ", ".join(self.names) or "none"
            hint = f"did you mean '{near[0]}'?" if near else f"states: {names}"
            raise GeError(f"there is no state '{name}'", hint=hint)
        return self.values[name]

    def __getitem__(self, name: str) -> Array:
        return self.value(name).read()

    def __setitem__(self, name: str, value: Any) -> None:
        self.value(name).write(value)
        self.free_blocks()

    def __len__(self) -> int:
        return len(self.values)

    def reset(self) -> None:
        """Set all states to zeros; those that grow begin anew."""
        for value in self.values.values():
            value.reset()
        self.free_blocks()

    def save(self, path: str | Path) -> None:
        """Raises GeError for a file that cannot be written."""
        try:
            with open(path, "wb") as file:
                write_npz(file, {name: self[name] for name in self.names})
        except OSError as e:
            raise GeError(f"cannot write '{path}': {e.strerror}") from None

    def load(self, path: str | Path) -> None:
        """Raises GeError for a file that does not have each state."""
        arrays = read_npz(path, self.names)
        if missing := [name for name in self.names if name not in arrays]:
            raise GeError(f"'{path}' has no state '{missing[0]}'")
        self.write(arrays)

    def write(self, arrays: Mapping[str, Any]) -> None:
        """Write all of these states, or none if one does not fit."""
        before = {name: self[name] for name in arrays}
        try:
            for name, array in arrays.items():
                self[name] = array
        except GeError:
            for name, array in before.items():
                self[name] = array
            raise

    @property
    def is_full_after_a_run(self) -> bool:
        """True if the next run reads less than the last one left."""
        return any(v.grows is None and v.axis is not None for v in self.values.values())

    def rows(self) -> int:
        """Number of rows of states that grow. Raises GeError if they differ."""
        grown = self.grown
        for value in grown[1:]:
            if value.rows != grown[0].rows:
                pair = f"'{grown[0].name}' has {grown[0].rows} rows, '{value.name}' {value.rows}"
                raise GeError(f"states grow together: {pair}", hint="write or reset all of them")
        return grown[0].rows if grown else 0

    def require(self, step: int) -> None:
        for value in self.values.values():
            value.require(step)

    def advance(self, step: int) -> None:
        for value in self.values.values():
            value.advance(step)


def padded(value: Array, shape: Shape) -> Array:
    """A value, then zeros."""
    if value.shape == shape:
        return value
    whole = np.zeros(shape, value.dtype)
    whole[tuple(map(slice, value.shape))] = value
    return whole


@dataclass(frozen=True, slots=True)
class StateProposal:
    """Inputs that look like state, and the time that their copies keep the link busy one way."""

    inputs: int
    copies_us: float
    latency_us: float
    patterns: tuple[str, ...]
    machine: str  # which, and where the times come from

    def __str__(self) -> str:
        copies, latency = self.copies_us / 1000, self.latency_us / 1000
        option = f"--state '{','.join(self.patterns)}'"
        return (
            f"{self.inputs} inputs look like state: {copies:,.1f} of {latency:,.1f} ms on "
            f"{self.machine}, are their copies ({option} keeps them on the device)"
        )


def propose_state(main: FuncOp, timeline: Timeline) -> StateProposal | None:
    """Propose state for a program; None if no input looks like state."""
    inputs, outputs = input_ports(main), output_ports(main)
    found = likely_states(typed(inputs), typed(outputs))
    if not found:
        return None
    pairs = [pair for group in found.values() for pair in group]
    names = [[p.name for p in ports] for ports in (inputs, outputs)]
    arguments = {main.args[names[0].index(i)] for i, _ in pairs}
    results = {yielded(main.body.block)[names[1].index(o)] for _, o in pairs}
    busy = dict.fromkeys((DMA_IN, DMA_OUT), 0.0)
    for task in timeline.tasks:
        values: set[object] = set(ends(task.op))
        if task.engine in busy and not values.isdisjoint(arguments | results):
            busy[task.engine] += task.duration_us
    if not (copies := max(busy.values())):
        return None
    return StateProposal(len(pairs), copies, timeline.latency_us, tuple(found), timeline.machine)


def ends(op: Operation) -> list[object]:
    return [*op.operands, *op.results]
