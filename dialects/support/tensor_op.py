"""What every tensor op of ours states about itself, in its class: operands and attributes (IRDL),
result types (`infer`), work (`work`), and which attributes may also come as run-time operands.

An op is added by writing one class (here), one kernel (`runtime/kernels`) and one test.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from math import prod
from typing import ClassVar, Self, cast

from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    LocationAttr,
    NameLoc,
    StringAttr,
    TensorType,
    UnknownLoc,
    f64,
    i64,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import AttrSizedOperandSegments, VarOperandDef
from xdsl.utils.exceptions import VerifyException

from ge.dialects.support.element_types import bitwidth, check_computed
from ge.dialects.support.operation import GeOp, segments
from ge.dialects.support.types import (
    DYNAMIC,
    UNKNOWN,
    Shape,
    array_ints,
    byte_size,
    constant_ints,
    element_type,
    is_refinement,
    is_static,
    numel,
    set_type,
    shape_of,
)

Param = Attribute | bool | int | float | str | Sequence[int] | Sequence[float] | None
"""A Python value that `attribute` turns into an attribute."""


Operand = SSAValue | Operation | Sequence[SSAValue] | None
"""What `TensorOp.of` takes for an operand definition."""

SEGMENTS = AttrSizedOperandSegments.attribute_name


@dataclass(frozen=True, slots=True)
class Slots:
    """The operand definitions of an op class."""

    names: Mapping[str, int]
    optional: Sequence[bool]
    """Whether it may be absent, or have several values."""
    segmented: bool
    """Whether an op says how many operands belong to each."""


def _values(operand: Operand) -> Sequence[SSAValue]:
    if operand is None:
        return ()
    if isinstance(operand, SSAValue):
        return (operand,)
    return operand.results if isinstance(operand, Operation) else operand


@dataclass(frozen=True, slots=True)
class Work:
    """What one execution costs, whatever the machine: multiply-accumulates for the cube,
    element-operations for the vector unit, and bytes moved from and to memory."""

    macs: int = 0
    vector: int = 0
    read: int = 0
    written: int = 0

    def __add__(self, other: "Work") -> "Work":
        return Work(
            self.macs + other.macs,
            self.vector + other.vector,
            self.read + other.read,
            self.written + other.written,
        )


def attribute(value: Param) -> Attribute | None:
    """The attribute for a Python value: int -> i64, float -> f64, bool -> i1, str -> string,
    a sequence -> dense array. None and attributes pass through."""
    if value is None or isinstance(value, Attribute):
        return value
    if isinstance(value, float):
        return FloatAttr(value, f64)
    if isinstance(value, bool | int | str):
        return _attribute(value)
    if value and isinstance(value[0], float):
        return DenseArrayBase.from_list(f64, list(value))
    return _ints(tuple(cast(Sequence[int], value)))


@lru_cache(maxsize=4096, typed=True)
def _attribute(value: bool | int | str) -> Attribute:
    if isinstance(value, bool):
        return BoolAttr.from_bool(value)
    return IntegerAttr(value, i64) if isinstance(value, int) else StringAttr(value)


@lru_cache(maxsize=4096)
def _ints(values: tuple[int, ...]) -> Attribute:
    return DenseArrayBase.from_list(i64, values)


_UNKNOWN_PLACE = UnknownLoc()


def name_loc(name: str) -> LocationAttr:
    """The location of something that a model names: `loc("name")`."""
    return NameLoc(StringAttr(name), _UNKNOWN_PLACE)


class Access(Enum):
    """Which operand elements a result element needs: what decides on fusion."""

    POINTWISE = "the elements at its place (operands broadcast), or few beside it in a row"
    VIEW = "one element; all stay where they are in memory"
    MOVEMENT = "one element, from a place that follows from its own"
    LOOKUP = "one element of the first operand, from a place that another operand names"
    WINDOW = "the elements of the first operand in a window around its place"
    ROWS = "a row of elements: see `TensorOp.rows`"
    WHOLE = "any elements"


MOVING = frozenset((Access.VIEW, Access.MOVEMENT, Access.LOOKUP))
"""How elements get to other places as they are."""


@dataclass(frozen=True, slots=True)
class Rows:
    """How an op on rows cuts its first operand: `count` independent rows of `length` elements
    (`?` where unknown), which lie next to each other in memory if `contiguous`. Cut in `parts`
    equal parts, in memory order, each part holds whole rows."""

    count: int
    length: int
    contiguous: bool
    parts: int


def rows_along(shape: Shape, axes: Collection[int]) -> Rows:
    """The rows of a tensor along some axes, counted from the front."""

    def product(dims: Iterable[int]) -> int:
        known = tuple(dims)
        return numel(known) if is_static(known) else DYNAMIC

    count = product(d for i, d in enumerate(shape) if i not in axes)
    rest = shape[min(axes, default=len(shape)) :]
    start = len(shape) - len(rest)
    contiguous = all(i in axes or d == 1 for i, d in enumerate(rest, start))
    return Rows(count, product(shape[i] for i in axes), contiguous, product(shape[:start]))


def repeated_parts(small: Shape, large: Shape) -> int | None:
    """The number of elements of `small` if each of them becomes a stretch of memory of its own when
    it is broadcast to `large`: [4, 1] to [4, 8], but not [1, 8] to [4, 8]. Shapes are static."""
    padded = (1,) * (len(large) - len(small)) + small
    differ = next((i for i, d in enumerate(large) if padded[i] != d), len(large))
    return prod(small) if set(padded[differ:]) <= {1} else None


def same_bytes(a: SSAValue, b: SSAValue) -> bool:
    """Whether element i of one value lies where element i of the other one would, for all i."""
    widths = (bitwidth(element_type(a)), bitwidth(element_type(b)))
    return widths[0] == widths[1] and prod(shape_of(a)) == prod(shape_of(b)) > 0


@dataclass(frozen=True, slots=True)
class Permuted:
    """How an op says the same of operands whose dimensions are in another order: which operands
    (by number; the others stay), with which properties, and in which order the dimensions of the
    results are then. Dimension i of a permuted value is dimension order[i] of the value."""

    operands: Sequence[int]
    order: Sequence[int]
    params: Mapping[str, Param]


def aligned_axes(axis: int, rank: int, operands: Iterable[SSAValue]) -> tuple[int | None, ...]:
    """The axes of operands that broadcast to a result of `rank` dimensions that are its `axis`,
    None for those that have one element there."""
    shapes = [shape_of(v) for v in operands]
    places = [axis - (rank - len(s)) for s in shapes]
    return tuple(i if i >= 0 and s[i] != 1 else None for i, s in zip(places, shapes, strict=True))


class TensorOp(GeOp):
    """An op on tensors that infers its result types and states its work.

    `infer` is also the verifier: it raises VerifyException for operands and attributes that do
    not fit together, and what it returns must agree with the declared result types.
    """

    PARAMETERS: ClassVar[Mapping[str, str]] = {}
    """Optional operand -> the property that holds the same value when it is constant.
    Exactly one of the two is present; folding turns the first into the second."""

    VECTOR_COST: ClassVar[int] = 1
    """Vector element-operations for each result element (transcendentals take several)."""

    ACCESS: ClassVar[Access] = Access.WHOLE
    """How results follow from operands; `WHOLE` is never wrong."""

    TAKES_STORED: ClassVar[bool] = False
    """Whether operands may be of types that are only stored (`ElementType.storage_only`), as they
    may be for ops that move elements."""

    NAMES_PLACES: ClassVar[bool] = False
    """Whether an operand says where elements are; the kernel refuses places that do not exist."""

    IS_MATMUL: ClassVar[bool] = False
    """Whether it multiplies matrices, and what follows may join its launch."""

    ALWAYS_MACS: ClassVar[bool] = False
    """Whether it has multiply-accumulates in all shapes."""

    NORMALIZES: ClassVar[bool] = False
    """Whether it scales rows by their statistics, and what is around may join its launch."""

    ROUNDED_ONCE: ClassVar[int] = 0
    """How many of the first operands may be narrow floats: the kernel computes with them in
    float32 and rounds its result once."""

    VECTOR_PROGRAM: ClassVar[bool] = False
    """Whether the vector unit has no instructions for it: what it runs instead would hold up the
    cube."""

    @abstractmethod
    def infer(self) -> Sequence[Attribute]:
        """The result types that follow from operands and attributes, `?` where unknown.
        Raises VerifyException when they contradict each other."""

    def rows(self) -> Rows | None:
        """The rows of an op with `ACCESS` ROWS; None when it is not known where they are."""
        return None

    def part_starts(self) -> Sequence[Sequence[int]] | None:
        """For each result the index of its first element in operand 0, if it is a box of that
        operand's elements; None otherwise. Shapes are static."""
        return None

    def permuted(self, order: Sequence[int]) -> Permuted | None:
        """The op for operands whose dimensions are in this order, None when it needs the one that
        they have. An operand of fewer dimensions counts as one with ones in front."""
        return None

    def local_parts(self, index: int) -> int | None:
        """In how many equal parts operand `index` and each result can be cut, in memory order, so
        that the kernel needs of the operand only part i, once or in several passes, when it
        computes part i of the result. None: it may need any element at any time. Shapes are
        static."""
        shape, results = shape_of(self.operands[index]), [shape_of(r) for r in self.results]
        if self.ACCESS is Access.VIEW and index == 0:
            return prod(shape)
        if self.ACCESS is Access.ROWS and index == 0 and (rows := self.rows()) is not None:
            return rows.parts
        if self.ACCESS is not Access.POINTWISE or any(len(shape) > len(r) for r in results):
            return None
        found = {repeated_parts(shape, r) for r in results}
        return found.pop() if len(found) == 1 else None

    def overwrites(self) -> Iterator[tuple[int, int]]:
        """Each (result, operand) such that the kernel may write the result over the operand: it
        goes through both part by part (see `local_parts`), and has read a place when it writes
        there. Shapes are static."""
        for i, operand in enumerate(self.operands):
            fitting = [r for r, result in enumerate(self.results) if same_bytes(result, operand)]
            if fitting and self.local_parts(i) is not None:
                yield from ((r, i) for r in fitting)

    def takes_strides(self) -> bool:
        """Whether the kernel can read operands and write results whose stretches of memory lie
        apart: it moves tiles, row by row. Raises ValueError for a dynamic shape."""
        return self.ACCESS is not Access.WHOLE or self.static_work().macs > 0

    def cut_axes(self, axis: int) -> tuple[int | None, ...] | None:
        """How the op comes apart when all its results are cut along `axis` (counted from the
        front): for each operand the axis along which part i of the results needs part i of it
        alone, None where each part needs all of it. None altogether when the parts are not
        independent, or nobody said that they are. The parts are computed by the same op."""
        return None

    def can_fail(self) -> bool:
        """Whether the kernel may refuse values that are known only at run time. Such an op must
        not run where it did not run before."""
        if self.NAMES_PLACES or any(getattr(self, name) is not None for name in self.PARAMETERS):
            return True
        return not all(
            isinstance(v.type, TensorType) and is_static(shape_of(v))
            for v in (*self.operands, *self.results)
        )

    def work(self) -> Work | None:
        """The work of one execution; None while a shape is dynamic."""
        try:
            return self.static_work()
        except ValueError:
            return None

    def static_work(self) -> Work:
        """Override this. The default is elementwise: `VECTOR_COST` for each result element."""
        elements = sum(numel(shape_of(r)) for r in self.results)
        return Work(0, elements * self.VECTOR_COST, *self.traffic())

    def bytes_read(self, index: int) -> int:
        """Bytes of operand `index` that are needed. Raises ValueError for a dynamic shape."""
        return byte_size(self.operands[index].type)

    def traffic(self) -> tuple[int, int]:
        """Bytes read and written when each operand and result crosses the memory once."""
        return (
            sum(byte_size(o.type) for o in self.operands),
            sum(byte_size(r.type) for r in self.results),
        )

    @classmethod
    def of(
        cls,
        *operands: Operand,
        regions: Sequence[Region] = (),
        results: int | None = None,
        location: LocationAttr | None = None,
        **params: Param | Operand,
    ) -> Self:
        """Build the op from operands and Python values for properties; result types are inferred.

        Operands come in the order of their definitions or by name; an optional one that is left
        out, or None, is absent, and a variadic one is a sequence. `results` is the count for ops
        with variadic results.
        Raises VerifyException for operands that do not fit; they then have no use by the op."""
        groups, properties = cls._sorted(operands, params)
        flat = [v for group in groups for v in group]
        if cls.operand_slots().segmented:
            properties[SEGMENTS] = segments(*map(len, groups))
        count = len(cls.get_irdl_definition().results) if results is None else results
        op = cls.create(
            operands=flat,
            result_types=[UNKNOWN] * count,
            properties=properties,
            regions=regions,
            location=location,
        )
        try:
            op.check_stored()
            inferred = op.infer()
        except Exception:
            op.drop_all_references()
            raise
        for value, t in zip(op.results, inferred, strict=True):
            set_type(value, t)
        return op

    @classmethod
    @cache
    def operand_slots(cls) -> "Slots":
        """The operand definitions of the class."""
        definition = cls.get_irdl_definition()
        return Slots(
            {name: i for i, (name, _) in enumerate(definition.operands)},
            tuple(isinstance(d, VarOperandDef) for _, d in definition.operands),
            any(isinstance(o, AttrSizedOperandSegments) for o in definition.options),
        )

    @classmethod
    def _sorted(
        cls, operands: Sequence[Operand], params: Mapping[str, Param | Operand]
    ) -> tuple[list[Sequence[SSAValue]], dict[str, Attribute]]:
        """The values of each operand definition, and the properties."""
        slots, properties = cls.operand_slots(), dict[str, Attribute]()
        places, optional = slots.names, slots.optional
        if len(operands) > len(places):
            raise ValueError(f"{cls.name} has {len(places)} operands, {len(operands)} were given")
        groups = [_values(o) for o in operands] + [()] * (len(places) - len(operands))
        for name, value in params.items():
            if (place := places.get(name)) is not None:
                groups[place] = _values(cast(Operand, value))
            elif (built := attribute(cast(Param, value))) is not None:
                properties[name] = built
        for name, place in places.items():
            if not groups[place] and not optional[place]:
                raise ValueError(f"{cls.name} needs its operand '{name}'")
        return groups, properties

    def ints(self, name: str) -> tuple[int, ...] | None:
        """The integers of property `name`, or of the constant operand that stands for it
        (see `PARAMETERS`); None when they are known only at run time or absent."""
        attr = self.properties.get(name)
        if isinstance(attr, IntegerAttr):
            return (attr.value.data,)
        if isinstance(attr, DenseArrayBase):
            return array_ints(cast(Attribute, attr))
        for operand, prop in self.PARAMETERS.items():
            value = cast(SSAValue | None, getattr(self, operand))
            if prop == name and value is not None:
                return constant_ints(value)
        return None

    def check_stored(self) -> None:
        """Raises VerifyException for an operand that the op would have to compute with, and whose
        type is only stored."""
        if self.TAKES_STORED or self.ACCESS in MOVING:
            return
        for value in self.operands:
            check_computed(getattr(value.type, "element_type", value.type))

    def verify_parameters(self) -> None:
        """Each parameter is given at most once, as property or as operand."""
        for operand, prop in self.PARAMETERS.items():
            if prop in self.properties and getattr(self, operand) is not None:
                raise VerifyException(f"'{prop}' is given both as attribute and as operand")

    def verify_(self) -> None:
        self.verify_parameters()
        self.check_stored()
        inferred = self.infer()
        if len(inferred) != len(self.results):
            raise VerifyException(f"expected {len(inferred)} results, got {len(self.results)}")
        for i, (result, t) in enumerate(zip(self.results, inferred, strict=True)):
            if not is_refinement(t, result.type):
                raise VerifyException(
                    f"result {i} has type {result.type}, but {t} follows from the operands"
                )
