"""Elementwise expressions as polynomials: a rule matches the function, however it is written.

    0.5 * x * (1 + t),   x * (t * 0.5 + 0.5),   x / 2 + t * (x / 2)

are all 0.5 x + 0.5 x t. `Expansion.of` expands sums, products, quotients and powers down to
*atoms*: values that other ops define, or that it has to stop at. Powers of atoms may be fractional:
sqrt(v) is v^0.5, and x / sqrt(v) is x v^-0.5. Operands of roots and of reciprocals of sums are
atoms.

A polynomial has no shape: constants of one element (or of equal ones, with `splats`) are numbers,
and the rule has to check the shape of the result.

`number_of` is the number of a constant whose elements are all equal; `near` is how near two must
be.
"""

import math
from collections.abc import Collection, Mapping
from functools import lru_cache
from math import isfinite, log2
from typing import TypeAlias

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects import graph as g
from ge.dialects.support.element_types import is_float, is_narrow, row_of
from ge.dialects.support.types import constant_value, element_type, numel, shape_of
from ge.runtime.data.arrays import array_of


def number_of(value: SSAValue) -> float | None:
    """Return the number of a splat constant in the IR; None if it is nan, which equals no
    number."""
    attr = constant_value(value)
    return None if attr is None else splat_number(attr)


@lru_cache(maxsize=4096)
def splat_number(attr: DenseIntOrFPElementsAttr) -> float | None:
    """The number that all elements are; None where they differ, or it is nan."""
    elements = array_of(attr)
    if elements.size == 0 or elements.dtype.kind == "b":
        return None
    first = elements.flat[0]
    if elements.size > 1 and any(elements.strides) and not (elements == first).all():
        return None
    return None if math.isnan(number := float(first)) else number


def tolerance(element: Attribute) -> float:
    """Return how far, relative to it, a constant of an element type may be off the number it stands
    for. Exporters round to the type, and for f32 write seven digits, which is 4 ULPs; such a
    constant in f64 is another number, as all its digits count."""
    row = row_of(element)
    precision = row.precision if row is not None and row.is_float else 24
    return 2.0 ** (1 - precision) if is_narrow(element) else 2.0 ** (3 - precision)


def near(a: float, b: float, relative: float) -> bool:
    return a == b or abs(a - b) <= relative * max(abs(a), abs(b)) < math.inf


Monomial: TypeAlias = frozenset[tuple[SSAValue, float]]
"""A product of atoms, each with its power."""

Polynomial: TypeAlias = dict[Monomial, float]
"""The coefficient of each monomial."""

ONE: Monomial = frozenset()

POLYNOMIAL_OPS = (g.AddOp, g.SubOp, g.MulOp, g.DivOp, g.NegOp, g.PowOp, g.ReciprocalOp, g.SqrtOp)
"""The ops that polynomials are made of."""

MOST_TERMS = 12

MOST_STEPS = 40

MOST_REACHED = 10


def monomial(powers: Mapping[SSAValue, float]) -> Monomial:
    return frozenset((v, p) for v, p in powers.items() if p != 0)


def times(a: Monomial, b: Monomial) -> Monomial:
    powers = dict(a)
    for value, power in b:
        powers[value] = powers.get(value, 0) + power
    return monomial(powers)


def product(a: Polynomial, b: Polynomial) -> Polynomial:
    result: Polynomial = {}
    for m, c in a.items():
        for n, d in b.items():
            key = times(m, n)
            result[key] = result.get(key, 0) + c * d
    return result


def total(a: Polynomial, b: Polynomial, factor: float = 1.0) -> Polynomial:
    """a + factor * b"""
    result = dict(a)
    for m, c in b.items():
        result[m] = result.get(m, 0) + factor * c
    return {m: c for m, c in result.items() if c != 0}


def same(a: Polynomial, b: Polynomial, relative: float) -> bool:
    """Return whether two polynomials are equal up to rounding of the coefficients."""
    return a.keys() == b.keys() and all(near(c, b[m], relative) for m, c in a.items())


def powers(value: SSAValue, coefficients: Mapping[int, float]) -> Polynomial:
    """The polynomial in one atom with these coefficients by power."""
    return {monomial({value: p}): c for p, c in coefficients.items()}


