"""Names of dimensions, and the sizes that they may have. A name may be an expression of others, as
exporters write them: the size of `past + 1` follows from that of `past`, `2*batch` from `batch`."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache


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


OPERATIONS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)
LONGEST = 200  # characters of a name that is looked at


@cache
def expression(name: str) -> ast.expr | None:
    """The sum or product that a name is; None for a plain name, or anything else."""
    try:
        body = ast.parse(name.strip()[: LONGEST + 1], mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    nodes = [n for n in ast.walk(body) if not isinstance(n, ast.expr_context)]
    known = all(
        isinstance(n, (ast.BinOp, ast.Name, *OPERATIONS))
        or (isinstance(n, ast.Constant) and type(n.value) is int)
        for n in nodes
    )
    return body if known and isinstance(body, ast.BinOp) and len(name) <= LONGEST else None


def symbols(name: str) -> tuple[str, ...]:
    """The names that the size of a dimension follows from: its own, unless it is an expression."""
    body = expression(name)
    if body is None:
        return (name,)
    return tuple(dict.fromkeys(n.id for n in ast.walk(body) if isinstance(n, ast.Name)))


def size_of(name: str, sizes: Mapping[str, int]) -> int | None:
    """The size of a dimension where those of its symbols, or its own, are known."""
    if name in sizes:
        return sizes[name]
    body = expression(name)
    return None if body is None else _value(body, sizes)


def _value(node: ast.expr, sizes: Mapping[str, int]) -> int | None:
    if isinstance(node, ast.Name):
        return sizes.get(node.id)
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int) else None
    assert isinstance(node, ast.BinOp)
    a, b = _value(node.left, sizes), _value(node.right, sizes)
    if a is None or b is None:
        return None
    match node.op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case _:
            return a // b if b else None
