"""State shared by the calls on one device: streams, rings of tiling buffers, workspace, and the
tilings of kernels that are reused instead of being chosen anew.

A cache of tilings has a few slots, which are filled one after the other, round-robin; a search
begins at the slot of the last hit. An operation looks into its own (local) cache first, then into
the global one of its kind of kernel, and puts what it finds or chooses into both. The key is the
kernel, its element types and all sizes but those that are known to change from call to call: a
tiling is an expression of these, so that another length is written into it (`patched`), not chosen
again."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import Array
from ge.runtime.data.npz import require_memory
from ge.runtime.device.memory import Bytes
from ge.runtime.host.schedule import DEFAULTS

if TYPE_CHECKING:
    from ge.runtime.host.operation import CapturedGraph

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
        """The block that still holds the data written for somebody; the ring does not go on."""
        return self.holders.index(holder) if holder in self.holders else None


@dataclass(slots=True, eq=False)
class Stream:
    """A queue of the device; a `recorder` takes the work that is issued to it while it is
    captured."""

    number: int
    recorder: "CapturedGraph | None" = None


class Context:
    """State shared by calls: work is issued to the `current` stream. `workspace` grows to the most
    that a call asked for; all calls share it, since they run one after the other."""

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
        """A workspace of at least so many bytes, aligned as the device wants it."""
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


class Found(StrEnum):
    """The source of the tiling of a kernel."""

    LOCAL = "local"
    GLOBAL = "global"
    MISS = "miss"


@dataclass(frozen=True, slots=True)
class Lookup:
    """The result of a search for a tiling."""

    found: Found
    patched: bool = False  # another length had to be written into it


@dataclass(slots=True)
class KernelCache:
    slots: int
    _keys: list[Hashable] = field(default_factory=list[Hashable])
    _sizes: list[Hashable] = field(default_factory=list[Hashable])
    _last: int = 0
    _next: int = 0

    def find(self, key: Hashable, sizes: Hashable) -> Lookup | None:
        """Look the key up: None if it is not there; otherwise it says whether it had other sizes,
        which are replaced."""
        count = len(self._keys)
        for i in (*range(self._last, count), *range(min(self._last, count))):
            if self._keys[i] == key:
                patched = self._sizes[i] != sizes
                self._last, self._sizes[i] = i, sizes
                return Lookup(Found.LOCAL, patched)
        return None

    def put(self, key: Hashable, sizes: Hashable) -> None:
        if len(self._keys) < self.slots:
            self._keys.append(key)
            self._sizes.append(sizes)
        elif self.slots:
            self._keys[self._next], self._sizes[self._next] = key, sizes
        self._last = self._next
        self._next = (self._next + 1) % max(self.slots, 1)


@dataclass
class KernelCaches:
    """State shared by the caches of a host: their sizes, and the global ones by kind."""

    local_slots: int = DEFAULTS.local_slots
    global_slots: int = DEFAULTS.global_slots
    by_kind: dict[str, KernelCache] = field(default_factory=dict[str, KernelCache])

    def local(self) -> KernelCache:
        return KernelCache(self.local_slots)

    def find(self, local: KernelCache, kind: str, key: Hashable, sizes: Hashable) -> Lookup:
        shared = self.by_kind.setdefault(kind, KernelCache(self.global_slots))
        if (found := local.find(key, sizes)) is not None:
            return found
        if (found := shared.find(key, sizes)) is not None:
            local.put(key, sizes)
            return Lookup(Found.GLOBAL, found.patched)
        local.put(key, sizes)
        shared.put(key, sizes)
        return Lookup(Found.MISS)
