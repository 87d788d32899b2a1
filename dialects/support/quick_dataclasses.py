"""Dataclasses that are made in a fraction of the time, in processes of ge's own commands.

Python 3.11 writes a text for each method of a dataclass, and compiles it: six for a frozen one. ge
and xDSL have 560 of them, which took a fifth of a compilation. Here all methods but `__init__` are
closures that do the same. Whoever imports ge keeps Python's own: that is not ours to change.
"""

import dataclasses
import operator
import sys
from collections.abc import Callable, Sequence
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any

Field = dataclasses.Field[Any]
Method = Callable[..., Any]

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def make_quickly() -> None:
    """From now on. Other versions of Python write methods in another way."""
    if sys.version_info[:2] == (3, 11):
        for function in (_frozen_get_del_attr, _cmp_fn, _hash_fn, _repr_fn):
            setattr(dataclasses, function.__name__, function)


def values_of(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda own: ()
    values = attrgetter(*names)
    return values if len(names) > 1 else lambda own: (values(own),)


# ---- as `dataclasses` calls them -------------------------------------------------------------


def _frozen_get_del_attr(
    cls: type, fields: Sequence[Field], globals: dict[str, Any]
) -> tuple[Method, Method]:
    names, error = frozenset([f.name for f in fields]), dataclasses.FrozenInstanceError

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise error(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise error(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


def _cmp_fn(
    name: str, op: str, self_tuple: str, other_tuple: str, globals: dict[str, Any]
) -> Method:
    """`self_tuple`: `(self.x,self.y,)`."""
    names = [part.removeprefix("self.") for part in self_tuple.strip("()").split(",") if part]
    values, compare = values_of(names), COMPARISONS[op]

    def method(self: Any, other: Any) -> Any:
        if other.__class__ is self.__class__:
            return compare(values(self), values(other))
        return NotImplemented

    method.__name__ = name
    return method


def _hash_fn(fields: Sequence[Field], globals: dict[str, Any]) -> Method:
    values = values_of([f.name for f in fields])

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _repr_fn(fields: Sequence[Field], globals: dict[str, Any]) -> Method:
    names = [f.name for f in fields]

    @recursive_repr()
    def __repr__(self: Any) -> str:
        texts = [f"{name}={getattr(self, name)!r}" for name in names]
        return f"{self.__class__.__qualname__}({', '.join(texts)})"

    return __repr__
