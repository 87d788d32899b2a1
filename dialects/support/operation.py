"""The base of all ops of ge: an xDSL op with a fast `isinstance` (not through ABCMeta), `__hash__`
and `has_trait`, which compilation calls millions of times."""

from abc import ABCMeta
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import TypeVar, cast

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Operation, Region
from xdsl.irdl import IRDLOperation
from xdsl.traits import OpTrait

Trait = TypeVar("Trait", bound=OpTrait)


class OpClass(ABCMeta):
    """Op classes do not ask `register` and `__subclasshook__` of abstract base classes."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


class GeOp(IRDLOperation, metaclass=OpClass):
    """The base: see the top of this file."""

    __eq__ = object.__eq__  # pyright: ignore[reportAssignmentType]
    __hash__ = object.__hash__

    @property
    def is_unread(self) -> bool:
        """Whether there is a text of its regions, whose ops are made when they are asked for."""
        return False

    @classmethod
    def get_trait(cls, trait: type[Trait] | Trait) -> Trait | None:
        return cast("Trait | None", _trait(cls, trait))


@cache
def _trait(kind: type[GeOp], trait: type[OpTrait] | OpTrait) -> OpTrait | None:
    return super(GeOp, kind).get_trait(trait)


def regions_of(op: Operation) -> tuple[Region, ...]:
    """The regions of an op, but for those that are unread."""
    return () if isinstance(op, GeOp) and op.is_unread else op.regions


def walk(op: Operation) -> Iterator[Operation]:
    """The op and all ops in it, but for those that are unread."""
    yield op
    for region in regions_of(op):
        for block in region.blocks:
            for inner in block.ops:
                yield from walk(inner)


@lru_cache(maxsize=4096)
def segments(*sizes: int) -> DenseArrayBase:
    return DenseArrayBase.from_list(i32, sizes)
