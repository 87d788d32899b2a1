"""Sizes as sums of products of dimensions: 256 * batch * past + 256 * batch."""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import gcd

from ge.dialects.support.dims import parsed


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
        body = parsed(name)
        return None if body is None else _read(body, relations or {})

    @property
    def number(self) -> int | None:
        """What it is where it has no atoms."""
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
        """By a positive number."""
        if all(factor % number == 0 for _, factor in self.terms):
            return Polynomial(tuple((a, f // number) for a, f in self.terms), self.is_bound)
        if self.number is not None:
            return Polynomial.of(self.number // number)
        text = str(self) if len(self.terms) == 1 and self.terms[0][1] > 0 else f"({self})"
        return Polynomial((((f"({text} // {number})",), 1),), self.is_bound)

    def divided(self, other: "Polynomial") -> "Polynomial | None":
        """Rounded down, by what is positive: a number, or a product of atoms that each term has;
        None for anything else."""
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
        """As Python writes it."""
        text = ""
        for atoms, factor in sorted(self.terms, key=lambda term: term[1] < 0):
            sign = "-" if factor < 0 else "+"
            text += f" {sign} " if text else "0 - " * (factor < 0)
            shown = (str(abs(factor)),) if abs(factor) != 1 or not atoms else ()
            text += " * ".join((*shown, *atoms))
        return text or "0"


def _read(node: ast.expr, relations: Mapping[str, Polynomial]) -> Polynomial | None:
    match node:
        case ast.Constant(int(number)):
            return Polynomial.of(number)
        case ast.BinOp(left, op, right):
            a, b = _read(left, relations), _read(right, relations)
            if a is None or b is None:
                return None
            if isinstance(op, ast.FloorDiv):
                return a // b.number if b.number else None
            if isinstance(op, ast.Mult):
                return a * b
            return a + (b if isinstance(op, ast.Add) else b * -1)
        case _:
            name = ast.unparse(node)
            return relations.get(name, Polynomial((((name,), 1),)))


def _polynomial(terms: Iterable[tuple[tuple[str, ...], int]], is_bound: bool) -> Polynomial:
    factors: dict[tuple[str, ...], int] = {}
    for atoms, factor in terms:
        atoms = tuple(sorted(atoms))
        factors[atoms] = factors.get(atoms, 0) + factor
    ordered = sorted(factors.items(), key=lambda term: (-len(term[0]), term[0]))
    return Polynomial(tuple((a, f) for a, f in ordered if f), is_bound)
