"""A quicker start of the commands: methods of dataclasses are compiled when they are first called.

A command imports some 650 dataclasses of ge and xDSL, and the standard library compiles the text of
three to eight methods for each: 0.15 s of 0.45 s, for methods most of which are never called. From
Python 3.13 on it compiles those of a class together, and is left as it is."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import FunctionType
from typing import Any

PACKAGES = ("ge.", "xdsl.")  # classes of others are made as ever

MAKER = "_create_fn"  # of dataclasses: compiles the text of a method


def compile_methods_late() -> None:
    """Let dataclasses that are defined from now on compile each method at its first call."""
    make = getattr(dataclasses, MAKER, None)
    if isinstance(make, FunctionType) and make is not late:
        _makers.append(make)
        setattr(dataclasses, MAKER, late)


_makers: list[Callable[..., Any]] = []


def late(
    name: str, *text: Any, globals: Mapping[str, Any] | None = None, **more: Any
) -> Callable[..., Any]:
    """Return what the standard library would make, or a method that compiles it, and takes its
    place in the class, at the first call."""
    make = partial(_makers[0], name, *text, globals=globals, **more)
    if not str((globals or {}).get("__name__")).startswith(PACKAGES):
        return make()
    made = cache(make)

    def method(self: Any, *args: Any, **given: Any) -> Any:
        made().__qualname__ = method.__qualname__
        for kind in type(self).__mro__:
            if vars(kind).get(name) is method:
                type.__setattr__(kind, name, made())
        return made()(self, *args, **given)

    method.__name__ = name
    return method
