"""Numbers that a core computes while it runs: what `c.range`, `c.core` and arithmetic on them give.

They are expressions, and become `arith` ops where an instruction uses them.
"""

import operator
from dataclasses import dataclass, field
from math import gcd, prod
from typing import Any, NoReturn, TypeAlias

from ge.dialects.support.boxes import divisor_of
from ge.dialects.support.errors import GeError

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
    """`kind`: an op of `arith`, "constant", "core", "cores", or "loop" for a loop's variable."""

    kind: str
    args: tuple[Any, ...] = ()

    @property
    def divisor(self) -> int:
        """A number that divides this one, whatever it is when the core runs."""
        parts = [divisor_of(a) for a in self.args]
        match self.kind:
            case "addi" | "subi" | "minsi" | "known":
                return gcd(*parts)
            case "muli":
                return prod(parts)
            case _:
                return 1

    def __add__(self, other: Scalar) -> "Index":
        return Index("addi", (self, other))

    def __radd__(self, other: int) -> "Index":
        return Index("addi", (other, self))

    def __sub__(self, other: Scalar) -> "Index":
        return Index("subi", (self, other))

    def __rsub__(self, other: int) -> "Index":
        return Index("subi", (other, self))

    def __mul__(self, other: Scalar) -> "Index":
        return Index("muli", (self, other))

    def __rmul__(self, other: int) -> "Index":
        return Index("muli", (other, self))

    def __floordiv__(self, other: Scalar) -> "Index":
        return Index("floordivsi", (self, other))

    def __mod__(self, other: Scalar) -> "Index":
        """The rest with the sign of the divisor, as Python has it."""
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


@dataclass(frozen=True, eq=False)
class LoopIndex(Index):
    """The variable of a loop, and its value in each program that has the loop."""

    kind: str = "loop"
    values: dict[Any, Any] = field(default_factory=dict[Any, Any])


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
    """A number in device memory, in `span`; with `distinct` at one place alone."""

    box: Any = field(kw_only=True)  # a `values.Box` of one element
    span: range = field(kw_only=True)
    distinct: bool = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class Condition:
    """A comparison of two numbers, or "andi" of two conditions."""

    kind: str
    args: tuple[Any, Any]

    def __and__(self, other: "Condition") -> "Condition":
        return Condition("andi", (self, other))

    def __bool__(self) -> bool:
        _unknown("this condition")


def minimum(a: Scalar, b: Scalar) -> Scalar:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else Index("minsi", (a, b))


def maximum(a: Scalar, b: Scalar) -> Scalar:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else Index("maxsi", (a, b))


def ceil_div(a: Scalar, b: Scalar) -> Scalar:
    return -(-a // b) if isinstance(a, int) and isinstance(b, int) else Index("ceildivsi", (a, b))
