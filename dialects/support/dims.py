"""Sizes that are known only at run time: their names, the values they may have, and sums with them.

A dimension has a name, which may be an expression of others, as exporters write them: the size of
`past + 1` follows from that of `past`, `2*batch` from `batch`. A `Polynomial` is a sum of products
of dimensions, as the bytes of a tensor are: `256 * batch * past + 256 * batch`. `Relations` say
which dimensions follow from others: `mask` is `past + 1`, as a user says it (`--dim mask=past+1`)
or as the ops of a graph want it (`relate_dims.py`).

An `Extent` is a number that remembers the expression that it follows from.

    n = Extent(100003, Polynomial.named("batch"))
    16 * n + 1                    # 1600049, and "16 * batch + 1"
    ceil(n / 64)                  # 1563, and "(batch + 63) // 64"
    n % 16 == 0                   # false: no size is a multiple of anything but its factors

Code written for known sizes serves unknown ones as well if it is given extents in place of sizes:
it takes the paths for large sizes of no special kind, and numbers that depend on sizes say how. An
extent is equal to one of the same expression, never to a number.
"""

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from math import gcd
from typing import Any, Generic, TypeVar

from ge.dialects.support.errors import GeError


@dataclass(frozen=True, slots=True)
class Range:
    """Sizes from `least` to `most`; None: there is no largest."""

    least: int = 0
    most: int | None = None

    def __contains__(self, size: object) -> bool:
        return isinstance(size, int) and self.least <= size <= (
            size if self.most is None else self.most
        )

    def __str__(self) -> str:
        return f"{self.least}.." if self.most is None else f"{self.least}..{self.most}"


@dataclass(frozen=True, slots=True)
class Relation:
    """The size of a dimension as an expression of others: `past + 1`."""

    text: str

    def __str__(self) -> str:
        return self.text


T = TypeVar("T")

OPERATIONS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)

LONGEST = 200  # characters of a name that is looked at


@cache
def parsed(text: str) -> ast.expr | None:
    """A number, a name, or a sum, difference, product or quotient of them; None for anything else.
    `x[0]` is a name: dimension 0 of an input whose dimensions have none."""
    try:
        body = ast.parse(text.strip(), mode="eval").body
        return body if _is_known(body) else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_known(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(left, op, right):
            return isinstance(op, OPERATIONS) and _is_known(left) and _is_known(right)
        case ast.Constant(value):
            return type(value) is int
        case _:
            return _symbol(node) is not None


def _symbol(node: ast.expr) -> str | None:
    match node:
        case ast.Name(name):
            return name
        case ast.Subscript(ast.Name(name), ast.Constant(int(axis))):
            return f"{name}[{axis}]"
        case _:
            return None


def expression(name: str) -> ast.BinOp | None:
    """The sum or product that a name is; None for a plain name, or anything else."""
    body = parsed(name) if len(name) <= LONGEST else None
    return body if isinstance(body, ast.BinOp) else None


def symbols(name: str) -> tuple[str, ...]:
    """The names that the size of a dimension follows from: its own, unless it is an expression."""
    body = expression(name)
    if body is None:
        return (name,)
    return tuple(dict.fromkeys(_leaves(body)))


def _leaves(node: ast.expr) -> Iterator[str]:
    if (name := _symbol(node)) is not None:
        yield name
    elif isinstance(node, ast.BinOp):
        yield from _leaves(node.left)
        yield from _leaves(node.right)


def is_expression(text: str) -> bool:
    """True if the text is a name, or a sum or product of names and numbers."""
    return len(text) <= LONGEST and (body := parsed(text)) is not None and any(_leaves(body))


def size_of(name: str, sizes: Mapping[str, int]) -> int | None:
    """The size of a dimension where those of its symbols, or its own, are known."""
    if name in sizes:
        return sizes[name]
    body = expression(name)
    return None if body is None else evaluated(body, sizes.get, NUMBERS)


def value_of(text: str, sizes: Mapping[str, int]) -> int | None:
    """The value of an expression where the sizes of its symbols are known."""
    body = parsed(text)
    return None if body is None else evaluated(body, sizes.get, NUMBERS)


def evaluated(
    node: ast.expr, symbol: Callable[[str], T | None], arithmetic: "Arithmetic[T]"
) -> T | None:
    """The value of an expression with these values of symbols; None where one has none."""
    if (name := _symbol(node)) is not None:
        return symbol(name)
    if isinstance(node, ast.Constant):
        return arithmetic.number(node.value) if isinstance(node.value, int) else None
    assert isinstance(node, ast.BinOp)
    a, b = (evaluated(side, symbol, arithmetic) for side in (node.left, node.right))
    if a is None or b is None:
        return None
    return arithmetic.operations[type(node.op)](a, b)


@dataclass(frozen=True)
class Arithmetic(Generic[T]):
    """What expressions are evaluated to: a value for a number, and for each of OPERATIONS."""

    number: Callable[[int], T]
    operations: Mapping[type[ast.operator], Callable[[T, T], T | None]]


NUMBERS = Arithmetic[int](
    int,
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.FloorDiv: lambda a, b: a // b if b else None,
    },
)


