"""Meshes of devices, and how values are cut over them, as Shardy and GSPMD have it.

    dp=2, tp=4                  a mesh of 8 devices; device 5 is at dp 1, tp 1 (row-major)
    [{"dp"}, {"tp":(1)2, ?}]    dimension 0 in 2 parts by dp; dimension 1 in 2 parts by the major
                                digit of tp; `?`: it may be cut further, in Shardy
    unreduced<max>={"tp"}       the greatest of all parts along tp is the value

A mesh may state the number of the device at each of its places, row-major (Shardy's device_ids);
else device n is at place n. All else asks `Mesh` for coordinates, digits and groups of a device.

Axes of a dimension are ordered from major to minor. Parts are of ceil(size / parts) elements: the
last ones have fewer, or none, and elements behind them that mean nothing.

Sub-axes: `"tp":(2)2` is a digit of the coordinate along tp: tp = pre x size x rest, and the digit
is the coordinate / rest % size."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import NamedTuple, TypeAlias

Shape: TypeAlias = tuple[int, ...]  # as in `types.py`, which needs xDSL

SUM = "sum"

MICROBATCH = "microbatch"  # the first axis of a pipeline's mesh: parts of the batch, in time


class Axis(NamedTuple):
    """An axis of a mesh, or a sub-axis of it: a digit of `size` values behind one of `pre` values.
    The size is 0 for a whole axis in a text that does not say the mesh."""

    name: str
    pre: int = 1
    size: int = 0


def is_in_time(axes: Iterable[Axis]) -> bool:
    """Return whether some of these axes lie in time: microbatches are no devices."""
    return any(axis.name == MICROBATCH for axis in axes)


@dataclass(frozen=True)
class Mesh:
    """The sizes of the axes of a mesh, in order: the last one counts fastest. `order` has the
    number of the device at each place, () for the same numbers. Where the first axis is in time,
    places and devices of microbatch m are numbered on from m x (number of devices), in the same
    order."""

    axes: tuple[tuple[str, int], ...]
    order: tuple[int, ...] = ()

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        return dict(self.axes)

    @property
    def count(self) -> int:
        return prod(self.sizes.values())

    @cached_property
    def devices(self) -> "Mesh":
        """The mesh without the axis that is in time."""
        return Mesh(tuple(axis for axis in self.axes if axis[0] != MICROBATCH), self.order)

    @cached_property
    def by_place(self) -> "Mesh":
        """The mesh in which each device has the number of its place."""
        return Mesh(self.axes) if self.order else self

    @cached_property
    def _places(self) -> tuple[int, ...]:
        return tuple(sorted(range(len(self.order)), key=self.order.__getitem__))

    def place(self, device: int) -> int:
        """The place of a device, row-major."""
        if not self.order:
            return device
        at = device % len(self.order)
        return device - at + self._places[at]

    def device_at(self, place: int) -> int:
        """The number of the device at a place."""
        if not self.order:
            return place
        at = place % len(self.order)
        return place - at + self.order[at]

    def resolved(self, axis: Axis) -> Axis:
        """The axis with its size. Raises KeyError for one that the mesh lacks."""
        return axis if axis.size else axis._replace(size=self.sizes[axis.name])

    def is_whole(self, axis: Axis) -> bool:
        return axis.pre == 1 and axis.size in (0, self.sizes[axis.name])

    def coordinates(self, device: int) -> dict[str, int]:
        found, place = dict[str, int](), self.place(device)
        for name, size in reversed(self.axes):
            found[name], place = place % size, place // size
        return found

    def weight(self, axis: Axis) -> int:
        """Return how far apart places are that differ by one along an axis or a sub-axis."""
        axis = self.resolved(axis)
        names = list(self.sizes)
        behind = names[names.index(axis.name) :]
        return prod(self.sizes[name] for name in behind) // (axis.pre * axis.size)

    def digit(self, axis: Axis, device: int) -> int:
        """The place of a device along an axis or a sub-axis."""
        return self.place(device) // self.weight(axis) % self.resolved(axis).size

    def index(self, axes: Iterable[Axis], device: int) -> int:
        """The number of a device among those that differ along some axes, from major to minor."""
        number = 0
        for axis in axes:
            number = number * self.resolved(axis).size + self.digit(axis, device)
        return number

    def parts(self, axes: Iterable[Axis]) -> int:
        return prod(self.resolved(a).size for a in axes)

    def group(self, axes: Sequence[Axis], device: int) -> list[int]:
        """The devices that differ from this one along some axes alone, in their order there."""
        found = [self.place(device) - sum(self.digit(a, device) * self.weight(a) for a in axes)]
        for axis in map(self.resolved, axes):
            weight = self.weight(axis)
            found = [first + i * weight for first in found for i in range(axis.size)]
        return [*map(self.device_at, found)] if self.order else found


@dataclass(frozen=True, slots=True)
class Sharding:
    """How a value is cut: for each dimension the axes, major to minor. Dimensions that are `open`
    may get more axes in Shardy; here they are cut as stated. The parts along `unreduced` axes are
    still to be combined by `kind`."""

    dims: tuple[tuple[Axis, ...], ...]
    open: frozenset[int] = frozenset()
    replicated: frozenset[Axis] = frozenset()
    unreduced: tuple[Axis, ...] = ()
    kind: str = SUM

    @classmethod
    def whole(cls, rank: int) -> "Sharding":
        return cls(((),) * rank)

    @property
    def axes(self) -> Iterator[Axis]:
        for own in self.dims:
            yield from own

    @property
    def is_whole(self) -> bool:
        return not any(self.dims) and not self.unreduced

    def resolved(self, mesh: Mesh) -> "Sharding":
        """This sharding with the size of each axis. Raises KeyError for one that the mesh lacks."""
        dims = tuple(tuple(map(mesh.resolved, own)) for own in self.dims)
        unreduced = tuple(map(mesh.resolved, self.unreduced))
        replicated = frozenset(map(mesh.resolved, self.replicated))
        return replace(self, dims=dims, unreduced=unreduced, replicated=replicated)

    def local_shape(self, shape: Shape) -> Shape:
        """The shape of a part; of resolved axes."""
        pairs = zip(shape, self.dims, strict=True)
        return tuple([-(-d // prod([a.size for a in own])) if own else d for d, own in pairs])

    def box(self, shape: Shape, mesh: Mesh, device: int) -> list[tuple[int, int]]:
        """First element and size along each dimension of what a device has of a value: less than
        a part at the ends of values that do not divide."""
        spans: list[tuple[int, int]] = []
        for own, dim, size in zip(self.dims, shape, self.local_shape(shape), strict=True):
            first = min(mesh.index(own, device) * size, dim)
            spans.append((first, min(size, dim - first)))
        return spans
