"""How fast a device computes and sends: what decides between ways to cut values.

Of shardings that are stated bytes matter, at the rate of the links: starts of collectives hide
behind other work, and merge. A search compares times of collectives with their starts
(`TimedRates`)."""

from dataclasses import dataclass, field

from xdsl.ir import Operation

from ge.dialects.support.boxes import Access, Work
from ge.dialects.support.mesh import Axis, Mesh, Sharding, is_in_time
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, element_type
from ge.dialects.targets.cluster import Cluster
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.collectives import cluster_of, moved_us, reduction_us
from ge.runtime.library.costs.cycles import peak_macs
from ge.runtime.library.costs.estimates import hbm_bytes_per_us
from ge.runtime.library.costs.moved import Moved
from ge.transforms.sharding.resharding import Step, elements, sent_by

NEVER = 1e-3  # bytes a second between microbatches, which send each other nothing


@dataclass(frozen=True, slots=True)
class Rates:
    """Peaks of a device of a mesh in a second: multiply-accumulates of f16, additions of elements
    of 16 bits, bytes of its memory, and those that it sends, by axes."""

    target: Target
    mesh: Mesh
    macs: float = field(init=False)
    vector: float = field(init=False)
    memory: float = field(init=False)
    _links: dict[tuple[Axis, ...], float] = field(
        init=False, default_factory=dict[tuple[Axis, ...], float]
    )
    _works: dict[TensorOp, Work | None] = field(
        init=False, default_factory=dict[TensorOp, Work | None]
    )
    _spreads: dict[tuple[Axis, ...], tuple[Cluster, tuple[int, ...]]] = field(
        init=False, default_factory=dict[tuple[Axis, ...], tuple[Cluster, tuple[int, ...]]]
    )

    def __post_init__(self) -> None:
        target, clock = self.target, self.target.clock_ghz * 1e9
        peaks = {
            "macs": target.cube_cores * target.macs_per_cycle["f16"] * clock,
            "vector": target.vector_cores * target.lanes * clock,
            "memory": hbm_bytes_per_us(target.cube_cores, target) * 1e6,
        }
        for name, rate in peaks.items():
            object.__setattr__(self, name, rate)

    def link(self, axes: tuple[Axis, ...]) -> float:
        """Bytes that a device sends to those that differ along axes, over all of its links at the
        slowest level between them. What crosses an outer level is taken to be the part of one
        device of the group below, as in a collective of two levels."""
        if is_in_time(axes):
            return NEVER
        if (rate := self._links.get(axes)) is None:
            cluster, spread = self.spread(axes)
            rate, inside = float("inf"), 1
            for level, n in zip(cluster.levels, spread, strict=True):
                rate = min(rate, inside * level.device_rate * 1e6) if n > 1 else rate
                inside *= n
            self._links[axes] = rate
        return rate

    def spread(self, axes: tuple[Axis, ...]) -> tuple[Cluster, tuple[int, ...]]:
        """The cluster, and the devices of a group along axes by its levels."""
        if (found := self._spreads.get(axes)) is None:
            cluster = cluster_of(self.target, self.mesh)
            found = self._spreads[axes] = cluster, cluster.spread(self.mesh, axes)
        return found

    def sending_s(self, step: Step, have: Sharding, shape: Shape, bits: int) -> float:
        """Return the time of a step without its start."""
        return sent_by(step, have, shape) * bits / 8 / self.link(step.axes)

    def work_s(self, op: TensorOp, parts: int, moved: float) -> float:
        """Return the time of one of some parts of an op, with the bytes that are read and written.
        Those of elementwise ops do not count: they are taken to be fused."""
        if op not in self._works:
            self._works[op] = op.work()
        if (work := self._works[op]) is None:
            return 0.0
        seconds = 0.0
        if work.macs:
            rate = peak_macs(element_type(op.operands[0]), self.target)
            seconds = work.macs * self.target.macs_per_cycle["f16"] / rate / self.macs / parts
        if op.ALWAYS_MACS or op.ACCESS is Access.ROWS:
            seconds = max(seconds, moved / self.memory)
        return seconds + work.vector / self.vector / parts

    def start_s(self, op: Operation, before: Operation | None) -> float:
        """The time of the start of an op's launch: none where it is likely to be a part of the one
        before it."""
        is_view = isinstance(op, TensorOp) and op.ACCESS is Access.VIEW
        if is_view or (before is not None and is_epilogue(op, before)):
            return 0.0
        kind = "cube" if isinstance(op, TensorOp) and op.ALWAYS_MACS else "vector"
        return (self.target.launch_us + self.target.kernel_start_us.get(kind, 0.0)) / 1e6

    def border_s(self, size: float) -> float:
        """Return the time of bytes that come from the host or go there."""
        return 0.0

    def summed_s(self, axes: tuple[Axis, ...], size: float) -> float:
        """Return the time in which devices that differ along axes add up so many bytes."""
        if is_in_time(axes):
            return size / NEVER
        cluster, spread = self.spread(axes)
        found = reduction_us("all_reduce", cluster, spread, size, self.target)
        return min(found.values()) / 1e6


def is_epilogue(op: Operation, before: Operation) -> bool:
    """Return whether an op computes on the elements of what the one before it gives."""
    is_pointwise = isinstance(op, TensorOp) and op.ACCESS is Access.POINTWISE
    return is_pointwise and any(v.owner is before for v in op.operands)


class TimedRates(Rates):
    """With the time of each collective as a whole, and of what the host gives or takes."""

    def border_s(self, size: float) -> float:
        return size / (self.target.host_link_gbs * 1e9)

    def sending_s(self, step: Step, have: Sharding, shape: Shape, bits: int) -> float:
        """Return the time of a step by the fastest algorithm."""
        if is_in_time(step.axes):
            return Rates.sending_s(self, step, have, shape, bits)
        cluster, spread = self.spread(step.axes)
        if step.op in ("all_to_all", "exchange"):
            moved = Moved(shape, have, step.to, bits)
            found = moved_us(moved, step.op == "all_to_all", cluster, self.mesh)
        else:
            size = elements(shape, step.to if step.op == "all_gather" else have) * bits / 8
            found = reduction_us(step.op, cluster, spread, size, self.target)
        return min(found.values()) / 1e6