def with_related(sizes: Mapping[str, int], relations: Mapping[str, str]) -> dict[str, int]:
    """Sizes, and those that follow from them where a dimension has the size of an expression of
    others. Raises GeError where they contradict each other."""
    result = dict(sizes)
    for _ in relations:  # in any order
        before = len(result)
        for name, text in relations.items():
            if (size := value_of(text, result)) is not None:
                if result.setdefault(name, size) != size:
                    what = f"dimension '{name}' is {result[name]}, and '{text}' is {size}"
                    raise GeError(what, hint=f"'{name}' is '{text}' in every run")
            elif name in result and (found := _solved(text, result[name], result)) is not None:
                result |= found
        if len(result) == before:
            break
    return result


def _solved(text: str, size: int, sizes: Mapping[str, int]) -> dict[str, int] | None:
    """The one symbol of an expression that has no size yet, where it is to have this value."""
    missing = [s for s in symbols(text) if s not in sizes]
    if len(missing) != 1:
        return None
    none, one = (value_of(text, {**sizes, missing[0]: n}) for n in (0, 1))
    if none is None or one is None or one == none or (size - none) % (one - none):
        return None
    found = {missing[0]: (size - none) // (one - none)}
    return found if value_of(text, {**sizes, **found}) == size else None


Ends = tuple[int, int]  # the least and the largest value, or beyond


def most(text: str, ranges: Mapping[str, Range]) -> int | None:
    """A number that no value of an expression is above, where sizes are in these ranges; None where
    there is none. Each use of a symbol counts for itself."""

    def ends_of(name: str) -> Ends | None:
        known = ranges.get(name)
        return None if known is None or known.most is None else (known.least, known.most)

    body = parsed(text)
    ends = None if body is None else evaluated(body, ends_of, INTERVALS)
    return None if ends is None else ends[1]


def _corners(operation: Callable[[int, int], int], a: Ends, b: Ends) -> Ends:
    values = [operation(x, y) for x in a for y in b]
    return min(values), max(values)


INTERVALS = Arithmetic[Ends](
    lambda number: (number, number),
    {
        ast.Add: partial(_corners, int.__add__),
        ast.Sub: partial(_corners, int.__sub__),
        ast.Mult: partial(_corners, int.__mul__),
        ast.FloorDiv: lambda a, b: _corners(int.__floordiv__, a, b) if b[0] > 0 else None,
    },
)


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A sum of products of atoms, each with a factor; an atom is a name, or a quotient in
    brackets. `is_bound`: what it is for may be less."""

    terms: tuple[tuple[tuple[str, ...], int], ...] = ()
    is_bound: bool = field(default=False, compare=False)

    @staticmethod
    def of(number: int) -> "Polynomial":
        return _polynomial([((), number)], False)

    @staticmethod
    def named(
        name: str, relations: "Mapping[str, Polynomial] | None" = None
    ) -> "Polynomial | None":
        """The size of a dimension, whose name may be a sum or product, with these sizes in the
        place of names; None for a name that no expression can have."""
        if relations and name in relations:
            return relations[name]

        def size(symbol: str) -> Polynomial:
            known = None if relations is None else relations.get(symbol)
            return Polynomial((((symbol,), 1),)) if known is None else known

        body = parsed(name)
        return None if body is None else evaluated(body, size, POLYNOMIALS)

    @property
    def number(self) -> int | None:
        """The value of an expression without atoms; None for others."""
        if not self.terms:
            return 0
        ((atoms, factor), *others) = self.terms
        return None if atoms or others else factor

    def at_most(self) -> "Polynomial":
        return Polynomial(self.terms, True)

    def __add__(self, other: "Polynomial | int") -> "Polynomial":
        other = other if isinstance(other, Polynomial) else Polynomial.of(other)
        return _polynomial((*self.terms, *other.terms), self.is_bound or other.is_bound)

    def __mul__(self, other: "Polynomial | int") -> "Polynomial":
        other = other if isinstance(other, Polynomial) else Polynomial.of(other)
        terms = [((*a, *b), m * n) for a, m in self.terms for b, n in other.terms]
        return _polynomial(terms, self.is_bound or other.is_bound)

    def __floordiv__(self, number: int) -> "Polynomial":
        """Quotient by a positive number, rounded down."""
        if all(factor % number == 0 for _, factor in self.terms):
            return Polynomial(tuple((a, f // number) for a, f in self.terms), self.is_bound)
        if self.number is not None:
            return Polynomial.of(self.number // number)
        text = str(self) if len(self.terms) == 1 and self.terms[0][1] > 0 else f"({self})"
        return Polynomial((((f"({text} // {number})",), 1),), self.is_bound)

    def divided(self, other: "Polynomial") -> "Polynomial | None":
        """Quotient, rounded down, by something positive: a number, or a product of atoms that each
        term has; None for any other divisor."""
        if (number := other.number) is not None:
            if number <= 0:
                return None
            whole = [(a, f // number) for a, f in self.terms if f % number == 0]
            rest = _polynomial([(a, f) for a, f in self.terms if f % number], self.is_bound)
            if rest.terms and all(f < 0 for _, f in rest.terms):  # as exporters round up
                return _polynomial(whole, self.is_bound) + (rest * -1 + (number - 1)) // number * -1
            return _polynomial(whole, self.is_bound) + rest // number
        if len(other.terms) != 1:
            return None
        ((atoms, factor),) = other.terms
        found: list[tuple[tuple[str, ...], int]] = []
        for own, f in self.terms:
            left = list(own)
            for atom in atoms:
                if atom not in left:
                    return None
                left.remove(atom)
            if f % factor:
                return None
            found.append((tuple(left), f // factor))
        return _polynomial(found, self.is_bound)

    @property
    def divisor(self) -> int:
        """A number that divides it, whatever its atoms are."""
        return gcd(*(factor for _, factor in self.terms))

    def __str__(self) -> str:
        """The text of the expression as Python writes it."""
        text = ""
        for atoms, factor in sorted(self.terms, key=lambda term: term[1] < 0):
            sign = "-" if factor < 0 else "+"
            text += f" {sign} " if text else "0 - " * (factor < 0)
            shown = (str(abs(factor)),) if abs(factor) != 1 or not atoms else ()
            text += " * ".join((*shown, *atoms))
        return text or "0"


POLYNOMIALS = Arithmetic[Polynomial](
    Polynomial.of,
    {
        ast.Add: lambda a, b: a + b,
        ast.Sub: lambda a, b: a + b * -1,
        ast.Mult: lambda a, b: a * b,
        ast.FloorDiv: lambda a, b: a // b.number if b.number else None,
    },
)


def _polynomial(terms: Iterable[tuple[tuple[str, ...], int]], is_bound: bool) -> Polynomial:
    factors: dict[tuple[str, ...], int] = {}
    for atoms, factor in terms:
        atoms = tuple(sorted(atoms))
        factors[atoms] = factors.get(atoms, 0) + factor
    ordered = sorted(factors.items(), key=lambda term: (-len(term[0]), term[0]))
    return Polynomial(tuple((a, f) for a, f in ordered if f), is_bound)


class Extent(int):
    """A size, and the polynomial of dimensions that it is."""

    size: Polynomial

    def __new__(cls, number: int, size: Polynomial) -> "Extent":
        new = super().__new__(cls, number)
        new.size = size
        return new

    @property
    def divisor(self) -> int:
        """A number that divides it, whatever the dimensions are."""
        return self.size.divisor

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int):
            return NotImplemented
        return isinstance(other, Extent) and self.size == other.size

    def __ne__(self, other: object) -> bool:
        if not isinstance(other, int):
            return NotImplemented
        return not self == other

    def __hash__(self) -> int:
        return hash(self.size)

    def __str__(self) -> str:
        return f"⟨{self.size}⟩"

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return str(self) if not spec else super().__format__(spec)

    def __neg__(self) -> int:
        return known(-int(self), self.size * -1)

    def __add__(self, other: Any) -> Any:
        return combined(int.__add__, lambda a, b: a + b, self, other)

    def __radd__(self, other: Any) -> Any:
        return combined(int.__add__, lambda a, b: a + b, other, self)

    def __sub__(self, other: Any) -> Any:
        return combined(int.__sub__, lambda a, b: a + b * -1, self, other)

    def __rsub__(self, other: Any) -> Any:
        return combined(int.__sub__, lambda a, b: a + b * -1, other, self)

    def __mul__(self, other: Any) -> Any:
        return combined(int.__mul__, lambda a, b: a * b, self, other)

    def __rmul__(self, other: Any) -> Any:
        return combined(int.__mul__, lambda a, b: a * b, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return combined(int.__floordiv__, Polynomial.divided, self, other)

    def __mod__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        return self - self // other * other

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __truediv__(self, other: Any) -> Any:
        return Ratio(self, other) if isinstance(other, int) else int(self) / other


class Ratio(float):
    """A quotient that also knows its value as a whole number."""

    dividend: int
    divisor: int

    def __new__(cls, dividend: int, divisor: int) -> "Ratio":
        new = super().__new__(cls, int(dividend) / int(divisor))
        new.dividend, new.divisor = dividend, divisor
        return new

    def __ceil__(self) -> int:
        return (self.dividend + (self.divisor - 1)) // self.divisor

    def __floor__(self) -> int:
        return self.dividend // self.divisor


def known(number: int, size: Polynomial) -> int:
    """The extent, or the number where it depends on no dimension."""
    return Extent(number, size) if size.number is None else size.number


def polynomial_of(number: int) -> Polynomial:
    return number.size if isinstance(number, Extent) else Polynomial.of(number)


OF_FLOATS: dict[Callable[[int, int], int], Callable[[float, float], float]] = {
    int.__add__: operator.add,
    int.__sub__: operator.sub,
    int.__mul__: operator.mul,
    int.__floordiv__: lambda a, b: a // b,
}


def combined(
    numbers: Callable[[int, int], int],
    sizes: Callable[[Polynomial, Polynomial], Polynomial | None],
    a: Any,
    b: Any,
) -> Any:
    """Result of an operation on two numbers; a plain number if no polynomial is known for it."""
    if not isinstance(a, int) or not isinstance(b, int):
        if isinstance(a, float) or isinstance(b, float):
            return OF_FLOATS[numbers](*(int(x) if isinstance(x, int) else x for x in (a, b)))
        return NotImplemented
    number, size = numbers(int(a), int(b)), sizes(polynomial_of(a), polynomial_of(b))
    return number if size is None else known(number, size)


@dataclass
class Relations:
    """Sizes of dimensions by name; no name that has one stands in the size of another."""

    sizes: dict[str, Polynomial] = field(default_factory=dict[str, Polynomial])

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> "Relations":
        """Raises GeError where a dimension leads back to itself."""
        relations = cls()
        for name, text in texts.items():
            size = relations.substituted(Polynomial.named(text))
            if size is None or name in symbols(str(size)):
                what = f"--dim {name}={text}: the size of '{name}' follows from itself"
                raise GeError(what, hint="state dimensions by those that are left open")
            relations.add(name, size)
        return relations

    def add(self, name: str, size: Polynomial) -> None:
        """A dimension that no other one here follows to be, and the size that it has."""
        new = {name: size}
        for other, known in self.sizes.items():
            self.sizes[other] = Polynomial.named(str(known), new) or known
        self.sizes |= new

    def substituted(self, size: Polynomial | None) -> Polynomial | None:
        return None if size is None else Polynomial.named(str(size), self.sizes)

    def named(self, name: str) -> str:
        """The name that a dimension has where sizes that follow stand in the place of names."""
        known = (name, *symbols(name))
        if name and any(n in self.sizes for n in known):
            size = Polynomial.named(name, self.sizes)
            return name if size is None else str(size)
        return name

    @property
    def texts(self) -> dict[str, str]:
        return {name: str(size) for name, size in self.sizes.items()}

    def source(self, text: str) -> str | None:
        """A dimension that has this size."""
        return next((name for name, size in self.texts.items() if size == text), None)
