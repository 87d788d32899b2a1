"""Inputs for modules of which no others are given."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from ge.dialects.graph.stated import dim_ranges, dim_relations, growing_symbol
from ge.dialects.support.dims import Range, size_of, symbols, with_related
from ge.dialects.support.element_types import is_unsigned
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import DYNAMIC
from ge.runtime.data.arrays import Array, dtype_of, kind_of
from ge.runtime.data.npz import machine_bytes
from ge.runtime.device.gears import GearTable
from ge.runtime.device.ports import caller_ports, check_inputs
from ge.runtime.device.session import main_of


def _size(name: str, sizes: Mapping[str, int]) -> int:
    """Size of a dimension, with 1 for unknown ones."""
    size = size_of(name, dict.fromkeys(symbols(name), 1) | dict(sizes))
    return 1 if size is None else size


def random_inputs(
    module: ModuleOp,
    seed: int = 0,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
) -> dict[str, Array]:
    """Seeded random inputs of the right types: standard normal floats, integers and truth values 0
    or 1 (so that they are valid indices). Unknown dimensions come from `shapes` (by input), from
    `dims` (by symbolic name), else they are those of the largest gear, or 1. Raises GeError for
    shapes that do not fit."""
    rng = np.random.default_rng(seed)
    main = main_of(module)
    expected = caller_ports(main)
    sizes = sizes_for(main, shapes, dims)
    arrays: dict[str, Array] = {}
    for port in expected:
        known = (shapes or {}).get(port.name) or (DYNAMIC,) * len(port.shape)
        names = [name or f"{port.name}[{i}]" for i, name in enumerate(port.dims)]
        shape = [
            given if given >= 0 else _size(name, sizes) if size == DYNAMIC else size
            for given, size, name in zip(known, port.shape, names, strict=True)
        ]
        dtype = dtype_of(port.element)
        if prod(shape) * dtype.itemsize > machine_bytes():
            raise GeError(f"input {port} is larger than the memory of this machine")
        arrays[port.name] = random_array(rng, port.element, shape)
    check_inputs(expected, arrays)
    return arrays


def chosen_sizes(
    module: ModuleOp,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """The sizes of random inputs that the caller has not given."""
    sizes = sizes_for(main_of(module), shapes, dims)
    given = {*(dims or {})}
    for port in caller_ports(main_of(module)):
        of_input = zip(port.dims, (shapes or {}).get(port.name, ()), strict=False)
        given |= {name for name, size in of_input if size >= 0}
    names = [s for p in caller_ports(main_of(module)) for d in p.dims for s in symbols(d) if d]
    return {name: sizes[name] for name in names if name in sizes and name not in given}


def sizes_for(
    main: FuncOp, shapes: Mapping[str, Sequence[int]] | None, dims: Mapping[str, int] | None
) -> dict[str, int]:
    """The sizes of dimensions with names, given or chosen."""
    expected, sizes = caller_ports(main), dict(dims or {})
    for port in expected:
        for size, name in zip((shapes or {}).get(port.name, ()), port.dims, strict=False):
            if name and size >= 0:
                sizes.setdefault(name, size)
    if table := GearTable.of(main):
        sizes |= table.largest(sizes)
    if (growing := growing_symbol(main)) is not None:
        sizes.setdefault(growing, 0)  # rows of a state that nothing was written to
    ranges, relations = dim_ranges(main), dim_relations(main)
    sizes = with_related(sizes, relations)
    for name in (s for p in expected for dim in p.dims for s in symbols(dim) if dim):
        if name not in sizes and name not in relations:
            sizes[name] = max(1, ranges.get(name, Range()).least)
    return with_related(sizes, relations)


def random_array(rng: np.random.Generator, element: Attribute, shape: Sequence[int]) -> Array:
    """Standard normal floats, integers and truth values 0 or 1."""
    dtype = dtype_of(element)
    if kind_of(dtype) in "biu":
        return rng.integers(0, 2, shape).astype(dtype)
    values = rng.standard_normal(shape, np.float32)
    return (np.abs(values) if is_unsigned(element) else values).astype(dtype)
