"""Which task made what another one reads: the dependencies that no schedule can do without.

Values flow through buffers. A task depends on the last tasks that wrote the elements that it reads;
views count as the part of their buffer that they are. That a buffer is written again while others
still read it, or that two buffers share bytes, orders tasks as well, but is the choice of who
planned the memory: it is not looked at here.
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

from xdsl.ir import SSAValue

from ge.dialects.npu_task.memory import ByteRegion, ByteRegions

T = TypeVar("T")


class Writers(Generic[T]):
    """Who wrote each part of each buffer last."""

    def __init__(self, regions: ByteRegions) -> None:
        self._writes: dict[SSAValue, list[tuple[ByteRegion, T]]] = {}
        self._regions = regions

    def of(self, values: Iterable[SSAValue]) -> list[T]:
        writers: dict[T, None] = {}
        for value in values:
            region = self._regions.of(value)
            for part, writer in self._writes.get(region.owner, ()):
                if region.meets(part):
                    writers[writer] = None
        return list(writers)

    def write(self, writer: T, values: Iterable[SSAValue]) -> None:
        for value in values:
            region = self._regions.of(value)
            older = self._writes.get(region.owner, ())
            rest = [w for w in older if not region.covers(w[0])]
            self._writes[region.owner] = [*rest, (region, writer)]
