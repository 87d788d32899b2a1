"""Contents of a core: bytes by memory, and tiles in fifos.

All bytes are 0xff before they are written (nan for floats), so that what reads too early shows.
Integers are -1 then, which is a number like others: of them only the proof tells.
Elements lie row by row; the cube's own order of blocks is not modelled.
Memrefs of a kernel are arguments of a run, with names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.ir import SSAValue

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.element_types import elements_per_byte, storage_bytes
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import byte_size
from ge.dialects.tile.buffers import FifoOp, row_stride
from ge.dialects.tile.kernel import KernelOp, MemrefUses
from ge.dialects.tile.types import Memory, Shaped, fifo_type, tile_type
from ge.runtime.data.arrays import Array, dtype_of, unpacked
from ge.runtime.data.npz import WITHOUT_MEMORY, require_memory

POISON = 0xFF
TileAt = Callable[[int], Array]  # offset in the memory -> the elements
Kept = tuple[dict[Memory, Array], dict[SSAValue, tuple[Array, int, int]]]


class CoreMemory:
    """The memories of a cube core and a vector core, used for one core after the other. Of several
    vector cores `beside` one cube core each has its own UB, and its part of the fifos."""

    def __init__(
        self,
        sizes: Mapping[str, int],
        fifos: list[FifoOp],
        parts: int = 1,
        part: int = 0,
        beside: "CoreMemory | None" = None,
    ) -> None:
        self.part, self.parts = part, parts
        kinds = Memory if beside is None else (Memory.UB,)
        self.own = {m: np.empty(sizes[m], np.uint8) for m in kinds}
        self.pools = self.own if beside is None else beside.pools | self.own
        self.fifos: dict[SSAValue, Fifo] = {f.result: Fifo(f, parts) for f in fifos}
        self.reset()

    def reset(self) -> None:
        for pool in self.own.values():
            pool.fill(POISON)
        for fifo in self.fifos.values():
            fifo.reset()

    def kept(self) -> "Kept":
        """A copy of all that it holds."""
        pools = {m: pool.copy() for m, pool in self.own.items()}
        return pools, {f: fifo.kept() for f, fifo in self.fifos.items()}

    def restore(self, kept: "Kept") -> None:
        pools, fifos = kept
        for memory, pool in pools.items():
            self.own[memory][...] = pool
        for fifo, state in fifos.items():
            self.fifos[fifo].restore(*state)

    def end(self, value: SSAValue) -> TileAt:
        """The part of a tile that passes the fifos of this vector core."""
        tile, shape = self.tile(value), tile_type(value).shape
        if tile_type(value).space is Memory.UB or self.parts == 1:
            return tile
        rows = shape[0] // self.parts
        return lambda offset: tile(offset)[self.part * rows : (self.part + 1) * rows]

    def elements(self, value: SSAValue) -> TileAt:
        """The elements of a tile, by its offset, to be read only."""
        t = tile_type(value)
        if elements_per_byte(t.element) == 1:
            return self.tile(value)
        dtype, rows = dtype_of(t.element), self.rows(value)
        return lambda offset: unpacked(rows(offset), dtype, t.cols.data)

    def rows(self, value: SSAValue) -> TileAt:
        """The bytes of each row of a tile, by its offset."""
        t, pool = tile_type(value), self.pools[tile_type(value).space]
        stride = storage_bytes(row_stride(value), t.element)
        shape = t.rows.data, storage_bytes(t.cols.data, t.element)
        return lambda offset: np.ndarray(shape, np.uint8, pool.data, offset, (stride, 1))

    def tile(self, value: SSAValue) -> TileAt:
        """The elements of a tile, by its offset, in their place."""
        t = tile_type(value)
        dtype = dtype_of(_unpacked(t).element)
        strides = row_stride(value) * dtype.itemsize, dtype.itemsize
        pool = self.pools[t.space]
        known: dict[int, Array] = {}

        def at(offset: int) -> Array:
            array = known.get(offset)
            if array is None:
                array = known[offset] = np.ndarray(t.shape, dtype, pool.data, offset, strides)
            return array

        return at


class Fifo:
    """The places of a fifo, in device memory, for the rows of one of `parts` cores."""

    def __init__(self, op: FifoOp, parts: int) -> None:
        t = _unpacked(fifo_type(op.result))
        dtype, (rows, cols) = dtype_of(t.element), t.shape
        shape = op.places, rows // parts, cols
        self.bytes = np.empty(prod(shape) * dtype.itemsize, np.uint8)
        self.places = self.bytes.view(dtype).reshape(shape)
        self.reset()

    def reset(self) -> None:
        self.bytes.fill(POISON)
        self.pushed = self.popped = 0

    def kept(self) -> tuple[Array, int, int]:
        return self.bytes.copy(), self.pushed, self.popped

    def restore(self, content: Array, pushed: int, popped: int) -> None:
        self.bytes[...], self.pushed, self.popped = content, pushed, popped

    def push(self, tile: Array) -> None:
        self.places[self.pushed % len(self.places)] = tile
        self.pushed += 1

    def pop(self) -> Array:
        self.popped += 1
        return self.places[(self.popped - 1) % len(self.places)]


def poisoned(shape: tuple[int, ...], dtype: "np.dtype[np.generic]") -> Array:
    """An array that nothing was written to."""
    size = prod(shape) * dtype.itemsize
    return np.full(size, POISON, np.uint8).view(dtype).reshape(shape)


def _unpacked(t: Shaped) -> Shaped:
    """Raises GeError for elements that share bytes: they are loaded, and read by maps."""
    if elements_per_byte(t.element) > 1:
        hint = "cast them to a wider type first"
        raise GeError(f"a tile of {t.element} is loaded and read by maps, nothing else", hint=hint)
    return t


@dataclass(frozen=True, slots=True)
class Argument:
    """A memref of a kernel: an input if it is loaded from, an output if it is stored to. Where it
    is only added to it may be given, and else is 0."""

    name: str
    memref: SSAValue
    is_input: bool
    is_output: bool
    is_added_to: bool


def arguments_of(op: KernelOp) -> list[Argument]:
    """The memrefs of a kernel, and its effects on each."""
    read, stored, added = MemrefUses.of(op)
    return [
        Argument(name, a, a in read, a in stored | added, a in added)
        for name, a in zip(argument_names(op), op.arguments, strict=True)
    ]


def argument_names(op: KernelOp) -> list[str]:
    """The names of a kernel's memrefs, each another one: hints lose their number at the end."""
    names: list[str] = []
    for i, arg in enumerate(op.arguments):
        name = hint = arg.name_hint or f"arg{i}"
        count = 0
        while name in names:
            name, count = f"{hint}_{count + 1}", count + 1
        names.append(name)
    return names


def array_of(argument: Argument, given: Mapping[str, Array]) -> Array:
    """A copy of the given array of that name; otherwise an array that nothing was written to."""
    element, shape = data_type(argument.memref.type)
    if argument.name not in given and not argument.is_added_to:
        return unwritten(argument.memref)
    _require(argument.memref)
    if argument.name in given:
        return np.array(given[argument.name], dtype_of(element), order="C")
    return np.zeros(shape, dtype_of(element))


def unwritten(memref: SSAValue) -> Array:
    """An array that nothing was written to."""
    _require(memref)
    element, shape = data_type(memref.type)
    return poisoned(shape, dtype_of(element))


def _require(memref: SSAValue) -> None:
    require_memory(byte_size(memref.type), "a memref of", memref.type, hint=WITHOUT_MEMORY)
