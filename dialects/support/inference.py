"""Building ops whose result types follow from operands and properties."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import ClassVar, Self, cast

from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    LocationAttr,
    NameLoc,
    StringAttr,
    UnknownLoc,
    f64,
    i64,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import AttrConstraint, AttrSizedOperandSegments, VarOperandDef
from xdsl.utils.exceptions import VerifyException

from ge.dialects.support.definitions import SEGMENTS, verify_operands, verify_property
from ge.dialects.support.operation import GeOp, created, segments
from ge.dialects.support.types import UNKNOWN, array_ints, constant_ints, is_refinement, set_type

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
        """As `infer`, of operands of any types. Raises VerifyException."""
        verify_operands(self)
        return self.infer()

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

    def with_operands(self, operands: Sequence[SSAValue]) -> Self:
        """The same op on other operands, of which its result types follow."""
        types = [UNKNOWN] * len(self.results)
        op = created(type(self), operands, types, dict(self.properties))
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
            elif (built := attribute(cast(Param, value))) is not None:
                properties[name] = built
                if (constr := slots.properties.get(name)) is not None:
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
