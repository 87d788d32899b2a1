"""Values and their parts on the devices of a mesh."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Attribute

from ge.dialects.graph.sharding import sharding_of, whole_shape
from ge.dialects.graph.transfers import slices
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.mesh import Mesh, Sharding
from ge.dialects.support.types import DYNAMIC, Shape, is_static
from ge.runtime.data.arrays import Array, kind_of


@dataclass(frozen=True)
class Spread:
    """How an argument or result of one device's program is cut: the shapes of the whole and of a
    part, and the sharding. Sizes of dimensions that are not cut may be unknown."""

    whole: Shape
    local: Shape
    sharding: Sharding

    @classmethod
    def of(cls, t: Attribute, table: Mapping[str, Attribute], mesh: Mesh) -> "Spread":
        _, local = data_type(t)
        sharding = sharding_of(table)
        if sharding is None:
            return cls(local, local, Sharding.whole(len(local)))
        return cls(whole_shape(table, local), local, sharding.resolved(mesh))

    def part(self, array: Array, mesh: Mesh, device: int, poison: bool = False) -> Array:
        """The part of a device, of its full size: what lies behind the end means nothing."""
        if not any(self.sharding.dims):  # whose sizes may be unknown
            return np.ascontiguousarray(array).reshape(array.shape)
        self = self.sized(array.shape)
        box = self.sharding.box(self.whole, mesh, device)
        own = array[slices(box, [(0, 0)] * len(box))]
        if own.shape == self.local:
            return np.ascontiguousarray(own).reshape(own.shape)  # which it makes a row of a scalar
        nothing = np.nan if poison and kind_of(array.dtype) == "f" else 0
        part = np.full(self.local, nothing, array.dtype)
        part[tuple(slice(0, n) for _, n in box)] = own
        return part

    def sized(self, shape: Shape) -> "Spread":
        """The same with the sizes that are unknown taken from an array, whole or a part."""
        if is_static(self.whole):
            return self
        whole, local = (
            tuple(n if d == DYNAMIC else d for d, n in zip(own, shape, strict=True))
            for own in (self.whole, self.local)
        )
        return Spread(whole, local, self.sharding)

    @property
    def is_everywhere(self) -> bool:
        """True if each device has the whole."""
        return not any(self.sharding.dims)

    def owners(self, mesh: Mesh) -> list[int]:
        """The devices whose parts make up the whole, each the first one that has its part."""
        first = dict[tuple[tuple[int, int], ...], int]()
        for device in range(mesh.count):
            first.setdefault(tuple(self.sharding.box(self.whole, mesh, device)), device)
        return list(first.values())

    def own(self, whole: Array, mesh: Mesh, device: int) -> Array | None:
        """Return what a device has of a whole value, without elements that mean nothing."""
        box = self.sharding.box(self.sized(whole.shape).whole, mesh, device)
        spans = zip(box, whole.shape, strict=True)
        return whole[tuple(slice(first, min(first + n, size)) for (first, n), size in spans)]

    def joined(self, parts: Sequence[Array], mesh: Mesh) -> Array:
        """The whole value; of equal parts that of the first device."""
        if not any(self.sharding.dims):
            return parts[0]
        self = self.sized(parts[0].shape)
        whole, seen = np.empty(self.whole, parts[0].dtype), set[tuple[tuple[int, int], ...]]()
        for device, part in enumerate(parts):
            box = tuple(self.sharding.box(self.whole, mesh, device))
            if box not in seen:
                seen.add(box)
                own = part[tuple(slice(0, n) for _, n in box)]
                whole[slices(box, [(0, 0)] * len(box))] = own
        return whole
