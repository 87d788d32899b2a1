"""The base of all ops on tensors. An author states operands and properties (IRDL), result types
(`infer`) and facts, and adds the interfaces below for further rewrites that passes may do with
the op: they ask for these with `isinstance`.

An op is added by writing one class (here), one kernel (`runtime/numbers`) and one test. Its
canonicalization patterns stand above the dialects (they fold with kernels), which therefore only
ask for them: `-canonicalize` of every tool that has ge's passes applies them, as do ge's passes
`simplify-...`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import ClassVar, Self, TypeAlias, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
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
from xdsl.irdl import (
    AttrConstraint,
    AttrSizedOperandSegments,
    VarOperandDef,
    prop_def,
    var_operand_def,
)
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import ConditionallySpeculatable, HasCanonicalizationPatternsTrait
from xdsl.utils.exceptions import VerifyException

from ge.dialects.support.boxes import (
    Access,
    Box,
    BoxInterface,
    InPlaceInterface,
    Rows,
    Unknown,
    aligned_axes,
    aligned_box,
    rows_along,
)
from ge.dialects.support.constraints import ANY, ChoiceConstraint
from ge.dialects.support.definitions import SEGMENTS, verify_operands, verify_property
from ge.dialects.support.element_types import is_integer
from ge.dialects.support.operation import (
    GeOp,
    block_of,
    created,
    initialize,
    operands_of,
    segments,
)
from ge.dialects.support.types import (
    UNKNOWN,
    array_ints,
    constant_ints,
    element_type,
    is_ranked,
    is_refinement,
    is_static,
    set_type,
    shape_of,
    tensor,
)

Param = Attribute | bool | int | float | str | Sequence[int] | Sequence[float] | None
"""A Python value that `attribute` turns into an attribute."""

Operand = SSAValue | Operation | Sequence[SSAValue] | None
"""What `InferenceInterface.of` takes for an operand definition."""

_UNKNOWN_LOC = UnknownLoc()


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


def name_loc(name: str) -> LocationAttr:
    """The location of something that a model names: `loc("name")`. There is one for each node, and
    nothing about it to be verified, which would take most of the time."""
    loc = NameLoc.__new__(NameLoc)
    object.__setattr__(loc, "desc", StringAttr(name))
    object.__setattr__(loc, "location", _UNKNOWN_LOC)
    return loc


@dataclass(frozen=True, slots=True)
class Slots:
    """The definitions of an op class that `InferenceInterface.of` asks for again and again."""

    names: Mapping[str, int]
    optional: Sequence[bool]  # whether it may be absent, or have several values
    segmented: bool  # whether an op states how many operands belong to each
    properties: Mapping[str, AttrConstraint]


def _values(operand: Operand) -> Sequence[SSAValue]:
    if operand is None:
        return ()
    if isinstance(operand, SSAValue):
        return (operand,)
    return operand.results if isinstance(operand, Operation) else operand


class InferenceInterface(GeOp):
    """Ops that infer their result types, which is also how they are verified."""

    PARAMETERS: ClassVar[Mapping[str, str]] = {}
    """Optional operand -> the property that holds the same value when it is constant.
    Exactly one of the two is present; folding turns the first into the second."""

    @abstractmethod
    def infer(self) -> Sequence[Attribute]:
        """The result types that follow from operands and attributes, `?` where unknown.
        Operands are as the definition says. Raises VerifyException when they contradict each
        other."""

    def inferred(self) -> Sequence[Attribute]:
        """Result types like those of `infer`, for operands of any types. Raises VerifyException."""
        verify_operands(self)
        return self.infer()

    def with_sizes(self, sizes: Callable[[SSAValue], Sequence[int] | None]) -> Self:
        """Return the op on operands of these sizes, where types leave them open (None: still), with
        the result types that follow. It stands nowhere, and leaves no uses of values. Raises
        VerifyException if it does not take the sizes."""

        def static(value: SSAValue) -> SSAValue:
            if is_ranked(value) and is_static(shape_of(value)):
                return value
            shape = sizes(value)
            if shape is None:
                return value
            return block_of([tensor(shape, element_type(value))]).args[0]

        kind, types = type(self), [r.type for r in self.results]
        made = kind.__new__(kind)
        initialize(made, map(static, operands_of(self)), types, dict(self.properties))
        try:
            inferred = made.inferred()
        finally:
            made.drop_all_references()  # it knows its operands, which do not know of it
        for result, of in zip(made.results, inferred, strict=True):
            set_type(result, of)
        return made

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
        Raises VerifyException for operands and properties that do not fit; operands then have no
        use by the op."""
        groups, properties = cls._sorted(operands, params)
        flat = [v for group in groups for v in group]
        if cls.operand_slots().segmented:
            properties[SEGMENTS] = segments(*map(len, groups))
        count = len(cls.get_irdl_definition().results) if results is None else results
        op = created(cls, flat, [UNKNOWN] * count, properties, regions)
        if location is not None:
            op.location = location
        try:
            inferred = op.inferred()
        except Exception:
            op.drop_all_references()
            raise
        for value, t in zip(op.results, inferred, strict=True):
            set_type(value, t)
        return op

    def with_operands(
        self, operands: Sequence[SSAValue], types: Sequence[Attribute] | None = None
    ) -> Self:
        """The same op on other operands, of which its result types follow, unless they are
        given."""
        if types is not None:
            return created(type(self), operands, types, dict(self.properties))
        unknown = [UNKNOWN] * len(self.results)
        op = created(type(self), operands, unknown, dict(self.properties))
        for value, t in zip(op.results, op.inferred(), strict=True):
            set_type(value, t)
        return op

    @classmethod
    @cache
    def operand_slots(cls) -> Slots:
        definition = cls.get_irdl_definition()
        return Slots(
            {name: i for i, (name, _) in enumerate(definition.operands)},
            tuple(isinstance(d, VarOperandDef) for _, d in definition.operands),
            any(isinstance(o, AttrSizedOperandSegments) for o in definition.options),
            {name: d.constr for name, d in definition.properties.items()},
        )

    @classmethod
    def _sorted(
        cls, operands: Sequence[Operand], params: Mapping[str, Param | Operand]
    ) -> tuple[list[Sequence[SSAValue]], dict[str, Attribute]]:
        slots, properties = cls.operand_slots(), dict[str, Attribute]()
        names, optional = slots.names, slots.optional
        if len(operands) > len(names):
            raise ValueError(f"{cls.name} has {len(names)} operands, {len(operands)} were given")
        groups = [_values(o) for o in operands] + [()] * (len(names) - len(operands))
        for name, value in params.items():
            if (index := names.get(name)) is not None:
                groups[index] = _values(cast(Operand, value))
                continue
            constr = slots.properties.get(name)
            if isinstance(value, str) and isinstance(constr, ChoiceConstraint):
                properties[name] = constr.attr.of(value, name)
            elif (built := attribute(cast(Param, value))) is not None:
                properties[name] = built
                if constr is not None:
                    verify_property(name, constr, built)
        for name, index in names.items():
            if not groups[index] and not optional[index]:
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
            if prop == name:
                value = cast(SSAValue | None, getattr(self, operand))
                return None if value is None else constant_ints(value)
        return None

    def verify_(self) -> None:
        for operand, prop in self.PARAMETERS.items():
            if prop in self.properties and getattr(self, operand) is not None:
                raise VerifyException(f"'{prop}' is given both as attribute and as operand")
        inferred = self.infer()
        if len(inferred) != len(self.results):
            raise VerifyException(f"expected {len(inferred)} results, got {len(self.results)}")
        for i, (result, t) in enumerate(zip(self.results, inferred, strict=True)):
            if not is_refinement(t, result.type):
                raise VerifyException(
                    f"result {i} has type {result.type}, but {t} follows from the operands"
                )


