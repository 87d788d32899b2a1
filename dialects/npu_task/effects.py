"""What generic passes may know of launches and copies: which buffers they read and write. On
tensors they have no effects."""

from abc import ABC
from collections.abc import Iterator, Sequence, Set
from typing import ClassVar

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import traits_def
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind

from ge.dialects.support.operation import GeOp


class TouchesBuffers(MemoryEffect):
    """Reads and writes the buffers that the class names; a buffer that is a result is new."""

    @classmethod
    def get_effects(cls, op: Operation) -> Set[EffectInstance] | None:
        return set(_effects(op)) if isinstance(op, TouchingOp) else None


class TouchingOp(GeOp, ABC):
    """An op on buffers, and the names of its operands that it reads and writes."""

    TOUCHES: ClassVar[tuple[str, str]]
    traits = traits_def(TouchesBuffers())


def _effects(op: TouchingOp) -> Iterator[EffectInstance]:
    read, written = op.TOUCHES
    kinds = (
        (MemoryEffectKind.READ, _values(op, read)),
        (MemoryEffectKind.WRITE, _values(op, written)),
        (MemoryEffectKind.ALLOC, op.results),
    )
    for kind, values in kinds:
        yield from (EffectInstance(kind, v) for v in values if isinstance(v.type, MemRefType))


def _values(op: Operation, name: str) -> Sequence[SSAValue]:
    found: SSAValue | Sequence[SSAValue] = getattr(op, name) if name else ()
    return (found,) if isinstance(found, SSAValue) else found
