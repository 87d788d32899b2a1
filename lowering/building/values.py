"""Values of a graph that is built in Python (`graph.py`): operators and methods are its ops."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.ir import SSAValue

from ge.dialects.graph.elementwise import (
    AbsOp,
    AddOp,
    CompareOp,
    DivOp,
    ModOp,
    MulOp,
    NegOp,
    PowOp,
    SubOp,
)
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.shape import SqueezeOp, TransposeOp
from ge.dialects.graph.slicing import SliceOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import DYNAMIC, element_type, rank_of, shape_of

if TYPE_CHECKING:
    from ge.lowering.building.graph import Graph

LAST = 2**63 - 1  # the end of a slice that has none, as in ONNX
Part = int | slice  # of a dimension


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of a graph. Operands of its operators may be arrays and numbers, which become
    constants; a number has the element type of the value."""

    graph: "Graph"
    ssa: SSAValue
    __array_ufunc__ = None  # arrays leave operators to the value on their right
    __iter__ = None  # a value is no sequence, though parts of it can be taken

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Sizes, None where they are open."""
        return tuple(None if d == DYNAMIC else d for d in shape_of(self.ssa))

    @property
    def dtype(self) -> str:
        """The name of the element type, "f32"."""
        return str(element_type(self.ssa))

    @property
    def T(self) -> "Value":
        """The dimensions in reverse order."""
        return self.graph.apply(TransposeOp, self, permutation=range(rank_of(self.ssa))[::-1])

    def __repr__(self) -> str:
        return f"<{self.ssa.name_hint or 'value'}: {self.ssa.type}>"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        op = getattr(self.graph, name)
        return lambda *operands, **params: op(self, *operands, **params)

    def __add__(self, other: Any) -> "Value":
        return self.graph.apply(AddOp, self, other)

    def __radd__(self, other: Any) -> "Value":
        return self.graph.apply(AddOp, other, self)

    def __sub__(self, other: Any) -> "Value":
        return self.graph.apply(SubOp, self, other)

    def __rsub__(self, other: Any) -> "Value":
        return self.graph.apply(SubOp, other, self)

    def __mul__(self, other: Any) -> "Value":
        return self.graph.apply(MulOp, self, other)

    def __rmul__(self, other: Any) -> "Value":
        return self.graph.apply(MulOp, other, self)

    def __truediv__(self, other: Any) -> "Value":
        return self.graph.apply(DivOp, self, other)

    def __rtruediv__(self, other: Any) -> "Value":
        return self.graph.apply(DivOp, other, self)

    def __mod__(self, other: Any) -> "Value":
        return self.graph.apply(ModOp, self, other)

    def __pow__(self, other: Any) -> "Value":
        return self.graph.apply(PowOp, self, other)

    def __matmul__(self, other: Any) -> "Value":
        return self.graph.apply(MatmulOp, self, other)

    def __rmatmul__(self, other: Any) -> "Value":
        return self.graph.apply(MatmulOp, other, self)

    def __neg__(self) -> "Value":
        return self.graph.apply(NegOp, self)

    def __abs__(self) -> "Value":
        return self.graph.apply(AbsOp, self)

    def __lt__(self, other: Any) -> "Value":
        return self.graph.apply(CompareOp, self, other, predicate="lt")

    def __le__(self, other: Any) -> "Value":
        return self.graph.apply(CompareOp, self, other, predicate="le")

    def __gt__(self, other: Any) -> "Value":
        return self.graph.apply(CompareOp, self, other, predicate="gt")

    def __ge__(self, other: Any) -> "Value":
        return self.graph.apply(CompareOp, self, other, predicate="ge")

    def __getitem__(self, key: "Part | tuple[Part, ...]") -> "Value":
        """A box: numbers, which drop their dimension, and slices, of the first dimensions."""
        parts: list[Any] = [*key] if isinstance(key, tuple) else [key]
        if not all(isinstance(p, int | slice) for p in parts):
            raise GeError("a box is of numbers and slices", hint="graph.gather takes indices")
        if not parts:
            return self
        starts, ends, steps = zip(*map(_bounds, parts), strict=True)
        axes = tuple(range(len(parts)))
        box = self.graph.apply(SliceOp, self, starts=starts, ends=ends, axes=axes, steps=steps)
        dropped = [axis for axis, p in enumerate(parts) if isinstance(p, int)]
        return self.graph.apply(SqueezeOp, box, axes=dropped) if dropped else box


def _bounds(part: Part) -> tuple[int, int, int]:
    """Start, end and step of a dimension."""
    if isinstance(part, int):
        return part, LAST if part == -1 else part + 1, 1
    step = 1 if part.step is None else part.step
    first, last = (0, LAST) if step > 0 else (LAST, -LAST)
    return (
        first if part.start is None else part.start,
        last if part.stop is None else part.stop,
        step,
    )
