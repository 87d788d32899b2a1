"""Which bytes of a program's tasks cross HBM: its buffers as places in memory, seen through L2."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from xdsl.ir import Attribute, BlockArgument, SSAValue

from ge.dialects.fused_op import Body, FusedOp
from ge.dialects.npu_task.attributes import HOST
from ge.dialects.npu_task.memory import ByteRegions
from ge.dialects.npu_task.ops import KernelOp, SlotOp
from ge.dialects.support.types import byte_size
from ge.runtime.clock.l2 import AddressRange, L2Cache


class Moved(NamedTuple):
    """What L2 makes of an access: `hits` bytes that need not be read from HBM, and `evicted`
    bytes that are written to HBM meanwhile."""

    hits: int
    evicted: int
    parts: tuple[int, ...] = ()  # those of each operand


@dataclass(slots=True, eq=False)
class _Access:
    """An access to a place; there is one for all that are equal."""

    place: AddressRange
    size: int


_NEW = object()


class Traffic:
    """The accesses of a program's tasks, in the order in which they are issued."""

    def __init__(self, l2_bytes: int, regions: ByteRegions) -> None:
        self.regions = regions
        self.cache = L2Cache(l2_bytes)
        self._accesses: dict[SSAValue, _Access | None] = {}
        self._segments: dict[SSAValue, int] = {}
        self._known: dict[Hashable, _Access] = {}

    def launch(
        self, ins: Sequence[SSAValue], reads: Iterable[tuple[int, int]],
        outs: Sequence[SSAValue], writes: Sequence[int],
    ) -> Moved:  # fmt: skip
        """`writes`: bytes of each output, where it lies in an input's memory."""
        inside = [self._access(v) for v in ins]
        pairs = zip(outs, writes, strict=True)
        parts = {v: size for v, size in pairs if self._access(v) in inside}
        return self._moved([(ins[i], size) for i, size in reads], outs, parts)

    def copy(self, source: SSAValue, target: SSAValue) -> Moved:
        access = self._access(source)
        return self._moved([(source, access.size)] if access else [], [target], {})

    def transfer(self, target: SSAValue) -> None:
        """Something else than a core writes a buffer, past L2."""
        if (access := self._access(target)) is not None:
            self.cache.forget(access.place)

    def _moved(
        self, reads: Iterable[tuple[SSAValue, int]], writes: Iterable[SSAValue],
        parts: Mapping[SSAValue, int],
    ) -> Moved:  # fmt: skip
        before, hits = self.cache.written_back, list[int]()
        for value, size in reads:
            hits.append(0)
            if (access := self._access(value)) is not None:
                size = min(size, access.size)
                hits[-1] = size - self.cache.read(access.place, size)
        for value in writes:
            if (access := self._access(value)) is None:
                continue
            if (size := parts.get(value, access.size)) < access.size:
                self.cache.write_part(access.place, size)
            else:
                self.cache.write(access.place, access.size)
        return Moved(sum(hits), self.cache.written_back - before, tuple(hits))

    def _access(self, value: SSAValue) -> _Access | None:
        """Where a buffer or view is, and its bytes; None for what is not on the device, and for
        what has a shape that is not known."""
        access = self._accesses.get(value, _NEW)
        if access is _NEW:
            access = self._accesses[value] = self._find(value)
        return cast("_Access | None", access)

    def _find(self, value: SSAValue) -> _Access | None:
        kind: Attribute = value.type
        if getattr(kind, "memory_space", HOST) == HOST:
            return None
        region = self.regions.of(value)
        buffer = region.owner
        try:
            size = byte_size(kind)
        except ValueError:
            return None
        base, segment = 0, self._segments.setdefault(buffer, len(self._segments))
        where: int | str = segment
        if isinstance(buffer.owner, SlotOp):
            base, where = buffer.owner.offset.value.data, buffer.owner.segment.data
        low, high = base + region.low, base + region.high
        new = _Access(AddressRange(where, low, high), size)
        return self._known.setdefault((where, low, high, size), new)


def bytes_read(kernel: KernelOp) -> Iterable[tuple[int, int]]:
    """Index and bytes of the operands of a launch that the kernel reads from memory. Raises
    ValueError for a dynamic shape."""
    main = kernel.main
    body = Body.of(main)
    sizes = body.bytes_read()
    operands = main.operands if isinstance(main, FusedOp) else body.inputs
    for operand, inside in zip(operands, body.inputs, strict=True):
        if isinstance(operand, BlockArgument):
            yield operand.index, sizes[inside]
