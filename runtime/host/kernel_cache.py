"""Where the host finds the tiling of a kernel again instead of choosing it anew.

A cache has a few slots, which are filled one after the other, round-robin; a search begins at the
slot of the last hit. An operation looks into its own (local) cache first, then into the global one
of its kind of kernel, and puts what it finds or chooses into both. The key is the kernel, its
element types and all sizes but those that are known to change from call to call: a tiling is an
expression of these, so that another length is written into it (`patched`), not chosen again.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum

from ge.runtime.host.options import DEFAULTS


class Found(StrEnum):
    """Where the tiling of a kernel came from."""

    LOCAL = "local"
    GLOBAL = "global"
    MISS = "miss"


@dataclass(frozen=True, slots=True)
class Lookup:
    """Where a tiling was found, if it was."""

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
        """Whether the key is there, and whether with other sizes (which take their place)."""
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
    """What the caches of a host have in common: their sizes, and the global ones by kind."""

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
