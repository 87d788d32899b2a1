"""The boxes that devices send each other where a collective says how a value is cut before and
after."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from ge.dialects.graph.collectives import (
    AllGatherOp,
    AllReduceOp,
    AllToAllOp,
    Collective,
    ExchangeOp,
    OfWhole,
)
from ge.dialects.support.element_types import storage_bytes
from ge.dialects.support.mesh import Mesh, Sharding
from ge.dialects.support.types import Shape, byte_size, element_type, is_dynamic

Spans = Sequence[tuple[int, int]]  # first element and size along each dimension


def common(a: Spans, b: Spans) -> list[tuple[int, int]] | None:
    """The elements that two boxes both have, None where there are none."""
    spans: list[tuple[int, int]] = []
    for (first, size), (other, length) in zip(a, b, strict=True):
        start, end = max(first, other), min(first + size, other + length)
        if end <= start:
            return None
        spans.append((start, end - start))
    return spans


def slices(box: Spans, within: Spans) -> tuple[slice, ...]:
    """The index of a box in an array that holds another box from its first element on."""
    starts = [a - b for (a, _), (b, _) in zip(box, within, strict=True)]
    return tuple(slice(s, s + n) for s, (_, n) in zip(starts, box, strict=True))


@dataclass(frozen=True)
class Transfers:
    """What one device has to send whom, so that each gets its box of a value. Those that have a
    part are the devices that differ along the axes of its sharding, so a device gets each element
    from the one that is nearest."""

    mesh: Mesh
    device: int
    whole: Shape
    has: Sharding
    needs: Callable[[Mesh, int], Spans]

    @cached_property
    def group(self) -> list[int]:
        return self.mesh.group(tuple(dict.fromkeys(self.has.axes)), self.device)

    @cached_property
    def own(self) -> Spans:
        return self.has.box(self.whole, self.mesh, self.device)

    @cached_property
    def need(self) -> Spans:
        return self.needs(self.mesh, self.device)

    @cached_property
    def sends(self) -> dict[int, Spans]:
        """The box for each device, this one too."""
        boxes = {d: common(self.own, self.needs(self.mesh, d)) for d in self.group}
        return {d: box for d, box in boxes.items() if box is not None}

    @cached_property
    def gets(self) -> dict[int, Spans]:
        """The box from each device, this one too."""
        parts = {d: self.has.box(self.whole, self.mesh, d) for d in self.group}
        boxes = {d: common(part, self.need) for d, part in parts.items()}
        return {d: box for d, box in boxes.items() if box is not None}


def needs_of(op: OfWhole) -> Callable[[Mesh, int], Spans]:
    """The box of the whole that each device gets."""
    if isinstance(op, ExchangeOp):
        return op.needs.data.box
    assert isinstance(op, AllToAllOp)
    to, whole = op.to.data, op.whole
    return lambda mesh, device: to.box(whole, mesh, device)


def some_devices(mesh: Mesh, names: Iterable[str]) -> Iterator[int]:
    """Yield the devices at the first places, one in the middle and the last places of some axes, at
    the first place of others: those between are like their neighbours."""
    known = set(names)
    places = [
        sorted({0, 1, d // 2, d - 2, d - 1} & set(range(d))) if name in known else [0]
        for name, d in mesh.axes
    ]
    for place in product(*places):
        number = 0
        for (_, size), at in zip(mesh.axes, place, strict=True):
            number = number * size + at
        yield mesh.device_at(number)


def received_bytes(op: Collective, mesh: Mesh) -> int:
    """The bytes that a device gets from others, at most, by the algorithm that moves fewest; 0 for
    values whose size is not known."""
    if is_dynamic(op.input.type) or is_dynamic(op.result.type):
        return 0
    if isinstance(op, OfWhole):
        has, needs, whole = op.has.data, needs_of(op), [(0, size) for size in op.whole]
        found = 0
        for device in some_devices(mesh, mesh.sizes):
            need, own = needs(mesh, device), has.box(op.whole, mesh, device)
            found = max(found, elements(common(need, whole)) - elements(common(need, own)))
        return storage_bytes(found, element_type(op.input))
    devices = mesh.parts(op.group())
    size = byte_size((op.result if isinstance(op, AllGatherOp) else op.input).type)
    return (1 + isinstance(op, AllReduceOp)) * (devices - 1) * size // devices


def elements(box: Spans | None) -> int:
    return 0 if box is None else prod(n for _, n in box)
