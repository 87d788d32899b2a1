"""Index arithmetic of tile programs, for proofs: what ops of `arith` compute of integers."""

from collections.abc import Callable, Sequence


def stretches(dims: Sequence[tuple[range, int]]) -> list[tuple[int, int]]:
    """Where numbers exist along several dimensions seen as one: stretches from, count."""
    found, length = [(0, 1)], 1
    for exist, size in reversed(dims):
        if found == [(0, length)]:  # all so far: longer stretches
            found = [(exist.start * length, len(exist) * length)]
        else:
            found = [(i * length + at, count) for i in exist for at, count in found]
        length *= size
    return found


def compare(predicate: int, a: int, b: int) -> bool:
    """`arith.cmpi`, in the order of its predicates: eq, ne, slt, sle, sgt, sge, ult, ..."""
    return (a == b, a != b, a < b, a <= b, a > b, a >= b, a < b, a <= b, a > b, a >= b)[predicate]


def _quotient(a: int, b: int) -> int:
    """Rounded to zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _rest(a: int, b: int) -> int:
    """Of the sign of `a`."""
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def _quotient_up(a: int, b: int) -> int:
    return -(-a // b)


def _choice(condition: int, a: int, b: int) -> int:
    return a if condition else b


ARITHMETIC: dict[str, Callable[..., int]] = {
    "arith.addi": int.__add__,
    "arith.subi": int.__sub__,
    "arith.muli": int.__mul__,
    "arith.floordivsi": int.__floordiv__,
    "arith.ceildivsi": _quotient_up,
    "arith.divui": _quotient,
    "arith.divsi": _quotient,
    "arith.remui": _rest,
    "arith.remsi": _rest,
    "arith.minsi": min,
    "arith.minui": min,
    "arith.maxsi": max,
    "arith.maxui": max,
    "arith.select": _choice,
    "arith.andi": int.__and__,
    "arith.ori": int.__or__,
    "arith.xori": int.__xor__,
}
DIVISIONS = {name for name in ARITHMETIC if "div" in name or "rem" in name}
