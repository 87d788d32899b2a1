"""Numbers that a core computes while it runs: results of `c.range`, `c.core` and arithmetic on
them.

They are expressions, and become `arith` ops where an instruction uses them.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd, prod
from typing import Any, NoReturn, TypeAlias

from ge.dialects.support.boxes import divisor_of
from ge.dialects.support.errors import GeError
from ge.dialects.tile.instruction import ARITHMETIC, BY_NAME, PREDICATES

Scalar: TypeAlias = "Index | int"


def _unknown(what: str) -> NoReturn:
    hint = "write `with c.when(...)`, or use a parameter of the kernel"
    raise GeError(f"{what} is known when the core runs, not while the kernel is traced", hint=hint)


def whole(number: Any) -> int:
    """A whole number, of Python or numpy. Raises GeError for any other."""
    try:
        return operator.index(number)
    except TypeError:
        text = f"a whole number is wanted, not {number!r}"
        raise GeError(text, hint="divide with // or ceil_div") from None


@dataclass(frozen=True, eq=False)
class Index:
    """`kind`: an op of `arith`, "constant" (of which there is no more than arithmetic that needs no
    core), "core", "cores", or "loop" for a loop's variable."""

    kind: str
    args: tuple[Any, ...] = ()

    @property
    def divisor(self) -> int:
        """A number that divides this one, whatever it is when the core runs."""
        parts = [divisor_of(a) for a in self.args]
        match self.kind:
            case "addi" | "subi" | "minsi" | "remsi" | "known" | "constant":
                return gcd(*parts)
            case "muli":
                return prod(parts)
            case _:
                return 1

    @cached_property
    def key(self) -> Any:
        """A key that is equal for equal expressions."""
        return self.kind, *(a.key if isinstance(a, Index) else a for a in self.args)

    @cached_property
    def loops(self) -> "tuple[LoopIndex, ...]":
        """The loops whose variables the number depends on."""
        return tuple(loop for a in self.args if isinstance(a, Index) for loop in a.loops)

    @cached_property
    def is_natural(self) -> bool:
        """True if it is known to be at least 0."""
        return self.kind != "subi" and all(map(is_natural, self.args))

    def __add__(self, other: Scalar) -> "Index":
        return arithmetic("addi", self, other)

    def __radd__(self, other: int) -> "Index":
        return arithmetic("addi", other, self)

    def __sub__(self, other: Scalar) -> "Index":
        return arithmetic("subi", self, other)

    def __rsub__(self, other: int) -> "Index":
        return arithmetic("subi", other, self)

    def __mul__(self, other: Scalar) -> "Index":
        return arithmetic("muli", self, other)

    def __rmul__(self, other: int) -> "Index":
        return arithmetic("muli", other, self)

    def __floordiv__(self, other: Scalar) -> "Index":
        return arithmetic("floordivsi", self, other)

    def __mod__(self, other: Scalar) -> "Index":
        """The rest with the sign of the divisor, as Python has it."""
        if self.is_natural and isinstance(other, int) and other > 0:
            return arithmetic("remsi", self, other)
        return self - self // other * other

    def __lt__(self, other: Scalar) -> "Condition":
        return Condition("slt", (self, other))

    def __le__(self, other: Scalar) -> "Condition":
        return Condition("sle", (self, other))

    def __gt__(self, other: Scalar) -> "Condition":
        return Condition("sgt", (self, other))

    def __ge__(self, other: Scalar) -> "Condition":
        return Condition("sge", (self, other))

    # As of numpy's arrays, a comparison is a value of its own: known when the core runs.
    def __eq__(self, other: object) -> "Condition":  # type: ignore[override]
        return Condition("eq", (self, other))

    def __ne__(self, other: object) -> "Condition":  # type: ignore[override]
        return Condition("ne", (self, other))

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        _unknown("this number")

    def __index__(self) -> int:
        _unknown("this number")


ZERO = Index("constant", (0,))


def is_natural(number: Scalar) -> bool:
    """True if a number is known to be at least 0."""
    return number.is_natural if isinstance(number, Index) else number >= 0


def number_of(scalar: Scalar) -> int | None:
    """The number, where it is known while the kernel is traced."""
    if type(scalar) is int or not isinstance(scalar, Index):
        return scalar
    return scalar.args[0] if scalar.kind == "constant" else None


def is_once(low: Scalar, high: Scalar, step: Scalar) -> bool:
    """True if a loop is known to have one turn."""
    first, end, by = map(number_of, (low, high, step))
    return first is not None and end is not None and by is not None and first < end <= first + by


