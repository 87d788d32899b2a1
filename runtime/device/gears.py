"""Choice of the gear of a program that has the sizes of the inputs, and padding of inputs to the
next larger one: a program that was compiled for some sizes of its dynamic inputs has a table of
them (`npu_task.map_index`), and says which dimensions can be padded (`graph.padding`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument

from ge.dialects.graph import control as graph
from ge.dialects.graph.stated import argument_attributes, dims_of, input_name, padding_of
from ge.dialects.npu_task import control
from ge.dialects.support.dims import size_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import shape_of
from ge.runtime.data.arrays import Array, kind_of

# From outputs of a gear, and arrays that are given for some, to the outputs of smaller sizes
Cut: TypeAlias = Callable[[dict[str, Array], Mapping[str, Array]], dict[str, Array]]


@dataclass(frozen=True)
class GearTable:
    """Rows of sizes of named dimensions, and where each is: name of an input, and axis."""

    names: Sequence[str]
    places: Sequence[tuple[str, int]]
    rows: Sequence[tuple[int, ...]]
    takes_others: bool  # whether a branch takes what no row has
    # By dimension the axes of outputs that are cut where it is padded, or why it must not be
    padding: Mapping[str, "str | Mapping[str, tuple[int, ...]]"]

    @classmethod
    def of(cls, func: FuncOp) -> "GearTable | None":
        """The table of a function; None: it has no gears."""
        for op in func.body.block.ops:
            if not isinstance(op, graph.MapIndexOp | control.MapIndexOp):
                continue
            if not all(isinstance(v, BlockArgument) for v in op.inputs):
                return None
            names: list[str] = []
            places: list[tuple[str, int]] = []
            for value, axis in zip(op.inputs, op.measured, strict=True):
                assert isinstance(value, BlockArgument)
                table = argument_attributes(func, value.index)
                name = input_name(func, value.index)
                dims = dims_of(table, len(shape_of(value)))
                names.append(dims[axis] or f"{name}[{axis}]")
                places.append((name, axis))
            users = (use.operation for use in op.result.uses)
            branches = max((len(u.regions) for u in users), default=0)
            return cls(names, places, op.rows, branches > len(op.rows), padding_of(func))
        return None

    def sizes(self, shapes: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
        return tuple(shapes[name][axis] for name, axis in self.places)

    def listed(self, row: Sequence[int]) -> str:
        return ", ".join(f"{n}={size}" for n, size in zip(self.names, row, strict=True))

    def largest(self, known: Mapping[str, int]) -> dict[str, int]:
        """The sizes of the largest gear that has the known ones."""
        rows = [
            r for r in self.rows
            if all(known.get(n, size) == size for n, size in zip(self.names, r, strict=True))
        ]  # fmt: skip
        return dict(zip(self.names, max(rows, key=prod), strict=True)) if rows else {}

    def chosen(self, shapes: Mapping[str, Sequence[int]], dims: Mapping[str, int]) -> int | None:
        """The number of the gear that inputs of these shapes, or dimensions of these sizes, are of;
        None where they do not say. Raises GeError where there is none."""
        known = dict(dims)
        for name, (port, axis) in zip(self.names, self.places, strict=True):
            size = shapes[port][axis] if axis < len(shapes.get(port, ())) else -1
            if size >= 0 and known.setdefault(name, size) != size:
                other = f"and {size} in the shape of input '{port}'"
                raise GeError(f"dimension '{name}' is {known[name]}, {other}")
        if not known:
            return None
        if unknown := [n for n in known if n not in self.names]:
            raise GeError(f"no dimension is called '{unknown[0]}'", hint=f"{', '.join(self.names)}")
        for name in self.names:
            if name not in known and (size := size_of(name, known)) is not None:
                known[name] = size
        if len(known) == len(self.names):
            return self.number([known[n] for n in self.names])
        fitting = [
            i for i, row in enumerate(self.rows)
            if all(known.get(n, size) == size for n, size in zip(self.names, row, strict=True))
        ]  # fmt: skip
        if not fitting:
            raise self.missing(known)
        return fitting[0] if len(fitting) == 1 else None

    def number(self, sizes: Sequence[int]) -> int:
        """The branch that takes these sizes. Raises GeError where none does."""
        try:
            return self.rows.index(self.row_for(sizes))
        except GeError:
            if self.takes_others:
                return len(self.rows)
            raise

    def row_for(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The gear of these sizes, or the smallest that inputs can be padded to. Raises GeError."""
        if (exact := tuple(sizes)) in self.rows:
            return exact
        larger = [r for r in self.rows if all(a >= b for a, b in zip(r, sizes, strict=True))]
        reasons: list[str] = []
        fitting: list[tuple[int, ...]] = []
        for row in larger:
            grown = [n for n, a, b in zip(self.names, row, sizes, strict=True) if a > b]
            mixed = [n for n in grown if not isinstance(self.padding.get(n, ""), Mapping)]
            if mixed:
                reasons.append(f"'{mixed[0]}' cannot be padded: {self.padding.get(mixed[0], '')}")
            else:
                fitting.append(row)
        if not fitting:
            error = self.missing(dict(zip(self.names, sizes, strict=True)))
            what = f"{error.message}, and {reasons[0]}" if reasons else error.message
            raise GeError(what, hint=error.hint)
        return min(fitting, key=lambda row: (prod(row), row))

    def between(self, row: Sequence[int]) -> tuple[int, ...] | None:
        """Smaller sizes, as few as may be, that are padded to this gear; None: there are none."""
        sizes = tuple(
            n - 1 if n > 1 and isinstance(self.padding.get(name), Mapping) else n
            for name, n in zip(self.names, row, strict=True)
        )
        try:
            return sizes if self.row_for(sizes) == row != sizes else None
        except GeError:
            return None

    def fitted(
        self, arrays: list[Array], names: Sequence[str], dims: Sequence[Sequence[str]]
    ) -> "tuple[list[Array], Cut | None]":
        """Inputs of these names, and dimensions of these names, padded with zeros to the sizes of a
        gear; and the function that cuts the outputs. Raises GeError if no gear takes them."""
        shapes = {n: a.shape for n, a in zip(names, arrays, strict=True)}
        sizes = self.sizes(shapes)
        number = self.number(sizes)
        if number == len(self.rows) or (row := self.rows[number]) == sizes:
            return arrays, None
        strange = [n for n, a in zip(names, arrays, strict=True) if not is_finite(a)]
        if strange and self.takes_others:
            return arrays, None
        if strange:
            given = f"input '{strange[0]}' has elements that are infinite or nan"
            text = f"{given}: it cannot be padded from {self.listed(sizes)} to {self.listed(row)}"
            raise GeError(text, hint="run it at the sizes of a gear, or add --dynamic-fallback")
        target = dict(zip(self.names, row, strict=True))
        padded: list[Array] = []
        for name, array, of_input in zip(names, arrays, dims, strict=True):
            known = [d or f"{name}[{i}]" for i, d in enumerate(of_input)]
            shape = [
                target[d] if d in target else n for d, n in zip(known, array.shape, strict=True)
            ]
            padded.append(np.zeros(shape, array.dtype))
            padded[-1][tuple(map(slice, array.shape))] = array
        return padded, self.cut(sizes, row)

    def cut(self, sizes: Sequence[int], row: Sequence[int]) -> "Cut":
        """A function that cuts outputs of a gear to these sizes."""
        grown = [(n, a, b) for n, a, b in zip(self.names, row, sizes, strict=True) if a != b]

        def cut(results: dict[str, Array], places: Mapping[str, Array]) -> dict[str, Array]:
            outputs = dict(results)
            for dim, large, small in grown:
                axes = self.padding[dim]
                assert isinstance(axes, Mapping)
                for name, cut_axes in axes.items():
                    ends = [
                        n * small // large if i in cut_axes else n
                        for i, n in enumerate(outputs[name].shape)
                    ]
                    outputs[name] = outputs[name][tuple(map(slice, ends))]
            for name, array in outputs.items():
                if (place := places.get(name)) is None:
                    outputs[name] = np.ascontiguousarray(array)
                elif place.shape != array.shape:
                    raise GeError(f"output '{name}' is {array.shape}, not {place.shape}")
                else:
                    np.copyto(place, array)
                    outputs[name] = place
            return outputs

        return cut

    def missing(self, sizes: Mapping[str, int]) -> GeError:
        rows = "; ".join(map(self.listed, self.rows))
        given = ", ".join(f"{n}={size}" for n, size in sizes.items())
        return GeError(f"no gear is for {given}", hint=f"the gears are {rows}")


def is_finite(array: Array) -> bool:
    return kind_of(array.dtype) != "f" or bool(np.isfinite(array).all())
