"""What calls on one device share: streams, rings of tiling buffers, and workspace."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import Array
from ge.runtime.data.npz import require_memory
from ge.runtime.device.memory import Bytes
from ge.runtime.host.options import DEFAULTS

ALIGNMENT = 512
TILING_BYTES = 10240  # of a kernel: ATB's default


@dataclass(frozen=True, slots=True)
class Workspace:
    """Bytes for tensors between operations."""

    bytes: Bytes

    @property
    def size(self) -> int:
        return self.bytes.size

    def array(self, offset: int, dtype: str, shape: tuple[int, ...]) -> Array:
        kind = np.dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        return self.bytes[offset : offset + size].view(kind).reshape(shape)

    def after(self, offset: int) -> "Workspace":
        return Workspace(self.bytes[offset:])


@dataclass(slots=True)
class Ring:
    """Blocks that are taken one after the other, the oldest again when all are taken."""

    blocks: int
    holders: list[Hashable] = field(default_factory=list[Hashable])
    _next: int = 0

    def __post_init__(self) -> None:
        if type(self.blocks) is not int or self.blocks < 1:
            raise GeError(f"a ring has at least one block, not {self.blocks!r}")
        self.holders = [None] * self.blocks

    def take(self, holder: Hashable) -> int:
        block, self._next = self._next, (self._next + 1) % self.blocks
        self.holders[block] = holder
        return block

    def find(self, holder: Hashable) -> int | None:
        """The block that still holds what was written for somebody; the ring does not go on."""
        return self.holders.index(holder) if holder in self.holders else None


class Recorder(ABC):
    """Takes what is issued to a stream instead of the device."""

    @abstractmethod
    def called(self, pack: Any) -> None: ...

    @abstractmethod
    def record(self, operation: Any, pack: Any, run: Callable[[Any], None]) -> None: ...


@dataclass(slots=True, eq=False)
class Stream:
    """A queue of the device; a `recorder` takes what is issued to it while it is captured."""

    number: int
    recorder: Recorder | None = None


class Context:
    """What is issued goes to the `current` stream. `workspace` grows to the most that a call asked
    for; all calls share it, since they run one after the other."""

    def __init__(self, streams: int = 1, ring_blocks: int = DEFAULTS.ring_blocks) -> None:
        if type(streams) is not int or streams < 1:
            raise GeError(f"a context has at least one stream, not {streams!r}")
        self.streams = [Stream(i) for i in range(streams)]
        self.current = self.streams[0]
        self.tilings = Ring(ring_blocks)
        self.grown = 0  # how often the workspace was made larger
        self._workspace: Bytes = np.empty(0, np.uint8)

    def stream(self, number: int) -> Stream:
        if type(number) is not int or not 0 <= number < len(self.streams):
            raise GeError(f"there is no stream {number!r}, the context has {len(self.streams)}")
        return self.streams[number]

    def workspace(self, size: int) -> Workspace:
        """At least so many bytes, aligned as the device wants it."""
        if size > self._workspace.size:
            self._refuse_in_capture("the workspace grows")
            require_memory(size, "the workspace")
            self.grown += 1
            self._workspace = np.empty(-(-size // ALIGNMENT) * ALIGNMENT, np.uint8)
        return Workspace(self._workspace)

    def synchronize(self) -> None:
        """Wait for all that was issued; the emulated device is never late."""
        self._refuse_in_capture("the host waits for the device")

    def issue(self, operation: Any, pack: Any, run: Callable[[Any], None]) -> None:
        """Run a launch on the current stream, or have it recorded there."""
        if self.current.recorder is None:
            run(pack)
        else:
            self.current.recorder.record(operation, pack, run)

    def _refuse_in_capture(self, what: str) -> None:
        for stream in self.streams:
            if stream.recorder is not None:
                raise GeError(
                    f"{what} while stream {stream.number} is captured",
                    hint="do that before the capture",
                )
