"""Objects that a kernel in Python names: tiles, rings, windows of images in L1, and expressions of
tiles.

    s[j] = exp(s[j] * scale - m[j])        a tile.map of three elementwise ops
    l[:] = l * g[j] + rowsum(s[j])         a tile.reduce, and a tile.map

Operands of an expression have one element type (`cast` changes it); a tile of one row or of one
column is repeated along the other operand's."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from xdsl.dialects.builtin import f32, i1, i32
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph import activation, elementwise
from ge.dialects.graph.quantization import QuantizeOp
from ge.dialects.support.element_types import bitwidth, element_named, is_float, is_integer
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.tile.buffers import SlotOp, ViewOp
from ge.dialects.tile.types import Memory, TileType, tile_in
from ge.dialects.tile.unfold import Unfolding
from ge.runtime.library.language.indices import Index, Scalar, SharedIndex, number_of
from ge.runtime.library.language.sides import Argument, Shape, Subview, keys_of, span, start_of

if TYPE_CHECKING:
    from ge.runtime.library.language.sides import Side
    from ge.runtime.library.language.tracing import Tracer


class Expression:
    """Elements of tiles, computed by the vector unit. (Without `ABC`, whose `isinstance` takes
    longer.)"""

    shape: Shape
    element: Attribute

    def __add__(self, other: "Value") -> "Expression":
        return binary(elementwise.AddOp, self, other)

    def __radd__(self, other: "Value") -> "Expression":
        return binary(elementwise.AddOp, other, self)

    def __sub__(self, other: "Value") -> "Expression":
        return binary(elementwise.SubOp, self, other)

    def __rsub__(self, other: "Value") -> "Expression":
        return binary(elementwise.SubOp, other, self)

    def __mul__(self, other: "Value") -> "Expression":
        return binary(elementwise.MulOp, self, other)

    def __rmul__(self, other: "Value") -> "Expression":
        return binary(elementwise.MulOp, other, self)

    def __truediv__(self, other: "Value") -> "Expression":
        return binary(elementwise.DivOp, self, other)

    def __rtruediv__(self, other: "Value") -> "Expression":
        return binary(elementwise.DivOp, other, self)

    def __neg__(self) -> "Expression":
        return Apply(elementwise.NegOp, (self,), self.shape, self.element)

    def __lt__(self, other: "Value") -> "Expression":
        return compare("lt", self, other)

    def __le__(self, other: "Value") -> "Expression":
        return compare("le", self, other)

    def __gt__(self, other: "Value") -> "Expression":
        return compare("gt", self, other)

    def __ge__(self, other: "Value") -> "Expression":
        return compare("ge", self, other)

    # As of numpy's arrays, a comparison is a value of its own; expressions are told apart by `is`.
    def __eq__(self, other: object) -> "Expression":  # type: ignore[override]
        return compare("eq", self, operand(other))

    def __ne__(self, other: object) -> "Expression":  # type: ignore[override]
        return compare("ne", self, operand(other))

    __hash__ = object.__hash__

    def __and__(self, other: "Expression") -> "Expression":
        return logical(elementwise.AndOp, self, other)

    def __or__(self, other: "Expression") -> "Expression":
        return logical(elementwise.OrOp, self, other)

    def __xor__(self, other: "Expression") -> "Expression":
        return logical(elementwise.XorOp, self, other)

    def __invert__(self) -> "Expression":
        return logical(elementwise.NotOp, self)

    def __bool__(self) -> bool:
        text = "elements of a tile are known when the core runs, not while the kernel is traced"
        raise GeError(text, hint="choose by where(...), join comparisons by &, | and ~")


Value: TypeAlias = "Expression | int | float"
ElementLike: TypeAlias = Any  # a name, an element type, a numpy dtype


class Tile(Expression):
    """A tile in a memory of the core."""

    def __init__(self, tracer: "Tracer", type: TileType):
        self.tracer, self.type = tracer, type
        self.shape, self.element = type.shape, type.element

    def value(self, side: "Side") -> SSAValue:
        """The tile's value in a program, at the place where it is now traced."""
        raise NotImplementedError

    @property
    def space(self) -> Memory:
        return self.type.space

    @property
    def T(self) -> "Transposed":
        return Transposed(self)

    def part(self, row: Scalar, col: Scalar, shape: Shape) -> "Tile":
        """A sub-tile from (row, col) on."""
        is_all = shape == self.shape and number_of(row) == number_of(col) == 0
        return self if is_all else SubTile(self, row, col, shape)

    def __getitem__(self, key: Any) -> "Tile":
        """`t[a:b]`, `t[:, a:b]`: a sub-tile whose bounds are known while the kernel is traced."""
        rows, cols = keys_of(key, 2)
        spans: list[tuple[int, int]] = []
        for key, size in ((rows, self.shape[0]), (cols, self.shape[1])):
            at = span(key)
            known = at is not None and not any(isinstance(i, Index) for i in (at.start, at.stop))
            if at is None or not known or at.step is not None:
                hint = "write t[a:b, c:d], or t.part(row, col, shape) for an index of a loop"
                raise GeError("a sub-tile has two ranges of numbers", hint=hint)
            spans.append((start_of(at), size if at.stop is None else at.stop))
        (r0, r1), (c0, c1) = spans
        return self if (r1 - r0, c1 - c0) == self.shape else self.part(r0, c0, (r1 - r0, c1 - c0))

    def __setitem__(self, key: Any, value: Value) -> None:
        self.tracer.assign(self[key], value)


