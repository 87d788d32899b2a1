"""The bytes of a program's tasks that cross HBM: its buffers as places in memory, seen through
L2."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from xdsl.ir import Attribute, BlockArgument, SSAValue

from ge.dialects.fused_op import Body, FusedOp
from ge.dialects.npu_task.attributes import HOST
from ge.dialects.npu_task.memory import ByteRegions
from ge.dialects.npu_task.ops import KernelOp, SlotOp
from ge.dialects.support.types import byte_size
from ge.runtime.library.costs.l2 import AddressRange, L2Cache


class Moved(NamedTuple):
    """The effect of L2 on an access: `hits` bytes that need not be read from HBM, and `evicted`
    bytes that are written to HBM meanwhile."""

    hits: int
    evicted: int
    parts: tuple[int, ...] = ()  # those of each operand


class _Access(NamedTuple):
    place: AddressRange
    size: int


class Accesses(NamedTuple):
    """The accesses of a task: places that it reads with the bytes of each (no place: nothing of the
    device), and places that it writes, with bytes, and whether these are somewhere in there."""

    reads: Sequence[tuple[AddressRange | None, int]]
    writes: Sequence[tuple[AddressRange, int, bool]] = ()


class Traffic:
    """The accesses of a program's tasks, in the order in which they are issued."""

    def __init__(self, l2_bytes: int, regions: ByteRegions) -> None:
        self.regions = regions
        self.cache = L2Cache(l2_bytes)
        self._accesses: dict[SSAValue, _Access | None] = {}
        self._segments: dict[SSAValue, int] = {}

    def launch(
        self, ins: Sequence[SSAValue], reads: Iterable[tuple[int, int]],
        outs: Sequence[SSAValue], writes: Sequence[int],
    ) -> Accesses:  # fmt: skip
        """`writes`: bytes of each output, where it lies in an input's memory."""
        inside = [self._access(v) for v in ins]
        read: list[tuple[AddressRange | None, int]] = []
        for i, size in reads:
            access = inside[i]
            read.append((None, 0) if access is None else (access.place, min(size, access.size)))
        written: list[tuple[AddressRange, int, bool]] = []
        for value, size in zip(outs, writes, strict=True):
            if (access := self._access(value)) is not None:
                is_part = access in inside and size < access.size
                written.append((access.place, size if is_part else access.size, is_part))
        return Accesses(read, written)

    def copy(self, source: SSAValue, target: SSAValue) -> Accesses:
        read, written = self._access(source), self._access(target)
        return Accesses(
            [] if read is None else [(read.place, read.size)],
            [] if written is None else [(written.place, written.size, False)],
        )

    def transfer(self, target: SSAValue) -> None:
        """Something else than a core writes a buffer, past L2."""
        if (access := self._access(target)) is not None:
            self.cache.forget(access.place)

    def moved(self, accesses: Accesses) -> Moved:
        """The effect of L2 on a task, which is issued now."""
        before, hits = self.cache.written_back, list[int]()
        for place, size in accesses.reads:
            hits.append(0 if place is None else size - self.cache.read(place, size))
        for place, size, is_part in accesses.writes:
            (self.cache.write_part if is_part else self.cache.write)(place, size)
        return Moved(sum(hits), self.cache.written_back - before, tuple(hits))

    def _access(self, value: SSAValue) -> _Access | None:
        """Place and bytes of a buffer or view; None if it is not on the device, or its shape is not
        known."""
        if value not in self._accesses:
            self._accesses[value] = self._find(value)
        return self._accesses[value]

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
        return _Access(AddressRange(where, base + region.low, base + region.high), size)


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