class SpeculatableUnlessItFails(ConditionallySpeculatable):
    """Generic passes may run the op where it did not run before (before a loop that may have no
    iterations) if its kernel refuses no values."""

    @classmethod
    def is_speculatable(cls, op: Operation) -> bool:
        return isinstance(op, TensorOp) and not op.can_fail()


class TensorOp(InferenceInterface, InPlaceInterface):
    """An op on tensors that infers its result types and states its work.

    Of the interfaces below it has none: rows, splitting, other orders of dimensions.
    """

    # whether an operand has indices of elements; the kernel refuses those out of range
    TAKES_INDICES: ClassVar[bool] = False
    # whether it multiplies matrices, and what follows may join its launch
    IS_MATMUL: ClassVar[bool] = False
    # whether it scales rows by their statistics, and ops around it may join its launch
    NORMALIZES: ClassVar[bool] = False
    # how many of the first operands may be narrow floats: the kernel computes with them in float32
    # and rounds its result once
    ROUNDED_ONCE: ClassVar[int] = 0
    # whether the vector unit has no instructions for it: what it runs instead would hold up the
    # cube
    VECTOR_PROGRAM: ClassVar[bool] = False

    def index_operands(self) -> Sequence[SSAValue]:
        """The operands that are indices or numbers of elements, which the kernel refuses where they
        are out of range."""
        others = self.operands[1:] if self.TAKES_INDICES else ()
        return [v for v in others if is_integer(element_type(v))]

    def can_fail(self) -> bool:
        """True if the kernel may refuse values that are known only at run time. Such an op must not
        run where it did not run before."""
        if self.TAKES_INDICES or any(getattr(self, name) is not None for name in self.PARAMETERS):
            return True
        return not all(
            isinstance(v.type, TensorType) and is_static(shape_of(v))
            for v in (*self.operands, *self.results)
        )