class Expansion:
    """Expands values down to those of `stop` and of other ops. `ops` collects the expanded ops,
    users before their operands."""

    def __init__(self, stop: Collection[SSAValue] = (), splats: bool = False) -> None:
        self.stop, self.splats = frozenset(stop), splats
        self.ops: dict[Operation, None] = {}
        self.steps = MOST_STEPS

    def of(self, value: SSAValue) -> Polynomial:
        """A value as a polynomial; an atom where that is impossible."""
        if value in self.stop:
            return {monomial({value: 1}): 1.0}
        if (number := self.number(value)) is not None:
            return {ONE: number} if number else {}
        op = value.owner
        if isinstance(op, POLYNOMIAL_OPS) and self.steps > 0:
            self.steps -= 1
            self.ops[op] = None
            result = self.expand(op)
            if result is not None and len(result) <= MOST_TERMS:
                if all(map(isfinite, result.values())):
                    return result
        return {monomial({value: 1}): 1.0}

    def uses_all(self, value: SSAValue, end: SSAValue) -> bool:
        """Return whether all uses of `value` lead to `end`, by the ops of this expansion."""
        stack, visited = [value], {value}
        while stack:
            for use in stack.pop().uses:
                if use.operation not in self.ops:
                    return False
                result = use.operation.results[0]
                if result is not end and result not in visited:
                    visited.add(result)
                    stack.append(result)
        return True

    def number(self, value: SSAValue) -> float | None:
        """The number that a value is (everywhere, if it has several elements), else None."""
        if not is_float(element_type(value)):
            return None
        number = number_of(value)
        if number is None or not isfinite(number):
            return None
        if self.splats or numel(shape_of(value)) == 1:
            return number
        return None

    def expand(self, op: Operation) -> Polynomial | None:
        """The polynomial that an op computes; None for other functions."""
        first, *rest = op.operands
        match op:
            case g.AddOp():
                return total(self.of(first), self.of(rest[0]))
            case g.SubOp():
                return total(self.of(first), self.of(rest[0]), -1)
            case g.MulOp():
                return product(self.of(first), self.of(rest[0]))
            case g.DivOp():
                return product(self.of(first), self.power(rest[0], -1))
            case g.NegOp():
                return total({}, self.of(first), -1)
            case g.ReciprocalOp():
                return self.power(first, -1)
            case g.SqrtOp():
                return self.power(first, 0.5)
            case _:
                exponent = number_of(rest[0])
                if exponent is None or not isfinite(exponent):
                    return None
                return self.power(first, exponent)

    def power(self, value: SSAValue, exponent: float) -> Polynomial:
        """value ^ exponent: expanded for 2, 3 and 4, by factor for integer exponents of products,
        else an atom."""
        whole = exponent == int(exponent)
        base = self.of(value) if whole else self.root(value)
        if len(base) == 1:
            ((key, factor),) = base.items()
            if (factor > 0 or whole) and abs(log2(abs(factor)) * exponent) < 1000:
                return {monomial({v: p * exponent for v, p in key}): factor**exponent}
        if exponent in (2, 3, 4) and len(base) ** exponent <= MOST_TERMS * 4:
            result = base
            for _ in range(int(exponent) - 1):
                result = product(result, base)
            return result
        return {monomial({value: exponent}): 1.0}

    def root(self, value: SSAValue) -> Polynomial:
        """The base of a fractional power: no product, as sqrt(x x) is not x, but the reciprocal of
        a value is its power -1."""
        if isinstance(value.owner, g.ReciprocalOp) and value not in self.stop:
            self.ops[value.owner] = None
            return {monomial({value.owner.input: -1}): 1.0}
        return {monomial({value: 1}): 1.0}


def element_tolerance(value: SSAValue) -> float:
    """The tolerance of coefficients: a few roundings to the value's element type."""
    return 4 * tolerance(element_type(value))


def atoms(polynomial: Polynomial) -> set[SSAValue]:
    return {v for m in polynomial for v, _ in m}


def reachable(value: SSAValue) -> list[SSAValue]:
    """The value and the nearest values that polynomial ops of its block compute from it."""
    reached = {value: None}
    front = [value]
    while front and len(reached) < MOST_REACHED:
        users = [use.operation for v in front for use in v.uses]
        block = value.owner if isinstance(value.owner, Block) else value.owner.parent
        front = [
            op.results[0] for op in users if isinstance(op, POLYNOMIAL_OPS) and op.parent is block
        ]
        reached.update(dict.fromkeys(front))
    return list(reached)


def inner_values(value: SSAValue, depth: int = 5) -> dict[SSAValue, None]:
    """A value and the values that it is computed from, without numbers."""
    values: dict[SSAValue, None] = {}
    front = [value]
    for _ in range(depth):
        deeper: list[SSAValue] = []
        for v in front:
            if v in values or number_of(v) is not None:
                continue
            values[v] = None
            if isinstance(v.owner, POLYNOMIAL_OPS):
                deeper.extend(v.owner.operands)
        front = deeper
    return values