class Buffer(Tile):
    """All of an allocation of one copy."""

    def __init__(self, tracer: "Tracer", type: TileType, allocated: SSAValue):
        super().__init__(tracer, type)
        self.allocated = allocated

    def value(self, side: "Side") -> SSAValue:
        return self.allocated


class Slot(Tile):
    """One copy of a ring."""

    def __init__(self, ring: "Ring", index: Scalar):
        super().__init__(ring.tracer, ring.held)
        self.ring, self.index = ring, index

    def value(self, side: "Side") -> SSAValue:
        ring, index = self.ring.allocated, side.index(self.index)
        return side.value(("slot", id(ring), id(index)), SlotOp, ring, index)


class SubTile(Tile):
    """A sub-tile."""

    def __init__(self, whole: Tile, row: Scalar, col: Scalar, shape: Shape):
        kind = tile_in(*shape, whole.element, whole.space)
        super().__init__(whole.tracer, kind)
        self.whole, self.row, self.col = whole, row, col

    def value(self, side: "Side") -> SSAValue:
        offsets = [side.index(self.row), side.index(self.col)]
        whole = self.whole.value(side)
        return side.value(
            (id(whole), *map(id, offsets), self.shape), ViewOp, whole, offsets, self.type
        )


@dataclass(frozen=True, eq=False)
class Transposed:
    """A tile with rows and columns exchanged, as an operand of `mmad` or of an assignment."""

    tile: Tile

    @property
    def shape(self) -> Shape:
        rows, cols = self.tile.shape
        return cols, rows


@dataclass(frozen=True, eq=False)
class Ring:
    """Copies of a tile: `ring[j]` is number j mod copies; for `i` of `c.share`, which grows by the
    number of cores, the copy of the core's own turn."""

    tracer: "Tracer"
    type: TileType  # of one copy
    copies: int
    allocated: SSAValue
    held: TileType  # of which `type` has the first columns, or all

    def __getitem__(self, index: Any) -> Tile:
        if not isinstance(index, Index | int):
            raise GeError("a ring is asked for one copy", hint="write ring[j], then ring[j][a:b]")
        slot = Slot(self, index.turn if isinstance(index, SharedIndex) else index)
        return slot if self.held is self.type else slot.part(0, 0, self.type.shape)

    def __setitem__(self, index: Scalar, value: Value) -> None:
        self.tracer.assign(self[index], value)


# ---- errors in arguments ---------------------------------------------------------------------


WAYS_OUT: dict[type[Any], tuple[str, str]] = {
    Ring: ("a ring", "write ring[j], one of its copies"),
    Argument: ("an argument of the kernel", "write x[i:], a box that begins there"),
    Subview: (
        "a box of an argument",
        "c.load(tile, x[i:]) reads it, c.store(x[i:], tile) writes it",
    ),
    Transposed: ("a transposed tile", "assign it to a tile first: t[:] = s.T"),
    Index: ("an index", "rows(n, base) and columns(n, base) are tiles of numbers"),
}


def refuse(what: Any, wanted: str) -> NoReturn:
    other = f"a value of type {type(what).__name__}", "tiles are what c.ub, c.l1 and the like give"
    kind, hint = next((row for t, row in WAYS_OUT.items() if isinstance(what, t)), other)
    raise GeError(f"{kind} stands where {wanted} is wanted", hint=hint)


def tile_of(what: Any) -> Tile:
    return what if isinstance(what, Tile) else refuse(what, "a tile")


def box_of(what: Any) -> Subview:
    return what if isinstance(what, Subview) else refuse(what, "a box, x[i:],")


def expression(what: Any) -> Expression:
    return what if isinstance(what, Expression) else refuse(what, "a tile")


def operand(what: Any) -> Any:
    """A `Value`, or a number of numpy."""
    known = isinstance(what, Expression | Real)
    return what if known else refuse(what, "a tile or a number")


