"""Which gear of a program inputs have the sizes of: a program that was compiled for some sizes of
its dynamic inputs has a table of them (`npu_task.map_index`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument

from ge.dialects.graph import gears as graph
from ge.dialects.npu_task import control
from ge.dialects.support.errors import GeError


@dataclass(frozen=True)
class GearTable:
    """Rows of sizes of named dimensions, and where each is: number of an input, and axis."""

    names: Sequence[str]
    places: Sequence[tuple[int, int]]
    rows: Sequence[tuple[int, ...]]
    takes_others: bool  # whether a branch takes what no row has

    @classmethod
    def of(cls, func: FuncOp, dims: Sequence[Sequence[str]]) -> "GearTable | None":
        """The table of a function whose inputs have dimensions of these names; None: it has no
        gears."""
        for op in func.body.block.ops:
            if isinstance(op, graph.MapIndexOp | control.MapIndexOp):
                if not all(isinstance(v, BlockArgument) for v in op.inputs):
                    return None
                places = [(v.index, a) for v, a in zip(op.inputs, op.measured, strict=True)
                          if isinstance(v, BlockArgument)]  # fmt: skip
                names = [dims[i][axis] or f"input {i}[{axis}]" for i, axis in places]
                users = (use.operation for use in op.result.uses)
                branches = max((len(u.regions) for u in users), default=0)
                return cls(names, places, op.rows, branches > len(op.rows))
        return None

    def sizes(self, shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
        return tuple(shapes[i][axis] for i, axis in self.places)

    def listed(self, row: Sequence[int]) -> str:
        return ", ".join(f"{n}={size}" for n, size in zip(self.names, row, strict=True))

    def largest(self, known: Mapping[str, int]) -> dict[str, int]:
        """The sizes of the largest gear that has the known ones."""
        rows = [
            r for r in self.rows
            if all(known.get(n, size) == size for n, size in zip(self.names, r, strict=True))
        ]  # fmt: skip
        return dict(zip(self.names, max(rows, key=prod), strict=True)) if rows else {}

    def missing(self, sizes: Sequence[int]) -> GeError:
        rows = "; ".join(map(self.listed, self.rows))
        return GeError(f"no gear is for {self.listed(sizes)}", hint=f"the gears are {rows}")