class RowsInterface(TensorOp, ABC):
    """Ops on independent rows of elements of the first operand."""

    ACCESS: ClassVar = Access.ROWS

    @abstractmethod
    def row_axes(self) -> Collection[int] | None:
        """The axes along which rows are, counted from the front; None when they are not known."""

    def rows(self) -> Rows | None:
        """The rows; None when it is not known where they are."""
        axes = self.row_axes()
        return None if axes is None else rows_along(shape_of(operands_of(self)[0]), axes)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        """The box of an operand: all of each row; other operands broadcast. A result without the
        axes has the others in their order."""
        axes, shape = self.row_axes(), shape_of(operands_of(self)[index])
        if axes is None:
            return None
        if index:
            return aligned_box(box, shape)
        if len(shape) == len(box.sizes):
            return box.along(shape, axes)
        return Box.part(
            shape, dict(zip((i for i in range(len(shape)) if i not in axes), box.spans))
        )

    def local_parts(self, index: int) -> int | None:
        rows = self.rows() if index == 0 else None
        return None if rows is None else rows.parts


def rows_of(op: Operation) -> Rows | None:
    """The rows that an op works on, None where there are none or they are not known."""
    return op.rows() if isinstance(op, RowsInterface) else None


class SplitInterface(TensorOp):
    """Ops that can be split along an axis of their results."""

    def is_same_op(self, axis: int) -> bool:
        """True if the op, unchanged, computes a part of the result, cut along an axis, when it is
        given the parts of operands that this part needs."""
        return True

    def split_axes(self, axis: int) -> tuple[int | None, ...] | None:
        """Cut all results along `axis` (counted from the front): for each operand, return the axis
        along which part i of the results needs part i of it alone, None where each part needs all
        of it. None altogether when the parts are not independent, or another op would have to
        compute them."""
        if not self.is_same_op(axis):
            return None
        shape, part, axes = shape_of(self.results[0]), Unknown(), list[int | None]()
        if is_plainly_pointwise(self):
            aligned = aligned_axes(axis, len(shape), operands_of(self))
            return aligned if shape[axis] == 1 or aligned.count(None) < len(aligned) else None
        box = Box.part(shape, {axis: (part, 1)})
        for index in range(len(operands_of(self))):
            needed = self.operand_box(index, box)
            cuts = [] if needed is None else [s for s in needed.spans if not isinstance(s[0], int)]
            if needed is None or not cuts:
                axes.append(None)
            elif cuts == [(part, 1)]:
                axes.append(needed.offsets.index(part))
            else:
                return None
        is_cut = shape[axis] == 1 or any(own is not None for own in axes)
        return tuple(axes) if is_cut else None


def is_plainly_pointwise(op: TensorOp) -> bool:
    """True if operands broadcast to the results, and boxes are those of any such op."""
    if op.ACCESS is not Access.POINTWISE:
        return False
    rank = len(shape_of(op.results[0]))
    if any([len(shape_of(v)) > rank for v in operands_of(op)]):
        return False
    return type(op).operand_box is BoxInterface.operand_box