# ---- expressions -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Apply(Expression):
    """A graph op on expressions and numbers."""

    op: type[TensorOp]
    args: tuple["Value", ...]
    shape: Shape
    element: Attribute
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, eq=False)
class Copied(Expression):
    """An op of a graph, on tiles in place of its operands."""

    op: TensorOp
    args: tuple[Expression, ...]
    shape: Shape
    element: Attribute


@dataclass(frozen=True, eq=False)
class Number(Expression):
    """One number of an element type."""

    number: float
    shape: Shape
    element: Attribute


@dataclass(frozen=True, eq=False)
class Reduced(Expression):
    """The largest, the smallest or the sum of each row or column."""

    kind: str
    arg: Expression
    shape: Shape
    element: Attribute


@dataclass(frozen=True, eq=False)
class Counted(Expression):
    """base, base + 1, ... as a column ("rows") or a row ("columns") of i32."""

    axis: str
    base: Scalar
    shape: Shape
    element: Attribute = i32


@dataclass(frozen=True, eq=False)
class Cast(Expression):
    """Another element type."""

    arg: Expression
    shape: Shape
    element: Attribute


def common(*values: Value) -> tuple[Shape, Attribute]:
    """Shape and element type of an op of these. Raises GeError where they do not fit."""
    tiles = [v for v in map(operand, values) if isinstance(v, Expression)]
    if not tiles:
        raise GeError("an op of numbers alone", hint="one operand is a tile")
    shape: list[int] = []
    for sizes in zip(*(t.shape for t in tiles), strict=True):
        long = {s for s in sizes if s != 1}
        if len(long) > 1:
            shapes = " and ".join(f"{a}x{b}" for a, b in (t.shape for t in tiles))
            hint = "a row (1xN) or a column (Mx1) is repeated; else both have one shape, or t[a:b]"
            raise GeError(f"tiles of {shapes} do not go together", hint=hint)
        shape.append(max(sizes))
    elements = dict.fromkeys(t.element for t in tiles)
    if len(elements) > 1:
        text = f"operands of {' and '.join(map(str, elements))} in one op"
        raise GeError(text, hint="cast(x, type) one of them")
    return (shape[0], shape[1]), tiles[0].element


def binary(op: type[TensorOp], a: Value, b: Value) -> Expression:
    shape, element = common(a, b)
    return Apply(op, (a, b), shape, element)


def compare(predicate: str, a: Value, b: Value) -> Expression:
    shape, _ = common(a, b)
    return Apply(elementwise.CompareOp, (a, b), shape, i1, {"predicate": predicate})


def logical(op: type[TensorOp], *args: Expression) -> Expression:
    """And, or, not of comparisons; of integers, of their bits."""
    for arg in map(expression, args):
        if is_float(arg.element):
            text = f"{op.name.removeprefix('graph.')} is of comparisons or integers"
            raise GeError(f"{text}, not of {arg.element}", hint="compare it with a number first")
    shape, element = common(*args)
    return Apply(op, args, shape, element)


def unary(op: type[TensorOp], x: Expression, **parameters: Any) -> Expression:
    element = i1 if issubclass(op, elementwise.FloatTest) else expression(x).element
    return Apply(op, (x,), x.shape, element, parameters)


def of_each(op: type[TensorOp]) -> Callable[[Expression], Expression]:
    """The function that has an op of a graph computed of each element."""

    def function(x: Expression) -> Expression:
        return unary(op, x)

    function.__doc__ = op.__doc__
    return function


ROUNDINGS: dict[str, type[TensorOp] | None] = {
    "even": elementwise.RoundOp,
    "floor": elementwise.FloorOp,
    "ceil": elementwise.CeilOp,
    "trunc": None,  # what `graph.cast` does
}
"""How floats become integers. The vector unit has these in its conversions (RINT, FLOOR, CEIL and
TRUNC of CANN's `Cast`); those away from zero (ROUND) and to odd numbers (ODD) no op of a graph
has."""


def cast(x: Expression, to: ElementLike, rounding: str | None = None) -> Expression:
    """`x` as elements of another type: "f16", "i32", `a.dtype`, a numpy dtype. `rounding`: of
    floats to integers, "even", "floor", "ceil" or "trunc"; without it as `graph.cast` has it,
    toward zero. Integers out of range wrap around. Raises GeError for other roundings, and where
    nothing is rounded so."""
    x, element = expression(x), element_named(to)
    if rounding is not None:
        if rounding not in ROUNDINGS:
            known = ", ".join(map(repr, ROUNDINGS))
            raise GeError(f"there is no rounding {rounding!r}", hint=f"there are: {known}")
        to_integer = is_float(x.element) and is_integer(element)
        if not to_integer and not (is_float(element) and rounding == "even"):
            text = f"{x.element} becomes {element} without {rounding!r}"
            hint = "roundings are of floats to integers; floats become floats to the nearest, even"
            raise GeError(text, hint=hint)
        if to_integer and (op := ROUNDINGS[rounding]) is not None:
            x = unary(op, x)
    return x if x.element == element else Cast(x, x.shape, element)


