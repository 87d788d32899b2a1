"""Values that become cut in another way: how many bytes each device sends each other one.

What a device sends a peer is the product over the dimensions of a value of the elements along each
that the one has and the other needs. Along a dimension that depends on a few digits of the peer's
place (`digits.py`), along two seldom on the same. So what goes over a link of a cluster, to all
peers behind it, is a product of sums over few digits: 1,024 peers are not looked at one by one."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import lcm, prod
from typing import NamedTuple

import numpy as np

from ge.dialects.graph.collectives import AllToAllOp, ExchangeOp, Needed, OfWhole
from ge.dialects.graph.transfers import some_devices
from ge.dialects.support.digits import all_digits
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.mesh import Axis, Mesh, Sharding
from ge.dialects.support.types import Shape, element_type
from ge.dialects.targets.cluster import Cluster

Axes = tuple[Axis, ...]


class Messages(NamedTuple):
    """What devices send over the links of one level of a cluster, [devices, links]: how far away
    the peers are in the level, how many messages go to them, and the bytes of these."""

    offsets: np.ndarray
    counts: np.ndarray
    sizes: np.ndarray


class Digit(NamedTuple):
    """A digit of a peer's place: how far apart devices are that differ by one in it, and the number
    of the level of a cluster whose links lie between them."""

    weight: int
    axis: Axis
    level: int


Digits = frozenset[Digit]


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
    def group(self) -> Axes:
        """The axes along which those differ that send each other something."""
        return tuple(dict.fromkeys(self.has.axes))

    def sends(self, mesh: Mesh) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return devices, for each the others of its group, and the bytes that it sends to each of
        these. Devices in the middle of an axis send as much as their neighbours, so that a few of
        each axis are enough. Where the mesh states which device is where, neighbours may be
        anywhere: these are all."""
        numbers, mesh = np.array(mesh.order), mesh.by_place
        devices = np.arange(len(numbers))[:, None]
        if not len(numbers):
            devices = _devices(mesh, {a.name for a in self.group})
        first = devices.copy()  # of each group
        for axis in self.group:
            first -= _places(axis, mesh, devices) * mesh.weight(axis)
        peers = first + np.array(mesh.group(self.group, 0))
        sent = self.shared(mesh, devices, peers) * (peers != devices)
        sizes = (sent * self.bits + 7) // 8
        if not len(numbers):
            return devices[:, 0], peers, sizes
        return numbers[devices[:, 0]], numbers[peers], sizes

    def shared(self, mesh: Mesh, devices: np.ndarray, peers: np.ndarray) -> np.ndarray:
        """Return how many elements devices [n, 1] have that their peers [n, m] need."""
        found = np.ones(peers.shape, dtype=np.int64)
        for (first, end), (low, high) in zip(
            spans_of(self.has, self.whole, mesh, devices),
            spans_of(self.needs, self.whole, mesh, peers),
            strict=True,
        ):
            found *= np.maximum(np.minimum(end, high) - np.maximum(first, low), 0)
        return found

    def messages(self, mesh: Mesh, cluster: Cluster) -> list[Messages]:
        """Return for each level of a cluster what the devices of `sends` send over its links; none
        where each has all that there is."""
        if not self.group:
            return []
        digits = Digits() if mesh.order else _digits(mesh, self.group, cluster.blocks)
        if not digits or self.bits % 8:  # the bytes of each message are rounded
            return by_level(cluster, *self.sends(mesh))
        names, scale = frozenset(a.name for a in self.group), self.bits // 8
        tables = list[list[Messages]]()
        for dims, own in self._parts(mesh, digits):
            if own or self._is_cut(dims):
                part, times = self._along(dims)
                tables.append(_table(part, own, names, mesh, cluster.blocks))
            else:
                times = prod([self.whole[k] for k in dims])
            scale *= times
        found = list[Messages]()
        for first, *others in zip(*tables, strict=True):
            offsets, counts, sizes = first
            for more in others:
                offsets = _pairs(np.add, offsets, more.offsets)
                counts = _pairs(np.multiply, counts, more.counts)
                sizes = _pairs(np.multiply, sizes, more.sizes)
            away = offsets != 0  # else the peers are nearer: those of a level further inside
            found.append(Messages(offsets, counts * away, sizes * away * scale))
        return found

    def _parts(self, mesh: Mesh, digits: Digits) -> list[tuple[list[int], Digits]]:
        """Return the dimensions along which what a peer needs depends on the same digits of its
        place, with these; at last none, with the digits on which nothing depends."""
        parts, free = list[tuple[list[int], Digits]](), digits
        for k in range(len(self.whole)):
            dims, own = [k], _known(self._needed(k), digits, mesh)
            for part in [p for p in parts if not own.isdisjoint(p[1])] if own else ():
                parts.remove(part)
                dims, own = [*part[0], *dims], own | part[1]
            parts.append((dims, own))
            free -= own
        return [*parts, ([], free)]

    def _needed(self, k: int) -> Axes:
        """The axes on which it depends what a device needs along a dimension."""
        if isinstance(self.needs, Sharding):
            return self.needs.dims[k]
        return tuple([axis for axis, _ in self.needs.spans[k][0].terms])

    def _is_cut(self, dims: list[int]) -> bool:
        """Tell whether devices have, or need, different elements along some dimensions."""
        if isinstance(self.needs, Needed):
            return bool(dims)
        return any([self.has.dims[k] or self.needs.dims[k] for k in dims])

    def _along(self, dims: list[int]) -> tuple["Moved", int]:
        """Return what moves along some dimensions, and how many of it: those that are cut evenly
        are alike, whatever their sizes."""
        has = Sharding(tuple([self.has.dims[k] for k in dims]))
        whole, times = [self.whole[k] for k in dims], 1
        if isinstance(self.needs, Needed):
            boxes = Needed(tuple([self.needs.spans[k] for k in dims]))
            return Moved(tuple(whole), has, boxes, 8), times
        needs = Sharding(tuple([self.needs.dims[k] for k in dims]))
        for i, cuts in enumerate(zip(has.dims, needs.dims, strict=True)):
            parts = lcm(*(prod([a.size for a in own]) for own in cuts))
            if whole[i] % parts == 0:
                whole[i], times = parts, times * (whole[i] // parts)
        return Moved(tuple(whole), has, needs, 8), times


def by_level(
    cluster: Cluster, devices: np.ndarray, peers: np.ndarray, sizes: np.ndarray
) -> list[Messages]:
    """Return what devices send over the links of each level of a cluster, from the bytes for each
    of their peers [devices, peers]."""
    found, left, inner = list[Messages](), sizes > 0, 1
    rows = np.arange(len(devices))[:, None]
    for level, block in zip(cluster.levels, cluster.blocks, strict=True):
        here = left
        if level is not cluster.levels[-1]:
            here = left & (devices[:, None] // block == peers // block)
        left = left & ~here
        away = (peers // inner - devices[:, None] // inner) % level.devices
        links, count = rows * level.devices + away, len(devices) * level.devices
        counts, sent = (
            np.bincount(links.ravel(), some.ravel(), count).reshape(len(devices), -1)
            for some in (here, here * sizes)
        )
        found.append(Messages(np.arange(level.devices)[None], counts, sent))
        inner = block
    return found


@lru_cache(maxsize=256)
def _digits(mesh: Mesh, group: Axes, blocks: tuple[int, ...]) -> Digits:
    """Return the digits of a place in a group; none where a level of a cluster, of which each joins
    a block of devices, ends within one."""
    axes = all_digits([mesh.resolved(a) for a in group])
    found, after = set[Digit](), 1
    for weight, axis in sorted((mesh.weight(a), a) for a in axes):
        end, inner = weight * axis.size, [b for b in blocks[:-1] if b < mesh.count]
        if weight % after or any(weight % b and b % end for b in inner):
            return frozenset()
        found.add(Digit(weight, axis, sum(weight >= b for b in inner)))
        after = end
    return frozenset(found)


@lru_cache(maxsize=1024)
def _known(axes: Axes, digits: Digits, mesh: Mesh) -> Digits:
    """Return the digits on which the places along some axes depend."""
    own = [mesh.resolved(a) for a in axes]
    return frozenset(d for d in digits if any(_meet(d.axis, a) for a in own))


@lru_cache(maxsize=1024)
def _table(
    moved: Moved, digits: Digits, names: frozenset[str], mesh: Mesh, blocks: tuple[int, ...]
) -> list[Messages]:
    """Return by level what devices share with peers that differ in some digits: with those that are
    in the same block of each level further out, and together with all behind the same link."""
    devices, major = _devices(mesh, names), sorted(digits, reverse=True)
    first, steps = devices, np.zeros(1, dtype=np.int64)
    for weight, axis, _ in major:
        first = first - devices // weight % axis.size * weight
        steps = np.add.outer(steps, np.arange(axis.size) * weight).ravel()
    peers = first + steps
    sizes = moved.shared(mesh, devices, peers)
    left, found = [peers, sizes > 0, sizes], list[Messages]()
    for level, inner in reversed([*enumerate((1, *blocks[:-1]))]):
        links = prod([d.axis.size for d in major if d.level == level])
        peers, counts, sizes = left = [some.reshape(len(devices), links, -1) for some in left]
        offsets = peers[:, :, 0] // inner - devices // inner
        found.append(Messages(offsets, counts.sum(axis=2), sizes.sum(axis=2)))
        own = np.arange(len(devices)), (offsets == 0).argmax(axis=1)
        left = [some[own] for some in left]
    return found[::-1]


def _pairs(of: np.ufunc, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return for each device a number of each two of its links in two tables."""
    return of(a[:, :, None], b[:, None, :]).reshape(len(a), -1)


def _devices(mesh: Mesh, names: Iterable[str]) -> np.ndarray:
    return np.array(list(some_devices(mesh, names)))[:, None]


def _meet(a: Axis, b: Axis) -> bool:
    """Tell whether the place along one axis says something of that along another."""
    return a.name == b.name and b.pre % (a.pre * a.size) != 0 and a.pre % (b.pre * b.size) != 0


def _places(axis: Axis, mesh: Mesh, devices: np.ndarray) -> np.ndarray:
    return devices // mesh.weight(axis) % mesh.resolved(axis).size


def spans_of(
    boxes: Sharding | Needed, whole: Shape, mesh: Mesh, devices: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield along each dimension of a value the first element of the boxes of some devices, and the
    one behind the last."""

    if isinstance(boxes, Needed):
        for place, size in boxes.spans:
            first = sum(
                (_places(axis, mesh, devices) * by for axis, by in place.terms),
                np.array(place.constant),
            )
            yield first, first + size
        return
    for own, dim, size in zip(boxes.dims, whole, boxes.local_shape(whole), strict=True):
        number = np.array(0)
        for axis in own:
            number = number * mesh.resolved(axis).size + _places(axis, mesh, devices)
        yield number * size, np.minimum((number + 1) * size, dim)