def split_axes(op: Operation, axis: int) -> tuple[int | None, ...] | None:
    """Split axes as `SplitInterface.split_axes` gives them; None for any other op."""
    return op.split_axes(axis) if isinstance(op, SplitInterface) else None


class ResizeInterface(TensorOp, ABC):
    """Ops that state the sizes of their result, and compute a part of it when they state those of
    the part."""

    @abstractmethod
    def part_axis(self, axis: int) -> int | None:
        """The axis of the only operand along which part i of the result, cut along `axis`, needs
        part i; None if there is none of that extent."""

    @abstractmethod
    def resize(self, whole: TensorOp) -> None:
        """State the sizes of the part, after the operand has become a part of that of `whole`."""


class SliceInterface(TensorOp, ABC):
    """Ops whose results may be boxes of elements of the first operand."""

    @abstractmethod
    def part_starts(self) -> Sequence[Sequence[int]] | None:
        """For each result the index of its first element in operand 0, if it is a box of that
        operand's elements; None otherwise. Shapes are static."""


@dataclass(frozen=True, slots=True)
class Permuted:
    """The equivalent of an op on operands whose dimensions are in another order: which operands (by
    number; the others stay), with which properties, and in which order the dimensions of the
    results are then. Dimension i of a permuted value is dimension order[i] of the value."""

    operands: Sequence[int]
    order: Sequence[int]
    params: Mapping[str, Param]


class PermuteInterface(TensorOp, ABC):
    """Ops that take operands whose dimensions are in another order."""

    @abstractmethod
    def permuted(self, order: Sequence[int]) -> Permuted | None:
        """The op for operands whose dimensions are in this order, None when it needs the one that
        they have. An operand of fewer dimensions counts as one with ones in front."""


class IndexMap(GeOp, ABC):
    """The number of the row of `table` that has the sizes of the inputs: of input i along its axis
    `axes[i]`. For sizes that no row has, the number of rows (where a `graph.case` may have a branch
    for all other sizes)."""

    inputs = var_operand_def(ANY)
    axes = prop_def(DenseArrayBase.constr(i64))
    table = prop_def(ArrayAttr)

    @property
    def rows(self) -> list[tuple[int, ...]]:
        rows = cast("Sequence[Attribute]", self.table.data)
        return [array_ints(row) for row in rows if row.name == DenseArrayBase.name]

    @property
    def measured(self) -> Sequence[int]:
        return array_ints(self.axes)

    def row_of(self, shapes: Sequence[Sequence[int]]) -> int:
        sizes = tuple(s[a] for s, a in zip(shapes, self.measured, strict=True))
        rows = self.rows
        return rows.index(sizes) if sizes in rows else len(rows)

    def check(self) -> None:
        rows, axes = self.rows, self.measured
        if len(rows) != len(self.table.data) or not rows:
            raise VerifyException("the table is a list of rows of sizes (array<i64: ...>)")
        if len(axes) != len(self.inputs):
            raise VerifyException(f"{len(self.inputs)} inputs need as many axes, not {len(axes)}")
        for i, row in enumerate(rows):
            if len(row) != len(axes):
                raise VerifyException(f"row {i} has {len(row)} sizes for {len(axes)} inputs")
        if len(set(rows)) < len(rows):
            twice = next(r for r in rows if rows.count(r) > 1)
            raise VerifyException(f"the table has {list(twice)} twice")
        for value, axis in zip(self.inputs, axes, strict=True):
            if not 0 <= axis < (rank := len(shape_of(value))):
                raise VerifyException(f"axis {axis} is none of {value.type}, which has {rank}")


def table_of(rows: Sequence[Sequence[int]]) -> ArrayAttr[DenseArrayBase]:
    return ArrayAttr([DenseArrayBase.from_list(i64, row) for row in rows])


Patterns: TypeAlias = Callable[[type[Operation]], tuple[RewritePattern, ...]]

_load: list[Callable[[], Patterns]] = []


def provide(load: Callable[[], Patterns]) -> None:
    """State where the patterns are; `load` imports them when they are asked for first."""
    _load[:] = [load]


class Canonicalized(HasCanonicalizationPatternsTrait):
    """The patterns that ge has for ops of this class. A plug-in's op may have its own besides."""

    def get_patterns(self, op: type[Operation]) -> tuple[RewritePattern, ...]:
        return _load[0]()(op) if _load else ()

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return ()  # they depend on the class of the op
