"""What buffers a program has, found out without writing it.

The function that writes it runs with a tracer whose programs have blocks, and no ops. So one of
several cuts is chosen in a fraction of the time that writing it takes.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from xdsl.ir import Operation, SSAValue

from ge.dialects.support.operation import block_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.buffers import allocated_bytes
from ge.dialects.tile.instruction import Instruction
from ge.dialects.tile.types import Memory, RingType, TileType
from ge.runtime.library.language import values as v
from ge.runtime.library.language.arith import INDEX
from ge.runtime.library.language.indices import Scalar
from ge.runtime.library.language.sides import Side
from ge.runtime.library.language.tracing import Tracer


class Full(Exception):
    """A memory of the core has no room for what a sketch has in it."""


class SketchedSide(Side):
    """A program that has buffers only, of which nothing but their bytes is known. With `limited`
    the first one for which there is no room raises Full."""

    def __init__(self, room: Mapping[str, int], limited: bool) -> None:
        super().__init__()
        self.is_empty = True
        self.room, self.limited = room, limited
        self.left: dict[Memory, int] = {}
        self.any_number = block_of([INDEX]).args[0]

    def add(self, kind: Callable[..., Operation], *args: Any, **more: Any) -> None:
        self.is_empty &= not (isinstance(kind, type) and issubclass(kind, Instruction))

    def alloc(self, type: TileType | RingType) -> SSAValue:
        memory = type.space
        left = self.left.get(memory, self.room[memory]) - allocated_bytes(type)
        self.left[memory] = left
        if left < 0 and self.limited:
            raise Full
        return self.any_number

    def value(self, key: Any, kind: Callable[..., Operation], *args: Any) -> SSAValue:
        return self.any_number

    def once(self, key: Any, kind: Callable[..., Operation], *args: Any) -> SSAValue:
        return self.any_number

    def index(self, number: Scalar) -> SSAValue:
        return self.any_number

    @contextmanager
    def at(self, level: int) -> Generator[None]:
        with self.aside_from(level + 1):
            yield


class Sketch(Tracer):
    """What a kernel calls `c`, when it is only asked for its buffers."""

    def __init__(
        self,
        arguments: Sequence[v.Argument],
        target: Target,
        limited: bool = False,
    ) -> None:
        room = target.core_memories
        self.drawn = SketchedSide(room, limited), SketchedSide(room, limited)
        super().__init__(arguments, target, *self.drawn)

    @property
    def bytes_left(self) -> dict[Memory, int]:
        """Of each memory that there are buffers in: the bytes that are free."""
        return {m: n for side in self.drawn if not side.is_empty for m, n in side.left.items()}

    def check_room(self, tile: TileType, copies: int) -> None:
        pass  # what does not fit is told by the bytes that are left

    def map(self, target: v.Tile, value: v.Expression) -> None:
        self.vector.add(Instruction)
        self._inputs(value, set())

    def _inputs(self, value: v.Value, seen: set[v.Expression]) -> None:
        """The tiles that a `tile.map` reads: those that are not there are buffers of their own."""
        if not isinstance(value, v.Expression) or value in seen:
            return
        seen.add(value)
        match value:
            case v.Apply() | v.Copied():
                for arg in value.args:
                    self._inputs(arg, seen)
            case v.Cast():
                self._inputs(value.arg, seen)
            case v.Number():
                pass
            case _:
                self.tile_of(value)
