"""The ops and attributes that the modules of a dialect define."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation


def _defined(kind: type, modules: Sequence[ModuleType]) -> list[Any]:
    return [
        c
        for m in modules
        for c in vars(m).values()
        # cheap tests first, and no `issubclass`, which asks all subclasses of an abstract class:
        # this runs at the start of every tool
        if isinstance(c, type)
        and c.__module__ == m.__name__
        and "name" in vars(c)
        and kind in c.__mro__
    ]


def ops_of(*modules: ModuleType) -> list[type[Operation]]:
    return _defined(IRDLOperation, modules)


def attributes_of(*modules: ModuleType) -> list[type[Attribute]]:
    return _defined(Attribute, modules)