KNOWN: dict[str, Callable[[int, int], int]] = {
    **{name: ARITHMETIC[kind] for name, kind in BY_NAME.items()},
    **PREDICATES,
}
"""What is computed of two numbers that are known."""


def arithmetic(kind: str, a: Scalar, b: Scalar) -> Index:
    """`kind` of two numbers: a number where both are known, and one of them where the other changes
    nothing."""
    x, y = number_of(a), number_of(b)
    if x is not None and y is not None and (y or kind not in ("floordivsi", "remsi")):
        return Index("constant", (KNOWN[kind](x, y),))
    match kind, x, y:
        case ("addi" | "subi", _, 0) | ("muli" | "floordivsi", _, 1) if isinstance(a, Index):
            return a
        case ("addi", 0, _) | ("muli", 1, _) if isinstance(b, Index):
            return b
        case ("muli", 0, _) | ("muli", _, 0) | ("floordivsi" | "remsi", 0, _) | ("remsi", _, 1):
            return ZERO
        case _:
            return ZERO if kind == "subi" and a is b else Index(kind, (a, b))


@dataclass(frozen=True, eq=False)
class LoopIndex(Index):
    """The variable of a loop, and its value in each program that has the loop."""

    kind: str = "loop"
    first: Scalar = 0
    values: dict[Any, Any] = field(default_factory=dict[Any, Any])

    @cached_property
    def key(self) -> Any:
        return "loop", id(self)

    @cached_property
    def loops(self) -> "tuple[LoopIndex, ...]":
        return (self,)

    @cached_property
    def is_natural(self) -> bool:
        return is_natural(self.first)


@dataclass(frozen=True, eq=False)
class KnownIndex(Index):
    """A number that was computed before it is used, and its value in each program."""

    values: dict[Any, Any] = field(default_factory=dict[Any, Any])


@dataclass(frozen=True, eq=False)
class SharedIndex(Index):
    """A number that is one core's, of those that cores share; `turn` counts the core's own."""

    turn: Index = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class ReadIndex(Index):
    """A number in device memory, in `span`; with `distinct` at one place alone, with `ascending`
    no less than the one before."""

    box: Any = field(kw_only=True)  # a `values.Box` of one element
    span: range = field(kw_only=True)
    distinct: bool = field(kw_only=True)
    ascending: bool = field(kw_only=True)

    @cached_property
    def key(self) -> Any:
        starts = (a.key if isinstance(a, Index) else a for a in self.box.starts)
        return "read", id(self.box.argument), *starts

    @cached_property
    def loops(self) -> "tuple[LoopIndex, ...]":
        return tuple(loop for a in self.box.starts if isinstance(a, Index) for loop in a.loops)

    @cached_property
    def is_natural(self) -> bool:
        return self.span.start >= 0


@dataclass(frozen=True, eq=False)
class Condition:
    """A comparison of two numbers, or "andi" or "ori" of two conditions."""

    kind: str
    args: tuple[Any, Any]

    def __and__(self, other: "Condition") -> "Condition":
        return Condition("andi", (self, other))

    def __or__(self, other: "Condition") -> "Condition":
        return Condition("ori", (self, other))

    def __invert__(self) -> "Condition":
        if self.kind in OPPOSITE:
            return Condition(OPPOSITE[self.kind], self.args)
        a, b = self.args
        return ~a | ~b if self.kind == "andi" else ~a & ~b

    def __bool__(self) -> bool:
        _unknown("this condition")


OPPOSITE = {"slt": "sge", "sge": "slt", "sle": "sgt", "sgt": "sle", "eq": "ne", "ne": "eq"}


def truth_of(test: Condition | bool) -> bool | None:
    """The truth of a condition, if it is known while the kernel is traced; otherwise None."""
    if isinstance(test, bool):
        return test
    if test.kind in ("andi", "ori"):
        found, one = {truth_of(t) for t in test.args}, test.kind == "ori"
        return one if one in found else None if None in found else not one
    x, y = map(number_of, test.args)
    return None if x is None or y is None else bool(KNOWN[test.kind](x, y))


def minimum(a: Scalar, b: Scalar) -> Scalar:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else Index("minsi", (a, b))


def maximum(a: Scalar, b: Scalar) -> Scalar:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else Index("maxsi", (a, b))


def ceil_div(a: Scalar, b: Scalar) -> Scalar:
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    return a if isinstance(b, int) and b == 1 else Index("ceildivsi", (a, b))
