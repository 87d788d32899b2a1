"""Which gear of a program inputs have the sizes of: a program that was compiled for some sizes of
its dynamic inputs has a table of them (`npu_task.map_index`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument

from ge.dialects.graph import gears as graph
from ge.dialects.graph.ports import argument_attributes, dims_of, name_of
from ge.dialects.npu_task import control
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import shape_of


@dataclass(frozen=True)
class GearTable:
    """Rows of sizes of named dimensions, and where each is: name of an input, and axis."""

    names: Sequence[str]
    places: Sequence[tuple[str, int]]
    rows: Sequence[tuple[int, ...]]
    takes_others: bool  # whether a branch takes what no row has

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
                name = name_of(table) or f"arg{value.index}"
                dims = dims_of(table, len(shape_of(value)))
                names.append(dims[axis] or f"{name}[{axis}]")
                places.append((name, axis))
            users = (use.operation for use in op.result.uses)
            branches = max((len(u.regions) for u in users), default=0)
            return cls(names, places, op.rows, branches > len(op.rows))
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
            if port in shapes and axis < len(shapes[port]):
                known.setdefault(name, shapes[port][axis])
        if not known:
            return None
        if unknown := [n for n in known if n not in self.names]:
            raise GeError(f"no dimension is called '{unknown[0]}'", hint=f"{', '.join(self.names)}")
        fitting = [
            i for i, row in enumerate(self.rows)
            if all(known.get(n, size) == size for n, size in zip(self.names, row, strict=True))
        ]  # fmt: skip
        if not fitting:
            raise self.missing(known)
        return fitting[0] if len(fitting) == 1 else None

    def missing(self, sizes: Mapping[str, int]) -> GeError:
        rows = "; ".join(map(self.listed, self.rows))
        given = ", ".join(f"{n}={size}" for n, size in sizes.items())
        return GeError(f"no gear is for {given}", hint=f"the gears are {rows}")
