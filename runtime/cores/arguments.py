"""The memrefs of a kernel as arguments of a run: their names, and what the kernel does to them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.types import byte_size
from ge.dialects.tile.kernel import KernelOp, MemrefUses
from ge.runtime.cores.memory import poisoned
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.data.npz import WITHOUT_MEMORY, require_memory


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
    """The memrefs of a kernel, and what it does to each."""
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
    """A copy of what is given, by name; else what nothing was written to."""
    element, shape = data_type(argument.memref.type)
    if argument.name not in given and not argument.is_added_to:
        return unwritten(argument.memref)
    _require(argument.memref)
    if argument.name in given:
        return np.array(given[argument.name], dtype_of(element), order="C")
    return np.zeros(shape, dtype_of(element))


def unwritten(memref: SSAValue) -> Array:
    """What nothing was written to."""
    _require(memref)
    element, shape = data_type(memref.type)
    return poisoned(shape, dtype_of(element))


def _require(memref: SSAValue) -> None:
    require_memory(byte_size(memref.type), "a memref of", memref.type, hint=WITHOUT_MEMORY)
