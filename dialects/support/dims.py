"""Names of dimensions, and the sizes that they may have. A name may be an expression of others, as
exporters write them: the size of `past + 1` follows from that of `past`, `2*batch` from `batch`.
So are the bytes of a tensor: `256 * batch * past + 256 * batch`."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

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
    """Whether it is a name, or a sum or product of names and numbers."""
    return len(text) <= LONGEST and (body := parsed(text)) is not None and any(_leaves(body))


def size_of(name: str, sizes: Mapping[str, int]) -> int | None:
    """The size of a dimension where those of its symbols, or its own, are known."""
    if name in sizes:
        return sizes[name]
    body = expression(name)
    return None if body is None else _value(body, sizes)


def value_of(text: str, sizes: Mapping[str, int]) -> int | None:
    """The value of an expression where the sizes of its symbols are known."""
    body = parsed(text)
    return None if body is None else _value(body, sizes)


def _value(node: ast.expr, sizes: Mapping[str, int]) -> int | None:
    if (name := _symbol(node)) is not None:
        return sizes.get(name)
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


def most(text: str, ranges: Mapping[str, Range]) -> int | None:
    """A number that no value of an expression is above, where sizes are in these ranges; None where
    there is none."""
    body = parsed(text)
    ends = None if body is None else _ends(body, ranges)
    return None if ends is None else ends[1]


def _ends(node: ast.expr, ranges: Mapping[str, Range]) -> tuple[int, int] | None:
    """The least and the largest value, or beyond: each use of a symbol counts for itself."""
    if (name := _symbol(node)) is not None:
        known = ranges.get(name)
        return None if known is None or known.most is None else (known.least, known.most)
    if isinstance(node, ast.Constant):
        return (node.value, node.value) if isinstance(node.value, int) else None
    assert isinstance(node, ast.BinOp)
    a, b = _ends(node.left, ranges), _ends(node.right, ranges)
    if a is None or b is None:
        return None
    match node.op:
        case ast.Add():
            return a[0] + b[0], a[1] + b[1]
        case ast.Sub():
            return a[0] - b[1], a[1] - b[0]
        case ast.Mult():
            values = [x * y for x in a for y in b]
        case _:
            if b[0] <= 0:
                return None
            values = [x // y for x in a for y in b]
    return min(values), max(values)
