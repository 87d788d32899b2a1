"""Kernels of what devices send each other. Each device of a program calls them on its own part; the
`Member` that is at hand there says which device it is, and reaches the others.

Sums are made of parts, each on one device of a group, in the order of the devices' numbers, of
16-bit floats in f32, and rounded once (rule D18): all devices have the same bits, whatever carries
them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from ge.dialects.graph import collectives as c
from ge.dialects.graph.acknowledge import AcknowledgeOp
from ge.dialects.graph.sharding import AxisIndexOp, ShardOp, StageOp
from ge.dialects.graph.transfers import Transfers, needs_of, slices
from ge.dialects.support.context import at_hand
from ge.dialects.support.errors import GeError
from ge.dialects.support.mesh import Axis, Mesh
from ge.dialects.support.types import Shape, shape_of
from ge.runtime.data.arrays import Array, rounded, widen
from ge.runtime.numbers import Fn, array_kernel, kernel


class Peers(Protocol):
    """The other devices, for one of them."""

    def swap(
        self,
        what: str,
        group: Sequence[int],
        sends: Mapping[int, Array],
        wants: Mapping[int, Shape],
        like: Array,
    ) -> AbstractContextManager[Mapping[int, Array]]:
        """Send arrays to devices of a group; the arrays that come from others, by device, of the
        shapes that are wanted and the type of `like`, good inside of the `with` block. All of the
        group call it for the same `what`. Raises GeError where one does not."""
        ...


class LatePeers(Protocol):
    """Other devices that may read late what one has brought to a collective."""

    def acknowledge(self) -> None:
        """Wait until they have read it."""
        ...


@dataclass(frozen=True)
class Member:
    """A device of a mesh, and the others."""

    mesh: Mesh
    device: int
    peers: Peers | None = None
    late: LatePeers | None = None

    @staticmethod
    def here(what: str) -> "Member":
        member = at_hand(Member)
        if member is None:
            raise GeError(f"{what} is computed on a device of a mesh alone")
        return member

    def swap(
        self,
        what: str,
        group: Sequence[int],
        sends: Mapping[int, Array],
        wants: Mapping[int, Shape],
        like: Array,
    ) -> AbstractContextManager[Mapping[int, Array]]:
        if len(group) < 2:
            return nullcontext({})
        if self.peers is None:
            raise GeError(f"{what} has no other devices here")
        return self.peers.swap(what, group, sends, wants, like)


def text_of(op: c.Collective) -> str:
    """Describe a collective: the same on all devices that are to meet there."""
    axes = ", ".join(axis_name(a) for a in op.group())
    kind = f" {op.kind.data}" if isinstance(op, c.AllReduceOp | c.ReduceScatterOp) else ""
    return f"{op.name}{kind} of {op.input.type} over {axes or 'no axis'}"


def axis_name(axis: Axis) -> str:
    return f"{axis.name}={axis.size}" if axis.pre == 1 else f"{axis.name}:({axis.pre}){axis.size}"


# ---- sums --------------------------------------------------------------------------------------

COMBINED: dict[str, Callable[..., Array]] = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "prod": np.multiply,
}


def combined(kind: str, arrays: Sequence[Array]) -> Array:
    """The sum (or what `kind` says) of arrays, in order."""
    total = widen(arrays[0]).copy()
    for array in arrays[1:]:
        COMBINED[kind](total, widen(array), out=total)
    return rounded(total, arrays[0].dtype)


def sum_of_own(
    member: Member, what: str, group: Sequence[int], kind: str, pieces: Sequence[Array]
) -> Array:
    """The sum of the pieces that are meant for this device, by the numbers of devices; all pieces
    are for the group, in its order."""
    here = group.index(member.device)
    sends = {d: p for d, p in zip(group, pieces, strict=True) if d != member.device}
    wants = {d: pieces[here].shape for d in sends}
    with member.swap(what, group, sends, wants, pieces[here]) as found:
        return combined(kind, [found.get(d, pieces[here]) for d in sorted(group)])


@kernel(c.AllReduceOp)
def all_reduce(op: c.AllReduceOp) -> Fn:
    what, axes, kind = text_of(op), op.axes.data, str(op.kind.data)

    def run(x: Array) -> Array:
        member = Member.here(what)
        group = member.mesh.group(axes, member.device)
        if member.late is not None:  # all that others read is this: the same bits
            return sum_of_own(member, what, group, kind, [x] * len(group))
        flat = x.reshape(-1)
        ends = [flat.size * i // len(group) for i in range(len(group) + 1)]
        pieces = [flat[a:b] for a, b in pairwise(ends)]
        own = sum_of_own(member, what, group, kind, pieces)
        shapes = {d: p.shape for d, p in zip(group, pieces, strict=True)}
        return gathered(member, what, group, own, shapes, 0).reshape(x.shape)

    return run


def gathered(
    member: Member, what: str, group: Sequence[int], own: Array, shapes: Mapping[int, Shape],
    dim: int,
) -> Array:  # fmt: skip
    """The arrays of all devices of a group, one after the other."""
    others = [d for d in group if d != member.device]
    wants = {d: shapes[d] for d in others}
    with member.swap(what, group, dict.fromkeys(others, own), wants, own) as found:
        return np.concatenate([found.get(d, own) for d in group], axis=dim)


@kernel(c.AllGatherOp)
def all_gather(op: c.AllGatherOp) -> Fn:
    what, axes, dim = text_of(op), op.axes.data, op.dim.value.data

    def run(x: Array) -> Array:
        member = Member.here(what)
        group = member.mesh.group(axes, member.device)
        shapes = dict.fromkeys(group, x.shape)
        return gathered(member, what, group, x, shapes, dim)

    return run


@kernel(c.ReduceScatterOp)
def reduce_scatter(op: c.ReduceScatterOp) -> Fn:
    what, axes, kind, dim = text_of(op), op.axes.data, str(op.kind.data), op.dim.value.data

    def run(x: Array) -> Array:
        member = Member.here(what)
        group = member.mesh.group(axes, member.device)
        return sum_of_own(member, what, group, kind, np.split(x, len(group), axis=dim))

    return run


# ---- boxes -------------------------------------------------------------------------------------


def moved(transfers: Transfers, what: str, member: Member, x: Array, result: Array) -> Array:
    """The result, with the boxes of all devices that this one gets some of."""
    own, device = transfers.own, transfers.device
    sends = {d: x[slices(box, own)] for d, box in transfers.sends.items() if d != device}
    wants = {d: tuple(n for _, n in b) for d, b in transfers.gets.items() if d != device}
    with member.swap(what, transfers.group, sends, wants, x) as found:
        for d, box in transfers.gets.items():
            part = x[slices(box, own)] if d == device else found[d]
            result[slices(box, transfers.need)] = part
    return result


@kernel(c.AllToAllOp, c.ExchangeOp)
def exchange(op: c.AllToAllOp | c.ExchangeOp) -> Fn:
    what, has, whole, needs = text_of(op), op.has.data, op.whole, needs_of(op)
    shape = shape_of(op.result)
    fill = op.fill.value.data if isinstance(op, c.ExchangeOp) and op.fill is not None else 0
    known: dict[tuple[Mesh, int], Transfers] = {}

    def run(x: Array, onto: Array | None = None) -> Array:
        member = Member.here(what)
        key = member.mesh, member.device
        if (transfers := known.get(key)) is None:
            transfers = known[key] = Transfers(*key, whole, has, needs)
        result = np.full(shape, fill, x.dtype) if onto is None else onto.copy()
        return moved(transfers, what, member, x, result)

    return run


# ---- without others ----------------------------------------------------------------------------


@kernel(AxisIndexOp)
def axis_index(op: AxisIndexOp) -> Fn:
    axes = op.axes.data

    def run() -> Array:
        member = Member.here(op.name)
        return np.array(member.mesh.index(axes, member.device), np.int64)

    return run


@array_kernel(AcknowledgeOp)
def acknowledge(*_: Array) -> tuple[Array, ...]:
    """Nothing to wait for where collectives end when what they have read is read."""
    member = at_hand(Member)
    if member is not None and member.late is not None:
        member.late.acknowledge()
    return ()


@array_kernel(ShardOp, StageOp)
def shard(x: Array) -> Array:
    return x
