"""What follows matmuls, pulled from tiles of their results."""

from dataclasses import dataclass, field
from functools import cached_property

from xdsl.ir import SSAValue

from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import TransposeOp
from ge.dialects.graph.slicing import SliceOp, SplitOp
from ge.dialects.support.boxes import Access, Box
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import array_ints
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import KNOWN, Index, Scalar, number_of
from ge.runtime.library.language.values import Tile
from ge.runtime.library.launch import NotLowered
from ge.runtime.library.matmul.outputs import AnyMatmul, Origins, Term, ending
from ge.runtime.library.places import long_dims, tile_shape
from ge.runtime.library.pulling import Pull


@dataclass
class Epilogue(Pull):
    """What follows matmuls: moved elements are in the same tile, at another place, or in one where
    rows are columns. `terms`: tiles of the matmuls' results, `columns` of them from `col` on, after
    the first ones."""

    terms: dict[Term, Tile] = field(default_factory=dict[Term, Tile])
    col: Scalar = 0
    columns: int = 0
    end: "Scalar | None" = None  # of the rows that are stored, along dimension `row`
    row: int = 0

    def box(self, value: SSAValue, box: Box) -> v.Subview:
        found = super().box(value, box)
        return ending(found, self.row, self.end) if value in self.dependent else found

    @cached_property
    def dependent(self) -> set[SSAValue]:
        return Origins(self.launch.body).dependent

    def tile(
        self, value: SSAValue, box: Box, column: bool = False, into: Tile | None = None
    ) -> Tile:
        """What depends on a matmul is computed here, wherever its box is."""
        if value not in self.dependent:
            return super().tile(value, box, column, into)
        found = self.expression(value, box, column)
        if into is None and isinstance(found, Tile):
            return found
        target = self.buffer(tile_shape(box, column), value) if into is None else into
        self.c.assign(target, found)
        self._keep(value, box, column, target)
        return target

    def expression(self, value: SSAValue, box: Box, column: bool = False) -> v.Expression:
        if isinstance(value.owner, AnyMatmul):
            first = at_zero(box.offsets[-1]) - at_zero(self.col)
            if (value, first) not in self.terms:
                raise NotLowered(f"columns from {first} on are of another block of the matmul")
            return self.terms[value, first]
        if isinstance(op := value.owner, ReduceOp):  # here, where its operand is
            key = self._key(value, box, column)
            for known in (self.known.get(block, {}) for block in self.open):
                if key in known:
                    return known[key]
            self.parts = dict.fromkeys(op.reduced_axes() or (), self.columns)
            return self._keep(value, box, column, self.reduced(op, value, box, column))
        return super().expression(value, box, column)

    def computed(self, op: TensorOp, value: SSAValue, box: Box, column: bool) -> v.Expression:
        if op.ACCESS is not Access.VIEW and not isinstance(op, TransposeOp | SplitOp | SliceOp):
            return super().computed(op, value, box, column)
        number = next(i for i, r in enumerate(op.results) if r is value)
        needed, dims = op.operand_box(0, box, number), long_dims(box)
        if isinstance(op, TransposeOp):
            order = [array_ints(op.permutation)[d] for d in dims]
            if order != sorted(order):
                return self._transposed(op, value, box)
        if needed is None or tile_shape(needed, column) != tile_shape(box, column):
            raise NotLowered(f"a box of {op.name} is none of its operand")
        return self.expression(op.operands[0], needed, column)


def at_zero(number: Scalar) -> int:
    """A number on core 0, in the first rounds of all loops."""
    if (known := number_of(number)) is not None:
        return known
    assert isinstance(number, Index)
    args = [at_zero(a) for a in number.args]
    match number.kind:
        case "known":
            return args[0]
        case kind if kind in KNOWN:
            return KNOWN[kind](*args)
        case "cores":
            return 1  # or any number: core 0 has the first block whatever that is
        case _:
            return 0
