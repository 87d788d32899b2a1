"""The base of all ops of ge: an xDSL op that is cheap to ask.

xDSL's classes are abstract base classes, so that `isinstance` runs Python code for each op that is
no instance, dictionaries call a `__hash__` written in Python, and each question about a trait walks
a list. Compilation asks these things millions of times.
"""

from abc import ABCMeta
from functools import cache, lru_cache
from typing import TypeVar, cast

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.irdl import IRDLOperation
from xdsl.traits import OpTrait

Trait = TypeVar("Trait", bound=OpTrait)


class OpClass(ABCMeta):
    """Class of op classes: an op is an instance of its class and of that class's bases alone."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


class GeOp(IRDLOperation, metaclass=OpClass):
    """Base of all ops of ge."""

    __eq__ = object.__eq__  # pyright: ignore[reportAssignmentType]
    __hash__ = object.__hash__

    @classmethod
    def get_trait(cls, trait: type[Trait] | Trait) -> Trait | None:
        return cast("Trait | None", _trait(cls, trait))


@cache
def _trait(kind: type[GeOp], trait: type[OpTrait] | OpTrait) -> OpTrait | None:
    return super(GeOp, kind).get_trait(trait)


@lru_cache(maxsize=4096)
def segments(*sizes: int) -> DenseArrayBase:
    """How many operands belong to each of an op's groups."""
    return DenseArrayBase.from_list(i32, sizes)
