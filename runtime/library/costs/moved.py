"""Values that become cut in another way: how many bytes each device sends each other one."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ge.dialects.graph.collectives import AllToAllOp, ExchangeOp, Needed, OfWhole
from ge.dialects.graph.transfers import some_devices
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.mesh import Axis, Mesh, Sharding
from ge.dialects.support.types import Shape, element_type


@dataclass(frozen=True, slots=True)
class Moved:
    """A value of which a device has its part, and gets a box: its part in another way, or any."""

    whole: Shape
    has: Sharding
    needs: Sharding | Needed
    bits: int  # of an element

    @classmethod
    def by(cls, op: OfWhole) -> "Moved":
        if isinstance(op, ExchangeOp):
            needs = op.needs.data
        else:
            assert isinstance(op, AllToAllOp)
            needs = op.to.data
        return cls(op.whole, op.has.data, needs, bitwidth(element_type(op.input)))

    @property
    def group(self) -> tuple[Axis, ...]:
        """The axes along which those differ that send each other something."""
        return tuple(dict.fromkeys(self.has.axes))

    def sends(self, mesh: Mesh) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return devices, for each the others of its group, and the bytes that it sends to each of
        these. Devices in the middle of an axis send as much as their neighbours, so that a few of
        each axis are enough."""
        devices = np.array(list(some_devices(mesh, {a.name for a in self.group})))
        first = devices.copy()  # of each group
        for axis in self.group:
            weight = mesh.weight(axis)
            first -= devices // weight % mesh.resolved(axis).size * weight
        peers = first[:, None] + np.array(mesh.group(self.group, 0))
        sent = np.array(peers != devices[:, None], dtype=np.int64)
        for (first, end), (low, high) in zip(
            spans_of(self.has, self.whole, mesh, devices[:, None]),
            spans_of(self.needs, self.whole, mesh, peers),
            strict=True,
        ):
            sent *= np.maximum(np.minimum(end, high) - np.maximum(first, low), 0)
        return devices, peers, (sent * self.bits + 7) // 8


def spans_of(
    boxes: Sharding | Needed, whole: Shape, mesh: Mesh, devices: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield along each dimension of a value the first element of the boxes of some devices, and the
    one behind the last."""

    def digits(axis: Axis) -> np.ndarray:
        return devices // mesh.weight(axis) % mesh.resolved(axis).size

    if isinstance(boxes, Needed):
        for place, size in boxes.spans:
            first = sum((digits(axis) * by for axis, by in place.terms), np.array(place.constant))
            yield first, first + size
        return
    for own, dim, size in zip(boxes.dims, whole, boxes.local_shape(whole), strict=True):
        number = np.array(0)
        for axis in own:
            number = number * mesh.resolved(axis).size + digits(axis)
        yield number * size, np.minimum((number + 1) * size, dim)