def saturated(x: Expression, to: Attribute) -> Expression:
    """Floats rounded to integers, ties to even, and limited to those of the type, as conversions of
    the vector unit do: `graph.quantize` by a scale of 1."""
    return Apply(QuantizeOp, (x, 1.0), x.shape, to, {"to": to})


def wide(x: Expression) -> Expression:
    """The type in which `x` is computed: narrow elements become f32."""
    return cast(x, f32) if bitwidth(x.element) < 32 else x


abs = of_each(elementwise.AbsOp)
ceil = of_each(elementwise.CeilOp)
erf = of_each(elementwise.ErfOp)
exp = of_each(elementwise.ExpOp)
floor = of_each(elementwise.FloorOp)
gelu = of_each(activation.GeluOp)
is_inf = of_each(elementwise.IsInfOp)
is_nan = of_each(elementwise.IsNanOp)
log = of_each(elementwise.LogOp)
reciprocal = of_each(elementwise.ReciprocalOp)
relu = of_each(activation.ReluOp)
round = of_each(elementwise.RoundOp)
sigmoid = of_each(activation.SigmoidOp)
sign = of_each(elementwise.SignOp)
silu = of_each(activation.SiluOp)
softplus = of_each(activation.SoftplusOp)
sqrt = of_each(elementwise.SqrtOp)
tanh = of_each(elementwise.TanhOp)


def rsqrt(x: Expression) -> Expression:
    """1 / sqrt(x): a root and a division, as the vector unit's own `rsqrt` is not exact."""
    return reciprocal(sqrt(x))


def power(a: Value, b: Value) -> Expression:
    """`a` to the power of `b`."""
    return binary(elementwise.PowOp, a, b)


def mod(a: Value, b: Value) -> Expression:
    """The rest of a division, of the sign of the divisor."""
    return binary(elementwise.ModOp, a, b)


def maximum(a: Value, b: Value) -> Expression:
    """The larger of two, nan where one is."""
    return binary(elementwise.MaximumOp, a, b)


def minimum(a: Value, b: Value) -> Expression:
    """The smaller of two, nan where one is."""
    return binary(elementwise.MinimumOp, a, b)


def where(condition: Expression, a: Value, b: Value) -> Expression:
    """`a` where the comparison holds, else `b`."""
    if expression(condition).element != i1:
        text = f"where(...) chooses by a comparison, not by {condition.element}"
        raise GeError(text, hint="compare tiles or numbers by <, <=, ==, != and so on")
    if not any(isinstance(operand(v), Expression) for v in (a, b)):
        hint = 'cast(condition, "f32") is 1 where it holds and 0 elsewhere'
        raise GeError("where(...) of two numbers: their element type is not known", hint=hint)
    _, element = common(a, b)
    bits = (Cast(v, v.shape, i1) for v in (a, b) if isinstance(v, Expression))  # for shapes alone
    shape, _ = common(condition, *bits)
    return Apply(elementwise.SelectOp, (condition, a, b), shape, element)


def of_lines(kind: str, is_row: bool, text: str) -> Callable[[Expression], Expression]:
    """The function that reduces each row of a tile, or each column."""

    def function(x: Expression) -> Expression:
        shape = (expression(x).shape[0], 1) if is_row else (1, expression(x).shape[1])
        return Reduced(kind, x, shape, x.element)

    function.__doc__ = text
    return function


rowmax = of_lines("max", True, "The largest of each row, a column.")
rowmin = of_lines("min", True, "The smallest of each row, a column.")
rowsum = of_lines("sum", True, "The sum of each row, a column.")
colmax = of_lines("max", False, "The largest of each column, a row.")
colmin = of_lines("min", False, "The smallest of each column, a row.")
colsum = of_lines("sum", False, "The sum of each column, a row.")


def rows(count: int, base: Scalar = 0) -> Expression:
    """A column of i32: base, base + 1, ..."""
    return Counted("rows", base, (count, 1))


def columns(count: int, base: Scalar = 0) -> Expression:
    """A row of i32: base, base + 1, ..."""
    return Counted("columns", base, (1, count))


@dataclass(frozen=True, eq=False)
class Unfolded:
    """A matrix of `depth` x `count`: a column for each window over a tile in L1, whose rows are
    pixels and whose columns are channels; with `turned` its transposition. `pad`: the value left
    and right of an image."""

    tile: Tile
    windows: Unfolding
    depth: int
    count: int
    pad: float | None = None
    turned: bool = False

    @property
    def T(self) -> "Unfolded":
        return replace(self, turned=not self.turned)

    @property
    def shape(self) -> Shape:
        return (self.count, self.depth) if self.turned else (self.depth, self.count)
